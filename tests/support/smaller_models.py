"""Making an ONNX model smaller as long as it fails in the same way.

Outputs and nodes are dropped, nodes give way to their inputs, values become inputs.
"""

# pyright: basic
from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence

import onnx


def reduced(
    model: onnx.ModelProto, fails: Callable[[onnx.ModelProto], bool], seconds: float = 60.0
) -> onnx.ModelProto:
    """The smallest model found on which the same fails."""
    until, progress = time.monotonic() + seconds, True
    while progress and time.monotonic() < until:
        progress = False
        for candidate in _smaller(model):
            if time.monotonic() > until:
                break
            if fails(candidate):
                model, progress = candidate, True
                break
    return model


def _smaller(model: onnx.ModelProto) -> Iterator[onnx.ModelProto]:
    """Models with something less, those with much less first."""
    count = len(model.graph.output)
    for index in range(count if count > 1 else 0):
        candidate = _copy(model)
        kept = candidate.graph.output[index]
        one = onnx.ValueInfoProto()
        one.CopyFrom(kept)
        del candidate.graph.output[:]
        candidate.graph.output.append(one)
        yield _without_dead(candidate)
    types = _types(model)
    yield from _cut(model, types)
    yield from _bypassed(model, types)


def _cut(
    model: onnx.ModelProto, types: dict[str, onnx.ValueInfoProto]
) -> Iterator[onnx.ModelProto]:
    """A value in the middle becomes an input, or an output in place of what follows."""
    results = {output.name for output in model.graph.output}
    for node in reversed(model.graph.node):
        for name in node.output:
            if name not in types or name in results:
                continue
            candidate = _copy(model)
            for other in candidate.graph.node:
                names = ["" if n == name else n for n in other.output]
                if names != list(other.output) and any(names):
                    break  # one of several results
                if names != list(other.output):
                    candidate.graph.node.remove(other)
                    candidate.graph.input.append(types[name])
                    yield _without_dead(candidate)
                    break
    for node in model.graph.node:
        for name in node.output:
            if name in types and name not in results:
                candidate = _copy(model)
                del candidate.graph.output[:]
                candidate.graph.output.append(types[name])
                yield _without_dead(candidate)


def _bypassed(
    model: onnx.ModelProto, types: dict[str, onnx.ValueInfoProto]
) -> Iterator[onnx.ModelProto]:
    """A node gives way to one of its inputs of the same type."""
    results = {output.name for output in model.graph.output}
    for index, node in enumerate(model.graph.node):
        if len(node.output) != 1 or node.output[0] in results or node.output[0] not in types:
            continue
        kind = types[node.output[0]].type
        for name in dict.fromkeys(node.input):
            if name in types and types[name].type == kind:
                candidate = _copy(model)
                old = candidate.graph.node[index].output[0]
                del candidate.graph.node[index]
                for other in candidate.graph.node:
                    _rename(other, old, name)
                yield _without_dead(candidate)


def _rename(node: onnx.NodeProto, old: str, new: str) -> None:
    for index, name in enumerate(node.input):
        if name == old:
            node.input[index] = new
    for attribute in node.attribute:
        for inner in attribute.g.node:
            _rename(inner, old, new)


def _copy(model: onnx.ModelProto) -> onnx.ModelProto:
    other = onnx.ModelProto()
    other.CopyFrom(model)
    return other


def _types(model: onnx.ModelProto) -> dict[str, onnx.ValueInfoProto]:
    """What is known of values: those of static shape, or of the model's own inputs."""
    inferred = onnx.shape_inference.infer_shapes(model)
    found = {v.name: v for v in (*inferred.graph.value_info, *inferred.graph.output)}
    found = {
        name: value
        for name, value in found.items()
        if value.type.tensor_type.elem_type
        and all(d.HasField("dim_value") for d in value.type.tensor_type.shape.dim)
    }
    return found | {value.name: value for value in model.graph.input}


def _read(nodes: Sequence[onnx.NodeProto]) -> set[str]:
    names = {name for node in nodes for name in node.input}
    for node in nodes:
        for attribute in node.attribute:
            names |= _read(attribute.g.node) | {o.name for o in attribute.g.output}
    return names


def _without_dead(model: onnx.ModelProto) -> onnx.ModelProto:
    """Without what no output needs."""
    graph = model.graph
    needed = {output.name for output in graph.output}
    kept: list[onnx.NodeProto] = []
    for node in reversed(graph.node):
        if needed & set(node.output):
            kept.append(node)
            needed |= _read([node])
    for field_, values in (("initializer", graph.initializer), ("input", graph.input)):
        held = [value for value in values if value.name in needed]
        graph.ClearField(field_)
        getattr(graph, field_).extend(held)
    nodes = list(reversed(kept))
    graph.ClearField("node")
    graph.node.extend(nodes)
    return model

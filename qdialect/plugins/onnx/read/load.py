"""Reading and checking a model before anything is built from it.

Weights are not copied for the checks: the ONNX checker and shape inference see
the model without the data of large initializers.
"""

from __future__ import annotations

import mmap
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from math import prod
from pathlib import Path
from stat import S_ISREG
from typing import TYPE_CHECKING, NamedTuple, TypeVar
from uuid import uuid4

from qdialect.errors import InputError, Where
from qdialect.ir.ops.key_metadata import IDENTITY, KEYS, KeyTable, identity_attribute
from qdialect.ir.ops.named_extents import check_names
from qdialect.packages import package
from qdialect.plugins.onnx.protobuf import (
    BYTES,
    VARINT,
    Field,
    fields,
    header,
    number_field,
    text_field,
)
from qdialect.plugins.onnx.read.hidden_ops import hide, hide_newer_ops, hide_unknown_ops, stand_in
from qdialect.plugins.onnx.read.inlining import inlined
from qdialect.plugins.onnx.read.subgraphs import captured_names, subgraphs
from qdialect.plugins.onnx.read.tensors import TensorReader

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, NodeProto, TensorShapeProto, TypeProto, ValueInfoProto
    from xdsl.dialects.builtin import DictionaryAttr

    from qdialect.ir.quant import UniformType

_T = TypeVar("_T")

#: initializers of at most this many elements take part in shape inference
_INFERENCE_LIMIT = 1024

#: files of fewer bytes are read: whoever writes to one that is mapped changes weights
_MAPPED = 1 << 26

_POOLS = ("AveragePool", "LpPool", "MaxPool")


@dataclass
class LoadedModel:
    """A checked model: local functions inlined, tensor types inferred."""

    model: ModelProto
    file: str | None
    tensors: TensorReader
    types: dict[str, TypeProto] = field(default_factory=dict[str, "TypeProto"])

    def where(self, node: str | None = None) -> Where:
        """A place in this model."""
        return Where(file=self.file, node=node)


def load_model(
    source: str | Path | bytes | ModelProto, dims: Mapping[str, int] | None = None
) -> LoadedModel:
    """Read, check and infer types; InputError says what is wrong and at which node.

    `dims` are numbers for symbolic extents.
    """
    file = str(source) if isinstance(source, str | Path) else None
    model, weights = _parse(source, Where(file=file))
    if dims:
        model = bound(model, dims)
    folder = Path(file).resolve().parent if file else None
    loaded = LoadedModel(model, file, TensorReader(file, folder, weights))
    if len(model.functions):
        loaded.model = _without_functions(loaded)
    _check_texts(loaded)
    loaded.model = in_order(loaded.model)
    _check_names(loaded)
    for tensor in model.graph.initializer:
        loaded.tensors.check(tensor)
    _check_and_infer(loaded, source)
    return loaded


def _without_functions(loaded: LoadedModel) -> ModelProto:
    checker = package("onnx.checker")
    try:
        return inlined(loaded.model, loaded.where())
    except (checker.ValidationError, RuntimeError) as error:
        raise _rejected(loaded, str(error)) from None


def _parse(
    source: str | Path | bytes | ModelProto, where: Where
) -> tuple[ModelProto, Mapping[str, memoryview]]:
    """The model, and those of its weights that are not in it (see `wire.py`)."""
    onnx = package("onnx")
    if not isinstance(source, str | Path | bytes):
        return source, {}
    data = memoryview(source) if isinstance(source, bytes) else _read(Path(source), where)
    if not data:
        raise InputError("the file is empty", where=where, code="invalid-onnx")
    message, weights = cut_out(data)
    model = onnx.ModelProto()
    try:
        model.ParseFromString(message)
    except package("google.protobuf.message").DecodeError:
        raise InputError(
            "not an ONNX model: truncated, or not protobuf", where=where, code="invalid-onnx"
        ) from None
    if not model.HasField("graph"):
        raise InputError("not an ONNX model: it has no graph", where=where, code="invalid-onnx")
    return model, weights


def _read(path: Path, where: Where) -> memoryview:
    """The bytes of a file: a large one is mapped, and read where it is looked at."""
    try:
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            # Elsewhere nobody could replace the file as long as it is mapped.
            mappable = os.name == "posix" and S_ISREG(status.st_mode)
            if mappable and status.st_size >= _MAPPED:
                return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
            return memoryview(file.read())
    except OSError as error:
        raise InputError(f"cannot read the model: {error.strerror or error}", where=where) from None


# -- names ----------------------------------------------------------------------


def label(node: NodeProto) -> str:
    """How messages name a node: its name, or its first output, or its op type."""
    return node.name or next((name for name in node.output if name), node.op_type)


def read_keys(loaded: LoadedModel) -> KeyTable:
    """The keys that an exported model has in its metadata; InputError if they are none."""
    return _own(loaded, KEYS, KeyTable.read, "keys")


def read_interface(loaded: LoadedModel) -> dict[str, UniformType]:
    """What an exported model says of inputs and outputs that are codes; InputError if its
    metadata says it wrongly."""
    from qdialect.ir.quant.interface_metadata import QPARAMS, read_interface

    return _own(loaded, QPARAMS, read_interface, "qparams")


def read_identity(loaded: LoadedModel) -> DictionaryAttr | None:
    """The identity that an exported model has in its metadata; InputError if it is not one."""
    return _own(loaded, IDENTITY, identity_attribute, "identity of a model")


def _own(loaded: LoadedModel, name: str, read: Callable[[str], _T], what: str) -> _T:
    text = next((p.value for p in loaded.model.metadata_props if p.key == name), "")
    try:
        return read(text)
    except (ValueError, RecursionError) as error:
        raise InputError(
            f"metadata '{name}' holds no {what}: {error}", where=loaded.where(), code="invalid-onnx"
        ) from None


def _texts(graph: GraphProto) -> Iterator[object]:
    """Every name and text of a graph; protobuf gives one that is not UTF-8 as bytes."""
    yield from (graph.name, graph.doc_string)
    yield from (t.name for t in graph.initializer)
    for values in (graph.input, graph.output, graph.value_info):
        for value in values:
            yield value.name
            yield from (d.dim_param for d in value.type.tensor_type.shape.dim)
    for node in graph.node:
        yield from (node.name, node.op_type, node.domain, node.doc_string)
        yield from (*node.input, *node.output, *(a.name for a in node.attribute))
        for inner in subgraphs(node):
            yield from _texts(inner)


def _check_texts(loaded: LoadedModel) -> None:
    model = loaded.model
    around: list[object] = [model.producer_name, model.producer_version, model.domain]
    around += [model.doc_string, *(o.domain for o in model.opset_import)]
    around += [text for p in model.metadata_props for text in (p.key, p.value)]
    for text in (*around, *_texts(model.graph)):
        if not isinstance(text, str):
            raise InputError(
                f"the name or text {text!r} is not UTF-8",
                where=loaded.where(),
                code="invalid-onnx",
            )


def _check_names(loaded: LoadedModel) -> None:
    """Every tensor is defined once, and before it is read."""
    graph = loaded.model.graph
    known = _unique(loaded, (v.name for v in graph.input), "graph input")
    known |= _unique(
        loaded,
        [t.name for t in graph.initializer] + [t.values.name for t in graph.sparse_initializer],
        "initializer",
    )
    _unique(loaded, (v.name for v in graph.output), "graph output")
    if not graph.output:
        raise InputError("the graph has no output", where=loaded.where(), code="invalid-onnx")
    produced = {name for node in graph.node for name in node.output}
    for node in graph.node:
        for name in (*node.input, *captured_names(node)):
            if name and name not in known:
                raise _undefined(loaded, node, name, name in produced)
        for name in node.output:
            if name in known and name:
                raise InputError(
                    f"tensor '{name}' is defined twice",
                    where=loaded.where(label(node)),
                    code="duplicate-name",
                )
            known.add(name)
    for result in graph.output:
        if result.name not in known:
            raise InputError(
                f"graph output '{result.name}' is never computed",
                where=loaded.where(),
                code="undefined-tensor",
            )


def _undefined(loaded: LoadedModel, node: NodeProto, name: str, later: bool) -> InputError:
    where = loaded.where(label(node))
    if later:
        return InputError(
            f"reads tensor '{name}' before it is computed: the graph has a cycle",
            where=where,
            code="not-sorted",
        )
    return InputError(
        f"reads tensor '{name}', which is no graph input, initializer or node output",
        where=where,
        code="undefined-tensor",
    )


def _unique(loaded: LoadedModel, names: Iterable[str], what: str) -> set[str]:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise InputError(
                f"two {what}s are named '{name}'", where=loaded.where(), code="duplicate-name"
            )
        seen.add(name)
    return seen


# -- the ONNX checker and shape inference -----------------------------------------


def _check_and_infer(loaded: LoadedModel, source: str | Path | bytes | ModelProto) -> None:
    """Check a model and infer its shapes. A model that the checker refuses is read if the
    runtime loads it."""
    from qdialect.plugins.onnx.write.engine import loads

    onnx = package("onnx")
    _check_opset(loaded)
    _check_splits(loaded, loaded.model.graph)
    light = _without_weights(loaded.model)
    _forget_extents(light.graph)
    hide_newer_ops(light)
    stand_in(light)
    checker = package("onnx.checker")
    without_rank = [
        value.type.tensor_type
        for value in (*light.graph.input, *light.graph.output)
        if value.type.HasField("tensor_type") and not value.type.tensor_type.HasField("shape")
    ]
    for kind in without_rank:  # the checker wants a shape, runtimes do not
        kind.shape.SetInParent()
    try:
        checker.check_model(light)
    except checker.ValidationError as error:
        if not loads(source):
            raise _rejected(loaded, str(error)) from None
        hide_unknown_ops(light)
    for kind in without_rank:
        kind.ClearField("shape")
    _check_windows(loaded, light)
    while True:
        try:
            inferred: ModelProto = package("onnx.shape_inference").infer_shapes(
                light, check_type=False, strict_mode=False
            )
        except (onnx.shape_inference.InferenceError, RuntimeError, ValueError) as error:
            raise _rejected(loaded, str(error)) from None
        graph = inferred.graph
        if not _states_pools(loaded, light, graph):
            break
    for infos in (graph.value_info, graph.output, graph.input):
        loaded.types.update((v.name, v.type) for v in infos if v.HasField("type"))


def _states_pools(loaded: LoadedModel, light: ModelProto, inferred: GraphProto) -> bool:
    """State in `light` the extents of pools that inference counts otherwise than ONNX Runtime, of
    those whose operands it has right; whether there are any."""
    from qdialect.plugins.onnx.read.node import Node
    from qdialect.plugins.onnx.read.windows import pooled_shape

    infos = (*inferred.value_info, *inferred.input, *inferred.output)
    known = {v.name: v for v in infos if v.type.tensor_type.HasField("shape")}
    wrong: list[NodeProto] = []
    changed = set[str]()
    for node in light.graph.node:
        names = [name for name in (*node.input[:1], *node.output) if name]
        if changed.intersection(node.input):
            changed.update(node.output)
        elif node.op_type in _POOLS and node.domain in ("", "ai.onnx") and {*names} <= {*known}:
            where, places = loaded.where(label(node)), (list(node.input), list(node.output))
            given, *made = ([d.dim_value for d in _dims(known[name])] for name in names)
            unknown = 0 in given or len(given) < 3
            counted = None if unknown else pooled_shape(Node(node, 0, "", where, *places), given)
            if counted is not None and any(list(counted) != each for each in made):
                for name in names[1:]:
                    for dim, extent in zip(_dims(known[name]), counted, strict=True):
                        dim.dim_value = extent
                wrong.append(node)
                changed.update(node.output)
    if wrong:
        corrected = {n: known[n] for node in wrong for n in node.output if n}
        stated = [v for v in light.graph.value_info if v.name not in corrected]
        del light.graph.value_info[:]
        light.graph.value_info.extend([*stated, *corrected.values()])
        for value in light.graph.output:
            if value.name in changed:
                value.type.tensor_type.ClearField("shape")
                if value.name in corrected:
                    value.CopyFrom(corrected[value.name])
        hide(light, wrong)
    return bool(wrong)


def _dims(value: ValueInfoProto) -> Sequence[TensorShapeProto.Dimension]:
    return value.type.tensor_type.shape.dim


def _check_splits(loaded: LoadedModel, graph: GraphProto) -> None:
    """Inference makes as many numbers as a `Split` claims to have outputs."""
    for node in graph.node:
        if node.op_type == "Split":
            asked = next((a.i for a in node.attribute if a.name == "num_outputs"), None)
            if asked is not None and asked != len(node.output):
                raise InputError(
                    f"is to have {asked} outputs, but has {len(node.output)}",
                    where=loaded.where(label(node)),
                    code="invalid-node",
                )
        for inner in subgraphs(node):
            _check_splits(loaded, inner)


def _forget_extents(graph: GraphProto) -> None:
    """Negative ones mean unknown ones, and shape inference ends the process on some. A name is
    a fact where it is of an input, which the caller gives; of other values it may be anybody's."""
    for value in (*graph.input, *graph.output, *graph.value_info):
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_value < 0:
                dim.Clear()
    for value in (*graph.output, *graph.value_info):
        for dim in value.type.tensor_type.shape.dim:
            dim.ClearField("dim_param")


def _check_windows(loaded: LoadedModel, light: ModelProto) -> None:
    """InputError if a node gives a negative extent.

    Inference of `Slice` ends the process on one, so it is left out here.
    """
    onnx = package("onnx")
    if not any(node.op_type == "Slice" for node in light.graph.node):
        return
    probe: ModelProto = onnx.ModelProto()
    probe.CopyFrom(light)
    hide(probe, [node for node in probe.graph.node if node.op_type == "Slice"])
    try:
        inferred = onnx.shape_inference.infer_shapes(probe)
    except (onnx.shape_inference.InferenceError, RuntimeError, ValueError):
        return  # the inference proper says it better
    makers = {name: label(node) for node in light.graph.node for name in node.output}
    for value in inferred.graph.value_info:
        if any(dim.dim_value < 0 for dim in value.type.tensor_type.shape.dim):
            raise InputError(
                f"tensor '{value.name}' would have a negative extent",
                where=loaded.where(makers.get(value.name)),
                code="invalid-node",
            )


def _check_opset(loaded: LoadedModel) -> None:
    """The checker takes a version it does not know for the newest it knows."""
    newest: int = package("onnx").defs.onnx_opset_version()
    for entry in loaded.model.opset_import:
        if entry.domain in ("", "ai.onnx") and not 0 < entry.version <= newest:
            raise InputError(
                f"the model is of opset {entry.version}, but the installed onnx package "
                f"knows only 1 to {newest}",
                where=loaded.where(),
                code="invalid-onnx",
            )


def _without_weights(model: ModelProto) -> ModelProto:
    """The model with large initializers turned into graph inputs of their type."""
    onnx = package("onnx")
    light: ModelProto = onnx.ModelProto()
    for name in ("ir_version", "producer_name", "domain", "model_version"):
        if model.HasField(name):
            setattr(light, name, getattr(model, name))
    light.opset_import.extend(model.opset_import)
    source, graph = model.graph, light.graph
    graph.name = source.name or "graph"  # the checker refuses an empty name
    graph.node.extend(source.node)
    graph.input.extend(source.input)
    graph.output.extend(source.output)
    graph.value_info.extend(source.value_info)
    graph.sparse_initializer.extend(source.sparse_initializer)
    inputs = {v.name for v in source.input}
    for tensor in source.initializer:
        external = tensor.data_location == onnx.TensorProto.EXTERNAL
        if prod(tensor.dims) <= _INFERENCE_LIMIT and not external:
            graph.initializer.append(tensor)
        elif tensor.name not in inputs:
            graph.input.append(
                onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
            )
    return light


def _rejected(loaded: LoadedModel, message: str) -> InputError:
    """An error of the checker as ours: its first sentence, and the node it names."""
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    found = re.search(r"[Nn]ame: (\S+) OpType", message) or re.search(
        r"node name: ([^)\s]+)", message
    )
    return InputError(
        f"not a valid ONNX model: {_first(lines)}",
        where=loaded.where(found.group(1) if found else None),
        code="invalid-onnx",
    )


def _first(lines: Sequence[str]) -> str:
    return lines[0] if lines else "the checker gives no reason"


# The nodes of a graph in an order in which each reads what others before it made.
#
# ONNX asks for that order, but runtimes sort nodes by themselves, so that converters (the one of
# ONNX Runtime to float16) write files without it.  Nodes keep their order as far as it can stand.


def in_order(model: ModelProto) -> ModelProto:
    """The model with its nodes sorted; itself where they are, or where there is a cycle."""
    nodes = list(model.graph.node)
    order = _order(nodes)
    if order == sorted(order) or len(order) < len(nodes):
        return model
    made = type(model)()
    made.CopyFrom(model)
    del made.graph.node[:]
    made.graph.node.extend(nodes[index] for index in order)
    return made


def _order(nodes: list[NodeProto]) -> list[int]:
    """The first node that can be next, again and again; not all nodes where there is a cycle."""
    makers = {name: i for i, node in enumerate(nodes) for name in node.output if name}
    sources = [
        {makers[name] for name in (*node.input, *captured_names(node)) if name in makers}
        for node in nodes
    ]
    readers: list[list[int]] = [[] for _ in nodes]
    for reader, found in enumerate(sources):
        for maker in found:
            readers[maker].append(reader)
    missing = [len(found) for found in sources]
    ready = [index for index, count in enumerate(missing) if not count]
    heapify(ready)
    order: list[int] = []
    while ready:
        order.append(heappop(ready))
        for reader in readers[order[-1]]:
            missing[reader] -= 1
            if not missing[reader]:
                heappush(ready, reader)
    return order


# Model files without their large weights, which stay where they are.
#
# Parsing copies every byte of a message. Of a `ModelProto` this takes `graph.initializer.raw_data`
# out where it is large, and leaves in its place the reference that a tensor in a file beside the
# model has, to a location that no file has. Only the outlines of messages are read; on anything
# that is not as it should be all is left as it is, for the parser to say what is wrong.

_LARGE = 1 << 16
"""Bytes; shape inference looks at no weight of as many."""

# Numbers of fields.
_GRAPH, _INITIALIZER, _RAW_DATA, _EXTERNAL_DATA, _DATA_LOCATION = 7, 5, 9, 13, 14
_KEY, _VALUE = 1, 2
_EXTERNAL = 1

_Pieces = list[bytes | memoryview]


class CutOut(NamedTuple):
    """What is left of the bytes of a model, and the weights by their locations."""

    message: bytes | memoryview
    weights: dict[str, memoryview]


def cut_out(data: memoryview) -> CutOut:
    """The model without its large weights; these are views of `data`."""
    cutter = _Cutter(data)
    try:
        pieces = cutter.model() if len(data) >= _LARGE else []
    except ValueError:
        return CutOut(data, {})
    return CutOut(b"".join(pieces), cutter.weights) if cutter.weights else CutOut(data, {})


class _Cutter:
    def __init__(self, data: memoryview) -> None:
        self.weights: dict[str, memoryview] = {}
        self._data = data
        # With a zero, as no file has, and by chance, so that no model can ask for it.
        self._name = f"\0{uuid4().hex}/"

    def model(self) -> _Pieces:
        return list(self._cut(0, len(self._data), _GRAPH, self._graph))

    def _graph(self, field: Field) -> _Pieces:
        return list(self._cut(field.begin, field.end, _INITIALIZER, self._tensor))

    def _cut(
        self, begin: int, end: int, number: int, cut: Callable[[Field], _Pieces | None]
    ) -> Iterator[bytes | memoryview]:
        """A message with what `cut` makes of its fields of that number."""
        kept = begin
        for each in fields(self._data, begin, end):
            # What is smaller holds nothing large.
            if each.number != number or each.end - each.begin < _LARGE:
                continue
            if each.kind != BYTES:
                raise ValueError(f"field {number} is no message")
            content = cut(each)
            if content is None:
                continue
            yield self._data[kept : each.start]
            yield header(number, sum(map(len, content)))
            yield from content
            kept = each.end
        yield self._data[kept:end]

    def _tensor(self, field: Field) -> _Pieces | None:
        """None for one that stays whole."""
        inner = list(fields(self._data, field.begin, field.end))
        if any(self._is_elsewhere(f) for f in inner):
            return None
        found = [f for f in inner if f.number == _RAW_DATA]
        if len(found) != 1 or found[0].kind != BYTES or found[0].end - found[0].begin < _LARGE:
            return None
        raw, location = found[0], f"{self._name}{len(self.weights)}"
        self.weights[location] = self._data[raw.begin : raw.end]
        entry = text_field(_KEY, "location") + text_field(_VALUE, location)
        return [
            self._data[field.begin : raw.start],
            self._data[raw.end : field.end],
            header(_EXTERNAL_DATA, len(entry)) + entry,
            number_field(_DATA_LOCATION, _EXTERNAL),
        ]

    def _is_elsewhere(self, field: Field) -> bool:
        """Whether a field of a tensor may say that its data is not in it."""
        if field.number == _DATA_LOCATION:
            return field.kind != VARINT or any(self._data[field.begin : field.end])
        return field.number == _EXTERNAL_DATA


# Giving symbolic extents of a model numbers before it is read.


def bound(model: ModelProto, numbers: Mapping[str, int]) -> ModelProto:
    """The model with the extents named so (`dim_param`) as numbers; the given one stays as it
    is.  UsageError for a name that no input has."""
    weights = {tensor.name for tensor in model.graph.initializer}
    names = (
        dim.dim_param
        for value in model.graph.input
        if value.name not in weights
        for dim in value.type.tensor_type.shape.dim
        if dim.dim_param
    )
    check_names(numbers, dict.fromkeys(names))
    copy = type(model)()
    copy.CopyFrom(model)
    for kind in _types(copy.graph):
        for dim in kind.tensor_type.shape.dim:
            if dim.dim_param in numbers:
                dim.dim_value = numbers[dim.dim_param]
    return copy


def _types(graph: GraphProto) -> Iterator[TypeProto]:
    """Every type that the graph declares, those in subgraphs too."""
    for values in (graph.input, graph.output, graph.value_info):
        yield from (value.type for value in values if value.type.HasField("tensor_type"))
    for node in graph.node:
        for attribute in node.attribute:
            for inner in (*attribute.graphs, *((attribute.g,) if attribute.HasField("g") else ())):
                yield from _types(inner)

"""A quantized model without the rounding of its activations: the float model it stands for, where
nobody has that one.

Of every quantize and dequantize on one scale and zero point only the clamp is left, since
quantizers leave out a relu that the storage bounds imply:

    DequantizeLinear(QuantizeLinear(x, s, z), s, z)  ->  Clip(x, s * (min - z), s * (max - z))

The bounds are those of the storage, or of a Clip of the codes in between.
Weights stay on their codes.  What is not of that form (per axis, parameters that are computed,
integer kernels) stays as it is.
"""

from __future__ import annotations

from os import PathLike, fspath
from typing import TYPE_CHECKING, Any

from qdialect.packages import package

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from onnx import GraphProto, ModelProto, NodeProto, TensorProto


def model_without_rounding(source: str | PathLike[str] | ModelProto) -> ModelProto:
    """The model, or that in a file, without the rounding of its activations."""
    onnx = package("onnx")
    if isinstance(source, str | PathLike):
        model: ModelProto = onnx.load(fspath(source))
    else:
        model = onnx.ModelProto()
        model.CopyFrom(source)
    graph = model.graph
    scalars = {t.name: t for t in graph.initializer if len(t.dims) == 0 or list(t.dims) == [1]}
    makers = {node.output[0]: node for node in graph.node if node.output}
    limits: dict[tuple[str, ...], list[str]] = {}
    for node in graph.node:
        found = _pair(node, makers) if node.op_type == "DequantizeLinear" else None
        if found is None or not all(name in scalars for name in found[1] if name):
            continue
        above, key = found
        if key not in limits:
            ends = _limits([scalars.get(name) for name in key])
            if ends is None:
                continue
            names = [f"{'/'.join(key)}/{end}" for end in ("low", "high")]
            for name, value in zip(names, ends, strict=True):
                graph.initializer.append(onnx.numpy_helper.from_array(value, name))
            limits[key] = names
        node.op_type = "Clip"
        node.domain = ""
        del node.attribute[:]
        node.input[:] = [above.input[0], *limits[key]]
    if not _holds_bodies(graph):
        _remove_unread(graph)
    return model


def _pair(
    node: NodeProto, makers: Mapping[str, NodeProto]
) -> tuple[NodeProto, tuple[str, ...]] | None:
    """The quantize of the codes that a node dequantizes, and what both say: scale, zero point,
    and the bounds between which the codes are clipped, "" without one."""
    above, bounds = makers.get(node.input[0]), ["", ""]
    if above is not None and above.op_type == "Clip" and len(above.input) > 1:
        bounds = [*above.input[1:], ""][:2]
        above = makers.get(above.input[0])
    if above is None or above.op_type != "QuantizeLinear":
        return None
    key = tuple(node.input[1:3])
    return (above, (*key, *bounds)) if len(key) == 2 and key == tuple(above.input[1:3]) else None


def _remove_unread(graph: GraphProto) -> None:
    """Remove the quantizes, and clips of codes, that nothing reads any more."""
    read = {output.name for output in graph.output}
    for node in reversed(list(graph.node)):
        if node.op_type not in ("QuantizeLinear", "Clip") or node.output[0] in read:
            read.update(node.input)
        else:
            graph.node.remove(node)


def _holds_bodies(graph: Any) -> bool:
    """Whether nodes have graphs of their own, which may read anything."""
    return any(a.HasField("g") or a.graphs for node in graph.node for a in node.attribute)


def _limits(tensors: Sequence[TensorProto | None]) -> tuple[Any, Any] | None:
    """The numbers that the lowest and the highest code mean, of a scale, a zero point and the
    bounds of codes; None but for f32 and integers that numpy has."""
    import numpy as np

    to_array = package("onnx.numpy_helper").to_array
    step, point, *bounds = (None if t is None else to_array(t).reshape(()) for t in tensors)
    if step is None or point is None or step.dtype != np.float32:
        return None
    if point.dtype.kind not in "iu" or not point.dtype.isbuiltin:
        return None
    full = np.iinfo(point.dtype)
    ends = (
        end if bound is None else int(bound)
        for bound, end in zip(bounds, (full.min, full.max), strict=True)
    )
    with np.errstate(over="ignore"):  # the ends of a large scale are infinite
        low, high = (np.float32((end - int(point)) * float(step)) for end in ends)
    return np.asarray(low), np.asarray(high)

"""A quantized model without the rounding of its activations: the float model it stands for, where
nobody has that one.

Of every quantize and dequantize on one scale and zero point only the clamp is left, since
quantizers leave out a relu that the storage bounds imply:

    DequantizeLinear(QuantizeLinear(x, s, z), s, z)  ->  Clip(x, s * (min - z), s * (max - z))

Weights stay on their codes.  What is not of that form (per axis, parameters that are computed,
integer kernels) stays as it is.
"""

from __future__ import annotations

from os import PathLike, fspath
from typing import TYPE_CHECKING, Any

from qdialect.dialects.onnx import package

if TYPE_CHECKING:
    from onnx import ModelProto


def model_without_rounding(source: str | PathLike[str]) -> ModelProto:
    """The model in a file, without the rounding of its activations."""
    onnx = package("onnx")
    model: ModelProto = onnx.load(fspath(source))
    graph = model.graph
    scalars = {t.name: t for t in graph.initializer if len(t.dims) == 0 or list(t.dims) == [1]}
    quantized = {node.output[0]: node for node in graph.node if node.op_type == "QuantizeLinear"}
    limits: dict[tuple[str, str], list[str]] = {}
    for node in graph.node:
        if node.op_type != "DequantizeLinear" or node.input[0] not in quantized:
            continue
        above = quantized[node.input[0]]
        key = tuple(node.input[1:3])
        if len(key) != 2 or key != tuple(above.input[1:3]) or not all(k in scalars for k in key):
            continue
        if key not in limits:
            found = _limits(scalars[key[0]], scalars[key[1]])
            if found is None:
                continue
            names = [f"{key[0]}/{key[1]}/{end}" for end in ("low", "high")]
            for name, value in zip(names, found, strict=True):
                graph.initializer.append(onnx.numpy_helper.from_array(value, name))
            limits[key] = names
        node.op_type = "Clip"
        node.domain = ""
        del node.attribute[:]
        node.input[:] = [above.input[0], *limits[key]]
    read = {name for node in graph.node for name in node.input}
    read |= {output.name for output in graph.output}
    for node in quantized.values():
        if node.output[0] not in read and not _holds_bodies(graph):
            graph.node.remove(node)
    return model


def _holds_bodies(graph: Any) -> bool:
    """Whether nodes have graphs of their own, which may read anything."""
    return any(a.HasField("g") or a.graphs for node in graph.node for a in node.attribute)


def _limits(scale: Any, zero: Any) -> tuple[Any, Any] | None:
    """The numbers that the lowest and the highest code mean; None but for f32 and integers
    that numpy has."""
    import numpy as np

    to_array = package("onnx.numpy_helper").to_array
    step, point = to_array(scale).reshape(()), to_array(zero).reshape(())
    if step.dtype != np.float32 or point.dtype.kind not in "iu" or not point.dtype.isbuiltin:
        return None
    ends = np.iinfo(point.dtype)
    low, high = (np.float32((end - int(point)) * float(step)) for end in (ends.min, ends.max))
    return np.asarray(low), np.asarray(high)

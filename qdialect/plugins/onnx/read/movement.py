"""Shape ops: the same `nn` op on floats and on stored integers of one encoding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, SSAValue

from qdialect.algebra.arithmetic import UNROUNDED
from qdialect.errors import InputError
from qdialect.ir import ops as nn
from qdialect.ir.ops.constants import constant_array, constant_of
from qdialect.ir.ops.shapes import DYNAMIC
from qdialect.ir.quant import DCastOp, UniformType, element_type
from qdialect.ir.quant.elements import FLOATS
from qdialect.plugins.onnx.read import computed_shapes
from qdialect.plugins.onnx.read.node import Node
from qdialect.plugins.onnx.read.shape_values import slice_end
from qdialect.plugins.onnx.read.types import extents, value_type

if TYPE_CHECKING:
    from qdialect.plugins.onnx.read.importer import Importer

Results = list[SSAValue] | None


def movable(imp: Importer, name: str) -> tuple[int, ...] | None:
    """The shape of a tensor whose elements an `nn` op may move, else None.

    Floats, and quantized values of one scale: where a value of several scales ends
    up is for the reader's own axis to say.
    """
    kind = imp.type_of(name)
    if not isinstance(kind, TensorType):
        return None
    ranked = cast("TensorType[Attribute]", kind)
    element = ranked.element_type
    fits = element in FLOATS or (isinstance(element, UniformType) and element.qparams.is_per_tensor)
    return extents(ranked) if fits else None


def transpose(imp: Importer, node: Node) -> Results:
    """`Transpose`; without `perm`, dimensions in reverse."""
    shape = movable(imp, node.input(0))
    if shape is None:
        return None
    perm = node.get("perm", tuple(reversed(range(len(shape)))))
    x = imp.value(node.input(0))
    return [imp.build(nn.TransposeOp, x, output=node.output(0), perm=perm)]


def flatten(imp: Importer, node: Node) -> Results:
    """`Flatten` to two dimensions at `axis`."""
    if movable(imp, node.input(0)) is None:
        return None
    x = imp.value(node.input(0))
    return [imp.build(nn.FlattenOp, x, output=node.output(0), axis=node.get("axis", 1))]


def reshape(imp: Importer, node: Node) -> Results:
    """`Reshape` to a constant shape, or to one shape inference found."""
    shape = movable(imp, node.input(0))
    if shape is None:
        return None
    target = imp.static_ints(node.input(1)) if node.input(1) else node.get("shape", None)
    if target is None:
        target = _inferred(imp, node)
    if target is None:
        return computed_shapes.reshape(imp, node)
    if node.get("allowzero", 0) and 0 in target:
        return None
    return _reshaped(imp, node, target)


def _reshaped(imp: Importer, node: Node, target: Sequence[int]) -> Results:
    x = imp.value(node.input(0))
    return [imp.emit(nn.ReshapeOp(x, target)).results[0]]


def _inferred(imp: Importer, node: Node) -> tuple[int, ...] | None:
    known = value_type(imp.loaded.types.get(node.output(0)))
    if not isinstance(known, TensorType):
        return None
    shape = extents(cast("TensorType[Attribute]", known))
    return None if DYNAMIC in shape or 0 in shape else shape


def slice_(imp: Importer, node: Node) -> Results:
    """`Slice` with constant bounds."""
    shape = movable(imp, node.input(0))
    if imp.opset < 10:
        starts, ends, axes = (node.get(n, None) for n in ("starts", "ends", "axes"))
        steps = None
    else:
        axes, steps = (
            imp.static_ints(node.input(i)) if node.input(i) else None for i in range(3, 5)
        )
        if any(node.input(i) and not imp.static_ints(node.input(i)) for i in (3, 4)):
            return None
        forward = steps is None or min(steps, default=1) > 0
        starts, ends = (
            computed_shapes.bounds(imp, node, node.input(i), axes)
            if shape is not None and forward
            else imp.static_ints(node.input(i))
            for i in (1, 2)
        )
    if shape is None or starts is None or ends is None:
        return None
    rank = len(shape)
    axes = tuple(range(len(starts))) if axes is None else axes
    steps = (1,) * len(starts) if steps is None else steps
    full = [[0, 2**63 - 1, 1] for _ in range(rank)]
    lengths = {len(starts), len(ends), len(axes), len(steps)}
    if len(lengths) != 1 or not all(-rank <= axis < rank for axis in axes):
        raise InputError(
            f"slices axes {list(axes)} of a value of rank {rank}",
            where=node.where,
            code="invalid-node",
        )
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        full[axis % rank] = [start, slice_end(end, step), step]
    names = ("starts", "stops", "steps")
    lists = dict(zip(names, zip(*full, strict=True), strict=True))
    x = imp.value(node.input(0))
    return [imp.build(nn.SliceOp, x, output=node.output(0), **lists)]


def pad(imp: Importer, node: Node) -> Results:
    """`Pad` by constant, non-negative amounts."""
    shape = movable(imp, node.input(0))
    if shape is None:
        return None
    if imp.opset < 11:
        pads, value = node.get("pads", None), float(node.get("value", 0.0))
    else:
        pads = imp.static_ints(node.input(1))
        value = _pad_value(imp, node)
    axes = imp.static_ints(node.input(3)) if node.input(3) else None
    if pads is None or value is None or (node.input(3) and axes is None):
        return None
    rank = len(shape)
    axes = tuple(range(rank)) if axes is None else axes
    if min((0, *pads)) < 0 or len(pads) != 2 * len(axes):
        return None
    low, high = [0] * rank, [0] * rank
    for position, axis in enumerate(axes):
        low[axis % rank] = pads[position]
        high[axis % rank] = pads[position + len(axes)]
    x = imp.value(node.input(0))
    mode = node.get("mode", "constant")
    built = imp.build(
        nn.PadOp, x, output=node.output(0), low=low, high=high, mode=mode, value=value
    )
    return [built]


def _pad_value(imp: Importer, node: Node) -> float | None:
    """The padding value in real units; None if it is no constant."""
    stored = 0.0
    if node.input(2):
        array = imp.static(node.input(2))
        if array is None:
            return _dequantized_value(imp, node.input(2))
        if array.size != 1:
            return None
        stored = float(array.reshape(-1)[0])
    element = element_type(imp.type_of(node.input(0)))
    if isinstance(element, UniformType):
        return (stored - element.qparams.zero_point) * element.qparams.scale
    return stored


def _dequantized_value(imp: Importer, name: str) -> float | None:
    """One number that is dequantized from a constant, as quantizers write it."""
    cast = imp.value(name).owner
    constant = constant_of(cast.input) if isinstance(cast, DCastOp) else None
    if not isinstance(cast, DCastOp) or constant is None:
        return None
    codes, element = constant_array(constant, imp.ctx.blobs), element_type(cast.input.type)
    if codes.size != 1 or not isinstance(element, UniformType) or element.qparams.count != 1:
        return None
    q = element.qparams
    return (float(codes.reshape(-1)[0]) - q.zero_point) * q.scale


def concat(imp: Importer, node: Node) -> Results:
    """`Concat` of floats, or of quantized values of one encoding."""
    kinds = [imp.type_of(name) for name in node.inputs]
    if any(movable(imp, name) is None for name in node.inputs):
        return None
    elements = {cast("TensorType[Attribute]", kind).element_type for kind in kinds}
    if len(elements) != 1:
        return None
    values = [imp.value(name) for name in node.inputs]
    axis = int(node.get("axis", 1))
    return [imp.build(nn.ConcatOp, *values, output=node.output(0), axis=axis)]


def alias(imp: Importer, node: Node) -> Results:
    """`Identity`, and `Dropout` that drops nothing: the input itself, but for floats that the
    runtime rounds there and maybe not elsewhere."""
    if node.op_type == "Dropout" and not _inference_dropout(imp, node):
        return None
    name = node.input(0)
    if name in imp.statics:
        imp.statics[node.output(0)] = imp.statics[name]
        return []
    value = imp.value(name)
    if element_type(value.type).name in UNROUNDED and isinstance(value.type, TensorType):
        perm = range(len(nn.shape_of(value)))
        return [imp.build(nn.TransposeOp, value, output=node.output(0), perm=perm)]
    return [value]


def _inference_dropout(imp: Importer, node: Node) -> bool:
    training = imp.static(node.input(2)) if node.input(2) else None
    if node.input(2) and (training is None or bool(training)):
        return False
    return len(node.outputs) == 1 and (imp.opset >= 7 or node.flag("is_test", False))

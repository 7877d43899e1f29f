"""Ops that pick, repeat and rearrange elements; `movement.py` has the other shape ops."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from xdsl.dialects.builtin import IntegerType, TensorType
from xdsl.ir import Attribute, SSAValue

from qdialect.ir import ops as nn
from qdialect.ir.ops.resize import LINEAR_COORDINATES, NEAREST, NEAREST_COORDINATES
from qdialect.ir.ops.shapes import DYNAMIC
from qdialect.ir.quant import UniformType, element_type
from qdialect.plugins.onnx.read import computed_shapes
from qdialect.plugins.onnx.read.graph_tensors import axes_of
from qdialect.plugins.onnx.read.movement import movable
from qdialect.plugins.onnx.read.node import Node

if TYPE_CHECKING:
    from qdialect.plugins.onnx.read.importer import Importer

Results = list[SSAValue] | None


def squeeze(imp: Importer, node: Node) -> Results:
    """`Squeeze` of named dimensions, or of all of extent 1."""
    shape, axes = movable(imp, node.input(0)), axes_of(imp, node, 1)
    if shape is None or axes is None or (not axes and DYNAMIC in shape):
        return None
    axes = axes or tuple(d for d, n in enumerate(shape) if n == 1)
    x = imp.value(node.input(0))
    return [imp.build(nn.SqueezeOp, x, output=node.output(0), axes=axes)]


def unsqueeze(imp: Importer, node: Node) -> Results:
    """`Unsqueeze`."""
    shape, axes = movable(imp, node.input(0)), axes_of(imp, node, 1)
    if shape is None or axes is None:
        return None
    x = imp.value(node.input(0))
    return [imp.build(nn.UnsqueezeOp, x, output=node.output(0), axes=axes)]


def expand(imp: Importer, node: Node) -> Results:
    """`Expand` to a shape that is constant, or follows from that of the operand."""
    shape = imp.static_ints(node.input(1))
    if movable(imp, node.input(0)) is None:
        return None
    if shape is None:
        return computed_shapes.expand(imp, node)
    if min((0, *shape)) < 0:
        return None
    x = imp.value(node.input(0))
    return [imp.build(nn.ExpandOp, x, output=node.output(0), shape=shape)]


def tile(imp: Importer, node: Node) -> Results:
    """`Tile` by constant repeats."""
    shape = movable(imp, node.input(0))
    repeats = imp.static_ints(node.input(1)) if imp.opset >= 6 else None
    if shape is None or repeats is None:
        return None
    x = imp.value(node.input(0))
    return [imp.build(nn.TileOp, x, output=node.output(0), repeats=repeats)]


def split(imp: Importer, node: Node) -> Results:
    """`Split` into constant sizes, or into equal parts of a known extent."""
    shape = movable(imp, node.input(0))
    if not shape or not all(node.outputs):
        return None
    axis = int(node.get("axis", 0))
    count = len(node.outputs)
    sizes: tuple[int, ...] | None
    sizes = imp.static_ints(node.input(1)) if node.input(1) else node.get("split", None)
    if sizes is None:
        extent = shape[axis % len(shape)]
        if node.input(1) or extent == DYNAMIC:
            return None
        part = -(-extent // count)
        sizes = (*(part,) * (count - 1), extent - part * (count - 1))
    if len(sizes) != count or min(sizes) < 0:
        return None
    op = nn.SplitOp(imp.value(node.input(0)), axis=axis, sizes=sizes)
    return list(imp.emit(op).results)


def gather(imp: Importer, node: Node) -> Results:
    """`Gather`, indices constant or not."""
    shape, kind = movable(imp, node.input(0)), _integers(imp, node.input(1))
    if not shape or kind is None:
        return None
    x, indices = imp.value(node.input(0)), imp.value(node.input(1))
    axis = node.get("axis", 0)
    return [imp.build(nn.GatherOp, x, indices, output=node.output(0), axis=axis)]


def where(imp: Importer, node: Node) -> Results:
    """`Where` on floats, or on quantized values of one encoding."""
    condition = _integers(imp, node.input(0))
    names = node.inputs[1:]
    kinds = [imp.type_of(name) for name in names]
    if condition is None or condition.width.data != 1:
        return None
    if any(movable(imp, name) is None for name in names):
        return None
    if len({cast("TensorType[Attribute]", kind).element_type for kind in kinds}) != 1:
        return None
    values = [imp.value(name) for name in node.inputs]
    return [imp.build(nn.SelectOp, *values, output=node.output(0))]


def depth_to_space(imp: Importer, node: Node) -> Results:
    """`DepthToSpace`."""
    shape = movable(imp, node.input(0))
    if shape is None or len(shape) != 4:
        return None
    x, mode = imp.value(node.input(0)), node.get("mode", "DCR")
    block = node.get("blocksize", 1)
    return [imp.build(nn.DepthToSpaceOp, x, output=node.output(0), block=block, mode=mode)]


def space_to_depth(imp: Importer, node: Node) -> Results:
    """`SpaceToDepth`, blocks first in the new channels."""
    shape = movable(imp, node.input(0))
    if shape is None or len(shape) != 4 or node.get("mode", "DCR") != "DCR":
        return None
    x, block = imp.value(node.input(0)), node.get("blocksize", 1)
    return [imp.build(nn.SpaceToDepthOp, x, output=node.output(0), block=block)]


def resize(imp: Importer, node: Node) -> Results:
    """`Resize` by nearest neighbours, or bilinear over height and width, with constant
    scales or sizes for all dimensions."""
    kind = _RESIZES.get(node.get("mode", "nearest"))
    shape = movable(imp, node.input(0)) if kind is not None else None
    coordinates = node.get("coordinate_transformation_mode", "half_pixel")
    nearest = node.get("nearest_mode", "round_prefer_floor")
    others = node.get("antialias", 0) or node.get("axes", None) is not None
    stretched = node.get("keep_aspect_ratio_policy", "stretch") == "stretch"
    if kind is None or others or not stretched or imp.opset < 11 or not shape:
        return None
    modes: dict[str, Any] = {"coordinates": coordinates}
    if kind is nn.ResizeNearestOp:
        modes["nearest"] = nearest
        if coordinates not in NEAREST_COORDINATES or nearest not in NEAREST:
            return None
    elif coordinates not in LINEAR_COORDINATES or not _over_images(imp, node, shape):
        return None
    scales = imp.static(node.input(2)) if node.input(2) else None
    sizes = imp.static_ints(node.input(3)) if node.input(3) else None
    x = imp.value(node.input(0))
    if sizes is not None and len(sizes) == len(shape):
        return [imp.build(kind, x, output=node.output(0), sizes=sizes, **modes)]
    if scales is None or scales.size != len(shape) or node.input(3):
        return None
    factors = [float(v) for v in scales.reshape(-1)]
    return [imp.build(kind, x, output=node.output(0), scales=factors, **modes)]


_RESIZES: Mapping[str, type[nn.ResizeNearestOp | nn.ResizeLinearOp]] = {
    "nearest": nn.ResizeNearestOp,
    "linear": nn.ResizeLinearOp,
}


def _over_images(imp: Importer, node: Node, shape: tuple[int, ...]) -> bool:
    """Whether a bilinear `Resize` of floats leaves batch and channels alone."""
    if len(shape) != 4 or isinstance(element_type(imp.type_of(node.input(0))), UniformType):
        return False
    scales = imp.static(node.input(2)) if node.input(2) else None
    sizes = imp.static_ints(node.input(3)) if node.input(3) else None
    if sizes is not None:
        known = zip(sizes[:2], shape[:2], strict=False)
        return 0 not in sizes and all(n in (DYNAMIC, size) for size, n in known)
    return scales is not None and scales.reshape(-1)[:2].tolist() == [1.0, 1.0]


def _integers(imp: Importer, name: str) -> IntegerType | None:
    """The element type of a tensor of integers (booleans among them), else None."""
    kind = imp.type_of(name)
    if not isinstance(kind, TensorType):
        return None
    element = cast("TensorType[Attribute]", kind).element_type
    return cast("IntegerType", element) if isinstance(element, IntegerType) else None

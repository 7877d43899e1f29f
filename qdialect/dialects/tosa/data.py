"""Operations that move elements, and constants."""

from __future__ import annotations

from xdsl.ir import Attribute
from xdsl.irdl import irdl_op_definition, operand_def, prop_def, result_def, traits_def
from xdsl.traits import ConstantLike, Pure

from qdialect.dialects.tosa.base import AXIS, I32S, TENSOR, ResizeModeAttr, TosaOp
from qdialect.dialects.tosa.shape import ShapeType


@irdl_op_definition
class ConstOp(TosaOp):
    """`values`: any attribute with elements, also one that refers to a store."""

    name = "tosa.const"
    values = prop_def(Attribute)
    output = result_def(TENSOR)
    traits = traits_def(Pure(), ConstantLike())


@irdl_op_definition
class PadOp(TosaOp):
    """`padding`: before and after, dimension by dimension."""

    name = "tosa.pad"
    input1 = operand_def(TENSOR)
    padding = operand_def(ShapeType)
    pad_const = operand_def(TENSOR)
    output = result_def(TENSOR)


@irdl_op_definition
class ReshapeOp(TosaOp):
    """`tosa.reshape`, as upstream defines it."""

    name = "tosa.reshape"
    input1 = operand_def(TENSOR)
    shape = operand_def(ShapeType)
    output = result_def(TENSOR)


@irdl_op_definition
class ReverseOp(TosaOp):
    """`tosa.reverse`, as upstream defines it."""

    name = "tosa.reverse"
    input1 = operand_def(TENSOR)
    axis = prop_def(AXIS)
    output = result_def(TENSOR)


@irdl_op_definition
class SliceOp(TosaOp):
    """`tosa.slice`, as upstream defines it."""

    name = "tosa.slice"
    input1 = operand_def(TENSOR)
    start = operand_def(ShapeType)
    size = operand_def(ShapeType)
    output = result_def(TENSOR)


@irdl_op_definition
class TileOp(TosaOp):
    """`tosa.tile`, as upstream defines it."""

    name = "tosa.tile"
    input1 = operand_def(TENSOR)
    multiples = operand_def(ShapeType)
    output = result_def(TENSOR)


@irdl_op_definition
class TransposeOp(TosaOp):
    """Result dimension d is input dimension perms[d]."""

    name = "tosa.transpose"
    input1 = operand_def(TENSOR)
    perms = prop_def(I32S)
    output = result_def(TENSOR)


@irdl_op_definition
class GatherOp(TosaOp):
    """values [N, K, C], indices [N, W] -> [N, W, C]."""

    name = "tosa.gather"
    values = operand_def(TENSOR)
    indices = operand_def(TENSOR)
    output = result_def(TENSOR)


@irdl_op_definition
class ScatterOp(TosaOp):
    """values_in [N, K, C], indices [N, W], input [N, W, C] -> [N, K, C]."""

    name = "tosa.scatter"
    values_in = operand_def(TENSOR)
    indices = operand_def(TENSOR)
    input = operand_def(TENSOR)
    values_out = result_def(TENSOR)


@irdl_op_definition
class ResizeOp(TosaOp):
    """NHWC; scale [y numerator, y denominator, x numerator, x denominator]."""

    name = "tosa.resize"
    input = operand_def(TENSOR)
    scale = operand_def(ShapeType)
    offset = operand_def(ShapeType)
    border = operand_def(ShapeType)
    mode = prop_def(ResizeModeAttr)
    output = result_def(TENSOR)


OPS = [
    ConstOp,
    PadOp,
    ReshapeOp,
    ReverseOp,
    SliceOp,
    TileOp,
    TransposeOp,
    GatherOp,
    ScatterOp,
    ResizeOp,
]

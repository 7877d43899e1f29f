"""Ops that sum products: convolution, fully connected, matrix product."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import IntegerAttr, StringAttr, i64
from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure

from qdialect.dialects.nn.base import INTS, TENSOR, NNOp, Values, integer, ints
from qdialect.dialects.nn.shapes import (
    DYNAMIC,
    Shape,
    ShapeError,
    broadcast,
    require_rank,
    window_shape,
)

HALF_EVEN = StringAttr("half_even")


@irdl_op_definition
class Conv2DOp(NNOp):
    """2-D convolution (cross-correlation), `input` NCHW, `weight` OIHW, `bias` O.

    y[n,o,i,j] = sum_{c,h,w} x[n,c,i*s0+h*d0-p0,j*s1+w*d1-p1] * w[o,c,h,w] + b[o],
    channels in `groups` groups; `pads` are top, left, bottom, right. On quantized
    operands: dequantize exactly, convolve, quantize with `rounding`.
    """

    name = "nn.conv2d"
    input = operand_def(TENSOR)
    weight = operand_def(TENSOR)
    bias = opt_operand_def(TENSOR)
    result = result_def(TENSOR)
    strides = prop_def(INTS, ints(1, 1))
    pads = prop_def(INTS, ints(0, 0, 0, 0))
    dilations = prop_def(INTS, ints(1, 1))
    groups = prop_def(IntegerAttr.constr(i64), integer(1))
    rounding = prop_def(StringAttr, HALF_EVEN)
    traits = traits_def(Pure())

    @classmethod
    def infer(cls, operands: Sequence[Shape], values: Values) -> list[Shape]:
        x, w = operands[0], operands[1]
        require_rank(x, 4, "an input")
        require_rank(w, 4, "a weight")
        groups = values["groups"]
        if groups < 1:
            raise ShapeError(f"groups must be at least 1, but is {groups}")
        if DYNAMIC in w:
            raise ShapeError("expects a weight of static shape")
        if x[1] not in (DYNAMIC, w[1] * groups):
            raise ShapeError(
                f"input has {x[1]} channels, but the weight takes {w[1]} in {groups} groups"
            )
        if w[0] % groups:
            raise ShapeError(f"{w[0]} output channels do not divide into {groups} groups")
        check_bias(operands, w[0])
        spatial = window_shape(x[2:], w[2:], values["strides"], values["pads"], values["dilations"])
        return [(x[0], w[0], *spatial)]


@irdl_op_definition
class FullyConnectedOp(NNOp):
    """y[m,n] = sum_k x[m,k] * w[n,k] + b[n]; `input` [M,K], `weight` [N,K], `bias` [N]."""

    name = "nn.fully_connected"
    input = operand_def(TENSOR)
    weight = operand_def(TENSOR)
    bias = opt_operand_def(TENSOR)
    result = result_def(TENSOR)
    rounding = prop_def(StringAttr, HALF_EVEN)
    traits = traits_def(Pure())

    @classmethod
    def infer(cls, operands: Sequence[Shape], values: Values) -> list[Shape]:
        x, w = operands[0], operands[1]
        require_rank(x, 2, "an input")
        require_rank(w, 2, "a weight")
        check_depth(x[1], w[1])
        check_bias(operands, w[0])
        return [(x[0], w[0])]


@irdl_op_definition
class MatMulOp(NNOp):
    """Matrix product over the last two dimensions, numpy rules for the others.

    A 1-D operand is a row (lhs) or a column (rhs) whose unit dimension is dropped
    from the result.
    """

    name = "nn.matmul"
    lhs = operand_def(TENSOR)
    rhs = operand_def(TENSOR)
    result = result_def(TENSOR)
    rounding = prop_def(StringAttr, HALF_EVEN)
    traits = traits_def(Pure())

    @classmethod
    def infer(cls, operands: Sequence[Shape], values: Values) -> list[Shape]:
        a, b = operands
        if not a or not b:
            raise ShapeError("expects operands of rank 1 or more")
        left = (1, *a) if len(a) == 1 else a
        right = (*b, 1) if len(b) == 1 else b
        check_depth(left[-1], right[-2])
        batch = broadcast([left[:-2], right[:-2]])
        rows = () if len(a) == 1 else (left[-2],)
        columns = () if len(b) == 1 else (right[-1],)
        return [(*batch, *rows, *columns)]


def check_bias(operands: Sequence[Shape], channels: int) -> None:
    """A bias, if any, is a vector with one entry per output channel."""
    if len(operands) > 2 and (len(operands[2]) != 1 or operands[2][0] not in (DYNAMIC, channels)):
        raise ShapeError(f"expects a bias of shape {channels}, but got {list(operands[2])}")


def check_depth(lhs: int, rhs: int) -> None:
    """The summed dimension has the same extent on both sides."""
    if DYNAMIC not in (lhs, rhs) and lhs != rhs:
        raise ShapeError(f"summed dimensions differ: {lhs} against {rhs}")


OPS = [Conv2DOp, FullyConnectedOp, MatMulOp]

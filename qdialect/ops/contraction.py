"""Ops that sum products: convolution, fully connected, matrix product."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

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

from qdialect.ops.base import HALF_EVEN, INTS, TENSOR, NNOp, Values, integer, ints
from qdialect.ops.shapes import (
    DYNAMIC,
    Shape,
    ShapeError,
    broadcast,
    require_rank,
    transposed_shape,
    window_shape,
)


class _GroupedOp(NNOp):
    """Windows of `input` [N, C, spatial...] and a weight, in `groups` groups of channels.

    `pads` lists all begins, then all ends. On quantized operands: dequantize exactly,
    sum, quantize with `rounding`.
    """

    SPATIAL: ClassVar[int]
    input = operand_def(TENSOR)
    weight = operand_def(TENSOR)
    bias = opt_operand_def(TENSOR)
    result = result_def(TENSOR)
    groups = prop_def(IntegerAttr.constr(i64), integer(1))
    rounding = prop_def(StringAttr, HALF_EVEN)
    traits = traits_def(Pure())

    @classmethod
    def check(cls, operands: Sequence[Shape], values: Values) -> int:
        """The number of groups of operands that fit; ShapeError for others."""
        x, w = operands[0], operands[1]
        require_rank(x, cls.SPATIAL + 2, "an input")
        require_rank(w, cls.SPATIAL + 2, "a weight")
        groups = values["groups"]
        if groups < 1:
            raise ShapeError(f"groups must be at least 1, but is {groups}")
        if DYNAMIC in w:
            raise ShapeError("expects a weight of static shape")
        return groups


class ConvolutionOp(_GroupedOp):
    """Convolution (cross-correlation), `weight` [out, in / groups, kernel...], `bias` [out].

    In two dimensions, with pads from the top, left, bottom and right:
    y[n,o,i,j] = sum_{c,h,w} x[n,c,i*s0+h*d0-p0,j*s1+w*d1-p1] * w[o,c,h,w] + b[o].
    """

    @classmethod
    def infer(cls, operands: Sequence[Shape], values: Values) -> list[Shape]:
        groups = cls.check(operands, values)
        x, w = operands[0], operands[1]
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
class Conv1DOp(ConvolutionOp):
    """1-D convolution, `input` [N, C, W]."""

    name = "nn.conv1d"
    SPATIAL: ClassVar[int] = 1
    strides = prop_def(INTS, ints(1))
    pads = prop_def(INTS, ints(0, 0))
    dilations = prop_def(INTS, ints(1))


@irdl_op_definition
class Conv2DOp(ConvolutionOp):
    """2-D convolution, `input` NCHW, `weight` OIHW."""

    name = "nn.conv2d"
    SPATIAL: ClassVar[int] = 2
    strides = prop_def(INTS, ints(1, 1))
    pads = prop_def(INTS, ints(0, 0, 0, 0))
    dilations = prop_def(INTS, ints(1, 1))


@irdl_op_definition
class Conv3DOp(ConvolutionOp):
    """3-D convolution, `input` [N, C, D, H, W]."""

    name = "nn.conv3d"
    SPATIAL: ClassVar[int] = 3
    strides = prop_def(INTS, ints(1, 1, 1))
    pads = prop_def(INTS, ints(0, 0, 0, 0, 0, 0))
    dilations = prop_def(INTS, ints(1, 1, 1))


class TransposedConvolutionOp(_GroupedOp):
    """Transposed convolution, `weight` [in, out / groups, kernel...], `bias` [out].

    Each input element adds its multiple of the kernel to the result: in one dimension
    y[n,o,i*s+h*d-p] += x[n,c,i] * w[c,o,h]. `output_padding` extends the end of the
    result. A scale per index of the weight's dimension 1 is that of the same output
    channel of every group; of a depthwise weight [C, 1, ...] dimension 0 is the channel.
    """

    @classmethod
    def infer(cls, operands: Sequence[Shape], values: Values) -> list[Shape]:
        groups = cls.check(operands, values)
        x, w = operands[0], operands[1]
        if x[1] not in (DYNAMIC, w[0]):
            raise ShapeError(f"input has {x[1]} channels, but the weight takes {w[0]}")
        if w[0] % groups:
            raise ShapeError(f"{w[0]} input channels do not divide into {groups} groups")
        check_bias(operands, w[1] * groups)
        spatial = transposed_shape(
            x[2:],
            w[2:],
            values["strides"],
            values["pads"],
            values["dilations"],
            values["output_padding"],
        )
        return [(x[0], w[1] * groups, *spatial)]


@irdl_op_definition
class ConvTranspose1DOp(TransposedConvolutionOp):
    """1-D transposed convolution, `input` [N, C, W]."""

    name = "nn.conv_transpose1d"
    SPATIAL: ClassVar[int] = 1
    strides = prop_def(INTS, ints(1))
    pads = prop_def(INTS, ints(0, 0))
    dilations = prop_def(INTS, ints(1))
    output_padding = prop_def(INTS, ints(0))


@irdl_op_definition
class ConvTranspose2DOp(TransposedConvolutionOp):
    """2-D transposed convolution, `input` NCHW."""

    name = "nn.conv_transpose2d"
    SPATIAL: ClassVar[int] = 2
    strides = prop_def(INTS, ints(1, 1))
    pads = prop_def(INTS, ints(0, 0, 0, 0))
    dilations = prop_def(INTS, ints(1, 1))
    output_padding = prop_def(INTS, ints(0, 0))


@irdl_op_definition
class ConvTranspose3DOp(TransposedConvolutionOp):
    """3-D transposed convolution, `input` [N, C, D, H, W]."""

    name = "nn.conv_transpose3d"
    SPATIAL: ClassVar[int] = 3
    strides = prop_def(INTS, ints(1, 1, 1))
    pads = prop_def(INTS, ints(0, 0, 0, 0, 0, 0))
    dilations = prop_def(INTS, ints(1, 1, 1))
    output_padding = prop_def(INTS, ints(0, 0, 0))


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


CONVOLUTIONS = (Conv1DOp, Conv2DOp, Conv3DOp)
"""By the number of spatial dimensions."""

TRANSPOSED = (ConvTranspose1DOp, ConvTranspose2DOp, ConvTranspose3DOp)
"""By the number of spatial dimensions."""

OPS = [*CONVOLUTIONS, *TRANSPOSED, FullyConnectedOp, MatMulOp]

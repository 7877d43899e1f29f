"""Ops that sum products: convolution and its transpose, fully connected, matrix product.

    %y = nn.conv2d %x, %w, %b strides [2, 2] pads [1, 1, 1, 1] : (...) -> tensor<1x16x4x4xf32>

On quantized operands: dequantize exactly, sum, quantize with `rounding`. Arithmetic runs on
exact rationals and on numpy floats alike, hence masks as booleans, which change no type.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import gcd, prod
from typing import TYPE_CHECKING, Any, ClassVar, cast

from xdsl.dialects.builtin import IntegerAttr, StringAttr, i64
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import operand_def, opt_operand_def, prop_def, result_def, traits_def
from xdsl.traits import Pure

from qdialect.ir import behaviors
from qdialect.ir.behaviors.shapes import shape_of
from qdialect.ir.ops.base import HALF_EVEN, INTS, TENSOR, NNOp, Values, integer, ints
from qdialect.ir.ops.declare import nn_op, numbers_per_element, onnx, values
from qdialect.ir.ops.shapes import (
    DYNAMIC,
    Shape,
    ShapeError,
    broadcast,
    require_rank,
    transposed_shape,
    window_shape,
)
from qdialect.ir.ops.windows import pads, taps, transposed_taps, windows

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from qdialect.ir.behaviors import Behavior
    from qdialect.ir.ops.components import Components, Pieces
    from qdialect.ir.ops.windows import Places

    Indices = NDArray[np.int64]

# -- convolutions ------------------------------------------------------------------


def _conv(op: Operation, x: Sequence[Any]) -> Any:
    """Rows of the weight times windows of the input, group by group."""
    weight, groups = shape_of(op.operands[1]), values(op)["groups"]
    rows = x[1].reshape(1, groups, weight[0] // groups, prod(weight[1:]))
    return _grouped(op, x, rows, taps(op, weight[2:]))


def _conv_transpose(op: Operation, x: Sequence[Any]) -> Any:
    """The same, a window being what an element of the result is summed from."""
    weight, groups = shape_of(op.operands[1]), values(op)["groups"]
    inner, kernel = weight[0] // groups, prod(weight[2:])
    rows = x[1].reshape(groups, inner, weight[1], kernel).swapaxes(1, 2)
    rows = rows.reshape(1, groups, weight[1], inner * kernel)
    return _grouped(op, x, rows, transposed_taps(op, weight[2:]))


def _grouped(op: Operation, x: Sequence[Any], rows: Any, taps: Sequence[Places]) -> Any:
    result, (_, groups, _, depth) = shape_of(op.results[0]), rows.shape
    view, inside = windows(op, x[0], taps)
    columns = (view * inside).reshape(result[0], groups, depth, prod(result[2:]))
    y = (rows @ columns).reshape(*result)
    return y + x[2].reshape(1, result[1], *(1 for _ in result[2:])) if len(x) > 2 else y


def _depth(op: Operation) -> int:
    weight = shape_of(op.operands[1])
    return prod(weight[1:])


def _is_depthwise(op: Operation) -> bool:
    return values(op)["groups"] == shape_of(op.operands[1])[0]


def _transposed_axis(op: Operation) -> int:
    """The dimension of the weight that is an output channel of its own: of [in, out /
    groups, ...] the second, of a depthwise [channels, 1, ...] the first."""
    return 0 if _is_depthwise(op) and shape_of(op.operands[1])[1] == 1 else 1


def _repeats(op: Operation) -> int:
    """Output channels that share a scale of the weight: one in each group."""
    return values(op)["groups"] if _transposed_axis(op) else 1


def _transposed_depth(op: Operation) -> int:
    """Products that meet in one element: taps whose distance is a multiple of the stride."""
    v, weight = values(op), shape_of(op.operands[1])
    taps = [
        -(-k // (stride // gcd(stride, dilation)))
        for k, stride, dilation in zip(weight[2:], v["strides"], v["dilations"], strict=True)
    ]
    return weight[0] // v["groups"] * prod(taps)


def _transposed_terms(op: Operation) -> int:
    weight = shape_of(op.operands[1])
    return weight[0] // values(op)["groups"] * prod(weight[2:])


def _conv_channels(op: Operation) -> tuple[Indices, Indices]:
    """Of [out, in / groups, ...]: each group of outputs reads inputs of its own."""
    import numpy as np

    weight = shape_of(op.operands[1])
    rank = len(weight) - 2
    groups = values(op).get("groups", 1)
    out = np.arange(weight[0]).reshape(-1, 1, *(1,) * rank)
    inner = np.arange(weight[1]).reshape(1, -1, *(1,) * rank)
    first = out // (weight[0] // groups) * weight[1] if groups > 1 else 0
    return first + inner, out


def _transposed_channels(op: Operation) -> tuple[Indices, Indices]:
    """Of [in, out / groups, ...]."""
    import numpy as np

    weight, groups = shape_of(op.operands[1]), values(op)["groups"]
    rank = len(weight) - 2
    inner = np.arange(weight[0]).reshape(-1, 1, *(1,) * rank)
    out = np.arange(weight[1]).reshape(1, -1, *(1,) * rank)
    first = inner // (weight[0] // groups) * weight[1] if groups > 1 else 0
    return inner, first + out


def _declare_conv(name: str) -> Behavior:
    return behaviors.Contraction(
        name,
        (
            behaviors.Port("input"),
            behaviors.Port("weight", axes=behaviors.axes(0)),
            behaviors.Port("bias", behaviors.PortKind.BIAS, axes=behaviors.axes(0)),
        ),
        (behaviors.Port("result", axes=behaviors.axes(1)),),
        accumulator=behaviors.Accumulator(
            0, 1, 2, lambda op: 0, lambda op: 1, _depth, pads=pads, channels=_conv_channels
        ),
        arithmetic=_conv,
        work=numbers_per_element(_depth),
    )


def _declare_transposed(name: str) -> Behavior:
    return behaviors.Contraction(
        name,
        (
            behaviors.Port("input"),
            behaviors.Port("weight", axes=lambda op: frozenset({_transposed_axis(op)})),
            behaviors.Port("bias", behaviors.PortKind.BIAS, axes=behaviors.axes(0)),
        ),
        (behaviors.Port("result", axes=behaviors.axes(1)),),
        accumulator=behaviors.Accumulator(
            0,
            1,
            2,
            _transposed_axis,
            lambda op: 1,
            _transposed_depth,
            _repeats,
            pads=lambda op: True,
            channels=_transposed_channels,
        ),
        arithmetic=_conv_transpose,
        work=numbers_per_element(_transposed_terms),
    )


def _with_bias(product: str) -> Callable[[Operation], tuple[str, ...]]:
    return lambda op: (product, "bias_add") if len(op.operands) > 2 else (product,)


def _convolution_pieces() -> Components:
    from qdialect.ir.ops.components import Components
    from qdialect.ir.ops.elementwise import AddOp
    from qdialect.ir.ops.movement import UnsqueezeOp

    def build(op: Operation, pieces: Pieces) -> SSAValue:
        x, weight, *bias = op.operands
        kind = cast("type[NNOp]", type(op))
        product = pieces.add("conv", kind(x, weight, **values(op)))
        column = pieces.emit(UnsqueezeOp(bias[0], axes=range(1, len(shape_of(x)) - 1)))
        return pieces.add("bias_add", AddOp(product, column))

    sums = frozenset({"conv"})
    return Components(("conv", "bias_add"), build, _with_bias("conv"), sums=sums)


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


@nn_op(_declare_conv, pieces=_convolution_pieces)
class Conv1DOp(ConvolutionOp):
    """1-D convolution, `input` [N, C, W]."""

    name = "nn.conv1d"
    SPATIAL: ClassVar[int] = 1
    strides = prop_def(INTS, ints(1))
    pads = prop_def(INTS, ints(0, 0))
    dilations = prop_def(INTS, ints(1))


@nn_op(_declare_conv, pieces=_convolution_pieces)
class Conv2DOp(ConvolutionOp):
    """2-D convolution, `input` NCHW, `weight` OIHW."""

    name = "nn.conv2d"
    SPATIAL: ClassVar[int] = 2
    strides = prop_def(INTS, ints(1, 1))
    pads = prop_def(INTS, ints(0, 0, 0, 0))
    dilations = prop_def(INTS, ints(1, 1))


@nn_op(_declare_conv, pieces=_convolution_pieces)
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


@nn_op(_declare_transposed, pieces=_convolution_pieces)
class ConvTranspose1DOp(TransposedConvolutionOp):
    """1-D transposed convolution, `input` [N, C, W]."""

    name = "nn.conv_transpose1d"
    SPATIAL: ClassVar[int] = 1
    strides = prop_def(INTS, ints(1))
    pads = prop_def(INTS, ints(0, 0))
    dilations = prop_def(INTS, ints(1))
    output_padding = prop_def(INTS, ints(0))


@nn_op(_declare_transposed, pieces=_convolution_pieces)
class ConvTranspose2DOp(TransposedConvolutionOp):
    """2-D transposed convolution, `input` NCHW."""

    name = "nn.conv_transpose2d"
    SPATIAL: ClassVar[int] = 2
    strides = prop_def(INTS, ints(1, 1))
    pads = prop_def(INTS, ints(0, 0, 0, 0))
    dilations = prop_def(INTS, ints(1, 1))
    output_padding = prop_def(INTS, ints(0, 0))


@nn_op(_declare_transposed, pieces=_convolution_pieces)
class ConvTranspose3DOp(TransposedConvolutionOp):
    """3-D transposed convolution, `input` [N, C, D, H, W]."""

    name = "nn.conv_transpose3d"
    SPATIAL: ClassVar[int] = 3
    strides = prop_def(INTS, ints(1, 1, 1))
    pads = prop_def(INTS, ints(0, 0, 0, 0, 0, 0))
    dilations = prop_def(INTS, ints(1, 1, 1))
    output_padding = prop_def(INTS, ints(0, 0, 0))


# -- matrices ----------------------------------------------------------------------


def _fully_connected(op: Operation, x: Sequence[Any]) -> Any:
    """input @ weight^T + bias."""
    y = x[0] @ x[1].swapaxes(0, 1)
    return y + x[2].reshape(1, shape_of(op.operands[1])[0]) if len(x) > 2 else y


def _declare_fully_connected(name: str) -> Behavior:
    return behaviors.Contraction(
        name,
        (
            behaviors.Port("input"),
            behaviors.Port("weight", axes=behaviors.axes(0)),
            behaviors.Port("bias", behaviors.PortKind.BIAS, axes=behaviors.axes(0)),
        ),
        (behaviors.Port("result", axes=behaviors.axes(1)),),
        accumulator=behaviors.Accumulator(
            0, 1, 2, lambda op: 0, lambda op: 1, _depth, channels=_conv_channels
        ),
        arithmetic=_fully_connected,
        work=numbers_per_element(_depth),
    )


def _fully_connected_pieces() -> Components:
    from qdialect.ir.ops.components import Components
    from qdialect.ir.ops.elementwise import AddOp
    from qdialect.ir.ops.movement import TransposeOp

    def build(op: Operation, pieces: Pieces) -> SSAValue:
        x, weight, *bias = op.operands
        product = pieces.add("matmul", FullyConnectedOp(x, weight))
        return pieces.add("bias_add", AddOp(product, bias[0]))

    def of_matmul(op: Operation, pieces: Pieces) -> SSAValue:
        x, weight, bias = op.operands
        turned = pieces.emit(TransposeOp(weight, perm=(1, 0)))
        return pieces.add("bias_add", AddOp(pieces.add("matmul", MatMulOp(x, turned)), bias))

    sums, roles = frozenset({"matmul"}), ("matmul", "bias_add")
    return Components(roles, build, _with_bias("matmul"), sums=sums, also=(of_matmul,))


@nn_op(_declare_fully_connected, pieces=_fully_connected_pieces)
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


def _matmul(op: Operation, x: Sequence[Any]) -> Any:
    """The matrix product; vectors are matrices with a unit dimension."""
    lhs, rhs = (shape_of(operand) for operand in op.operands)
    rows = x[0].reshape(1, *lhs) if len(lhs) == 1 else x[0]
    columns = x[1].reshape(*rhs, 1) if len(rhs) == 1 else x[1]
    return (rows @ columns).reshape(*(shape_of(op.results[0]) or (1,)))


def _last_axis(operand: int) -> Callable[[Operation], frozenset[int]]:
    def of(op: Operation) -> frozenset[int]:
        rank = len(shape_of(op.operands[operand]))
        return frozenset({rank - 1}) if rank > 1 else frozenset()

    return of


def _result_last_axis(op: Operation) -> frozenset[int]:
    rank = len(shape_of(op.results[0]))
    return frozenset({rank - 1}) if rank else frozenset()


def _row(op: Operation) -> int:
    lhs, rhs = (shape_of(operand) for operand in op.operands)
    return rhs[max(len(rhs) - 2, 0)] if lhs[-1] == DYNAMIC else lhs[-1]


def _matmul_channels(op: Operation) -> tuple[Indices, Indices]:
    """Of [..., in, out]; a vector is a column."""
    import numpy as np

    shape = shape_of(op.operands[1])
    if len(shape) == 1:
        return np.arange(shape[0]), np.zeros(1, np.int64)
    return np.arange(shape[-2]).reshape(-1, 1), np.arange(shape[-1])


def _declare_matmul(name: str) -> Behavior:
    return behaviors.Contraction(
        name,
        (behaviors.Port("lhs"), behaviors.Port("rhs", axes=_last_axis(1))),
        (behaviors.Port("result", axes=_result_last_axis),),
        accumulator=behaviors.Accumulator(
            0,
            1,
            None,
            lambda op: len(shape_of(op.operands[1])) - 1,
            lambda op: len(shape_of(op.results[0])) - 1,
            _row,
            lhs_axis=lambda op: len(shape_of(op.operands[0])) - 1,
            channels=_matmul_channels,
            matrices=True,
        ),
        arithmetic=_matmul,
        work=numbers_per_element(_row),
    )


@nn_op(_declare_matmul, onnx=onnx("MatMul", 2))
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

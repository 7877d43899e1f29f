"""Contractions that quantize their input as they run, each time on the grid of its range.

    s, z = (high - low) / 255, round(-low / s)     low, high: the range of x, with 0 inside
    q    = clamp(round(x / s) + z)                 in u8

`nn.dynamic_quantize` is that alone (ONNX DynamicQuantizeLinear).  The others also sum
products of integers and give floats: y = float(sum (q - z) * (q_w - z_w)) * (s * s_w),
evaluated in f32.  The weight is quantized, per tensor or per output channel.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from xdsl.dialects.builtin import IntegerAttr, IntegerType, Signedness, f32, i64
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import operand_def, prop_def, result_def, traits_def
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from qdialect.ir import behaviors
from qdialect.ir.ops.base import (
    INTS,
    TENSOR,
    NNOp,
    Values,
    integer,
    ints,
    ranked,
    shape_of,
    tensor_type,
)
from qdialect.ir.ops.contraction import Conv1DOp, Conv2DOp, Conv3DOp, MatMulOp
from qdialect.ir.ops.declare import nn_op
from qdialect.ir.ops.shapes import Shape
from qdialect.ir.quant import quant_element

if TYPE_CHECKING:
    from qdialect.ir.behaviors import Behavior

CODE = IntegerType(8, Signedness.UNSIGNED)
"""The element type of the codes and of their zero point."""


def _columns(op: Operation) -> frozenset[int]:
    """The last dimension of a weight that has columns."""
    rank = len(shape_of(op.operands[1]))
    return frozenset({rank - 1}) if rank > 1 else frozenset()


def _declare_quantize(name: str) -> Behavior:
    plain = behaviors.PortKind.PLAIN
    results = tuple(behaviors.Port(role, plain) for role in ("codes", "scale", "zero_point"))
    return behaviors.Behavior(name, (behaviors.Port("input", plain),), results)


def _declare_matmul(name: str) -> Behavior:
    plain, weight = (
        behaviors.PortKind.PLAIN,
        behaviors.Port("weight", behaviors.PortKind.FIXED, axes=_columns),
    )
    return behaviors.Behavior(
        name, (behaviors.Port("input", plain), weight), (behaviors.Port("result", plain),)
    )


def _declare_convolution(name: str) -> Behavior:
    plain, weight = (
        behaviors.PortKind.PLAIN,
        behaviors.Port("weight", behaviors.PortKind.FIXED, axes=behaviors.axes(0)),
    )
    return behaviors.Behavior(
        name, (behaviors.Port("input", plain), weight), (behaviors.Port("result", plain),)
    )


@nn_op(_declare_quantize)
class DynamicQuantizeOp(NNOp):
    """The codes of `input` on the grid of its own range, and scale and zero point of it."""

    name = "nn.dynamic_quantize"
    input = operand_def(TENSOR)
    codes = result_def(TENSOR)
    scale = result_def(TENSOR)
    zero_point = result_def(TENSOR)
    traits = traits_def(Pure())

    def __init__(
        self,
        input: SSAValue | Operation,
        *,
        result_types: Sequence[Attribute] | None = None,
        attributes: Mapping[str, Attribute] | None = None,
    ):
        value = SSAValue.get(input)
        if result_types is None:
            result_types = [ranked(CODE, shape_of(value)), ranked(f32, ()), ranked(CODE, ())]
        super().__init__(value, result_types=result_types, attributes=attributes)

    @classmethod
    def infer(cls, operands: Sequence[Shape], values: Values) -> list[Shape]:
        return [operands[0], (), ()]

    def verify_(self) -> None:
        """Check what shapes and types alone do not say; VerifyException."""
        super().verify_()
        given = [tensor_type(value).element_type for value in (*self.operands, *self.results)]
        if given != [f32, CODE, f32, CODE]:
            raise VerifyException(f"'{self.name}' op takes f32 and gives ui8, f32 and ui8")


class DynamicOp(NNOp):
    """A contraction of an input that is quantized as it runs and a quantized weight."""

    #: the same op on floats
    FLOAT: ClassVar[type[NNOp]]
    input = operand_def(TENSOR)
    weight = operand_def(TENSOR)
    result = result_def(TENSOR)
    traits = traits_def(Pure())

    @classmethod
    def infer(cls, operands: Sequence[Shape], values: Values) -> list[Shape]:
        return cls.FLOAT.infer(operands, values)

    def verify_(self) -> None:
        """Check what shapes and types alone do not say; VerifyException."""
        super().verify_()
        for value in (self.input, self.result):
            if tensor_type(value).element_type != f32:
                raise VerifyException(f"'{self.name}' op takes and gives floats of 32 bits")
        weight = quant_element(self.weight.type)
        if weight is None or weight.qparams.storage.spelling not in ("u8", "i8"):
            raise VerifyException(f"'{self.name}' op takes a weight stored as u8 or i8")


@nn_op(_declare_matmul)
class DynamicMatMulOp(DynamicOp):
    """`nn.matmul` of an input that is quantized as it runs."""

    name = "nn.dynamic_matmul"
    FLOAT: ClassVar[type[NNOp]] = MatMulOp


class DynamicConvolutionOp(DynamicOp):
    """Convolution likewise; padding is real 0."""

    groups = prop_def(IntegerAttr.constr(i64), integer(1))


@nn_op(_declare_convolution)
class DynamicConv1DOp(DynamicConvolutionOp):
    """`nn.conv1d` of an input that is quantized as it runs."""

    name = "nn.dynamic_conv1d"
    FLOAT: ClassVar[type[NNOp]] = Conv1DOp
    strides = prop_def(INTS, ints(1))
    pads = prop_def(INTS, ints(0, 0))
    dilations = prop_def(INTS, ints(1))


@nn_op(_declare_convolution)
class DynamicConv2DOp(DynamicConvolutionOp):
    """`nn.conv2d` of an input that is quantized as it runs."""

    name = "nn.dynamic_conv2d"
    FLOAT: ClassVar[type[NNOp]] = Conv2DOp
    strides = prop_def(INTS, ints(1, 1))
    pads = prop_def(INTS, ints(0, 0, 0, 0))
    dilations = prop_def(INTS, ints(1, 1))


@nn_op(_declare_convolution)
class DynamicConv3DOp(DynamicConvolutionOp):
    """`nn.conv3d` of an input that is quantized as it runs."""

    name = "nn.dynamic_conv3d"
    FLOAT: ClassVar[type[NNOp]] = Conv3DOp
    strides = prop_def(INTS, ints(1, 1, 1))
    pads = prop_def(INTS, ints(0, 0, 0, 0, 0, 0))
    dilations = prop_def(INTS, ints(1, 1, 1))


DYNAMIC_CONVOLUTIONS = (DynamicConv1DOp, DynamicConv2DOp, DynamicConv3DOp)
"""By the number of spatial dimensions."""

"""Elementwise ops with numpy broadcasting."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import StringAttr
from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure

from qdialect.ops.base import HALF_EVEN, TENSOR, NNOp, Values
from qdialect.ops.shapes import Shape, broadcast


class BinaryOp(NNOp):
    """Two operands, broadcast as in numpy; on quantized operands the exact real
    result is quantized with `rounding`."""

    lhs = operand_def(TENSOR)
    rhs = operand_def(TENSOR)
    result = result_def(TENSOR)
    rounding = prop_def(StringAttr, HALF_EVEN)
    traits = traits_def(Pure())

    @classmethod
    def infer(cls, operands: Sequence[Shape], values: Values) -> list[Shape]:
        return [broadcast(operands)]


@irdl_op_definition
class AddOp(BinaryOp):
    """lhs + rhs"""

    name = "nn.add"


@irdl_op_definition
class SubOp(BinaryOp):
    """lhs - rhs"""

    name = "nn.sub"


@irdl_op_definition
class MulOp(BinaryOp):
    """lhs * rhs"""

    name = "nn.mul"


@irdl_op_definition
class DivOp(BinaryOp):
    """lhs / rhs; on quantized operands a zero divisor saturates by the sign of lhs,
    and 0/0 gives 0."""

    name = "nn.div"


class ExtremumOp(NNOp):
    """One of two operands, broadcast as in numpy, by their order; NaN if either is.

    On quantized tensors operands and result have the same qparams, each along its own
    dimensions, and codes are compared.
    """

    lhs = operand_def(TENSOR)
    rhs = operand_def(TENSOR)
    result = result_def(TENSOR)
    traits = traits_def(Pure())

    @classmethod
    def infer(cls, operands: Sequence[Shape], values: Values) -> list[Shape]:
        return [broadcast(operands)]


@irdl_op_definition
class MaximumOp(ExtremumOp):
    """The larger of lhs and rhs."""

    name = "nn.maximum"


@irdl_op_definition
class MinimumOp(ExtremumOp):
    """The smaller of lhs and rhs."""

    name = "nn.minimum"


OPS = [AddOp, SubOp, MulOp, DivOp, MaximumOp, MinimumOp]

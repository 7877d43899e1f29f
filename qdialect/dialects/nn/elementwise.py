"""Elementwise ops with numpy broadcasting."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import StringAttr
from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure

from qdialect.dialects.nn.base import (
    HALF_EVEN,
    REAL,
    TENSOR,
    FunctionOp,
    NNOp,
    UnaryOp,
    Values,
    real,
)
from qdialect.dialects.nn.shapes import Shape, ShapeError, broadcast


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


@irdl_op_definition
class ReluOp(UnaryOp):
    """max(x, 0); on quantized tensors max(q, zero point) on the same qparams."""

    name = "nn.relu"


@irdl_op_definition
class ClipOp(UnaryOp):
    """min(max(x, min), max), bounds in real units, an absent bound is infinite.

    On quantized tensors the bounds are quantized with round half even and the
    result has the qparams of the input.
    """

    name = "nn.clip"
    min = opt_prop_def(REAL)
    max = opt_prop_def(REAL)

    @classmethod
    def infer(cls, operands: Sequence[Shape], values: Values) -> list[Shape]:
        low, high = values.get("min"), values.get("max")
        if (low is not None and low != low) or (high is not None and high != high):
            raise ShapeError("bounds must be numbers")
        return [operands[0]]


@irdl_op_definition
class LeakyReluOp(FunctionOp):
    """x if x >= 0 else alpha * x"""

    name = "nn.leaky_relu"
    alpha = prop_def(REAL, real(0.01))


@irdl_op_definition
class SigmoidOp(FunctionOp):
    """1 / (1 + exp(-x))"""

    name = "nn.sigmoid"


@irdl_op_definition
class TanhOp(FunctionOp):
    """Hyperbolic tangent."""

    name = "nn.tanh"


@irdl_op_definition
class HardSigmoidOp(FunctionOp):
    """max(0, min(1, alpha * x + beta))"""

    name = "nn.hard_sigmoid"
    alpha = prop_def(REAL, real(0.2))
    beta = prop_def(REAL, real(0.5))


@irdl_op_definition
class HardSwishOp(FunctionOp):
    """x * max(0, min(1, x/6 + 1/2))"""

    name = "nn.hard_swish"


OPS = [
    AddOp,
    SubOp,
    MulOp,
    DivOp,
    MaximumOp,
    MinimumOp,
    ReluOp,
    ClipOp,
    LeakyReluOp,
    SigmoidOp,
    TanhOp,
    HardSigmoidOp,
    HardSwishOp,
]

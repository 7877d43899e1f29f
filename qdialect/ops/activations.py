"""Functions of one variable between layers."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.irdl import irdl_op_definition, opt_prop_def, prop_def

from qdialect.ops.base import REAL, FunctionOp, UnaryOp, Values, real
from qdialect.ops.shapes import Shape, ShapeError


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


OPS = [ReluOp, ClipOp, LeakyReluOp, SigmoidOp, TanhOp, HardSigmoidOp, HardSwishOp]

"""More elementwise functions of one tensor; the common ones are in `elementwise.py`.

On quantized tensors the exact real result is quantized with `rounding`.  Where the
function has no real value (the logarithm of a negative number) that stores the lowest
code; infinities saturate.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite

from xdsl.dialects.builtin import StringAttr
from xdsl.irdl import irdl_op_definition, operand_def, prop_def, result_def, traits_def
from xdsl.traits import Pure

from qdialect.ops.base import HALF_EVEN, REAL, TENSOR, FunctionOp, NNOp, Values, real
from qdialect.ops.shapes import DYNAMIC, Shape, ShapeError, broadcast

GELU_FORMS = ("none", "tanh")


@irdl_op_definition
class NegOp(FunctionOp):
    """-x"""

    name = "nn.neg"


@irdl_op_definition
class AbsOp(FunctionOp):
    """|x|"""

    name = "nn.abs"


@irdl_op_definition
class ExpOp(FunctionOp):
    """e to the x"""

    name = "nn.exp"


@irdl_op_definition
class LogOp(FunctionOp):
    """Natural logarithm."""

    name = "nn.log"


@irdl_op_definition
class SqrtOp(FunctionOp):
    """Square root."""

    name = "nn.sqrt"


@irdl_op_definition
class ReciprocalOp(FunctionOp):
    """1 / x; on a quantized operand 1 / 0 saturates upwards."""

    name = "nn.reciprocal"


@irdl_op_definition
class ErfOp(FunctionOp):
    """Error function."""

    name = "nn.erf"


@irdl_op_definition
class GeluOp(FunctionOp):
    """x/2 * (1 + erf(x / sqrt(2))), or with `approximate tanh`
    x/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 * x^3)))"""

    name = "nn.gelu"
    approximate = prop_def(StringAttr, StringAttr("none"))

    @classmethod
    def infer(cls, operands: Sequence[Shape], values: Values) -> list[Shape]:
        if values["approximate"] not in GELU_FORMS:
            raise ShapeError(f"approximate must be one of {', '.join(GELU_FORMS)}")
        return [operands[0]]


@irdl_op_definition
class SwishOp(FunctionOp):
    """x * sigmoid(alpha * x)"""

    name = "nn.swish"
    alpha = prop_def(REAL, real(1.0))


@irdl_op_definition
class SoftplusOp(FunctionOp):
    """log(1 + exp(x))"""

    name = "nn.softplus"


@irdl_op_definition
class EluOp(FunctionOp):
    """x if x >= 0 else alpha * (exp(x) - 1)"""

    name = "nn.elu"
    alpha = prop_def(REAL, real(1.0))


@irdl_op_definition
class PowOp(FunctionOp):
    """x to the constant power `exponent`"""

    name = "nn.pow"
    exponent = prop_def(REAL)

    @classmethod
    def infer(cls, operands: Sequence[Shape], values: Values) -> list[Shape]:
        if not isfinite(values["exponent"]):
            raise ShapeError("exponent must be finite")
        return [operands[0]]


@irdl_op_definition
class FloorOp(FunctionOp):
    """The largest integer that is not greater than x"""

    name = "nn.floor"


@irdl_op_definition
class CeilOp(FunctionOp):
    """The smallest integer that is not less than x"""

    name = "nn.ceil"


@irdl_op_definition
class RoundOp(FunctionOp):
    """The nearest integer, halves to the even one"""

    name = "nn.round"


@irdl_op_definition
class PReluOp(NNOp):
    """x if x >= 0 else slope * x; `slope` broadcasts to the shape of x."""

    name = "nn.prelu"
    input = operand_def(TENSOR)
    slope = operand_def(TENSOR)
    result = result_def(TENSOR)
    rounding = prop_def(StringAttr, HALF_EVEN)
    traits = traits_def(Pure())

    @classmethod
    def infer(cls, operands: Sequence[Shape], values: Values) -> list[Shape]:
        x, slope = operands
        if DYNAMIC not in (*x, *slope) and broadcast(operands) != x:
            raise ShapeError(f"slope of shape {list(slope)} does not broadcast to {list(x)}")
        if len(slope) > len(x):
            raise ShapeError(f"slope of rank {len(slope)} does not broadcast to {list(x)}")
        return [x]


OPS = [
    NegOp,
    AbsOp,
    ExpOp,
    LogOp,
    SqrtOp,
    ReciprocalOp,
    ErfOp,
    GeluOp,
    SwishOp,
    SoftplusOp,
    EluOp,
    PowOp,
    FloorOp,
    CeilOp,
    RoundOp,
    PReluOp,
]

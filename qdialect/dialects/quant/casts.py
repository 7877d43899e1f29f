"""`quant.qcast`, `quant.dcast`, `quant.scast`: upstream's three conversions."""

from __future__ import annotations

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import IRDLOperation, irdl_op_definition, operand_def, result_def, traits_def
from xdsl.traits import Pure

from qdialect.numerics.rounding import Rounding

ROUNDING_KEY = "quant.rounding"
"""Discardable attribute (a string) that fixes the rounding of a cast; upstream leaves it open."""


def cast_rounding(op: Operation) -> Rounding:
    """How a cast rounds: its `quant.rounding` attribute, ties to even without one.

    Raises ValueError when the attribute is not a rounding.
    """
    value = op.attributes.get(ROUNDING_KEY)
    if value is None:
        return Rounding.HALF_EVEN
    return Rounding(value.data if isinstance(value, StringAttr) else str(value))


class CastOp(IRDLOperation):
    """A conversion of one scalar or tensor, element by element."""

    input = operand_def()
    result = result_def()

    traits = traits_def(Pure())
    assembly_format = "$input attr-dict `:` type($input) `to` type($result)"

    def __init__(self, input: SSAValue | Operation, result_type: Attribute) -> None:
        super().__init__(operands=[input], result_types=[result_type])


@irdl_op_definition
class QCastOp(CastOp):
    """Float to quantized: q = clamp(round(x / scale + zero point))."""

    name = "quant.qcast"


@irdl_op_definition
class DCastOp(CastOp):
    """Quantized to float: x = (q - zero point) * scale."""

    name = "quant.dcast"


@irdl_op_definition
class SCastOp(CastOp):
    """Quantized to its storage integer, or back: the bits do not change."""

    name = "quant.scast"

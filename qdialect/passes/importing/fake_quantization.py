"""Floats that are rounded on the way: what a quantize and a dequantize make of a value."""

from __future__ import annotations

from fractions import Fraction

from xdsl.ir import SSAValue

from qdialect.context import QContext
from qdialect.ops import constant_of
from qdialect.passes.constant_scalars import scalar_of
from qdialect.quant import DCastOp, QCastOp


def unrounded(value: SSAValue) -> SSAValue:
    """The float that a dequantized one was before it was quantized, if it was."""
    while isinstance(value.owner, DCastOp) and isinstance(value.owner.input.owner, QCastOp):
        value = value.owner.input.owner.input
    return value


def rounded(value: SSAValue) -> SSAValue:
    """What a value that is only quantized and dequantized is then."""
    while (use := value.first_use) is not None and value.has_one_use():
        if not isinstance(use.operation, QCastOp | DCastOp):
            break
        value = use.operation.results[0]
    return value


def number_of(value: SSAValue, session: QContext) -> Fraction | None:
    """The one real number that a constant, or one behind a dequantize, holds everywhere."""
    if isinstance(value.owner, DCastOp) and constant_of(value.owner.input) is not None:
        value = value.owner.input
    return scalar_of(value, session)

"""Conversions between the encodings of a value: what placement moves.

    quant.rescale    codes  -> codes
    quant.qcast      floats -> codes
    quant.dcast      codes  -> floats

An encoding is how a value stands for real numbers: as codes on qparams, or as floats. Placement
treats every pair of encodings alike; what one conversion in place of two changes, and what a
conversion costs, is decided by `place.costs`.
"""

from __future__ import annotations

from typing import NamedTuple

from xdsl.dialects.builtin import AnyFloat, StringAttr
from xdsl.ir import Attribute, Operation, SSAValue

from qdialect.algebra.qparams import QParams
from qdialect.algebra.rounding import Rounding
from qdialect.analysis.codes import is_integer
from qdialect.ir.ops.base import PINNED, kernels_of
from qdialect.ir.quant import (
    ROUNDING_KEY,
    DCastOp,
    QCastOp,
    RescaleOp,
    cast_rounding,
    element_type,
    quant_element,
    with_element,
)
from qdialect.passes.rule_pass import uniform

_CONVERSIONS = frozenset((RescaleOp.name, QCastOp.name, DCastOp.name))
Conversion = RescaleOp | QCastOp | DCastOp


class Floats(NamedTuple):
    """The encoding of floats of type `kind`."""

    kind: AnyFloat

    @property
    def is_per_tensor(self) -> bool:
        """Whether it is the same for all elements: always."""
        return True


Encoding = QParams | Floats


def encoding_of(value: SSAValue) -> Encoding | None:
    """The encoding of a value; None if it is neither floats nor codes."""
    element = quant_element(value.type)
    if element is not None:
        return element.qparams
    kind = element_type(value.type)
    return Floats(kind) if isinstance(kind, AnyFloat) else None


def with_encoding(value: SSAValue, encoding: Encoding) -> Attribute:
    """The type of `value` with another encoding."""
    return encoded(value.type, encoding)


def encoded(kind: Attribute, encoding: Encoding) -> Attribute:
    """The type `kind` with another encoding."""
    element = encoding.kind if isinstance(encoding, Floats) else uniform(encoding)
    return with_element(kind, element)


def conversion_of(op: Operation) -> Conversion | None:
    """`op` if it is a conversion whose place may be chosen."""
    # For every op of a module; where the answer is no, `isinstance` is slow.
    if op.name not in _CONVERSIONS or kernels_of(op) is not None or PINNED in op.attributes:
        return None
    if isinstance(op, RescaleOp):
        fixed = op.fixed_point is not None or op.rounding.two_stage
        return None if fixed else op
    if not isinstance(op, QCastOp | DCastOp) or rounding_of(op).two_stage:
        return None
    codes = quant_element((op.result if isinstance(op, QCastOp) else op.input).type)
    return op if codes is not None and is_integer(codes.qparams) else None


def rounding_of(op: Conversion) -> Rounding:
    """How a conversion rounds to codes; a dequantize, which does not, counts as half even."""
    if isinstance(op, RescaleOp):
        return op.rounding
    return cast_rounding(op) if isinstance(op, QCastOp) else Rounding.HALF_EVEN


def convert(value: SSAValue, source: Encoding, kind: Attribute, rounding: Rounding) -> Conversion:
    """The conversion of `value`, which has the encoding `source`, to the type `kind`; one of the
    two is codes."""
    if quant_element(kind) is None:
        return DCastOp(value, kind)
    if not isinstance(source, Floats):
        return RescaleOp(value, kind, rounding)
    cast = QCastOp(value, kind)
    if rounding is not Rounding.HALF_EVEN:
        cast.attributes[ROUNDING_KEY] = StringAttr(rounding.value)
    return cast

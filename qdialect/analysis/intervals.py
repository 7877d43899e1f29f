"""Intervals of single values and ops, whatever stands above them (`ranges`)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from math import inf, isfinite
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import Float32Type, Float64Type
from xdsl.ir import SSAValue

from qdialect.analysis.codes import constant_values, is_integer, qparams_of
from qdialect.context import QContext
from qdialect.dialects.nn import ConstantOp
from qdialect.dialects.nn.constants import BlobAttr
from qdialect.dialects.quant import SCastOp, element_type
from qdialect.numerics import requantize as exact
from qdialect.numerics.ranges import Interval, quantized, reals
from qdialect.numerics.rounding import Rounding
from qdialect.qparams import QParams

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: relative and absolute error of a few operations in f32, generously
_SLACK, _TINY = 2.0**-20, 2.0**-120
_LARGEST_FLOAT = 2.0**127


def anything(value: SSAValue) -> Interval | None:
    """Every number the storage of a quantized value has; no bound for others."""
    params = qparams_of(value)
    return None if params is None else Interval(*params.storage.full_range)


def bounds_of(value: SSAValue) -> Interval | None:
    """What is left by an op that saturates at the bounds of its result."""
    params = qparams_of(value)
    return None if params is None else Interval(params.storage.min, params.storage.max)


def constant_range(op: ConstantOp, session: QContext) -> Interval | None:
    """The smallest and the largest number in a constant."""
    params = qparams_of(op.result)
    if params is None and not isinstance(element_type(op.result.type), Float32Type | Float64Type):
        return None
    array = None if params and not is_integer(params) else constant_values(op.result, session)
    if array is None or not array.size:
        return anything(op.result)
    if isinstance(op.value, BlobAttr):
        return session.blobs.derived(op.value.key.data, "ends", lambda: _ends(array))
    return _ends(array)


def _ends(array: NDArray[Any]) -> Interval | None:
    try:
        return Interval.exactly(array)
    except ValueError:
        return None


def same_codes(op: SCastOp) -> SSAValue | None:
    """The quantized value whose codes `op` reads again as they were."""
    above = op.input.owner
    if not isinstance(above, SCastOp):
        return None
    old, new = qparams_of(above.input), qparams_of(op.result)
    if old is None or new is None or not (is_integer(old) and is_integer(new)):
        return None
    same = (old.storage.signed, old.storage.width) == (new.storage.signed, new.storage.width)
    return above.input if same else None


def union(found: Iterable[Interval]) -> Interval:
    first, *others = found
    for other in others:
        first = first.join(other)
    return first


def reals_of(codes: Interval, params: QParams) -> Interval:
    return union(reals(codes, a) for a in exact.affines(params))


def is_decidable(params: QParams, rounding: Rounding) -> bool:
    return is_integer(params) and rounding is not Rounding.GEMMLOWP


def in_floats(values: Interval) -> Interval | None:
    """What they may be after a few roundings in f32."""
    if values.largest >= _LARGEST_FLOAT:
        return None
    return values.widened(values.largest * Fraction(_SLACK) + Fraction(_TINY))


def level_of(level: float, result: SSAValue) -> Interval | None:
    """A real constant as `result` holds it."""
    params = qparams_of(result)
    if params is None:
        return in_floats(Interval.exactly(level)) if isfinite(level) else None
    codes = (exact.quantize_real(level, b, Rounding.HALF_EVEN) for b in exact.affines(params))
    return union(Interval(code, code) for code in codes)


def clamped_by(values: Interval, low: float, high: float, result: SSAValue) -> Interval | None:
    """min(max(x, low), high) in the representation of `result`."""
    params = qparams_of(result)
    if params is None:
        bounds = [level_of(bound, result) for bound in (low, high) if isfinite(bound)]
        slack = max((b.largest for b in bounds if b), default=0) * Fraction(_SLACK)
        return values.clip(low, high).widened(slack)
    found: list[Interval] = []
    for b in exact.affines(params):
        ends = [int(values.low), int(values.high)]
        if low != -inf:
            lowest = exact.quantize_real(low, b, Rounding.HALF_EVEN)
            ends = [max(end, lowest) for end in ends]
        if high != inf:
            highest = exact.quantize_real(high, b, Rounding.HALF_EVEN)
            ends = [min(end, highest) for end in ends]
        found.append(Interval(*ends, assuming=values.assuming))
    return union(found)


def stored_anew(operands: Sequence[tuple[SSAValue, Interval]], result: QParams) -> Interval:
    """A movement that stores operands of other qparams anew, half to even."""
    found: list[Interval] = []
    for value, codes in operands:
        own = qparams_of(value)
        if own == result:
            found.append(codes)
        elif own and own.is_per_tensor and result.is_per_tensor and is_integer(own):
            (a,), (b,) = exact.affines(own), exact.affines(result)
            found.append(quantized(reals(codes, a), b, Rounding.HALF_EVEN))
        else:
            found.append(codes.join(Interval(result.storage.min, result.storage.max)))
    return union(found)

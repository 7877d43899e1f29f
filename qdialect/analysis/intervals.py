"""The interval rule of each kind of value and op, from which `ranges` computes those of a module.

Every interval holds all codes (or reals, of a float) that the value can have for any input.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from math import ceil, inf, isfinite
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import Float32Type, Float64Type
from xdsl.ir import Operation, SSAValue

from qdialect.algebra import requantize as exact
from qdialect.algebra.arithmetic import quantized as code_of
from qdialect.algebra.arithmetic import requantized
from qdialect.algebra.qparams import QParams, Storage
from qdialect.algebra.ranges import Interval, clamped, reals
from qdialect.algebra.rounding import Rounding
from qdialect.analysis.codes import constant_values, is_integer, qparams_of
from qdialect.ir.behaviors import Behavior
from qdialect.ir.context import QContext
from qdialect.ir.ops import ConstantOp
from qdialect.ir.ops.constants import BlobAttr
from qdialect.ir.quant import SCastOp, arithmetic_of, element_type

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qdialect.algebra.qparams.maps import IndexMap

#: relative and absolute error of a few operations in f32, generously
_SLACK, _TINY = 2.0**-20, 2.0**-120
#: unit roundoffs, and how many of them functions and sums of many products lose
_UNIT = {"f64": 2.0**-53, "f32": 2.0**-24, "f16": 2.0**-11, "bf16": 2.0**-8}
_STEPS, _SUMS = 2.0**6, 2.0**15
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
    """The smallest interval that holds all of `found` (at least one)."""
    first, *others = found
    for other in others:
        first = first.join(other)
    return first


def reals_of(codes: Interval, params: QParams) -> Interval:
    """The real numbers that `codes` stand for under any pair of `params`."""
    return union(reals(codes, a) for a in exact.quant_grids(params))


def rescaled_codes(
    codes: Interval,
    a: exact.QuantGrid,
    b: exact.QuantGrid,
    rounding: Rounding,
    floats: str | None,
) -> Interval:
    """What codes of `a`, whose own bounds do not matter, become as codes of `b`."""
    ends = [int(codes.low), int(codes.high)]
    if floats is None:
        low, high = (exact.rescaled(end, a, b, rounding) for end in ends)
    else:
        import numpy as np

        low, high = requantized(np.array(ends), a, b, rounding, floats).tolist()
    return clamped(Interval(low, high, codes.assuming), b)


def is_decidable(params: QParams, rounding: Rounding) -> bool:
    """Whether codes are integers that a rounding of real numbers gives."""
    return is_integer(params) and not rounding.two_stage


def in_floats(values: Interval) -> Interval | None:
    """What they may be after a few roundings in f32."""
    if values.largest >= _LARGEST_FLOAT:
        return None
    return values.widened(values.largest * Fraction(_SLACK) + Fraction(_TINY))


def as_floats(values: Interval, expressed: str, *, sums: bool) -> Interval:
    """What floats may be that are `values` in the reals: sums, or some other function."""
    # Sums of floats of 16 bits are computed in f32.
    unit = _UNIT["f32" if sums and expressed != "f64" else expressed] * (_SUMS if sums else _STEPS)
    return values.widened(values.largest * Fraction(unit) + Fraction(_TINY))


def off_by(value: SSAValue, found: Interval, moved: float) -> Interval | None:
    """What `value` can hold if it may be off by so much, in real units."""
    params = qparams_of(value)
    if params is None or not isfinite(moved):
        return anything(value)
    whole = Interval(*params.storage.full_range)
    return found.widened(ceil(moved / min(params.scale_list()))).cut(whole)


def level_of(level: float, params: QParams | None, floats: str | None) -> Interval | None:
    """A real constant as a value of these `params`, or a float, holds it."""
    if params is None:
        return in_floats(Interval.exactly(level)) if isfinite(level) else None
    codes = (code_of(level, b, Rounding.HALF_EVEN, floats) for b in exact.quant_grids(params))
    return union(Interval(code, code) for code in codes)


def clamped_by(
    values: Interval, low: float, high: float, params: QParams | None, floats: str | None
) -> Interval | None:
    """min(max(x, low), high) in the representation `params`, or in floats."""
    if params is None:
        bounds = [level_of(bound, None, None) for bound in (low, high) if isfinite(bound)]
        slack = max((b.largest for b in bounds if b), default=0) * Fraction(_SLACK)
        return values.clip(low, high).widened(slack)
    found: list[Interval] = []
    for b in exact.quant_grids(params):
        ends = [int(values.low), int(values.high)]
        if low != -inf:
            lowest = code_of(low, b, Rounding.HALF_EVEN, floats)
            ends = [max(end, lowest) for end in ends]
        if high != inf:
            highest = code_of(high, b, Rounding.HALF_EVEN, floats)
            ends = [min(end, highest) for end in ends]
        found.append(Interval(*ends, assuming=values.assuming))
    return union(found)


LaidOut = tuple[QParams | None, Interval]
"""What is known of a value: its qparams and the codes it can hold (or floats)."""


def passed_on(
    op: Operation,
    behavior: Behavior,
    operands: Sequence[LaidOut],
    params: QParams | None,
    movement: IndexMap | None,
) -> Interval | None:
    """What the result of an op that commutes can hold, as `params`, when its tied operands (of
    a choice: all operands) hold what they do: elements of them, which `movement` moves there
    if it is one, real constants of the op, or elements clamped by them. None: nothing is
    known."""
    floats = None if params is None else arithmetic_of(op).floats(params.expressed)
    if params is not None and behavior.requantizes_inputs:
        return _stored_anew(operands, params, floats)
    joined = union(interval for _, interval in operands)
    if params is not None and not is_integer(params):
        return joined
    if behavior.choose is not None:
        return _chosen(op, behavior, [interval for _, interval in operands])
    if behavior.clamp is not None:
        low, high = behavior.clamp(op)
        return clamped_by(joined, low, high, params, floats)
    levels = [*behavior.compared_constants(op)] if behavior.compared_constants else []
    if movement is not None and movement.has_border:
        levels.append(movement.border_value)
    for level in levels:
        code = level_of(level, params, floats)
        if code is None:  # a float may be infinite, a code stands for the nearest number
            return None
        joined = joined.join(code)
    return joined


def _chosen(op: Operation, behavior: Behavior, known: Sequence[Interval]) -> Interval:
    """Monotone in every operand, so its ends come from theirs."""
    assert behavior.choose is not None
    import numpy as np

    ends = (
        [np.array([v], object) for v in side]
        for side in zip(*((k.low, k.high) for k in known), strict=True)
    )
    low, high = (behavior.choose(op, side)[0] for side in ends)
    return Interval(low, high, next((k.assuming for k in known if k.assuming), ""))


def _stored_anew(operands: Sequence[LaidOut], result: QParams, floats: str | None) -> Interval:
    """A movement that stores operands of other qparams anew, half to even."""
    found: list[Interval] = []
    for params, codes in operands:
        if params == result:
            found.append(codes)
        elif params and params.is_per_tensor and result.is_per_tensor and is_integer(params):
            (a,), (b,) = exact.quant_grids(params), exact.quant_grids(result)
            found.append(rescaled_codes(codes, a, b, Rounding.HALF_EVEN, floats))
        else:
            found.append(codes.join(Interval(result.storage.min, result.storage.max)))
    return union(found)


def within(params: QParams, codes: Interval | None) -> QParams:
    """`params` of integers with `codes` as bounds."""
    storage = params.storage
    low, high = storage.full_range if codes is None else (int(codes.low), int(codes.high))
    if (low, high) == (storage.min, storage.max):
        return params
    if params.is_per_tensor:
        return _within(params, low, high)
    return params.with_storage(_bounded(storage, low, high))


@lru_cache(maxsize=1 << 13)
def _within(params: QParams, low: int, high: int) -> QParams:
    """Remembered, as its hash is asked for again and again."""
    return params.with_storage(_bounded(params.storage, low, high))


@lru_cache(maxsize=4096)
def _bounded(storage: Storage, low: int, high: int) -> Storage:
    return replace(storage, min=low, max=high)

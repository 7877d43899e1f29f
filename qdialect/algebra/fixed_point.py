"""Real ratios as (multiplier, shift) pairs, and what that changes.

A fixed-point rescale multiplies n = q - zero point by m * 2**-k in integers:

    half_up    (n*m + 2**(k-1)) >> k                  TOSA SINGLE_ROUND
    half_away, half_even                              the same, ties as named
    gemmlowp   (n*m + 2**(k-1) + t) >> k              TOSA DOUBLE_ROUND, TFLite
               t = 2**30 with the sign of n (plus at 0) if k > 31, else 0
    ruy        (n*m + 2**(k-1) + t) >> k              optimized kernels of TFLite
               t = 2**30 if k > 31, else 0

The last two are two roundings: with h = (n*m + 2**30) >> 31, h * 2**(31-k) half away from zero,
or half up.

`>>` rounds down.  A multiplier of `bits` bits (a signed type: 32 or 16) has its top bit
set, m in [2**(bits-2), 2**(bits-1)), so that the pair nearest to a ratio r is off by
|m * 2**-k - r| <= 2**(1-bits) r.  Below 2**(bits-2-62) the shift stays at 62 and the
multiplier loses bits; there the error is at most 2**-63.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple

from qdialect.algebra.arithmetic import requantized
from qdialect.algebra.contract import EXACT, Contract, Numerics
from qdialect.algebra.float_path import COMPUTED_IN, requantize_floats
from qdialect.algebra.float_text import FORMATS
from qdialect.algebra.lazy_numpy import np
from qdialect.algebra.requantize import (
    TABLE_WIDTH,
    QuantGrid,
    codes_of,
    round_fraction,
    round_ratio,
)
from qdialect.algebra.rounding import Rounding

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qdialect.algebra.requantize import Codes

MAX_SHIFT = 62
#: smallest shift of `tosa.rescale`
MIN_SHIFT = 2
#: how many codes are looked at to decide that two rescales are equal
_DECISIVE_CODES = 1 << 20
#: and how many results a rescale may have so that the places where it steps are
_MANY_RESULTS = 1 << 16
_NUDGE = 1 << 30


_LIMIT = 2.0**62
_NEAR_INTEGER = 2.0**-46


class FixedPoint(NamedTuple):
    """The factor multiplier * 2**-shift."""

    multiplier: int
    shift: int

    @property
    def ratio(self) -> Fraction:
        """The factor as an exact number."""
        return Fraction(self.multiplier, 1 << self.shift)


def ratio_of(a: QuantGrid, b: QuantGrid) -> Fraction:
    """Steps of `b` per step of `a`, exactly."""
    return Fraction(a.scale) / Fraction(b.scale)


def to_fixed_point(ratio: Fraction, bits: int = 32, min_shift: int = MIN_SHIFT) -> FixedPoint:
    """The pair nearest to `ratio` > 0 whose multiplier is a non-negative `bits`-bit
    signed integer and whose shift is in [min_shift, 62].

    Raises ValueError when the ratio is too large for such a pair.
    """
    if ratio <= 0:
        raise ValueError(f"a scale ratio must be positive, not {ratio}")
    top = 1 << (bits - 1)
    exponent = floor_log2(ratio)
    shift = min(bits - 2 - exponent, MAX_SHIFT)
    multiplier = round_fraction(ratio * _power(shift), Rounding.HALF_EVEN)
    if multiplier == top:
        multiplier, shift = multiplier >> 1, shift - 1
    if shift < min_shift:
        # The nearest pair with the smallest shift, if the multiplier still fits.
        shift = min_shift
        multiplier = round_fraction(ratio * _power(shift), Rounding.HALF_EVEN)
    if multiplier >= top:
        raise ValueError(
            f"a ratio of {float(ratio):g} needs a shift below {min_shift} with a "
            f"{bits}-bit multiplier"
        )
    return FixedPoint(multiplier, shift)


def floor_log2(ratio: Fraction) -> int:
    """The largest e with 2**e <= ratio, of a positive number."""
    guess = ratio.numerator.bit_length() - ratio.denominator.bit_length()
    return guess if ratio >= _power(guess) else guess - 1


def _power(exponent: int) -> Fraction:
    return Fraction(1 << exponent) if exponent >= 0 else Fraction(1, 1 << -exponent)


def apply(steps: NDArray[Any], pair: FixedPoint, rounding: Rounding) -> NDArray[Any]:
    """`steps` times the pair, rounded to integers, exactly.

    In int64 where no product overflows, else in Python integers.
    """
    multiplier, shift = pair
    largest = int(np.abs(steps).max(initial=0))
    if largest * multiplier + (1 << shift) + _NUDGE >= 1 << 63:
        steps = steps.astype(object)
    product = steps * multiplier
    if shift == 0:
        return product
    half = 1 << (shift - 1)
    if rounding is Rounding.HALF_UP:
        product = product + half
    elif rounding is Rounding.HALF_AWAY:
        product = product + (half - (product < 0))
    elif rounding.in_reals is Rounding.HALF_EVEN:
        product = product + (half - 1) + ((product >> shift) & 1)
    else:
        nudge = _NUDGE if shift > 31 else 0
        down = (steps < 0) if rounding is Rounding.GEMMLOWP else False
        product = product + half + np.where(down, -nudge, nudge)
    return product >> shift


def requantize_fixed(
    codes: NDArray[Any],
    a: QuantGrid,
    b: QuantGrid,
    pair: FixedPoint,
    rounding: Rounding,
) -> Codes:
    """Codes of `a` as codes of `b` through the pair: clamp(R((q - z_a) * m * 2**-k) + z_b)."""
    steps = apply(_steps(codes, a), pair, rounding)
    return np.clip(steps + b.zero, b.low, b.high).astype(np.int64)


def _steps(codes: NDArray[Any], a: QuantGrid) -> NDArray[Any]:
    wide = max(abs(a.low - a.zero), abs(a.high - a.zero)) >= 1 << 62
    return codes.astype(object if wide else np.int64) - a.zero


@dataclass(frozen=True)
class Form:
    """One way to compute a rescale: the real ratio, or a pair, and a rounding; the real ratio
    in the reals, or through floats of the type `floats`."""

    rounding: Rounding
    pair: FixedPoint | None = None
    floats: str | None = None

    def factor(self, a: QuantGrid, b: QuantGrid) -> Fraction:
        """What n = q - zero point is multiplied by."""
        return ratio_of(a, b) if self.pair is None else self.pair.ratio

    def codes(self, codes: Codes, a: QuantGrid, b: QuantGrid) -> Codes:
        """The result of every code."""
        if self.pair is not None:
            return requantize_fixed(codes, a, b, self.pair, self.rounding)
        if self.floats is not None:
            return requantized(codes, a, b, self.rounding, self.floats)
        rounded = round_ratio(codes - a.zero, ratio_of(a, b), self.rounding)
        return np.clip(rounded + b.zero, b.low, b.high)


def weakest_replacement(
    grids: Sequence[tuple[QuantGrid, QuantGrid]],
    old: Sequence[Form],
    new: Sequence[Form],
) -> Contract:
    """What computing rescales (pairs of grids that share storages and roundings) by the forms
    `new` instead of `old` may change: the weakest contract of all.

    Decided by looking at the codes on which the two differ (between the places where one and
    the other step, `step_positions`), unless the result has more than 2**16 codes, or more
    than 2**20 codes do not saturate and one of the two rounds twice.  Then
    |n * f_old - n * f_new| <= e on those that do not saturate gives at most ceil(e) steps, and
    one more if the two round ties differently, or one through floats.  Of more codes than a
    table has, one step more than in the reals is stated for floats.
    """
    many = any(a.high - a.low >= 1 << TABLE_WIDTH for a, _ in grids)
    if many and any(form.floats is not None for form in (*old, *new)):
        in_reals = [[replace(form, floats=None) for form in forms] for forms in (old, new)]
        found = weakest_replacement(grids, *in_reals)
        if [form.floats for form in old] == [form.floats for form in new] and found == EXACT:
            return found
        return Contract(Numerics.BOUNDED, found.steps + 1, found.note)
    differing = _differing(grids, old, new)
    contracts = [
        _contract(*grids[i], old[i], new[i], codes)
        for i, codes in enumerate(differing)
        if codes is None or codes.size
    ]
    exact = Contract(Numerics.EXACT, note="equal on all codes")
    if not contracts and all(
        o.factor(*c) == n.factor(*c) and o.rounding is n.rounding and o.floats == n.floats
        for c, o, n in zip(grids, old, new, strict=True)
    ):
        return EXACT
    return max(contracts, key=lambda c: (c.level, c.steps), default=exact)


def _contract(a: QuantGrid, b: QuantGrid, old: Form, new: Form, codes: Codes | None) -> Contract:
    f, g = old.factor(a, b), new.factor(a, b)
    same_rounding = old.rounding is new.rounding and _plain(old) and _plain(new)
    same_rounding = same_rounding and old.floats == new.floats
    if f == g and same_rounding:
        return EXACT
    codes = _decisive(a, b, old, new) if codes is None else codes
    if codes is not None:
        return _by_table(codes, a, b, old, new)
    reach = _reach(a, b, f, g)
    steps = math.ceil(reach * abs(f - g)) + (not same_rounding)
    return Contract(Numerics.BOUNDED, steps, _stated(f, g))


def _differing(
    grids: Sequence[tuple[QuantGrid, QuantGrid]],
    old: Sequence[Form],
    new: Sequence[Form],
) -> list[Codes | None]:
    """Per pair of grids the codes that the two forms map differently; None where that is
    not known."""
    unknown: list[Codes | None] = [None] * len(grids)
    b = grids[0][1]
    if b.high - b.low >= _MANY_RESULTS or not (
        _plain(old[0]) and _plain(new[0]) and old[0].floats is new[0].floats is None
    ):
        return unknown
    sides = [
        step_positions(
            [form.factor(*pair) for form, pair in zip(forms, grids, strict=True)],
            grids,
            forms[0].rounding,
        )
        for forms in (old, new)
    ]
    first, last = np.minimum(*sides), np.maximum(*sides)
    many = (last - first).sum(axis=1)
    found: list[Codes | None] = []
    for i, (a, _) in enumerate(grids):
        if many[i] > _DECISIVE_CODES:
            found.append(None)
            continue
        runs = [
            np.arange(lo, hi, dtype=np.int64)
            for lo, hi in zip(first[i].tolist(), last[i].tolist(), strict=True)
            if lo < hi
        ]
        found.append(np.unique(np.concatenate(runs)) + a.zero if runs else np.empty(0, np.int64))
    return found


def step_positions(
    factors: Sequence[Fraction],
    pairs: Sequence[tuple[QuantGrid, QuantGrid]],
    rounding: Rounding,
) -> Codes:
    """The smallest n of every result but the lowest, [pairs, results - 1], limited to the n
    of codes (one beyond, where a result is not reached).

    A rescale q' = clamp(R(n f) + z') is monotone in n, so it is known by the smallest n of
    each result: with t = c - z' the step count of code c,

        R(n f) >= t   iff   n >= (2 t - 1) / (2 f), or > where R rounds that tie down

    (half_up reaches every tie, half_even those of even t, half_away those of positive t). Two
    rescales are equal on all codes iff they step at the same places: some 2**bits of them
    instead of all codes of a 32-bit sum. The results of all pairs have one storage.
    ValueError for gemmlowp and ruy, which are no functions of n f.
    """
    if rounding.two_stage:
        raise ValueError(f"{rounding.value} rounding is defined for (multiplier, shift) only")
    low, high = pairs[0][1].low, pairs[0][1].high
    levels = np.arange(low + 1, high + 1, dtype=np.int64)
    zeros = np.array([b.zero for _, b in pairs], np.int64).reshape(-1, 1)
    counts = levels - zeros
    slopes = np.array([_nearest_double(f) for f in factors]).reshape(-1, 1)
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        places = np.nan_to_num((counts - 0.5) / slopes, posinf=_LIMIT, neginf=-_LIMIT)
    places = np.clip(places, -_LIMIT, _LIMIT)
    reached = _reaches_tie(counts, rounding)
    result = np.where(reached, np.ceil(places), np.floor(places) + 1).astype(np.int64)
    near = np.abs(places - np.rint(places)) <= np.abs(places) * _NEAR_INTEGER + 1e-300
    near &= np.abs(places) < 2.0**52
    for i, j in np.argwhere(near).tolist():
        exact = Fraction(2 * int(counts[i, j]) - 1, 2) / factors[i]
        below = exact.numerator // exact.denominator
        whole = below * exact.denominator == exact.numerator
        result[i, j] = below if whole and reached[i, j] else below + 1
    first = np.array([a.low - a.zero for a, _ in pairs], np.int64).reshape(-1, 1)
    last = np.array([a.high - a.zero + 1 for a, _ in pairs], np.int64).reshape(-1, 1)
    return np.clip(result, first, last)


def _nearest_double(value: Fraction) -> float:
    try:
        return float(value)
    except OverflowError:
        return float("inf")


def _reaches_tie(counts: NDArray[np.int64], rounding: Rounding) -> NDArray[Any]:
    if rounding.in_reals is Rounding.HALF_EVEN:
        return counts % 2 == 0
    if rounding is Rounding.HALF_AWAY:
        return counts > 0
    return np.ones(counts.shape, np.bool_)


def _plain(form: Form) -> bool:
    return not form.rounding.two_stage


def _by_table(codes: Codes, a: QuantGrid, b: QuantGrid, old: Form, new: Form) -> Contract:
    before, after = old.codes(codes, a, b), new.codes(codes, a, b)
    different = np.flatnonzero(before != after)
    if not different.size:
        return Contract(Numerics.EXACT, note="equal on all codes")
    factor = old.factor(a, b)
    steps = int(np.abs(before - after).max())
    changed = f"{different.size} of {a.high - a.low + 1} codes change"
    if steps == 1 and all(
        ((int(codes[i]) - a.zero) * factor).denominator == 2 for i in different.tolist()
    ):
        return Contract(Numerics.TIES, steps, f"{changed}, all of them ties")
    stated = _stated(factor, new.factor(a, b))
    return Contract(Numerics.BOUNDED, steps, f"{changed}; {stated}")


def _stated(old: Fraction, new: Fraction) -> str:
    return f"relative error {float(abs(new - old) / old) if old else 1:.3g}"


def _reach(a: QuantGrid, b: QuantGrid, f: Fraction, g: Fraction) -> Fraction:
    """The largest |q - z_a| whose result saturates in neither form (or less far than
    one step beyond)."""
    furthest = Fraction(max(abs(a.low - a.zero), abs(a.high - a.zero)))
    slowest = min(f, g)
    span = max(abs(b.low - b.zero), abs(b.high - b.zero)) + 2
    return min(furthest, span / slowest) if slowest else furthest


def _decisive(a: QuantGrid, b: QuantGrid, old: Form, new: Form) -> Codes | None:
    """Codes that include every one on which the two forms can differ.

    Both forms are monotone in the code, so beyond a code at which both give the same
    bound of `b`, all codes give it.  None if there are too many.
    """
    reach = int(_reach(a, b, old.factor(a, b), new.factor(a, b))) + 2
    low, high = max(a.low, a.zero - reach), min(a.high, a.zero + reach)
    if high < low:
        # Every code lies on one side and saturates there, or nearly so.
        low, high = (a.low, a.low) if a.zero < a.low else (a.high, a.high)
    if high - low >= _DECISIVE_CODES:
        return None
    return np.arange(low, high + 1, dtype=np.int64)


def casts_contract(a: QuantGrid, b: QuantGrid, old: Form, expressed: str) -> Contract | None:
    """What computing a -> b through floats instead of by `old` may change.

    On at most 16 bits every code is computed.  On more, five roundings move a result
    of at most n steps by 6 * u * n, u the unit roundoff, if nothing over- or
    underflows.  None if nothing is known.
    """
    if expressed not in COMPUTED_IN:
        return None
    if old.floats == expressed:
        return EXACT
    if (a.high - a.low).bit_length() <= TABLE_WIDTH:
        return _contract_in_floats(a, b, old, expressed)
    if expressed not in ("f32", "f64") or old.pair is not None:
        return None
    floats = FORMATS[expressed]
    furthest = max(abs(a.low - a.zero), abs(a.high - a.zero))
    if min(a.scale, b.scale) < 2.0**floats.min_exponent or furthest * a.scale > floats.largest:
        return None
    reach = max(abs(b.low - b.zero), abs(b.high - b.zero)) + 1
    reach = min(reach, math.ceil(furthest * Fraction(a.scale) / Fraction(b.scale)))
    steps = math.ceil(6 * Fraction(1, 1 << floats.precision) * reach)
    return Contract(Numerics.BOUNDED, steps, f"rounded in {expressed}")


def _contract_in_floats(a: QuantGrid, b: QuantGrid, old: Form, expressed: str) -> Contract:
    codes = codes_of(a)
    before = old.codes(codes, a, b)
    after = requantize_floats(codes, a, b, expressed, old.rounding)
    different = np.flatnonzero(before != after)
    if not different.size:
        return Contract(Numerics.EXACT, note="equal on all codes")
    steps = int(np.abs(before - after).max())
    note = f"{different.size} of {codes.size} codes change in {expressed}"
    factor = old.factor(a, b)
    tied = all(((int(codes[i]) - a.zero) * factor).denominator == 2 for i in different.tolist())
    level = Numerics.TIES if steps == 1 and tied else Numerics.BOUNDED
    return Contract(level, steps, note)

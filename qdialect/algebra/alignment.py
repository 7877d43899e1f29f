"""Sums of terms with different scales, in integers of 32 bits.

    round((s_a a + s_b b) / s)   ~   round((a m_a + b m_b) * 2**-k)

with a, b codes less their zero points, m = round(2**k s_a / s), and k the largest with
which no sum of products leaves 31 bits.  The products are exact; the sum is off by at most
(|a| + |b|) / 2 * 2**-k steps of the result, and k is about 20 for 8-bit codes.  What that
changes is decided by looking at all pairs of codes, where both have at most 8 bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from qdialect.algebra.contract import EXACT, Contract, Numerics
from qdialect.algebra.fixed_point import MIN_SHIFT, FixedPoint, apply
from qdialect.algebra.requantize import QuantGrid, round_fraction
from qdialect.algebra.rounding import Rounding

_WIDEST = 28
"""Bits of the largest sum: TOSA wants |v| < 2**(k-1) of what it multiplies by m * 2**-k, so
factors that are whole numbers times 2**k need room for that."""
_PAIRS = 1 << 16
_UNDECIDED = 1 << 14
_NEAR = 2.0**-40


class Alignment(NamedTuple):
    """Integer factors of the terms, and the power of two that they are too large by."""

    factors: tuple[int, ...]
    shift: int


def align(terms: Sequence[QuantGrid], out: QuantGrid) -> Alignment | None:
    """Factors for terms that are summed and rounded to `out`; None if 32 bits are too few
    for a useful sum (the result has fewer than 8 bits below the point)."""
    reach = sum(
        (Fraction(t.scale) * max(abs(t.low - t.zero), abs(t.high - t.zero)) for t in terms),
        Fraction(0),
    ) / Fraction(out.scale)
    if not reach:
        return None
    shift = _WIDEST
    while shift > 0 and reach * (1 << shift) >= 1 << _WIDEST:
        shift -= 1
    if shift < 8:
        return None
    exact = [Fraction(t.scale) / Fraction(out.scale) * (1 << shift) for t in terms]
    factors = tuple(round_fraction(f, Rounding.HALF_EVEN) for f in exact)
    return Alignment(factors, shift) if all(factors) else None


def as_pair(factor: int, furthest: int) -> FixedPoint:
    """A whole factor as (multiplier, shift), for numbers up to `furthest`."""
    shift = max(furthest.bit_length() + 1, MIN_SHIFT)
    return FixedPoint(factor << shift, shift)


def contract(
    terms: Sequence[QuantGrid],
    signs: Sequence[int],
    out: QuantGrid,
    alignment: Alignment,
    rounding: Rounding,
) -> Contract:
    """What computing by `alignment` instead of exactly may change."""
    ratios = [Fraction(t.scale) / Fraction(out.scale) for t in terms]
    whole = 1 << alignment.shift
    if all(r * whole == f for r, f in zip(ratios, alignment.factors, strict=True)):
        return EXACT
    off = sum(
        abs(r * whole - f) * max(abs(t.low - t.zero), abs(t.high - t.zero))
        for r, f, t in zip(ratios, alignment.factors, terms, strict=True)
    )
    # Numbers that are e apart are rounded to integers that are at most floor(e) + 1 apart.
    steps = off // whole + 1
    note = f"sums are off by up to {float(off / whole):.2g} steps"
    bound = Contract(Numerics.BOUNDED, int(steps), note)
    spans = [t.high - t.low + 1 for t in terms]
    if len(terms) != 2 or spans[0] * spans[1] > _PAIRS:
        return bound
    rows, columns = (np.arange(t.low - t.zero, t.high - t.zero + 1) for t in terms)
    rows, columns = rows.reshape(-1, 1) * signs[0], columns.reshape(1, -1) * signs[1]
    total = rows * alignment.factors[0] + columns * alignment.factors[1]
    after = apply(total, FixedPoint(1, alignment.shift), rounding)
    before = exact_sums(rows, columns, ratios, rounding)
    if before is None:
        return bound
    clamped = [np.clip(side + out.zero, out.low, out.high) for side in (before, after)]
    changed = int(np.count_nonzero(clamped[0] != clamped[1]))
    if not changed:
        return Contract(Numerics.EXACT, note="equal on all pairs of codes")
    steps = int(np.abs(clamped[0] - clamped[1]).max())
    return Contract(Numerics.BOUNDED, steps, f"{changed} of {total.size} pairs of codes change")


def exact_sums(
    rows: NDArray[np.int64],
    columns: NDArray[np.int64],
    ratios: Sequence[Fraction],
    rounding: Rounding,
) -> NDArray[np.int64] | None:
    """round(rows * ratio + columns * ratio), exactly; None if too many are nearly ties."""
    value = rows * float(ratios[0]) + columns * float(ratios[1])
    result = np.floor(value + 0.5)
    scale = np.abs(rows) * float(ratios[0]) + np.abs(columns) * float(ratios[1])
    near = np.abs(np.abs(value - result) - 0.5) <= _NEAR * np.maximum(scale, 1)
    rounded = result.astype(np.int64)
    places = np.argwhere(near)
    if len(places) > _UNDECIDED:
        return None
    for i, j in places.tolist():
        total = int(rows[i, 0]) * ratios[0] + int(columns[0, j]) * ratios[1]
        rounded[i, j] = round_fraction(total, rounding)
    return rounded

"""Where a rescale steps from one code to the next.

A rescale q' = clamp(R(n f) + z') is monotone in n, so it is known by the smallest n of each
result: with t = c - z' the step count of code c,

    R(n f) >= t   iff   n >= (2 t - 1) / (2 f), or > where R rounds that tie down

(half_up reaches every tie, half_even those of even t, half_away those of positive t). Two
rescales are equal on all codes iff they step at the same places: some 2**bits of them instead
of all codes of a 32-bit sum.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from qdialect.numerics.lazy_numpy import np
from qdialect.numerics.requantize import QuantGrid
from qdialect.numerics.rounding import Rounding

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Steps = NDArray[np.int64]

_LIMIT = 2.0**62
_NEAR = 2.0**-46


def steps(
    factors: Sequence[Fraction],
    cells: Sequence[tuple[QuantGrid, QuantGrid]],
    rounding: Rounding,
) -> Steps:
    """The smallest n of every result but the lowest, [cells, results - 1], limited to the n
    of codes (one beyond, where a result is not reached).

    The results of all cells have one storage. ValueError for gemmlowp, which is no function
    of n f.
    """
    if rounding is Rounding.GEMMLOWP:
        raise ValueError("gemmlowp rounding is defined for (multiplier, shift) only")
    low, high = cells[0][1].low, cells[0][1].high
    levels = np.arange(low + 1, high + 1, dtype=np.int64)
    zeros = np.array([b.zero for _, b in cells], np.int64).reshape(-1, 1)
    counts = levels - zeros
    slopes = np.array([_float(f) for f in factors]).reshape(-1, 1)
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        places = np.nan_to_num((counts - 0.5) / slopes, posinf=_LIMIT, neginf=-_LIMIT)
    places = np.clip(places, -_LIMIT, _LIMIT)
    reached = _reaches_tie(counts, rounding)
    result = np.where(reached, np.ceil(places), np.floor(places) + 1).astype(np.int64)
    near = np.abs(places - np.rint(places)) <= np.abs(places) * _NEAR + 1e-300
    near &= np.abs(places) < 2.0**52
    for i, j in np.argwhere(near).tolist():
        exact = Fraction(2 * int(counts[i, j]) - 1, 2) / factors[i]
        below = exact.numerator // exact.denominator
        whole = below * exact.denominator == exact.numerator
        result[i, j] = below if whole and reached[i, j] else below + 1
    first = np.array([a.low - a.zero for a, _ in cells], np.int64).reshape(-1, 1)
    last = np.array([a.high - a.zero + 1 for a, _ in cells], np.int64).reshape(-1, 1)
    return np.clip(result, first, last)


def _float(value: Fraction) -> float:
    try:
        return float(value)
    except OverflowError:
        return float("inf")


def _reaches_tie(counts: NDArray[np.int64], rounding: Rounding) -> NDArray[Any]:
    """Whether the tie below a step count is rounded up to it."""
    if rounding is Rounding.HALF_EVEN:
        return counts % 2 == 0
    if rounding is Rounding.HALF_AWAY:
        return counts > 0
    return np.ones(counts.shape, np.bool_)

"""Grids of 32-bit integers for numbers that nobody quantized.

A number known to lie within +-r is held on the power of two s with r <= 2**BITS * s: it is
off by s / 2 at most, and a few bits are left for what is computed with it.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from qdialect.algebra.fixed_point import MAX_SHIFT, FixedPoint, floor_log2
from qdialect.algebra.requantize import round_fraction
from qdialect.algebra.rounding import Rounding

BITS = 24
"""Bits of what is held on such a grid."""
ROOM = 30
"""Bits of the largest sum or product."""


def step_for(reach: Fraction, bits: int = BITS) -> Fraction:
    """The smallest power of two s with reach <= 2**bits * s (1 for 0)."""
    if not reach:
        return Fraction(1)
    exponent = ceil_log2(reach) - bits
    return Fraction(1 << exponent) if exponent >= 0 else Fraction(1, 1 << -exponent)


def ceil_log2(value: Fraction) -> int:
    """The smallest e with value <= 2**e, of a positive number."""
    return -floor_log2(1 / value)


def pair_onto(ratio: Fraction, furthest: int) -> FixedPoint | None:
    """The pair nearest to a ratio of steps that a rescale may multiply numbers up to
    `furthest` by: TOSA wants |v| < 2**(shift - 1), a multiplier below 2**31, and the result in
    32 bits. None if there is none."""
    least = max(furthest.bit_length() + 1, 2)
    for shift in range(min(30 - ceil_log2(ratio), MAX_SHIFT), least - 1, -1):
        multiplier = round_fraction(ratio * (1 << shift), Rounding.HALF_EVEN)
        if 0 < multiplier < 1 << 31 and furthest * multiplier < (1 << shift + ROOM):
            return FixedPoint(multiplier, shift)
    return None


def off_by(ratio: Fraction, pair: FixedPoint, furthest: int) -> Fraction:
    """How far from exact a rescale by `pair` is, in steps of its result."""
    exact = pair.ratio == ratio and ratio.denominator == 1
    return Fraction(0) if exact else abs(pair.ratio - ratio) * furthest + Fraction(1, 2)


def constants_on_grid(
    numbers: NDArray[np.float64], bits: int
) -> tuple[NDArray[np.int32], Fraction, Fraction]:
    """Constants on a grid: codes of at most `bits` bits, the step, and how far they are off;
    the largest step on which they are exact, if there is one."""
    reach = Fraction(float(np.abs(numbers).max(initial=0)))
    step = step_for(reach, bits)
    codes = np.rint(numbers / float(step)).astype(np.int64)
    off = float(np.abs(codes * float(step) - numbers).max(initial=0))
    common = int(np.bitwise_or.reduce(np.abs(codes), axis=None, initial=0))
    if not off and common:
        zeros = (common & -common).bit_length() - 1
        codes, step = codes >> zeros, step * (1 << zeros)
    # Operations on arrays without dimensions give scalars.
    return np.asarray(codes, np.int32), step, Fraction(off)

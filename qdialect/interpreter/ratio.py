"""Exact rational numbers, many at a time, on numpy arrays of Python integers.

Slow (about a microsecond per element and operation) and never wrong: used only
for the elements that float64 cannot decide.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qdialect.algebra.rounding import Rounding

Integers = NDArray[Any]
"""An array of dtype int64, or of dtype object holding Python integers."""

_SQRT_BITS = 256


@dataclass(frozen=True)
class Ratio:
    """The numbers `num / den`; `den` > 0; not reduced. Arrays of Python integers of
    rank 1 or more (a single number is an array of one)."""

    num: Integers
    den: Integers

    @staticmethod
    def of_integers(values: NDArray[Any]) -> Ratio:
        """Integers, or floats with integer values."""
        num = np.array([int(v) for v in values.reshape(-1).tolist()], object)
        num = num.reshape(values.shape or (1,))
        return Ratio(num, np.ones_like(num))

    @staticmethod
    def of_floats(values: NDArray[np.floating[Any]]) -> Ratio:
        """Finite floats, exactly."""
        mantissa, exponent = np.frexp(np.atleast_1d(np.asarray(values, np.float64)))
        num = np.ldexp(mantissa, 53).astype(np.int64).astype(object)
        power = exponent.astype(np.int64) - 53
        up = np.maximum(power, 0).astype(object)
        down = np.maximum(-power, 0).astype(object)
        return Ratio(num << up, np.ones_like(num) << down)

    def __add__(self, other: Ratio) -> Ratio:
        return Ratio(self.num * other.den + other.num * self.den, self.den * other.den)

    def __neg__(self) -> Ratio:
        return Ratio(-self.num, self.den)

    def __mul__(self, other: Ratio) -> Ratio:
        return Ratio(self.num * other.num, self.den * other.den)

    def __truediv__(self, other: Ratio) -> Ratio:
        """Quotient; `other` must not hold 0."""
        flip = np.where(other.num < 0, -1, 1).astype(object)
        return Ratio(self.num * other.den * flip, self.den * other.num * flip)

    def clip(self, low: Ratio, high: Ratio) -> Ratio:
        """min(max(self, low), high)."""
        below = self.num * low.den < low.num * self.den
        above = self.num * high.den > high.num * self.den
        num = np.where(above, high.num, np.where(below, low.num, self.num))
        den = np.where(above, high.den, np.where(below, low.den, self.den))
        return Ratio(num, den)

    def sqrt(self) -> Ratio:
        """Square roots of numbers >= 0: exact if rational, else to 256 bits."""
        roots = [
            math.isqrt(n * d << 2 * _SQRT_BITS)
            for n, d in zip(self.num.reshape(-1), self.den.reshape(-1), strict=True)
        ]
        num = np.array(roots, object).reshape(self.num.shape)
        return Ratio(num, self.den << _SQRT_BITS)

    def round(self, rounding: Rounding) -> Integers:
        """The nearest integers."""
        return round_division(self.num, self.den, rounding)

    def to_floats(self, precision: int, min_exponent: int) -> NDArray[np.float64]:
        """The nearest floats of a format (ties to even), as doubles.

        `precision` counts significand bits with the implicit one; `min_exponent`
        is the exponent of the smallest normal number. No upper limit but the
        double's, beyond which the result is infinite.
        """
        pairs = zip(self.num.reshape(-1), self.den.reshape(-1), strict=True)
        floats = [_nearest_float(n, d, precision, min_exponent) for n, d in pairs]
        return np.array(floats, np.float64).reshape(self.num.shape)


def round_division(num: Integers, den: Integers, rounding: Rounding) -> Integers:
    """`num / den` (den > 0) rounded to the nearest integer.

    Exact for Python integers, and for int64 as long as |num| and den are at most 2^62.
    GEMMLOWP and RUY are roundings of shifts, not of real numbers: ValueError.
    """
    quotient = num // den
    twice = 2 * (num - quotient * den)
    tie = twice == den
    if rounding.in_reals is Rounding.HALF_EVEN:
        tie &= quotient % 2 == 1
    elif rounding is Rounding.HALF_AWAY:
        tie &= quotient >= 0
    elif rounding is not Rounding.HALF_UP:
        raise ValueError(f"no rounding of real numbers: {rounding.value}")
    return quotient + ((twice > den) | tie)


def _nearest_float(num: int, den: int, precision: int, min_exponent: int) -> float:
    if num == 0:
        return 0.0
    size = abs(num)
    exponent = size.bit_length() - den.bit_length()
    if size << max(-exponent, 0) < den << max(exponent, 0):
        exponent -= 1
    ulp = max(exponent, min_exponent) - precision + 1
    scaled = Ratio(np.array([size << max(-ulp, 0)], object), np.array([den << max(ulp, 0)], object))
    try:
        value = math.ldexp(float(scaled.round(Rounding.HALF_EVEN)[0]), ulp)
    except OverflowError:
        value = math.inf
    return math.copysign(value, num)

"""Closed intervals of exact numbers: what a value can be, whatever the inputs are.

Arithmetic holds every result of the operation on members (`Behavior.arithmetic`
runs on intervals as it does on numbers); an interval stands for all elements of a
tensor, so moving elements changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from math import inf, isfinite
from typing import Any

from qdialect.algebra.lazy_numpy import np
from qdialect.algebra.requantize import QuantGrid, round_quotient
from qdialect.algebra.rounding import Rounding

Number = int | Fraction


@dataclass(frozen=True)
class Interval:
    """All numbers from `low` to `high`; `assuming` says what besides the program shows it."""

    low: Number
    high: Number
    assuming: str = ""

    # An array on the left must not take an interval for a scalar of its own.
    __array_ufunc__ = None

    @staticmethod
    def of(values: Iterable[Number], assuming: str = "") -> Interval:
        """The smallest interval that holds `values` (at least one)."""
        numbers = list(values)
        return Interval(min(numbers), max(numbers), assuming)

    @staticmethod
    def exactly(value: Any) -> Interval:
        """A number, or the numbers of an array; ValueError unless they are finite."""
        if isinstance(value, Interval):
            return value
        if isinstance(value, np.ndarray):
            if not value.size:
                raise ValueError("an interval of nothing")
            return Interval(_exact(value.min().item()), _exact(value.max().item()))
        return Interval(_exact(value), _exact(value))

    def __contains__(self, value: Number) -> bool:
        return self.low <= value <= self.high

    def inside(self, other: Interval) -> bool:
        """Whether every number of this is one of `other`."""
        return other.low <= self.low and self.high <= other.high

    def join(self, other: Interval) -> Interval:
        """The smallest interval that holds both."""
        return Interval(min(self.low, other.low), max(self.high, other.high), both(self, other))

    def cut(self, other: Interval) -> Interval:
        """What both hold; of two that are apart, the nearest number of this."""
        low = min(max(self.low, other.low), self.high)
        high = max(min(self.high, other.high), self.low)
        same = (low, high) == (self.low, self.high)
        return self if same else Interval(low, high, both(other, self))

    def widened(self, by: Number) -> Interval:
        """With everything not further away than `by`."""
        return Interval(self.low - by, self.high + by, self.assuming)

    @property
    def largest(self) -> Number:
        """The largest absolute value."""
        return max(abs(self.low), abs(self.high))

    # -- arithmetic ---------------------------------------------------------

    def __add__(self, other: Any) -> Interval:
        o = Interval.exactly(other)
        return Interval(self.low + o.low, self.high + o.high, both(self, o))

    def __sub__(self, other: Any) -> Interval:
        o = Interval.exactly(other)
        return Interval(self.low - o.high, self.high - o.low, both(self, o))

    def __mul__(self, other: Any) -> Interval:
        o = Interval.exactly(other)
        ends = [a * b for a in (self.low, self.high) for b in (o.low, o.high)]
        return Interval.of(ends, both(self, o))

    def __truediv__(self, other: Any) -> Interval:
        o = Interval.exactly(other)
        if 0 in o:
            raise ValueError("division by what may be 0")
        ends = [Fraction(a) / b for a in (self.low, self.high) for b in (o.low, o.high)]
        return Interval.of(ends, both(self, o))

    def __radd__(self, other: Any) -> Interval:
        return self + other

    def __rsub__(self, other: Any) -> Interval:
        return Interval.exactly(other) - self

    def __rmul__(self, other: Any) -> Interval:
        return self * other

    def __rtruediv__(self, other: Any) -> Interval:
        return Interval.exactly(other) / self

    def __matmul__(self, other: Any) -> Interval:
        raise ValueError("the number of products is not known")

    def clip(self, low: float, high: float) -> Interval:
        """min(max(x, low), high); bounds may be infinite."""
        ends = [self.low, self.high]
        if low != -inf:
            ends = [max(end, Fraction(low)) for end in ends]
        if high != inf:
            ends = [min(end, Fraction(high)) for end in ends]
        return Interval(*ends, assuming=self.assuming)

    def sqrt(self) -> Interval:
        """Square roots, rounded outwards; ValueError unless all numbers are positive."""
        from math import isqrt

        if self.low <= 0:
            raise ValueError("square root of a number that may not be positive")
        low, high = Fraction(self.low), Fraction(self.high)
        return Interval(
            Fraction(isqrt(low.numerator * low.denominator << 256), low.denominator << 128),
            Fraction(isqrt(high.numerator * high.denominator << 256) + 1, high.denominator << 128),
            self.assuming,
        )

    def reshape(self, *shape: int) -> Interval:
        """Itself: an interval stands for all elements."""
        return self

    def swapaxes(self, first: int, second: int) -> Interval:
        """Itself: an interval stands for all elements."""
        return self

    def __getitem__(self, index: Any) -> Interval:
        return self


def both(a: Interval, b: Interval) -> str:
    """What either assumes."""
    return a.assuming or b.assuming


def _exact(value: Any) -> Number:
    if isinstance(value, int | Fraction):
        return int(value) if isinstance(value, bool) else value
    if not isfinite(value):
        raise ValueError("a number that is not finite")
    return Fraction(value)


# -- codes ----------------------------------------------------------------------


def reals(codes: Interval, a: QuantGrid) -> Interval:
    """What codes of `a` mean; `a`'s own bounds do not matter."""
    over, under = a.scale.as_integer_ratio()
    low, high = (Fraction((q - a.zero) * over, under) for q in (codes.low, codes.high))
    return Interval(low, high, codes.assuming)


def unclamped(values: Interval, b: QuantGrid, rounding: Rounding) -> Interval:
    """R(x / scale) + zero point: the codes of real numbers, before they saturate."""
    over, under = b.scale.as_integer_ratio()
    low, high = (
        round_quotient(x.numerator * under, x.denominator * over, rounding)
        for x in (values.low, values.high)
    )
    return Interval(low + b.zero, high + b.zero, values.assuming)


def clamped(codes: Interval, b: QuantGrid) -> Interval:
    """Codes after they saturate at the bounds of `b`."""
    low, high = min(max(codes.low, b.low), b.high), min(max(codes.high, b.low), b.high)
    used = "" if (low, high) == (b.low, b.high) else codes.assuming
    return Interval(low, high, used)


def quantized(values: Interval, b: QuantGrid, rounding: Rounding) -> Interval:
    """The codes of `b` for real numbers."""
    return clamped(unclamped(values, b, rounding), b)

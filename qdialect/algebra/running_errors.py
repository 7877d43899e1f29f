"""Running error analysis: bounds of what float32 computes, carried along with what it computes.

A `Rounded` is an array of `value`, computed in float64, and of `error`: float32 is no further from
the real number, whatever the order of its sums. Each operation adds to what the errors of its
operands grow to what it rounds itself. With u = 2^-24, and a^ for what float32 has in place of a,

    + - * / sqrt          |fl(a^ . b^) - a^ . b^| <= u |a^ . b^| + 2^-150
    K products, summed    gamma(K) |a^| |b^| + K 2^-150,    gamma(K) = K u / (1 - K u)
    exp, log, erf         32 u of the result, more than OpenCL allows a library

(Higham, Accuracy and Stability of Numerical Algorithms, 2002, sections 2.2, 3.1 and 3.3).  Float64
obeys the same bounds with 2^-53 in place of u, so `value` is within 2^-29 `error` of the real
number; `bound` covers this, and what the bounds themselves lose to rounding.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from qdialect.algebra import elementary_functions as elementary

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]
    Function = Callable[[Sequence[Array]], Array]

UNIT = 2.0**-24
"""The unit roundoff of float32."""
TINY = 2.0**-150
"""Half of the smallest number of float32: what rounding to it loses."""
LIBRARY = 32 * UNIT
"""Relative error of an elementary function of a library."""
SLACK = 1 + 2.0**-16
"""What a bound is multiplied by: float64 computed it, and what it is about."""


def gamma(count: int) -> float:
    """n u / (1 - n u): what n roundings come to, relative; infinite where n u is no less than 1."""
    lost = count * UNIT
    return lost / (1 - lost) if lost < 1 else math.inf


class Rounded:
    """Numbers as float32 computes them; see the module."""

    #: arrays leave arithmetic with these to them
    __array_ufunc__ = None

    def __init__(self, value: Array, error: Array) -> None:
        self.value = value
        self.error = error

    @staticmethod
    def exactly(values: Any) -> Rounded:
        """Numbers; those that are no float32 are rounded to the nearest."""
        value = np.asarray(values, np.float64)
        return Rounded(value, off_the_nearest(value))

    @staticmethod
    def of_monotone(function: Function, operands: Sequence[Rounded]) -> Rounded:
        """A function of arrays that grows with each of them and rounds nothing: its ends come from
        theirs."""
        value = function([x.value for x in operands])
        low = function([x.value - x.error for x in operands])
        high = function([x.value + x.error for x in operands])
        error: Array = np.maximum(high - value, value - low)
        # Float64 has rounded the ends.
        return Rounded(value, error + 2.0**-51 * (error > 0) * np.abs(value))

    @property
    def is_exact(self) -> bool:
        """Whether float32 has these very numbers."""
        return not self.error.any()

    @property
    def bound(self) -> Array:
        """How far from the real numbers float32 is at most."""
        return self.error * SLACK

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents."""
        return self.value.shape

    @property
    def _size(self) -> Array:
        return np.abs(self.value) + self.error

    def __add__(self, other: Any) -> Rounded:
        o = _rounded(other)
        return _once(self.value + o.value, self.error + o.error)

    def __sub__(self, other: Any) -> Rounded:
        o = _rounded(other)
        return _once(self.value - o.value, self.error + o.error)

    def __mul__(self, other: Any) -> Rounded:
        if is_mask(other):
            return Rounded(self.value * other, self.error * other)
        o = _rounded(other)
        return _once(self.value * o.value, self.error * o._size + np.abs(self.value) * o.error)

    def __truediv__(self, other: Any) -> Rounded:
        """|a^ / b^ - a / b| <= (|a^ - a| + |a / b| |b^ - b|) / |b^|; no bound if b^ may be 0."""
        o = _rounded(other)
        value, least = self.value / o.value, np.abs(o.value) - o.error
        with np.errstate(all="ignore"):
            error = (self.error + np.abs(value) * o.error) / least
        return _once(value, np.where(least > 0, error, np.inf))

    def __radd__(self, other: Any) -> Rounded:
        return self + other

    def __rsub__(self, other: Any) -> Rounded:
        return _rounded(other) - self

    def __rmul__(self, other: Any) -> Rounded:
        return self * other

    def __rtruediv__(self, other: Any) -> Rounded:
        return _rounded(other) / self

    def __matmul__(self, other: Any) -> Rounded:
        o = _rounded(other)
        count = o.value.shape[-2]
        error = (self.error + gamma(count) * self._size) @ o._size + count * TINY
        if not o.is_exact:
            error = error + np.abs(self.value) @ o.error
        return Rounded(self.value @ o.value, error)

    def __rmatmul__(self, other: Any) -> Rounded:
        return _rounded(other) @ self

    def clip(self, low: float, high: float) -> Rounded:
        """min(max(x, low), high), of bounds that float32 rounds."""
        found = Rounded.of_monotone(lambda x: np.clip(x[0], low, high), [self])
        return found.widened(off_the_nearest_bound(low, high))

    def widened(self, by: Any) -> Rounded:
        """Float32 may be further off by so much."""
        return Rounded(self.value, self.error + by)

    def sqrt(self) -> Rounded:
        """|sqrt a^ - sqrt a| = |a^ - a| / (sqrt a^ + sqrt a); no bound if a^ may be negative."""
        value, low = np.sqrt(self.value), self.value - self.error
        with np.errstate(all="ignore"):
            error = np.where(self.error > 0, self.error / (value + np.sqrt(low)), 0.0)
        return _once(value, np.where(low >= 0, error, np.inf))

    def exp(self) -> Rounded:
        """exp a^ - exp a = exp a (exp(a^ - a) - 1)"""
        value = np.exp(self.value)
        with np.errstate(all="ignore"):
            return _by_library(value, value * np.expm1(self.error))

    def log(self) -> Rounded:
        """|log a^ - log a| <= -log(1 - |a^ - a| / a); no bound if a^ may be 0."""
        with np.errstate(all="ignore"):
            error = -np.log1p(-self.error / self.value)
        inside = (self.value > 0) & (self.error < self.value)
        return _by_library(np.log(self.value), np.where(inside, error, np.inf))

    def erf(self) -> Rounded:
        """Its slope 2 / sqrt(pi) exp(-x^2) falls with |x|."""
        nearest = np.maximum(np.abs(self.value) - self.error, 0)
        error = np.minimum(slope_of_erf(nearest) * self.error, 2.0)
        return _by_library(elementary.erf(self.value), error)

    def pi(self) -> Rounded:
        """The number."""
        return Rounded.exactly(math.pi)

    def floor(self) -> Rounded:
        """ValueError: no rounding is too small for it."""
        raise ValueError("a function that jumps")

    nearest = floor

    def reshape(self, *shape: int) -> Rounded:
        """The same elements."""
        return Rounded(self.value.reshape(shape), self.error.reshape(shape))

    def swapaxes(self, first: int, second: int) -> Rounded:
        """Two dimensions exchanged."""
        return Rounded(self.value.swapaxes(first, second), self.error.swapaxes(first, second))

    def __getitem__(self, index: Any) -> Rounded:
        return Rounded(self.value[index], self.error[index])


def is_mask(value: Any) -> bool:
    """Whether a factor is of truth values: a product with them rounds nothing."""
    return getattr(value, "dtype", None) == np.bool_


def off_the_nearest(values: Array) -> Array:
    """How far from numbers the nearest float32 is."""
    with np.errstate(over="ignore", invalid="ignore"):
        found = np.abs(values.astype(np.float32) - values)
    return np.where(np.isinf(values), 0.0, found)


def rounding(values: Array, unit: float = UNIT) -> Array:
    """How far off rounding to float32 puts a number that is no larger than these; an infinite one
    is what it is."""
    return np.where(np.isinf(values), 0.0, unit * np.abs(values) + TINY)


def off_the_nearest_bound(low: float, high: float) -> float:
    """The same of the bounds of a clip, of which either may be infinite."""
    finite = np.array([end for end in (low, high) if math.isfinite(end)])
    return float(off_the_nearest(finite).max(initial=0.0))


def slope_of_erf(x: Array) -> Array:
    """2 / sqrt(pi) exp(-x^2)"""
    return 2 / math.sqrt(math.pi) * np.exp(-np.square(x))


def _rounded(value: Any) -> Rounded:
    return value if isinstance(value, Rounded) else Rounded.exactly(value)


def _once(value: Array, error: Array) -> Rounded:
    """The result of an operation that its operands put off by `error`, rounded once."""
    return Rounded(value, (1 + UNIT) * error + rounding(value))


def _by_library(value: Array, error: Array) -> Rounded:
    return Rounded(value, (1 + LIBRARY) * error + rounding(value, LIBRARY))

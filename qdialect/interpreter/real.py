"""Tensors of real numbers: a float64 approximation, a bound, and the exact value on demand.

A quantized op is exact real arithmetic followed by one rounding. Evaluating all
of it in rationals would be thousands of times too slow, and in float64 alone
wrong at ties. A `Real` carries both: `|approx - value| <= error` everywhere, and
`at(index)` gives chosen elements exactly. The final rounding recomputes exactly
only the elements whose bound reaches a rounding boundary.

Bounds are first-order sums of non-negative terms computed in float64 themselves;
whoever uses one multiplies it by `SLACK`, which covers their own rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qdialect.interpreter.ratio import Ratio

Array = NDArray[Any]
Doubles = NDArray[np.float64]
Index = tuple[NDArray[np.intp], ...]

SLACK = 1.001
UNIT = 2.0**-53
"""Relative error of one rounding to float64."""
TINY = 2.0**-1074
"""Absolute error of one rounding to a subnormal."""
EXACT_INTEGERS = 2.0**53
"""Every integer up to this magnitude is a float64."""


@dataclass(frozen=True)
class Real:
    """A tensor of real numbers.

    `error` broadcasts to the shape of `approx`. Elements marked in `special` come
    from infinities or NaN in a float operand, or are a zero divisor's: there
    `approx` is the value.
    """

    approx: Doubles
    error: Doubles
    exact: Callable[[Index], Ratio]
    special: NDArray[np.bool_] | None = None

    # -- construction -----------------------------------------------------

    @staticmethod
    def integers(values: Array) -> Real:
        """Integers of magnitude up to 2^62 (any integer dtype, or float64 holding integers)."""
        approx = np.asarray(values, np.float64)
        large = values.dtype.itemsize == 8 and values.dtype.kind in "iu"
        error = np.abs(approx) * UNIT if large else _ZERO
        if large and np.abs(approx).max(initial=0) < EXACT_INTEGERS:
            error = _ZERO
        return Real(approx, error, lambda index: Ratio.of_integers(values[index]))

    @staticmethod
    def floats(values: Array | float) -> Real:
        """Floats as the real numbers they are; infinities and NaN become `special`."""
        approx = np.asarray(values, np.float64)
        finite = np.isfinite(approx)
        special = None if finite.all() else ~finite
        return Real(approx, _ZERO, lambda index: Ratio.of_floats(approx[index]), special)

    # -- reading ----------------------------------------------------------

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents of `approx`."""
        return self.approx.shape

    def at(self, index: Index) -> Ratio:
        """Exact elements; `index` may be into any shape this one broadcasts to."""
        inner = index[len(index) - len(self.shape) :]
        return self.exact(
            tuple(
                np.zeros_like(i) if extent == 1 else i
                for i, extent in zip(inner, self.shape, strict=True)
            )
        )

    # -- arithmetic -------------------------------------------------------

    def __add__(self, other: Real) -> Real:
        approx = self.approx + other.approx
        return Real(
            approx,
            self.error + other.error + _sum_error(self, other, approx),
            lambda index: self.at(index) + other.at(index),
            _either(self, other),
        )

    def __neg__(self) -> Real:
        return Real(-self.approx, self.error, lambda index: -self.at(index), self.special)

    def __sub__(self, other: Real) -> Real:
        return self + -other

    def __mul__(self, other: Real) -> Real:
        approx = self.approx * other.approx
        error = _ZERO
        if np.any(self.error) or np.any(other.error):
            error = np.abs(self.approx) * other.error + np.abs(other.approx) * self.error
            error += self.error * other.error
        rounds = not (self._scales_exactly() or other._scales_exactly())
        return Real(
            approx,
            error + _rounding_error(approx, rounds, self, other),
            lambda index: self.at(index) * other.at(index),
            _either(self, other),
        )

    def __truediv__(self, other: Real) -> Real:
        """Quotient; `other` must not hold 0."""
        approx = self.approx / other.approx
        room = np.abs(other.approx) - other.error
        spread = (self.error + np.abs(approx) * other.error) / room
        error = np.where(room > 0, spread, np.inf) if np.any(spread) else _ZERO
        return Real(
            approx,
            error + _rounding_error(approx, not other._scales_exactly(), self),
            lambda index: self.at(index) / other.at(index),
            _either(self, other),
        )

    def clip(self, low: float, high: float) -> Real:
        """min(max(self, low), high) with finite bounds."""
        bounds = Ratio.of_floats(np.array([low])), Ratio.of_floats(np.array([high]))
        return Real(
            np.clip(self.approx, low, high),
            self.error,
            lambda index: self.at(index).clip(*bounds),
            self.special,
        )

    def sqrt(self) -> Real:
        """Square root; negative numbers give NaN."""
        approx = np.sqrt(self.approx)
        spread = np.where(self.approx > self.error, self.error / approx, np.sqrt(self.error))
        invalid = np.isnan(approx)
        return Real(
            approx,
            spread + approx * UNIT,
            lambda index: self.at(index).sqrt(),
            invalid if self.special is None else self.special | invalid,
        )

    def reshape(self, shape: Sequence[int]) -> Real:
        """The same elements in row-major order under another shape."""
        old = self.shape
        error, special = self.error, self.special

        def exact(index: Index) -> Ratio:
            if not old:
                return self.exact(())
            return self.exact(np.unravel_index(np.ravel_multi_index(index, tuple(shape)), old))

        return Real(
            self.approx.reshape(shape),
            np.broadcast_to(error, old).reshape(shape) if error.ndim else error,
            exact,
            None if special is None else np.broadcast_to(special, old).reshape(shape),
        )

    def _scales_exactly(self) -> bool:
        """Whether multiplying and dividing by this rounds nowhere but among subnormals:
        all powers of two (not looked for in large tensors)."""
        if self.approx.size > _FEW or np.any(self.error):
            return False
        return bool(np.all(np.abs(np.frexp(self.approx)[0]) == 0.5))


_ZERO: Doubles = np.zeros((), np.float64)
_FEW = 1 << 16
_SMALL = 2.0**-1000


def _rounding_error(approx: Doubles, rounds: bool, *factors: Real) -> Doubles:
    """What one float64 product or quotient `approx` may have lost: a rounding, or only
    what underflow loses where no factor is 0."""
    if rounds:
        return np.abs(approx) * UNIT + TINY
    underflow = np.abs(approx) < _SMALL
    for factor in factors:
        underflow &= factor.approx != 0
    return np.where(underflow, TINY, 0.0) if underflow.any() else _ZERO


def _sum_error(a: Real, b: Real, approx: Doubles) -> Doubles:
    """What one float64 sum has lost: exactly (Knuth's two-sum) for exact operands, so that
    a sum that is a float64 has no error; else a bound."""
    if np.any(a.error) or np.any(b.error):
        return np.abs(approx) * UNIT
    part = approx - a.approx
    lost = np.abs((a.approx - (approx - part)) + (b.approx - part))
    return lost if lost.any() else _ZERO


def _either(a: Real, b: Real) -> NDArray[np.bool_] | None:
    if a.special is None or b.special is None:
        only = a.special if b.special is None else b.special
        if only is None:
            return None
        return np.broadcast_to(only, np.broadcast_shapes(a.shape, b.shape))
    return a.special | b.special


def matrix_product(a: Doubles, b: Doubles) -> Real:
    """Exact `a @ b` (ranks >= 2) of float64 matrices that hold integers or floats.

    Integers whose sums stay below 2^53 are summed exactly by BLAS in any order
    (in float32 below 2^24). Otherwise error <= K * 2^-53 * (|a| @ |b|), K the
    number of products per element.
    """
    depth = a.shape[-1]
    largest = np.abs(a).max(initial=0) * np.abs(b).max(initial=0) * max(depth, 1)
    if largest < EXACT_INTEGERS and _are_integers(a) and _are_integers(b):
        if largest < 2.0**24:
            return Real.integers(a.astype(np.float32) @ b.astype(np.float32))
        return Real.integers(a @ b)
    approx = a @ b
    error = (depth + 2) * (UNIT * (np.abs(a) @ np.abs(b)) + TINY)
    special = ~np.isfinite(approx)

    def exact(index: Index) -> Ratio:
        *batch, row, column = index
        rows = np.broadcast_to(a, (*approx.shape[:-2], *a.shape[-2:]))[(*batch, row)]
        columns = np.broadcast_to(b, (*approx.shape[:-2], *b.shape[-2:]))
        columns = np.swapaxes(columns, -1, -2)[(*batch, column)]
        return _sum(Ratio.of_floats(rows) * Ratio.of_floats(columns))

    return Real(approx, error, exact, special if special.any() else None)


def total(values: Doubles) -> Real:
    """Exact sum over the last dimension of a float64 array that holds integers or floats."""
    depth = values.shape[-1]
    rows = values.reshape(prod(values.shape[:-1]), depth)
    return matrix_product(rows, np.ones((depth, 1))).reshape(values.shape[:-1])


def _are_integers(values: Doubles) -> bool:
    return bool((np.trunc(values) == values).all())


def _sum(terms: Ratio) -> Ratio:
    """Sum over the last dimension of numbers whose denominators are powers of two."""
    common = max(terms.den.reshape(-1).tolist(), default=1)
    num: Array = (terms.num * (common // terms.den)).sum(axis=-1)
    return Ratio(num, np.full(num.shape, common, object))

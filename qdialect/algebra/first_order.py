"""How far float32 is from exact arithmetic, to first order in its unit roundoff.

Where y is computed step by step, and step v rounds by `local(v)` at most (`running_errors` says by
how much), to first order

    |fl(y) - y| <= sum over v of |dy / dv| local(v)

A `Traced` is an array that remembers the steps that it came from, as reverse differentiation does
(Griewank and Walther, Evaluating Derivatives, 2008, chapter 3): the slopes of one number by all
steps cost about as much as the number.  Bounds that are carried along grow with the sums of
absolute weights of each layer, and of a network of ten layers they say nothing.  Here errors that
cancel on different ways to y do.  What is neglected are products of two roundings, and bends (a
relu at 0) that roundings put a number on the other side of.

If roundings are independent and of mean 0, the root of the sum of squares of the terms is their
standard deviation at most, and they exceed t times as much with a probability below
2 exp(-t^2 / 2) (Hoeffding's inequality; Higham and Mary, A New Approach to Probabilistic Rounding
Error Analysis, 2019).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from qdialect.algebra import elementary_functions as elementary
from qdialect.algebra.running_errors import (
    LIBRARY,
    SLACK,
    TINY,
    gamma,
    is_mask,
    off_the_nearest,
    off_the_nearest_bound,
    rounding,
    slope_of_erf,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]
    Function = Callable[[Sequence[Array]], Array]
    Slope = Callable[[Array], Array]
    """From the slopes of y by a result, those by an operand."""

_FAR = 2.0**44
"""More than any array has elements; float64 holds sums of a few."""


class FirstOrder(NamedTuple):
    """How far one number is off: a bound, and the standard deviation at most (see the module)."""

    bound: float
    deviation: float


class Traced:
    """Numbers, in float64, and the steps that they came from; see the module. The local error is
    that of `roundings` roundings."""

    #: arrays leave arithmetic with these to them
    __array_ufunc__ = None

    def __init__(
        self,
        value: Array,
        local: Array | None,
        *parents: tuple[Traced, Slope],
        roundings: int = 1,
    ) -> None:
        self.value = value
        self.local = local
        self.parents = [(x, _summed(x.shape, slope)) for x, slope in parents]
        self.roundings = roundings

    @staticmethod
    def exactly(values: Any) -> Traced:
        """Numbers; those that are no float32 are rounded to the nearest."""
        value = np.asarray(values, np.float64)
        local = off_the_nearest(value)
        return Traced(value, local if local.any() else None)

    @staticmethod
    def of_monotone(function: Function, operands: Sequence[Traced]) -> Traced:
        """A function that copies elements of its operands, or chooses them by order, beside
        constants of its own: which these are is seen in other numbers of the same order."""
        every = np.concatenate([x.value.reshape(-1) for x in operands])
        order = np.argsort(every, kind="stable")
        ranks = np.empty(every.size)
        ranks[order] = np.arange(every.size)
        ends = np.cumsum([0, *(x.value.size for x in operands)]).tolist()
        parts = list(zip(operands, ends[:-1], ends[1:], strict=True))

        def of(numbers: Array) -> Array:
            return function([numbers[a:b].reshape(x.shape) for x, a, b in parts])

        first, second = of(ranks + _FAR), of(ranks + 2 * _FAR)
        # Constants do not move with what is copied.
        copied = second - first == _FAR
        places = order[np.where(copied, first - _FAR, 0).astype(np.int64)]
        parents: list[tuple[Traced, Slope]] = []
        for x, a, b in parts:
            mine = copied & (places >= a) & (places < b)
            parents.append((x, _scattered(x.shape, np.where(mine, places - a, -1))))
        return Traced(of(every), None, *parents)

    @property
    def is_exact(self) -> bool:
        """Whether float32 has these very numbers."""
        return self.local is None and not self.parents

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents."""
        return self.value.shape

    def __add__(self, other: Any) -> Traced:
        o = _traced(other)
        return _once(self.value + o.value, (self, lambda g: g), (o, lambda g: g))

    def __sub__(self, other: Any) -> Traced:
        o = _traced(other)
        return _once(self.value - o.value, (self, lambda g: g), (o, lambda g: -g))

    def __mul__(self, other: Any) -> Traced:
        if is_mask(other):
            return Traced(self.value * other, None, (self, lambda g: g * other))
        o = _traced(other)
        a, b = self.value, o.value
        return _once(a * b, (self, lambda g: g * b), (o, lambda g: g * a))

    def __truediv__(self, other: Any) -> Traced:
        o = _traced(other)
        b, value = o.value, self.value / o.value
        return _once(value, (self, lambda g: g / b), (o, lambda g: -g * value / b))

    def __radd__(self, other: Any) -> Traced:
        return self + other

    def __rsub__(self, other: Any) -> Traced:
        return _traced(other) - self

    def __rmul__(self, other: Any) -> Traced:
        return self * other

    def __rtruediv__(self, other: Any) -> Traced:
        return _traced(other) / self

    def __matmul__(self, other: Any) -> Traced:
        o = _traced(other)
        a, b, count = self.value, o.value, o.value.shape[-2]
        local = gamma(count) * (np.abs(a) @ np.abs(b)) + count * TINY
        return Traced(
            a @ b,
            local,
            (self, lambda g: g @ b.swapaxes(-1, -2)),
            (o, lambda g: a.swapaxes(-1, -2) @ g),
            roundings=max(count, 1),
        )

    def __rmatmul__(self, other: Any) -> Traced:
        return _traced(other) @ self

    def clip(self, low: float, high: float) -> Traced:
        """min(max(x, low), high), of bounds that float32 rounds."""
        inside = (self.value > low) & (self.value < high)
        moved = off_the_nearest_bound(low, high)
        local = np.where(inside, 0.0, moved) if moved else None
        return Traced(self.value.clip(low, high), local, (self, lambda g: g * inside))

    def widened(self, by: Any) -> Traced:
        """Float32 may be further off by so much."""
        local = np.broadcast_to(np.asarray(by, np.float64), self.shape)
        return Traced(self.value, local, (self, lambda g: g))

    def sqrt(self) -> Traced:
        """Square roots."""
        value = np.sqrt(self.value)
        return _once(value, (self, lambda g: g / (2 * value)))

    def exp(self) -> Traced:
        """e to the x"""
        value = np.exp(self.value)
        # What overflows counts nothing where nothing of it comes out.
        return _by_library(value, (self, lambda g: np.where(g == 0, 0.0, g * value)))

    def log(self) -> Traced:
        """Natural logarithm."""
        return _by_library(np.log(self.value), (self, lambda g: g / self.value))

    def erf(self) -> Traced:
        """Error function."""
        slope = slope_of_erf(self.value)
        return _by_library(elementary.erf(self.value), (self, lambda g: g * slope))

    def pi(self) -> Traced:
        """The number."""
        return Traced.exactly(math.pi)

    def floor(self) -> Traced:
        """ValueError: no rounding is too small for it."""
        raise ValueError("a function that jumps")

    nearest = floor

    def reshape(self, *shape: int) -> Traced:
        """The same elements."""
        old = self.shape
        return Traced(self.value.reshape(shape), None, (self, lambda g: g.reshape(old)))

    def swapaxes(self, first: int, second: int) -> Traced:
        """Two dimensions exchanged."""
        swapped = self.value.swapaxes(first, second)
        return Traced(swapped, None, (self, lambda g: g.swapaxes(first, second)))

    def __getitem__(self, index: Any) -> Traced:
        places = np.arange(self.value.size).reshape(self.shape)[index]
        return Traced(self.value[index], None, (self, _scattered(self.shape, places)))

    def error_of(self, element: int) -> FirstOrder:
        """How far off the element of this number of the flat array is."""
        start = np.zeros(self.value.size)
        start[element] = 1.0
        with np.errstate(all="ignore"):
            return self._error_along(start.reshape(self.shape))

    def _error_along(self, slope: Array) -> FirstOrder:
        """Of the sum of all elements with these factors."""
        slopes: dict[Traced, Array] = {self: slope}
        total = squares = 0.0
        for step in reversed(self._steps):
            slope = slopes.pop(step)
            if step.local is not None:
                terms = np.where(slope == 0, 0.0, np.abs(slope) * step.local)
                total += float(terms.sum())
                squares += float(np.square(terms).sum()) / step.roundings
            for parent, transposed in step.parents:
                known = slopes.get(parent)
                more = transposed(slope)
                slopes[parent] = more if known is None else known + more
        if math.isnan(total):
            return FirstOrder(math.inf, math.inf)
        return FirstOrder(total * SLACK, math.sqrt(squares) * SLACK)

    @property
    def _steps(self) -> list[Traced]:
        """All steps up to this, operands first."""
        found: list[Traced] = []
        seen: set[Traced] = set()
        pending: list[tuple[Traced, bool]] = [(self, False)]
        while pending:
            step, is_behind = pending.pop()
            if is_behind:
                found.append(step)
            elif step not in seen:
                seen.add(step)
                pending.append((step, True))
                pending += [(parent, False) for parent, _ in step.parents]
        return found


def _traced(value: Any) -> Traced:
    return value if isinstance(value, Traced) else Traced.exactly(value)


def _once(value: Array, *parents: tuple[Traced, Slope]) -> Traced:
    return Traced(value, rounding(value), *parents)


def _by_library(value: Array, *parents: tuple[Traced, Slope]) -> Traced:
    return Traced(value, rounding(value, LIBRARY), *parents)


def _summed(shape: tuple[int, ...], slope: Slope) -> Slope:
    """Summed over the dimensions along which an operand of this shape was broadcast."""

    def transposed(g: Array) -> Array:
        found = slope(g)
        if found.shape == shape:
            return found
        found = found.sum(axis=tuple(range(found.ndim - len(shape))))
        along = tuple(d for d, extent in enumerate(shape) if extent == 1)
        return found.sum(axis=along, keepdims=True)

    return transposed


def _scattered(shape: tuple[int, ...], places: NDArray[np.int64]) -> Slope:
    """Of elements that were taken from these places of a flat array; -1 is none."""
    flat, size = places.reshape(-1) + 1, math.prod(shape)

    def transposed(g: Array) -> Array:
        found: Any = np.bincount(flat, weights=g.reshape(-1), minlength=size + 1)
        return found[1:].reshape(shape)

    return transposed

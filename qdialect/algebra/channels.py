"""One interval per channel whose ends are sums of products: exact, looking at few of them.

A contraction has thousands of channels, and of most only the smallest and the largest
end matter: float64 tells which channels can have those, rational numbers decide.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qdialect.algebra.ranges import Interval

Term = tuple[NDArray[Any], ...]
"""Factors, integers (also Python's) or doubles: one number, or one per channel."""

#: relative and absolute error of a sum of products in float64, generously
_SLACK, _TINY = 2.0**-48, 2.0**-1000

_Numbers = tuple[tuple[int | float, ...], ...]


@dataclass(frozen=True)
class Channels:
    """Interval c from the sum of `low` terms to that of `high` terms; a term of fewer
    channels comes again and again."""

    low: tuple[Term, ...]
    high: tuple[Term, ...]
    assuming: str = ""

    @property
    def count(self) -> int:
        """The number of channels."""
        return max(map(_count, self.low))

    def each(self) -> list[Interval]:
        """All intervals."""
        channels = range(self.count)
        ends = ([_exact(_numbers(terms, c)) for c in channels] for terms in (self.low, self.high))
        return [Interval(low, high, self.assuming) for low, high in zip(*ends, strict=True)]

    def joined(self) -> Interval:
        """The smallest interval that holds all of them."""
        near = {id(term): _near(term) for term in (*self.low, *self.high)}
        low, high = ([(t, near[id(t)]) for t in terms] for terms in (self.low, self.high))
        return Interval(_smallest(low, 1), _smallest(high, -1), self.assuming)

    def near(self, channel: int) -> tuple[float, float]:
        """The ends of one interval, a few roundings off."""
        low, high = (
            sum(prod(float(f[channel % f.size]) for f in term) for term in terms)
            for terms in (self.low, self.high)
        )
        return low, high

    def __add__(self, other: Channels) -> Channels:
        return Channels(
            self.low + other.low, self.high + other.high, self.assuming or other.assuming
        )


def _count(term: Term) -> int:
    return max(factor.size for factor in term)


def _near(term: Term) -> NDArray[np.float64]:
    """Its products in float64: each off by a few units in the last place, or by the least
    double, if it is finite."""
    product = np.ones(1)
    with np.errstate(all="ignore"):
        for factor in term:
            product = product * factor.astype(np.float64, copy=False)
    return product


def _smallest(terms: Sequence[tuple[Term, NDArray[np.float64]]], sign: int) -> Fraction:
    """The smallest sum of terms (`sign` 1), or the largest (-1)."""
    count = max(near.size for _, near in terms)
    total, error = np.zeros(count), np.full(count, _TINY)
    with np.errstate(all="ignore"):
        for _, near in terms:
            every = near if near.size in (1, count) else np.resize(near, count)
            total, error = total + sign * every, error + np.abs(every) * _SLACK
        possible = ~(total - error > (total + error).min())
    exact = [term for term, _ in terms]
    distinct = {_numbers(exact, c) for c in np.flatnonzero(possible).tolist()}
    return sign * min(sign * _exact(numbers) for numbers in distinct)


def _numbers(terms: Sequence[Term], channel: int) -> _Numbers:
    return tuple(
        tuple(number for f in term for number in f[[channel % f.size]].tolist()) for term in terms
    )


def _exact(terms: _Numbers) -> Fraction:
    """Summed in integers: a double is one over a power of two."""
    total, under = 0, 1
    for term in terms:
        product, denominator = 1, 1
        for factor in term:
            n, d = factor.as_integer_ratio()
            product, denominator = product * n, denominator * d
        common = max(under, denominator)
        total = total * (common // under) + product * (common // denominator)
        under = common
    return Fraction(total, under)

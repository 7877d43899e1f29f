"""Extents as polynomials over the symbolic extents of a model: `batch * sequence + 1`.

Two equal polynomials are the same number on every run; of unequal ones nothing is claimed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from math import prod
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

MOST = 64
"""Elements of an array that is followed."""

Numbers = NDArray[Any]

_MOST_TERMS = 16
_MOST_FACTORS = 16
_MOST_TEXT = 200
_LARGEST = 2**63

_unknown = count()


@dataclass(frozen=True)
class Extent:
    """A sum of products of symbols: each term is its symbols in order, and its factor."""

    terms: tuple[tuple[tuple[str, ...], int], ...]

    @staticmethod
    def of(number: int) -> Extent:
        """A number."""
        return Extent((((), number),) if number else ())

    @staticmethod
    def named(name: str) -> Extent:
        """The extent of a name, which is not negative."""
        return Extent(((("@" + name,), 1),))

    @staticmethod
    def unknown() -> Extent:
        """An extent of which nothing is known: equal to itself only."""
        return Extent((((f"?{next(_unknown)}",), 1),))

    @property
    def number(self) -> int | None:
        """The number that it is, if it has no symbol."""
        if not self.terms:
            return 0
        return self.terms[0][1] if self.terms[0][0] == () and len(self.terms) == 1 else None

    @property
    def least(self) -> int | None:
        """A number that it is never below: what has no symbol, if no other term can be negative."""
        signed = any(f < 0 and names for names, f in self.terms)
        if signed or any(name[0] not in "@+" for name in self.names()):
            return None
        return dict(self.terms).get((), 0)

    def at(self, numbers: Mapping[str, int]) -> int:
        """Its value where the symbols are these numbers."""
        return sum(f * prod(numbers[name] for name in names) for names, f in self.terms)

    def names(self) -> set[str]:
        """Its symbols."""
        return {name for names, _ in self.terms for name in names}

    def __str__(self) -> str:
        return " + ".join("*".join((str(f), *names)) for names, f in self.terms) or "0"

    def __add__(self, other: Extent) -> Extent:
        total = dict(self.terms)
        for names, factor in other.terms:
            total[names] = total.get(names, 0) + factor
        return _sum(total)

    def __neg__(self) -> Extent:
        return Extent(tuple((names, -factor) for names, factor in self.terms))

    def __sub__(self, other: Extent) -> Extent:
        return self + -other

    def __mul__(self, other: Extent) -> Extent:
        total: dict[tuple[str, ...], int] = {}
        for a, f in self.terms:
            for b, g in other.terms:
                names = tuple(sorted(a + b))
                total[names] = total.get(names, 0) + f * g
        return _sum(total)

    def over(self, other: Extent) -> Extent | None:
        """The quotient where `other` is one term that divides every term; else None."""
        if len(other.terms) != 1:
            return None
        ((below, divisor),) = other.terms
        total: dict[tuple[str, ...], int] = {}
        for names, factor in self.terms:
            rest = list(names)
            for name in below:
                if name not in rest:
                    return None
                rest.remove(name)
            if factor % divisor:
                return None
            total[tuple(rest)] = factor // divisor
        return _sum(total)

    def made(self, function: str, other: Extent) -> Extent:
        """The result of a function that is not followed further: equal arguments, equal results.
        It is not negative where its arguments are not."""
        signs = [least is not None and least >= 0 for least in (self.least, other.least)]
        text = f"{'+' if all(signs) else '='}{function}({self}, {other})"
        return Extent((((text,), 1),)) if len(text) <= _MOST_TEXT else Extent.unknown()


def _sum(total: Mapping[tuple[str, ...], int]) -> Extent:
    terms = tuple(sorted((names, factor) for names, factor in total.items() if factor))
    small = all(len(names) <= _MOST_FACTORS and abs(f) < _LARGEST for names, f in terms)
    return Extent(terms) if small and len(terms) <= _MOST_TERMS else Extent.unknown()


def product(extents: tuple[Extent, ...]) -> Extent:
    """The number of elements of a shape."""
    total = Extent.of(1)
    for extent in extents:
        total = total * extent
    return total


def clamped(extent: Extent, most: int) -> Extent:
    """The elements that `[0:extent]` takes of `most`."""
    return extent.made("min", Extent.of(most))


def broadcast(shapes: Sequence[Sequence[Extent]]) -> list[Extent | None]:
    """As numpy does, on every run that it does not fail; None for an extent that only the run
    tells."""
    rank = max(map(len, shapes), default=0)
    result: list[Extent | None] = []
    for d in range(-rank, 0):
        extents = {s[d] for s in shapes if len(s) >= -d} - {_ONE}
        result.append(_met(extents) if extents else _ONE)
    return result


def _met(extents: set[Extent]) -> Extent | None:
    """One extent that others, none of which is 1 on every run, are broadcast with."""
    numbers = [e for e in extents if e.number is not None]
    if numbers:
        return numbers[0]
    if len(extents) == 1:
        return next(iter(extents))
    # min(n, 512) is n where it meets n: 512 would not.
    for extent in extents:
        others = [e for e in extents if e != extent]
        if all(_is_clamped(e, extent) for e in others):
            return extent
    return None


def _is_clamped(extent: Extent, whole: Extent) -> bool:
    """Whether it is the smaller of `whole` and a number above 1."""
    text = str(extent)
    most = text.rpartition(", ")[2].rstrip(")")
    return most.isdecimal() and int(most) > 1 and extent == clamped(whole, int(most))


_ONE = Extent.of(1)


def reshape_entries(
    source: Sequence[Extent], target: Sequence[Extent], allowzero: bool
) -> list[int] | None:
    """The shape as `nn.reshape` takes it: numbers, 0 for a copy, -1 for what is left."""
    entries: list[int] = []
    for d, extent in enumerate(target):
        number = extent.number
        copies = number == 0 and not allowzero
        if number == 0 and allowzero:
            return None
        if copies or (number is None and d < len(source) and source[d] == extent):
            entries.append(0)
        else:
            entries.append(-1 if number is None else number)
    if min((0, *entries)) < -1 or entries.count(-1) > 1:
        return None
    left = entries.index(-1) if -1 in entries else None
    if left is not None and target[left].number is None and 0 in entries:
        return None  # a copied extent may be 0, and then nothing tells the one that is left
    if any(n == 0 and d >= len(source) for d, n in enumerate(entries)):
        return None
    return entries


# -- arrays of extents -----------------------------------------------------------------------


def numbers(values: Any) -> Numbers:
    """An array of extents of integers or extents."""
    given = np.asarray(values, dtype=object)
    result = np.empty(given.shape, dtype=object)
    for place in np.ndindex(given.shape):
        value = given[place]
        result[place] = value if isinstance(value, Extent) else Extent.of(int(value))
    return result


def integers(array: Numbers) -> NDArray[np.int64] | None:
    """The array, if all of it are numbers."""
    found = [cast("Extent", value).number for value in array.reshape(-1)]
    if None in found:
        return None
    return np.array(found, np.int64).reshape(array.shape)

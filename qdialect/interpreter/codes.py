"""Stored codes that are not the integers they stand for: float storage and look-up tables.

A code stands for a number v, and means the real (v - zero point) * scale.

| storage | held as | v |
|---|---|---|
| `f8E4M3FN`, `f8E5M2`, `f4E2M1FN` | bits in uint8 (f4 in the low four) | the float |
| `!quant.quantile` of integers | the integers | `table[code - storage.min]` |
| `!quant.quantile` of floats | bits in uint8 | `table[bits]` |

Entries of a table are the doubles written in the type, as scales are.  Storing takes
the code whose v is nearest to x / scale + zero point, decided exactly, among those
within the bounds:

* a tie goes to the float with the even significand, in a table to the lower entry;
* of equal entries of a table (it need not be sorted) the lowest code is taken;
* a float keeps the sign of a zero; what is beyond the bounds saturates, infinities too;
* NaN is stored as the (positive, quiet) NaN of f8E4M3FN and f8E5M2, and otherwise,
  where no code means it, as the lowest number.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qdialect.algebra.qparams import Storage
from qdialect.errors import UnsupportedError
from qdialect.interpreter.real import SLACK, TINY, UNIT, Doubles, Real
from qdialect.interpreter.small_floats import meanings

Array = NDArray[Any]

_NAN = {"f8E4M3FN": 0x7F, "f8E5M2": 0x7E}


def is_coded(storage: Storage) -> bool:
    """Whether stored codes are something else than the integers they stand for."""
    return storage.is_float or storage.quantile is not None


def codes_of(storage: Storage) -> Codes:
    """The codes of a storage that `is_coded`; UnsupportedError where they mean nothing."""
    if storage.is_float and storage.quantile is not None and not storage.is_full_range:
        raise UnsupportedError(
            f"codes of a table on {storage} have no meaning: bounds of floats number no entries",
            code="unsupported-storage",
        )
    return _codes_of(storage)


@lru_cache(maxsize=64)
def _codes_of(storage: Storage) -> Codes:
    if storage.quantile is not None:
        first = 0 if storage.is_float else storage.min
        return Codes(first, np.array(storage.quantile.values()), None)
    values = meanings(storage.keyword)
    usable = (storage.min <= values) & (values <= storage.max)
    return Codes(0, values, _NAN.get(storage.keyword), usable, to_even=True)


@dataclass(eq=False)
class Codes:
    """The numbers that the codes `first`, `first + 1`, ... stand for.

    `nan`: the code that stores NaN, if any. `usable`: the codes that may be stored
    (default: those of finite numbers). `to_even`: ties go to even codes and zeros have
    signs; else ties go to the lower number.
    """

    first: int
    values: Doubles
    nan: int | None = None
    usable: NDArray[np.bool_] | None = None
    to_even: bool = False

    @cached_property
    def valid(self) -> Array:
        """The codes that may be stored, other than NaN."""
        usable = np.isfinite(self.values) if self.usable is None else self.usable
        found = np.flatnonzero(usable)
        if not found.size:
            raise UnsupportedError("a storage none of whose codes is a finite number")
        return found + self.first

    @cached_property
    def levels(self) -> tuple[Doubles, Array]:
        """The different numbers that may be stored, ascending, and the lowest code of each."""
        numbers, where = np.unique(self.values[self.valid - self.first], return_index=True)
        return numbers, self.valid[where]

    def holds(self, stored: Array) -> bool:
        """Whether all are codes that may be stored (or NaN)."""
        allowed = self.valid if self.nan is None else np.append(self.valid, self._nans)
        return bool(np.isin(stored, allowed).all())

    @cached_property
    def _nans(self) -> Array:
        return np.flatnonzero(np.isnan(self.values)) + self.first

    def read(self, stored: Array) -> Doubles:
        """The numbers that codes stand for."""
        return self.values[stored.astype(np.int64) - self.first]

    # -- order ------------------------------------------------------------

    def steps(self, stored: Array) -> Doubles:
        """The place of each code among the different numbers, ascending; NaN of NaN."""
        return self._places[stored.astype(np.int64) - self.first]

    @cached_property
    def _places(self) -> Doubles:
        distinct = np.unique(self.values[~np.isnan(self.values)])
        places = np.searchsorted(distinct, self.values).astype(np.float64)
        return np.where(np.isnan(self.values), np.nan, places)

    def ranks(self, stored: Array) -> NDArray[np.int64]:
        """Integers ordered as the numbers: -0 before 0, NaN last."""
        return self._ranked[1][stored.astype(np.int64) - self.first]

    def of_ranks(self, ranks: Array) -> Array:
        """The codes of `ranks`; -1 is the lowest number."""
        return np.append(self._ranked[0] + self.first, self.levels[1][0])[ranks]

    @cached_property
    def _ranked(self) -> tuple[Array, NDArray[np.int64]]:
        order = np.lexsort((~np.signbit(self.values), self.values))
        ranks = np.empty(order.size, np.int64)
        ranks[order] = np.arange(order.size)
        return order, ranks

    # -- storing ----------------------------------------------------------

    def nearest(self, value: Real) -> Array:
        """The codes of the numbers nearest to a tensor of rank 1 or more."""
        numbers, codes = self.levels
        middles, doubt = self._middles
        approx, bound = value.approx, value.error * SLACK
        below = np.searchsorted(middles[1:-1], approx)
        if self.to_even:
            tie = (approx == middles[below + 1]) & np.isfinite(approx)
            below = below + (tie & (codes[below] % 2 == 1))
        near = (np.abs(approx - middles[below]) <= bound + doubt[below]) | (
            np.abs(approx - middles[below + 1]) <= bound + doubt[below + 1]
        )
        near &= (bound + doubt[below] + doubt[below + 1]) > 0
        if value.special is not None:
            near &= ~value.special
        if near.any():
            index = np.nonzero(near)
            exact = value.at(index)
            pairs = zip(exact.num.tolist(), exact.den.tolist(), strict=True)
            below[index] = [self._nearest_level(Fraction(n, d)) for n, d in pairs]
        result = codes[below]
        if self.to_even:
            sign = (numbers[below] == 0) & np.signbit(approx)
            result = np.where(sign, self.values.size >> 1, result)
        lowest = codes[0] if self.nan is None else self.nan
        return np.where(np.isnan(approx), lowest, result)

    @cached_property
    def _middles(self) -> tuple[Doubles, Doubles]:
        """Between neighbours (and infinities around), and how wrong each may be."""
        numbers = self.levels[0] / 2
        low, high = numbers[:-1], numbers[1:]
        middles = low + high
        part = middles - low
        lost = np.abs((low - (middles - part)) + (high - part))
        lost += np.abs(numbers[:-1] * 2 - self.levels[0][:-1])
        lost += np.abs(numbers[1:] * 2 - self.levels[0][1:])
        doubt = np.where(lost > 0, np.abs(middles) * UNIT * 4 + 4 * TINY, 0.0)
        ends = np.array([np.inf])
        return np.concatenate([-ends, middles, ends]), np.concatenate([[0.0], doubt, [0.0]])

    @cached_property
    def _exact_middles(self) -> list[Fraction]:
        numbers = [Fraction(number) for number in self.levels[0].tolist()]
        return [(a + b) / 2 for a, b in pairwise(numbers)]

    def _nearest_level(self, value: Fraction) -> int:
        place = bisect_left(self._exact_middles, value)
        tie = place < len(self._exact_middles) and self._exact_middles[place] == value
        return place + (tie and self.to_even and int(self.levels[1][place]) % 2 == 1)


def ordered(stored: Array, storage: Storage) -> Array:
    """Stored values as integers in the order of the numbers they stand for."""
    return codes_of(storage).ranks(stored) if is_coded(storage) else stored


def unordered(ranks: Array, storage: Storage, dtype: np.dtype[Any]) -> Array:
    """The stored values that `ordered` made `ranks` of."""
    return codes_of(storage).of_ranks(ranks).astype(dtype) if is_coded(storage) else ranks

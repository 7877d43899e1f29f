"""Which integer a function of rationals rounds to, with certainty.

A function written in words (+ - * /, clip and `numerics.words`) runs on `Spans`, many
elements at a time in float64, and on one `Enclosure`, exact where the function is
rational and elsewhere to as many decimal digits as asked for.  `decide` rounds by the
first and asks the second, with more and more digits, about the elements that the first
leaves open.  What stays open is refused, never guessed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qdialect.numerics.enclosure import Enclosure, End
from qdialect.numerics.quantize import round_floats
from qdialect.numerics.requantize import round_fraction
from qdialect.numerics.rounding import Rounding
from qdialect.numerics.spans import Spans

Integers = NDArray[np.int64]

DIGITS = (40, 80, 160, 320, 640)
"""Decimal digits that are tried in turn."""


class UndecidedError(Exception):
    """A result is too close to a rounding boundary, or does not exist."""


class Reals:
    """Real numbers, one per element, as the two kinds of enclosures."""

    def __init__(self, spans: Spans, at: Callable[[int, int], Enclosure]) -> None:
        self.spans = spans
        self._at = at
        self._known: dict[tuple[int, int], Enclosure] = {}

    def at(self, element: int, digits: int) -> Enclosure:
        """One element to so many digits."""
        key = element, digits
        if key not in self._known:
            self._known[key] = self._at(element, digits)
        return self._known[key]

    @staticmethod
    def exact(values: list[Fraction]) -> Reals:
        """Rational numbers."""
        near = np.array([_double(v) for v in values], np.float64)
        return Reals(Spans.of(near), lambda i, digits: Enclosure.of(values[i], digits))

    @staticmethod
    def of_codes(codes: NDArray[Any], scale: float, zero: int) -> Reals:
        """(code - zero) * scale"""
        steps = codes.astype(np.int64) - zero
        factor = Fraction(scale)
        spans = Spans.of(steps.astype(np.float64) * scale)
        return Reals(spans, lambda i, digits: Enclosure.of(int(steps[i]) * factor, digits))

    @staticmethod
    def apply(words: Callable[[list[Any]], Any], *operands: Reals, defined: bool = False) -> Reals:
        """A function written in words, of operands of one length; if `defined`, elements
        that are no numbers raise UndecidedError."""
        with np.errstate(all="ignore"):
            spans: Spans = words([x.spans for x in operands])

        def at(element: int, digits: int) -> Enclosure:
            value: Enclosure = words([x.at(element, digits) for x in operands])
            if defined and not value.is_number:
                raise UndecidedError("a result is not a number")
            return value

        return Reals(spans, at)

    def __len__(self) -> int:
        return self.spans.low.size


def _double(value: Fraction) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def decide(
    x: Reals,
    scale: float,
    zero: int,
    bounds: tuple[int, int],
    rounding: Rounding,
    *,
    defined: bool = False,
) -> Integers:
    """clamp(R(x / scale) + zero) for every element; UndecidedError where that stays open.

    What is no number is stored as the lowest code, infinities saturate; `defined` asks
    for numbers everywhere instead.
    """
    low, high = bounds[0] - zero, bounds[1] - zero
    with np.errstate(all="ignore"):
        steps = x.spans / scale
        known = np.isfinite(steps.low) & np.isfinite(steps.high)
        ends = [
            round_floats(np.where(known, end, 0.0), rounding) for end in (steps.low, steps.high)
        ]
    first, last = (np.clip(end, low, high) for end in ends)
    result = np.asarray(first, np.int64)
    for index in np.flatnonzero(~known | (first != last)).tolist():
        result[index] = _decide(x, index, scale, (low, high), rounding, defined)
    return result + zero


def _decide(
    x: Reals,
    index: int,
    scale: float,
    limits: tuple[int, int],
    rounding: Rounding,
    defined: bool,
) -> int:
    low, high = limits
    for digits in DIGITS:
        value = x.at(index, digits)
        if not value.is_number and defined:
            raise UndecidedError("a result is not a number")
        if value.is_nothing:
            return low
        codes = {_rounded(end, scale, low, high, rounding) for end in (value.low, value.high)}
        if len(codes) == 1:
            return codes.pop()
    raise UndecidedError("a result is too close to a rounding boundary to be decided")


def _rounded(end: End, scale: float, low: int, high: int, rounding: Rounding) -> int:
    if isinstance(end, float):
        return high if end > 0 else low
    return min(max(round_fraction(end / Fraction(scale), rounding), low), high)

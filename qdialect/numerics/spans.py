"""Intervals of float64, many at a time, every step rounded outwards."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Doubles = NDArray[np.float64]

_LIBRARY = 2.0**-48
"""Relative error granted to float64 library functions."""


class Spans:
    """Intervals `low` to `high` elementwise; NaN where nothing is known."""

    def __init__(self, low: Doubles, high: Doubles) -> None:
        self.low = low
        self.high = high

    @staticmethod
    def of(values: Doubles) -> Spans:
        """Numbers that doubles are within a rounding of."""
        return _outward(values, values)

    def __add__(self, other: Spans | float) -> Spans:
        o = _spans(other)
        return _outward(self.low + o.low, self.high + o.high)

    def __sub__(self, other: Spans | float) -> Spans:
        o = _spans(other)
        return _outward(self.low - o.high, self.high - o.low)

    def __mul__(self, other: Spans | float) -> Spans:
        o = _spans(other)
        return _hull(self.low * o.low, self.low * o.high, self.high * o.low, self.high * o.high)

    def __truediv__(self, other: Spans | float) -> Spans:
        o = _spans(other)
        ends = _hull(self.low / o.low, self.low / o.high, self.high / o.low, self.high / o.high)
        open_ = (o.low <= 0) & (o.high >= 0)
        return Spans(np.where(open_, np.nan, ends.low), np.where(open_, np.nan, ends.high))

    def __rtruediv__(self, other: float) -> Spans:
        return _spans(other) / self

    def clip(self, low: float, high: float) -> Spans:
        return Spans(np.clip(self.low, low, high), np.clip(self.high, low, high))

    def exp(self) -> Spans:
        return _library(np.exp(self.low), np.exp(self.high))

    def log(self) -> Spans:
        return _library(np.log(self.low), np.log(self.high))

    def sqrt(self) -> Spans:
        return _outward(np.sqrt(self.low), np.sqrt(self.high))

    def erf(self) -> Spans:
        return _library(_erf(self.low), _erf(self.high))

    def floor(self) -> Spans:
        return Spans(np.floor(self.low), np.floor(self.high))

    def nearest(self) -> Spans:
        return Spans(np.rint(self.low), np.rint(self.high))

    def pi(self) -> Spans:
        return Spans.of(np.array([math.pi]))


def _spans(value: Spans | float) -> Spans:
    if isinstance(value, Spans):
        return value
    held = np.array([value], np.float64)
    return Spans(held, held)


def _outward(low: Doubles, high: Doubles) -> Spans:
    return Spans(np.nextafter(low, -np.inf), np.nextafter(high, np.inf))


def _hull(*ends: Doubles) -> Spans:
    return _outward(np.minimum.reduce(ends), np.maximum.reduce(ends))


def _library(low: Doubles, high: Doubles) -> Spans:
    tiny = np.finfo(np.float64).tiny
    return Spans(low - np.abs(low) * _LIBRARY - tiny, high + np.abs(high) * _LIBRARY + tiny)


def _erf(x: Doubles) -> Doubles:
    return np.vectorize(math.erf, otypes=[np.float64])(x)

"""Arrays of exact rational numbers: what constants mean, for folding arithmetic on them.

Slow (Python integers) and exact. A denominator of 0 stands for an infinity of the sign
of the numerator, which only a division by zero makes.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qdialect.numerics.quantize import spread, storage_dtype
from qdialect.numerics.rounding import Rounding
from qdialect.qparams import QParams

Array = NDArray[Any]


class Rationals:
    """`num / den` elementwise, broadcasting as numpy does; at least one dimension."""

    def __init__(self, num: Array, den: Array) -> None:
        self.num = num
        self.den = den

    @staticmethod
    def of_integers(values: Array) -> Rationals:
        """Integers of any dtype."""
        num = values.astype(object)
        return Rationals(num, np.full(num.shape, 1, object))

    @staticmethod
    def of_floats(values: Array) -> Rationals:
        """Finite floats, exactly; ValueError for others."""
        wide = values.astype(np.float64)
        if not np.isfinite(wide).all():
            raise ValueError("not every number is finite")
        mantissa, exponent = np.frexp(wide)
        num = np.ldexp(mantissa, 53).astype(np.int64).astype(object)
        power = exponent.astype(object) - 53
        one = np.full(num.shape, 1, object)
        return Rationals(num * (one << np.maximum(power, 0)), one << np.maximum(-power, 0))

    @staticmethod
    def of_codes(codes: Array, qparams: QParams) -> Rationals:
        """(q - zero point) * scale"""
        top, bottom = _scales(qparams, codes.shape)
        steps = codes.astype(object) - _zero_points(qparams, codes.shape)
        return Rationals(steps * top, np.broadcast_to(bottom, codes.shape))

    @property
    def shape(self) -> tuple[int, ...]:
        return self.num.shape

    def quantize(self, qparams: QParams, rounding: Rounding) -> Array:
        """clamp(R(x / scale) + zero point); infinities saturate."""
        top, bottom = _scales(qparams, self.shape)
        steps = round_ratio(self.num * bottom, self.den * top, rounding)
        codes = steps + _zero_points(qparams, self.shape)
        storage = qparams.storage
        low, high = (np.full(self.shape, bound, object) for bound in (storage.min, storage.max))
        codes = np.minimum(np.maximum(codes, low), high)
        codes = np.where(self.den == 0, np.where(self.num > 0, high, low), codes)
        return codes.astype(storage_dtype(qparams))

    def truncate(self) -> Array:
        """Rounded towards zero, as Python integers; ValueError for infinities."""
        if np.any(self.den == 0):
            raise ValueError("division by zero")
        whole: Array = np.abs(self.num) // self.den
        return np.where(self.num < 0, -whole, whole)

    # -- arithmetic ---------------------------------------------------------

    def __add__(self, other: Rationals | float) -> Rationals:
        o = _number(other)
        return Rationals(self.num * o.den + o.num * self.den, self.den * o.den)

    def __sub__(self, other: Rationals | float) -> Rationals:
        o = _number(other)
        return Rationals(self.num * o.den - o.num * self.den, self.den * o.den)

    def __mul__(self, other: Rationals | float) -> Rationals:
        o = _number(other)
        return Rationals(self.num * o.num, self.den * o.den)

    def __truediv__(self, other: Rationals | float) -> Rationals:
        """x / 0 is an infinity of the sign of x, and 0 / 0 is 0."""
        o = _number(other)
        sign = np.where(o.num < 0, -1, 1)
        num: Array = self.num * o.den * sign
        den: Array = self.den * np.abs(o.num)
        return Rationals(num, np.where((num == 0) & (den == 0), 1, den).astype(object))

    def clip(self, low: float, high: float) -> Rationals:
        """min(max(x, low), high); bounds may be infinite."""
        num, den = self.num, self.den
        for bound, keeps in ((low, np.greater_equal), (high, np.less_equal)):
            if bound in (inf, -inf):
                continue
            top, bottom = Fraction(bound).as_integer_ratio()
            kept = keeps(num * bottom, top * den)
            num, den = np.where(kept, num, top), np.where(kept, den, bottom)
        return Rationals(num, den)

    def sum(self, axis: int) -> Rationals:
        """Sum along one dimension, which stays with extent 1."""
        common = np.lcm.reduce(self.den, axis, keepdims=True, initial=1)
        num = (self.num * (common // self.den)).sum(axis, keepdims=True)
        return Rationals(num, common)

    def reshape(self, *shape: int) -> Rationals:
        """The same elements in row-major order under another shape."""
        den = np.broadcast_to(self.den, self.shape)
        return Rationals(self.num.reshape(shape), den.reshape(shape))


def round_ratio(num: Array, den: Array, rounding: Rounding) -> Array:
    """R(num / den) of Python integers, den >= 0 (0 gives 0)."""
    safe = np.where(den == 0, 1, den).astype(object)
    below: Array = num // safe
    twice = 2 * (num - below * safe)
    if rounding is Rounding.HALF_EVEN:
        up = below % 2 == 1
    elif rounding is Rounding.HALF_AWAY:
        up = num > 0
    elif rounding is Rounding.HALF_UP:
        up = np.full(np.shape(num), True)
    else:
        raise ValueError(f"{rounding.value} does not round real numbers")
    return np.where((twice > safe) | ((twice == safe) & up), below + 1, below)


def _number(value: Rationals | float) -> Rationals:
    if isinstance(value, Rationals):
        return value
    top, bottom = Fraction(value).as_integer_ratio()
    return Rationals(np.array([top], object), np.array([bottom], object))


def _scales(qparams: QParams, shape: Sequence[int]) -> tuple[Array, Array]:
    """Numerators and denominators of the scales, broadcastable to `shape`."""
    ratios = [scale.as_integer_ratio() for scale in qparams.scale_list()]
    sides = (np.array(side, object).reshape(qparams.grid) for side in zip(*ratios, strict=True))
    top, bottom = (_laid(side, qparams, shape) for side in sides)
    return top, bottom


def _zero_points(qparams: QParams, shape: Sequence[int]) -> Array:
    return _laid(qparams.zero_point_array().astype(object), qparams, shape)


def _laid(values: Array, qparams: QParams, shape: Sequence[int]) -> Array:
    return np.atleast_1d(spread(values, qparams, tuple(shape)))

"""Arrays of exact rational numbers: what constants mean, for folding arithmetic on them.

Slow (Python integers) and exact. A denominator of 0 stands for an infinity of the sign
of the numerator, which only a division by zero makes.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import inf, isqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Self

from qdialect.algebra.qparams import QParams
from qdialect.algebra.quantize import spread, storage_dtype
from qdialect.algebra.rounding import Rounding

Array = NDArray[Any]

_ROOT_BITS = 256
"""Relative precision of square roots that are not rational."""


class Rationals:
    """`num / den` elementwise, broadcasting as numpy does; at least one dimension."""

    _excess = 0

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
        """The extents of the numerators, to which denominators broadcast."""
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

    def fractions(self, shape: tuple[int, ...]) -> list[Fraction]:
        """Broadcast to `shape`, in row-major order; ValueError for infinities."""
        sides = (np.broadcast_to(side, shape).ravel().tolist() for side in (self.num, self.den))
        pairs = zip(*sides, strict=True)
        try:
            return [Fraction(int(num), int(den)) for num, den in pairs]
        except ZeroDivisionError:
            raise ValueError("division by zero") from None

    # -- arithmetic ---------------------------------------------------------

    def __add__(self, other: Rationals | Array | float) -> Self:
        o = _number(other)
        return self._new(self.num * o.den + o.num * self.den, self.den * o.den)

    def __sub__(self, other: Rationals | Array | float) -> Self:
        o = _number(other)
        return self._new(self.num * o.den - o.num * self.den, self.den * o.den)

    def __mul__(self, other: Rationals | Array | float) -> Self:
        o = _number(other)
        return self._new(self.num * o.num, self.den * o.den)

    def __truediv__(self, other: Rationals | Array | float) -> Self:
        """x / 0 is an infinity of the sign of x, and 0 / 0 is 0."""
        o = _number(other)
        sign = np.where(o.num < 0, -1, 1)
        num: Array = self.num * o.den * sign
        den: Array = self.den * np.abs(o.num)
        return self._new(num, np.where((num == 0) & (den == 0), 1, den).astype(object))

    def __rtruediv__(self, other: float) -> Self:
        quotient = _number(other) / self
        return self._new(quotient.num, quotient.den)

    def clip(self, low: float, high: float) -> Self:
        """min(max(x, low), high); bounds may be infinite."""
        num, den = self.num, self.den
        for bound, keeps in ((low, np.greater_equal), (high, np.less_equal)):
            if bound in (inf, -inf):
                continue
            top, bottom = Fraction(bound).as_integer_ratio()
            inside = keeps(num * bottom, top * den)
            num, den = np.where(inside, num, top), np.where(inside, den, bottom)
        return self._new(num, den)

    def __matmul__(self, other: Rationals | Array) -> Self:
        """Matrix product over the last two dimensions, broadcasting the others."""
        rows, row_num, row_den = self._integers(-1)
        columns, num, den = _number(other)._integers(-2)
        product = _integer_product(rows, columns)
        return self._new(product * (row_num * num), np.broadcast_to(row_den * den, product.shape))

    def sqrt(self) -> Self:
        """Square root of positive numbers (ValueError for others); one that is not
        rational is rounded down, with `RootsUp` up."""
        pairs = zip(self.num.flat, np.broadcast_to(self.den, self.shape).flat, strict=True)
        roots = [self._root(int(num), int(den)) for num, den in pairs]
        num, den = (np.array([root[side] for root in roots], object) for side in (0, 1))
        return self._new(num.reshape(self.shape), den.reshape(self.shape))

    def _root(self, num: int, den: int) -> tuple[int, int]:
        if num <= 0 or den <= 0:
            raise ValueError("square root of a number that is not positive")
        root = isqrt(num * den)
        if root * root == num * den:
            return root, den
        return isqrt((num * den) << 2 * _ROOT_BITS) + self._excess, den << _ROOT_BITS

    def sum(self, axis: int) -> Self:
        """Sum along one dimension, which stays with extent 1."""
        common = np.lcm.reduce(self.den, axis, keepdims=True, initial=1)
        num = (self.num * (common // self.den)).sum(axis, keepdims=True)
        return self._new(num, common)

    def reshape(self, *shape: int) -> Self:
        """The same elements in row-major order under another shape."""
        den = np.broadcast_to(self.den, self.shape)
        return self._new(self.num.reshape(shape), den.reshape(shape))

    def swapaxes(self, first: int, second: int) -> Self:
        """With two dimensions exchanged."""
        den = np.broadcast_to(self.den, self.shape)
        return self._new(self.num.swapaxes(first, second), den.swapaxes(first, second))

    def __getitem__(self, index: Any) -> Self:
        """Elements by numpy indexing that leaves at least one dimension."""
        return self._new(self.num[index], np.broadcast_to(self.den, self.shape)[index])

    def _integers(self, axis: int) -> tuple[Array, Array, Array]:
        """These numbers as integers * num / den, num and den constant along `axis`."""
        if self.shape[axis] == 0:
            one = np.ones((1,) * self.num.ndim, object)
            return self.num, one, one
        den = np.broadcast_to(self.den, self.shape)
        common = np.lcm.reduce(den, axis, keepdims=True)
        num = self.num if np.all(den == common) else self.num * (common // den)
        shared = np.gcd.reduce(num, axis, keepdims=True)
        shared = np.where(shared == 0, 1, shared).astype(object)
        return num // shared, shared, common

    def _new(self, num: Array, den: Array) -> Self:
        return type(self)(num, den)


class RootsUp(Rationals):
    """The same with square roots rounded up: with `Rationals`, whose are rounded down, an
    interval that holds any function that is monotone in its roots."""

    _excess = 1


def round_ratio(num: Array, den: Array, rounding: Rounding) -> Array:
    """R(num / den) of Python integers, den >= 0 (0 gives 0)."""
    safe = np.where(den == 0, 1, den).astype(object)
    below: Array = num // safe
    twice = 2 * (num - below * safe)
    if rounding.in_reals is Rounding.HALF_EVEN:
        up = below % 2 == 1
    elif rounding is Rounding.HALF_AWAY:
        up = num > 0
    elif rounding is Rounding.HALF_UP:
        up = np.full(np.shape(num), True)
    else:
        raise ValueError(f"{rounding.value} does not round real numbers")
    return np.where((twice > safe) | ((twice == safe) & up), below + 1, below)


def _integer_product(a: Array, b: Array) -> Array:
    """Exact `a @ b` of Python integers; by BLAS where float64 holds every sum."""
    largest = np.abs(a).max(initial=0) * np.abs(b).max(initial=0) * a.shape[-1]
    if largest >= 1 << 53:
        return a @ b
    return (a.astype(np.float64) @ b.astype(np.float64)).astype(np.int64).astype(object)


def _number(value: Rationals | Array | float) -> Rationals:
    if isinstance(value, Rationals):
        return value
    if isinstance(value, np.ndarray):
        if value.dtype.kind == "f":
            return Rationals.of_floats(value)
        return Rationals.of_integers(value.astype(np.int64))
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

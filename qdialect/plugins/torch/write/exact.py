"""Real numbers as unevaluated sums of two doubles, rounded once to where they are stored.

A quantized op in real arithmetic is decided at ties, which float64 alone moves.  `Exact` has
about 104 bits (Dekker, Knuth): products of codes, scales and biases keep their ties, and what
is closer than `_NEAR` to one is one.  Zeros, infinities and NaN behave as in float64.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from qdialect.algebra.rounding import Rounding

_SPLIT = 134217729.0
"""2^27 + 1: halves the 53 bits of a double."""
_NEAR = 2.0**-80
"""Closer to a tie than this times the number: the tie itself."""


@dataclass(frozen=True)
class Exact:
    """The numbers `high + low`, `|low|` at most half a unit in the last place of `high`."""

    high: Tensor
    low: Tensor

    @staticmethod
    def of(values: Tensor | float) -> Exact:
        """Floats, or integers of any size, as they are."""
        if not isinstance(values, Tensor):
            values = torch.tensor(values, dtype=torch.float64)
        high = values.to(torch.float64)
        if values.dtype is not torch.int64:
            return Exact(high, torch.zeros_like(high))
        # 64-bit integers in two halves; both, and their sum, are exact.
        upper = (values >> 32).to(torch.float64) * 2.0**32
        return _sum(upper, (values & 0xFFFFFFFF).to(torch.float64))

    def map(self, change: Callable[[Tensor], Tensor]) -> Exact:
        """What moves elements, of both parts."""
        return Exact(change(self.high), change(self.low))

    def __add__(self, other: Exact) -> Exact:
        total, below = _sum(self.high, other.high), _sum(self.low, other.low)
        middle = _sum(total.high, total.low + below.high)
        return _sum(middle.high, middle.low + below.low)

    def __neg__(self) -> Exact:
        return Exact(-self.high, -self.low)

    def __sub__(self, other: Exact) -> Exact:
        return self + -other

    def __mul__(self, other: Exact) -> Exact:
        product = _product(self.high, other.high)
        cross = _finite(self.high * other.low + self.low * other.high)
        return _sum(product.high, product.low + cross)

    def __truediv__(self, other: Exact) -> Exact:
        first = self.high / other.high
        rest = self - other * Exact.of(first)
        second = rest.high / other.high
        rest = rest - other * Exact.of(second)
        third = rest.high / other.high
        parts = _sum(_finite(second), _finite(third))
        found = _sum(first, parts.high)
        return _sum(found.high, found.low + parts.low)

    def sqrt(self) -> Exact:
        """Square roots, NaN of negative numbers."""
        root = self.high.sqrt()
        rest = self - Exact.of(root) * Exact.of(root)
        return _sum(root, _finite(rest.high / (2 * root)))

    def clip(self, low: float, high: float) -> Exact:
        """min(max(self, low), high)."""
        below, above = self.high < low, self.high > high
        inside = ~(below | above)
        return Exact(self.high.clamp(low, high), torch.where(inside, self.low, 0.0))

    def rounded(self, rounding: Rounding) -> Tensor:
        """The nearest integers, as doubles; NaN and infinities stay."""
        whole = self.high.floor()
        past = ((self.high - whole) - 0.5) + self.low
        tie = past.abs() <= _NEAR * self.high.abs().clamp(min=1.0)
        up = torch.where(tie, tie_goes_up(whole, rounding), past > 0)
        return torch.where(self.high.isfinite(), whole + up, self.high)

    def to_float(self, kind: torch.dtype) -> Tensor:
        """The nearest floats of a type."""
        if kind is torch.float64:
            return self.high + self.low
        odd = _to_odd(self.high, self.low, torch.float64)
        if kind is not torch.float32:
            # Torch goes from doubles to narrower floats by way of f32.
            single = odd.float()
            odd = _to_odd(single, _finite(odd - single.double()), torch.float32)
        return odd.to(kind)


def _to_odd(values: Tensor, rest: Tensor, kind: torch.dtype) -> Tensor:
    """values + rest rounded to odd: the last bit then says on which side of a tie it is."""
    even = (values.view(torch.int64 if kind is torch.float64 else torch.int32) & 1) == 0
    towards = torch.where(rest > 0, torch.inf, -torch.inf).to(kind)
    return torch.where((rest != 0) & even, torch.nextafter(values, towards), values)


def tie_goes_up(whole: Tensor, rounding: Rounding) -> Tensor:
    """Whether `whole` + 1/2 is rounded up."""
    if rounding.in_reals is Rounding.HALF_EVEN:
        return torch.remainder(whole, 2) == 1
    if rounding is Rounding.HALF_AWAY:
        return whole >= 0
    return torch.ones_like(whole, dtype=torch.bool)


def rounded_floats(values: Tensor, rounding: Rounding) -> Tensor:
    """Floats rounded to integers, exactly as the floats they are."""
    if rounding.in_reals is Rounding.HALF_EVEN:
        return values.round()
    whole = values.floor()
    part = values - whole
    up = (part > 0.5) | ((part == 0.5) & tie_goes_up(whole, rounding))
    return whole + up


def _sum(a: Tensor, b: Tensor) -> Exact:
    high = a + b
    part = high - a
    return Exact(high, _finite((a - (high - part)) + (b - part)))


def _product(a: Tensor, b: Tensor) -> Exact:
    """a * b, exactly."""
    high = a * b
    a_high, b_high = _upper(a), _upper(b)
    a_low, b_low = a - a_high, b - b_high
    low = ((a_high * b_high - high) + a_high * b_low + a_low * b_high) + a_low * b_low
    return Exact(high, _finite(low))


def _upper(values: Tensor) -> Tensor:
    scaled = values * _SPLIT
    return scaled - (scaled - values)


def _finite(values: Tensor) -> Tensor:
    """The numbers, 0 where infinities made something else of them."""
    return torch.where(values.isfinite(), values, 0.0)

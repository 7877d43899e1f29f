"""Qparams of constants that contractions multiply with, and of their bias; pure numbers.

Weights are symmetric: with a zero point of their own, every product would need the sum of
the other operand.  Scales are chosen for each channel by least squared error,

    min over s of sum (w - s clamp(round(w / s)))^2

among scales from the one that just holds the largest weight down to a third of it: some far
apart, then those beside the best.

A bias is i32 on the scale s_x s_w, and nothing may overflow on the way: the integers that the
kernel adds up in hold every sum of the products of a channel and of its bias (`algebra.sums`).
A scale of a channel for which that does not hold is made larger until it does. Where products
are added in pairs first, clipping the largest weights may cost less: whichever has less error.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from qdialect.algebra.float_text import FORMATS, round_to_format
from qdialect.algebra.qparams import Storage
from qdialect.algebra.qparams.domains import Scales
from qdialect.algebra.sums import (
    SUMS,
    Span,
    SumType,
    excess,
    pair_sums,
    partial_sums,
    signed_sums,
    to_signed,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]
    Codes = NDArray[np.int64]

_SHRINK_STEP, _COARSE, _COARSE_STEPS = 1 / 60, 4, 11
_TRIES = 60
_SLACK = 1.001
_BIAS_BITS = 24
_ROUNDED = 1 + 2.0**-20
_LEAST_CODE = 2
"""Weights whose codes are smaller say little more than their signs."""


@dataclass(frozen=True)
class Sums:
    """What a contraction adds up: `step` is the scale of the runtime operand, `span` what its
    codes can be; `bias` is one number per channel, or None, whose codes are `bias_most` at
    most; it is yet to be rounded to the scale of the products, or stands on it (`on_products`).
    In one sum are `depth` products of a row of weights (None: all of it), in integers of
    `kind`."""

    step: float
    span: Span
    bias: Array | None = None
    kind: SumType = SUMS
    depth: int | None = None
    on_products: bool = False
    bias_most: int = 2**31 - 1

    def excess(self, offsets: Codes, scales: Array, shift: int | Codes = 0) -> Array:
        """By which factor the sums of each row are too large; at most 1 where they fit. The
        signed codes of the weights are the offsets plus `shift`; a row has a scale, or all
        have the same."""
        low, high = partial_sums(*signed_sums(offsets, self.depth), self.span)
        if self.bias is not None:
            below, above = (self._bias(sign, len(offsets)) for sign in (-1.0, 1.0))
            below, above = (self._steps(end / (self.step * scales)) for end in (below, above))
            low, high = low - below, high + above
        found, pairs = excess(low, high, self.kind.bits), self.kind.pair_bits
        if self.bias is not None and not self.on_products:
            codes = self.largest_bias(len(offsets)) / (self.step * scales) * _ROUNDED
            found = np.maximum(found, (codes + 1) / self.bias_most)
        if pairs is None:
            return found
        return np.maximum(found, excess(*pair_sums(offsets + shift, self.span), pairs))

    def _steps(self, bias: Array) -> Array:
        """How many steps of the products a bias is at most: it and the scales are rounded."""
        return np.rint(bias) if self.on_products else np.where(bias > 0, bias * _ROUNDED + 1, 0)

    def _bias(self, sign: float, count: int) -> Array:
        """The largest bias on one side, by row; groups share rows."""
        found = np.zeros(count)
        if self.bias is not None:
            np.maximum.at(found, np.arange(len(self.bias)) % count, self.bias * sign)
        return found

    def largest_bias(self, count: int) -> Array:
        """The largest |bias| of each row."""
        return np.maximum(self._bias(-1.0, count), self._bias(1.0, count))


@dataclass(frozen=True)
class Choice:
    """How codes of weights are chosen: their storage, the type that scales are of, by least
    squared error (`search`) or just large enough, one for each row or one for all, and the
    sets that they are of."""

    storage: Storage
    expressed: str = "f32"
    search: bool = True
    per_row: bool = True
    allowed: Sequence[Scales] = ()

    @property
    def ties_rows(self) -> bool:
        """Whether the scales of rows depend on each other."""
        return any(each.shared_bits for each in self.allowed)

    def inside(self, rows: Array, scales: Array, positive: int) -> Array:
        """For each row the scale of the allowed sets beside the given one of least squared
        error; where a set ties the scales of all rows, those that are no smaller."""
        for each in self.allowed:
            if each.shared_bits:
                scales = np.array(each.together(scales.tolist()))
                continue
            near = [each.near(scale) for scale in scales.tolist()]
            below, above = (np.array([pair[end] for pair in near]) for end in (0, -1))
            smaller = _errors(rows, below, positive) < _errors(rows, above, positive)
            scales = np.where(smaller, below, above)
        return self._expressed(scales)

    def no_smaller(self, scales: Array) -> Array:
        """Scales of the allowed sets."""
        for each in self.allowed:
            scales = np.array(each.together(scales.tolist()))
        return self._expressed(scales)

    def _expressed(self, scales: Array) -> Array:
        return np.array([round_to_format(scale, self.expressed) for scale in scales.tolist()])


@dataclass(frozen=True)
class Weights:
    """Scales by row (one: of all), the offsets of the codes from their zero point, how many
    rows did not fit at first, and by which factor the largest scale grew for that."""

    scales: tuple[float, ...]
    codes: Codes
    enlarged: int = 0
    factor: float = 1.0


class Overflow(ValueError):
    """No scale keeps sums within the integers they are added up in."""


def symmetric_scales(rows: Array, positive: int, search: bool) -> Array:
    """One scale per row of a matrix, of least squared error (`search`) or just large
    enough, for codes up to `positive`; 0 for a row of zeros."""
    largest = np.abs(rows).max(axis=1, initial=0.0)
    whole = largest / positive
    if not search or not rows.size:
        return whole
    single = rows.astype(np.float32)
    best, least = np.ones(len(rows)), np.full(len(rows), np.inf)

    def tried(factors: Array) -> None:
        scale = np.maximum(whole * factors, np.finfo(np.float32).tiny).astype(np.float32)[:, None]
        codes = np.rint(single / scale)
        np.minimum(np.maximum(codes, np.float32(-positive), out=codes), positive, out=codes)
        codes *= scale
        codes -= single
        error = np.einsum("ij,ij->i", codes, codes, dtype=np.float64)
        better = error < least
        best[better], least[better] = factors[better], error[better]

    for step in range(_COARSE_STEPS):
        tried(np.full(len(rows), 1 - step * _COARSE * _SHRINK_STEP))
    near = best.copy()
    for step in range(1, _COARSE):
        for side in (step, -step):
            tried(np.clip(near + side * _SHRINK_STEP, 1 / 3, 1.0))
    return whole * best


def choose_weights(rows: Array, sums: Sums, choice: Choice) -> Weights:
    """The codes of each row (an output channel), such that neither bias nor accumulator
    overflows; Overflow when there are none."""
    storage, per_row = choice.storage, choice.per_row
    positive, shift = positive_codes(storage), zero_of(storage) + to_signed(storage)
    whole = rows if per_row else rows.reshape(1, -1)
    scales = symmetric_scales(whole, positive, choice.search)
    # A bias beside nothing but zeros decides the scale of the channel alone.
    alone = sums.largest_bias(len(rows)) / sums.step / 2.0**_BIAS_BITS
    alone = alone if per_row else alone.max(initial=0.0, keepdims=True)
    scales = np.where(scales > 0, scales, np.where(alone > 0, alone, 1.0))
    # Scales, and those of the products, are normal numbers of the expressed type.
    least = math.ldexp(1.0, FORMATS[choice.expressed].min_exponent)
    scales = np.maximum(scales, max(least, least / sums.step))
    scales = choice.inside(whole, scales, positive)
    return fit_scales(rows, scales, sums, choice, positive, shift)


def fit_scales(
    rows: Array, scales: Array, sums: Sums, choice: Choice, positive: int, shift: int | Codes
) -> Weights:
    """The codes of each row, up to `positive`, on these scales, or where sums do not fit on
    larger ones; Overflow where those would leave hardly a bit. For `shift` see `Sums.excess`."""
    per_row = choice.per_row
    most = FORMATS[choice.expressed].largest * min(1.0, 1 / sums.step)
    first, enlarged = scales, np.zeros(len(rows), np.bool_)
    for _ in range(_TRIES):
        codes = quantized(rows, scales, positive)
        beyond = sums.excess(codes, scales, shift)
        if (beyond <= 1).all():
            break
        if not enlarged.any():
            products = replace(sums, bias=None).excess(codes, scales, shift)
            if (products * _LEAST_CODE > positive_codes(choice.storage)).any():
                raise Overflow(f"hardly a bit of the weights fits sums in {sums.kind}")
        enlarged |= beyond > 1
        growth = beyond if per_row else beyond.max(keepdims=True)
        scales = np.where(growth > 1, scales * np.maximum(growth, _SLACK), scales)
        scales = choice.no_smaller(scales)
        if (scales > most).any():
            raise Overflow(f"sums of products do not fit {sums.kind} on any scale")
    else:
        raise Overflow(f"sums of products do not fit {sums.kind} on any scale")
    if enlarged.any() and sums.kind.pair_bits is not None:
        scales, codes = _clipped(rows, (scales, codes), enlarged, sums, choice, shift)
    factor = float((scales / first).max(initial=1.0))
    return Weights(tuple(map(float, scales)), codes, int(enlarged.sum()), factor)


def _clipped(
    rows: Array,
    found: tuple[Array, Codes],
    enlarged: NDArray[np.bool_],
    sums: Sums,
    choice: Choice,
    shift: int | Codes,
) -> tuple[Array, Codes]:
    """Scales and codes, with the largest codes of rows that were enlarged clipped such that any
    two fit a pair, on a scale of its own, where that is nearer to the weights and fits."""
    scales, codes = found
    assert sums.kind.pair_bits is not None
    half = (1 << (sums.kind.pair_bits - 1)) - 1
    most = half // (2 * max(sums.span.highest, 1)) - int(np.abs(shift).max())
    if most < _LEAST_CODE or choice.ties_rows:
        return found
    whole = rows if choice.per_row else rows.reshape(1, -1)
    tried = np.maximum(symmetric_scales(whole, most, choice.search), np.finfo(np.float32).tiny)
    tried = choice.inside(whole, tried, most)
    clipped = quantized(rows, tried, most)

    def error(codes: Codes, scales: Array) -> Array:
        each = np.square(codes * scales[:, None] - rows).sum(axis=1)
        return each if choice.per_row else each.sum(keepdims=True)

    fits = sums.excess(clipped, tried, shift) <= 1
    fits = fits & enlarged if choice.per_row else fits.all(keepdims=True)
    better = fits & (error(clipped, tried) < error(codes, scales))
    return np.where(better, tried, scales), np.where(better[:, None], clipped, codes)


def _errors(rows: Array, scales: Array, positive: int) -> Array:
    """The squared error of each row."""
    codes = np.clip(np.rint(rows / scales[:, None]), -positive, positive)
    return np.square(codes * scales[:, None] - rows).sum(axis=1)


def quantized(rows: Array, scales: Array, positive: int) -> Codes:
    """The offsets of the codes of each row from their zero point, up to `positive`."""
    codes = np.rint(rows / scales[:, None])
    return np.clip(codes, -positive, positive).astype(np.int64)


def positive_codes(storage: Storage) -> int:
    """The largest magnitude that codes have on both sides of their zero."""
    return (storage.max - storage.min) // 2


def zero_of(storage: Storage) -> int:
    """The zero point of weights: 0, or in the middle of unsigned codes."""
    return 0 if storage.signed else (storage.min + storage.max + 1) // 2

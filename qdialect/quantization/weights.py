"""Qparams of constants that contractions multiply with, and of their bias; pure numbers.

Weights are symmetric: with a zero point of their own, every product would need the sum of
the other operand.  Scales are chosen for each channel by least squared error,

    min over s of sum (w - s clamp(round(w / s)))^2

among scales from the one that just holds the largest weight down to a third of it: some far
apart, then those beside the best.

A bias is i32 on the scale s_x s_w, and nothing may overflow on the way: for every channel

    sum |q_w| * max |q_x - z_x| + |q_b| < 2^31

A scale of a channel for which that does not hold is made larger until it does.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from qdialect.numerics.float_text import FORMATS
from qdialect.qparams import Storage
from qdialect.qparams.domains import Scales

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

_LIMIT = 2.0**31 - 1
_SHRINK_STEP, _COARSE, _COARSE_STEPS = 1 / 60, 4, 11
_TRIES = 40
_BIAS_BITS = 24


@dataclass(frozen=True)
class Sums:
    """What a contraction adds up, for the overflow proof and the bias.

    `step` is the scale of the runtime operand, `reach` its max |q - z|; `bias` is one
    number per channel, or None.
    """

    step: float
    reach: int
    bias: Array | None = None


@dataclass(frozen=True)
class Weights:
    """Scales by channel (one: per tensor), and how many were enlarged against overflow."""

    scales: tuple[float, ...]
    enlarged: int = 0


class Overflow(ValueError):
    """No scale keeps the accumulator within 32 bits."""


def symmetric_scales(rows: Array, storage: Storage, search: bool) -> Array:
    """One scale per row of a matrix, of least squared error (`search`) or just large
    enough; 0 for a row of zeros."""
    positive = _positive(storage)
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


def weight_scales(
    rows: Array,
    storage: Storage,
    sums: Sums,
    search: bool,
    expressed: str,
    allowed: Sequence[Scales] = (),
) -> Weights:
    """The scale of each row (an output channel; one row: per tensor), such that neither
    bias nor accumulator overflows, and all are of the `allowed` sets; Overflow when there are
    none."""
    scales = symmetric_scales(rows, storage, search)
    bias = np.zeros(1) if sums.bias is None else np.abs(sums.bias)
    highest = np.zeros(len(rows))
    # A bias beside nothing but zeros decides the scale of the channel alone.
    np.maximum.at(highest, np.arange(len(bias)) % len(rows), bias)
    alone = highest / sums.step / 2.0**_BIAS_BITS
    scales = np.where(scales > 0, scales, np.where(alone > 0, alone, 1.0))
    # Scales, and those of the products, are normal numbers of the expressed type.
    least = math.ldexp(1.0, FORMATS[expressed].min_exponent)
    scales = np.maximum(scales, max(least, least / sums.step))
    most = FORMATS[expressed].largest * min(1.0, 1 / sums.step)
    enlarged = np.zeros(len(rows), np.bool_)
    positive = _positive(storage)
    scales = _nearest(rows, scales, positive, allowed)
    for _ in range(_TRIES):
        codes = np.clip(np.rint(rows / scales[:, None]), -positive, positive)
        total = np.abs(codes).sum(axis=1) * sums.reach + highest / (sums.step * scales) + 1
        over = total > _LIMIT
        if not over.any():
            return Weights(tuple(map(float, scales)), int(enlarged.sum()))
        enlarged |= over
        scales = np.where(over, scales * np.maximum(total / _LIMIT * 1.001, 1.001), scales)
        for each in allowed:
            scales = np.array(each.together(scales.tolist()))
        if (scales > most).any():
            break
    raise Overflow("sums of products do not fit 32 bits on any scale")


def _nearest(rows: Array, scales: Array, positive: int, allowed: Sequence[Scales]) -> Array:
    """For each row the scale of the allowed sets beside the given one of least squared error;
    where a set ties the scales of all rows, those that are no smaller."""
    for each in allowed:
        if each.shared_bits:
            scales = np.array(each.together(scales.tolist()))
            continue
        near = [each.near(scale) for scale in scales.tolist()]
        below, above = (np.array([pair[end] for pair in near]) for end in (0, -1))
        smaller = _errors(rows, below, positive) < _errors(rows, above, positive)
        scales = np.where(smaller, below, above)
    return scales


def _errors(rows: Array, scales: Array, positive: int) -> Array:
    """The squared error of each row."""
    codes = np.clip(np.rint(rows / scales[:, None]), -positive, positive)
    return np.square(codes * scales[:, None] - rows).sum(axis=1)


def quantized(rows: Array, scales: Sequence[float], storage: Storage) -> NDArray[np.int64]:
    """The codes of each row."""
    positive = _positive(storage)
    codes = np.rint(rows / np.asarray(scales)[:, None])
    return np.clip(codes, -positive, positive).astype(np.int64)


def _positive(storage: Storage) -> int:
    """The largest magnitude that codes have on both sides of their zero."""
    return (storage.max - storage.min) // 2

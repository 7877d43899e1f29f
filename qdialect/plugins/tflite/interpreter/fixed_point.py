"""How LiteRT multiplies integers by real numbers: by a multiplier of 31 bits and a shift.

`quantize_multiplier(M)` gives (q, e) with M = q * 2^(e - 31), q in [2^30, 2^31), and 0 below 2^-31.
With l = max(e, 0), r = max(-e, 0), p = a * 2^l * q and h = (p + 2^30) >> 31, the rounded doubled
high half of the product (ties up, of either sign):

    gemmlowp   RDPOT(h, r)                h / 2^r, half away from zero: two roundings
    ruy        (h + 2^(r-1)) >> r         h / 2^r, half up: two roundings
    single     (p + 2^(30+r)) >> (31+r)   one rounding, half up

All take integers as int64 and give int64; e is at most 30.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]
Multiply = Callable[[Integers, Integers, Integers], Integers]
"""A product of integers and (q, e), rounded in one of the ways of this file."""


def quantize_multiplier(ratio: NDArray[np.float64] | float) -> tuple[Integers, Integers]:
    """(q, e) of real numbers, elementwise."""
    fraction, exponent = np.frexp(np.asarray(ratio, np.float64))
    q = np.floor(fraction * 2.0**31 + 0.5).astype(np.int64)
    e = exponent.astype(np.int64)
    over = q == 1 << 31
    q, e = np.where(over, q >> 1, q), np.where(over, e + 1, e)
    flushed = (e < -31) | (q == 0)
    return np.where(flushed, 0, q), np.where(flushed, 0, e)


def gemmlowp(a: Integers, q: Integers, e: Integers) -> Integers:
    """Two roundings: half up, then half away from zero."""
    h, r = _high(a, q, e)
    half = (np.int64(1) << r) >> 1
    return (h + half - ((h < 0) & (r > 0))) >> r


def ruy(a: Integers, q: Integers, e: Integers) -> Integers:
    """Two roundings, both half up."""
    h, r = _high(a, q, e)
    return (h + ((np.int64(1) << r) >> 1)) >> r


def single(a: Integers, q: Integers, e: Integers) -> Integers:
    """One rounding, half up."""
    product, r = _product(a, q, e)
    return (product + (np.int64(1) << (30 + r))) >> (31 + r)


def _high(a: Integers, q: Integers, e: Integers) -> tuple[Integers, Integers]:
    product, r = _product(a, q, e)
    return (product + (1 << 30)) >> 31, r


def _product(a: Integers, q: Integers, e: Integers) -> tuple[Integers, Integers]:
    """The product before shifts to the right, and the shift beyond 31."""
    left = np.maximum(e, 0)
    return wrapped(a << left) * q, np.maximum(-e, 0)


def wrapped(a: Integers) -> Integers:
    """Integers modulo 2^32, as int32 holds them."""
    return a.astype(np.int32).astype(np.int64)


def in_floats(a: Integers, factor: NDArray[np.float32] | np.float32) -> Integers:
    """Integers as float32 times float32 factors, half to even: the kernels of XNNPACK."""
    product = a.astype(np.float32) * factor
    # What saturates any code anyway saturates here, before floats become too large for integers.
    return np.rint(np.clip(product, -(2.0**30), 2.0**30)).astype(np.int64)


def half_away(values: NDArray[Any]) -> Integers:
    """Floats rounded half away from zero, as C's round()."""
    limited = np.clip(values, -(2.0**52), 2.0**52)
    whole = np.trunc(limited)
    return (whole + np.copysign(np.abs(limited - whole) >= 0.5, limited)).astype(np.int64)

"""Floats of 4, 6 and 8 bits: what each pattern of bits means, and the pattern nearest to a number.

| format | bits (sign, exponent, mantissa) | bias | not numbers |
|---|---|---|---|
| f4E2M1FN, f6E2M3FN, f6E3M2FN | 1, 2 or 3, 1 to 3 | 1, 1, 3 | none |
| f8E3M4, f8E4M3, f8E5M2 | 1, 3 to 5, 4 to 2 | 3, 7, 15 | infinities and NaN |
| f8E4M3FN | 1, 4, 3 | 7 | NaN |
| f8E4M3FNUZ, f8E5M2FNUZ, f8E4M3B11FNUZ | 1, 4 or 5, 3 or 2 | 8, 16, 11 | NaN in place of -0 |
| f8E8M0FNU | 0, 8, 0 | 127 | NaN |

Nearest is to even. What is too large becomes infinite, else NaN, and saturates in a format
without either.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

_FORMATS = {
    "f4E2M1FN": (2, 1, 1, "finite"),
    "f6E2M3FN": (2, 3, 1, "finite"),
    "f6E3M2FN": (3, 2, 3, "finite"),
    "f8E3M4": (3, 4, 3, "ieee"),
    "f8E4M3": (4, 3, 7, "ieee"),
    "f8E5M2": (5, 2, 15, "ieee"),
    "f8E4M3FN": (4, 3, 7, "nan"),
    "f8E4M3FNUZ": (4, 3, 8, "no -0"),
    "f8E5M2FNUZ": (5, 2, 16, "no -0"),
    "f8E4M3B11FNUZ": (4, 3, 11, "no -0"),
}
"""Bits of exponent and mantissa, bias, and what is not a number."""

_POWERS = "f8E8M0FNU"


def is_small_float(name: str) -> bool:
    """Whether runtime values are the bits of a float of at most 8 bits."""
    return name in _FORMATS or name == _POWERS


@cache
def meanings(name: str) -> NDArray[np.float64]:
    """What each pattern of bits means."""
    if name == _POWERS:
        powers = np.ldexp(np.ones(256), np.arange(256) - 127)
        powers[255] = np.nan
        return powers
    exponent_bits, mantissa_bits, bias, kind = _FORMATS[name]
    bits = np.arange(1 << (1 + exponent_bits + mantissa_bits))
    top = (1 << exponent_bits) - 1
    field, mantissa = bits >> mantissa_bits & top, bits & (1 << mantissa_bits) - 1
    significand = mantissa + np.where(field > 0, 1 << mantissa_bits, 0)
    values = np.ldexp(significand.astype(np.float64), np.maximum(field, 1) - bias - mantissa_bits)
    if kind == "ieee":
        values = np.where(field == top, np.where(mantissa > 0, np.nan, np.inf), values)
    elif kind == "nan":
        values = np.where((field == top) & (mantissa == mantissa.max()), np.nan, values)
    values = np.where(bits >> (exponent_bits + mantissa_bits) > 0, -values, values)
    if kind == "no -0":
        values[1 << (exponent_bits + mantissa_bits)] = np.nan
    return values


def width_of_float(name: str) -> int:
    """The bits of a small float."""
    return int(meanings(name).size).bit_length() - 1


def decoded(bits: Array, name: str) -> NDArray[np.float32]:
    """Patterns as the floats they are; f32 has all of them."""
    return meanings(name)[bits.astype(np.int64)].astype(np.float32)


def encoded(values: Array, name: str) -> NDArray[np.uint8]:
    """The patterns nearest to floats of any precision, ties to the even pattern."""
    meaning = meanings(name)
    half = meaning.size if name == _POWERS else meaning.size // 2
    codes = np.flatnonzero(np.isfinite(meaning[:half]))
    levels = meaning[codes]
    magnitude = np.abs(values.astype(np.float64))
    middles = (levels[:-1] + levels[1:]) / 2
    place = np.searchsorted(middles, magnitude)
    safe = np.minimum(place, middles.size - 1)
    tie = (magnitude == middles[safe]) & (place < middles.size)
    place = place + (tie & (codes[np.minimum(place, codes.size - 1)] % 2 == 1))
    result = codes[np.minimum(place, codes.size - 1)]
    step = levels[-1] - levels[-2]
    beyond = magnitude >= levels[-1] + step / 2
    infinite = np.flatnonzero(np.isinf(meaning[:half]))
    undefined = np.flatnonzero(np.isnan(meaning[:half]))
    if not undefined.size:
        undefined = np.flatnonzero(np.isnan(meaning))
    if infinite.size:
        result = np.where(beyond, infinite[0], result)
    elif undefined.size:
        result = np.where(beyond, undefined[0], result)
    negative = np.signbit(values) & (half < meaning.size)
    if name.endswith("UZ"):
        negative &= (result != 0) & ~beyond
    result = result + np.where(negative, half, 0)
    if undefined.size:
        # The quiet one.
        result = np.where(np.isnan(values), undefined[undefined.size // 2], result)
    return result.astype(np.uint8)

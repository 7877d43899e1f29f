"""Exponentials, reciprocals, tanh and the logistic function in fixed point, as gemmlowp has them.

Arrays are int64 that hold int16 or int32 numbers (`width`). A number with n bits before the point
has `width - 1 - n` after it; products keep the upper half, rounded half up.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]

_POWERS = (1672461947, 1302514674, 790015084, 290630308, 39332535, 720401, 242)
"""exp(-1/4), exp(-1/2), exp(-1), ... exp(-16), with 31 bits after the point."""


def high_product(a: Any, b: Any, width: int = 32) -> Integers:
    """a * b / 2^(width - 1), half up; -1 * -1 saturates."""
    product = np.asarray(a, np.int64) * np.asarray(b, np.int64)
    return np.minimum((product + (1 << (width - 2))) >> (width - 1), (1 << (width - 1)) - 1)


def divided(values: Integers, places: Any) -> Integers:
    """values / 2^places, half away from zero."""
    down = np.asarray(places, np.int64)
    half: Integers = np.left_shift(np.ones_like(down), down) >> 1
    return np.where(values >= 0, (values + half) >> down, -((half - values) >> down))


def raised(values: Integers, places: int, width: int = 32) -> Integers:
    """values * 2^places, saturating."""
    return saturated(values << places, width)


def saturated(values: Integers, width: int) -> Integers:
    """Integers clamped to a width."""
    return np.clip(values, -(1 << (width - 1)), (1 << (width - 1)) - 1)


def wrapped(values: Integers, width: int) -> Integers:
    """The lowest bits of integers, with their sign."""
    half = 1 << (width - 1)
    return ((values + half) & ((1 << width) - 1)) - half


def bits(values: Integers) -> Integers:
    """How many bits numbers from 1 to 2^31 have."""
    return np.frexp(values.astype(np.float64))[1].astype(np.int64)


def _constant(value: int, width: int) -> int:
    return int(divided(np.asarray(value), 32 - width))


def exponential(x: Integers, integer_bits: int, width: int = 32) -> Integers:
    """exp(x) with all bits after the point, of x <= 0 with `integer_bits` before it: a polynomial
    in (-1/4, 0), times a power for each other bit."""
    quarter = 1 << (width - 3 - integer_bits)
    part = (x & (quarter - 1)) - quarter
    near = (part << integer_bits) + (1 << (width - 4))
    square = high_product(near, near, width)
    fourth = divided(high_product(square, square, width), 2)
    cube = high_product(square, near, width)
    third = high_product(fourth + cube, _constant(715827883, width), width)
    eighth = _constant(1895147668, width)
    found = eighth + high_product(eighth, near + divided(third + square, 1), width)
    found = saturated(found, width)
    rest = part - x
    for place, power in enumerate(_POWERS[: integer_bits + 2]):
        smaller = high_product(found, _constant(power, width), width)
        found = np.where(rest & (quarter << place), smaller, found)
    return np.where(x == 0, (1 << (width - 1)) - 1, found)


def _inverse(x: Integers, width: int) -> Integers:
    """2 / (1 + x), of 0 <= x < 1, with 2 bits before the point: three steps of Newton's method."""
    half = (x + (1 << (width - 1))) >> 1
    found = _constant(1515870810, width) + high_product(half, _constant(-1010580540, width), width)
    for _ in range(3):
        rest = (1 << (width - 3)) - high_product(half, found, width)
        found = wrapped(found + raised(high_product(found, rest, width), 2, width), width)
    return found


def reciprocal(x: Integers, width: int = 32) -> Integers:
    """1 / (1 + x), of 0 <= x < 1."""
    return raised(_inverse(x, width), 1, width)


def logistic(x: Integers, integer_bits: int, width: int) -> Integers:
    """The logistic function of x with `integer_bits` before the point."""
    above = reciprocal(exponential(-np.abs(x), integer_bits, width), width)
    found = np.where(x > 0, above, (1 << (width - 1)) - 1 - above)
    return np.where(x == 0, 1 << (width - 2), found)


def tanh(x: Integers, integer_bits: int, width: int) -> Integers:
    """The hyperbolic tangent of x with `integer_bits` before the point."""
    power = exponential(-np.abs(x), integer_bits + 1, width)
    above = raised(_inverse(power, width) - (1 << (width - 3)), 2, width)
    return np.where(x == 0, 0, np.where(x > 0, above, -above))

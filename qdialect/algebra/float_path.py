"""Requantizing through floats: what quantize(dequantize(q)) gives, code by code.

In the expressed type, each `fl` one rounding to nearest even:

    x  = fl(fl(q - z) * fl(s))          dequantize
    q' = clamp(R(fl(x / fl(s'))) + z')  quantize

PyTorch multiplies by what it divides by: with the rounding `reciprocal` it is

    q' = clamp(R(fl(x * fl(1 / s'))) + z')

with 1 / s' a double first: what an f32 of 1 / fl(s') is where s' is an f32, and what PyTorch
computes where it is a double. f16 and bf16 values are computed in f32 and x is stored in the
expressed type.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from qdialect.algebra.float_text import FORMATS, round_to_format
from qdialect.algebra.lazy_numpy import np
from qdialect.algebra.requantize import QuantGrid, round_floats
from qdialect.algebra.rounding import Rounding

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qdialect.algebra.requantize import Codes

    Floats = NDArray[Any]

COMPUTED_IN = {"f64": "float64", "f32": "float32", "f16": "float32", "bf16": "float32"}
"""Expressed types, and the numpy type that is computed in."""


def requantize_floats(
    codes: Codes, a: QuantGrid, b: QuantGrid, expressed: str, rounding: Rounding
) -> Codes:
    """Codes of `a` as codes of `b` through floats of type `expressed`."""
    return codes_of_floats(dequantize_codes(codes, a, expressed), b, expressed, rounding)


def dequantize_codes(codes: NDArray[Any], a: QuantGrid, expressed: str) -> Floats:
    """Codes of `a` as floats of type `expressed`, held in the type that is computed in."""
    kind = np.dtype(COMPUTED_IN[expressed])
    with np.errstate(all="ignore"):
        return stored((codes - a.zero).astype(kind) * kind.type(a.scale), expressed)


def codes_of_floats(x: Floats, b: QuantGrid, expressed: str, rounding: Rounding) -> Codes:
    """Floats of type `expressed` as codes of `b`."""
    kind = np.dtype(COMPUTED_IN[expressed])
    return codes_by(x.astype(kind), b.scale, b.zero, (b.low, b.high), rounding)


def codes_by(
    x: Floats, scales: Any, zeros: Any, bounds: tuple[int, int], rounding: Rounding
) -> Codes:
    """Floats as codes of scales, which are doubles, and zero points; computed in the type of x."""
    quotient = quotients(x, scales, rounding)
    low, high = (np.asarray(bound - zeros, np.float64) for bound in bounds)
    # Infinite ones have no fraction; beyond the bounds it does not matter.
    rounded = np.clip(round_floats(np.clip(quotient, low - 1, high + 1), rounding), low, high)
    steps = np.where(np.isnan(rounded), low, rounded).astype(np.int64)
    return steps + zeros


def quotients(x: Floats, scales: Any, rounding: Rounding) -> NDArray[np.float64]:
    """What of floats is rounded, by scales that are doubles: the quotient in the type of x, or
    the product with the reciprocal, which is rounded to that type once."""
    with np.errstate(all="ignore"):
        if rounding is Rounding.RECIPROCAL:
            return np.asarray(x * reciprocals(scales, x.dtype), np.float64)
        return np.asarray(x / np.asarray(scales, x.dtype), np.float64)


def reciprocals(scales: Any, kind: np.dtype[Any]) -> Floats:
    """1 / s of doubles, rounded to `kind`."""
    with np.errstate(all="ignore"):
        return (1.0 / np.asarray(scales, np.float64)).astype(kind)


def stored(x: Floats, expressed: str) -> Floats:
    """`x`, in the type that is computed in, rounded to `expressed`."""
    if expressed == "f16":
        return x.astype(np.float16).astype(np.float32)
    if expressed == "bf16":
        bits = x.view(np.uint32)
        even = (bits + np.uint32(0x7FFF) + ((bits >> 16) & 1)) & np.uint32(0xFFFF0000)
        return np.where(np.isnan(x), x, even.view(np.float32))
    return x


def tie_width(expressed: str) -> float:
    """How far eight roundings in `expressed` move a number of size 1."""
    return 8 / (1 << FORMATS[expressed if expressed in COMPUTED_IN else "bf16"].precision)


def near_tie(
    steps: Sequence[Fraction],
    b: QuantGrid,
    expressed: str,
    computed: Sequence[Fraction] = (),
) -> bool:
    """Whether floats may put `steps[0]`, a real number of steps of `b`, on the other side
    of a tie.

    `steps` are the number and the terms it is the sum of: eight roundings move it by at
    most 8 * u * their magnitude.  Not if all numbers that are `computed` on the way are
    floats, so that nothing is rounded.
    """
    value = steps[0]
    if not b.low - b.zero - 1 <= value <= b.high - b.zero + 1:
        return False
    distance = abs(value - math.floor(value) - Fraction(1, 2))
    if distance > Fraction(tie_width(expressed)) * max(map(abs, steps)):
        return False
    return not computed or any(round_to_format(float(v), expressed) != v for v in computed)

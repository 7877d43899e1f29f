"""What LiteRT's kernels make of scales: multipliers, shifts and bounds, without any tensor.

A file has scales in float32, which each engine (`litert-ref`, `litert-opt`, `litert-xnn`) turns
into integers of its own. `rescale_of` says how one requantizes codes:

    ref  (q - z) * m * 2^-k, gemmlowp     m in [2^30, 2^31), m * 2^-k the nearest to s_x / s_y
    opt  the same, ruy                    in whole vectors of 16 elements; the rest is as ref
    xnn  (q - z) * m * 2^-8, half up      m = rint(256 * s_x / s_y), for ratios in [2^-8, 2^7]

Bounds of fused activations are codes: `activation_bounds`. Float32 is what Python's floats are
rounded to by `single`.
"""

from __future__ import annotations

import math
import struct
from typing import Literal

from qdialect.algebra.fixed_point import MAX_SHIFT, FixedPoint
from qdialect.algebra.rounding import Rounding

Engine = Literal["litert-ref", "litert-opt", "litert-xnn"]
ENGINES: tuple[Engine, ...] = ("litert-ref", "litert-opt", "litert-xnn")

XNN_RATIOS = (2.0**-8, 2.0**7)
"""The ratios s_x / s_y (float32) by which XNNPACK requantizes codes, both ends included."""
XNN_SUM_RATIOS = (2.0**-10, 2.0**8)
"""The ratios of scales of operands and results of XNNPACK's sums, the upper end excluded."""
XNN_PRODUCT_RATIOS = (2.0**-16, 2.0**8)
"""The ratios s_a * s_b / s_y of XNNPACK's products, the upper end excluded."""

VECTOR = 16
"""Elements that the optimized kernels requantize at once; what is left of them rounds as ref."""

_SINGLE = struct.Struct("f")
_HIGH = 2**31


def single(value: float) -> float:
    """The nearest float32; an infinity beyond them."""
    try:
        return _SINGLE.unpack(_SINGLE.pack(value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)


def quantize_multiplier(ratio: float) -> tuple[int, int]:
    """(q, e) with ratio about q * 2^(e - 31), q in [2^30, 2^31); (0, 0) below 2^-32.

    ratio is a double, not negative; q is rounded half up.
    """
    if ratio == 0:
        return 0, 0
    fraction, exponent = math.frexp(ratio)
    q = math.floor(math.ldexp(fraction, 31) + 0.5)
    if q == _HIGH:
        q, exponent = q >> 1, exponent + 1
    return (0, 0) if exponent < -31 else (q, exponent)


def fixed_point(ratio: float) -> FixedPoint:
    """`quantize_multiplier` as a multiplier and a shift, those of `quant.rescale`.

    ValueError where LiteRT shifts to the left, by more than 31 bits in all.
    """
    q, e = quantize_multiplier(ratio)
    if e > 31:
        raise ValueError(f"a ratio of {ratio:g} needs a shift to the left")
    return FixedPoint(q, min(31 - e, MAX_SHIFT))


def rescale_of(
    engine: Engine, s_x: float, s_y: float, elements: int | None = None
) -> tuple[FixedPoint, Rounding] | None:
    """How QUANTIZE from codes to codes rounds in `engine`, and RELU with other qparams.

    `elements` is the size of the tensor, None where only a run tells: where the optimized
    kernels leave a rest of their vectors, which round otherwise, there is one answer only if
    both do the same on codes of 8 bits; else None. XNNPACK outside its ratios is `litert-opt`.
    """
    if engine == "litert-xnn":
        if not in_xnn_range(s_x, s_y):
            return rescale_of("litert-opt", s_x, s_y, elements)
        multiplier = round(256 * single(single(s_x) / single(s_y)))
        return FixedPoint(multiplier, 8), Rounding.HALF_UP
    pair = fixed_point(single(s_x) / single(s_y))
    if engine == "litert-ref":
        return pair, Rounding.GEMMLOWP
    if elements is not None and elements % VECTOR == 0:
        return pair, Rounding.RUY
    if elements is not None and elements < VECTOR:
        return pair, Rounding.GEMMLOWP
    return (pair, Rounding.RUY) if _same_on_bytes(pair) else None


def _same_on_bytes(pair: FixedPoint) -> bool:
    """Whether gemmlowp and ruy are the same on all differences of codes of 8 bits: they differ in
    ties of negative numbers only."""
    m, k = pair
    if k <= 31:
        return True
    half = 1 << (k - 32)
    highs = ((n * m + (1 << 30)) >> 31 for n in range(-255, 0))
    return all((h + half) % (2 * half) for h in highs)


def in_xnn_range(s_x: float, s_y: float) -> bool:
    """Whether XNNPACK requantizes by this ratio of scales."""
    low, high = XNN_RATIOS
    return low <= single(single(s_x) / single(s_y)) <= high


Activation = Literal["NONE", "RELU", "RELU6", "RELU_N1_TO_1", "RELU_0_TO_1"]

_ACTIVATIONS: dict[str, tuple[float | None, float | None]] = {
    "NONE": (None, None),
    "RELU": (0.0, None),
    "RELU6": (0.0, 6.0),
    "RELU_N1_TO_1": (-1.0, 1.0),
    "RELU_0_TO_1": (0.0, 1.0),
}


def activation_bounds(
    engine: Engine, activation: str, scale: float, zero: int, low: int, high: int
) -> tuple[int, int]:
    """The codes within which a fused activation keeps results that were rounded before; `low` and
    `high` are the bounds of the type. ValueError for an activation that codes do not have.

    ref and opt round bound / scale half away from zero; XNNPACK bound / scale + zero half to even.
    """
    if activation not in _ACTIVATIONS:
        raise ValueError(f"codes have no activation {activation}")
    least, most = _ACTIVATIONS[activation]

    def code(bound: float) -> int:
        steps = single(bound / single(scale))
        if engine == "litert-xnn":
            return round(single(steps + zero))
        return zero + int(math.copysign(math.floor(abs(steps) + 0.5), steps))

    first = low if least is None else max(low, code(least))
    last = high if most is None else min(high, code(most))
    return first, last


def product_ratio(s_x: float, s_w: float, s_y: float) -> float:
    """M32: s_x * s_w / s_y in float32, evaluated from the left."""
    return single(single(single(s_x) * single(s_w)) / single(s_y))

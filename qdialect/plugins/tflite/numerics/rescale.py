"""What LiteRT's integer kernels compute, code by code, and whether that is what an op means.

    QUANTIZE   m = rint(256 s / t);  ((q - z) m + 128) >> 8                         XNNPACK
    MUL        rint(fl(fl((q - z) (r - w)) M)),  M = fl(fl(s t) / u)                XNNPACK
    MEAN, SUM  rint(fl(fl(S i) + fl(w - fl(fl(n z) i)))),  S the sum of n codes       XNNPACK
               i = fl(fl(s / t) fl(1 / n)) of a mean, fl(s / t) of a sum
    CONCATENATION  round(fl(q m) - fl(z m)),  m = fl(s fl(1 / t))            u8, both engines
    ADD        (m (q - z) + n (r - w) + 2^(k-1)) >> k,  m = rint(2^k s / u), ...    XNNPACK

each plus the zero point w of the result (which means and sums have inside), within its storage
(measured, ai-edge-litert 2.3). k is 20 less the exponent of the larger ratio. All of it is decided
on tables of all codes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from qdialect.algebra.lazy_numpy import np
from qdialect.algebra.requantize import QuantGrid

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Codes = NDArray[np.int64]

_ADD_BITS = 20
_SMALLEST_ADD, _LARGEST_ADD = 2.0**-10, 2.0**8
_SMALLEST_QUANTIZE, _LARGEST_QUANTIZE = 2.0**-8, 2.0**7
TIE = 2.0**-18
"""So close to a tie, in steps of a result, floats of 32 bits may fall on either side."""
NEAR_TIE = 2.0**-14
"""The same of products of numbers of 8 bits, which floats round three times."""
RARE = 1e-4
"""Share of codes that ties may be of, if they are accidents."""
_MOST_SUMS = 1 << 20
_BEYOND_F32 = np.errstate(over="ignore", invalid="ignore")
"""Scales beyond f32 give wrong codes without a warning: callers compare codes with those meant."""


def all_codes(a: QuantGrid) -> Codes:
    """The codes of a grid in order."""
    return np.arange(a.low, a.high + 1, dtype=np.int64)


def _cut(steps: Any, b: QuantGrid) -> Codes:
    return np.clip(np.asarray(steps).astype(np.int64) + b.zero, b.low, b.high)


@_BEYOND_F32
def quantized_again(a: QuantGrid, b: QuantGrid) -> Codes | None:
    """All codes of `a` by a QUANTIZE to `b`; None where XNNPACK does not take the ratio."""
    ratio = np.float32(a.scale) / np.float32(b.scale)
    if not _SMALLEST_QUANTIZE <= ratio <= _LARGEST_QUANTIZE:
        return None
    multiplier = int(np.rint(256 * np.float64(ratio)))
    return _cut(((all_codes(a) - a.zero) * multiplier + 128) >> 8, b)


@_BEYOND_F32
def concatenated(a: QuantGrid, b: QuantGrid) -> Codes:
    """All u8 codes of `a` by a CONCATENATION to `b`, halves away from zero."""
    scale = np.float32(a.scale) * (np.float32(1) / np.float32(b.scale))
    bias = np.float32(-a.zero) * scale
    steps = (all_codes(a).astype(np.float32) * scale + bias).astype(np.float64)
    return _cut(np.copysign(np.floor(np.abs(steps) + 0.5), steps), b)


@_BEYOND_F32
def multiplied(a: QuantGrid, factor: float, b: QuantGrid) -> Codes:
    """All codes of `a` by a MUL with one code of 1 step, of scale `factor`, to `b`."""
    scale = np.float32(np.float32(a.scale) * np.float32(factor)) / np.float32(b.scale)
    return _cut(np.rint((all_codes(a) - a.zero).astype(np.float32) * np.float32(scale)), b)


@_BEYOND_F32
def added(a: QuantGrid, b: QuantGrid, c: QuantGrid, sign: int = 1) -> Codes | None:
    """The codes of the sum (difference: `sign` -1) of all pairs, [codes of a, codes of b]; None
    where XNNPACK does not take the ratios."""
    ratios = [np.float32(x.scale) / np.float32(c.scale) for x in (a, b)]
    if not all(_SMALLEST_ADD <= r < _LARGEST_ADD for r in ratios):
        return None
    _, exponent = np.frexp(max(ratios))
    shift = _ADD_BITS - (int(exponent) - 1)
    first, second = (int(np.rint(np.ldexp(np.float64(r), shift))) for r in ratios)
    left = (all_codes(a) - a.zero)[:, None] * first
    right = (all_codes(b) - b.zero)[None, :] * second * sign
    return _cut((left + right + (1 << (shift - 1))) >> shift, c)


def multiplied_pairs(a: QuantGrid, b: QuantGrid, c: QuantGrid) -> Codes:
    """The codes of the product of all pairs, [codes of a, codes of b]."""
    scale = np.float32(a.scale) * np.float32(b.scale) / np.float32(c.scale)
    product = (all_codes(a) - a.zero)[:, None] * (all_codes(b) - b.zero)[None, :]
    return _cut(np.rint(product.astype(np.float32) * scale), c)


def products(a: QuantGrid, b: QuantGrid, floats: bool) -> Any:
    """The exact products of all pairs, in doubles; in `floats`, of what f32 dequantizes."""
    kind = np.float32 if floats else np.float64
    left = (all_codes(a) - a.zero).astype(kind) * kind(a.scale)
    right = (all_codes(b) - b.zero).astype(kind) * kind(b.scale)
    return left[:, None] * right[None, :]


def sums(a: QuantGrid, b: QuantGrid, sign: int, floats: bool) -> Any:
    """The exact sums of all pairs, in doubles; in `floats`, as f32 adds what it dequantizes."""
    kind = np.float32 if floats else np.float64
    left = (all_codes(a) - a.zero).astype(kind) * kind(a.scale)
    right = (all_codes(b) - b.zero).astype(kind) * kind(b.scale)
    return left[:, None] + sign * right[None, :]


def nearest(values: Any, c: QuantGrid) -> tuple[Codes, Any]:
    """Real numbers as codes, halves to even, and how far from a tie each is, in steps. Floats are
    divided as floats are."""
    kind = values.dtype.type
    steps = (values / kind(c.scale)).astype(np.float64)
    distance = np.abs(steps - np.floor(steps) - 0.5)
    outside = (steps < c.low - c.zero - 1) | (steps > c.high - c.zero + 1)
    return _cut(np.rint(np.clip(steps, -(2.0**40), 2.0**40)), c), np.where(outside, 1.0, distance)


def agrees(made: Codes | None, meant: tuple[Codes, Any], *, ties: bool, near: float = TIE) -> bool:
    """Whether a kernel gives what is meant for all codes; with `ties`, but where that is as `near`
    to a tie."""
    if made is None:
        return False
    codes, distance = meant
    differing = made != codes
    if not differing.any():
        return True
    # Scales of which many sums are ties are no accident of floats.
    rare = differing.mean() <= RARE
    return ties and bool(rare and (distance[differing] <= near).all())


def reduced(a: QuantGrid, b: QuantGrid, count: int, mean: bool) -> tuple[Codes, tuple[Codes, Any]]:
    """What XNNPACK gives for sums of `count` codes of `a`, as a mean or as they are, and what is
    meant, in the reals: of all sums, or of many that are spread."""
    least, most = count * a.low, count * a.high
    step = max((most - least) // _MOST_SUMS, 1)
    sums = np.arange(least, most + 1, step, dtype=np.int64)
    single = np.float32
    factor = single(a.scale) / single(b.scale)
    if mean:
        factor = factor * (single(1) / single(count))
    bias = single(b.zero) - single(count * a.zero) * factor
    made = np.rint(sums.astype(np.float32) * factor + bias).astype(np.int64)
    real = (sums - count * a.zero).astype(np.float64) * (a.scale / (count if mean else 1))
    return np.clip(made, b.low, b.high), nearest(real, b)


def exact_factor(a: QuantGrid, b: QuantGrid, meant: Codes) -> float | None:
    """The scale of a code 1 with which a MUL rescales all codes as `meant`; None if there is none
    near 1."""
    up = down = np.float32(1.0)
    if np.array_equal(multiplied(a, 1.0, b), meant):
        return 1.0
    for _ in range(4):
        up, down = np.nextafter(up, np.float32(2)), np.nextafter(down, np.float32(0))
        for factor in (float(up), float(down)):
            if np.array_equal(multiplied(a, factor, b), meant):
                return factor
    return None

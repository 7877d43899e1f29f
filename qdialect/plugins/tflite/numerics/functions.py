"""Tables of LiteRT's functions of one number on 8-bit codes, and of the same functions on floats
between DEQUANTIZE and QUANTIZE, as XNNPACK computes these.

    island       rint(fl(f(fl((q - z) s)) fl(1 / t))) + w
    LEAKY_RELU   ((q - z) m + 128) >> 8 + w,  m = rint(256 s / t), for q < z rint(256 a s / t)
    HARD_SWISH   16 bits of fixed point, of the optimized and the reference kernels
    EXP, GELU    the real function, rounded once

(measured, ai-edge-litert 2.3). A function whose floats nobody has bit by bit is known by its real
values, but where one is so close to a tie (`NEAR`) that floats may fall on either side.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from qdialect.algebra.lazy_numpy import np
from qdialect.algebra.requantize import QuantGrid
from qdialect.plugins.tflite.numerics.rescale import all_codes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Codes = NDArray[np.int64]
    Function = Callable[[Any], Any]

NEAR = 1e-4
"""So close to a tie, in steps, floats of a kernel may fall on either side."""
_LEAST_RATIO, _MOST_RATIO = 2.0**-8, 2.0**7


@dataclass(frozen=True)
class Table:
    """The codes of a function for all codes of its operand in order; `open` where each may as well
    be the next one down or up."""

    codes: Codes
    open: NDArray[np.bool_]

    def is_same(self, other: Table) -> bool:
        """Whether both are known and equal."""
        known = not (self.open.any() or other.open.any())
        return bool(known and np.array_equal(self.codes, other.codes))

    def apart(self, other: Table) -> int:
        """By how many steps they differ at most."""
        wide = np.abs(self.codes - other.codes) + self.open + other.open
        return int(wide.max())


def _known(codes: Any) -> Table:
    none: Any = np.zeros(codes.shape, np.bool_)
    return Table(codes, none)


def _cut(steps: Any, b: QuantGrid) -> Codes:
    wide = np.clip(np.asarray(steps), -(2.0**40), 2.0**40).astype(np.int64)
    return np.clip(wide + b.zero, b.low, b.high)


def dequantized(a: QuantGrid) -> Any:
    """The floats of all codes of `a`."""
    return (all_codes(a) - a.zero).astype(np.float32) * np.float32(a.scale)


def island(a: QuantGrid, b: QuantGrid, steps: Function) -> Table:
    """A function of floats whose every step is rounded once to 32 bits, between casts."""
    values = np.asarray(steps(dequantized(a)), np.float32)
    return _known(_cut(np.rint(values * (np.float32(1) / np.float32(b.scale))), b))


def of_real(a: QuantGrid, b: QuantGrid, function: Function) -> Table:
    """A function of real numbers, rounded to the nearest code, as a table or between casts."""
    with np.errstate(all="ignore"):
        steps = np.asarray(function(dequantized(a).astype(np.float64))) / np.float64(b.scale)
    steps: Any = np.nan_to_num(steps, nan=0.0, posinf=2.0**39, neginf=-(2.0**39))
    distance: Any = np.abs(steps - np.floor(steps) - 0.5)
    inside = (steps > b.low - b.zero - 1) & (steps < b.high - b.zero + 1)
    near: Any = (distance < NEAR) & inside
    return Table(_cut(np.rint(steps), b), near)


def leaky_relu(a: QuantGrid, b: QuantGrid, alpha: float) -> Table | None:
    """XNNPACK's LEAKY_RELU of codes; None where it does not take the scales."""
    ratio = np.float32(a.scale) / np.float32(b.scale)
    slope = ratio * np.float32(alpha)
    if not _LEAST_RATIO <= ratio <= _MOST_RATIO or not _LEAST_RATIO <= abs(slope) <= _MOST_RATIO:
        return None
    above, below = (int(np.rint(np.float32(256) * factor)) for factor in (ratio, slope))
    x = all_codes(a) - a.zero
    return _known(_cut((x * np.where(x >= 0, above, below) + 128) >> 8, b))


def hard_swish(a: QuantGrid, b: QuantGrid) -> Table | None:
    """HARD_SWISH of codes: x of 16 bits times min(max(x + 3, 0), 6) / 6 of 15 bits, where both
    products lose their low halves; None where the kernel refuses the scales."""
    fine = np.float32(1 / 128) * np.float32(a.scale)
    factor, lowered = _short(fine / np.float32(b.scale))
    slope, places = _short(fine / np.float32(3 / 32768))
    if lowered > 0:
        return None
    x = (all_codes(a) - a.zero) * 128
    gate = x
    if places > 0:
        gate = np.clip(x << (places - 1), -32768, 32767)
    gate = _high(gate, slope)
    gate = np.clip(gate << 1, -32768, 32767) if places > 0 else _rounded(gate, -places)
    product = ((gate + 32768) >> 1) * _high(x, factor)
    shortened = np.sign(product) * (np.abs(product) >> 15)
    return _known(_cut(_rounded(shortened, -lowered), b))


def _short(real: Any) -> tuple[int, int]:
    """A positive number as q 2^e / 2^15, with q of 15 bits."""
    fraction, exponent = np.frexp(np.float64(real))
    whole = int(np.floor(fraction * 2.0**31 + 0.5))
    if whole == 1 << 31:
        whole, exponent = whole >> 1, exponent + 1
    return min((whole + (1 << 15)) >> 16, 32767), int(exponent)


def _high(values: Any, factor: int) -> Any:
    return np.minimum((values * factor + (1 << 14)) >> 15, 32767)


def _rounded(values: Any, places: int) -> Any:
    """values / 2^places, halves away from zero; the kernel's mask has 16 bits."""
    mask = ((1 << places) - 1) & 0xFFFF
    mask = mask - 0x10000 if places > 15 else mask
    return (values >> places) + ((values & mask) > (mask >> 1) + (values < 0))


def pairs_of_products(a: QuantGrid, b: QuantGrid, c: QuantGrid) -> tuple[Codes, Codes]:
    """All products by XNNPACK's MUL, and by floats between casts."""
    left = (all_codes(a) - a.zero).astype(np.float32)[:, None]
    right = (all_codes(b) - b.zero).astype(np.float32)[None, :]
    scale = np.float32(a.scale) * np.float32(b.scale) / np.float32(c.scale)
    floats = dequantized(a)[:, None] * dequantized(b)[None, :]
    return _cut(np.rint(left * right * scale), c), in_floats(floats, c)


def in_floats(values: Any, c: QuantGrid) -> Codes:
    """Floats as XNNPACK quantizes them."""
    return _cut(np.rint(values * (np.float32(1) / np.float32(c.scale))), c)

"""Softmax on codes: in fixed point (reference), or from a table of exponentials (optimized).

The reference kernel of 8 bits has exponentials of 31 bits and divides by Newton's method; the
optimized one adds f32 numbers in order. Codes of 16 bits have one kernel, from two tables.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import floor
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.ir import Operation

from qdialect.errors import UnsupportedError
from qdialect.interpreter.quantize import properties
from qdialect.interpreter.values import Array
from qdialect.ir import ops as nn
from qdialect.plugins.tflite.interpreter import Row
from qdialect.plugins.tflite.interpreter.fixed_point import (
    gemmlowp,
    half_away,
    quantize_multiplier,
    wrapped,
)
from qdialect.plugins.tflite.interpreter.functions import either, exp, interpolated, samples
from qdialect.plugins.tflite.interpreter.newton import (
    bits,
    divided,
    exponential,
    high_product,
    reciprocal,
)
from qdialect.plugins.tflite.interpreter.per_tensor import Codes, Integers, codes_row

single = np.float32
_INTEGER_BITS, _SUM_BITS = 5, 12

Rows = Callable[[Integers, Codes, Codes], Any]
"""Computes on codes with the axis last, on the qparams of operand and result."""


def _along_axis(rows: Rows, *types: str) -> Row:
    def compute(op: Operation, operands: Sequence[Array], found: Sequence[Codes]) -> Any:
        x, axis = operands[0].astype(np.int64), properties(op)["axis"]
        if not x.size:
            return x
        return np.moveaxis(rows(np.moveaxis(x, axis, -1), *found), -1, axis)

    return codes_row(compute, *types)


def _fixed(x: Integers, source: Codes, to: Codes) -> Any:
    """The reference kernel of codes of 8 bits."""
    unit = float(source.scale) * (1 << 31 - _INTEGER_BITS)
    q, e = (int(n) for n in quantize_multiplier(min(unit, 2.0**31 - 1)))
    if e < 0:
        raise UnsupportedError("LiteRT refuses a softmax of so fine a scale")
    radius = floor(31 * (1 << 31 - _INTEGER_BITS) / (1 << e))
    steps = x - x.max(axis=-1, keepdims=True)
    counted = steps >= -radius
    powers = exponential(high_product(wrapped(np.where(counted, steps, 0) << e), q), _INTEGER_BITS)
    powers = np.where(counted, powers, 0)
    total = wrapped(divided(powers, _SUM_BITS).sum(axis=-1, keepdims=True))
    length = bits(total)
    ratio = reciprocal((total << (32 - length)) - (1 << 31))
    places = _SUM_BITS + length - 1 - to.qparams.storage.width
    if np.any(places > 31):
        raise UnsupportedError("LiteRT's reference softmax aborts where exponentials add up to 256")
    return divided(high_product(ratio, powers), places) + to.low


def _from_table(x: Integers, source: Codes, to: Codes) -> Any:
    """The optimized kernel of codes of 8 bits: exponentials of f32, added in order."""
    powers = exp(-source.scale * np.arange(256).astype(single))[x.max(axis=-1, keepdims=True) - x]
    total = np.add.accumulate(powers, axis=-1, dtype=single)[..., -1:]
    probability = powers * (single(1) / (total * to.scale))
    if to.type == "u8":
        return np.trunc(probability + single(0.5))
    return half_away(probability) + to.zero


_TEN, _TWO, _ONE = (np.float64(n) / 65535 for n in (10, 2, 1))


def _of_16_bits(x: Integers, source: Codes, to: Codes) -> Any:
    """Exponentials and the reciprocal of their sum with 15 bits."""
    powers = samples(np.exp, _TEN, 32767, _TWO, 0)
    inverses = samples(_inverse, _ONE, -32768, _TWO, 0)
    unit = quantize_multiplier(float(source.scale) / (10.0 / 65535.0))
    steps = gemmlowp(x - x.max(axis=-1, keepdims=True), *unit) + 32767
    power = interpolated(np.clip(steps, -32768, 32767), powers)
    total = power.sum(axis=-1, keepdims=True)
    right = bits(total) - 1
    shifted = ((total << (30 - right)) + (1 << 13)) >> 14
    inverse = interpolated(np.clip(shifted - 3 * (1 << 15), -32768, 32767), inverses)
    return np.maximum((power * inverse + (1 << (right - 1))) >> right, 0)


def _inverse(x: NDArray[Any]) -> NDArray[Any]:
    return 1 / (1 + x)


_WIDE = _along_axis(_of_16_bits, "i16")

ROWS: Mapping[str, Mapping[str, Row]] = {
    "litert-ref": {nn.SoftmaxOp.name: either(_along_axis(_fixed, "i8", "u8"), _WIDE)},
    "litert-opt": {nn.SoftmaxOp.name: either(_along_axis(_from_table, "i8", "u8"), _WIDE)},
}

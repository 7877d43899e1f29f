"""Hard swish and the rectifiers with a slope, on codes, in LiteRT's fixed point.

Hard swish has 16 bits; the slopes have one multiplier for each branch, rounded twice. XNNPACK's
leaky rectifier has multipliers with 8 bits after the point:

    m = rint(256 s_x / s_y), for x < 0 rint(256 alpha s_x / s_y);  (x m + 128) >> 8
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from xdsl.ir import Operation

from qdialect.errors import UnsupportedError
from qdialect.interpreter.quantize import properties
from qdialect.interpreter.values import Array
from qdialect.ir import ops as nn
from qdialect.plugins.tflite.interpreter import Row
from qdialect.plugins.tflite.interpreter.fixed_point import gemmlowp, quantize_multiplier
from qdialect.plugins.tflite.interpreter.functions import either
from qdialect.plugins.tflite.interpreter.per_tensor import Codes, Integers, codes_row

single = np.float32


# -- hard swish -------------------------------------------------------------------------


def _short_multiplier(real: np.float32) -> tuple[int, int]:
    """A multiplier with a fraction of 15 bits, and its exponent."""
    fraction, exponent = quantize_multiplier(float(real))
    return min((int(fraction) + (1 << 15)) >> 16, 32767), int(exponent)


def _high(a: Integers, b: int) -> Integers:
    """a * b / 2^15, half up, in 16 bits."""
    return np.minimum((a * b + (1 << 14)) >> 15, 32767)


def _raised(values: Integers, places: int) -> Integers:
    return np.clip(values << places, -32768, 32767)


def _lowered(values: Integers, places: int) -> Integers:
    """values / 2^places, half away from zero; with a mask of 16 bits, so that more than 15 places
    give 1 or -1."""
    mask = ((1 << places) - 1) & 0xFFFF
    mask = mask - 0x10000 if places > 15 else mask
    beyond = (values & mask) > (mask >> 1) + (values < 0)
    return (values >> places) + beyond


def _hard_swish(op: Operation, operands: Sequence[Array], found: Sequence[Codes]) -> Any:
    """x on a scale 128 times as fine, times max(0, min(1, (x + 3) / 6)) of 15 bits."""
    source, to = found
    fine = single(1 / 128) * source.scale
    factor, exponent = _short_multiplier(fine / to.scale)
    if exponent > 0:
        raise UnsupportedError("LiteRT refuses a hard swish with so fine a result")
    slope, places = _short_multiplier(fine / single(3 / 32768))
    x = (source.steps(operands[0]) * 128).astype(np.int16).astype(np.int64)
    gate = _high(_raised(x, places - 1) if places > 0 else x, slope)
    gate = _raised(gate, 1) if places > 0 else _lowered(gate, -places)
    product = ((gate + 32768) >> 1) * _high(x, factor)
    toward_zero = np.where(product >= 0, product >> 15, -(-product >> 15))
    return _lowered(toward_zero, -exponent) + to.zero


# -- slopes -----------------------------------------------------------------------------


def _leaky_relu(op: Operation, operands: Sequence[Array], found: Sequence[Codes]) -> Any:
    """Multiplied by s_x / s_y, or by alpha s_x / s_y, rounded twice."""
    source, to = found
    x, slope = source.steps(operands[0]), source.scale * single(properties(op)["alpha"]) / to.scale
    above = gemmlowp(x, *quantize_multiplier(float(source.scale / to.scale)))
    below = gemmlowp(x, *quantize_multiplier(abs(float(slope))))
    return np.where(x >= 0, above, -below if slope < 0 else below) + to.zero


def _wide_leaky_relu(op: Operation, operands: Sequence[Array], found: Sequence[Codes]) -> Any:
    """The optimized kernel of 16 bits has a multiplier below 0 for alpha < 0."""
    source, to = found
    x, slope = source.steps(operands[0]), source.scale * single(properties(op)["alpha"]) / to.scale
    above = gemmlowp(x, *quantize_multiplier(float(source.scale / to.scale)))
    q, e = quantize_multiplier(abs(float(slope)))
    below = gemmlowp(x, -q if slope < 0 else q, e)
    return np.where(x > 0, above, below) + to.zero


def _xnn_leaky_relu(op: Operation, operands: Sequence[Array], found: Sequence[Codes]) -> Any:
    source, to = found
    ratio = source.scale / to.scale
    slope = ratio * single(properties(op)["alpha"])
    above, below = (int(np.rint(single(256) * factor)) for factor in (ratio, slope))
    x = source.steps(operands[0])
    return ((x * np.where(x >= 0, above, below) + 128) >> 8) + to.zero


def _prelu(op: Operation, operands: Sequence[Array], found: Sequence[Codes]) -> Any:
    """Multiplied by s_x / s_y, or with the steps of the slope by s_x s_slope / s_y."""
    source, slope, to = found
    x, factor = source.steps(operands[0]), slope.steps(operands[1])
    above = gemmlowp(x, *quantize_multiplier(float(source.scale / to.scale)))
    unit = source.scale * slope.scale / to.scale
    below = gemmlowp(x * factor, *quantize_multiplier(float(unit)))
    return np.where(x >= 0, above, below) + to.zero


_OWN: Mapping[str, Row] = {
    nn.HardSwishOp.name: codes_row(_hard_swish, "i8", "u8"),
    nn.LeakyReluOp.name: codes_row(_leaky_relu, "i8", "u8", "i16"),
    nn.PReluOp.name: codes_row(_prelu, "i8", "u8", "i16"),
}
"""What both resolvers compute."""

ROWS: Mapping[str, Mapping[str, Row]] = {
    "litert-ref": _OWN,
    "litert-opt": {
        **_OWN,
        nn.LeakyReluOp.name: either(
            codes_row(_leaky_relu, "i8", "u8"), codes_row(_wide_leaky_relu, "i16")
        ),
    },
    "litert-xnn": {nn.LeakyReluOp.name: codes_row(_xnn_leaky_relu, "i8", "u8")},
}

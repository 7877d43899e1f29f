"""The logistic function and tanh of codes of 16 bits.

LiteRT has one table, of the logistic function at multiples of 1/24, between which it
interpolates: tanh(x) = 2 * logistic(2 x) - 1. With an input scale of 2^-12 (tanh: or 2^-11) the
optimized kernels compute in fixed point of 16 bits instead. Results have the scale 2^-15.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from xdsl.ir import Operation

from qdialect.errors import UnsupportedError
from qdialect.interpreter.values import Array
from qdialect.ir import ops as nn
from qdialect.plugins.tflite.interpreter import Row, newton
from qdialect.plugins.tflite.interpreter.per_tensor import Codes, Integers, codes_row

_INTEGER_BITS, _WIDTH = 3, 16


def _table() -> Integers:
    """The logistic function of n / 24 with 16 bits, less half of what interpolation is off
    in the middle of each step."""
    at = 65536 / (1 + np.exp(-np.arange(0, 256.5, 0.5) / 24))
    here, middle, following = at[:-1:2], at[1::2], at[2::2]
    found = np.rint(here - ((here + following) / 2 - middle) / 2).astype(np.int64)
    return np.append(found[:255], 65535)


def _power_of_two(scale: np.float32) -> int | None:
    """The exponent of a scale that is a power of two, nearly."""
    exponent = np.log2(scale)
    nearest = np.rint(exponent)
    return int(nearest) if abs(exponent - nearest) < 1e-3 else None


def _thirds(x: Integers, scale: np.float32, shifts: Sequence[int]) -> Integers:
    """Codes on the scale 1 / (3 * 4096), as the table is read by."""
    exponent = _power_of_two(scale)
    if exponent is not None and exponent + 12 in shifts:
        return newton.wrapped((x * 3) << (exponent + 12), 32)
    factor, shift = float(scale) * 4096.0 * 3.0, 0
    while factor <= 32767 / 2 and shift <= 30:
        factor, shift = factor * 2, shift + 1
    half = (1 << shift) >> 1
    return newton.wrapped(x * int(factor) + half, 32) >> shift


def _between(x: Integers, places: int) -> Integers:
    """The table at |x| / 2^places, times 2^places; 0 beyond its end."""
    table = _table()
    size = np.abs(x)
    index = np.minimum(size >> places, 254)
    here, following = table[index], table[index + 1]
    found = (here << places) + (size & ((1 << places) - 1)) * (following - here)
    return np.where(size >> places >= 255, 0, found)


def _logistic(x: Integers, scale: np.float32) -> Integers:
    x = _thirds(x, scale, (0,))
    found = _between(x, 9)
    found = np.where(found == 0, 0x7FFF << 10, found)
    return np.where(x >= 0, found + (1 << 9), (1 << 25) - found + (1 << 9) - 1) >> 10


def _tanh(x: Integers, scale: np.float32) -> Integers:
    x = _thirds(x, scale, (0, 1))
    found = _between(x, 8)
    found = np.where(found == 0, 0xFFFF << 8, found)
    one, half = 1 << 23, 1 << 7
    return np.where(x >= 0, found - one + half, one - found + half - 1) >> 8


def _results(to: Codes) -> None:
    if _power_of_two(to.scale) != -15:
        raise UnsupportedError("LiteRT refuses this function of 16 bits but for a scale of 2^-15")


def _reference(curve: Any) -> Any:
    def compute(op: Operation, operands: Sequence[Array], found: Sequence[Codes]) -> Integers:
        source, to = found
        _results(to)
        return curve(operands[0].astype(np.int64), source.scale)

    return compute


def _optimized(curve: Any, fixed: Any, shifts: Sequence[int]) -> Any:
    def compute(op: Operation, operands: Sequence[Array], found: Sequence[Codes]) -> Integers:
        source, to = found
        _results(to)
        x, exponent = operands[0].astype(np.int64), _power_of_two(source.scale)
        if exponent is None or exponent + 12 not in shifts:
            return curve(x, source.scale)
        return fixed(newton.raised(x, exponent + 12, _WIDTH), _INTEGER_BITS, _WIDTH)

    return compute


ROWS: Mapping[str, Mapping[str, Row]] = {
    "litert-ref": {
        nn.SigmoidOp.name: codes_row(_reference(_logistic), "i16"),
        nn.TanhOp.name: codes_row(_reference(_tanh), "i16"),
    },
    "litert-opt": {
        nn.SigmoidOp.name: codes_row(_optimized(_logistic, newton.logistic, (0,)), "i16"),
        nn.TanhOp.name: codes_row(_optimized(_tanh, newton.tanh, (0, 1)), "i16"),
    },
}

"""Bilinear resizes of codes, with places and weights in fixed point.

LiteRT's own kernels have 10 bits of weight along each dimension and round half away from zero;
XNNPACK has 11 and rounds half up. Codes of `u8` are interpolated in f32 and, with half added,
truncated. Weights add up to 1, so zero points do not matter; the qparams are those of the input.
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
from qdialect.plugins.tflite.interpreter.functions import either
from qdialect.plugins.tflite.interpreter.per_tensor import Codes, Integers, codes_row

single = np.float32
Places = tuple[Integers, Integers, NDArray[Any]]
"""Per result index the two elements that it reads, and the weight of the second."""

Along = Callable[[int, int, str], Places]
"""The places along a dimension of some extent, for a result of another, by coordinates."""


def _size(op: Operation, x: Array, dim: int) -> int:
    v = properties(op)
    sizes = v.get("sizes")
    return int(sizes[dim]) if sizes else floor(single(x.shape[dim]) * single(v["scales"][dim]))


def _interpolated(
    along: Along, rounded: Callable[[Any], Any], weight: Any, one: Any, *, at_once: bool = False
) -> Any:
    """`one` is the sum of the weights along a dimension. Weights are multiplied by each other
    first if they are applied `at_once`; floats tell."""

    def compute(op: Operation, operands: Sequence[Array], found: Sequence[Codes]) -> Any:
        x: Array = operands[0].astype(weight)
        mode = properties(op)["coordinates"]
        if mode == "pytorch_half_pixel":
            raise UnsupportedError("LiteRT has no such coordinates")
        low, high, down = along(x.shape[2], _size(op, x, 2), mode)
        left, right, across = along(x.shape[3], _size(op, x, 3), mode)
        down = down[:, None]
        upper: Array = x[:, :, low]
        lower: Array = x[:, :, high]
        up, back = one - down, one - across
        if at_once:
            total = upper[..., left] * (up * back) + upper[..., right] * (up * across)
            total = total + lower[..., left] * (down * back)
            return rounded(total + lower[..., right] * (down * across))
        total = upper[..., left] * up * back + lower[..., left] * down * back
        total = total + upper[..., right] * up * across
        return rounded(total + lower[..., right] * down * across)

    return compute


# -- 10 bits ----------------------------------------------------------------------------

_BITS = 10


def _of_integers(size: int, out: int, mode: str) -> Places:
    corners = mode == "align_corners" and out > 1
    last, count = (size - 1, out - 1) if corners else (size, out)
    scale = ((last << _BITS) + count // 2) // count
    at = np.arange(out, dtype=np.int64) * scale
    if mode == "half_pixel":
        at = at + scale // 2 - (1 << (_BITS - 1))
    low = np.clip(at >> _BITS, 0, size - 1)
    high = np.clip((at + (1 << _BITS) - 1) >> _BITS, 0, size - 1)
    return low, high, at - (low << _BITS)


def _half_away(total: Integers) -> Integers:
    half, places = 1 << (2 * _BITS - 1), 2 * _BITS
    return np.where(total > 0, (total + half) >> places, -((half - total) >> places))


# -- 11 bits ----------------------------------------------------------------------------

_XNN_BITS = 11


def _of_xnnpack(size: int, out: int, mode: str) -> Places:
    """Places in f32, within the input."""
    less = int(mode == "align_corners" and out != 1)
    scale = single(size - less) / single(out - less)
    at = np.arange(out).astype(single) * scale
    if mode == "half_pixel":
        at = at + (single(0.5) * scale - single(0.5))
    at = np.clip(at, single(0), single(size - 1))
    low = at.astype(np.int64)
    weight = np.rint((at - low.astype(single)) * single(1 << _XNN_BITS)).astype(np.int64)
    return low, np.minimum(low + 1, size - 1), weight


def _half_up(total: Integers) -> Integers:
    return (total + (1 << (2 * _XNN_BITS - 1))) >> (2 * _XNN_BITS)


# -- in floats --------------------------------------------------------------------------


def _of_floats(size: int, out: int, mode: str) -> Places:
    corners = mode == "align_corners" and out > 1
    scale = single(size - 1) / single(out - 1) if corners else single(size) / single(out)
    at = np.arange(out).astype(single)
    at = (at + single(0.5)) * scale - single(0.5) if mode == "half_pixel" else at * scale
    low = np.clip(np.floor(at).astype(np.int64), 0, size - 1)
    return low, np.clip(np.ceil(at).astype(np.int64), 0, size - 1), at - low.astype(single)


def _truncated(total: NDArray[np.float32]) -> Integers:
    return (total + single(0.5)).astype(np.int64)


_INTEGERS = codes_row(_interpolated(_of_integers, _half_away, np.int64, 1 << _BITS), "i8", "i16")
_FLOATS = _interpolated(_of_floats, _truncated, np.float32, single(1))
_AT_ONCE = _interpolated(_of_floats, _truncated, np.float32, single(1), at_once=True)
_XNNPACK = _interpolated(_of_xnnpack, _half_up, np.int64, 1 << _XNN_BITS)

ROWS: Mapping[str, Mapping[str, Row]] = {
    "litert-ref": {nn.ResizeLinearOp.name: either(_INTEGERS, codes_row(_FLOATS, "u8"))},
    "litert-opt": {nn.ResizeLinearOp.name: either(_INTEGERS, codes_row(_AT_ONCE, "u8"))},
    "litert-xnn": {nn.ResizeLinearOp.name: codes_row(_XNNPACK, "i8", "u8")},
}

"""Resizing of images: `RESIZE_NEAREST_NEIGHBOR` and `RESIZE_BILINEAR`, where they read what an op
reads.

    nearest       min(floor((i + 1/2) in / out), in - 1), without the half, or round(i (in - 1) /
                  (out - 1)), the half away from zero
    bilinear      at (i + 1/2) in / out - 1/2, at i in / out, or at i (in - 1) / (out - 1)

The bilinear kernel of codes rounds halves up where an op rounds to the even code, so codes are
resized as floats unless a step is allowed.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import f32
from xdsl.ir import Operation, SSAValue

from qdialect.analysis.codes import qparams_of
from qdialect.ir.behaviors.shapes import DYNAMIC, shape_of
from qdialect.ir.ops.base import NNOp
from qdialect.ir.ops.resize import nearest_indices
from qdialect.plugins.common.lowering.emitter import element_of, storage_of
from qdialect.plugins.common.lowering.errors import Unlowerable
from qdialect.plugins.common.lowering.floats.interpolation import linear_places
from qdialect.plugins.common.lowering.floats.rows import float_rows
from qdialect.plugins.common.lowering.laid_out import LaidOut, channels_last, reordered
from qdialect.plugins.tflite.lowering.algebra import TfliteWriter
from qdialect.plugins.tflite.lowering.codes import (
    activation,
    finished,
    half_even,
    is_builtin,
    result_qparams,
)
from qdialect.plugins.tflite.lowering.emitter import Emitter
from qdialect.plugins.tflite.lowering.movement import move

_MODES = ((False, True), (False, False), (True, False))
"""align_corners and half_pixel_centers."""
_CLOSE = 1e-5


def nearest(e: Emitter, op: Operation, operands: Sequence[LaidOut]) -> Sequence[LaidOut]:
    """`nn.resize_nearest`"""
    assert isinstance(op, NNOp)
    (x,), shape = operands, shape_of(op.results[0])
    if x.is_constant or x.rank != 4 or DYNAMIC in x.shape[2:] or DYNAMIC in shape[2:]:
        return move(e, op, operands)
    indices = nearest_indices(x.shape, op.values).indices
    spatial = [
        np.arange(x.shape[d]) if (own := indices[d]) is None else np.array(own) for d in (2, 3)
    ]
    if indices[0] is not None or indices[1] is not None:
        return move(e, op, operands)
    for align, half in _MODES:
        made = [_nearest(x.shape[d], shape[d], align, half) for d in (2, 3)]
        if all(map(np.array_equal, made, spatial)):
            out = _resized(e, "RESIZE_NEAREST_NEIGHBOR", x, shape, align, half)
            return [e.result(out, channels_last(4), x.params, shape)]
    return move(e, op, operands)


def _nearest(
    size: int, count: int, align: bool, half: bool
) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    at = np.arange(count, dtype=np.float32)
    if align and count > 1:
        scaled = at * (np.float32(size - 1) / np.float32(count - 1))
        found = np.floor(scaled + np.float32(0.5))
    else:
        offset = np.float32(0.5 if half else 0.0)
        found = np.floor((at + offset) * (np.float32(size) / np.float32(count)))
    return np.clip(found.astype(np.int64), 0, size - 1)


def _resized(
    e: Emitter, name: str, x: LaidOut, shape: Sequence[int], align: bool, half: bool
) -> SSAValue:
    order = channels_last(4)
    value = e.value_of(x, order)
    return e.node(
        name,
        [value, e.numbers(shape[2:])],
        reordered(shape, order),
        element_of(value),
        align_corners=align,
        half_pixel_centers=half,
    )


def linear(e: Emitter, op: Operation, operands: Sequence[LaidOut]) -> LaidOut | Sequence[LaidOut]:
    """`nn.resize_linear` of floats or codes."""
    assert isinstance(op, NNOp)
    (x,), shape, given = operands, shape_of(op.results[0]), qparams_of(op.results[0])
    mode = _linear_mode(op, x, shape)
    if x.params is None and given is None:
        if storage_of(x) != f32:
            raise Unlowerable("type", f"it resizes {storage_of(x)}", "f32")
        if mode is None:
            return float_rows(TfliteWriter)[op.name](e, op, operands)
        out = _resized(e, "RESIZE_BILINEAR", x, shape, *mode)
        return e.result(out, channels_last(4), None, shape)
    half_even(op)
    wide = is_builtin(op)
    x, params = activation(e, x, "operand", wide=wide)
    result = result_qparams(given, wide=wide)
    if (
        mode is None
        or given is None
        or (not is_builtin(op) and (params != result or not e.allows_steps))
    ):
        raise Unlowerable("rounding", "the kernel of codes rounds halves up", "floats")
    out = _resized(e, "RESIZE_BILINEAR", x, shape, *mode)
    return finished(e, out, channels_last(4), given, shape)


def _linear_mode(op: NNOp, x: LaidOut, shape: Sequence[int]) -> tuple[bool, bool] | None:
    """Which coordinates of the builtin are those of the op."""
    if DYNAMIC in x.shape[2:] or DYNAMIC in shape[2:]:
        return None
    for align, half in _MODES:
        found = True
        for dimension in (2, 3):
            size, count = x.shape[dimension], shape[dimension]
            first, _, rest = linear_places(op, size, count, dimension)
            at = np.arange(count, dtype=np.float32)
            if align and count > 1:
                place = at * (np.float32(size - 1) / np.float32(count - 1))
            else:
                offset = np.float32(0.5 if half else 0.0)
                place = (at + offset) * (np.float32(size) / np.float32(count)) - offset
            place = np.clip(place, 0, size - 1)
            found = found and bool(np.allclose(place, first + rest, rtol=0, atol=_CLOSE))
        if found:
            return align, half
    return None

"""Bilinear resize: sums of weighted codes, the weights in whole parts.

    y * parts_y * parts_x = sum of codes * whole numbers

`tosa.resize` keeps the factor, which is the step of the exact result (`Behavior.grid`). It
knows no zero point: with weights of this sum it comes off after.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import i32
from xdsl.ir import Operation

from qdialect.analysis.codes import qparams_of
from qdialect.ir.behaviors.shapes import shape_of
from qdialect.ir.ops.resize import ratios
from qdialect.plugins.common.lowering.errors import Unlowerable
from qdialect.plugins.common.lowering.laid_out import LaidOut, channels_last
from qdialect.plugins.common.lowering.preconditions import exact_result
from qdialect.plugins.tosa.dialect import ResizeModeAttr
from qdialect.plugins.tosa.lowering.contraction import codes
from qdialect.plugins.tosa.lowering.emitter import Emitter

_LARGEST = 1 << 11
_FURTHEST = 16


def resize_linear(e: Emitter, op: Operation, operands: Sequence[LaidOut]) -> LaidOut:
    """`nn.resize_linear` of 8-bit codes, between pixels of which the weights are ratios."""
    x, zero = codes(e, operands[0], "input")
    row_and_column, shape, order = ratios(op), shape_of(op.results[0]), channels_last(4)
    if row_and_column is None:
        raise Unlowerable(
            "weights", "its weights are no ratios of integers", "scales that are powers of 2"
        )
    exact_result(e, op)
    scale: list[int] = []
    offsets: list[int] = []
    borders: list[int] = []
    for dim, ratio in zip((2, 3), row_and_column, strict=True):
        n, d, o = ratio
        # One result reads one place: any step gives it.
        d = max(d, 1)
        border = (shape[dim] - 1) * d - (x.shape[dim] - 1) * n + o
        furthest = _FURTHEST * n
        if n > _LARGEST or not (d < furthest and -furthest <= o < furthest):
            raise Unlowerable("scale", f"TOSA resizes by no {n}/{d} from {o}")
        if not -furthest <= border < n:
            raise Unlowerable("border", f"TOSA resizes no further than {border}/{n} past the end")
        scale += (n, d)
        offsets.append(o)
        borders.append(border)
    extents = (shape[0], shape[2], shape[3], shape[1])
    out = e.op(
        "resize",
        [e.value_of(x, order), e.shape(scale), e.shape(offsets), e.shape(borders)],
        extents,
        i32,
        mode=ResizeModeAttr("BILINEAR"),
    )
    if zero:
        total = zero * row_and_column[0].parts * row_and_column[1].parts
        out = e.op("sub", [out, e.const(np.full((1, 1, 1, 1), total, np.int32), i32)], extents, i32)
    return e.result(out, order, qparams_of(op.results[0]), shape)

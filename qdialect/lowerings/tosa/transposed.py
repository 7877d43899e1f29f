"""Transposed convolutions.

    rows = (n - 1) s + K + top + bottom         top = -pad before, bottom = output padding -
                                                pad after

TOSA dilates no transposed kernel, so a constant one gets its holes at compile time (with the
zero point in them); and pads that cut off a whole kernel are cut from the result.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from xdsl.dialects.builtin import i8, i32
from xdsl.ir import Operation, SSAValue

from qdialect.analysis.codes import qparams_of
from qdialect.behaviors.shapes import shape_of
from qdialect.lowerings.errors import Unlowerable
from qdialect.lowerings.laid_out import LaidOut, channels_last
from qdialect.lowerings.operands import exact_result
from qdialect.lowerings.tosa.contraction import bias_of, codes, joined, sliced
from qdialect.lowerings.tosa.emitter import Emitter, longs
from qdialect.ops.base import NNOp


def lower_transposed(e: Emitter, op: Operation, operands: Sequence[LaidOut]) -> LaidOut:
    """`nn.conv_transpose1d`, `nn.conv_transpose2d`, in groups or not."""
    exact_result(e, op)
    assert isinstance(op, NNOp)
    v, rank = op.values, operands[0].rank
    if rank > 4:
        raise Unlowerable("rank", "TOSA has no transposed convolution over three dimensions")
    (x, x_zero), (w, w_zero) = codes(e, operands[0], "input"), codes(e, operands[1], "weight")
    groups, shape = v["groups"], shape_of(op.results[0])
    gives = w.shape[1]
    bias = bias_of(e, operands, gives * groups)
    order = channels_last(rank)
    value = e.given(x, order)
    weight = _weight(e, w, v["dilations"], w_zero)
    takes, kernel = x.shape[1] // groups, shape_of(weight)[1:3]
    strides, (pads, crops) = v["strides"], _pads(v, kernel, rank - 2)
    if rank == 3:
        n, *rest = shape_of(value)
        value = e.reshaped(value, (n, 1, *rest))
        strides = (1, *strides)
    extents = [
        (n - 1) * s + k + sum(p)
        for n, s, k, p in zip(shape_of(value)[1:3], strides, kernel, pads, strict=True)
    ]
    parts: list[SSAValue] = []
    for g in range(groups):
        size = shape_of(value)
        mine = sliced(e, value, (0, 0, 0, g * takes), (*size[:-1], takes))
        own = sliced(e, weight, (0, 0, 0, g * takes), (gives, *kernel, takes))
        part = e.op(
            "transpose_conv2d",
            [
                mine,
                own,
                sliced(e, bias, (g * gives,), (gives,)),
                e.scalar(x_zero, 8),
                e.scalar(w_zero, 8),
            ],
            (size[0], *extents, gives),
            i32,
            out_pad=longs([p for pair in pads for p in pair]),
            stride=longs(strides),
            acc_type=i32,
        )
        parts.append(part)
    out = joined(e, parts, 3)
    places = shape[2:] if rank == 4 else (1, *shape[2:])
    out = sliced(e, out, (0, *crops, 0), (shape[0], *places, shape[1]))
    out = e.reshaped(out, (shape[0], *shape[2:], shape[1]))
    return e.held(out, order, qparams_of(op.results[0]), shape)


def _weight(e: Emitter, w: LaidOut, dilations: Sequence[int], zero: int) -> SSAValue:
    """[in, out / groups, kernel] as [out / groups, height, width, in]."""
    if any(d != 1 for d in dilations):
        if w.array is None:
            raise Unlowerable(
                "dilations", "TOSA dilates no transposed convolution", "a constant weight"
            )
        kernel = [(k - 1) * d + 1 for k, d in zip(w.shape[2:], dilations, strict=True)]
        array = np.full((*w.shape[:2], *kernel), zero, np.int8)
        array[(..., *(slice(None, None, d) for d in dilations))] = w.array
        w = LaidOut(array.shape, tuple(range(w.rank)), w.params, None, array)
    order = (1, *range(2, w.rank), 0)
    shape = (w.shape[1], *((1,) if w.rank == 3 else ()), *w.shape[2:], w.shape[0])
    if w.array is not None:
        return e.const(w.array.transpose(order).reshape(shape), i8)
    return e.reshaped(e.given(w, order), shape)


def _pads(
    v: dict[str, Any], kernel: Sequence[int], spatial: int
) -> tuple[list[tuple[int, int]], list[int]]:
    """`out_pad` per dimension, and where the result starts in what it gives."""
    given: tuple[int, ...] = v["pads"]
    outer: tuple[int, ...] = v["output_padding"]
    pads: list[tuple[int, int]] = [] if spatial == 2 else [(0, 0)]
    crops: list[int] = [] if spatial == 2 else [0]
    for d in range(spatial):
        before, after = -given[d], outer[d] - given[d + spatial]
        reach = kernel[d + 2 - spatial]
        # -reach < out_pad: what is beyond is cut off.
        crop = max(0, 1 - reach - before)
        pads.append((before + crop, max(after, 1 - reach)))
        crops.append(crop)
    return pads, crops

"""Averages of windows and reductions of codes.

`MEAN` of codes rounds the sum times M = s_x / (n s_y) as the convolutions do. `AVERAGE_POOL_2D`
takes the mean of the codes, with halves away from zero, and ignores qparams: it is written where
these are equal and halves may round either way. Otherwise a pool over windows of as many elements
is a depthwise convolution with ones of scale 1 / n.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, Literal

import numpy as np
from xdsl.ir import Operation, SSAValue

from qdialect.algebra.qparams import QParams
from qdialect.analysis.codes import qparams_of
from qdialect.ir.behaviors.shapes import DYNAMIC, shape_of
from qdialect.ir.ops.base import NNOp
from qdialect.ir.ops.pooling import window_counts
from qdialect.plugins.common.lowering.emitter import Lowering
from qdialect.plugins.common.lowering.errors import Unlowerable
from qdialect.plugins.common.lowering.laid_out import LaidOut, Order, channels_last
from qdialect.plugins.tflite.lowering.codes import (
    ACTIVATION,
    activation,
    finished,
    half_even,
    is_builtin,
    result_qparams,
    signed,
)
from qdialect.plugins.tflite.lowering.contraction import sum_scales, sums_qparams
from qdialect.plugins.tflite.lowering.emitter import Emitter
from qdialect.plugins.tflite.lowering.rescale import grid
from qdialect.plugins.tflite.lowering.windows import (
    Windows,
    lifted,
    lowered_rank,
    padded,
    pool_windows,
    pooled,
)
from qdialect.plugins.tflite.numerics import rescale as litert


def average_pool(e: Emitter, op: Operation, operands: Sequence[LaidOut]) -> LaidOut:
    """`nn.avg_pool1d` and `nn.avg_pool2d` of codes."""
    assert isinstance(op, NNOp)
    half_even(op)
    v, shape, given = op.values, shape_of(op.results[0]), qparams_of(op.results[0])
    wide = is_builtin(op)
    # Codes without a sign have their halves rounded in another way.
    result = result_qparams(given, wide=wide, unsigned=wide)
    x, params = activation(e, operands[0], "operand", wide=wide, unsigned=wide)
    assert given is not None
    if x.rank > 4 or any(d != 1 for d in v.get("dilations", (1,))):
        raise Unlowerable("window", "there are no dilated pools, and none over three dimensions")
    windows = pool_windows(op)
    counts = None if DYNAMIC in shape[2:] else window_counts(op)
    kernel, strides = v["kernel"], v["strides"]
    size = prod(kernel)
    alike = (windows.pads is None and windows.padding == "VALID") or (
        counts is not None and bool((counts == size).all())
    )
    if alike and not is_builtin(op):
        out = _by_ones(e, (x, params, result), kernel, strides, windows, shape)
    else:
        inside = windows.pads is None and not v["count_include_pad"]
        ties = counts is None or bool((counts % 2 == 0).any())
        if not inside or params != result or (ties and not (e.allows_steps or is_builtin(op))):
            raise Unlowerable("window", "its windows count different numbers of elements", "floats")
        flat = x.rank == 3
        x4 = lifted(e, x) if flat else x
        out = pooled(
            e,
            "AVERAGE_POOL_2D",
            e.value_of(x4, channels_last(4)),
            (1, *kernel) if flat else kernel,
            (1, *strides) if flat else strides,
            windows.padding,
            (1, *shape[2:]) if flat else shape[2:],
        )
    out = lowered_rank(e, out) if x.rank == 3 else out
    return finished(e, out, channels_last(x.rank), given, shape)


def _by_ones(
    e: Emitter,
    codes: tuple[LaidOut, QParams, QParams],
    kernel: Sequence[int],
    strides: Sequence[int],
    windows: Windows,
    shape: Sequence[int],
) -> SSAValue:
    """A depthwise convolution with codes of 1, of scale 1 / (elements of a window)."""
    x, params, result = codes
    channels = x.shape[1]
    if channels == DYNAMIC:
        raise Unlowerable("dynamic-shape", "its number of channels is not known")
    pads, counts = windows.pads, tuple(shape[2:])
    if x.rank == 3:
        x, kernel, strides, counts = lifted(e, x), (1, *kernel), (1, *strides), (1, *counts)
        pads = None if pads is None else ((0, 0), *pads)
    weight = QParams.per_tensor("i8", float(np.float32(1 / prod(kernel))), 0)
    scales = sum_scales(params, weight)
    value = padded(e, e.value_of(x, channels_last(4)), pads)
    return e.node(
        "DEPTHWISE_CONV_2D",
        [
            value,
            e.code(1, weight, (1, *kernel, channels)),
            e.const(np.zeros(channels, np.int32), e.element(sums_qparams(scales))),
        ],
        (shape_of(value)[0], *counts, channels),
        e.element(result),
        padding=windows.padding,
        stride_w=strides[1],
        stride_h=strides[0],
        depth_multiplier=1,
        dilation_w_factor=1,
        dilation_h_factor=1,
        **{ACTIVATION: "NONE"},
    )


def reduction(
    name: Literal["MEAN", "REDUCE_MAX", "REDUCE_MIN", "SUM"],
    axes_of: Callable[[Operation, int], Sequence[int]],
) -> Lowering[Emitter]:
    """A reduction of codes over dimensions."""

    def lower(e: Emitter, op: Operation, operands: Sequence[LaidOut]) -> LaidOut:
        given, shape = qparams_of(op.results[0]), shape_of(op.results[0])
        wide = is_builtin(op) or name in ("REDUCE_MAX", "REDUCE_MIN")
        result = result_qparams(given, wide=wide)
        assert given is not None
        x = operands[0]
        if name in ("REDUCE_MAX", "REDUCE_MIN"):
            if x.params != given:
                raise Unlowerable("qparams", "its result is on another scale", "integerize")
            x = signed(e, x)
        else:
            half_even(op)
            x, params = activation(e, x, "operand", wide=wide)
            if not is_builtin(op):
                _check_sums(e, (params, result), [x.shape[d] for d in axes_of(op, x.rank)], name)
        out, order = reduced(e, name, x, axes_of(op, x.rank), len(shape), e.element(result))
        return finished(e, out, order, given, shape)

    return lower


def _check_sums(
    e: Emitter, params: tuple[QParams, QParams], extents: Sequence[int], name: str
) -> None:
    """Refuse sums or means of which the kernel rounds many in another way."""
    if DYNAMIC in extents:
        if not e.allows_steps:
            raise Unlowerable("dynamic-shape", "how many codes it sums is not known", "floats")
        return
    a, b = (grid(one) for one in params)
    made, meant = litert.reduced(a, b, prod(extents), name == "MEAN")
    if not (e.allows_steps or litert.agrees(made, meant, ties=e.allows_ties)):
        raise Unlowerable("rounding", f"{name} of codes rounds ties in another way", "floats")


def reduced(
    e: Emitter, name: str, x: LaidOut, axes: Sequence[int], rank: int, element: Any
) -> tuple[SSAValue, Order]:
    """`x` reduced over dimensions, which stay with extent 1 if `rank` is that of `x`; and the order
    of the result."""
    kept = rank == x.rank
    places = sorted(x.axis_position(d) for d in axes)
    value = e.value_of(x, x.order)
    removed = set(axes)
    if kept:
        extents = [1 if d in removed else x.shape[d] for d in x.order]
        order = x.order
    else:
        remaining = [d for d in x.order if d not in removed]
        extents = [x.shape[d] for d in remaining]
        numbers = {d: n for n, d in enumerate(sorted(remaining))}
        order = tuple(numbers[d] for d in remaining)
    return (
        e.node(name, [value, e.numbers(places)], extents, element, keep_dims=kept),
        order,
    )

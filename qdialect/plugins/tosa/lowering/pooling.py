"""Pools and reductions."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from xdsl.dialects.builtin import i8, i32
from xdsl.ir import Operation, SSAValue

from qdialect.analysis.codes import qparams_of
from qdialect.ir.behaviors.shapes import shape_of
from qdialect.ir.ops.base import NNOp
from qdialect.plugins.common.lowering.emitter import Lowering, element_of
from qdialect.plugins.common.lowering.errors import Unlowerable
from qdialect.plugins.common.lowering.laid_out import LaidOut, Order, channels_last
from qdialect.plugins.common.lowering.preconditions import exact_result, quantized
from qdialect.plugins.common.lowering.windows import Geometry, mean_factors, pool_windows
from qdialect.plugins.tosa.dialect import PROPAGATE
from qdialect.plugins.tosa.lowering.contraction import (
    codes,
    cropped,
    window_op,
)
from qdialect.plugins.tosa.lowering.elementwise import restored
from qdialect.plugins.tosa.lowering.emitter import Emitter, axis, longs
from qdialect.plugins.tosa.lowering.movement import taken
from qdialect.plugins.tosa.lowering.rescale import signed, widened


def max_pool(e: Emitter, op: Operation, operands: Sequence[LaidOut]) -> LaidOut:
    """`nn.max_pool1d`, `nn.max_pool2d`, `nn.max_pool3d` of codes; over three dimensions the
    largest of each plane's largest."""
    assert isinstance(op, NNOp)
    operand, v = operands[0], op.values
    if operand.params is not None and operand.params.storage.width > 16:
        raise Unlowerable("storage", f"TOSA pools no {operand.params.storage}", "8-bit storage")
    x = operand if operand.params is None else signed(e, operand)
    result = shape_of(op.results[0])
    geometry = pool_windows(op)
    order = channels_last(x.rank)
    value = cropped(e, e.value_of(x, order), geometry.crops)
    if any(d != 1 for d in v["dilations"]):
        if x.params is not None:
            raise Unlowerable("dilations", "TOSA has no dilated pools", "nn.maximum of nn.slice")
        out = _by_slices(e, value, v["kernel"], geometry, "maximum", -np.inf)
    elif x.rank == 5:
        out = _planes(e, value, v["kernel"], geometry)
    else:
        out = _pooled(e, value, v["kernel"], geometry)
    if x.params is not None and operand.params is not None:
        out = restored(e, out, x.params, operand.params)
    return e.result(out, order, operand.params, result)


def _planes(e: Emitter, value: SSAValue, kernel: Sequence[int], g: Geometry) -> SSAValue:
    """[N, D, H, W, C]: all planes at once, then along D."""
    n, depth, *plane, channels = shape_of(value)
    flat = e.reshaped(value, (n * depth, *plane, channels))
    inside = Geometry(g.pads[1:], g.strides[1:], (1, 1), (0, 0), g.result[1:])
    flat = _pooled(e, flat, kernel[1:], inside)
    row = e.reshaped(flat, (n, depth, g.result[1] * g.result[2], channels))
    deep = Geometry(
        (g.pads[0], (0, 0)), (g.strides[0], 1), (1, 1), (0, 0), (g.result[0], shape_of(row)[2])
    )
    return e.reshaped(_pooled(e, row, (kernel[0], 1), deep), (n, *g.result, channels))


def _pooled(e: Emitter, value: SSAValue, kernel: Sequence[int], geometry: Geometry) -> SSAValue:
    shape, counts = shape_of(value), geometry.result
    pads, strides = geometry.pads, geometry.strides
    flat = len(kernel) == 1
    if flat:
        value = e.reshaped(value, (shape[0], 1, *shape[1:]))
        kernel, pads, strides, counts = (1, *kernel), ((0, 0), *pads), (1, *strides), (1, *counts)
    out = e.op(
        "max_pool2d",
        [value],
        (shape[0], *counts, shape[-1]),
        element_of(value),
        kernel=longs(kernel),
        stride=longs(strides),
        pad=longs([p for pair in pads for p in pair]),
        nan_mode=PROPAGATE,
    )
    return e.reshaped(out, (shape[0], *counts[1:], shape[-1])) if flat else out


def average_pool(e: Emitter, op: Operation, operands: Sequence[LaidOut]) -> LaidOut:
    """`nn.avg_pool1d`, `nn.avg_pool2d`, `nn.avg_pool3d`: sums of windows; where these count
    different numbers of elements, each sum times what makes them alike."""
    exact_result(e, op)
    assert isinstance(op, NNOp)
    x, v, result = operands[0], op.values, shape_of(op.results[0])
    params, order = quantized(x, "input"), channels_last(x.rank)
    geometry = pool_windows(op)
    narrow = params.storage.width <= 8 and x.rank <= 4
    sums = _sums_by_ones if narrow else _sums_by_slices
    out = sums(e, x, v["kernel"], geometry)
    factors = mean_factors(op)
    if factors is not None:
        extents = shape_of(out)
        along = e.const(factors.reshape(1, *result[2:], 1), i32)
        out = e.op("mul", [out, along, e.scalar(0, 8)], extents, i32)
    return e.result(out, order, qparams_of(op.results[0]), result)


def _sums_by_ones(e: Emitter, x: LaidOut, kernel: Sequence[int], geometry: Geometry) -> SSAValue:
    """A depthwise convolution of 8-bit codes with ones."""
    channels = x.shape[1]
    x, zero = codes(e, x, "input")
    value = cropped(e, e.value_of(x, channels_last(x.rank)), geometry.crops)
    window = kernel if x.rank == 4 else (1, *kernel)
    weight = e.const(np.ones((*window, channels, 1), np.int8), i8)
    bias = e.const(np.zeros(channels, np.int32), i32)
    return window_op(e, "depthwise_conv2d", value, weight, bias, (zero, 0), geometry)


def _sums_by_slices(e: Emitter, x: LaidOut, kernel: Sequence[int], geometry: Geometry) -> SSAValue:
    """Codes less their zero point, in 32 bits: along one dimension after the other the sum of
    what each tap of the window reads."""
    value = cropped(e, widened(e, x, channels_last(x.rank)), geometry.crops)
    return sums_by_slices(e, value, kernel, geometry)


def sums_by_slices(
    e: Emitter, value: SSAValue, kernel: Sequence[int], geometry: Geometry
) -> SSAValue:
    """Sums over the windows of a value with channels last; pads are 0."""
    return _by_slices(e, value, kernel, geometry, "add", 0)


def _by_slices(
    e: Emitter, value: SSAValue, kernel: Sequence[int], geometry: Geometry, name: str, idle: float
) -> SSAValue:
    """What all taps of each window combine to, along one dimension after the other; pads are
    `idle`."""
    element = element_of(value)
    extra = {"nan_mode": PROPAGATE} if name == "maximum" else {}
    if any(map(any, geometry.pads)):
        pads = ((0, 0), *geometry.pads, (0, 0))
        extents = [n + sum(p) for n, p in zip(shape_of(value), pads, strict=True)]
        padding = e.shape([p for pair in pads for p in pair])
        value = e.op("pad", [value, padding, e.number(idle, element, (1,))], extents, element)
    for d, (size, stride, dilation, count) in enumerate(
        zip(kernel, geometry.strides, geometry.dilations, geometry.result, strict=True)
    ):
        place, extents = d + 1, list(shape_of(value))
        if size == extents[place] and name == "add":
            extents[place] = 1
            value = e.op("reduce_sum", [value], extents, element, axis=axis(place))
            continue
        places = stride * np.arange(count)
        total = taken(e, value, place, places)
        for tap in range(1, size):
            part = taken(e, value, place, tap * dilation + places)
            total = e.op(name, [total, part], shape_of(total), element, **extra)
        value = total
    return value


def reduction(name: str, axes_of: Callable[[Operation, int], Sequence[int]]) -> Lowering[Emitter]:
    """Sums in 32 bits, of codes less their zero point; extrema of codes."""

    def lower(e: Emitter, op: Operation, operands: Sequence[LaidOut]) -> LaidOut:
        (x,) = operands
        params = x.params
        result, shape = qparams_of(op.results[0]), shape_of(op.results[0])
        if params is None or result is None:
            raise Unlowerable("float", "it computes floats", "quantize it (qopt quantize)")
        if name == "sum":
            exact_result(e, op)
            value, extra = widened(e, x, x.order), {}
        else:
            x = signed(e, x)
            value, extra = e.value_of(x, x.order), {"nan_mode": PROPAGATE}
        reduced = sorted(axes_of(op, x.rank))
        for dimension in reduced:
            place = x.axis_position(dimension)
            extents = list(shape_of(value))
            extents[place] = 1
            value = e.op(
                f"reduce_{name}", [value], extents, element_of(value), axis=axis(place), **extra
            )
        if name != "sum":
            assert x.params is not None
            value = restored(e, value, x.params, params)
        order = x.order
        if len(shape) < x.rank:
            value, order = without(e, value, order, reduced)
        return e.result(value, order, result, shape)

    return lower


def without(
    e: Emitter, value: SSAValue, order: Order, removed: Sequence[int]
) -> tuple[SSAValue, Order]:
    """`value` without dimensions of extent 1, and the order of those that stay."""
    remaining = [d for d in order if d not in removed]
    renumbered = {d: n for n, d in enumerate(sorted(remaining))}
    shape = [n for n, d in zip(shape_of(value), order, strict=True) if d not in removed]
    return e.reshaped(value, shape), tuple(renumbered[d] for d in remaining)

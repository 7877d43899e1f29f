"""Convolutions and matrix products: sums of products in 32 bits.

Results are the exact sums (`split-rescale` puts the rounding behind them). Windows of TOSA
have channels last, and a window must fit the input evenly, so pads at the end are cut to what
is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
from xdsl.dialects.builtin import AnyFloat, f32, f64, i32
from xdsl.ir import Attribute, Operation, SSAValue

from qdialect.analysis.codes import qparams_of
from qdialect.ir.behaviors.shapes import shape_of
from qdialect.ir.ops.base import NNOp
from qdialect.plugins.common.lowering.emitter import element_of, storage_of
from qdialect.plugins.common.lowering.errors import Unlowerable
from qdialect.plugins.common.lowering.laid_out import (
    LaidOut,
    channels_last,
    identity_order,
    matrix_shapes,
)
from qdialect.plugins.common.lowering.preconditions import exact_result, is_on_codes
from qdialect.plugins.common.lowering.windows import Geometry, fitted
from qdialect.plugins.tosa.lowering.emitter import Emitter, axis, longs
from qdialect.plugins.tosa.lowering.rescale import signed


def codes(e: Emitter, x: LaidOut, role: str) -> tuple[LaidOut, int]:
    """An operand as signed 8-bit codes, and its zero point; floats as they are."""
    if x.params is None:
        element = storage_of(x)
        if not isinstance(element, AnyFloat):
            raise Unlowerable("type", f"its {role} is of {element}")
        return x, 0
    x = signed(e, x)
    assert x.params is not None
    zeros = set(x.params.zero_point_list())
    if x.params.storage.width > 8:
        raise Unlowerable(
            "storage",
            f"its {role} is stored as {x.params.storage}, whose sums do not fit 32 bits",
            "8-bit storage",
        )
    if len(zeros) != 1:
        raise Unlowerable("zero-points", f"the zero points of its {role} differ")
    return x, zeros.pop()


def sum_type(element: Attribute) -> Attribute:
    """In which numbers products of codes or of floats are summed."""
    return element if isinstance(element, AnyFloat) else i32


def bias_of(e: Emitter, operands: Sequence[LaidOut], channels: int) -> SSAValue:
    """The bias, or zeros."""
    element = sum_type(storage_of(operands[0]))
    if len(operands) < 3:
        return e.number(0, element, (channels,))
    bias = operands[2]
    if bias.params is None and storage_of(bias) == element:
        return e.value_of(bias)
    if bias.params is None or bias.params.storage.spelling != "i32":
        raise Unlowerable("bias", "its bias is no i32 on the scale of the sums")
    return e.value_of(bias)


def _exact_codes(e: Emitter, op: Operation) -> None:
    if is_on_codes(op):
        exact_result(e, op)


def lower_convolution(e: Emitter, op: Operation, operands: Sequence[LaidOut]) -> LaidOut:
    """`nn.conv1d`, `nn.conv2d`, `nn.conv3d`, in groups or not."""
    _exact_codes(e, op)
    assert isinstance(op, NNOp)
    v = op.values
    (x, x_zero), (w, w_zero) = codes(e, operands[0], "input"), codes(e, operands[1], "weight")
    bias, groups, spatial = bias_of(e, operands, w.shape[0]), v["groups"], x.rank - 2
    geometry = fitted(x.shape[2:], w.shape[2:], v["strides"], v["pads"], v["dilations"])
    order = channels_last(x.rank)
    value = cropped(e, e.value_of(x, order), geometry.crops)
    result = shape_of(op.results[0])
    depthwise = groups == x.shape[1] and groups > 1 and w.shape[1] == 1 and spatial < 3
    if depthwise:
        weight = _depthwise_weight(e, w, groups)
        out = window_op(e, "depthwise_conv2d", value, weight, bias, (x_zero, w_zero), geometry)
    elif groups == 1:
        weight = e.value_of(w, channels_last(w.rank))
        out = _convolved(e, value, weight, bias, (x_zero, w_zero), geometry)
    else:
        out = _in_groups(e, value, w, bias, (x_zero, w_zero), geometry, groups)
    return e.result(out, order, qparams_of(op.results[0]), result)


def cropped(e: Emitter, value: SSAValue, crops: Sequence[int]) -> SSAValue:
    """Without the end of the spatial dimensions of a value with channels last."""
    if not any(crops):
        return value
    shape = shape_of(value)
    size = (shape[0], *(n - c for n, c in zip(shape[1:-1], crops, strict=True)), shape[-1])
    if 0 in size:
        raise Unlowerable("window", "its windows reach nothing but padding")
    return sliced(e, value, (0,) * len(shape), size)


def sliced(e: Emitter, value: SSAValue, start: Sequence[int], size: Sequence[int]) -> SSAValue:
    """A box of `value`."""
    if tuple(size) == shape_of(value):
        return value
    operands = [value, e.shape(start), e.shape(size)]
    return e.op("slice", operands, size, element_of(value))


def _convolved(
    e: Emitter,
    value: SSAValue,
    weight: SSAValue,
    bias: SSAValue,
    zeros: tuple[int, int],
    geometry: Geometry,
) -> SSAValue:
    name = "conv3d" if len(geometry.pads) == 3 else "conv2d"
    return window_op(e, name, value, weight, bias, zeros, geometry)


def window_op(
    e: Emitter,
    name: str,
    value: SSAValue,
    weight: SSAValue,
    bias: SSAValue,
    zeros: tuple[int, int],
    geometry: Geometry,
) -> SSAValue:
    """One operation; of one spatial dimension, that of two with a height of 1."""
    shape, w = shape_of(value), shape_of(weight)
    pads, strides, dilations = geometry.pads, geometry.strides, geometry.dilations
    counts = geometry.result
    flat = len(pads) == 1
    if flat:
        pads, strides, dilations = ((0, 0), *pads), (1, *strides), (1, *dilations)
        counts = (1, *counts)
        value = e.reshaped(value, (shape[0], 1, *shape[1:]))
        # A depthwise weight is made with a height already.
        if len(w) == 3:
            weight = e.reshaped(weight, (w[0], 1, *w[1:]))
            w = shape_of(weight)
    channels = w[2] * w[3] if name == "depthwise_conv2d" else w[0]
    sums = sum_type(element_of(value))
    out = e.op(
        name,
        [value, weight, bias, *_zero_points(e, (value, weight), zeros)],
        (shape[0], *counts, channels),
        sums,
        pad=longs([p for pair in pads for p in pair]),
        stride=longs(strides),
        dilation=longs(dilations),
        acc_type=accumulator(sums),
    )
    return e.reshaped(out, (shape[0], *counts[1:], channels)) if flat else out


def _zero_points(
    e: Emitter, factors: tuple[SSAValue, SSAValue], zeros: tuple[float, float]
) -> list[SSAValue]:
    pairs = zip(zeros, factors, strict=True)
    return [e.number(zero, element_of(value), (1,)) for zero, value in pairs]


def accumulator(sums: Attribute) -> Attribute:
    """The type of `acc_type`: floats are summed in f32 at least."""
    return sums if sums in (i32, f64) else f32


def _depthwise_weight(e: Emitter, w: LaidOut, groups: int) -> SSAValue:
    """[C * M, 1, kernel] as [kernel height, width, C, M]."""
    kernel = w.shape[2:] if w.rank == 4 else (1, *w.shape[2:])
    many = w.shape[0] // groups
    if w.array is not None:
        array = w.array.reshape(groups, many, *kernel).transpose(2, 3, 0, 1)
        return e.const(array, storage_of(w))
    value = e.reshaped(e.value_of(w), (groups, many, *kernel))
    return e.transposed(value, (2, 3, 0, 1))


def _in_groups(
    e: Emitter,
    value: SSAValue,
    w: LaidOut,
    bias: SSAValue,
    zeros: tuple[int, int],
    geometry: Geometry,
    groups: int,
) -> SSAValue:
    """Each group of channels by itself, side by side."""
    shape, weight = shape_of(value), e.value_of(w, channels_last(w.rank))
    takes, gives = shape[-1] // groups, w.shape[0] // groups
    parts: list[SSAValue] = []
    for g in range(groups):
        start = (*(0 for _ in shape[1:]), g * takes)
        group = sliced(e, value, start, (*shape[:-1], takes))
        rows = shape_of(weight)[1:]
        kernel = sliced(e, weight, (g * gives, *(0 for _ in rows)), (gives, *rows))
        group_bias = sliced(e, bias, (g * gives,), (gives,))
        parts.append(_convolved(e, group, kernel, group_bias, zeros, geometry))
    return joined(e, parts, len(shape) - 1)


def joined(e: Emitter, parts: Sequence[SSAValue], dimension: int) -> SSAValue:
    """Values side by side along a dimension."""
    if len(parts) == 1:
        return parts[0]
    shape = list(shape_of(parts[0]))
    shape[dimension] = sum(shape_of(part)[dimension] for part in parts)
    return e.op("concat", parts, shape, element_of(parts[0]), axis=axis(dimension))


def lower_fully_connected(e: Emitter, op: Operation, operands: Sequence[LaidOut]) -> LaidOut:
    """`nn.fully_connected` as a convolution over one element."""
    _exact_codes(e, op)
    (x, x_zero), (w, w_zero) = codes(e, operands[0], "input"), codes(e, operands[1], "weight")
    rows, depth = x.shape
    channels = w.shape[0]
    weight = LaidOut((channels, 1, 1, depth), identity_order(4), w.params, None, None)
    if w.array is not None:
        kernel = e.const(w.array.reshape(weight.shape), storage_of(w))
    else:
        kernel = e.reshaped(e.value_of(w), weight.shape)
    value = e.reshaped(e.value_of(x), (rows, 1, 1, depth))
    geometry = fitted((1, 1), (1, 1), (1, 1), (0, 0, 0, 0), (1, 1))
    out = window_op(
        e, "conv2d", value, kernel, bias_of(e, operands, channels), (x_zero, w_zero), geometry
    )
    return e.result(
        e.reshaped(out, (rows, channels)),
        identity_order(2),
        qparams_of(op.results[0]),
        (rows, channels),
    )


def lower_matmul(e: Emitter, op: Operation, operands: Sequence[LaidOut]) -> LaidOut:
    """`nn.matmul`"""
    exact_result(e, op)
    result = shape_of(op.results[0])
    out = matrices(e, codes(e, operands[0], "lhs"), codes(e, operands[1], "rhs"))
    return e.result(
        e.reshaped(out, result), identity_order(len(result)), qparams_of(op.results[0]), result
    )


def matrices(e: Emitter, lhs: tuple[LaidOut, float], rhs: tuple[LaidOut, float]) -> SSAValue:
    """`tosa.matmul` of factors with their zero points, batches flattened into one dimension."""
    (a, a_zero), (b, b_zero) = lhs, rhs
    left, right = matrix_shapes(a.shape, b.shape)
    depth, columns = right[-2:]
    if prod(right[:-2]) == 1:
        # One matrix for all: rows of all batches are rows.
        batch, rows = 1, prod(left[:-1])
    else:
        batch, rows = prod(np.broadcast_shapes(left[:-2], right[:-2])), left[-2]
    left_3d, right_3d = (batch, rows, depth), (batch, depth, columns)
    batches = () if batch == 1 else np.broadcast_shapes(left[:-2], right[:-2])
    factors = (
        _matrices(e, a, (*batches, *left[-2:]), left, left_3d),
        _matrices(e, b, (*batches, *right[-2:]), right, right_3d),
    )
    return e.op(
        "matmul",
        [*factors, *_zero_points(e, factors, (a_zero, b_zero))],
        (left_3d[0], left_3d[1], right_3d[2]),
        sum_type(element_of(factors[0])),
    )


def _matrices(
    e: Emitter,
    x: LaidOut,
    repeated: Sequence[int],
    shape: Sequence[int],
    target: tuple[int, int, int],
) -> SSAValue:
    """`x` as [batches, rows, columns], `repeated` where batches broadcast."""
    if x.array is not None:
        array = x.array.reshape(shape)
        if prod(shape) != prod(target):
            array = np.broadcast_to(array, repeated)
        return e.const(array.reshape(target), storage_of(x))
    value = e.value_of(x)
    if prod(shape) != prod(target):
        ranked = (*(1 for _ in range(len(repeated) - len(shape))), *shape)
        multiples = [n // m for n, m in zip(repeated, ranked, strict=True)]
        value = e.op(
            "tile",
            [e.reshaped(value, ranked), e.shape(multiples)],
            repeated,
            element_of(value),
        )
    return e.reshaped(value, target)


def lower_transposed(e: Emitter, op: Operation, operands: Sequence[LaidOut]) -> LaidOut:
    """`nn.conv_transpose1d`, `nn.conv_transpose2d`, in groups or not.

        rows = (n - 1) s + K + top + bottom
        top = -pad before, bottom = output padding - pad after

    TOSA dilates no transposed kernel, so a constant one gets its holes at compile time (with
    the zero point in them). Pads that cut off a whole kernel are cut from the result.
    """
    _exact_codes(e, op)
    assert isinstance(op, NNOp)
    v, rank = op.values, operands[0].rank
    if rank > 4:
        raise Unlowerable("rank", "TOSA has no transposed convolution over three dimensions")
    (x, x_zero), (w, w_zero) = codes(e, operands[0], "input"), codes(e, operands[1], "weight")
    groups, shape = v["groups"], shape_of(op.results[0])
    gives = w.shape[1]
    bias = bias_of(e, operands, gives * groups)
    order = channels_last(rank)
    value = e.value_of(x, order)
    weight = _transposed_weight(e, w, v["dilations"], w_zero)
    takes, kernel = x.shape[1] // groups, shape_of(weight)[1:3]
    strides, (pads, crops) = v["strides"], _out_pads(v, kernel, rank - 2)
    if rank == 3:
        n, *rest = shape_of(value)
        value = e.reshaped(value, (n, 1, *rest))
        strides = (1, *strides)
    extents = [
        (n - 1) * s + k + sum(p)
        for n, s, k, p in zip(shape_of(value)[1:3], strides, kernel, pads, strict=True)
    ]
    sums = sum_type(element_of(value))
    parts: list[SSAValue] = []
    for g in range(groups):
        size = shape_of(value)
        group = sliced(e, value, (0, 0, 0, g * takes), (*size[:-1], takes))
        rows = sliced(e, weight, (0, 0, 0, g * takes), (gives, *kernel, takes))
        part = e.op(
            "transpose_conv2d",
            [
                group,
                rows,
                sliced(e, bias, (g * gives,), (gives,)),
                *_zero_points(e, (group, rows), (x_zero, w_zero)),
            ],
            (size[0], *extents, gives),
            sums,
            out_pad=longs([p for pair in pads for p in pair]),
            stride=longs(strides),
            acc_type=accumulator(sums),
        )
        parts.append(part)
    out = joined(e, parts, 3)
    places = shape[2:] if rank == 4 else (1, *shape[2:])
    out = sliced(e, out, (0, *crops, 0), (shape[0], *places, shape[1]))
    out = e.reshaped(out, (shape[0], *shape[2:], shape[1]))
    return e.result(out, order, qparams_of(op.results[0]), shape)


def _transposed_weight(e: Emitter, w: LaidOut, dilations: Sequence[int], zero: int) -> SSAValue:
    """[in, out / groups, kernel] as [out / groups, height, width, in]."""
    if any(d != 1 for d in dilations):
        if w.array is None:
            raise Unlowerable(
                "dilations", "TOSA dilates no transposed convolution", "a constant weight"
            )
        kernel = [(k - 1) * d + 1 for k, d in zip(w.shape[2:], dilations, strict=True)]
        array = np.full((*w.shape[:2], *kernel), zero, w.array.dtype)
        array[(..., *(slice(None, None, d) for d in dilations))] = w.array
        w = LaidOut(array.shape, tuple(range(w.rank)), w.params, None, array)
    order = (1, *range(2, w.rank), 0)
    shape = (w.shape[1], *((1,) if w.rank == 3 else ()), *w.shape[2:], w.shape[0])
    if w.array is not None:
        return e.const(w.array.transpose(order).reshape(shape), storage_of(w))
    return e.reshaped(e.value_of(w, order), shape)


def _out_pads(
    v: dict[str, Any], kernel: Sequence[int], spatial: int
) -> tuple[list[tuple[int, int]], list[int]]:
    """`out_pad` per dimension, and where the result starts in what it gives."""
    pads_of_op: tuple[int, ...] = v["pads"]
    outer: tuple[int, ...] = v["output_padding"]
    pads: list[tuple[int, int]] = [] if spatial == 2 else [(0, 0)]
    crops: list[int] = [] if spatial == 2 else [0]
    for d in range(spatial):
        before, after = -pads_of_op[d], outer[d] - pads_of_op[d + spatial]
        reach = kernel[d + 2 - spatial]
        # -reach < out_pad: what is beyond is cut off.
        crop = max(0, 1 - reach - before)
        pads.append((before + crop, max(after, 1 - reach)))
        crops.append(crop)
    return pads, crops

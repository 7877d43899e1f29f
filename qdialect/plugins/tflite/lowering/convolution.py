"""Convolutions: windows of [N, H, W, C], in groups, depthwise, transposed, over volumes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import f32, i32
from xdsl.ir import Operation, SSAValue

from qdialect.ir.behaviors.shapes import DYNAMIC, shape_of
from qdialect.ir.ops.base import NNOp
from qdialect.plugins.common.lowering.emitter import element_of
from qdialect.plugins.common.lowering.errors import Unlowerable
from qdialect.plugins.common.lowering.laid_out import LaidOut, channels_last, identity_order
from qdialect.plugins.tflite.lowering.codes import ACTIVATION
from qdialect.plugins.tflite.lowering.contraction import Product
from qdialect.plugins.tflite.lowering.emitter import Emitter, constant_vector
from qdialect.plugins.tflite.lowering.slices import sliced
from qdialect.plugins.tflite.lowering.windows import fitting, lifted, lowered_rank, padded


def convolution(e: Emitter, op: Operation, operands: Sequence[LaidOut]) -> LaidOut:
    """`nn.conv1d` and `nn.conv2d`: `CONV_2D` (in groups too) or `DEPTHWISE_CONV_2D`."""
    assert isinstance(op, NNOp)
    v, product = op.values, Product(e, op, operands, 0)
    x, weight, shape = product.x, product.weight, product.shape
    if x.rank > 4:
        return _over_volumes(e, op, product)
    outputs, inputs = weight.shape[:2]
    groups, strides, dilations = v["groups"], v["strides"], v["dilations"]
    reach = [(k - 1) * d + 1 for k, d in zip(weight.shape[2:], dilations, strict=True)]
    windows = fitting(x.shape[2:], reach, strides, v["pads"], shape[2:])
    pads, counts = windows.pads, shape[2:]
    if x.rank == 3:
        x, weight = lifted(e, x), lifted(e, weight)
        strides, dilations, counts = (1, *strides), (1, *dilations), (1, *counts)
        pads = None if pads is None else ((0, 0), *pads)
    value = padded(e, e.value_of(x, channels_last(4)), pads)
    depthwise = groups > 1 and inputs == 1
    named = {
        "padding": windows.padding,
        "stride_w": strides[1],
        "stride_h": strides[0],
        ACTIVATION: "NONE",
        "dilation_w_factor": dilations[1],
        "dilation_h_factor": dilations[0],
    }
    order = (1, 2, 3, 0) if depthwise else channels_last(4)
    if depthwise:
        named["depth_multiplier"] = outputs // groups
    out = e.node(
        "DEPTHWISE_CONV_2D" if depthwise else "CONV_2D",
        [value, e.value_of(weight, order), product.bias_value(outputs)],
        (shape_of(value)[0], *counts, outputs),
        product.element,
        **named,
    )
    out = lowered_rank(e, out) if len(shape) == 3 else out
    return product.finished(out, channels_last(len(shape)))


def _over_volumes(e: Emitter, op: NNOp, product: Product) -> LaidOut:
    """`nn.conv3d` of floats: `CONV_3D`, whose weight is [depth, height, width, in, out]."""
    v, x, weight, shape = op.values, product.x, product.weight, product.shape
    if product.result is not None or v["groups"] != 1:
        raise Unlowerable("window", "convolutions over three dimensions are of floats, ungrouped")
    strides, dilations = v["strides"], v["dilations"]
    reach = [(k - 1) * d + 1 for k, d in zip(weight.shape[2:], dilations, strict=True)]
    windows = fitting(x.shape[2:], reach, strides, v["pads"], shape[2:])
    value = padded(e, e.value_of(x, channels_last(5)), windows.pads)
    named = {
        f"{what}_{name}": steps[d]
        for d, name in enumerate("dhw")
        for what, steps in (("stride", strides),)
    }
    factors = {f"dilation_{name}_factor": dilations[d] for d, name in enumerate("dhw")}
    out = e.node(
        "CONV_3D",
        [value, e.value_of(weight, (2, 3, 4, 1, 0)), product.bias_value(weight.shape[0])],
        (shape_of(value)[0], *shape[2:], weight.shape[0]),
        f32,
        padding=windows.padding,
        **named,
        **factors,
        **{ACTIVATION: "NONE"},
    )
    return product.finished(out, channels_last(5))


def transposed(e: Emitter, op: Operation, operands: Sequence[LaidOut]) -> LaidOut:
    """`nn.conv_transpose1d` and `nn.conv_transpose2d`: `TRANSPOSE_CONV`; of groups one each."""
    assert isinstance(op, NNOp)
    v, groups = op.values, op.values["groups"]
    product = Product(e, op, operands, 1 if groups == 1 else None)
    x, weight, shape = product.x, product.weight, product.shape
    if x.rank > 4 or any(d != 1 for d in v["dilations"]):
        raise Unlowerable("window", "transposed convolutions are of 1 or 2 dimensions, undilated")
    if DYNAMIC in x.shape[1:] or DYNAMIC in shape[1:]:
        raise Unlowerable("dynamic-shape", "the shape of its result is not known")
    rank = len(shape) - 2
    size, kernel, strides = x.shape[2:], weight.shape[2:], v["strides"]
    before, after, extra = v["pads"][:rank], v["pads"][rank:], v["output_padding"]
    counts = shape[2:]
    total = [max((size[d] - 1) * strides[d] + kernel[d] - counts[d], 0) for d in range(rank)]
    same = all(
        before[d] == total[d] // 2 and size[d] == -(-counts[d] // strides[d]) for d in range(rank)
    )
    whole = counts
    if not same:
        whole = tuple(
            c + b + max(a - p, 0) for c, b, a, p in zip(counts, before, after, extra, strict=True)
        )
        if any(p >= s for p, s in zip(extra, strides, strict=True)):
            raise Unlowerable("pads", "its output padding is beyond its strides")
    if rank == 1:
        x, weight = lifted(e, x), lifted(e, weight)
        whole, strides = (1, *whole), (1, *strides)
    value = e.value_of(x, channels_last(4))
    outputs = weight.shape[1]
    parts: list[SSAValue] = []
    inputs = _split(e, value, 3, groups)
    rows = weight.shape[0] // groups
    for n, part in enumerate(inputs):
        own = e.value_of(weight, (1, 2, 3, 0))
        if groups > 1:
            own = _rows(e, weight, n * rows, rows)
        bias = product.bias_value(outputs * groups)
        if groups > 1:
            bias = _slice(e, bias, n * outputs, outputs)
        parts.append(e.node(
            "TRANSPOSE_CONV",
            [
                _output_shape(e, value, (shape[0], *whole, outputs)),
                own,
                part,
                bias,
            ],
            (shape[0], *whole, outputs),
            product.element,
            padding="SAME" if same else "VALID",
            stride_w=strides[1],
            stride_h=strides[0],
            **{ACTIVATION: "NONE"},
        ))  # fmt: skip
    out = parts[0] if groups == 1 else _joined(e, parts, 3)
    if not same:
        counts4 = counts if rank == 2 else (1, *counts)
        begin = (0, *before, 0) if rank == 2 else (0, 0, *before, 0)
        extents = (shape[0], *counts4, outputs * groups)
        if extents != shape_of(out):
            out = e.node(
                "SLICE", [out, e.numbers(begin), e.numbers(extents)], extents, element_of(out)
            )
    out = lowered_rank(e, out) if rank == 1 else out
    return product.finished(out, channels_last(len(shape)))


def _output_shape(e: Emitter, value: SSAValue, shape: Sequence[int]) -> SSAValue:
    """The shape of a result, of which the batch may be that of `value`."""
    if shape[0] != DYNAMIC:
        return e.numbers(shape)
    known = e.node("SHAPE", [value], (4,), i32, out_type="INT32")
    batch = e.node("SLICE", [known, e.numbers([0]), e.numbers([1])], (1,), i32)
    return e.node(
        "CONCATENATION", [batch, e.numbers(shape[1:])], (4,), i32, axis=0, **{ACTIVATION: "NONE"}
    )


def _rows(e: Emitter, weight: LaidOut, start: int, count: int) -> SSAValue:
    """The weight of one group: some inputs, as [out, height, width, in]."""
    order = (1, 2, 3, 0)
    if weight.array is None:
        value = e.value_of(weight, order)
        extents = list(shape_of(value))
        begin, end = [0, 0, 0, start], [*extents[:3], start + count]
        return sliced(e, value, begin, end, [1] * 4)
    array = np.ascontiguousarray(weight.array[start : start + count])
    part = LaidOut(array.shape, identity_order(array.ndim), weight.params, None, array)
    return e.value_of(part, order)


def _slice(e: Emitter, vector: SSAValue, start: int, count: int) -> SSAValue:
    operands = [vector, e.numbers([start]), e.numbers([count])]
    known = constant_vector(e, vector)
    if known is not None:
        return e.const(known[start : start + count], element_of(vector))
    return e.node("SLICE", operands, (count,), element_of(vector))


def _split(e: Emitter, value: SSAValue, place: int, count: int) -> Sequence[SSAValue]:
    if count == 1:
        return [value]
    extents = list(shape_of(value))
    extents[place] //= count
    axis = e.const(np.array(place, np.int32), i32)
    results = [(extents, element_of(value))] * count
    return e.nodes("SPLIT", [axis, value], results, num_splits=count)


def _joined(e: Emitter, parts: Sequence[SSAValue], place: int) -> SSAValue:
    extents = list(shape_of(parts[0]))
    extents[place] = sum(shape_of(part)[place] for part in parts)
    return e.node(
        "CONCATENATION", parts, extents, element_of(parts[0]), axis=place, **{ACTIVATION: "NONE"}
    )

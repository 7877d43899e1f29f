"""Windows of convolutions and pools: `SAME`, `VALID`, or a `PAD` in front.

`SAME` pads so that there are ceil(size / stride) windows, and one element more at the end if the
number of pads is odd; `VALID` pads nothing. Any other padding is a `PAD` with zeros, which of codes
are zero points, or a `PADV2` with the lowest code in front of a maximum.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

import numpy as np
from xdsl.dialects.builtin import f32, i32
from xdsl.ir import Operation, SSAValue

from qdialect.analysis.codes import qparams_of
from qdialect.analysis.ranges import ranges
from qdialect.ir.behaviors.shapes import DYNAMIC, shape_of
from qdialect.ir.ops.base import NNOp
from qdialect.ir.quant import quant_element
from qdialect.plugins.common.lowering.emitter import element_of, integer_type
from qdialect.plugins.common.lowering.errors import Unlowerable
from qdialect.plugins.common.lowering.laid_out import LaidOut, channels_last, identity_order
from qdialect.plugins.common.lowering.windows import pool_windows as geometry_of
from qdialect.plugins.tflite.lowering.codes import ACTIVATION, finished, result_qparams, signed
from qdialect.plugins.tflite.lowering.emitter import Emitter
from qdialect.plugins.tflite.lowering.slices import sliced

Pairs = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Windows:
    """Where windows are over a value with channels last: `padding` is that of the op, behind a
    pad by `pads` (before, after; per spatial dimension) if there is one."""

    padding: str
    pads: Pairs | None


def fitting(
    size: Sequence[int],
    reach: Sequence[int],
    strides: Sequence[int],
    pads: Sequence[int],
    counts: Sequence[int],
) -> Windows:
    """Windows that reach over `reach` elements, `counts` of them, with `pads` (all befores, then
    all afters); the last windows may end in more pads than these."""
    rank = len(size)
    before = pads[:rank]
    if min(pads, default=0) < 0:
        raise Unlowerable("pads", "its pads are negative")
    dims = range(rank)
    known = DYNAMIC not in size
    if known:
        after = [
            max((counts[d] - 1) * strides[d] + reach[d] - before[d] - size[d], 0) for d in dims
        ]
    else:
        after = list(pads[rank:])
    if not any(before) and not any(after):
        return Windows("VALID", None)
    if known:
        total = [max((counts[d] - 1) * strides[d] + reach[d] - size[d], 0) for d in dims]
        same = all(
            counts[d] == -(-size[d] // strides[d]) and before[d] == total[d] // 2 for d in dims
        )
    else:
        same = all(
            strides[d] == 1
            and before[d] == (reach[d] - 1) // 2
            and before[d] + after[d] == reach[d] - 1
            for d in dims
        )
    if same:
        return Windows("SAME", None)
    return Windows("VALID", tuple(zip(before, after, strict=True)))


def padded(e: Emitter, value: SSAValue, pads: Pairs | None, fill: float = 0.0) -> SSAValue:
    """`value`, with channels last, with zeros around it, or the lowest number (`fill` -inf)."""
    if pads is None:
        return value
    return surrounded(e, value, ((0, 0), *pads, (0, 0)), fill)


def surrounded(e: Emitter, value: SSAValue, pads: Pairs, fill: float) -> SSAValue:
    """`PAD` or `PADV2`, of any dimensions."""
    element = element_of(value)
    extents = [
        n if n == DYNAMIC else n + a + b for n, (a, b) in zip(shape_of(value), pads, strict=True)
    ]
    paddings = e.const(np.array(pads, np.int32).reshape(-1, 2), i32)
    quantized = quant_element(value.type)
    if fill == 0.0:
        return e.node("PAD", [value, paddings], extents, element)
    if quantized is None:
        if fill == -inf:
            integer = integer_type(element)
            lowest = np.finfo(np.float32).min if integer is None else -(1 << integer.bitwidth - 1)
            fill = float(lowest)
        border = e.scalar(fill, element)
    else:
        params = quantized.qparams
        code = params.storage.min if fill == -inf else round(fill / params.scale)
        code = code if fill == -inf else code + params.zero_point
        if code == params.zero_point:
            return e.node("PAD", [value, paddings], extents, element)
        border = e.code(code, params)
    return e.node("PADV2", [value, paddings, border], extents, element)


def lifted(e: Emitter, x: LaidOut) -> LaidOut:
    """[N, C, W] as [N, C, 1, W]."""
    shape, params = (*x.shape[:2], 1, *x.shape[2:]), x.params
    if params is not None and params.axis is not None and params.axis > 1:
        params = params.with_axis(params.axis + 1)
    if x.array is not None:
        return LaidOut(shape, identity_order(4), params, None, x.array.reshape(shape))
    raised = [d + 1 if d == 2 else d for d in x.order]
    raised.insert(raised.index(3), 2)
    order = tuple(raised)
    value = e.reshaped(e.value_of(x, x.order), [shape[d] for d in order])
    return LaidOut(shape, order, params, value)


def lowered_rank(e: Emitter, value: SSAValue) -> SSAValue:
    """[N, 1, W, C] as [N, W, C]."""
    n, _, width, channels = shape_of(value)
    return e.reshaped(value, (n, width, channels))


# -- pools -------------------------------------------------------------------------------


def max_pool(e: Emitter, op: Operation, operands: Sequence[LaidOut]) -> LaidOut:
    """`nn.max_pool1d` and `nn.max_pool2d`: `MAX_POOL_2D` of codes or floats."""
    assert isinstance(op, NNOp)
    (x,), v, shape = operands, op.values, shape_of(op.results[0])
    params = x.params
    if params is None and element_of(e.value_of(x, x.order)) != f32:
        raise Unlowerable("type", "it pools no f32")
    if params is not None:
        result_qparams(params, wide=True)
        x = signed(e, x)
    if any(d != 1 for d in v["dilations"]) or x.rank > 4:
        value = by_slices(e, op, x, "MAXIMUM", -inf)
        if params is None:
            return e.result(value, channels_last(x.rank), None, shape)
        return finished(e, value, channels_last(x.rank), params, shape)
    windows = pool_windows(op)
    lowest = 0.0 if windows.pads is None or _is_above_zero(e, op) else -inf
    flat = x.rank == 3
    kernel, strides, pads = v["kernel"], v["strides"], windows.pads
    if flat:
        x, kernel, strides = lifted(e, x), (1, *kernel), (1, *strides)
        pads = None if pads is None else ((0, 0), *pads)
    value = padded(e, e.value_of(x, channels_last(4)), pads, lowest)
    out = pooled(
        e,
        "MAX_POOL_2D",
        value,
        kernel,
        strides,
        windows.padding,
        (1, *shape[2:]) if flat else shape[2:],
    )
    out = lowered_rank(e, out) if flat else out
    order = channels_last(len(shape))
    return (
        e.result(out, order, None, shape)
        if params is None
        else finished(e, out, order, params, shape)
    )


def by_slices(e: Emitter, op: NNOp, x: LaidOut, name: str, idle: float) -> SSAValue:
    """What all taps of each window combine to, along one dimension after the other, of a value with
    channels last; pads are `idle`."""
    if DYNAMIC in x.shape or DYNAMIC in shape_of(op.results[0]):
        raise Unlowerable("dynamic-shape", "the extents of its windows are not known")
    geometry = geometry_of(op)
    pads = None if not any(map(any, geometry.pads)) else geometry.pads
    value = padded(e, e.value_of(x, channels_last(x.rank)), pads, idle)
    for d, (size, stride, dilation, count) in enumerate(
        zip(op.values["kernel"], geometry.strides, geometry.dilations, geometry.result, strict=True)
    ):
        total: SSAValue | None = None
        for tap in range(size):
            shape = shape_of(value)
            begin, end, steps = [0] * len(shape), list(shape), [1] * len(shape)
            begin[d + 1], steps[d + 1] = tap * dilation, stride
            end[d + 1] = tap * dilation + (count - 1) * stride + 1
            part = sliced(e, value, begin, end, steps)
            if total is None:
                total = part
            else:
                more = {ACTIVATION: "NONE"} if name == "ADD" else {}
                total = e.node(name, [total, part], shape_of(part), element_of(part), **more)
        assert total is not None
        value = total
    return value


def pool_windows(op: NNOp) -> Windows:
    """The windows of a pool without dilations."""
    v, size = op.values, shape_of(op.operands[0])[2:]
    return fitting(size, v["kernel"], v["strides"], v["pads"], shape_of(op.results[0])[2:])


def pooled(
    e: Emitter,
    name: str,
    value: SSAValue,
    kernel: Sequence[int],
    strides: Sequence[int],
    padding: str,
    counts: Sequence[int],
) -> SSAValue:
    """A pool over [N, H, W, C]."""
    shape = shape_of(value)
    return e.node(
        name,
        [value],
        (shape[0], *counts, shape[3]),
        element_of(value),
        padding=padding,
        stride_w=strides[1],
        stride_h=strides[0],
        filter_width=kernel[1],
        filter_height=kernel[0],
        **{ACTIVATION: "NONE"},
    )


def _is_above_zero(e: Emitter, op: Operation) -> bool:
    """Whether no element is below 0, so that zeros are as good a border as the lowest number."""
    params = qparams_of(op.operands[0])
    if params is None or not params.is_per_tensor:
        return False
    zero = params.zero_point_list()[0]
    known = ranges(e.session).of(op.operands[0])
    return params.storage.min >= zero or (known is not None and known.low >= zero)

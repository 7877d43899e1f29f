"""Float ops that have a builtin of their own, beside the rows that all dialects share.

An activation behind a convolution becomes that of its node; everything else is one builtin where
there is one (`SOFTMAX`, `GELU`, `HARD_SWISH`, ...), so that a delegate sees what it has kernels
for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import inf, prod
from typing import Any

import numpy as np
from xdsl.dialects.builtin import StringAttr, f32
from xdsl.ir import Operation

from qdialect.analysis.codes import qparams_of
from qdialect.ir.behaviors.shapes import DYNAMIC, shape_of
from qdialect.ir.ops.base import NNOp
from qdialect.ir.ops.pooling import window_counts
from qdialect.plugins.common.lowering.emitter import Lowering, element_of, ranked, storage_of
from qdialect.plugins.common.lowering.errors import Unlowerable
from qdialect.plugins.common.lowering.floats.algebra import Pair
from qdialect.plugins.common.lowering.floats.kept import kept_node
from qdialect.plugins.common.lowering.floats.rows import float_rows
from qdialect.plugins.common.lowering.floats.writer import arithmetic_element
from qdialect.plugins.common.lowering.laid_out import LaidOut, channels_last
from qdialect.plugins.common.lowering.preconditions import (
    common_order,
    reduced_dimensions,
    spatial_dimensions,
)
from qdialect.plugins.tflite.lowering.algebra import TensorAlgebra, TfliteWriter
from qdialect.plugins.tflite.lowering.codes import ACTIVATION, fused
from qdialect.plugins.tflite.lowering.elementwise import BUILTINS, builtin_of
from qdialect.plugins.tflite.lowering.emitter import Emitter, constant_vector, options_of
from qdialect.plugins.tflite.lowering.reduction import reduced
from qdialect.plugins.tflite.lowering.windows import lifted, lowered_rank, pool_windows, pooled

_WITHOUT = ("nn.fully_connected", "nn.matmul")
"""Products, which are written with those of codes."""


def rows() -> Mapping[str, Lowering[Emitter]]:
    """The float form of every op that has one, by name."""
    shared = {n: row for n, row in float_rows(TfliteWriter).items() if n not in _WITHOUT}
    own: Mapping[str, Lowering[Emitter]] = {
        **dict.fromkeys(BUILTINS, _function),
        "nn.add": _add,
        "nn.relu": _clamp,
        "nn.clip": _clamp,
        "nn.prelu": _prelu,
        "nn.softmax": _softmax,
        "nn.batch_norm": _batch_norm,
        **{f"nn.avg_pool{rank}d": _average_pool for rank in (1, 2)},
        **{
            f"nn.global_avg_pool{rank}d": _reduction("MEAN", spatial_dimensions)
            for rank in (1, 2, 3)
        },
        **{
            f"nn.reduce_{name}": _reduction(kind, reduced_dimensions)
            for name, kind in (
                ("mean", "MEAN"),
                ("sum", "SUM"),
                ("max", "REDUCE_MAX"),
                ("min", "REDUCE_MIN"),
            )
        },
    }
    both = {**shared, **{n: _or(row, shared.get(n)) for n, row in own.items()}}
    return {
        **{n: _of_floats(row) for n, row in both.items()},
        "onnx.node": kept_node(TfliteWriter),
    }


def _of_floats(row: Lowering[Emitter]) -> Lowering[Emitter]:
    """Refuses floats that are to be codes."""

    def lower(e: Emitter, op: Operation, operands: Sequence[LaidOut]) -> Any:
        if any(qparams_of(value) is not None for value in op.results):
            raise Unlowerable("no-integers", "it has no form on integers", "compute-in-floats")
        return row(e, op, operands)

    return lower


class _Other(Exception):
    """The builtin does not fit: the shared row is written."""


def _or(row: Lowering[Emitter], shared: Lowering[Emitter] | None) -> Lowering[Emitter]:
    def lower(e: Emitter, op: Operation, operands: Sequence[LaidOut]) -> Any:
        try:
            return row(e, op, operands)
        except _Other as error:
            if shared is None:
                raise Unlowerable("form", str(error)) from None
            return shared(e, op, operands)

    return lower


def _function(e: Emitter, op: Operation, operands: Sequence[LaidOut]) -> LaidOut:
    """One builtin of f32."""
    assert isinstance(op, NNOp)
    (x,) = operands
    if arithmetic_element(x) != f32:
        raise _Other(f"it computes {storage_of(x)}")
    try:
        name, options = builtin_of(op)
    except Unlowerable as error:
        raise _Other(error.reason) from None
    return _one(e, name, x, **options)


def _one(e: Emitter, name: str, x: LaidOut, **options: Any) -> LaidOut:
    value = e.value_of(x, x.order)
    out = e.node(name, [value], shape_of(value), element_of(value), **options)
    return e.result(out, x.order, None, x.shape)


def _add(e: Emitter, op: Operation, operands: Sequence[LaidOut]) -> LaidOut:
    """A constant per channel behind a node without a bias becomes its bias."""
    for n, (x, added) in enumerate((operands, operands[::-1])):
        if x.value is None or added.array is None or not op.operands[n].has_one_use():
            continue
        made = options_of(x.value)
        if made is None or made[0].op.data not in _WITH_BIAS or x.shape != shape_of(op.results[0]):
            continue
        node, options = made
        bias = constant_vector(e, node.operands[2]) if len(node.operands) == 3 else None
        vector = _along_channels(added, x)
        idle = options.get(ACTIVATION) == StringAttr("NONE")
        if bias is None or vector is None or not idle or bias.dtype != np.float32 or bias.any():
            continue
        node.operands[2] = e.const(vector, f32)
        return e.result(x.value, x.order, None, x.shape)
    raise _Other("no bias")


def _along_channels(added: LaidOut, x: LaidOut) -> Any:
    """A constant that varies along the dimension that lies last, as a vector; else None."""
    if added.array is None or added.array.dtype != np.float32 or added.rank > x.rank:
        return None
    array = added.array.reshape((*(1 for _ in range(x.rank - added.rank)), *added.shape))
    last = x.order[-1]
    if array.size != array.shape[last] or array.size not in (1, x.shape[last]):
        return None
    return np.ascontiguousarray(np.broadcast_to(array.reshape(-1), (x.shape[last],)))


_WITH_BIAS = ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED")


def _clamp(e: Emitter, op: Operation, operands: Sequence[LaidOut]) -> LaidOut:
    """The activation of the node in front, an activation, or `MAXIMUM` and `MINIMUM`."""
    assert isinstance(op, NNOp)
    (x,) = operands
    if arithmetic_element(x) != f32:
        raise _Other("it computes integers")
    low, high = op.values.get("min"), op.values.get("max")
    bounds = (
        (0.0, inf)
        if op.name == "nn.relu"
        else (-inf if low is None else float(low), inf if high is None else float(high))
    )
    value = e.value_of(x, x.order)
    if op.operands[0].has_one_use() and value is x.value and fused(value, bounds):
        return e.result(value, x.order, None, x.shape)
    named = {
        (0.0, inf): "RELU",
        (0.0, 6.0): "RELU6",
        (-1.0, 1.0): "RELU_N1_TO_1",
    }.get(bounds)
    if named is None:
        raise _Other("bounds of its own")
    return _one(e, named, x)


def _prelu(e: Emitter, op: Operation, operands: Sequence[LaidOut]) -> LaidOut:
    """`PRELU`, with a slope that repeats over the batch."""
    x, slope = operands
    if arithmetic_element(x) != f32 or x.rank < 2 or not slope.is_constant:
        raise _Other("a slope that is computed")
    slope = ranked(e, slope, x.rank)
    if slope.shape[0] != 1:
        raise _Other("a slope along the batch")
    order = common_order([x], x.rank)
    if order[0] != 0:
        raise _Other("another order")
    alpha = e.value_of(slope, order)
    alpha = e.const(np.ascontiguousarray(_array(slope, order)[0]), f32)
    value = e.value_of(x, order)
    out = e.node("PRELU", [value, alpha], shape_of(value), f32)
    return e.result(out, order, None, x.shape)


def _array(x: LaidOut, order: Sequence[int]) -> Any:
    assert x.array is not None
    return x.array.transpose(order)


def _softmax(e: Emitter, op: Operation, operands: Sequence[LaidOut]) -> LaidOut:
    """`SOFTMAX` along the dimension that lies last."""
    assert isinstance(op, NNOp)
    (x,) = operands
    if arithmetic_element(x) != f32:
        raise _Other("it computes no f32")
    axis = int(op.values["axis"]) % x.rank
    order = x.order if x.order[-1] == axis else (*(d for d in x.order if d != axis), axis)
    value = e.value_of(x, order)
    out = e.node("SOFTMAX", [value], shape_of(value), f32, beta=1.0)
    return e.result(out, order, None, x.shape)


def _batch_norm(e: Emitter, op: Operation, operands: Sequence[LaidOut]) -> LaidOut:
    """x * scale + offset, folded from constants."""
    assert isinstance(op, NNOp)
    x, *parts = operands
    if arithmetic_element(x) != f32 or any(p.array is None or p.params for p in parts):
        raise _Other("statistics that are computed")
    scale, bias, mean, variance = (np.asarray(p.array, np.float64) for p in parts)
    factor = scale / np.sqrt(variance + float(op.values["epsilon"]))
    offset = bias - mean * factor
    column = (1, -1, *(1 for _ in x.shape[2:]))
    order = x.order
    algebra = TensorAlgebra(e, f32)
    value = e.value_of(x, order)
    steps: Sequence[tuple[Pair, Any]] = (("mul", factor), ("add", offset))
    for name, numbers in steps:
        array = numbers.astype(np.float32).reshape(column).transpose(order)
        value = algebra.pair(name, value, e.const(np.ascontiguousarray(array), f32))
    return e.result(value, order, None, x.shape)


def _reduction(name: str, axes_of: Callable[[Operation, int], Sequence[int]]) -> Lowering[Emitter]:
    def lower(e: Emitter, op: Operation, operands: Sequence[LaidOut]) -> LaidOut:
        (x,), shape = operands, shape_of(op.results[0])
        element = arithmetic_element(x)
        if element != f32 and name == "MEAN":
            raise _Other("means of integers")
        out, order = reduced(e, name, x, axes_of(op, x.rank), len(shape), element)
        return e.result(out, order, None, shape)

    return lower


def _average_pool(e: Emitter, op: Operation, operands: Sequence[LaidOut]) -> LaidOut:
    """`AVERAGE_POOL_2D`, which counts what is no pad."""
    assert isinstance(op, NNOp)
    (x,), v, shape = operands, op.values, shape_of(op.results[0])
    if arithmetic_element(x) != f32 or any(d != 1 for d in v.get("dilations", ())):
        raise _Other("dilations")
    windows = pool_windows(op)
    if windows.pads is not None:
        raise _Other("pads of its own")
    if windows.padding == "SAME":
        size = prod(v["kernel"])
        whole = DYNAMIC in shape[2:] or set(window_counts(op).flat) == {size}
        if whole or v["count_include_pad"]:
            raise _Other("it counts pads")
    kernel, strides, counts = v["kernel"], v["strides"], shape[2:]
    flat = x.rank == 3
    if flat:
        x, kernel, strides, counts = lifted(e, x), (1, *kernel), (1, *strides), (1, *counts)
    out = pooled(
        e,
        "AVERAGE_POOL_2D",
        e.value_of(x, channels_last(4)),
        kernel,
        strides,
        windows.padding,
        counts,
    )
    out = lowered_rank(e, out) if flat else out
    return e.result(out, channels_last(len(shape)), None, shape)

"""Pools and reductions: windows."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects.builtin import i32
from xdsl.ir import Operation, SSAValue

from qdialect.algebra.qparams import QParams
from qdialect.ir.behaviors.shapes import shape_of
from qdialect.ir.ops.base import NNOp
from qdialect.plugins.common.lowering.emitter import Lowering, storage_of
from qdialect.plugins.common.lowering.errors import Unlowerable
from qdialect.plugins.common.lowering.floats.writer import idle
from qdialect.plugins.common.lowering.laid_out import LaidOut, identity_order, reordered
from qdialect.plugins.common.lowering.preconditions import exact_result, quantized
from qdialect.plugins.common.lowering.windows import Geometry, mean_factors, pool_windows
from qdialect.plugins.stablehlo.lowering.emitter import Emitter, longs, pairs
from qdialect.plugins.stablehlo.lowering.rescale import centered, result_of, widened


def combined_windows(
    e: Emitter,
    x: LaidOut,
    value: SSAValue,
    init: SSAValue,
    windows: tuple[Sequence[int], Geometry],
    combine: str,
) -> SSAValue:
    """What each spatial window combines to; `value` is laid out as `x`."""
    kernel, g = windows
    order = x.order
    shape = reordered((*x.shape[:2], *g.result), order)
    return e.windows(
        value,
        init,
        shape,
        combine,
        window_dimensions=longs(reordered((1, 1, *kernel), order)),
        window_strides=longs(reordered((1, 1, *g.strides), order)),
        window_dilations=longs(reordered((1, 1, *g.dilations), order)),
        padding=pairs([((0, 0), (0, 0), *g.pads)[d] for d in order]),
    )


def max_pool(e: Emitter, op: Operation, operands: Sequence[LaidOut]) -> LaidOut:
    """`nn.max_pool1d`, `nn.max_pool2d`, `nn.max_pool3d`: what pads are is never the largest."""
    assert isinstance(op, NNOp)
    (x,), v, result = operands, op.values, shape_of(op.results[0])
    params = None if x.params is None else _one_scale(x)
    geometry = pool_windows(op)
    if params is None:
        element = storage_of(x)
        init = e.number(idle("max", element), element)
    else:
        init = e.scalar(params.storage.min, params)
    out = combined_windows(e, x, e.value_of(x, x.order), init, (v["kernel"], geometry), "maximum")
    return e.result(out, x.order, params, result)


def _one_scale(x: LaidOut) -> QParams:
    params = quantized(x)
    if not params.is_per_tensor:
        raise Unlowerable("axis", "StableHLO combines windows with one scale for each tensor")
    return params


def average_pool(e: Emitter, op: Operation, operands: Sequence[LaidOut]) -> LaidOut:
    """`nn.avg_pool1d`, ..: sums in 32 bits, which are means on another scale; where windows
    count different numbers of elements, each sum times what makes them alike."""
    exact_result(e, op)
    assert isinstance(op, NNOp)
    (x,), v, result = operands, op.values, shape_of(op.results[0])
    params = _one_scale(x)
    geometry = pool_windows(op)
    wide = centered(params, "i32")
    value = widened(e, e.value_of(x, x.order), params, x.order)
    out = combined_windows(e, x, value, e.scalar(0, wide), (v["kernel"], geometry), "add")
    factors = mean_factors(op)
    if factors is not None:
        factors = factors.reshape(1, 1, *result[2:])
        unit = QParams.per_tensor("i32", 1.0)
        whole = LaidOut(factors.shape, identity_order(x.rank), unit, None, factors)
        along = e.broadcast(whole, result, x.order)
        out = e.op("multiply", [out, along], shape_of(out), e.element(wide))
    return _means(e, op, out, wide, LaidOut(result, x.order, None))


def _means(e: Emitter, op: Operation, sums: SSAValue, wide: QParams, layout: LaidOut) -> LaidOut:
    """Sums as what the result's scale makes of them: the same integers."""
    result, extents = result_of(op), shape_of(sums)
    if wide != result:
        bits = e.op("bitcast_convert", [sums], extents, i32)
        sums = e.op("bitcast_convert", [bits], extents, e.element(result))
    return e.result(sums, layout.order, result, layout.shape)


def reduction(name: str, axes_of: Callable[[Operation, int], Sequence[int]]) -> Lowering[Emitter]:
    """Sums in 32 bits, and extrema: one window over the dimensions that go."""

    def lower(e: Emitter, op: Operation, operands: Sequence[LaidOut]) -> LaidOut:
        (x,), shape = operands, shape_of(op.results[0])
        params = _one_scale(x)
        if name == "add":
            exact_result(e, op)
            value = widened(e, e.value_of(x), params, identity_order(x.rank))
            params, start = centered(params, "i32"), 0
        else:
            value = e.value_of(x)
            start = params.storage.min if name == "maximum" else params.storage.max
        reduced = set(axes_of(op, x.rank))
        extents = [1 if d in reduced else n for d, n in enumerate(x.shape)]
        window = [n if d in reduced else 1 for d, n in enumerate(x.shape)]
        init = e.scalar(start, params)
        out = e.windows(value, init, extents, name, window_dimensions=longs(window))
        out = e.reshaped(out, shape)
        if name == "add":
            return _means(e, op, out, params, LaidOut(shape, identity_order(len(shape)), None))
        return e.result(out, identity_order(len(shape)), params, shape)

    return lower

"""Pools and reductions."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects import arith
from xdsl.dialects.builtin import i32
from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from qdialect.algebra.qparams import QParams
from qdialect.analysis.codes import qparams_of
from qdialect.ir.behaviors.shapes import shape_of
from qdialect.ir.ops.base import NNOp
from qdialect.passes.lowering.pointwise import Body
from qdialect.plugins.common.lowering.emitter import Lowering, storage_of
from qdialect.plugins.common.lowering.floats.writer import idle
from qdialect.plugins.common.lowering.laid_out import LaidOut, identity_order
from qdialect.plugins.common.lowering.preconditions import exact_result, quantized
from qdialect.plugins.common.lowering.windows import mean_factors, pool_windows
from qdialect.plugins.linalg.lowering.contraction import bits_of, padded, window_maps
from qdialect.plugins.linalg.lowering.elementwise import (
    extremum_op,
    laid_out_type,
    stepped,
    zero_of,
)
from qdialect.plugins.linalg.lowering.emitter import Compute, Emitter, over_windows
from qdialect.plugins.linalg.lowering.floats import combining


def _idle(params: QParams, largest: bool) -> int:
    """The bits of the code that no extremum takes before another."""
    low, high = params.storage.full_range
    return bits_of(low if largest else high, params)


def _extremum(params: QParams, largest: bool) -> Compute:
    make = extremum_op(params, largest)
    return lambda body, v: body.add(make(v[-1], v[0]))


def _sum(params: QParams) -> Compute:
    def compute(body: Body, v: Sequence[SSAValue]) -> SSAValue:
        return body.add(arith.AddiOp(v[-1], stepped(body, v[0], params)))

    return compute


def max_pool(e: Emitter, op: Operation, operands: Sequence[LaidOut]) -> LaidOut:
    """`nn.max_pool1d`, `nn.max_pool2d`, `nn.max_pool3d`: what pads are is never the largest."""
    assert isinstance(op, NNOp)
    (x,), v, result = operands, op.values, shape_of(op.results[0])
    params, element = x.params, storage_of(x)
    geometry = pool_windows(op)
    if params is None:
        lowest, compute = idle("max", element), combining("max", element)
    else:
        lowest, compute = _idle(params, largest=True), _extremum(params, largest=True)
    value = padded(e, e.value_of(x), geometry, lowest)
    init = e.filled_with(result, lowest, element)
    out = over_windows(e, value, init, v["kernel"], window_maps(geometry, "nc{o}{k}"), compute)
    return e.result(out, identity_order(x.rank), params, result)


def average_pool(e: Emitter, op: Operation, operands: Sequence[LaidOut]) -> LaidOut:
    """`nn.avg_pool1d`, `nn.avg_pool2d`: sums; where windows count different numbers of
    elements, each sum times what makes them alike."""
    exact_result(e, op)
    assert isinstance(op, NNOp)
    (x,), v, result = operands, op.values, shape_of(op.results[0])
    params = quantized(x)
    geometry = pool_windows(op)
    value = padded(e, e.value_of(x), geometry, bits_of(zero_of(params), params))
    init = e.filled(result, 32, 0)
    loops = window_maps(geometry, "nc{o}{k}")
    out = over_windows(e, value, init, v["kernel"], loops, _sum(params))
    factors = mean_factors(op)
    if factors is not None:
        out = e.elementwise(
            [out, e.const(factors, i32)],
            result,
            i32,
            lambda body, y: body.add(arith.MuliOp(y[0], y[1])),
        )
    return e.result(out, identity_order(x.rank), qparams_of(op.results[0]), result)


def reduction(name: str, axes_of: Callable[[Operation, int], Sequence[int]]) -> Lowering[Emitter]:
    """Sums in 32 bits, of codes less their zero point; extrema of codes."""

    def lower(e: Emitter, op: Operation, operands: Sequence[LaidOut]) -> LaidOut:
        (x,), shape = operands, shape_of(op.results[0])
        params = quantized(x)
        if name == "sum":
            exact_result(e, op)
            width, start, compute = 32, 0, _sum(params)
        else:
            width, largest = laid_out_type(params).width.data, name == "max"
            start, compute = _idle(params, largest), _extremum(params, largest)
        reduced = set(axes_of(op, x.rank))
        dims = [AffineExpr.dimension(d) for d in range(x.rank)]
        outer = [d for d in range(x.rank) if d not in reduced]
        init = e.filled([x.shape[d] for d in outer], width, start)
        kinds = "".join("r" if d in reduced else "p" for d in range(x.rank))
        out = e.loops(
            [(e.value_of(x), AffineMap.identity(x.rank))],
            (init, AffineMap(x.rank, 0, tuple(dims[d] for d in outer))),
            kinds,
            compute,
        )
        out = e.reshaped(out, shape)
        return e.result(out, identity_order(len(shape)), qparams_of(op.results[0]), shape)

    return lower

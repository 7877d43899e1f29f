"""Pools and reductions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import lcm

import numpy as np
from xdsl.dialects import arith
from xdsl.dialects.builtin import i32
from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from qdialect.analysis.codes import qparams_of
from qdialect.behaviors.shapes import shape_of
from qdialect.lowerings.emitter import element_of
from qdialect.lowerings.laid_out import LaidOut, plain
from qdialect.lowerings.linalg.arithmetic import (
    Lower,
    extremum_op,
    laid_out_type,
    quantized,
    stepped,
    zero_of,
)
from qdialect.lowerings.linalg.contraction import bits_of, padded, window_maps
from qdialect.lowerings.linalg.emitter import Compute, Emitter
from qdialect.lowerings.operands import exact_result
from qdialect.lowerings.windows import Geometry, fitted
from qdialect.ops.base import NNOp
from qdialect.ops.pooling import window_counts
from qdialect.passes.lowering.pointwise import Body
from qdialect.qparams import QParams


def _idle(params: QParams, largest: bool) -> int:
    """The bits of the code that no extremum takes before another."""
    low, high = params.storage.full_range
    return bits_of(low if largest else high, params)


def _extremum(params: QParams, largest: bool) -> Compute:
    make = extremum_op(params, largest)
    return lambda body, v: body.add(make(v[-1], v[0]))


def _sum(params: QParams) -> Compute:
    """The sum so far plus a code less its zero point."""

    def compute(body: Body, v: Sequence[SSAValue]) -> SSAValue:
        return body.add(arith.AddiOp(v[-1], stepped(body, v[0], params)))

    return compute


def _over_windows(
    e: Emitter,
    value: SSAValue,
    init: SSAValue,
    windows: tuple[Sequence[int], Geometry],
    compute: Compute,
) -> SSAValue:
    """`compute` over the elements of each window, `init` first."""
    kernel, geometry = windows
    dims, count = window_maps(geometry, "nc{o}{k}")
    outer = (*dims["n"], *dims["c"])
    # Of this tensor only the extents are used: those of the window.
    window = e.empty(kernel, element_of(value))
    reads = [
        (value, AffineMap(count, 0, (*outer, *dims["i"]))),
        (window, AffineMap(count, 0, tuple(dims["k"]))),
    ]
    result = init, AffineMap(count, 0, (*outer, *dims["o"]))
    spatial = len(kernel)
    return e.loops(reads, result, "p" * (2 + spatial) + "r" * spatial, compute)


def max_pool(e: Emitter, op: Operation, operands: Sequence[LaidOut]) -> LaidOut:
    """`nn.max_pool1d`, `nn.max_pool2d`, `nn.max_pool3d`: what pads are is never the largest."""
    assert isinstance(op, NNOp)
    (x,), v, result = operands, op.values, shape_of(op.results[0])
    params = quantized(x)
    geometry = fitted(x.shape[2:], v["kernel"], v["strides"], v["pads"], v["dilations"], result[2:])
    lowest, width = _idle(params, largest=True), laid_out_type(params).width.data
    value = padded(e, e.given(x), geometry, lowest)
    init = e.filled(result, width, lowest)
    compute = _extremum(params, largest=True)
    out = _over_windows(e, value, init, (v["kernel"], geometry), compute)
    return e.held(out, plain(x.rank), params, result)


def average_pool(e: Emitter, op: Operation, operands: Sequence[LaidOut]) -> LaidOut:
    """`nn.avg_pool1d`, `nn.avg_pool2d`: sums; where windows count different numbers of
    elements, each sum times what makes them alike."""
    exact_result(e, op)
    assert isinstance(op, NNOp)
    (x,), v, result = operands, op.values, shape_of(op.results[0])
    params, ones = quantized(x), (1,) * (x.rank - 2)
    geometry = fitted(x.shape[2:], v["kernel"], v["strides"], v["pads"], ones, result[2:])
    value = padded(e, e.given(x), geometry, bits_of(zero_of(params), params))
    init = e.filled(result, 32, 0)
    out = _over_windows(e, value, init, (v["kernel"], geometry), _sum(params))
    counts = window_counts(op)
    many = lcm(*{int(n) for n in counts.reshape(-1)})
    if (counts != many).any():
        factors = e.const((many // counts).reshape(result[2:]).astype(np.int32), i32)
        out = e.elementwise(
            [out, factors], result, i32, lambda body, y: body.add(arith.MuliOp(y[0], y[1]))
        )
    return e.held(out, plain(x.rank), qparams_of(op.results[0]), result)


def reduction(name: str, axes_of: Callable[[Operation, int], Sequence[int]]) -> Lower:
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
        kept = [d for d in range(x.rank) if d not in reduced]
        init = e.filled([x.shape[d] for d in kept], width, start)
        kinds = "".join("r" if d in reduced else "p" for d in range(x.rank))
        out = e.loops(
            [(e.given(x), AffineMap.identity(x.rank))],
            (init, AffineMap(x.rank, 0, tuple(dims[d] for d in kept))),
            kinds,
            compute,
        )
        out = e.reshaped(out, shape)
        return e.held(out, plain(len(shape)), qparams_of(op.results[0]), shape)

    return lower

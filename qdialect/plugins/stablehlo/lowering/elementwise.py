"""Elementwise ops, and lookups."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import i32
from xdsl.ir import Operation

from qdialect.ir.behaviors.shapes import shape_of
from qdialect.ir.quant import storage_type
from qdialect.plugins.common.lowering.emitter import Lowering, ranked
from qdialect.plugins.common.lowering.errors import Unlowerable
from qdialect.plugins.common.lowering.laid_out import LaidOut
from qdialect.plugins.common.lowering.preconditions import (
    clamp_bounds,
    common_order,
    common_qparams,
    quantized,
)
from qdialect.plugins.stablehlo.dialect import GatherDimensionsAttr
from qdialect.plugins.stablehlo.lowering.emitter import Emitter, longs
from qdialect.plugins.stablehlo.lowering.rescale import (
    centered,
    moved,
    pair_rounding,
    result_of,
    rounded,
    widened,
)


def arithmetic(name: str) -> Lowering[Emitter]:
    """`nn.add`, `nn.sub`, `nn.mul`, which round once; operands and result are stored alike
    there, so that some are widened first."""

    def lower(e: Emitter, op: Operation, operands: Sequence[LaidOut]) -> LaidOut:
        shape, result = shape_of(op.results[0]), result_of(op)
        parts = [ranked(e, x, len(shape)) for x in operands]
        lhs, rhs = (quantized(x) for x in parts)
        if not (lhs.is_per_tensor and rhs.is_per_tensor and result.is_per_tensor):
            raise Unlowerable("axis", "StableHLO computes with one scale for each tensor")
        order = common_order(parts, len(shape))
        values = [e.broadcast(x, shape, order) for x in parts]
        rounding = pair_rounding(op, lhs, rhs, result, product=name == "multiply")
        odd = rounding is not None and bool(result.zero_point % 2)
        storages = {p.storage.spelling for p in (lhs, rhs, result)}
        extents = [shape[d] for d in order]
        if len(storages) == 1 and not odd:
            out = rounded(
                e, result, rounding, order, lambda element: e.op(name, values, extents, element)
            )
            return e.result(out, order, result, shape)
        values = [widened(e, v, p, order) for v, p in zip(values, (lhs, rhs), strict=True)]
        wide = centered(result, "i32")
        out = rounded(
            e, wide, rounding, order, lambda element: e.op(name, values, extents, element)
        )
        if wide != result:
            out = moved(e, out, e.element(result, order))
        return e.result(out, order, result, shape)

    return lower


def extremum(name: str) -> Lowering[Emitter]:
    """`nn.maximum` and `nn.minimum` of codes on one scale."""

    def lower(e: Emitter, op: Operation, operands: Sequence[LaidOut]) -> LaidOut:
        shape, result = shape_of(op.results[0]), common_qparams(operands, result_of(op))
        if not result.is_per_tensor:
            raise Unlowerable("axis", "StableHLO compares with one scale for each tensor")
        order = common_order(operands, len(shape))
        values = [e.broadcast(x, shape, order) for x in operands]
        extents = [shape[d] for d in order]
        out = values[0]
        for value in values[1:]:
            out = e.op(name, [out, value], extents, e.element(result, order))
        return e.result(out, order, result, shape)

    return lower


def clamp(e: Emitter, op: Operation, operands: Sequence[LaidOut]) -> LaidOut:
    """`nn.relu` and `nn.clip` of codes."""
    (x,) = operands
    params, (low, high) = clamp_bounds(e, op, x)
    value = e.value_of(x, x.order)
    bounds = e.scalar(low, params), e.scalar(high, params)
    out = e.op("clamp", [bounds[0], value, bounds[1]], x.extents, e.element(params, x.order))
    return e.result(out, x.order, params, x.shape)


def table(e: Emitter, op: Operation, operands: Sequence[LaidOut]) -> LaidOut:
    """`nn.table`: rows of a constant, by the bits of the codes; the lowest comes first."""
    x, entries = operands
    params, result = quantized(x), result_of(op)
    if entries.array is None:
        raise Unlowerable("table", "its table is no constant")
    if entries.array.size != 1 << params.storage.width:
        raise Unlowerable("table", f"it has {entries.array.size} entries")
    if not result.is_per_tensor:
        raise Unlowerable("axis", "its results have parameters along a dimension")
    e.element(params)
    extents = x.extents
    bits = e.op("bitcast_convert", [e.value_of(x, x.order)], extents, storage_type(params))
    index = e.op("convert", [bits], extents, i32)
    first = e.const(np.array(params.storage.full_range[0], np.int32), i32)
    first = e.op("broadcast_in_dim", [first], extents, i32, broadcast_dimensions=longs([]))
    index = e.op("subtract", [index, first], extents, i32)
    index = e.reshaped(index, (*extents, 1))
    looked_up = e.const(entries.array.reshape(-1), e.element(result))
    out = e.op(
        "gather",
        [looked_up, index],
        extents,
        e.element(result),
        dimension_numbers=GatherDimensionsAttr(((), (0,), (), (), (0,), len(extents))),
        slice_sizes=longs([1]),
    )
    return e.result(out, x.order, result, x.shape)

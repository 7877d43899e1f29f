"""Rescales and casts.

A `QUANTIZE` from codes to codes has a multiplier of 8 bits behind the point, so it is written
where that gives every code of the rescale. Elsewhere a `MUL` with one constant code is a rescale by
a float, rounded once to the nearest, halves to even:

    %1 = quant.rescale %x : !a to !b

becomes

    %c = nn.constant dense<1> : tensor<i8> : tensor<!one>
    %1 = tflite.node "MUL" (%x, %c) ... : (!a, !one) -> !b
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from xdsl.dialects.builtin import f32
from xdsl.ir import Operation, SSAValue

from qdialect.algebra.arithmetic import table
from qdialect.algebra.fixed_point import FixedPoint, requantize_fixed
from qdialect.algebra.qparams import QParams
from qdialect.algebra.requantize import QuantGrid, quant_grids
from qdialect.algebra.rounding import Rounding
from qdialect.analysis.codes import qparams_of
from qdialect.ir.behaviors.shapes import DYNAMIC, shape_of, tensor_type
from qdialect.ir.quant import QCastOp, RescaleOp, arithmetic_of, cast_rounding
from qdialect.plugins.common.lowering.emitter import storage_of
from qdialect.plugins.common.lowering.errors import Unlowerable
from qdialect.plugins.common.lowering.laid_out import LaidOut, identity_order
from qdialect.plugins.tflite.lowering.codes import (
    ACTIVATION,
    finished,
    is_builtin,
    recoded,
    result_qparams,
    signed,
    signed_qparams,
)
from qdialect.plugins.tflite.lowering.emitter import Emitter, full_range, options_of
from qdialect.plugins.tflite.numerics import rescale as litert

_FOLDED = 4096
"""Constants of at most so many elements are dequantized at compile time."""


def grid(params: QParams) -> QuantGrid:
    """The scale, zero point and bounds of a tensor that has one of each."""
    grids = quant_grids(params)
    if len(grids) != 1:
        raise Unlowerable("axis", "its parameters vary along a dimension")
    return grids[0]


def rescale(e: Emitter, op: Operation, operands: Sequence[LaidOut]) -> LaidOut:
    """`quant.rescale`."""
    assert isinstance(op, RescaleOp)
    (x,), params, shape = operands, op.result_qparams, shape_of(op.result)
    source = op.input_qparams
    renamed = signed_or_none(params)
    if x.params is not None and renamed is not None and signed_or_none(source) == renamed:
        return renumbered(e, x, params)
    given, result = signed(e, x), result_qparams(params, wide=is_builtin(op))
    assert given.params is not None
    if given.params.storage.spelling != "i8" and not is_builtin(op):
        raise Unlowerable("storage", f"no kernel rescales {source.storage} exactly")
    if is_builtin(op):
        value = e.value_of(given, given.order)
        out = e.node("QUANTIZE", [value], shape_of(value), e.element(result, given.order))
        return finished(e, out, given.order, params, shape)
    a, b = grid(given.params), grid(result)
    if op.fixed_point is not None:
        if len(op.fixed_point) != 1:
            raise Unlowerable("axis", "its multipliers vary along a dimension")
        pair = FixedPoint(*op.fixed_point[0])
        meant = requantize_fixed(litert.all_codes(a), a, b, pair, op.rounding)
    else:
        floats = arithmetic_of(op).floats(source.expressed)
        meant = table(a, b, op.rounding, floats)
    value = rescaled(e, given, result, meant)
    return finished(e, value, given.order, params, shape)


def signed_or_none(params: QParams) -> QParams | None:
    """`params` as i8 codes, None if it cannot be so."""
    try:
        made = signed_qparams(params)
    except Unlowerable:
        return None
    return made if params.storage.width == 8 else None


def renumbered(e: Emitter, x: LaidOut, params: QParams) -> LaidOut:
    """`x` in u8 in place of i8, or the other way round."""
    assert x.params is not None
    if full_range(x.params) == full_range(params):
        return finished(e, e.value_of(x, x.order), x.order, params, x.shape)
    x = signed(e, x)
    return finished(e, e.value_of(x, x.order), x.order, params, x.shape)


def rescaled(
    e: Emitter, x: LaidOut, result: QParams, meant: np.ndarray[tuple[int, ...], np.dtype[np.int64]]
) -> SSAValue:
    """i8 codes on another scale, as `meant` for each code; Unlowerable if nothing gives that."""
    assert x.params is not None
    a, b = grid(x.params), grid(result)
    value, element = e.value_of(x, x.order), e.element(result, x.order)
    quantized = litert.quantized_again(a, b)
    if quantized is not None and np.array_equal(quantized, meant):
        return e.node("QUANTIZE", [value], shape_of(value), element)
    factor = litert.exact_factor(a, b, meant)
    if factor is None:
        made = litert.multiplied(a, 1.0, b)
        distance = np.abs(_steps(a, b) - np.floor(_steps(a, b)) - 0.5)
        if not litert.agrees(made, (meant, distance), ties=e.allows_ties):
            raise Unlowerable("scale", "no kernel rescales all of its codes like it")
        factor = 1.0
    one = e.code(1, QParams.per_tensor("i8", factor, 0))
    return e.node("MUL", [value, one], shape_of(value), element, **{ACTIVATION: "NONE"})


def _steps(a: QuantGrid, b: QuantGrid) -> Any:
    return (litert.all_codes(a) - a.zero) * (a.scale / b.scale)


def on_scale(e: Emitter, x: LaidOut, params: QParams) -> LaidOut:
    """An operand of an op whose result has `params`, with these qparams."""
    assert x.params is not None
    if x.params == params:
        return x
    if full_range(x.params) == full_range(params) and params.storage.is_full_range:
        return LaidOut(x.shape, x.order, params, x.value, x.array)
    if not (x.params.is_per_tensor and params.is_per_tensor) or e.source is None:
        raise Unlowerable("qparams", "its operands are not on one scale", "integerize")
    given, result = signed(e, x), result_qparams(params)
    assert given.params is not None
    if given.params.storage.spelling != "i8" or not params.storage.is_full_range:
        raise Unlowerable("qparams", "its operands are not on one scale", "integerize")
    a, b = grid(given.params), grid(result)
    meant = table(a, b, Rounding.HALF_EVEN, arithmetic_of(e.source).floats(params.expressed))
    if given.array is not None:
        codes = meant[given.array.astype(np.int64) - a.low].astype(np.int8)
        made = LaidOut(x.shape, identity_order(x.rank), result, None, codes)
        return made if params.storage.signed else _unsigned(made, params)
    value = rescaled(e, given, result, meant)
    if not params.storage.signed:
        value = recoded(e, value, params, x.order)
    return LaidOut(x.shape, x.order, params, value)


def _unsigned(x: LaidOut, params: QParams) -> LaidOut:
    assert x.array is not None
    return LaidOut(
        x.shape, x.order, params, None, (x.array.astype(np.int64) + 128).astype(np.uint8)
    )


# -- casts -------------------------------------------------------------------------------


def dequantize(e: Emitter, op: Operation, operands: Sequence[LaidOut]) -> LaidOut:
    """`quant.dcast`: `DEQUANTIZE`, (q - z) * s with one rounding. A small constant is floats."""
    (x,), params = operands, operands[0].params
    if params is None or params.expressed != "f32":
        raise Unlowerable("expressed", f"it casts {params and params.expressed}")
    if x.array is not None and (
        x.array.size <= _FOLDED or params.storage.width == 32 or params.layout.value == "block"
    ):
        array = _dequantized(x.array, params)
        return LaidOut(x.shape, identity_order(x.rank), None, None, array)
    shape = shape_of(op.results[0])
    if params.storage.width == 32:
        return _scaled(e, x, params, shape)
    if x.array is not None:
        return LaidOut(shape, identity_order(x.rank), None, e.floats_of(x))
    value = e.value_of(x, x.order)
    out = e.node("DEQUANTIZE", [value], shape_of(value), f32)
    return e.result(out, x.order, None, shape)


def _dequantized(
    codes: np.ndarray[tuple[int, ...], np.dtype[np.generic]], params: QParams
) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    scales: Any = params.scale_array().astype(np.float32)
    zeros: Any = params.zero_point_array()
    if params.layout.value == "block":
        for d, block in params.blocks:
            scales, zeros = (
                np.repeat(a, block, axis=d)[_first(d, codes.shape[d])] for a in (scales, zeros)
            )
    else:
        column = [1] * codes.ndim
        if params.axis is not None:
            column[params.axis] = -1
        scales, zeros = scales.reshape(column), zeros.reshape(column)
    return (codes.astype(np.int64) - zeros).astype(np.float32) * scales


def _first(dimension: int, count: int) -> tuple[slice, ...]:
    """The first indices of a dimension."""
    return (*(slice(None) for _ in range(dimension)), slice(count))


def _scaled(e: Emitter, x: LaidOut, params: QParams, shape: Sequence[int]) -> LaidOut:
    """i32 sums as floats: `CAST` and `MUL`, which hold 24 bits."""
    if any(params.zero_point_list()) or not e.allows_ties:
        raise Unlowerable("storage", "no kernel dequantizes i32")
    value = e.value_of(x, x.order)
    floats = e.node("CAST", [value], shape_of(value), f32)
    scales = np.array(params.scale_list(), np.float32)
    column = [1] * x.rank
    if params.axis is not None:
        column[x.order.index(params.axis)] = -1
    factor = e.const(scales.reshape(column if params.axis is not None else ()), f32)
    out = e.node("MUL", [floats, factor], shape_of(value), f32, **{ACTIVATION: "NONE"})
    return e.result(out, x.order, None, shape)


def quantize(e: Emitter, op: Operation, operands: Sequence[LaidOut]) -> LaidOut:
    """`quant.qcast`: `QUANTIZE`, to the nearest code, halves to even."""
    assert isinstance(op, QCastOp)
    (x,), params, shape = operands, qparams_of(op.result), shape_of(op.result)
    if params is None or params.expressed != "f32" or storage_of(x) != f32:
        raise Unlowerable("expressed", "it casts no f32")
    if cast_rounding(op).in_reals is not Rounding.HALF_EVEN and not e.allows_ties:
        raise Unlowerable("rounding", f"it rounds {cast_rounding(op).value}", "half_even")
    if not params.is_per_tensor:
        raise Unlowerable("axis", "its result has parameters along a dimension")
    value = e.value_of(x, x.order)
    if params.storage.spelling == "i32" and e.allows_ties:
        return _as_sums(e, value, x, params, shape)
    wide = params.storage.spelling == "i16"
    result = full_range(params) if wide else result_qparams(params)
    out = e.node("QUANTIZE", [value], shape_of(value), e.element(result, x.order))
    if wide:
        return e.result(out, x.order, params, shape)
    return finished(e, out, x.order, params, shape)


def _as_sums(
    e: Emitter, value: SSAValue, x: LaidOut, params: QParams, shape: Sequence[int]
) -> LaidOut:
    """Floats as i32: `DIV`, `ROUND`, `CAST`."""
    if any(params.zero_point_list()):
        raise Unlowerable("zero-points", "its result is i32 with a zero point")
    extents = shape_of(value)
    scale = e.scalar(params.scale_list()[0], f32)
    steps = e.node("DIV", [value, scale], extents, f32, **{ACTIVATION: "NONE"})
    steps = e.node("ROUND", [steps], extents, f32)
    return e.result(e.node("CAST", [steps], extents, e.element(params)), x.order, params, shape)


def read_as(e: Emitter, op: Operation, operands: Sequence[LaidOut]) -> LaidOut:
    """`quant.scast`: codes read as plain integers, or the other way: a `RESHAPE` to the shape that
    they have, which copies codes whatever they stand for."""
    (x,), params, shape = operands, qparams_of(op.results[0]), shape_of(op.results[0])
    value = e.value_of(x, x.order)
    made = options_of(value)
    if made is not None and made[0].op.data == "RESHAPE":
        source = made[0].operands[0]
        if shape_of(source) == shape_of(value):
            value = source
    if list(shape).count(DYNAMIC) > 1:
        raise Unlowerable("dynamic-shape", "it reads more than one unknown extent")
    element = e.element(params, x.order) if params else tensor_type(op.results[0]).element_type
    extents = shape_of(value)
    taken, given = [value, e.numbers(extents)], [(extents, element)]
    out = e.unchecked("RESHAPE", taken, given, new_shape=list(extents)).results[0]
    return e.result(out, x.order, params, shape)


__all__ = ["dequantize", "on_scale", "quantize", "rescale"]

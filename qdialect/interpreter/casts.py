"""Kernels of the `quant` dialect.

Casts are float ops, as ONNX QuantizeLinear and DequantizeLinear: in f32 with the
scale rounded to f32 (f64 for f64 expressed types; f16 and bf16 are evaluated in
f32, as ONNX Runtime does).

    dcast:  x = float(q - z) * s            one rounding of q - z, one of the product
    qcast:  q = clamp(R(x / s) + z)         x / s rounded to float first

R is `quant.rounding` (half even without one). With `reciprocal` it is half even of
x * (1 / s) instead, as PyTorch computes it: 1 / s is a double, rounded to float, and
the product is rounded to float. NaN gives the lowest integer and infinities saturate,
as in ONNX Runtime (PyTorch makes 0 of NaN, and of what is too large for i32 the lowest
integer). `quant.rescale` is exact, unless the module's
arithmetic is that of floats (`in_floats`).

Float storage and look-up tables: q is the number a code stands for, q - z is taken in
float64 first, and R(x / s) + z the number nearest to x / s + z (see `codes`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import IntegerType, UnrealizedConversionCastOp
from xdsl.ir import Attribute, Operation

from qdialect.algebra.qparams import QParams
from qdialect.algebra.rounding import Rounding
from qdialect.errors import UnsupportedError
from qdialect.interpreter.codes import is_coded
from qdialect.interpreter.quantize import (
    code_offsets,
    field,
    load,
    offsets,
    quantize,
    real_rounding,
    round_floats,
    spread,
    store_codes,
)
from qdialect.interpreter.ratio import round_division
from qdialect.interpreter.real import Real
from qdialect.interpreter.values import Array, Evaluation, Kernel, as_float, place, storage_dtype
from qdialect.ir.quant import (
    DCastOp,
    QCastOp,
    RescaleOp,
    SCastOp,
    UniformType,
    cast_rounding,
    element_type,
    expressed_type,
    quant_element,
)


def _qparams(op: Operation, type: Attribute) -> QParams:
    element = quant_element(type)
    if element is None:
        raise UnsupportedError(
            f"'{op.name}' needs known qparams, but has type {element_type(type)}", where=place(op)
        )
    return element.qparams


def _working_dtype(qparams: QParams, evaluation: Evaluation) -> np.dtype[np.floating]:
    wide = evaluation.floats == "real" or qparams.expressed == "f64"
    return np.dtype(np.float64 if wide else np.float32)


def qcast(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> list[Array]:
    """q = clamp(R(x / s) + z)"""
    qparams = _qparams(op, op.results[0].type)
    rounding = real_rounding(op, cast_rounding(op))
    dtype = _working_dtype(qparams, evaluation)
    scales, zero_points = field(qparams, operands[0].shape)
    quotient = _quotient(operands[0].astype(dtype), scales, rounding)
    if is_coded(qparams.storage):
        steps = Real.floats(np.atleast_1d(quotient))
        return [store_codes(steps, zero_points, qparams.storage, rounding).reshape(quotient.shape)]
    return [_stored(quotient, zero_points, qparams, rounding)]


def dequantized(codes: Array, qparams: QParams) -> Array:
    """Codes of integer storage as floats of the expressed type."""
    dtype = np.dtype(np.float64 if qparams.expressed == "f64" else np.float32)
    product = offsets(codes, qparams).astype(dtype) * field(qparams, codes.shape)[0].astype(dtype)
    return as_float(product.reshape(codes.shape), expressed_type(qparams))


def quantized(values: Array, qparams: QParams, rounding: Rounding) -> Array:
    """Floats as codes of integer storage: clamp(R(x / s) + z), the quotient or the product with
    the reciprocal a float."""
    dtype = np.dtype(np.float64 if qparams.expressed == "f64" else np.float32)
    scales, zero_points = field(qparams, values.shape)
    quotient = _quotient(values.astype(dtype), scales, rounding)
    return _stored(quotient, zero_points, qparams, rounding).reshape(values.shape)


def _quotient(values: Array, scales: NDArray[np.float64], rounding: Rounding) -> Array:
    """x / s, or x * (1 / s), in the type of the values."""
    if rounding is not Rounding.RECIPROCAL:
        return values / scales.astype(values.dtype)
    return values * (1 / scales).astype(values.dtype)


def _stored(quotient: Array, zero_points: Array, qparams: QParams, rounding: Rounding) -> Array:
    low, high = qparams.storage.min - zero_points, qparams.storage.max - zero_points
    rounded = np.clip(round_floats(np.asarray(quotient, np.float64), rounding), low, high)
    steps = np.where(np.isnan(rounded), low, rounded).astype(np.int64)
    return (steps + zero_points).astype(storage_dtype(qparams.storage))


def dcast(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> list[Array]:
    """x = float(q - z) * s"""
    qparams = _qparams(op, op.operands[0].type)
    dtype = _working_dtype(qparams, evaluation)
    scales = field(qparams, operands[0].shape)[0].astype(dtype)
    if is_coded(qparams.storage):
        product = code_offsets(operands[0], qparams).approx.astype(dtype) * scales
    else:
        product = offsets(operands[0], qparams).astype(dtype) * scales
    return [evaluation.as_float(product, op.results[0].type)]


def scast(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> list[Array]:
    """The same `width` bits under the result's signedness."""
    source, target = op.operands[0].type, op.results[0].type
    storage = _qparams(op, source if quant_element(source) else target).storage
    if is_coded(storage):
        raise UnsupportedError(
            f"'{op.name}' has no meaning for storage {storage} of floats or with a table",
            where=place(op),
        )
    return [_same_bits(operands[0], storage.width, evaluation.dtype(target))]


def conversion(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> list[Array]:
    """The same bits under another signedness, or as the float that a type stores: how
    importers write `i8` for `ui8`, and ONNX's floats of 8 bits for quantized values."""
    types = [element_type(value.type) for value in (*op.operands, *op.results)]
    if _is_stored_float(types):
        return [operands[0]]
    widths = {cast(IntegerType, t).width.data if isinstance(t, IntegerType) else 0 for t in types}
    width = widths.pop()
    if len(types) != 2 or widths or not width:
        shown = ", ".join(map(str, types))
        raise UnsupportedError(f"'{op.name}' between {shown} has no meaning", where=place(op))
    return [_same_bits(operands[0], width, evaluation.dtype(op.results[0].type))]


def _is_stored_float(types: Sequence[Attribute]) -> bool:
    """Whether two types are a quantized one of float storage and that float, either way."""
    storages = [t.qparams.storage for t in types if isinstance(t, UniformType)]
    plain = [str(t) for t in types if not isinstance(t, UniformType)]
    return (
        len(storages) == len(plain) == 1
        and storages[0].is_float
        and (storages[0].quantile is None and storages[0].spelling == plain[0])
    )


def _same_bits(stored: Array, width: int, dtype: np.dtype[Any]) -> Array:
    """Integers of `width` bits as a dtype that may have another signedness."""
    if stored.dtype == dtype or width >= 64:
        return stored.astype(dtype)
    bits = stored.astype(np.int64) & ((1 << width) - 1)
    if dtype.kind == "i":
        bits = (bits ^ (1 << (width - 1))) - (1 << (width - 1))
    return bits.astype(dtype)


def rescale(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> list[Array]:
    """Real form: q' = clamp(R((q - z) * s / s') + z'), exactly. Fixed-point form:
    q' = clamp(R((q - z) * multiplier * 2^-shift) + z'), exactly.

    With `gemmlowp` (fixed point only) R is TOSA's double rounding:
    R(v * m * 2^-n) = (v * m + r) >> n, r = 2^(n-1), plus 2^30 if n > 31 with the
    sign of v. With `ruy` (likewise) that is plus 2^30 whatever the sign is.
    """
    rescale = cast(RescaleOp, op)
    source, target = (_qparams(op, v.type) for v in (op.operands[0], op.results[0]))
    if rescale.fixed_point is not None:
        return [_fixed_point(operands[0], source, target, rescale)]
    rounding = real_rounding(op, rescale.rounding)
    stored = np.atleast_1d(operands[0])
    result = quantize(load(stored, op.operands[0].type), target, rounding)
    return [result.reshape(operands[0].shape)]


def _fixed_point(stored: Array, source: QParams, target: QParams, op: RescaleOp) -> Array:
    pairs = np.array(op.fixed_point, np.int64)
    owner = source if target.is_per_tensor else target
    cut = tuple(slice(extent) for extent in stored.shape)
    columns = [pairs[:, 0], pairs[:, 1]]
    if len(pairs) > 1:
        grids = [column.reshape(owner.grid) for column in columns]
        columns = [spread(owner, grid, stored.ndim)[cut] for grid in grids]
    multiplier, shift = columns
    steps = offsets(stored, source)
    if np.abs(steps).max(initial=0) >= 1 << 31:
        steps = steps.astype(object)
    rounded = _shift(steps, multiplier, shift, op.rounding)
    zero_points = field(target, stored.shape)[1]
    storage = target.storage
    result = np.clip(rounded + zero_points, storage.min, storage.max)
    return result.astype(storage_dtype(storage)).reshape(stored.shape)


def _shift(
    steps: Array, multiplier: NDArray[np.int64], shift: NDArray[np.int64], rounding: Rounding
) -> Array:
    """R(steps * multiplier * 2^-shift)"""
    product = steps * multiplier
    if not rounding.two_stage:
        return round_division(product, np.int64(1) << shift, rounding)
    nudge = np.where(shift > 0, np.int64(1) << np.maximum(shift - 1, 0), 0)
    down = (steps < 0) & (rounding is Rounding.GEMMLOWP)
    sign = np.where(down, -(1 << 30), 1 << 30)
    return (product + nudge + np.where(shift > 31, sign, 0)) >> shift


KERNELS: Mapping[str, Kernel] = {
    QCastOp.name: qcast,
    DCastOp.name: dcast,
    SCastOp.name: scast,
    RescaleOp.name: rescale,
    UnrealizedConversionCastOp.name: conversion,
}

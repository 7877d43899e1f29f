"""IREE's `quantize_affine` and `dequantize_affine`, in f32 as IREE computes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
from xdsl.dialects.builtin import AffineMapAttr, ArrayAttr, IntegerAttr
from xdsl.ir import Operation
from xdsl.ir.affine import AffineDimExpr

from qdialect.errors import UnsupportedError
from qdialect.interpreter.values import Array, Evaluation, Kernel
from qdialect.plugins.linalg.interpreter.scalars import signed, unsigned
from qdialect.plugins.linalg.iree_linalg_ext import DequantizeAffineOp, QuantizeAffineOp
from qdialect.plugins.tosa.interpreter.values import stored


def _parameters(op: Operation, operands: Sequence[Array]) -> list[Array]:
    """Scales as doubles and zero points, shaped to broadcast to the input."""
    maps = cast("ArrayAttr[AffineMapAttr]", op.properties["indexing_maps"]).data
    found: list[Array] = []
    for one, array in zip(maps[1:3], operands[1:3], strict=True):
        shape = [1] * operands[0].ndim
        for expr, extent in zip(one.data.results, array.shape, strict=True):
            if not isinstance(expr, AffineDimExpr):
                raise UnsupportedError("parameters must lie along dimensions of the input")
            shape[expr.position] = extent
        found.append(array.reshape(shape))
    return [found[0].astype(np.float64), signed(found[1])]


def _quantize(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> list[Array]:
    """clamp(roundeven(x / scale) + zero_point)"""
    scale, zero = _parameters(op, operands)
    low, high = (
        cast("IntegerAttr[Any]", op.properties[name]).value.data
        for name in ("quant_min", "quant_max")
    )
    ratio = evaluation.as_float(operands[0].astype(np.float64) / scale, op.operands[0].type)
    codes = np.clip(np.rint(ratio.astype(np.float64)) + zero, low, high)
    whole = np.where(np.isnan(codes), low, codes).astype(np.int64)
    return [np.asarray(stored(whole, op.results[0].type, evaluation))]


def _dequantize(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> list[Array]:
    """float(q - zero_point) * scale"""
    scale, zero = _parameters(op, operands)
    codes = operands[0]
    if "input_unsigned" in op.properties:
        numbers = unsigned(codes, op.operands[0].type).astype(np.int64)
    else:
        numbers = signed(codes)
    steps = stored((numbers - zero).astype(np.float64), op.results[0].type, evaluation)
    return [np.asarray(stored(steps.astype(np.float64) * scale, op.results[0].type, evaluation))]


KERNELS: Mapping[str, Kernel] = {
    QuantizeAffineOp.name: _quantize,
    DequantizeAffineOp.name: _dequantize,
}

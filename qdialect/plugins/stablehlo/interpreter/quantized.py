"""Quantized types in StableHLO: dequantize, compute in the expressed type, quantize.

    dequantize(q) = (q - zero point) * scale
    quantize(x) = roundeven(clamp(x / scale + zero point))

each step a float operation of the expressed type, as the specification defines it. What only
moves codes, or selects among codes on one scale, stays on codes; `reduce` combines codes with its
body, whose ops are computed like all others.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.ir import Attribute

from qdialect.algebra.qparams import QParams
from qdialect.errors import UnsupportedError
from qdialect.interpreter.codes import is_coded
from qdialect.interpreter.quantize import field
from qdialect.interpreter.values import Array, storage_dtype
from qdialect.ir.quant import expressed_type, quant_element, with_element
from qdialect.plugins.stablehlo.interpreter.call import Call, Function

_ON_CODES = frozenset(
    (
        *("bitcast_convert", "broadcast", "broadcast_in_dim", "constant", "dynamic_slice"),
        *("dynamic_broadcast_in_dim", "dynamic_gather", "dynamic_reshape", "dynamic_update_slice"),
        *("gather", "get_dimension_size", "get_tuple_element", "optimization_barrier", "reshape"),
        *("real_dynamic_slice", "reverse", "scatter", "slice", "sort", "transpose", "tuple"),
        *("case", "if", "while", "reduce", "reduce_window", "map", "select_and_scatter"),
        *("uniform_dequantize", "uniform_quantize"),
    )
)
_IF_ALIKE = frozenset(("concatenate", "dynamic_pad", "pad", "select"))
"""On codes where all have one quantized type."""


def on_quantized(name: str, function: Function) -> Function:
    """`function` also for quantized operands and results."""
    if name in _ON_CODES:
        return function

    def kernel(call: Call, operands: Sequence[Array]) -> Sequence[Array]:
        kinds = (*call.operand_types, *call.result_types)
        known = {e for t in kinds if (e := quant_element(t)) is not None}
        if not known or (name in _IF_ALIKE and len(known) == 1):
            return function(call, operands)
        floats = [
            x if (q := quant_element(t)) is None else dequantized(x, q.qparams)
            for x, t in zip(operands, call.operand_types, strict=True)
        ]
        expressed = Call(
            call.op,
            [_expressed(t) for t in call.operand_types],
            [_expressed(t) for t in call.result_types],
            call.evaluation,
        )
        results = function(expressed, floats)
        return [
            r if (q := quant_element(t)) is None else quantized(r, q.qparams)
            for r, t in zip(results, call.result_types, strict=True)
        ]

    return kernel


def _expressed(kind: Attribute) -> Attribute:
    element = quant_element(kind)
    return kind if element is None else with_element(kind, expressed_type(element.qparams))


def _parameters(shape: tuple[int, ...], qparams: QParams) -> tuple[Array, Array]:
    if is_coded(qparams.storage):
        raise UnsupportedError(f"StableHLO computes with integers, not with {qparams.storage}")
    scales, zeros = field(qparams, shape)
    return scales.astype(np.float32), zeros


def dequantized(codes: Array, qparams: QParams) -> Array:
    """The floats that codes stand for."""
    scales, zeros = _parameters(codes.shape, qparams)
    return (codes.astype(np.int64) - zeros).astype(np.float32) * scales


def quantized(x: Array, qparams: QParams) -> Array:
    """The codes of floats; NaN becomes code 0, as it does in the project's own test data."""
    scales, zeros = _parameters(x.shape, qparams)
    storage = qparams.storage
    # 32-bit codes have more digits than f32, of which the quotient of a sum is exact.
    wide = np.float64 if storage.width > 16 else np.float32
    quotient = x.astype(wide) / scales.astype(wide)
    steps = np.clip(quotient + zeros.astype(wide), storage.min, storage.max)
    steps = np.where(np.isnan(steps), max(storage.min, 0), np.rint(steps))
    return steps.astype(np.int64).astype(storage_dtype(storage))


def _quantize(call: Call, operands: Sequence[Array]) -> list[Array]:
    (x,), source = operands, quant_element(call.operand_types[0])
    target = quant_element(call.result_types[0])
    if target is None:
        raise UnsupportedError(f"'{call.name}' has a result of {call.result_types[0]}")
    floats = x if source is None else dequantized(x, source.qparams)
    return [quantized(floats, target.qparams)]


def _dequantize(call: Call, operands: Sequence[Array]) -> list[Array]:
    element = quant_element(call.operand_types[0])
    if element is None:
        raise UnsupportedError(f"'{call.name}' has an operand of {call.operand_types[0]}")
    return [call.stored(dequantized(operands[0], element.qparams))]


FUNCTIONS: dict[str, Function] = {
    "uniform_dequantize": _dequantize,
    "uniform_quantize": _quantize,
}
"""By name, without the dialect."""

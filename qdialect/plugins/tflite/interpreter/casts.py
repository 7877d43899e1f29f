"""What LiteRT computes for casts between floats and codes of 8 or 16 bits.

| | ref | opt | xnn |
|---|---|---|---|
| qcast | half away of x / s | half even of x * fl(1 / s) | half even of x * fl(1 / s) |
| dcast | (q - z) * s | q * s - fl(z * s) | (q - z) * s |

All in float32. Per axis, opt is ref. What is left of whole vectors of 8 elements opt quantizes half
away of x / s in double, and dequantizes as ref does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from xdsl.ir import Operation

from qdialect.interpreter.values import Array, Evaluation
from qdialect.ir.quant import DCastOp, QCastOp
from qdialect.plugins.tflite.interpreter.fixed_point import half_away
from qdialect.plugins.tflite.interpreter.tensors import Quantized, in_vectors, quantized

if TYPE_CHECKING:
    from qdialect.plugins.tflite.interpreter import Row

Floats = NDArray[np.float32]
_CODES = ("i8", "u8", "i16")


Steps = Callable[[Operation, Floats, Quantized], NDArray[np.int64]]
Values = Callable[[Operation, Array, Quantized], Floats]


def _qcast(steps: Steps) -> Row:
    def run(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> list[Array] | None:
        x = operands[0]
        known = quantized(op.results[0], x.ndim)
        if known is None or x.dtype != np.float32 or known.code_type not in _CODES:
            return None
        return [known.codes(steps(op, x, known))]

    return run


def _quotient_away(op: Operation, x: Floats, known: Quantized) -> NDArray[np.int64]:
    return half_away(x / known.scale)


def _product_even(op: Operation, x: Floats, known: Quantized) -> NDArray[np.int64]:
    return _rint(x * (np.float32(1) / known.scale))


def _quotient_or_product(op: Operation, x: Floats, known: Quantized) -> NDArray[np.int64]:
    if known.scale.size != 1:
        return _quotient_away(op, x, known)
    rest = half_away(x.astype(np.float64) / known.wide_scale)
    return np.where(in_vectors(op, x.shape, 8), _product_even(op, x, known), rest)


def _rint(values: NDArray[Any]) -> NDArray[np.int64]:
    return np.rint(np.clip(values, -(2.0**30), 2.0**30)).astype(np.int64)


def _dcast(values: Values) -> Row:
    def run(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> list[Array] | None:
        known = quantized(op.operands[0], operands[0].ndim)
        if known is None or known.code_type not in _CODES:
            return None
        if evaluation.dtype(op.results[0].type) != np.float32:
            return None
        return [values(op, operands[0], known)]

    return run


def _of_steps(op: Operation, codes: Array, known: Quantized) -> Floats:
    return known.offsets(codes).astype(np.float32) * known.scale


def _of_difference(op: Operation, codes: Array, known: Quantized) -> Floats:
    exact = _of_steps(op, codes, known)
    if known.scale.size != 1:
        return exact
    shift = (known.zero * known.wide_scale).astype(np.float32)
    split = codes.astype(np.float32) * known.scale - shift
    return np.where(in_vectors(op, codes.shape, 8), split, exact)


ROWS: Mapping[str, Mapping[str, Row]] = {
    "litert-ref": {QCastOp.name: _qcast(_quotient_away), DCastOp.name: _dcast(_of_steps)},
    "litert-opt": {
        QCastOp.name: _qcast(_quotient_or_product),
        DCastOp.name: _dcast(_of_difference),
    },
    "litert-xnn": {QCastOp.name: _qcast(_product_even), DCastOp.name: _dcast(_of_steps)},
}
"""The rows of this file."""

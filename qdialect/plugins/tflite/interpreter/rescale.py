"""What LiteRT computes for QUANTIZE from 8-bit codes to 8-bit codes, where it is no fixed-point
rescale: the optimized kernels round whole vectors of 16 codes twice half up, and what is left as
the reference kernels do (measured, ai-edge-litert 2.3).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from xdsl.ir import Operation

from qdialect.interpreter.values import Array, Evaluation
from qdialect.ir.quant import RescaleOp
from qdialect.plugins.tflite.interpreter.fixed_point import gemmlowp, quantize_multiplier, ruy
from qdialect.plugins.tflite.interpreter.tensors import in_vectors, quantized

if TYPE_CHECKING:
    from qdialect.plugins.tflite.interpreter import Row

_CODES = ("i8", "u8")


def _rescale(
    op: Operation, operands: Sequence[Array], evaluation: Evaluation
) -> list[Array] | None:
    (codes,) = operands
    source, target = quantized(op.operands[0], codes.ndim), quantized(op.results[0], codes.ndim)
    if source is None or target is None:
        return None
    if not {source.code_type, target.code_type} <= set(_CODES):
        return None
    pair = quantize_multiplier(source.wide_scale / target.wide_scale)
    steps = source.offsets(codes)
    whole = in_vectors(op, codes.shape, 16)
    return [target.codes(np.where(whole, ruy(steps, *pair), gemmlowp(steps, *pair)))]


ROWS: Mapping[str, Mapping[str, Row]] = {"litert-opt": {RescaleOp.name: _rescale}}
"""The rows of this file."""

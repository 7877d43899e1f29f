"""Softmax, which StableHLO has for floats only: dequantized, computed, quantized once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import f32
from xdsl.ir import Operation, SSAValue

from qdialect.analysis.codes import rounding_of
from qdialect.ir.behaviors.shapes import shape_of
from qdialect.ir.ops.base import NNOp
from qdialect.plugins.common.lowering.laid_out import LaidOut
from qdialect.plugins.common.lowering.preconditions import quantized
from qdialect.plugins.stablehlo.lowering.emitter import Emitter, longs, supported_qparams
from qdialect.plugins.stablehlo.lowering.rescale import quantized_floats, result_of


def softmax(e: Emitter, op: Operation, operands: Sequence[LaidOut]) -> LaidOut:
    """exp(x - largest) / sum, along a dimension."""
    assert isinstance(op, NNOp)
    (x,), result = operands, result_of(op)
    supported_qparams(quantized(x))
    place = x.order.index(int(op.values["axis"]) % x.rank)
    extents = list(x.extents)
    value = e.op("uniform_dequantize", [e.value_of(x, x.order)], extents, f32)
    largest = _along(e, value, place, "maximum", -np.inf)
    powers = e.op("subtract", [value, largest], extents, f32)
    powers = e.op("exponential", [powers], extents, f32)
    out = e.op("divide", [powers, _along(e, powers, place, "add", 0.0)], extents, f32)
    out = quantized_floats(e, out, x.order, result, rounding_of(op))
    return e.result(out, x.order, result, x.shape)


def _along(e: Emitter, value: SSAValue, place: int, combine: str, start: float) -> SSAValue:
    """What a dimension combines to, as often as it has elements."""
    extents = list(shape_of(value))
    init = e.const(np.array(start, np.float32), f32)
    window = [n if d == place else 1 for d, n in enumerate(extents)]
    one = [1 if d == place else n for d, n in enumerate(extents)]
    out = e.windows(value, init, one, combine, window_dimensions=longs(window))
    where = longs(range(len(extents)))
    return e.op("broadcast_in_dim", [out], extents, f32, broadcast_dimensions=where)

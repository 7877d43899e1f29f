"""Quantize, dequantize, and reading bits with another type."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Operation

from qdialect.algebra.requantize import unique_pairs
from qdialect.ir.ops import shape_of
from qdialect.ir.quant import (
    DCastOp,
    QCastOp,
    RescaleOp,
    SCastOp,
    UniformType,
    element_type,
    quant_element,
    storage_type,
)
from qdialect.plugins.common.raising.errors import Unraisable
from qdialect.plugins.common.raising.raised import Raised
from qdialect.plugins.stablehlo.lowering.rescale import ties
from qdialect.plugins.stablehlo.raising.raiser import Handler, Raiser, result_element


def _quantize(r: Raiser, op: Operation, operands: Sequence[Raised]) -> Raised:
    """`quant.qcast` of floats, `quant.rescale` of codes."""
    (x,) = operands
    value = r.value(x)
    kind = TensorType(result_element(op, x.order), list(shape_of(value)))
    source, target = (quant_element(v.type) for v in (op.operands[0], op.results[0]))
    assert target is not None
    if source is None:
        r.rounds_ties(op, True)
        return Raised(x.order, r.append(QCastOp(value, kind)).results[0])
    met = unique_pairs(source.qparams, target.qparams)
    r.rounds_ties(op, met is None or ties(met))
    return Raised(x.order, r.append(RescaleOp(value, kind)).results[0])


def _dequantize(r: Raiser, op: Operation, operands: Sequence[Raised]) -> Raised:
    (x,) = operands
    value = r.value(x)
    kind = TensorType(result_element(op, x.order), list(shape_of(value)))
    return Raised(x.order, r.append(DCastOp(value, kind)).results[0])


def _bitcast(r: Raiser, op: Operation, operands: Sequence[Raised]) -> Raised:
    """`quant.scast`: codes as integers and back, of one width."""
    (x,), before, after = operands, op.operands[0].type, op.results[0].type
    if before == after:
        return x
    kinds = [
        element_type(k) if (q := quant_element(k)) is None else storage_type(q.qparams)
        for k in (before, after)
    ]
    stored: Attribute = kinds[0]
    if stored != kinds[1] or not str(stored).startswith("i"):
        raise Unraisable("bits", f"it reads {kinds[0]} as {kinds[1]}")
    element = quant_element(after)
    if x.array is not None:
        return Raised(x.order, None, x.array, element_type(after))
    value = r.value(x)
    if quant_element(value.type) is not None:
        plain: TensorType[Any] = TensorType(stored, list(shape_of(value)))
        value = r.append(SCastOp(value, plain)).results[0]
    if element is not None:
        kind = TensorType(result_element(op, x.order), list(shape_of(value)))
        assert isinstance(kind.element_type, UniformType)
        value = r.append(SCastOp(value, kind)).results[0]
    return Raised(x.order, value)


HANDLERS: Mapping[str, Handler] = {
    "stablehlo.bitcast_convert": _bitcast,
    "stablehlo.uniform_dequantize": _dequantize,
    "stablehlo.uniform_quantize": _quantize,
}

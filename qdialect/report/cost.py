"""What ops cost by the prices of a target, in units of one element rescaled."""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Operation

from qdialect.analysis.cost import elements, products
from qdialect.ir.quant import DCastOp, QCastOp, RescaleOp, SCastOp, element_type, quant_element

if TYPE_CHECKING:
    from qdialect.ir.context import QContext


def price(op: Operation, session: QContext) -> float | None:
    """The price of an op; None where the target has none."""
    if not op.results or not all(isinstance(v.type, TensorType) for v in op.results):
        return None
    behavior = session.behaviors.get(op)
    if behavior is not None and behavior.accumulator is not None:
        sides = (behavior.accumulator.lhs, behavior.accumulator.rhs)
        lhs, rhs = (_storage(op.operands[side].type) for side in sides)
        found = session.target.encoding_price(op, products(op, behavior.accumulator), lhs, rhs)
        return found if found is not None and isfinite(found) else None
    if isinstance(op, RescaleOp):
        source, result = quant_element(op.input.type), quant_element(op.results[0].type)
        if source is None or result is None:
            return None
        each = session.target.rescale_price(source.qparams, result.qparams)
    elif behavior is not None or isinstance(op, QCastOp | DCastOp | SCastOp):
        each = session.target.op_price(op)
    else:
        return None
    return elements(op.results[0]) * each if isfinite(each) else None


def _storage(kind: Attribute) -> str:
    """What a tensor's elements are stored as: `u8`, or `f32` of floats."""
    element = quant_element(kind)
    return str(element_type(kind)) if element is None else element.qparams.storage.spelling

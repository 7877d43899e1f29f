"""An op on codes as what it means: on floats, between casts, rounded once at the end.

op(x)  =  quantize(op(dequantize(x)))
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Attribute, Operation, SSAValue

from qdialect.analysis.codes import qparams_of
from qdialect.ir.ops import TableOp
from qdialect.ir.ops.dynamic import DynamicOp
from qdialect.ir.ops.keys import QPARAMS
from qdialect.ir.quant import (
    ROUNDING_KEY,
    DCastOp,
    QCastOp,
    RescaleOp,
    expressed_type,
    with_element,
)
from qdialect.rewrite import Rewriter

HALF_EVEN = StringAttr("half_even")


def has_floats(op: Operation) -> bool:
    """Whether the op means something on floats: tables and dynamic products do not."""
    if op.name == TableOp.name or isinstance(op, DynamicOp):
        return False
    return op.name.startswith("nn.") or isinstance(op, RescaleOp)


def as_floats(op: Operation, rewriter: Rewriter) -> Sequence[SSAValue]:
    """The numbers of the operands of an op, in front of it."""
    operands: list[SSAValue] = []
    for value in op.operands:
        if qparams_of(value) is not None:
            cast = DCastOp(value, _float_type(value))
            rewriter.insert(cast, op)
            value = cast.result
        operands.append(value)
    return operands


def in_floats(op: Operation, rewriter: Rewriter) -> Sequence[SSAValue]:
    """The results of an op on the numbers of its operands, in front of it; of a rescale, these."""
    operands = as_floats(op, rewriter)
    if isinstance(op, RescaleOp):
        return operands
    properties = dict(op.properties)
    if "rounding" in properties:
        properties["rounding"] = HALF_EVEN
    kinds = [_float_type(result) for result in op.results]
    new = type(op).create(operands=operands, result_types=kinds, properties=properties)
    rewriter.insert(new, op, keep=op)
    new.attributes.pop(QPARAMS, None)
    return new.results


def rounded(value: SSAValue, kind: Attribute, op: Operation) -> QCastOp:
    """A quantize that rounds as the op does."""
    cast = QCastOp(value, kind)
    rounding = op.properties.get("rounding", HALF_EVEN)
    if rounding != HALF_EVEN:
        cast.attributes[ROUNDING_KEY] = rounding
    return cast


def between_casts(op: Operation, rewriter: Rewriter) -> None:
    """Put floats between casts in the place of an op on codes."""
    codes: list[SSAValue] = []
    for value, result in zip(in_floats(op, rewriter), op.results, strict=True):
        if qparams_of(result) is not None:
            cast = rounded(value, result.type, op)
            rewriter.insert(cast, op)
            value = cast.result
        codes.append(value)
    rewriter.replace(op, codes)


def _float_type(value: SSAValue) -> Attribute:
    params = qparams_of(value)
    return value.type if params is None else with_element(value.type, expressed_type(params))

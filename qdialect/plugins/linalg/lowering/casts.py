"""The casts at the edge of an integer network: in `arith`, upstream's `quant`, or IREE's ops.

arith   what they mean, in floats, bit for bit
quant   `quant.qcast` and `quant.dcast`, with `quant.scast` to the codes inside: a reader
        that knows the types keeps them. Upstream does not say how a qcast rounds.
iree    `iree_linalg_ext.quantize_affine` and `dequantize_affine`, where these compute the
        same: of f32, halves to even, in at most 16 bits, per tensor or along a dimension

Codes that are no integers (a table's, a float's) are at no edge, only in weights: all forms write
them as `arith` does; so does `iree` of codes in blocks that are no argument.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    AffineMapAttr,
    ArrayAttr,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    TensorType,
    UnitAttr,
    f32,
    i64,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from qdialect.algebra.qparams import QParams
from qdialect.algebra.rounding import Rounding
from qdialect.analysis.codes import is_integer, qparams_of
from qdialect.ir.behaviors.shapes import shape_of
from qdialect.ir.quant import (
    CastOp,
    DCastOp,
    QCastOp,
    SCastOp,
    UniformType,
    cast_rounding,
    expressed_type,
    storage_type,
)
from qdialect.passes.lowering.pointwise import Body
from qdialect.plugins.common.lowering.emitter import Lowering
from qdialect.plugins.common.lowering.errors import Unlowerable
from qdialect.plugins.common.lowering.laid_out import LaidOut, identity_order
from qdialect.plugins.common.lowering.preconditions import quantized
from qdialect.plugins.linalg.iree_linalg_ext import DequantizeAffineOp, QuantizeAffineOp
from qdialect.plugins.linalg.lowering.elementwise import laid_out_type, narrow, pointwise
from qdialect.plugins.linalg.lowering.emitter import Emitter
from qdialect.plugins.mlir.passes.lower_quant_ops import dequantize, quantize, refusal

_WIDEST = 16


def _qcast(e: Emitter, op: Operation, operands: Sequence[LaidOut]) -> LaidOut:
    assert isinstance(op, QCastOp)
    (x,), params = operands, _result(op)
    _check(op, op.result)

    def compute(body: Body, number: SSAValue) -> SSAValue:
        codes = quantize(body, number, params, cast_rounding(op))
        return narrow(body, codes, cast("IntegerType", codes.type), params)

    value = pointwise(e, x, (params,), laid_out_type(params), compute)
    return e.result(value, identity_order(x.rank), params, x.shape)


def _dcast(e: Emitter, op: Operation, operands: Sequence[LaidOut]) -> LaidOut:
    assert isinstance(op, DCastOp)
    (x,) = operands
    params = quantized(x)
    _check(op, op.input)
    value = pointwise(
        e, x, (params,), expressed_type(params), lambda body, q: dequantize(body, q, params)
    )
    return e.result(value, identity_order(x.rank), None, x.shape)


def _result(op: Operation) -> QParams:
    params = qparams_of(op.results[0])
    if params is None:
        raise Unlowerable("type", "its result has no scale")
    return params


def _check(op: CastOp, quantized: SSAValue) -> None:
    reason = refusal(op, quantized)
    if reason is not None:
        raise Unlowerable(reason.code, reason.reason)


# -- upstream's types ----------------------------------------------------------------


def codes_of(e: Emitter, value: SSAValue, params: QParams) -> SSAValue:
    """The codes of a quantized value, laid out in a lowering."""
    kind, shape = storage_type(params), shape_of(value)
    codes = e.add(SCastOp(value, TensorType(kind, shape)))
    wide = laid_out_type(params)
    if wide == kind:
        return codes
    extend = arith.ExtSIOp if params.storage.signed else arith.ExtUIOp
    return e.elementwise([codes], shape, wide, lambda body, v: body.add(extend(v[0], wide)))


def quantized_value(e: Emitter, value: SSAValue, params: QParams) -> SSAValue:
    """Codes as the quantized value they stand for."""
    kind, shape = storage_type(params), shape_of(value)
    if laid_out_type(params) != kind:
        value = e.elementwise(
            [value], shape, kind, lambda body, v: body.add(arith.TruncIOp(v[0], kind))
        )
    return e.add(SCastOp(value, TensorType(UniformType(params), shape)))


def _upstream_qcast(e: Emitter, op: Operation, operands: Sequence[LaidOut]) -> LaidOut:
    assert isinstance(op, QCastOp)
    (x,), params = operands, _result(op)
    if cast_rounding(op) is not Rounding.HALF_EVEN:
        raise Unlowerable("rounding", "upstream's qcast has no rounding to say", "casts=arith")
    value = e.add(QCastOp(e.value_of(x), op.result.type))
    return e.result(codes_of(e, value, params), identity_order(x.rank), params, x.shape)


def _upstream_dcast(e: Emitter, op: Operation, operands: Sequence[LaidOut]) -> LaidOut:
    (x,) = operands
    if not is_integer(quantized(x)):
        return _dcast(e, op, operands)
    value = quantized_value(e, e.value_of(x), quantized(x))
    return e.result(
        e.add(DCastOp(value, op.results[0].type)), identity_order(x.rank), None, x.shape
    )


# -- IREE's ops ------------------------------------------------------------------------


def _affine_qcast(e: Emitter, op: Operation, operands: Sequence[LaidOut]) -> LaidOut:
    assert isinstance(op, QCastOp)
    (x,), params = operands, _result(op)
    _check_affine(params)
    if cast_rounding(op) is not Rounding.HALF_EVEN:
        raise Unlowerable(
            "rounding", f"quantize_affine does not round {cast_rounding(op).value}", "casts=arith"
        )
    properties: dict[str, Attribute] = {
        "quant_min": IntegerAttr(params.storage.min, i64),
        "quant_max": IntegerAttr(params.storage.max, i64),
    }
    if not params.storage.signed:
        properties["storage_unsigned"] = UnitAttr()
    value = _affine(e, QuantizeAffineOp, (e.value_of(x), params), laid_out_type(params), properties)
    return e.result(value, identity_order(x.rank), params, x.shape)


def _affine_dcast(e: Emitter, op: Operation, operands: Sequence[LaidOut]) -> LaidOut:
    (x,) = operands
    params = quantized(x)
    in_blocks = params.layout.value == "block" and not isinstance(op.operands[0].owner, Block)
    if in_blocks or not is_integer(params):
        return _dcast(e, op, operands)
    _check_affine(params)
    properties: dict[str, Attribute] = {}
    if not params.storage.signed:
        properties["input_unsigned"] = UnitAttr()
    value = _affine(e, DequantizeAffineOp, (e.value_of(x), params), f32, properties)
    return e.result(value, identity_order(x.rank), None, x.shape)


def _check_affine(params: QParams) -> None:
    storage = params.storage
    low, high = storage.full_range
    if params.expressed != "f32":
        raise Unlowerable("expressed", f"IREE's op is f32 and not {params.expressed}")
    if storage.width > _WIDEST:
        raise Unlowerable("storage", f"floats do not hold all codes of {storage}", "casts=arith")
    if not all(low <= zero <= high for zero in params.zero_point_list()):
        raise Unlowerable("zero-point", "a zero point is no code of the storage", "casts=arith")
    if params.layout.value == "block":
        raise Unlowerable("grid", "parameters of blocks", "casts=arith")


def _affine(
    e: Emitter,
    make: type[Operation],
    source: tuple[SSAValue, QParams],
    element: Attribute,
    properties: Mapping[str, Attribute],
) -> SSAValue:
    value, params = source
    shape = shape_of(value)
    whole = AffineMapAttr(AffineMap.identity(len(shape)))
    scale: SSAValue
    if params.axis is None or params.count == 1:
        dims: tuple[AffineExpr, ...] = ()
        scale = e.add(arith.ConstantOp(FloatAttr(params.scale_list()[0], f32)))
        zero = e.scalar(params.zero_point_list()[0], 64)
    else:
        dims = (AffineExpr.dimension(params.axis),)
        scale = e.const(np.array(params.scale_list(), np.float32), f32)
        zero = e.const(np.array(params.zero_point_list(), np.int64), i64)
    params_map = AffineMapAttr(AffineMap(len(shape), 0, dims))
    init = e.empty(shape, element)
    maps: Any = ArrayAttr([whole, params_map, params_map, whole])
    return e.add(
        make.create(
            operands=[value, scale, zero, init],
            result_types=[init.type],
            properties={"indexing_maps": maps, **properties},
        )
    )


CASTS: Mapping[str, Mapping[str, Lowering[Emitter]]] = {
    "arith": {QCastOp.name: _qcast, DCastOp.name: _dcast},
    "quant": {QCastOp.name: _upstream_qcast, DCastOp.name: _upstream_dcast},
    "iree": {QCastOp.name: _affine_qcast, DCastOp.name: _affine_dcast},
}
"""How each form writes casts."""

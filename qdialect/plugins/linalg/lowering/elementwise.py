"""Codes in the bodies of loops, and elementwise ops."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xdsl.dialects import arith, tensor
from xdsl.dialects.builtin import IndexType, IntegerType, i32, i64
from xdsl.ir import Operation, SSAValue

from qdialect.algebra.qparams import QParams
from qdialect.analysis.codes import qparams_of
from qdialect.ir.behaviors.shapes import shape_of
from qdialect.ir.quant import RescaleOp
from qdialect.passes.lowering.pointwise import Body, clamped, element_wise
from qdialect.passes.rescale.expand_rescale import integer_rescale, plan_of
from qdialect.plugins.common.lowering.emitter import Lowering, integers
from qdialect.plugins.common.lowering.errors import Unlowerable
from qdialect.plugins.common.lowering.laid_out import LaidOut, identity_order
from qdialect.plugins.common.lowering.preconditions import (
    check_quotient,
    clamp_bounds,
    common_qparams,
    exact_result,
    quantized,
)
from qdialect.plugins.linalg.lowering.emitter import Emitter
from qdialect.rewrite import Refusal


def laid_out_type(params: QParams) -> IntegerType:
    """What holds codes: signless integers of at least 8 bits."""
    return integers(max(params.storage.width, 8))


def widened(body: Body, code: SSAValue, params: QParams, wide: IntegerType = i32) -> SSAValue:
    """A code as a wider integer."""
    if laid_out_type(params) == wide:
        return code
    extend = arith.ExtSIOp if params.storage.signed else arith.ExtUIOp
    return body.add(extend(code, wide))


def stepped(body: Body, code: SSAValue, params: QParams, wide: IntegerType = i32) -> SSAValue:
    """A code less its zero point, as a wider integer."""
    steps = widened(body, code, params, wide)
    zero = zero_of(params)
    return body.add(arith.SubiOp(steps, body.constant(zero, wide))) if zero else steps


def zero_of(params: QParams) -> int:
    """The zero point, if it is one."""
    zeros = set(params.zero_point_list())
    if len(zeros) != 1:
        raise Unlowerable("zero-points", "zero points that differ between channels")
    return zeros.pop()


def narrow(body: Body, value: SSAValue, wide: IntegerType, params: QParams) -> SSAValue:
    """A number within the bounds of the storage, as its codes are laid out."""
    kind = laid_out_type(params)
    return value if kind == wide else body.add(arith.TruncIOp(value, kind))


# -- casts ---------------------------------------------------------------------------


def pointwise(
    e: Emitter,
    x: LaidOut,
    ends: Sequence[QParams],
    result: Any,
    compute: Callable[[Body, SSAValue], SSAValue],
) -> SSAValue:
    """`compute` on every element of `x`; parameters vary as those of `ends` do."""
    layout = next((q for q in ends if not q.is_per_tensor), None)
    return element_wise(e.value_of(x), result, layout, compute, e.append)


def rescale(e: Emitter, op: Operation, operands: Sequence[LaidOut]) -> LaidOut:
    """`quant.rescale` in the fixed-point form, in 64 bits, whatever it rounds."""
    assert isinstance(op, RescaleOp)
    if op.fixed_point is None:
        raise Unlowerable(
            "real-form", "the rescale is a real number", "run convert-rescale{form=fixed}"
        )
    plan = plan_of(op)
    if isinstance(plan, Refusal):
        raise Unlowerable(plan.code, plan.reason)
    source, result = op.input_qparams, op.result_qparams

    def compute(body: Body, code: SSAValue) -> SSAValue:
        return narrow(body, integer_rescale(body, code, plan, source, result), i64, result)

    value = pointwise(e, operands[0], (source, result), laid_out_type(result), compute)
    return e.result(value, identity_order(operands[0].rank), result, operands[0].shape)


# -- arithmetic ----------------------------------------------------------------------


def arithmetic(make: Callable[[SSAValue, SSAValue], Operation]) -> Lowering[Emitter]:
    """`nn.add`, `nn.sub`, `nn.mul`: exact, of codes less their zero points."""

    def lower(e: Emitter, op: Operation, operands: Sequence[LaidOut]) -> LaidOut:
        exact_result(e, op)
        shape = shape_of(op.results[0])
        kinds = [quantized(x) for x in operands]
        for params in kinds:
            zero_of(params)

        def compute(body: Body, codes: Sequence[SSAValue]) -> SSAValue:
            steps = [stepped(body, q, p) for q, p in zip(codes, kinds, strict=False)]
            return body.add(make(steps[0], steps[1]))

        value = e.elementwise([e.value_of(x) for x in operands], shape, i32, compute)
        return e.result(value, identity_order(len(shape)), qparams_of(op.results[0]), shape)

    return lower


def extremum(largest: bool) -> Lowering[Emitter]:
    """`nn.maximum` and `nn.minimum` of codes on one scale."""

    def lower(e: Emitter, op: Operation, operands: Sequence[LaidOut]) -> LaidOut:
        shape = shape_of(op.results[0])
        result = common_qparams(operands, qparams_of(op.results[0]))
        make = extremum_op(result, largest)

        def compute(body: Body, codes: Sequence[SSAValue]) -> SSAValue:
            return body.add(make(codes[0], codes[1]))

        values = [e.value_of(x) for x in operands]
        value = e.elementwise(values, shape, laid_out_type(result), compute)
        return e.result(value, identity_order(len(shape)), result, shape)

    return lower


def extremum_op(params: QParams, largest: bool) -> Callable[[SSAValue, SSAValue], Operation]:
    """The larger or smaller of two codes."""
    if params.storage.signed:
        return arith.MaxSIOp if largest else arith.MinSIOp
    return arith.MaxUIOp if largest else arith.MinUIOp


def clamp(e: Emitter, op: Operation, operands: Sequence[LaidOut]) -> LaidOut:
    """`nn.relu` and `nn.clip` of codes."""
    (x,) = operands
    params, (low, high) = clamp_bounds(e, op, x)
    kind = laid_out_type(params)
    size = 1 << kind.width.data
    bounds = [b - size if b >= size // 2 else b for b in (low, high)]

    def compute(body: Body, codes: Sequence[SSAValue]) -> SSAValue:
        value = codes[0]
        for largest, bound, idle in zip(
            (True, False), bounds, params.storage.full_range, strict=True
        ):
            if bound != idle:
                make = extremum_op(params, largest)
                value = body.add(make(value, body.constant(bound, kind)))
        return value

    value = e.elementwise([e.value_of(x)], x.shape, kind, compute)
    return e.result(value, identity_order(x.rank), params, x.shape)


def table(e: Emitter, op: Operation, operands: Sequence[LaidOut]) -> LaidOut:
    """`nn.table`: the entry of each code, the lowest first."""
    x, entries = operands
    params, result = quantized(x), qparams_of(op.results[0])
    if entries.array is None or result is None:
        raise Unlowerable("table", "its table is no constant")
    first = params.storage.full_range[0]
    if entries.array.size != 1 << params.storage.width:
        raise Unlowerable("table", f"it has {entries.array.size} entries")
    looked_up = e.value_of(entries)

    def compute(body: Body, codes: Sequence[SSAValue]) -> SSAValue:
        wide = widened(body, codes[0], params)
        if first:
            wide = body.add(arith.SubiOp(wide, body.constant(first, i32)))
        index = body.add(arith.IndexCastOp(wide, IndexType()))
        return body.add(tensor.ExtractOp(looked_up, [index], laid_out_type(result)))

    value = e.elementwise([e.value_of(x)], x.shape, laid_out_type(result), compute)
    return e.result(value, identity_order(x.rank), result, x.shape)


def divide(e: Emitter, op: Operation, operands: Sequence[LaidOut]) -> LaidOut:
    """`nn.div`, rounded half up: floor((2 n + d) / (2 d)) of d > 0, in 64 bits."""
    lhs, rhs = (quantized(x) for x in operands)
    result, shape = qparams_of(op.results[0]), shape_of(op.results[0])
    assert result is not None
    check_quotient(e, op, (lhs, rhs), result)

    def compute(body: Body, codes: Sequence[SSAValue]) -> SSAValue:
        n, d = (stepped(body, q, p, i64) for q, p in zip(codes, (lhs, rhs), strict=False))
        n, twice = (body.add(arith.AddiOp(v, v)) for v in (n, d))
        steps = body.add(arith.FloorDivSIOp(body.add(arith.AddiOp(n, d)), twice))
        code = body.add(arith.AddiOp(steps, body.constant(result.zero_point, i64)))
        return narrow(body, clamped(body, code, i64, result), i64, result)

    value = e.elementwise([e.value_of(x) for x in operands], shape, laid_out_type(result), compute)
    return e.result(value, identity_order(len(shape)), result, shape)

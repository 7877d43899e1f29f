"""Write `quant.qcast` and `quant.dcast` in `arith`, with their rounding and saturation.

    qcast   q = clamp(R(x / s) + z)      divf, round, clamp in floats, fptosi, + z, clamp
    dcast   x = float(q - z) * s         extend, - z in integers, sitofp, mulf
            x = float(v - z) * s         of codes that stand for numbers v: extract, mulf

in f32 (f64 for f64; f16 and bf16 are computed in f32), bit for bit what the reference
interpreter gives: exact.  Stored integers are reached through `quant.scast`.  NaN gives
the lowest integer.  The clamp in floats only makes the conversion to integers defined;
the bounds are those of the storage, kept in integers after the zero point is added.

Upstream's pass of this name truncates and does not saturate: with i8 and scale 1 it
turns 0.99 into 0 and 200 into -56.

For example

    %0 = quant.dcast %x : !q to f32

becomes

    %1 = quant.scast %x : !q to i8
    %2 = arith.extui %1 : i8 to i32
    %3 = arith.constant 128 : i32
    %4 = arith.subi %2, %3 : i32
    %5 = arith.constant 2.0 : f32
    %6 = arith.sitofp %4 : i32 to f32
    %0 = arith.mulf %6, %5 : f32
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import arith, math
from xdsl.dialects.builtin import (
    AnyFloat,
    ModuleOp,
    UnrankedTensorType,
    f32,
    f64,
    i32,
    i64,
)
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass

from qdialect.algebra.contract import EXACT, Contract
from qdialect.algebra.float_path import reciprocals
from qdialect.algebra.float_text import format_values
from qdialect.algebra.lazy_numpy import np
from qdialect.algebra.qparams import QParams
from qdialect.algebra.rounding import Rounding
from qdialect.analysis.codes import is_integer
from qdialect.errors import UnsupportedError
from qdialect.ir.context import session
from qdialect.ir.ops.locations import op_where
from qdialect.ir.quant import (
    CastOp,
    DCastOp,
    QCastOp,
    SCastOp,
    UniformType,
    cast_rounding,
    element_type,
    expressed_type,
    storage_type,
    with_element,
)
from qdialect.passes.lowering.pointwise import Body, clamped, element_wise, emitter, narrowed
from qdialect.rewrite import Driver, Refusal, Rewriter, Rule

_EXPRESSED = ("f16", "bf16", "f32", "f64")
#: up to here f32 and i32 hold every step exactly, with room for the zero point
_NARROW_WIDTH, _NARROW_ZERO, _NARROW_LIMIT = 16, 1 << 20, float(1 << 22)
_WIDE_ZERO, _WIDE_LIMIT = 1 << 50, float(1 << 52)
#: bits of codes of which a table has all
_TABLE_WIDTH = 8


class _LowerCast(Rule[CastOp]):
    """Common to both casts: which of them can be lowered."""

    def quantized(self, op: CastOp) -> SSAValue:
        """The operand or result that is quantized."""
        raise NotImplementedError

    def match(self, op: Operation) -> CastOp | None:
        assert isinstance(op, CastOp)
        return op

    def check(self, match: CastOp) -> Contract | Refusal:
        found = refusal(match, self.quantized(match))
        if found is None and not is_integer(params := _params(self.quantized(match))):
            return Refusal("storage", f"quant.scast gives no codes of storage {params.storage}")
        return found or EXACT


class LowerQCast(_LowerCast):
    """qcast -> float arith, scast."""

    name = "lower-qcast"
    root = QCastOp.name

    def quantized(self, op: CastOp) -> SSAValue:
        """The result."""
        return op.result

    def rewrite(self, match: CastOp, rewriter: Rewriter) -> None:
        params = _params(match.result)
        value = element_wise(
            match.input,
            storage_type(params),
            None if params.is_per_tensor else params,
            lambda body, x: narrowed(body, quantize(body, x, params, cast_rounding(match)), params),
            emitter(rewriter, match),
        )
        new = SCastOp(value, match.result.type)
        rewriter.replace_by(match, [new])


class LowerDCast(_LowerCast):
    """dcast -> scast, integer and float arith."""

    name = "lower-dcast"
    root = DCastOp.name

    def quantized(self, op: CastOp) -> SSAValue:
        """The operand."""
        return op.input

    def rewrite(self, match: CastOp, rewriter: Rewriter) -> None:
        params = _params(match.input)
        stored = SCastOp(match.input, with_element(match.input.type, storage_type(params)))
        rewriter.insert(stored, match)
        value = element_wise(
            stored.result,
            expressed_type(params),
            None if params.is_per_tensor else params,
            lambda body, q: dequantize(body, q, params),
            emitter(rewriter, match),
        )
        rewriter.replace(match, [value])


def refusal(op: CastOp, quantized: SSAValue) -> Refusal | None:
    """Why there is no arithmetic for a cast; `quantized` is its operand or result that is."""
    kind = quantized.type
    element = element_type(kind)
    if not isinstance(element, UniformType):
        return Refusal("parameters", f"{element} has no scale")
    params = element.qparams
    if not is_integer(params) and (isinstance(op, QCastOp) or params.storage.width > _TABLE_WIDTH):
        return Refusal("storage", f"no lowering for storage {params.storage}")
    if not is_integer(params) and len(set(params.zero_point_list())) > 1:
        return Refusal("zero-point", "numbers of a table have one zero point")
    if params.expressed not in _EXPRESSED:
        return Refusal("expressed", f"no arithmetic in {params.expressed}")
    if isinstance(kind, UnrankedTensorType) and params.count > 1:
        return Refusal("unranked", "parameters that vary need a rank")
    if max(map(abs, params.zero_point_list())) >= _WIDE_ZERO:
        return Refusal("zero-point", "a zero point is too far from the storage")
    if isinstance(op, QCastOp) and cast_rounding(op).two_stage:
        return Refusal("rounding", f"{cast_rounding(op).value} does not round floats")
    return None


def _params(value: SSAValue) -> QParams:
    element = element_type(value.type)
    assert isinstance(element, UniformType)
    return element.qparams


def _is_narrow(params: QParams) -> bool:
    near = max(map(abs, params.zero_point_list())) < _NARROW_ZERO
    return params.storage.width <= _NARROW_WIDTH and near


def _working(params: QParams) -> AnyFloat:
    return f64 if params.expressed == "f64" else f32


def quantize(body: Body, x: SSAValue, params: QParams, rounding: Rounding) -> SSAValue:
    """clamp(R(x / s) + z), or of x * (1 / s)"""
    kind = _working(params)
    if params.expressed in ("f16", "bf16"):
        x = body.add(arith.ExtFOp(x, kind))
    if rounding is Rounding.RECIPROCAL:
        factors = reciprocals(params.scale_list(), np.dtype("f8" if kind == f64 else "f4"))
        quotient = body.add(arith.MulfOp(x, body.parameter(factors.tolist(), kind)))
    else:
        quotient = body.add(arith.DivfOp(x, body.parameter(params.scale_list(), kind)))
    steps = _round(body, quotient, kind, rounding)
    narrow = _is_narrow(params) and kind == f32
    if not narrow and kind == f32:
        kind = f64
        steps = body.add(arith.ExtFOp(steps, kind))
    limit = _NARROW_LIMIT if narrow else _WIDE_LIMIT
    steps = body.add(arith.MaxnumfOp(steps, body.constant(-limit, kind)))
    steps = body.add(arith.MinnumfOp(steps, body.constant(limit, kind)))
    wide = i32 if narrow else i64
    codes = body.add(arith.FPToSIOp(steps, wide))
    zeros = params.zero_point_list()
    if any(zeros):
        codes = body.add(arith.AddiOp(codes, body.parameter(zeros, wide)))
    return clamped(body, codes, wide, params)


def _round(body: Body, x: SSAValue, kind: AnyFloat, rounding: Rounding) -> SSAValue:
    """R(x); half up as floor(x) + (x - floor(x) >= 1/2), which no rounding disturbs."""
    if rounding.in_reals is Rounding.HALF_EVEN:
        return body.add(math.RoundEvenOp(x))
    if rounding is Rounding.HALF_AWAY:
        return body.add(math.RoundOp(x))
    floor = body.add(math.FloorOp(x))
    part = body.add(arith.SubfOp(x, floor))
    up = body.add(arith.CmpfOp(part, body.constant(0.5, kind), "oge"))
    step = body.add(arith.SelectOp(up, body.constant(1.0, kind), body.constant(0.0, kind)))
    return body.add(arith.AddfOp(floor, step))


def dequantize(body: Body, q: SSAValue, params: QParams) -> SSAValue:
    """float(q - z) * s"""
    kind = _working(params)
    if is_integer(params):
        steps = _steps(body, q, params)
        scales = body.parameter(params.scale_list(), kind)
        number = body.add(arith.SIToFPOp(steps, kind))
    else:
        scales = body.parameter(params.scale_list(), kind)
        number = _entry(body, q, params, kind)
    x = body.add(arith.MulfOp(number, scales))
    if params.expressed in ("f16", "bf16"):
        x = body.add(arith.TruncFOp(x, expressed_type(params)))
    return x


def _steps(body: Body, q: SSAValue, params: QParams) -> SSAValue:
    """q - z of integers."""
    wide = i32 if _is_narrow(params) else i64
    extend = arith.ExtSIOp if params.storage.signed else arith.ExtUIOp
    steps = body.add(extend(q, wide))
    zeros = params.zero_point_list()
    if any(zeros):
        steps = body.add(arith.SubiOp(steps, body.parameter(zeros, wide)))
    return steps


def _entry(body: Body, q: SSAValue, params: QParams, kind: AnyFloat) -> SSAValue:
    """float(v - z) of the number v that a code stands for, out of a table of all codes."""
    storage, zero = params.storage, params.zero_point_list()[0]
    if storage.quantile is not None:
        first, numbers = 0 if storage.is_float else storage.min, storage.quantile.values()
    else:
        first, numbers = 0, format_values(storage.keyword, storage.width)
    extend = arith.ExtSIOp if first < 0 else arith.ExtUIOp
    place = body.add(extend(q, i32))
    if first:
        place = body.add(arith.SubiOp(place, body.constant(first, i32)))
    return body.entry([number - zero for number in numbers], kind, place)


@dataclass(frozen=True)
class LowerQuantOps(ModulePass):
    """Casts in `arith`; see the module.

    Raises UnsupportedError (`cannot-lower`) for the first cast that cannot be lowered.
    """

    name = "lower-quant-ops"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Run the pass on a module, in place."""
        qctx = session(ctx)
        rules = (LowerQCast(qctx), LowerDCast(qctx))
        Driver(qctx, rules, pass_name=self.name).run(op)
        by_root = {root: rule for rule in rules for root in rule.roots()}
        for left in op.walk():
            rule = by_root.get(left.name)
            refusal = rule.check(left) if rule and isinstance(left, CastOp) else None
            if isinstance(refusal, Refusal):
                raise UnsupportedError(
                    f"'{left.name}' op cannot be lowered: {refusal.reason}",
                    where=op_where(left),
                    code="cannot-lower",
                )

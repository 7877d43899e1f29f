"""Expand `quant.rescale` into ops that upstream has.

`to=arith`: on the stored integers, in 64 bits, with p = (q - z) * m:

    half_up    (p + h) >> k                    h = 2**(k-1)
    half_away  (p + h - [p < 0]) >> k
    half_even  (p + h - 1 + ((p >> k) & 1)) >> k
    gemmlowp   (p + h + t) >> k                t = 2**30 with the sign of q - z if k > 31
    ruy        (p + h + t) >> k                t = 2**30 if k > 31

then + z', clamped to the bounds of the result storage.  A fixed-point rescale is
expanded as it is: exact.  A real one takes the nearest (m, k) with as many bits as 64
and the target (`multiplier_bits`) allow; the contract of that is decided on all codes
(`algebra.fixed_point`).

`to=casts`: dequantize, then quantize.  That is evaluated in the expressed float type,
which rounds twice on the way; exact if it comes out equal on all codes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from xdsl.dialects import arith
from xdsl.dialects.builtin import StringAttr, UnrankedTensorType, i64
from xdsl.ir import Operation, SSAValue

from qdialect.algebra.contract import EXACT, Contract
from qdialect.algebra.fixed_point import FixedPoint, Form, casts_contract, ratio_of, to_fixed_point
from qdialect.algebra.qparams import QParams
from qdialect.algebra.requantize import QuantGrid
from qdialect.algebra.rounding import Rounding
from qdialect.ir.context import QContext
from qdialect.ir.quant import (
    ROUNDING_KEY,
    DCastOp,
    QCastOp,
    RescaleOp,
    SCastOp,
    expressed_type,
    storage_type,
    with_element,
)
from qdialect.passes.lowering.pointwise import Body, clamped, element_wise, emitter, narrowed
from qdialect.passes.rescale.convert_rescale import Plan, forms_of, grids_of
from qdialect.passes.rule_pass import RulePass
from qdialect.rewrite import Refusal, Rewriter, Rule

_NUDGE = 1 << 30
_I64 = 63
#: bits of a multiplier made from a real ratio: as exact as the doubles it comes from
_WIDEST = 54


class RescaleToArith(Rule[RescaleOp]):
    """rescale -> scast, integer arith, scast."""

    name = "rescale-to-arith"
    root = RescaleOp.name

    def match(self, op: Operation) -> RescaleOp | None:
        assert isinstance(op, RescaleOp)
        return op

    def check(self, match: RescaleOp) -> Contract | Refusal:
        plan = plan_of(match, self.session.target.multiplier_bits)
        if isinstance(plan, Refusal):
            return plan
        if isinstance(match.input.type, UnrankedTensorType) and len(plan.grids) > 1:
            return Refusal("unranked", "parameters that vary need a rank")
        return EXACT if plan.new == plan.old else plan.contract()

    def rewrite(self, match: RescaleOp, rewriter: Rewriter) -> None:
        plan = plan_of(match, self.session.target.multiplier_bits)
        assert isinstance(plan, Plan)
        source, target = match.input_qparams, match.result_qparams
        stored = SCastOp(match.input, with_element(match.input.type, storage_type(source)))
        rewriter.insert(stored, match)
        value = element_wise(
            stored.result,
            storage_type(target),
            next((q for q in (source, target) if not q.is_per_tensor), None),
            lambda body, value: narrowed(
                body, integer_rescale(body, value, plan, source, target), target
            ),
            emitter(rewriter, match),
        )
        new = SCastOp(value, match.result.type)
        rewriter.insert(new, match, keep=match)
        rewriter.replace(match, new.results)


def plan_of(op: RescaleOp, most_bits: int | None = None) -> Plan | Refusal:
    """The fixed-point forms that 64 bits can compute, with multipliers of `most_bits` at most
    (None: any), or why there are none."""
    grids = grids_of(op)
    if grids is None:
        return Refusal("grid", "the two encodings lie on different grids")
    old = forms_of(op, len(grids))
    if op.fixed_point is not None:
        new = old
    elif op.rounding.two_stage:
        return Refusal("rounding", f"{op.rounding.value} does not round real numbers")
    else:
        try:
            rounding = op.rounding.in_reals
            new = [Form(rounding, _widest(a, b, most_bits)) for a, b in grids]
        except ValueError as error:
            return Refusal("range", str(error))
    if not all(_fits(a, b, form.pair) for (a, b), form in zip(grids, new, strict=True)):
        return Refusal("overflow", "a product does not fit 64 bits")
    return Plan(op, grids, old, new)


def _furthest(a: QuantGrid) -> int:
    """The largest |q - z|."""
    return max(abs(a.low - a.zero), abs(a.high - a.zero))


def _widest(a: QuantGrid, b: QuantGrid, most_bits: int | None) -> FixedPoint:
    """The nearest pair whose products fit 64 bits."""
    bits = min(_I64 - 1 - _furthest(a).bit_length(), most_bits or _WIDEST, _WIDEST)
    if bits < 2:
        raise ValueError("zero points too far from the storage")
    return to_fixed_point(ratio_of(a, b), bits, min_shift=1)


def _fits(a: QuantGrid, b: QuantGrid, pair: FixedPoint | None) -> bool:
    assert pair is not None
    product = 2 * _furthest(a) * max(pair.multiplier, 1) + (1 << pair.shift) + _NUDGE
    return product < 1 << _I64 and (product >> pair.shift) + abs(b.zero) < 1 << (_I64 - 1)


def integer_rescale(
    body: Body, value: SSAValue, plan: Plan, source: QParams, target: QParams
) -> SSAValue:
    """The code of `target` for the code `value` of `source`, in 64 bits."""
    pairs = [_shifting(form.pair) for form in plan.new]
    extend = arith.ExtSIOp if source.storage.signed else arith.ExtUIOp
    wide = body.add(extend(value, i64))
    zeros = [a.zero for a, _ in plan.grids]
    steps = body.add(arith.SubiOp(wide, body.parameter(zeros, i64))) if any(zeros) else wide
    factor = body.parameter([pair.multiplier for pair in pairs], i64)
    product = body.add(arith.MuliOp(steps, factor))
    shift = body.parameter([pair.shift for pair in pairs], i64)
    biased = _bias(body, steps, product, shift, pairs, plan.new[0].rounding)
    scaled = body.add(arith.ShRSIOp(biased, shift))
    zeros = [b.zero for _, b in plan.grids]
    moved = body.add(arith.AddiOp(scaled, body.parameter(zeros, i64))) if any(zeros) else scaled
    return clamped(body, moved, i64, target)


def _shifting(pair: FixedPoint | None) -> FixedPoint:
    """The same factor with a shift of at least 1, so that 2**(k-1) is an integer."""
    assert pair is not None
    return FixedPoint(pair.multiplier * 2, 1) if pair.shift == 0 else pair


def _bias(
    body: Body,
    steps: SSAValue,
    product: SSAValue,
    shift: SSAValue,
    pairs: Sequence[FixedPoint],
    rounding: Rounding,
) -> SSAValue:
    """The product plus what makes `>>` round as declared."""
    below = 1 if rounding is Rounding.HALF_EVEN else 0
    half = body.parameter([(1 << (pair.shift - 1)) - below for pair in pairs], i64)
    sum_ = body.add(arith.AddiOp(product, half))
    if rounding is Rounding.HALF_AWAY:
        sign = body.add(arith.ShRSIOp(product, body.constant(63, i64)))
        return body.add(arith.AddiOp(sum_, sign))
    if rounding is Rounding.HALF_EVEN:
        floor = body.add(arith.ShRSIOp(product, shift))
        odd = body.add(arith.AndIOp(floor, body.constant(1, i64)))
        return body.add(arith.AddiOp(sum_, odd))
    nudges = [_NUDGE if pair.shift > 31 else 0 for pair in pairs]
    if rounding is Rounding.HALF_UP or not any(nudges):
        return sum_
    up = body.parameter(nudges, i64)
    if rounding is Rounding.RUY:
        return body.add(arith.AddiOp(sum_, up))
    zero = body.constant(0, i64)
    is_negative = body.add(arith.CmpiOp(steps, zero, "slt"))
    nudge = body.add(arith.SelectOp(is_negative, body.add(arith.SubiOp(zero, up)), up))
    return body.add(arith.AddiOp(sum_, nudge))


class RescaleToCasts(Rule[RescaleOp]):
    """rescale -> qcast(dcast(q))."""

    name = "rescale-to-casts"
    root = RescaleOp.name

    def match(self, op: Operation) -> RescaleOp | None:
        assert isinstance(op, RescaleOp)
        return op

    def check(self, match: RescaleOp) -> Contract | Refusal:
        grids = grids_of(match)
        expressed = match.input_qparams.expressed
        if grids is None:
            return Refusal("grid", "the two encodings lie on different grids")
        if match.rounding.two_stage:
            return Refusal("rounding", f"a quantize cannot round as {match.rounding.value} does")
        worst = EXACT
        distinct = dict.fromkeys(zip(grids, forms_of(match, len(grids)), strict=True))
        for (a, b), form in distinct:
            contract = casts_contract(a, b, form, expressed)
            if contract is None:
                return Refusal("float-path", f"cannot be decided in {expressed}")
            worst = max(worst, contract, key=lambda c: (c.level, c.steps))
        return worst

    def rewrite(self, match: RescaleOp, rewriter: Rewriter) -> None:
        expressed = expressed_type(match.input_qparams)
        floats = DCastOp(match.input, with_element(match.input.type, expressed))
        rewriter.insert(floats, match)
        new = QCastOp(floats.result, match.result.type)
        if match.rounding is not Rounding.HALF_EVEN:
            new.attributes[ROUNDING_KEY] = StringAttr(match.rounding.value)
        rewriter.insert(new, match, keep=match)
        rewriter.replace(match, new.results)


@dataclass(frozen=True)
class ExpandRescale(RulePass):
    """Expand rescales into upstream's ops: `to` is `arith` or `casts`; see the module."""

    name = "expand-rescale"

    to: Literal["arith", "casts"] = "arith"

    def rules(self, session: QContext) -> Sequence[Rule[Any]]:
        return (RescaleToArith(session),) if self.to == "arith" else (RescaleToCasts(session),)

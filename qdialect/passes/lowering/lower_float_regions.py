"""Compute float regions in integers, for targets without floats.

    quantize(f(g(dequantize x, ...)))  ->  rescale(f'(g'(x, ...)))      f', g' on i32

A float region is what computes floats between a dequantize and a quantize. Every value of it gets
a grid of 32-bit integers (`region_plan`): sums, products and means are exact, after terms of
different scales are rescaled to one; functions of 8-bit codes are tables; a quotient is rounded
once. Only the rescale at the end rounds to the codes that the model says.

`bounded(k)` at each quantize that closes the region, k from the largest error that reaches it
(exact where no value was rounded); `relaxed` where an error has no bound: behind a divisor that
may be 0, of which the smallest step takes the place, or where nearly equal values are compared;
and where the function returns floats of the region, which are then dequantized from a fine grid.

Refused where a float argument is part of the region, or an op has no integers: the remark names
it.

For example

    %0 = quant.dcast %x : !a to !f
    %1 = quant.dcast %y : !b to !f
    %2 = nn.add %0, %1 : (!f, !f) -> !f
    %3 = nn.global_avg_pool2d %2 : (!f) -> !p
    %4 = quant.qcast %3 : !p to !c

becomes

    %0 = quant.rescale %x rounding half_up multiplier [1073741824] shift [14] : !a to !grid
    %1 = quant.rescale %y rounding half_up multiplier [1073741824] shift [15] : !b to !grid
    %2 = nn.add %0, %1 : (!grid, !grid) -> !grid
    %3 = nn.global_avg_pool2d %2 : (!grid) -> !mean
    %4 = quant.rescale %3 : !mean to !c
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import floor, inf, isfinite

from xdsl.dialects.func import ReturnOp
from xdsl.ir import Operation, SSAValue

from qdialect.algebra.contract import EXACT, Contract, Numerics
from qdialect.analysis.codes import is_integer, qparams_of
from qdialect.analysis.float_regions import FloatRegion, float_region_of, is_float
from qdialect.ir.context import QContext
from qdialect.ir.quant import DCastOp, QCastOp, RescaleOp, arithmetic_of, cast_rounding
from qdialect.passes.lowering.region_plan import NoFixedPointError, RegionPlan
from qdialect.passes.pair_contract import target_rounding
from qdialect.passes.rule_pass import RulePass
from qdialect.rewrite import Refusal, Rewriter, Rule


@dataclass
class _Region:
    """A float region, and its plan or why it has none."""

    region: FloatRegion
    plan: RegionPlan | Refusal


class LowerFloatRegion(Rule[_Region]):
    """quantize(f(dequantize x)) = rescale(f'(x)) with f' on grids of 32 bits."""

    name = "lower-float-region"

    def __init__(self, session: QContext) -> None:
        super().__init__(session)
        #: by float value at the end of a region
        self._regions: dict[SSAValue, _Region] = {}
        self._places: dict[Operation, int] = {}

    def prepare(self, module: Operation) -> None:
        self._places = {op: place for place, op in enumerate(module.walk())}

    def roots(self) -> Iterable[str]:
        return (QCastOp.name, ReturnOp.name)

    def match(self, op: Operation) -> _Region | None:
        for value in op.operands:
            if not is_float(value.type) or not isinstance(value.owner, Operation):
                continue
            known = self._regions.get(value)
            if known is None:
                region = float_region_of([value], self.session.behaviors)
                if not region.ops:
                    continue
                known = _Region(region, self._plan(region))
                # A region is planned once for all its ends.
                ends = [*(cast.input for cast in region.closings), *region.returned]
                self._regions.update(dict.fromkeys(ends, known))
            if not isinstance(known.plan, Refusal) or isinstance(op, QCastOp):
                return known
        return None

    def _plan(self, region: FloatRegion) -> RegionPlan | Refusal:
        if region.open:
            return Refusal("open-region", region.open)
        for cast in region.closings:
            params = qparams_of(cast.result)
            if params is None or not is_integer(params):
                return Refusal("storage", "it is quantized to something else than integers")
        try:
            # In program order, so that what is used again stands before its first user.
            return RegionPlan(self.session, region, self._places.__getitem__)
        except NoFixedPointError as error:
            return error.refusal

    def check(self, match: _Region) -> Contract | Refusal:
        plan = match.plan
        if isinstance(plan, Refusal):
            return plan
        worst = EXACT
        for cast in match.region.closings:
            found = self._closing(plan, cast)
            if isinstance(found, Refusal):
                return found
            if (found.level, found.steps) > (worst.level, worst.steps):
                worst = found
        if plan.caveat:
            return Contract(Numerics.RELAXED, worst.steps, plan.caveat)
        if match.region.returned:
            found = [plan.of[value] for value in match.region.returned]
            x = max(found, key=lambda x: x.error)
            note = f"a float result is given in steps of {x.params.scale_list()[0]:.2g}"
            return Contract(Numerics.RELAXED, inf, f"{note}, off by up to {x.error:.2g}")
        return worst

    def _closing(self, plan: RegionPlan, cast: QCastOp) -> Contract | Refusal:
        x, params = plan.fixed(cast, cast.input), qparams_of(cast.result)
        assert params is not None
        rounding = cast_rounding(cast)
        if rounding.two_stage or params.layout is not x.params.layout:
            return Refusal("axis", "it is quantized along a dimension")
        if not isfinite(self.session.target.rescale_price(x.params, params)):
            return Refusal("target", f"{self.session.target.name} has no such rescale")
        _, contract = target_rounding(
            self.session.target, rounding, lambda: x.params, params, arithmetic_of(cast)
        )
        if isinstance(contract, Refusal) or not x.error:
            return contract
        if not isfinite(x.error):
            return Contract(Numerics.RELAXED, x.error, "no bound of the error is known")
        steps = x.error / min(params.scale_list())
        note = f"what is quantized is off by up to {steps:.2g} steps"
        return Contract(Numerics.BOUNDED, floor(steps) + 1, note)

    def rewrite(self, match: _Region, rewriter: Rewriter) -> None:
        plan = match.plan
        assert isinstance(plan, RegionPlan)
        closings = [(cast, plan.fixed(cast, cast.input)) for cast in match.region.closings]
        for planned in plan.ops:
            values = [x.value for x in planned.operands if x.value is not None]
            new = planned.build(values)
            rewriter.insert(new, planned.before, keep=planned.keep)
            for x, result in zip(planned.results, new.results, strict=True):
                x.value = result
        rescales: list[RescaleOp] = []
        for cast, x in closings:
            assert x.value is not None
            rounding = self.session.target.rounding(cast_rounding(cast))
            rescales.append(RescaleOp(x.value, cast.result.type, rounding))
            rewriter.insert(rescales[-1], cast, keep=cast)
        casts: list[DCastOp] = []
        for value in match.region.returned:
            codes = plan.of[value].value
            assert codes is not None
            casts.append(DCastOp(codes, value.type))
            assert isinstance(codes.owner, Operation) and isinstance(value.owner, Operation)
            rewriter.insert_after(casts[-1], value.owner, keep=value.owner)
        for op in match.region.orders:
            self._replace_plain(op, plan, rewriter)
        for (cast, _), rescale in zip(closings, rescales, strict=True):
            rewriter.replace(cast, rescale.results)
        for value, cast in zip(match.region.returned, casts, strict=True):
            rewriter.replace_value(value, cast.result)
            rewriter.drop(value)

    def _replace_plain(self, op: Operation, plan: RegionPlan, rewriter: Rewriter) -> None:
        """Results of an op that compares, if they are no elements of its operands."""
        for result in op.results:
            value = plan.of[result].value
            if result.first_use is not None and value is not None and value.type == result.type:
                rewriter.replace_value(result, value)


@dataclass(frozen=True)
class LowerFloatRegions(RulePass):
    """Float regions in integers of 32 bits; see the module."""

    name = "lower-float-regions"
    of = (LowerFloatRegion,)

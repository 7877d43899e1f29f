"""Fold rescales and the casts around them.

rescale(q) to the same type                 -> q                      exact
rescale(rescale(q))                         -> rescale(q)             exact if the
                   middle loses nothing on the image (decided on all codes), else
                   bounded(s_mid / (2 s_out) + 1) if the middle cannot saturate
rescale(constant)                           -> constant               exact
quantize(constant)                          -> constant               exact
quantize(dequantize(q)), same type          -> q                      exact if codes
                   are inside the bounds and the float path is wide enough
quantize(dequantize(q)), other type         -> rescale(q)             exact (reals)
rescale(quantize(x))                        -> quantize(x)            as a pair
dequantize(rescale(q)), dequantize(quantize(x))                       relaxed
compare(rescale(q), ...), argmax(rescale(q))                          exact if no two
                   codes that they compare become one; then they read q

For example

    %0 = quant.rescale %x : !q to !wide
    %1 = quant.rescale %0 : !wide to !double

becomes

    %1 = quant.rescale %x : !q to !double
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from xdsl.ir import Operation

from qdialect.algebra import requantize as exact
from qdialect.algebra.arithmetic import Arithmetic
from qdialect.algebra.contract import EXACT, Contract, Numerics
from qdialect.analysis.codes import survives_float
from qdialect.analysis.ranges import inside_bounds, narrowed_qparams, ranges
from qdialect.ir.context import QContext
from qdialect.ir.ops import constant_array, constant_of
from qdialect.ir.quant import QCastOp, RescaleOp, arithmetic_of, cast_rounding, same_type
from qdialect.passes.casts.cast_rules import (
    DequantizeOfQuantize,
    DequantizeOfRescale,
    Pair,
    QuantizeOfConstant,
    QuantizeOfDequantize,
    replace_by_constant,
)
from qdialect.passes.casts.order_rules import OrderOfRescale
from qdialect.passes.pair_contract import NO_TWO_STAGE, pair_contract
from qdialect.passes.rule_pass import RulePass, quantize_as, rescaled
from qdialect.rewrite import Refusal, Rewriter, Rule


class IdentityRescale(Rule[RescaleOp]):
    """rescale to the type it comes from changes nothing."""

    name = "identity-rescale"
    root = RescaleOp.name

    def match(self, op: Operation) -> RescaleOp | None:
        assert isinstance(op, RescaleOp)
        same = same_type(op.input.type, op.result.type) and op.fixed_point is None
        return op if same else None

    def check(self, match: RescaleOp) -> Contract | Refusal:
        if not inside_bounds(match.input, self.session):
            return Refusal("bounds", "codes may lie outside the narrowed bounds")
        params = match.input_qparams
        floats = arithmetic_of(match) is Arithmetic.EXPRESSED
        if floats and not survives_float(params, match.rounding):
            return Contract(Numerics.TIES, 1, f"{params.expressed} cannot carry every code")
        return EXACT

    def rewrite(self, match: RescaleOp, rewriter: Rewriter) -> None:
        rewriter.replace(match, [match.input])


class RescaleOfRescale(Rule[Pair]):
    """rescale_{b->c}(rescale_{a->b}(q)) = rescale_{a->c}(q); see `pair_contract`."""

    name = "rescale-of-rescale"
    root = RescaleOp.name

    def match(self, op: Operation) -> Pair | None:
        assert isinstance(op, RescaleOp)
        upper = rescaled(op.input)
        return Pair(op, upper) if upper is not None and op.fixed_point is None else None

    def check(self, match: Pair) -> Contract | Refusal:
        lower, upper = match.lower, match.upper
        assert isinstance(lower, RescaleOp) and isinstance(upper, RescaleOp)
        return pair_contract(
            narrowed_qparams(upper.input, self.session),
            upper.result_qparams,
            lower.result_qparams,
            upper.rounding,
            lower.rounding,
            defined=arithmetic_of(lower),
        )

    def rewrite(self, match: Pair, rewriter: Rewriter) -> None:
        assert isinstance(match.lower, RescaleOp)
        new = RescaleOp(match.source, match.result.type, match.lower.rounding)
        rewriter.insert(new, match.lower, keep=match.lower)
        rewriter.replace(match.lower, new.results)


class RescaleOfQuantize(Rule[Pair]):
    """rescale_{b->c}(quantize_b(x)) = quantize_c(x); see `pair_contract`."""

    name = "rescale-of-quantize"
    root = RescaleOp.name

    def match(self, op: Operation) -> Pair | None:
        assert isinstance(op, RescaleOp)
        upper = op.input.owner
        return Pair(op, upper) if isinstance(upper, QCastOp) and op.fixed_point is None else None

    def check(self, match: Pair) -> Contract | Refusal:
        lower = match.lower
        assert isinstance(lower, RescaleOp)
        if not lower.input.has_one_use():
            return Refusal("multi-use", "the quantized value is also used elsewhere")
        first = cast_rounding(match.upper)
        return pair_contract(
            None,
            lower.input_qparams,
            lower.result_qparams,
            first,
            lower.rounding,
            lambda: ranges(self.session).before_rounding(lower.input),
            defined=arithmetic_of(lower),
        )

    def rewrite(self, match: Pair, rewriter: Rewriter) -> None:
        assert isinstance(match.upper, QCastOp)
        new = quantize_as(match.upper, match.source, match.result.type)
        rewriter.insert(new, match.lower, keep=match.upper)
        rewriter.replace(match.lower, new.results)


class RescaleOfConstant(Rule[RescaleOp]):
    """A rescaled constant is a constant, computed as the source does."""

    name = "rescale-of-constant"
    root = RescaleOp.name

    def match(self, op: Operation) -> RescaleOp | None:
        assert isinstance(op, RescaleOp)
        is_real = op.fixed_point is None
        return op if is_real and constant_of(op.input) is not None else None

    def check(self, match: RescaleOp) -> Contract | Refusal:
        if exact.unique_pairs(match.input_qparams, match.result_qparams) is None:
            return Refusal("grid", "the two encodings lie on different grids")
        return NO_TWO_STAGE if match.rounding.two_stage else EXACT

    def rewrite(self, match: RescaleOp, rewriter: Rewriter) -> None:
        from qdialect.algebra.quantize import rescale_codes

        constant = constant_of(match.input)
        assert constant is not None
        codes = rescale_codes(
            constant_array(constant, self.session.blobs),
            match.input_qparams,
            match.result_qparams,
            match.rounding,
            arithmetic_of(match),
        )
        replace_by_constant(match, codes, constant, self.session, rewriter)


@dataclass(frozen=True)
class FoldRescale(RulePass):
    """Fold rescales and the casts around them; see the module."""

    name = "fold-rescale"

    boundary: Literal["preserve", "minimize-conversions"] = "preserve"

    def rules(self, session: QContext) -> Sequence[Rule[Any]]:
        return (
            IdentityRescale(session),
            RescaleOfConstant(session),
            RescaleOfRescale(session),
            RescaleOfQuantize(session),
            QuantizeOfDequantize(session),
            QuantizeOfConstant(session),
            DequantizeOfRescale(session),
            DequantizeOfQuantize(session, keeps_integers=self.boundary == "preserve"),
            OrderOfRescale(session),
        )

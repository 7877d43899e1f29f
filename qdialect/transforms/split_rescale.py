"""Take rescales out of requantizing ops, which leaves exact integer arithmetic.

    op_b(x, ...)  ->  rescale_{a->b}(op_a(x, ...))      a = i32, zero point 0, on which
                                                        the op is exact

The inverse of `combine-rescale`, for targets whose operators sum in 32 bits and rescale
after: a contraction on the product of its scales, a product likewise, a sum on the scale
of its operands, a mean of n on 1/n of it.  Exact, as the only rounding is that of the
rescale; a mean's scale may not be a number of 53 bits, which moves nothing but ties.

Terms of different scales are multiplied by integers first, onto 2**-k of the result's step
(`numerics.alignment`): exact if it comes out equal on all pairs of codes, else bounded(1).

Refused where 32 bits may not hold a sum.

For example

    %0 = nn.mul %x, %y : (!a, !b) -> !c

becomes

    %0 = nn.mul %x, %y : (!a, !b) -> !products
    %1 = quant.rescale %0 : !products to !c
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from xdsl.ir import Operation, SSAValue

from qdialect.analysis.codes import is_integer, qparams_of, rounding_of
from qdialect.analysis.contractions import sums_of
from qdialect.analysis.ranges import ranges
from qdialect.behaviors import Accumulator, Behavior
from qdialect.behaviors import Rule as PortRule
from qdialect.behaviors.shapes import DYNAMIC
from qdialect.context import QContext
from qdialect.dialects.quant import RescaleOp
from qdialect.numerics import alignment
from qdialect.numerics.alignment import Alignment
from qdialect.numerics.contract import EXACT, Contract, Numerics
from qdialect.numerics.requantize import Affine, affines, same_codes
from qdialect.numerics.rounding import Rounding
from qdialect.qparams import QParams
from qdialect.rewrite import Refusal, Rewriter, Rule, retyped
from qdialect.transforms.rule_pass import RulePass, refuse_types, with_qparams

_MAX = 2**31 - 1
_FEW = 1 << 20


@dataclass(frozen=True)
class Split:
    """A requantizing op, and the qparams of its result."""

    op: Operation
    behavior: Behavior
    result: QParams


class _Splitting(Rule[Split]):
    """What the rules share: the op with an exact result, and a rescale behind it."""

    def match(self, op: Operation) -> Split | None:
        behavior = self.session.behaviors.get(op)
        if behavior is None or len(op.results) != 1:
            return None
        result = qparams_of(op.results[0])
        if behavior.results[0].rule is not PortRule.REQUANT or result is None:
            return None
        return Split(op, behavior, result) if is_integer(result) else None

    def refusal(self, match: Split, operands: Sequence[Any], exact: QParams) -> Refusal | None:
        """Why the op must not have these operands and the result `exact`."""
        kinds = [with_qparams(match.op.results[0], exact)]
        return refuse_types(self.session, match.behavior, match.op, operands, kinds)

    def split(
        self, match: Split, operands: Sequence[SSAValue], exact: QParams, rewriter: Rewriter
    ) -> None:
        """Insert the op on `operands` with result `exact`, and rescale that."""
        kind = with_qparams(match.op.results[0], exact)
        new = retyped(match.op, operands, [kind])
        new.properties.pop("rounding", None)
        default = type(match.op).get_irdl_definition().properties  # pyright: ignore
        if "rounding" in default and default["rounding"].default_value is not None:
            new.properties["rounding"] = default["rounding"].default_value
        rewriter.insert(new, match.op, keep=match.op)
        rounding = rounding_of(match.op)
        rescale = RescaleOp(new.results[0], match.op.results[0].type, rounding)
        rewriter.insert(rescale, match.op, keep=match.op)
        rewriter.replace(match.op, rescale.results)


class SplitContraction(_Splitting):
    """op_b(x, w, bias) = rescale(op(x, w, bias)), the sum of products being an i32."""

    name = "split-contraction"

    def roots(self) -> Iterable[str]:
        return self.session.behaviors.names_with(lambda b: b.accumulator is not None)

    def check(self, match: Split) -> Contract | Refusal:
        exact = self._exact(match)
        if isinstance(exact, Refusal):
            return exact
        if exact == match.result:
            return Refusal("done", "the result is the sum")
        kinds = [value.type for value in match.op.operands]
        return self.refusal(match, kinds, exact) or EXACT

    def _exact(self, match: Split) -> QParams | Refusal:
        acc = match.behavior.accumulator
        assert acc is not None
        lhs, rhs = (qparams_of(match.op.operands[n]) for n in (acc.lhs, acc.rhs))
        if lhs is None or rhs is None or not (is_integer(lhs) and is_integer(rhs)):
            return Refusal("float", "not all operands are integers")
        if not lhs.is_per_tensor:
            return Refusal("axis", "the left side is not quantized per tensor")
        if not (rhs.is_per_tensor or rhs.axis == acc.rhs_axis(match.op)):
            return Refusal("axis", "the right side's scales vary along a summed dimension")
        largest = self._largest(match, acc)
        if largest is None or largest > _MAX:
            return Refusal("overflow", "a sum of products may leave 32 bits")
        return accumulator_qparams(match.op, acc, lhs, rhs)

    def _largest(self, match: Split, acc: Accumulator) -> int | None:
        if acc.depth(match.op) == DYNAMIC:
            return None
        sides = match.op.operands[acc.lhs], match.op.operands[acc.rhs]
        known = ranges(self.session).of
        port = match.behavior.operand_port(acc.rhs)
        found = sums_of(self.session, match.op, acc, port, sides, known, partial=True)
        if found is None:
            return None
        if acc.bias is None or acc.bias >= len(match.op.operands):
            return found.largest
        bias = known(match.op.operands[acc.bias])
        return None if bias is None else found.largest + int(bias.largest)

    def rewrite(self, match: Split, rewriter: Rewriter) -> None:
        exact = self._exact(match)
        assert isinstance(exact, QParams)
        self.split(match, match.op.operands, exact, rewriter)


class SplitExact(_Splitting):
    """op_b(x, ...) = rescale(op(x, ...)) where an i32 holds every result exactly
    (`Behavior.grid`)."""

    name = "split-exact"

    def roots(self) -> Iterable[str]:
        return self.session.behaviors.names_with(lambda b: b.grid is not None)

    def check(self, match: Split) -> Contract | Refusal:
        given = operand_qparams(match.op, match.behavior)
        if isinstance(given, Refusal):
            return given
        exact = self._exact(match, given)
        if isinstance(exact, Refusal):
            return exact
        scale, params = exact
        if params == match.result:
            return Refusal("done", "the result is exact")
        kinds = [value.type for value in match.op.operands]
        refusal = self.refusal(match, kinds, params)
        if refusal is not None:
            return refusal
        return self._contract(match, scale, params)

    def _contract(self, match: Split, scale: Fraction, params: QParams) -> Contract:
        """What the step in 53 bits in place of the exact one may change."""
        if Fraction(params.scale) == scale:
            return EXACT
        found = ranges(self.session).before_rounding(match.op.results[0])
        assert found is not None
        sums = int(max(f.largest for f in found) / scale) + 1
        rounding = rounding_of(match.op)
        if sums <= _FEW and all(
            same_codes(sums, (scale, Fraction(params.scale)), out, rounding)
            for out in affines(match.result)
        ):
            return Contract(Numerics.EXACT, note="equal for every sum")
        return Contract(Numerics.TIES, note="a step of more than 53 bits: near ties may move")

    def _exact(
        self, match: Split, given: Sequence[QParams]
    ) -> tuple[Fraction, QParams] | Refusal:
        assert match.behavior.grid is not None
        scale = match.behavior.grid(match.op, given)
        if scale is None:
            return Refusal("grid", "no single step makes up every result")
        found = ranges(self.session).before_rounding(match.op.results[0])
        if found is None or any(f.largest > _MAX * scale for f in found):
            return Refusal("overflow", "32 bits may not hold every result")
        try:
            return scale, QParams.per_tensor("i32", float(scale), 0, given[0].expressed)
        except (ValueError, OverflowError):
            return Refusal("grid", "the step of the result is no number of its type")

    def rewrite(self, match: Split, rewriter: Rewriter) -> None:
        given = operand_qparams(match.op, match.behavior)
        assert not isinstance(given, Refusal)
        exact = self._exact(match, given)
        assert not isinstance(exact, Refusal)
        self.split(match, match.op.operands, exact[1], rewriter)


class SplitAligned(_Splitting):
    """op_b(x, y) = rescale(op(m_x x, m_y y)): terms of different scales on one."""

    name = "split-aligned"

    def roots(self) -> Iterable[str]:
        return self.session.behaviors.names_with(lambda b: b.grid is not None)

    def match(self, op: Operation) -> Split | None:
        found = super().match(op)
        return found if found is not None and len(op.operands) == 2 else None

    def check(self, match: Split) -> Contract | Refusal:
        given = operand_qparams(match.op, match.behavior)
        if isinstance(given, Refusal):
            return given
        plan = self._plan(match, given)
        if isinstance(plan, Refusal):
            return plan
        common = self._common(match, given, plan)
        kinds = [with_qparams(value, common) for value in match.op.operands]
        refusal = self.refusal(match, kinds, common)
        if refusal is not None:
            return refusal
        terms, (out,) = [affines(q)[0] for q in given], affines(match.result)
        # A difference takes its second term negated; over all pairs of codes that is all.
        signs = (1, -1 if self._subtracts(match) else 1)
        return alignment.contract(terms, signs, out, plan, rounding_of(match.op))

    def _subtracts(self, match: Split) -> bool:
        assert match.behavior.arithmetic is not None
        return match.behavior.arithmetic(match.op, (Fraction(0), Fraction(1))) < 0

    def _plan(self, match: Split, given: Sequence[QParams]) -> Alignment | Refusal:
        grid = match.behavior.grid
        assert grid is not None
        if grid(match.op, given) is not None:
            return Refusal("aligned", "the operands have one scale")
        if grid(match.op, (given[0], given[0])) is None:
            return Refusal("grid", "equal scales would not help")
        if not match.result.is_per_tensor:
            return Refusal("axis", "the result is not quantized per tensor")
        if rounding_of(match.op) is Rounding.GEMMLOWP:
            return Refusal("rounding", "gemmlowp rounds multiplier and shift, no sums")
        terms: list[Affine] = [affines(q)[0] for q in given]
        plan = alignment.align(terms, affines(match.result)[0])
        return plan or Refusal("overflow", "32 bits are too few for the sum")

    def _common(self, match: Split, given: Sequence[QParams], plan: Alignment) -> QParams:
        step = match.result.scale * 2.0**-plan.shift
        return QParams.per_tensor("i32", step, 0, given[0].expressed)

    def rewrite(self, match: Split, rewriter: Rewriter) -> None:
        given = operand_qparams(match.op, match.behavior)
        assert not isinstance(given, Refusal)
        plan = self._plan(match, given)
        assert isinstance(plan, Alignment)
        common = self._common(match, given, plan)
        operands: list[SSAValue] = []
        for value, params, factor in zip(match.op.operands, given, plan.factors, strict=True):
            (a,) = affines(params)
            furthest = max(abs(end - a.zero) for end in params.storage.full_range)
            m, k = alignment.as_pair(factor, furthest)
            term = RescaleOp(value, with_qparams(value, common), Rounding.HALF_UP, [m], [k])
            rewriter.insert(term, match.op)
            operands.append(term.result)
        self.split(match, operands, common, rewriter)


def operand_qparams(op: Operation, behavior: Behavior) -> list[QParams] | Refusal:
    """The qparams of the requantizing operands, with the bounds that codes keep, if all
    are integers with one scale."""
    found: list[QParams] = []
    for index, value in enumerate(op.operands):
        if behavior.operand_port(index).rule is not PortRule.REQUANT:
            continue
        params = qparams_of(value)
        if params is None or not is_integer(params):
            return Refusal("float", "not all operands are integers")
        if not params.is_per_tensor:
            return Refusal("axis", "an operand is not quantized per tensor")
        found.append(params)
    return found or Refusal("float", "no operand is quantized")


def accumulator_qparams(op: Operation, acc: Accumulator, lhs: QParams, rhs: QParams) -> QParams:
    """The i32 that sums products of `lhs` and `rhs`, per output channel where `rhs` is."""
    scales = [lhs.scale * s for s in rhs.scale_list()]
    if len(scales) == 1:
        return QParams.per_tensor("i32", scales[0], 0, lhs.expressed)
    axis, repeats = acc.result_axis(op), acc.repeats(op)
    return QParams.per_axis("i32", axis, scales * repeats, None, lhs.expressed)


@dataclass(frozen=True)
class SplitRescale(RulePass):
    """Exact integer ops, and rescales behind them; see the module."""

    name = "split-rescale"

    def rules(self, session: QContext) -> Sequence[Rule[Any]]:
        return (SplitContraction(session), SplitExact(session), SplitAligned(session))



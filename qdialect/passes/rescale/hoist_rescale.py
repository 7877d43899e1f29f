"""Move rescales above movement and order-preserving ops: `sink-rescale` backwards.

    rescale_{a->b}(f(x, ...))  ->  f(rescale_{a'->b'}(x), ...)

where f carries a' to a and b' to b. Exact on values, by law 2.2 for a movement and
by monotonicity for an order-preserving f. Useful where a producer above can
absorb it, or above an op that multiplies elements. Many rescales pass many ops in one
rewrite (`runs`).

For example

    %0 = nn.transpose %x perm [1, 0] : (!a) -> !a_out
    %1 = quant.rescale %0 : !a_out to !b_out

becomes

    %0 = quant.rescale %x : !a to !b
    %1 = nn.transpose %0 perm [1, 0] : (!b) -> !b_out
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.ir import Operation, SSAValue

from qdialect.algebra.contract import EXACT, Contract
from qdialect.algebra.qparams import QParams
from qdialect.algebra.qparams.legality import Illegal
from qdialect.analysis.codes import qparams_of
from qdialect.analysis.ranges import inside_bounds, narrowed_qparams
from qdialect.ir.behaviors import Behavior
from qdialect.ir.behaviors.flow import carry_all_down, carry_up, tied_operands
from qdialect.ir.quant import RescaleOp
from qdialect.passes.rescale.passing import is_passable, passage, rescaled_to, same_order
from qdialect.passes.rescale.runs import HoistPastRun
from qdialect.passes.rule_pass import (
    RulePass,
    refuse_growth,
    refuse_tied,
    rescaled,
    with_qparams,
)
from qdialect.rewrite import Refusal, Rewriter, Rule, retyped


@dataclass(frozen=True)
class _Rescaled:
    """A commuting op and the rescale of each of its results."""

    op: Operation
    behavior: Behavior
    rescales: tuple[RescaleOp, ...]


class HoistThroughTied(Rule[_Rescaled]):
    """rescale(f(x)) = f(rescale(x)); see the module."""

    name = "hoist-through-tied"
    root = RescaleOp.name

    def accepts(self, behavior: Behavior) -> bool:
        """Whether the rule is about ops with this declaration."""
        return behavior.commutes

    def match(self, op: Operation) -> _Rescaled | None:
        assert isinstance(op, RescaleOp)
        owner = op.input.owner
        behavior = self.session.behaviors.get(owner) if isinstance(owner, Operation) else None
        if behavior is None or not isinstance(owner, Operation) or not self.accepts(behavior):
            return None
        if op.fixed_point is not None:
            return None
        below = [op if r is op.input else self._rescale(r) for r in owner.results]
        return _Rescaled(owner, behavior, tuple(r for r in below if r is not None))

    def _rescale(self, result: SSAValue) -> RescaleOp | None:
        use = result.first_use
        user = use.operation if use is not None else None
        if not isinstance(user, RescaleOp):
            return None
        return rescaled(user.result)

    def check(self, match: _Rescaled) -> Contract | Refusal:
        if len(match.rescales) != len(match.op.results) or not all(
            result.has_one_use() for result in match.op.results
        ):
            return Refusal("multi-use", "the op's result is also used as it is")
        if len({r.rounding for r in match.rescales}) > 1:
            return Refusal("rounding", "the results are rescaled with different roundings")
        tied = [match.op.operands[i] for i in tied_operands(match.op, match.behavior)]
        sources = [q for v in tied if (q := qparams_of(v)) is not None]
        results = [r.input_qparams for r in match.rescales]
        if carry_all_down(match.op, match.behavior, sources, results) != results:
            return Refusal("mixed", f"'{match.op.name}' requantizes its operands")
        above = self._above(match)
        if isinstance(above, Illegal):
            return Refusal(above.code, above.reason)
        contract = self.contract(match, above)
        if isinstance(contract, Refusal):
            return contract
        below = [r.result_qparams for r in match.rescales]
        refusal = refuse_tied(self.session, match.behavior, match.op, above, below)
        return refusal or refuse_growth(below, above) or contract

    def contract(self, match: _Rescaled, above: Sequence[QParams]) -> Contract | Refusal:
        """What an op whose tied operands get the qparams `above` may change."""
        tied = [match.op.operands[i] for i in tied_operands(match.op, match.behavior)]
        sources = [q for v in tied if (q := qparams_of(v)) is not None]
        if same_order(
            match.behavior,
            match.op,
            sources,
            above,
            narrowed_qparams(tied[0], self.session) or sources[0],
            match.rescales[0].rounding,
            inside=all(inside_bounds(v, self.session) for v in tied),
        ):
            return EXACT
        return Refusal("levels", "no code stands for a constant it compares with")

    def _above(self, match: _Rescaled) -> list[QParams] | Illegal:
        return carry_up(match.op, match.behavior, [r.result_qparams for r in match.rescales])

    def rewrite(self, match: _Rescaled, rewriter: Rewriter) -> None:
        above = self._above(match)
        assert not isinstance(above, Illegal)
        operands = list(match.op.operands)
        rounding = match.rescales[0].rounding
        rescaled_values: dict[tuple[SSAValue, QParams], SSAValue] = {}
        for index, params in zip(tied_operands(match.op, match.behavior), above, strict=True):
            value = operands[index]
            if (value, params) not in rescaled_values:
                rescale = RescaleOp(value, with_qparams(value, params), rounding)
                rewriter.insert(rescale, match.op, keep=match.rescales[0])
                rescaled_values[value, params] = rescale.result
            operands[index] = rescaled_values[value, params]
        moved = retyped(match.op, operands, [r.result.type for r in match.rescales])
        rewriter.insert(moved, match.op, keep=match.op)
        pairs = list(zip(match.rescales, moved.results, strict=True))
        rewriter.check_replaced((rescale.result, result) for rescale, result in pairs)
        for rescale, result in pairs:
            rewriter.replace(rescale, [result])


class HoistThroughBounded(HoistThroughTied):
    """rescale(f(x)) ~ f(rescale(x)) for tied ports of an op that computes; see `passage`."""

    name = "hoist-through-bounded"

    def accepts(self, behavior: Behavior) -> bool:
        """Ops with tied ports that compute."""
        return is_passable(behavior)

    def contract(self, match: _Rescaled, above: Sequence[QParams]) -> Contract | Refusal:
        """The bound of `passage`."""
        tied = [match.op.operands[i] for i in tied_operands(match.op, match.behavior)]
        pairs = zip(tied, above, strict=True)
        moves = [rescaled_to(value, params, self.session) for value, params in pairs]
        return passage(self.session, match.op, match.behavior, moves, match.rescales[0].rounding)


@dataclass(frozen=True)
class HoistRescale(RulePass):
    """Move rescales above movement and order-preserving ops; see the module."""

    name = "hoist-rescale"
    of = (HoistPastRun, HoistThroughTied, HoistThroughBounded)

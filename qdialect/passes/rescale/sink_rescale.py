"""Move rescales below movement and order-preserving ops.

    f(rescale_{a->b}(x))  ->  rescale_{a'->b'}(f(x))

For a movement f this is law 2.2 (integers are copied, so an elementwise map
commutes); for an order-preserving f it is monotonicity of the rescale. Exact on
values either way; a clamp at levels that no code names passes if all codes agree.
Operands of an op with several tied operands must all be rescaled from equal qparams; for
a maximum or minimum a constant will do,

    max(rescale_{a->b}(x), c)  ->  rescale_{a->b}(max(x, c'))

if on all codes some c' gives the same: one that is rescaled to c, or, where c is never
the result, one that never is. An op with tied ports that does not commute (an average on
one scale, a local response normalization) lets a rescale pass within a bound.
Many rescales pass many ops in one rewrite (`runs`).

For example

    %0 = quant.rescale %x : !a to !b
    %1 = nn.reshape %0 : (!b) -> !b_out

becomes

    %0 = nn.reshape %x : (!a) -> !a_out
    %1 = quant.rescale %0 : !a_out to !b_out
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from xdsl.ir import Operation, SSAValue

from qdialect.algebra.contract import EXACT, Contract
from qdialect.algebra.qparams import QParams
from qdialect.algebra.qparams.legality import Illegal
from qdialect.algebra.rounding import Rounding
from qdialect.analysis.codes import qparams_of
from qdialect.analysis.ranges import inside_bounds, narrowed_qparams
from qdialect.ir.behaviors import Behavior
from qdialect.ir.behaviors.flow import carry_all_down, carry_some_down, tied_operands
from qdialect.ir.context import QContext
from qdialect.ir.ops import constant_of, make_constant
from qdialect.ir.quant import RescaleOp, UniformType, arithmetic_of
from qdialect.passes.rescale.passing import (
    Counterpart,
    constant_operand,
    counterpart,
    is_passable,
    passage,
    rescaled_to,
    same_order,
)
from qdialect.passes.rescale.runs import SinkPastRun
from qdialect.passes.rule_pass import (
    RulePass,
    refuse_growth,
    refuse_tied,
    rescaled,
    users,
    with_qparams,
)
from qdialect.rewrite import Refusal, Rewriter, Rule, retyped


@dataclass(frozen=True)
class _Tied:
    """An op, the rescales above it, and the numbers of the operands they are; its other
    tied operands are constants."""

    op: Operation
    behavior: Behavior
    rescales: tuple[RescaleOp, ...]
    at: tuple[int, ...]

    @property
    def rounding(self) -> Rounding:
        return self.rescales[0].rounding


class SinkThroughTied(Rule[_Tied]):
    """f(rescale(x), ...) = rescale(f(x, ...)); see the module."""

    name = "sink-through-tied"

    def roots(self) -> Iterable[str]:
        return self.session.behaviors.names_with(lambda b: b.commutes)

    def match(self, op: Operation) -> _Tied | None:
        behavior = self.session.behaviors.get(op)
        assert behavior is not None
        tied = tied_operands(op, behavior)
        if not op.results or not tied:
            return None
        above = {i: r for i in tied if (r := rescaled(op.operands[i])) is not None}
        rest = [op.operands[i] for i in tied if i not in above]
        constants = behavior.choose is not None and all(map(constant_of, rest))
        if not above or (rest and not constants):
            return None
        return _Tied(op, behavior, tuple(above.values()), tuple(above))

    def check(self, match: _Tied) -> Contract | Refusal:
        if len({r.rounding for r in match.rescales}) > 1:
            return Refusal("rounding", "the operands are rescaled with different roundings")
        if match.behavior.requantizes_inputs and not self._only_moves(match):
            return Refusal("mixed", f"'{match.op.name}' requantizes its operands")
        carried = self._carried(match)
        if isinstance(carried, Illegal):
            return Refusal(carried.code, carried.reason)
        for rescale in match.rescales:
            blocker = self._blocking_user(match.op, rescale)
            if blocker is not None:
                return Refusal("multi-use", f"'{blocker.name}' needs the rescaled value")
        contract = self.contract(match)
        if isinstance(contract, Refusal):
            return contract
        operands, results = carried
        constants = self._constants(match, operands)
        if isinstance(constants, Refusal):
            return constants
        refusal = refuse_tied(self.session, match.behavior, match.op, operands, results)
        above = [r.input_qparams for r in match.rescales]
        return refusal or refuse_growth(above, results) or contract

    def contract(self, match: _Tied) -> Contract | Refusal:
        """What moving the rescales below the op may change."""
        first = match.rescales[0].input
        if same_order(
            match.behavior,
            match.op,
            [r.input_qparams for r in match.rescales],
            [r.result_qparams for r in match.rescales],
            narrowed_qparams(first, self.session) or match.rescales[0].input_qparams,
            match.rounding,
            inside=all(inside_bounds(r.input, self.session) for r in match.rescales),
        ):
            return EXACT
        return Refusal("levels", "no code stands for a constant it compares with")

    def lets_pass(self, user: Operation, behavior: Behavior) -> bool:
        """Whether another user of the rescaled value may take it below itself."""
        return behavior.commutes

    def _only_moves(self, match: _Tied) -> bool:
        """Whether an op that may requantize its operands does not."""
        rescaled_to = [r.result_qparams for r in match.rescales]
        results = [qparams_of(result) for result in match.op.results]
        return carry_all_down(match.op, match.behavior, rescaled_to, results) == results

    def _carried(self, match: _Tied) -> tuple[list[QParams], list[QParams]] | Illegal:
        """Qparams of the tied operands and of the results without the rescales."""
        above = [r.input_qparams for r in match.rescales]
        if match.behavior.requantizes_inputs and len(set(above)) > 1:
            return Illegal("concat-params", "the operands are rescaled from different qparams")
        if len(above) < len(tied_operands(match.op, match.behavior)):
            known = dict(zip(match.at, above, strict=True))
            carried = carry_some_down(match.op, match.behavior, known)
            return carried if isinstance(carried, Illegal) else (carried[:-1], carried[-1:])
        like = [qparams_of(result) for result in match.op.results]
        below = carry_all_down(match.op, match.behavior, above, like)
        return below if isinstance(below, Illegal) else (above, below)

    def _constants(self, match: _Tied, operands: Sequence[QParams]) -> list[Counterpart] | Refusal:
        """The constant operands on the qparams of `operands`, without the rescales."""
        found: list[Counterpart] = []
        tied = tied_operands(match.op, match.behavior)
        for index, params in zip(tied, operands, strict=True):
            if index not in match.at:
                one = counterpart(
                    match.op,
                    match.behavior,
                    constant_operand(self.session, match.op, index),
                    params,
                    match.rounding,
                    defined=arithmetic_of(match.op),
                    inside=all(inside_bounds(r.input, self.session) for r in match.rescales),
                )
                if isinstance(one, Refusal):
                    return one
                found.append(one)
        return found

    def _blocking_user(self, op: Operation, rescale: RescaleOp) -> Operation | None:
        """A user that a sunk rescale would still have to serve, if there is one."""
        if rescale.result.has_one_use():
            return None
        for user in users(rescale.result):
            behavior = self.session.behaviors.get(user)
            if user is not op and (behavior is None or not self.lets_pass(user, behavior)):
                return user
        return None

    def rewrite(self, match: _Tied, rewriter: Rewriter) -> None:
        carried = self._carried(match)
        assert not isinstance(carried, Illegal)
        constants = self._constants(match, carried[0])
        assert not isinstance(constants, Refusal)
        operands = list(match.op.operands)
        for index, rescale in zip(match.at, match.rescales, strict=True):
            operands[index] = rescale.input
        for one in constants:
            new = make_constant(one.codes, UniformType(one.params), self.session.blobs)
            rewriter.insert(new, match.op, keep=constant_of(operands[one.index]))
            operands[one.index] = new.result
        results = match.op.results
        kinds = [with_qparams(v, q) for v, q in zip(results, carried[1], strict=True)]
        moved = retyped(match.op, operands, kinds)
        rewriter.insert(moved, match.op, keep=match.op)
        below: list[SSAValue] = []
        for source, result in zip(moved.results, results, strict=True):
            rescale = RescaleOp(source, result.type, match.rounding)
            rewriter.insert(rescale, match.op, keep=match.rescales[0])
            below.append(rescale.result)
        rewriter.replace(match.op, below)


class SinkThroughBounded(SinkThroughTied):
    """f(rescale(x), ...) ~ rescale(f(x, ...)) for tied ports of an op that computes; see
    `passage`."""

    name = "sink-through-bounded"

    def roots(self) -> Iterable[str]:
        return self.session.behaviors.names_with(is_passable)

    def contract(self, match: _Tied) -> Contract | Refusal:
        """The bound of `passage`."""
        moves = [rescaled_to(r.input, r.result_qparams, self.session) for r in match.rescales]
        return passage(self.session, match.op, match.behavior, moves, match.rounding)

    def lets_pass(self, user: Operation, behavior: Behavior) -> bool:
        """None: each would need a bound of its own."""
        return False


@dataclass(frozen=True)
class SinkRescale(RulePass):
    """Move rescales below movement and order-preserving ops; see the module."""

    name = "sink-rescale"

    def rules(self, session: QContext) -> Sequence[Rule[Any]]:
        return (SinkPastRun(session), SinkThroughTied(session), SinkThroughBounded(session))

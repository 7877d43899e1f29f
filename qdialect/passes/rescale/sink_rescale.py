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

from xdsl.ir import Attribute, Operation, SSAValue

from qdialect.analysis.codes import qparams_of
from qdialect.analysis.ranges import inside_bounds, narrowed_qparams
from qdialect.behaviors import Behavior
from qdialect.behaviors.flow import carry_all_down, carry_some_down, tied_operands
from qdialect.context import QContext
from qdialect.numerics.contract import EXACT, Contract
from qdialect.numerics.rounding import Rounding
from qdialect.ops import constant_of, make_constant
from qdialect.passes.rescale.passing import (
    Counterpart,
    constant_operand,
    counterpart,
    is_passable,
    passage,
    rescaled_to,
    same_order,
)
from qdialect.passes.rule_pass import (
    RulePass,
    refuse_growth,
    refuse_types,
    rescaled,
    users,
    with_qparams,
)
from qdialect.qparams import QParams
from qdialect.qparams.legality import Illegal
from qdialect.quant import RescaleOp, UniformType, arithmetic_of
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
        sources = self._sources(match)
        if isinstance(sources, Illegal):
            return Refusal(sources.code, sources.reason)
        for rescale in match.rescales:
            blocker = self._blocking_user(match.op, rescale)
            if blocker is not None:
                return Refusal("multi-use", f"'{blocker.name}' needs the rescaled value")
        contract = self.contract(match, sources)
        if isinstance(contract, Refusal):
            return contract
        constants = self._constants(match)
        if isinstance(constants, Refusal):
            return constants
        refusal = refuse_types(
            self.session,
            match.behavior,
            match.op,
            self._kinds(match, constants),
            [with_qparams(v, q) for v, q in zip(match.op.results, sources, strict=True)],
        )
        above = [r.input_qparams for r in match.rescales]
        return refusal or refuse_growth(above, sources) or contract

    def contract(self, match: _Tied, sources: Sequence[QParams]) -> Contract | Refusal:
        """What an op whose results get the qparams `sources` may change."""
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
        return carry_all_down(match.op, match.behavior, rescaled_to) == results

    def _sources(self, match: _Tied) -> list[QParams] | Illegal:
        """Qparams of the results once the rescales are gone."""
        above = [r.input_qparams for r in match.rescales]
        if match.behavior.requantizes_inputs and len(set(above)) > 1:
            return Illegal("concat-params", "the operands are rescaled from different qparams")
        if match.behavior.movement is not None:
            return carry_all_down(match.op, match.behavior, above)
        carried = self._carried(match)
        return carried if isinstance(carried, Illegal) else carried[-1:]

    def _carried(self, match: _Tied) -> list[QParams] | Illegal:
        """Qparams of the tied operands, and then of the result, without the rescales."""
        above = [r.input_qparams for r in match.rescales]
        known = dict(zip(match.at, above, strict=True))
        if len(known) < len(tied_operands(match.op, match.behavior)):
            return carry_some_down(match.op, match.behavior, known)
        below = carry_all_down(match.op, match.behavior, above)
        return below if isinstance(below, Illegal) else [*above, *below]

    def _constants(self, match: _Tied) -> list[Counterpart] | Refusal:
        """What stands for the constant operands when the rescales are gone."""
        tied = tied_operands(match.op, match.behavior)
        if len(match.at) == len(tied):
            return []
        params = self._carried(match)
        if isinstance(params, Illegal):
            return Refusal(params.code, params.reason)
        found: list[Counterpart] = []
        for index, after in zip(tied, params, strict=False):
            if index not in match.at:
                one = counterpart(
                    match.op,
                    match.behavior,
                    constant_operand(self.session, match.op, index),
                    after,
                    match.rounding,
                    defined=arithmetic_of(match.op),
                    inside=all(inside_bounds(r.input, self.session) for r in match.rescales),
                )
                if isinstance(one, Refusal):
                    return one
                found.append(one)
        return found

    def _kinds(self, match: _Tied, constants: Sequence[Counterpart]) -> list[Attribute]:
        kinds = [v.type for v in match.op.operands]
        for index, rescale in zip(match.at, match.rescales, strict=True):
            kinds[index] = rescale.input.type
        for one in constants:
            kinds[one.index] = with_qparams(match.op.operands[one.index], one.params)
        return kinds

    def _blocking_user(self, op: Operation, rescale: RescaleOp) -> Operation | None:
        """A user that a sunk rescale would still have to serve, if there is one."""
        if rescale.result.has_one_use():
            return None
        for user in users(rescale.result):
            behavior = self.session.behaviors.get(user)
            if user is not op and (behavior is None or not self.lets_pass(user, behavior)):
                return user
        return None

    def _operands(self, match: _Tied, rewriter: Rewriter) -> list[SSAValue]:
        operands = list(match.op.operands)
        for index, rescale in zip(match.at, match.rescales, strict=True):
            operands[index] = rescale.input
        constants = self._constants(match)
        assert not isinstance(constants, Refusal)
        for one in constants:
            element = UniformType(one.params)
            new = make_constant(one.codes, element, self.session.blobs)
            rewriter.insert(new, match.op, keep=constant_of(operands[one.index]))
            operands[one.index] = new.result
        return operands

    def rewrite(self, match: _Tied, rewriter: Rewriter) -> None:
        sources = self._sources(match)
        assert not isinstance(sources, Illegal)
        results = match.op.results
        kinds = [with_qparams(v, q) for v, q in zip(results, sources, strict=True)]
        moved = retyped(match.op, self._operands(match, rewriter), kinds)
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

    def contract(self, match: _Tied, sources: Sequence[QParams]) -> Contract | Refusal:
        moves = [rescaled_to(r.input, r.result_qparams, self.session) for r in match.rescales]
        return passage(self.session, match.op, match.behavior, moves, match.rounding)

    def lets_pass(self, user: Operation, behavior: Behavior) -> bool:
        return False


@dataclass(frozen=True)
class SinkRescale(RulePass):
    """Move rescales below movement and order-preserving ops; see the module."""

    name = "sink-rescale"

    def rules(self, session: QContext) -> Sequence[Rule[Any]]:
        return (SinkThroughTied(session), SinkThroughBounded(session))

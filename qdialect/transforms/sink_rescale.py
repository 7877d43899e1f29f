"""Move rescales below movement and order-preserving ops.

    f(rescale_{a->b}(x))  ->  rescale_{a'->b'}(f(x))

For a movement f this is law 2.2 (integers are copied, so an elementwise map
commutes); for an order-preserving f it is monotonicity of the rescale. Exact on
values either way. Operands of an op with several tied operands must all be
rescaled from equal qparams.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from xdsl.ir import Operation, SSAValue

from qdialect.behaviors import Behavior
from qdialect.behaviors.flow import carry_down, tied_operands
from qdialect.context import QContext
from qdialect.dialects.quant import RescaleOp
from qdialect.numerics.contract import EXACT, Contract
from qdialect.numerics.rounding import Rounding
from qdialect.qparams import QParams
from qdialect.qparams.legality import Illegal
from qdialect.rewrite import Refusal, Rewriter, Rule, retyped
from qdialect.transforms.fold_rescale import inside_bounds
from qdialect.transforms.rule_pass import (
    RulePass,
    keeps_order,
    qparams_of,
    refuse_growth,
    refuse_types,
    rescaled,
    users,
    with_qparams,
)


@dataclass(frozen=True)
class _Tied:
    op: Operation
    behavior: Behavior
    rescales: tuple[RescaleOp, ...]

    @property
    def rounding(self) -> Rounding:
        return self.rescales[0].rounding


class SinkThroughTied(Rule[_Tied]):
    """f(rescale(x), ...) = rescale(f(x, ...)); see the module."""

    name = "sink-through-tied"

    def roots(self) -> Iterable[str]:
        return self.session.behaviors.names_with(lambda b: b.is_tied)

    def match(self, op: Operation) -> _Tied | None:
        behavior = self.session.behaviors.get(op)
        assert behavior is not None
        tied = tied_operands(op, behavior)
        if len(op.results) != 1 or not tied:
            return None
        above = [rescaled(op.operands[i]) for i in tied]
        rescales = tuple(r for r in above if r is not None)
        return _Tied(op, behavior, rescales) if len(rescales) == len(tied) else None

    def check(self, match: _Tied) -> Contract | Refusal:
        if len({r.rounding for r in match.rescales}) > 1:
            return Refusal("rounding", "the operands are rescaled with different roundings")
        if match.behavior.mixes and not self._only_moves(match):
            return Refusal("mixed", f"'{match.op.name}' requantizes its operands")
        source = self._source(match)
        if isinstance(source, Illegal):
            return Refusal(source.code, source.reason)
        for rescale in match.rescales:
            blocker = self._blocking_user(rescale)
            if blocker is not None:
                return Refusal("multi-use", f"'{blocker.name}' needs the rescaled value")
        if not self._same_order(match):
            return Refusal("levels", "no code stands for a constant it compares with")
        refusal = refuse_types(
            self.session,
            match.behavior,
            match.op,
            [v.type for v in self._operands(match)],
            [with_qparams(match.op.results[0], source)],
        )
        return refusal or refuse_growth([r.input_qparams for r in match.rescales], source) or EXACT

    def _result(self, match: _Tied) -> QParams:
        params = qparams_of(match.op.results[0])
        assert params is not None
        return params

    def _only_moves(self, match: _Tied) -> bool:
        """Whether an op that may requantize its operands does not."""
        rescaled_to = [r.result_qparams for r in match.rescales]
        return carry_down(match.op, match.behavior, rescaled_to) == self._result(match)

    def _same_order(self, match: _Tied) -> bool:
        """Whether the op compares with the same constants before and after the rescale."""
        inside = all(inside_bounds(r.input, self.session.behaviors) for r in match.rescales)
        sources = [r.input_qparams for r in match.rescales]
        return keeps_order(match.behavior, match.op, sources, inside=inside) and keeps_order(
            match.behavior, match.op, [self._result(match)], inside=True
        )

    def _source(self, match: _Tied) -> QParams | Illegal:
        """Qparams of the result once the rescales are gone."""
        above = [r.input_qparams for r in match.rescales]
        if match.behavior.mixes and len(set(above)) > 1:
            return Illegal("concat-params", "the operands are rescaled from different qparams")
        return carry_down(match.op, match.behavior, above)

    def _blocking_user(self, rescale: RescaleOp) -> Operation | None:
        """A user that a sunk rescale would still have to serve, if there is one."""
        if rescale.result.has_one_use():
            return None
        for user in users(rescale.result):
            behavior = self.session.behaviors.get(user)
            if behavior is None or not behavior.is_tied:
                return user
        return None

    def _operands(self, match: _Tied) -> list[SSAValue]:
        operands = list(match.op.operands)
        tied = tied_operands(match.op, match.behavior)
        for index, rescale in zip(tied, match.rescales, strict=True):
            operands[index] = rescale.input
        return operands

    def rewrite(self, match: _Tied, rewriter: Rewriter) -> None:
        source = self._source(match)
        assert not isinstance(source, Illegal)
        result = match.op.results[0]
        moved = retyped(match.op, self._operands(match), [with_qparams(result, source)])
        rescale = RescaleOp(moved.results[0], result.type, match.rounding)
        rewriter.insert(moved, match.op, keep=match.op)
        rewriter.insert(rescale, match.op, keep=match.rescales[0])
        rewriter.replace(match.op, rescale.results)


@dataclass(frozen=True)
class SinkRescale(RulePass):
    """Move rescales below movement and order-preserving ops; see the module."""

    name = "sink-rescale"

    def rules(self, session: QContext) -> Sequence[Rule[Any]]:
        return (SinkThroughTied(session),)

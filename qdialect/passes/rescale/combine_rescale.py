"""Absorb rescales into the requantizing ops next to them.

    up     rescale_{b->c}(op_b(x, ...))        ->  op_c(x, ...)
    down   op(rescale_{a->b}(x), ...)          ->  op(x, ...)

A requantizing op takes any qparams, so one rounding (and perhaps a clip) less
remains:

    up     exact if b and c have equal scales and c clips at least where b does;
           bounded(s_b / (2 s_c) + 1) if b clips nothing that c does not
    down   exact if the rescale is lossless; else bounded(g * s_b / (2 s_out) + 1)
           with g the op's gain (largest output change per unit of input change)

    sum    of two rescaled terms in i32, see `join_sums`

and a weaker class when a clip disappears. A bias whose scale is the product of
input and weight scales is re-derived. An op that computes integers on the very step of its
result (i32 sums of products) rounds nothing: absorbing the rescale behind it is exact.

For example

    %0 = nn.add %x, %y : (!a, !a) -> !a
    %1 = quant.rescale %0 : !a to !u

becomes

    %1 = nn.add %x, %y : (!a, !a) -> !u
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from xdsl.ir import Operation

from qdialect.algebra.contract import Contract, Numerics
from qdialect.analysis.ranges import narrowed_qparams
from qdialect.ir.behaviors import PortKind
from qdialect.ir.quant import RescaleOp
from qdialect.passes.rescale.absorption import (
    Down,
    Up,
    absorb_down,
    absorb_up,
    down_contract,
    up_contract,
)
from qdialect.passes.rescale.join_sums import JoinSum
from qdialect.passes.rule_pass import RulePass, rescaled
from qdialect.rewrite import Refusal, Rewriter, Rule


@dataclass(frozen=True)
class _Up(Up):
    rescale: RescaleOp


class CombineUp(Rule[_Up]):
    """rescale_{b->c}(op_b(x)) = op_c(x), one rounding less; see the module."""

    name = "combine-up"
    root = RescaleOp.name

    def match(self, op: Operation) -> _Up | None:
        assert isinstance(op, RescaleOp)
        owner = op.input.owner
        if op.fixed_point is not None or not isinstance(owner, Operation):
            return None
        behavior = self.session.behaviors.get(owner)
        if behavior is None or len(owner.results) != 1:
            return None
        if behavior.results[0].kind is not PortKind.REQUANT:
            return None
        return _Up(owner, behavior, op.input_qparams, op.result_qparams, op.rounding, op)

    def check(self, match: _Up) -> Contract | Refusal:
        if not match.op.results[0].has_one_use():
            return Refusal("multi-use", "the result is also used as it is")
        return up_contract(self.session, match)

    def rewrite(self, match: _Up, rewriter: Rewriter) -> None:
        rewriter.replace(match.rescale, absorb_up(match, rewriter).results)


@dataclass(frozen=True)
class _Down(Down):
    rescale: RescaleOp


class CombineDown(Rule[_Down]):
    """op(rescale_{a->b}(x)) = op(x), one rounding less; see the module.

    Each use is taken by itself: other users of the rescale keep it.
    """

    name = "combine-down"

    def roots(self) -> Iterable[str]:
        return self.session.behaviors.names_with(
            lambda b: any(port.kind is PortKind.REQUANT for port in b.operands)
        )

    def match(self, op: Operation) -> _Down | None:
        found: list[_Down] = []
        for index, operand in enumerate(op.operands):
            rescale = rescaled(operand)
            if rescale is not None:
                found += self._at(op, index, rescale)
        return min(found, key=self._weakness) if len(found) > 1 else next(iter(found), None)

    def _at(self, op: Operation, index: int, rescale: RescaleOp) -> list[_Down]:
        behavior = self.session.behaviors.get(op)
        assert behavior is not None
        if behavior.operand_port(index).kind is not PortKind.REQUANT:
            return []
        a, b = rescale.input_qparams, rescale.result_qparams
        narrowed = narrowed_qparams(rescale.input, self.session) or a
        return [_Down(op, behavior, index, a, narrowed, b, rescale.rounding, rescale)]

    def _weakness(self, match: _Down) -> int:
        verdict = self.check(match)
        return verdict.level if isinstance(verdict, Contract) else len(Numerics)

    def check(self, match: _Down) -> Contract | Refusal:
        return down_contract(self.session, match)

    def rewrite(self, match: _Down, rewriter: Rewriter) -> None:
        new = absorb_down(self.session, match, match.rescale.input, rewriter)
        rewriter.replace(match.op, new.results)


@dataclass(frozen=True)
class CombineRescale(RulePass):
    """Absorb rescales into requantizing ops; see the module."""

    name = "combine-rescale"
    of = (JoinSum, CombineUp, CombineDown)

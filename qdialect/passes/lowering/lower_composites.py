"""Write composite ops as their pieces, where the target does not run them whole.

Which pieces an op has says its declaration (`qdialect.ops.components`). Keys and
component qparams (`nn.qparams`) are handed on, so that a piece that is a composite itself
finds its own when it is lowered. On floats this is exact in the reals (`ties` where a
constant such as sqrt(1/2) is rounded to a float). On quantized operands it is exact where
nothing is rounded in between:

    q(x @ w + b)  =  rescale((x @ w) + b)      sums of integers, in 32 bits

and `relaxed` where pieces have qparams of their own, which round and clip. Without
component qparams such an op is left whole: the range of its result is not theirs.

For example

    %b = nn.constant dense<[100, -7]> : tensor<2xi32> : !b
    %0 = nn.fully_connected %x, %w, %b {nn.key = "fc"} : (!x, !w, !b) -> !y

becomes

    %b = nn.constant dense<[100, -7]> : tensor<2xi32> : !b
    %1 = nn.fully_connected %x, %w {nn.key = "fc/matmul"} : (!x, !w) -> !sums
    %2 = nn.add %1, %b : (!sums, !b) -> !sums
    %0 = quant.rescale %2 {nn.key = "fc"} : !sums to !y
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

from xdsl.ir import Operation
from xdsl.utils.exceptions import VerifyException

from qdialect.analysis.codes import rounding_of
from qdialect.context import QContext
from qdialect.errors import UsageError
from qdialect.numerics.contract import Contract, Numerics
from qdialect.ops.component_qparams import qparams_refusal
from qdialect.ops.components import Components
from qdialect.passes.lowering.component_plan import Plan, Unplannable, plan_pieces
from qdialect.passes.pair_contract import in_reals
from qdialect.passes.rule_pass import RulePass, refuse_types
from qdialect.quant import quant_element
from qdialect.rewrite import Refusal, Rewriter, Rule

ALL = "all"


@dataclass(frozen=True)
class _Composite:
    op: Operation
    components: Components


class LowerComposite(Rule[_Composite]):
    """A composite op becomes its pieces."""

    name = "lower-composite"

    def __init__(self, session: QContext, ops: Sequence[str]) -> None:
        super().__init__(session)
        self._ops = ops

    def roots(self) -> Iterable[str]:
        return self._ops

    def match(self, op: Operation) -> _Composite | None:
        components = self.session.components[op.name]
        if len(op.results) != 1 or not components.roles_of(op):
            return None
        return _Composite(op, components)

    def check(self, match: _Composite) -> Contract | Refusal:
        op, target = match.op, self.session.target
        if not target.should_lower(op):
            return Refusal("whole", f"{target.name} runs '{op.name}' whole")
        reason = qparams_refusal(op, self.session.components)
        if reason:
            return Refusal("component-qparams", reason)
        quantized = [quant_element(v.type) is not None for v in (op.operands[0], *op.results)]
        if any(quantized) and not all(quantized):
            return Refusal("mixed", "floats and codes meet in it: integerize or dequantize first")
        try:
            plan = self._plan(match)
        except Unplannable as error:
            return Refusal(error.code, str(error))
        try:
            return self._refusal(plan) or self._contract(plan)
        finally:
            plan.erase()

    def _plan(self, match: _Composite) -> Plan:
        keys = match.components.keys_of(match.op)
        return plan_pieces(match.op, match.components, self.session, keys)

    def _refusal(self, plan: Plan) -> Refusal | None:
        """Why the pieces cannot be: their own rules, or the target's."""
        for piece in plan.ops:
            try:
                piece.verify_()
            except VerifyException as error:
                return Refusal("types", str(error))
            if not plan.quantized:
                continue
            operands, results = piece.operand_types, piece.result_types
            behavior = self.session.behaviors.get(piece)
            if behavior is not None:
                refusal = refuse_types(self.session, behavior, piece, operands, results)
            else:
                reason = self.session.target.refuses(piece, operands, results)
                refusal = Refusal("target", reason) if reason else None
            if refusal is not None:
                return refusal
        return None

    def _contract(self, plan: Plan) -> Contract:
        if not plan.quantized and plan.rounds_constants:
            return Contract(Numerics.TIES, note="its constants are rounded to floats")
        if not plan.quantized:
            return in_reals(plan.op)
        rounded = [role for role in plan.roles[:-1] if role not in plan.components.sums]
        if rounded:
            return Contract(Numerics.RELAXED, inf, f"rounds and clips {', '.join(rounded)}")
        if plan.rounding is not rounding_of(plan.op):
            return Contract(Numerics.TIES, note=f"rounds {plan.rounding.value}")
        return Contract(Numerics.EXACT, note="integer sums, one rounding")

    def rewrite(self, match: _Composite, rewriter: Rewriter) -> None:
        plan = self._plan(match)
        assert plan.result is not None
        for piece in plan.ops:
            rewriter.insert(piece, match.op)
        rewriter.replace(match.op, [plan.result])


@dataclass(frozen=True)
class LowerComposites(RulePass):
    """Composites as pieces; `ops` names which, joined by `+`; see the module."""

    name = "lower-composites"

    ops: str = ALL

    def rules(self, session: QContext) -> Sequence[Rule[Any]]:
        known = session.components
        if self.ops == ALL:
            return (LowerComposite(session, tuple(known)),)
        names = self.ops.split("+")
        for name in names:
            if name not in known:
                raise UsageError(
                    f"{self.name}: '{name}' is no composite op ({', '.join(sorted(known))})",
                    code="unknown-op",
                )
        return (LowerComposite(session, names),)

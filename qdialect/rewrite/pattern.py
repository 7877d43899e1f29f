"""Rules as patterns of xDSL, which a `PatternRewriteWalker` runs with patterns of xDSL and of
others; `RulePass.patterns` gives those of a pass."""

from __future__ import annotations

from typing import Any, cast

from typing_extensions import override
from xdsl.ir import Operation
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern

from qdialect.algebra.contract import Numerics
from qdialect.analysis.ranges import ranges_anew
from qdialect.ir.context import QContext
from qdialect.ir.ops.component_keys import settle_keys
from qdialect.rewrite.driver import Driver
from qdialect.rewrite.refused import refused_successor
from qdialect.rewrite.replacements import Replacements
from qdialect.rewrite.rewriter import Rewriter
from qdialect.rewrite.rule import Rule


class RulePattern(Driver, RewritePattern):
    """`rule`, where its contract is at most `numerics`; `assume`: as in `RulePass`.

    Weights, target and the log of remarks are those of its session. Without `logs` the session
    keeps nothing, for patterns that outlive a module.

    Other patterns may change anything, so what an analysis finds out is used at one op only.
    """

    def __init__(
        self,
        rule: Rule[Any],
        *,
        numerics: Numerics = Numerics.EXACT,
        assume: bool = False,
        logs: bool = True,
    ) -> None:
        super().__init__(
            rule.session, [rule], pass_name=rule.name, numerics=numerics, assume=assume
        )
        self.rule = rule
        self._logs = logs
        self._prepares = type(rule).prepare is not Rule[Any].prepare

    @override
    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        """Apply the rule at `op` if that is a root of it, and tell `rewriter` what changes."""
        if op.name not in self._rules:
            return
        self._ranges = ranges_anew(self.session, trusts=self.assume)
        module = cast("Operation", op.get_toplevel_object())
        if self._prepares:
            self.rule.prepare(module)
        self._replacements = _Heard(self.session, rewriter)
        changed = rewriter.handle_operation_modification
        ours = Rewriter(
            changed,
            self.session.behaviors,
            changed,
            self._replacements,
            refuses=lambda new, source: refused_successor(self.session, new, source),
        )
        if self._visit(op, ours):
            rewriter.has_done_action = True
        if ours.joined:
            settle_keys(module)
        for kept in self._queue, self._queued, self._refusals, self._refused, self.session.analyses:
            kept.clear()
        if not self._logs:
            self.session.remarks.remarks.clear()
            self.session.error_bounds.changes.clear()


class _Heard(Replacements):
    """Replacements that the walker hears of."""

    def __init__(self, session: QContext, listener: PatternRewriter) -> None:
        super().__init__(session, keeps_kernels=True)
        self._listener = listener

    @override
    def inserted(self, op: Operation) -> None:
        super().inserted(op)
        self._listener.handle_operation_insertion(op)

    @override
    def erased(self, op: Operation) -> None:
        self._listener.handle_operation_removal(op)
        super().erased(op)

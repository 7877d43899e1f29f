"""The one driver of rewrite rules: a worklist over def-use chains.

Every op whose name is a root of some rule is visited once in program order, and
again when something near it changed: linear in ops plus rewrites, no recursion. Roots of
rules that look far are visited again as long as something fires. What fires and what is
refused goes to the session's remark log.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from xdsl.ir import Operation, SSAValue

from qdialect.algebra.contract import Contract, Numerics
from qdialect.analysis.index import every_op, has_marked_ops, ops_named
from qdialect.analysis.ranges import ranges, ranges_anew
from qdialect.errors import QError
from qdialect.ir.ops.base import PINNED
from qdialect.ir.ops.component_keys import settle_keys
from qdialect.rewrite.kernel_marks import KernelChangeError, weakened
from qdialect.rewrite.refused import TargetRefusalError, refused_successor
from qdialect.rewrite.remarks import (
    ANYWHERE,
    Remark,
    fired_remark,
    place_of,
)
from qdialect.rewrite.replacements import Replacements
from qdialect.rewrite.rewriter import Rewriter
from qdialect.rewrite.rule import Refusal, Rule

if TYPE_CHECKING:
    from qdialect.ir.context import QContext


#: how often rules may fire on one op and its successors: per op of the module, and anyway
PER_OP, AT_LEAST = 64, 4096


class Driver:
    """Applies rules to a module under the user's numerics level."""

    def __init__(
        self,
        session: QContext,
        rules: Sequence[Rule[Any]],
        *,
        pass_name: str,
        numerics: Numerics = Numerics.EXACT,
        assume: bool = False,
    ) -> None:
        self.session = session
        self.pass_name = pass_name
        self.numerics = numerics
        self.assume = assume
        self._all = rules
        self._rules: dict[str, list[Rule[Any]]] = {}
        for rule in rules:
            for root in rule.roots():
                self._rules.setdefault(root, []).append(rule)
        self._queue: deque[Operation] = deque()
        #: ids of the ops in the queue, as the hash of an op is slow
        self._queued: set[int] = set()
        self._refusals: dict[tuple[Operation, str], Refusal] = {}
        #: ops that some rule refused
        self._refused: set[Operation] = set()
        self._ranges = ranges(session)
        self._replacements = Replacements(session)
        self._barred = session.barred

    def run(self, module: Operation) -> int:
        """Rewrite until nothing fires; returns how many rewrites fired.

        Raises QError (`no-termination`) if rules undo one another.
        """
        self._ranges = ranges_anew(self.session, trusts=self.assume)
        roots, ops = ops_named(self.session, module, self._rules)
        if roots:
            for rule in self._all:
                rule.prepare(module)
        for op in roots:
            self._push(op)
        # Many rescales may each move through many ops: no op sees more of them than
        # there are ops, while rules in a circle come back to one place for ever.
        budget = PER_OP * ops + AT_LEAST
        self._replacements.keeps_kernels = has_marked_ops(self.session, module)
        rewriter = Rewriter(
            self._push,
            self.session.behaviors,
            self._operand_changed,
            self._replacements,
            self._is_same,
            lambda op, source: refused_successor(self.session, op, source),
        )
        try:
            fired = self._rewrite(rewriter, module, budget)
            far = {root for rule in self._all if rule.far_reaching for root in rule.roots()}
            again = fired
            while again and far:
                for op in every_op(module):
                    if op.name in far:
                        self._push(op)
                again = self._rewrite(rewriter, module, budget)
                fired += again
        finally:
            if rewriter.joined:
                settle_keys(module)
        self._report_refusals()
        if not self.session.keeps_analyses:
            self.session.analyses.clear()
        elif fired:
            self._ranges.prune()
        self.session.changes += fired
        return fired

    def _rewrite(self, rewriter: Rewriter, module: Operation, budget: int) -> int:
        here: Counter[Operation] = Counter()
        fired = 0
        while self._queue and self.session.rewrites_left != 0:
            op = self._queue.popleft()
            self._queued.discard(id(op))
            if op.parent is None and op is not module:
                continue
            place = rewriter.origin(op)
            if self._visit(op, rewriter):
                fired += 1
                if self.session.rewrites_left is not None:
                    self.session.rewrites_left -= 1
                here[place] += 1
                if here[place] > budget:
                    raise QError(
                        f"pass '{self.pass_name}' does not terminate on this module",
                        code="no-termination",
                    )
        return fired

    def _is_same(self, old: SSAValue, new: SSAValue) -> bool:
        """Whether what is computed from `old` has the same range when computed from `new`."""
        return not self.session.error_bounds.changes and self._ranges.are_same(old, new)

    def _operand_changed(self, op: Operation) -> None:
        """Visit `op` again, and the ops that depend on the range of its results."""
        self._push(op)
        for user in self._ranges.forget(op):
            self._push(user)

    def _push(self, op: Operation) -> None:
        if op.name in self._rules and id(op) not in self._queued:
            self._queued.add(id(op))
            self._queue.append(op)

    def _visit(self, op: Operation, rewriter: Rewriter) -> bool:
        if PINNED in op.attributes:
            return False
        assumed = self._ranges.assumed
        was_refused = op in self._refused
        for rule in self._rules[op.name]:
            assumed.clear()
            if self._barred and _is_barred(self._barred.get(rule.name, ()), op):
                continue
            try:
                match = rule.match(op)
                verdict = None if match is None else rule.check(match)
            except Exception:
                self.session.crashed = rule.name, place_of(op)
                raise
            if verdict is None:
                if was_refused:
                    self._refusals.pop((op, rule.name), None)
                continue
            if isinstance(verdict, Contract) and assumed:
                noted = [*([verdict.note] if verdict.note else []), f"assuming {min(assumed)}"]
                verdict = replace(verdict, note=", ".join(noted))
            if isinstance(verdict, Contract) and verdict.level > self.numerics:
                why = f" ({verdict.note})" if verdict.note else ""
                verdict = Refusal(
                    "numerics", f"would be {verdict}{why}, but only {self.numerics} is allowed"
                )
            if isinstance(verdict, Refusal):
                self._refused.add(op)
                self._refusals[op, rule.name] = verdict
                continue
            if self._fire(op, rule, match, verdict, rewriter):
                return True
        return False

    def _fire(
        self, op: Operation, rule: Rule[Any], match: Any, verdict: Contract, rewriter: Rewriter
    ) -> bool:
        """Whether the rewrite was done: the target runs what it makes, and what it changes of
        marked ops is allowed."""
        remark, queued = self._log(op, rule, verdict), len(self._queue)
        self._push(op)
        rewriter.begin(op)
        self._replacements.begin(verdict)
        try:
            rule.rewrite(match, rewriter)
            rewriter.check_inserted()
        except TargetRefusalError as refused:
            reason = f"{self.session.target.name}: {refused.reason}"
            self._take_back(op, rule, Refusal("target", reason), queued)
            return False
        except KernelChangeError as changed:
            weaker = weakened(verdict, changed.contract)
            why = f"would be {weaker}, but only {self.numerics} is allowed: {changed.reason}"
            self._take_back(op, rule, Refusal("kernel", why), queued)
            known = replace(weaker, by_kernels=True)
            return weaker.level <= self.numerics and self._fire(op, rule, match, known, rewriter)
        except Exception:
            self.session.crashed = rule.name, remark.place
            raise
        return True

    def _take_back(self, op: Operation, rule: Rule[Any], why: Refusal, queued: int) -> None:
        """A rewrite of `op` was none, as what it makes is refused; what was queued is not visited
        for it."""
        while len(self._queue) > queued:
            self._queued.discard(id(self._queue.pop()))
        self.session.remarks.remarks.pop()
        self._refused.add(op)
        self._refusals[op, rule.name] = why

    def _log(self, op: Operation, rule: Rule[Any], contract: Contract) -> Remark:
        self._refusals.pop((op, rule.name), None)
        remark = fired_remark(self.pass_name, rule.name, op, contract)
        self.session.remarks.add(remark)
        return remark

    def _report_refusals(self) -> None:
        for (op, rule_name), refusal in self._refusals.items():
            if op.parent is None:
                continue
            code, reason = refusal.code, refusal.reason
            self.session.remarks.at(op, "refused", self.pass_name, code, reason, rule=rule_name)


def _is_barred(places: Collection[str], op: Operation) -> bool:
    return ANYWHERE in places or (bool(places) and place_of(op) in places)

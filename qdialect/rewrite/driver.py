"""The one driver of rewrite rules: a worklist over def-use chains.

Every op whose name is a root of some rule is visited once in program order, and
again when something near it changed: linear in ops plus rewrites, no sweeps to a
fixpoint, no recursion.  What fires and what is refused goes to the session's
remark log.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from xdsl.dialects.builtin import AnyFloat, TensorType, UnknownLoc
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.traits import get_effects

from qdialect.analysis.index import ops_named
from qdialect.analysis.ranges import ranges, ranges_anew
from qdialect.errors import QError
from qdialect.numerics.contract import Contract, Numerics
from qdialect.ops.component_keys import join_keys, settle_keys
from qdialect.ops.keys import KEY
from qdialect.rewrite.effects import is_effect_free
from qdialect.rewrite.provenance import Provenance
from qdialect.rewrite.remarks import (
    ANYWHERE,
    Remark,
    fired_remark,
    key_text,
    location_text,
    place_of,
)
from qdialect.rewrite.rule import Refusal, Rule

if TYPE_CHECKING:
    from qdialect.behaviors import BehaviorRegistry
    from qdialect.context import QContext


def _are_same_floats(old: SSAValue, new: SSAValue) -> bool:
    kind = old.type
    if not isinstance(kind, TensorType) or kind != new.type:
        return False
    return isinstance(cast("TensorType[Attribute]", kind).element_type, AnyFloat)


class Rewriter:
    """What a rule may do to the IR; keeps the worklist and provenance right.

    New ops inherit the location of the root they replace, and the key of the op
    whose value they now compute (`keep`).
    """

    def __init__(
        self,
        push: Any,
        behaviors: BehaviorRegistry,
        changed: Callable[[Operation], None],
        provenance: Provenance,
        is_same: Callable[[SSAValue, SSAValue], bool] = lambda old, new: False,
    ) -> None:
        self._push = push
        self._behaviors = behaviors
        self._changed = changed
        self._is_same = is_same
        self.root: Operation | None = None
        #: whether keys of ops are joined, and not listed yet
        self.joined: bool = False
        self._provenance = provenance
        self._origins: dict[Operation, Operation] = {}

    def insert(self, op: Operation, before: Operation, keep: Operation | None = None) -> None:
        """Insert `op` before `before`, as the successor of `keep` (default: the root)."""
        block = before.parent
        assert block is not None
        block.insert_op_before(op, before)
        self._adopt(op, keep)

    def insert_after(self, op: Operation, after: Operation, keep: Operation | None = None) -> None:
        """Insert `op` right after `after`."""
        block = after.parent
        assert block is not None
        block.insert_op_after(op, after)
        self._adopt(op, keep)

    def _adopt(self, op: Operation, keep: Operation | None) -> None:
        source = keep or self.root
        if source is not None and isinstance(op.location, UnknownLoc):
            op.location = source.location
        if keep is not None and KEY in keep.attributes:
            op.attributes.setdefault(KEY, keep.attributes[KEY])
        if source is not None:
            self._origins[op] = self.origin(source)
        self._push(op)

    def origin(self, op: Operation) -> Operation:
        """The op of the first module that `op` is the successor of."""
        return self._origins.get(op, op) if self._origins else op

    def replace_value(self, old: SSAValue, new: SSAValue) -> None:
        """Send every use of `old` to `new`; the name hint goes along."""
        if old is new:
            return
        self._provenance.replaced(old, new)
        changed = self._push if self._is_same(old, new) else self._changed
        if isinstance(new.owner, Operation):
            changed(new.owner)
        if new.name_hint is None:
            new.name_hint = old.name_hint
        users: dict[Operation, list[int]] = {}
        for use in old.uses:
            users.setdefault(use.operation, []).append(use.index)
        for user, indices in users.items():
            if len(indices) == 1:
                user.operands[indices[0]] = new
            else:
                operands = list(user.operands)
                for index in indices:
                    operands[index] = new
                user.operands = operands
            changed(user)

    def set_operand(self, op: Operation, index: int, value: SSAValue) -> None:
        """Send one use to `value`; erases the old definition if that was its last."""
        old = op.operands[index]
        self._provenance.bypassed(op, index)
        op.operands[index] = value
        self._changed(op)
        self.drop(old)

    def replace(self, op: Operation, values: Sequence[SSAValue]) -> None:
        """Replace all results of `op` and erase it; a float that is the same value as
        another goes under the keys of both."""
        if len(op.results) == 1 and KEY in op.attributes:
            owner = values[0].owner
            if isinstance(owner, Operation) and _are_same_floats(op.results[0], values[0]):
                self.joined |= join_keys(owner, op)
        for old, new in zip(op.results, values, strict=True):
            self.replace_value(old, new)
        self.erase(op)

    def erase(self, op: Operation) -> None:
        """Erase `op`, and whatever it alone kept alive."""
        self._erase_all([op])

    def drop(self, value: SSAValue) -> None:
        """Erase the definition of `value` if nothing uses it (and so on upwards)."""
        owner = value.owner
        if isinstance(owner, Operation) and is_dead(owner, self._behaviors):
            self._erase_all([owner])
        elif isinstance(owner, Operation):
            self._push(owner)
            self._push_users(value)

    def _erase_all(self, pending: list[Operation]) -> None:
        while pending:
            op = pending.pop()
            if op.parent is None:
                continue
            operands = list(dict.fromkeys(op.operands))
            self._provenance.erased(op)
            self._origins.pop(op, None)
            op.detach()
            op.erase()
            for value in operands:
                owner = value.owner
                if not isinstance(owner, Operation):
                    continue
                if is_dead(owner, self._behaviors):
                    pending.append(owner)
                else:
                    self._push(owner)
                    self._push_users(value)

    def _push_users(self, value: SSAValue) -> None:
        # A value that has become single-use may unblock its last user.
        use = value.first_use
        if use is not None and value.has_one_use():
            self._push(use.operation)


def is_dead(op: Operation, behaviors: BehaviorRegistry | None = None) -> bool:
    """No result is used and erasing the op changes nothing else.

    An op that is in `behaviors` is a function, unless its traits say that it does more.
    """
    for result in op.results:
        if result.first_use is not None:
            return False
    if not op.results or op.parent is None:
        return False
    return is_effect_free(op) or _is_declared(op, behaviors)


def _is_declared(op: Operation, behaviors: BehaviorRegistry | None) -> bool:
    declared = behaviors is not None and behaviors.get(op) is not None
    return declared and not op.regions and get_effects(op) is None


def set_type(value: SSAValue, type: Attribute) -> None:
    """Give a value another type in place.

    xDSL makes a new value and visits every use, which is quadratic for an op with
    very many operands; users are not told, so retype all that belong together.
    """
    value._type = type  # pyright: ignore[reportPrivateUsage, reportAttributeAccessIssue]


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
        #: by identity, as the hash of an op is slow
        self._queued: set[int] = set()
        self._refusals: dict[tuple[Operation, str], Refusal] = {}
        #: those that some rule refused
        self._refused: set[Operation] = set()
        self._ranges = ranges(session)
        self._provenance = Provenance(session)
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
        rewriter = Rewriter(
            self._push,
            self.session.behaviors,
            self._operand_changed,
            self._provenance,
            self._is_same,
        )
        try:
            fired = self._rewrite(rewriter, module, budget)
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
        return not self.session.error_bounds.own and self._ranges.are_same(old, new)

    def _operand_changed(self, op: Operation) -> None:
        """Look at `op` again, and at whatever looked at the range of its results."""
        self._push(op)
        for user in self._ranges.forget(op):
            self._push(user)

    def _push(self, op: Operation) -> None:
        if op.name in self._rules and id(op) not in self._queued:
            self._queued.add(id(op))
            self._queue.append(op)

    def _visit(self, op: Operation, rewriter: Rewriter) -> bool:
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
            remark = self._log(op, rule, verdict)
            self._push(op)
            rewriter.root = op
            self._provenance.begin(verdict)
            try:
                rule.rewrite(match, rewriter)
            except Exception:
                self.session.crashed = rule.name, remark.place
                raise
            return True
        return False

    def _log(self, op: Operation, rule: Rule[Any], contract: Contract) -> Remark:
        self._refusals.pop((op, rule.name), None)
        remark = fired_remark(self.pass_name, rule.name, op, contract)
        self.session.remarks.add(remark)
        return remark

    def _report_refusals(self) -> None:
        for (op, rule_name), refusal in self._refusals.items():
            if op.parent is None:
                continue
            self.session.remarks.add(
                Remark(
                    "refused",
                    self.pass_name,
                    rule_name,
                    location_text(op.location),
                    op.name,
                    key_text(op),
                    code=refusal.code,
                    reason=refusal.reason,
                )
            )


def _is_barred(places: Collection[str], op: Operation) -> bool:
    return ANYWHERE in places or (bool(places) and place_of(op) in places)


def retyped(
    op: Operation, operands: Sequence[SSAValue], result_types: Sequence[Attribute]
) -> Operation:
    """A copy of `op` (attributes, properties, location) on other operands and types."""
    return type(op).create(
        operands=operands,
        result_types=result_types,
        properties=op.properties,
        attributes=op.attributes,
        location=op.location,
    )

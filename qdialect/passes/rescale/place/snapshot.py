"""What a module looked like, to tell later what is another now."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from xdsl.ir import Operation, SSAValue

from qdialect.analysis.ranges import CodeRanges
from qdialect.ops import constant_of

#: operands, and what else an op is: types of results, properties, attributes
_Look = tuple[tuple[SSAValue, ...], tuple[Any, ...]]


class Changes(NamedTuple):
    """`ops`: those that are new or other than they were, or that use or make something of
    which that holds; `new`: of these, those of which more than where operands come from is
    another; `values`: those made or used elsewhere than they were; `others`: those of other
    types, or that hold other codes; `gone`: the ops that are there no more."""

    ops: dict[Operation, None]
    new: set[Operation]
    values: dict[SSAValue, None]
    others: set[SSAValue]
    gone: list[Operation]


class Snapshot:
    """What was seen of each op and what was known of codes, as of the last `compare`."""

    def __init__(self) -> None:
        self._looks: dict[Operation, _Look] = {}
        self._ranges: dict[SSAValue, Any] = {}

    def take(self, ops: Sequence[Operation]) -> None:
        """Look at all `ops` for the first time."""
        self._looks = {op: _look(op) for op in ops}

    def keep(self, ranges: CodeRanges) -> None:
        """Keep what `ranges` knows: somebody decided by it."""
        self._ranges = ranges.known()

    def compare(self, ops: Sequence[Operation], ranges: CodeRanges, *, stale: bool) -> Changes:
        """What is another than when this was asked last; if `stale`, then `ranges` have not
        been told, and are."""
        before, self._looks = self._looks, {op: _look(op) for op in ops}
        changes = Changes({}, set(), {}, set(), [op for op in before if op not in self._looks])
        for op in changes.gone:
            for operand in before[op][0]:
                self._touch(operand, changes)
        if stale:
            ranges.prune()
        # In program order: what is known of operands is right when it is asked for.
        for op, look in self._looks.items():
            was = before.get(op)
            if was != look:
                self._note(op, was, look, changes, ranges)
                if stale and op in changes.new:
                    ranges.forget(op)
        for value in ranges.others(self._ranges):
            changes.others.add(value)
            self._touch(value, changes)
            self._touch_users(value, changes)
        return changes

    def _note(
        self, op: Operation, was: _Look | None, look: _Look, changes: Changes, ranges: CodeRanges
    ) -> None:
        changes.ops[op] = None
        if was is None or was[1] != look[1] or len(was[0]) != len(look[0]):
            changes.new.add(op)
            for value in (*(was[0] if was else ()), *look[0], *op.results):
                self._touch(value, changes)
            for result in op.results:
                changes.others.add(result)
                self._touch_users(result, changes)
            return
        for old, new in zip(was[0], look[0], strict=True):
            if old is not new:
                self._touch(old, changes)
                self._touch(new, changes)
                if not self._stands_for(new, old, ranges):
                    changes.new.add(op)

    def _stands_for(self, new: SSAValue, old: SSAValue, ranges: CodeRanges) -> bool:
        """Whether who uses `new` in place of `old` decides as before."""
        if new.type != old.type or constant_of(new) or constant_of(old):
            return False
        return old not in self._ranges or self._ranges[old] == ranges.of(new)

    def _touch(self, value: SSAValue, changes: Changes) -> None:
        """Others use `value` now, or it is another."""
        owner = value.owner
        if not isinstance(owner, Operation):
            changes.values[value] = None
        elif owner in self._looks:
            changes.values[value] = None
            changes.ops[owner] = None

    @staticmethod
    def _touch_users(value: SSAValue, changes: Changes) -> None:
        for use in value.uses:
            changes.ops[use.operation] = None
            changes.new.add(use.operation)


def _look(op: Operation) -> _Look:
    # The tuple itself: as long as it is the same one, so are the operands.
    operands = op._operands  # pyright: ignore[reportPrivateUsage]
    kinds = [result.type for result in op.results]
    return operands, (*kinds, *op.properties.values(), *op.attributes.values())

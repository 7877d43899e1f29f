"""The states of values and ops: how many of the rescales around them they have behind them.

A rescale may stand anywhere along the commuting ops (movement, order-preserving) around
it.  Number the qparams of a value v by what has been applied to it: state 0 is what it
has now; state -1 what it has once the rescale above it (or above the commuting ops above
it) has moved below v; state +1 what it has once the rescale that all its users apply has
moved above.  Which states an op can be in is said by its labels (`labels`).

One forward sweep finds the states below 0, one backward sweep those above: linear.  When
ops have changed, the sweeps look at these and as far as what they find is another.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import compress

from xdsl.ir import Operation, SSAValue

from qdialect.analysis.ranges import narrowed_qparams
from qdialect.behaviors import PortKind
from qdialect.context import QContext
from qdialect.numerics.contract import Numerics
from qdialect.numerics.rounding import Rounding
from qdialect.passes.rescale.place.labels import Labelling
from qdialect.passes.rescale.place.steps import DEPTH, Commuting, Step, StepKeys, movable
from qdialect.qparams import QParams
from qdialect.quant import RescaleOp


class States:
    """`above[v]`: steps to the states -1, -2 ... of v; `below[v]`: to +1, +2 ...;
    `commuting[op]`: the ops that have several states.  Absent means none.

    At level `relaxed` a requantizing operand may be given what the other users of its value
    rescale that to (`regridded`), which no rescale does: a new choice of qparams.
    """

    def __init__(self, session: QContext, level: Numerics, keys: StepKeys) -> None:
        self.session = session
        self.level = level
        self.regridded: set[tuple[Operation, int]] = set()
        self._keys = keys
        self._labelling = Labelling(session, level)
        self.above: dict[SSAValue, list[Step]] = {}
        self.below: dict[SSAValue, list[Step]] = {}
        self.commuting: dict[Operation, Commuting] = {}
        #: by op, the steps that its operands can have behind them, by number
        self._offers: dict[Operation, dict[int, list[Step]]] = {}
        #: the ops of the module in program order, where each is, and which are to be looked at
        self.ops: list[Operation] = []
        self.places: dict[Operation, int] = {}
        self._marks = bytearray()

    def state(self, ops: list[Operation]) -> None:
        """Look at all `ops` of a module."""
        self.ops = ops
        for known in (self.above, self.below, self.commuting, self._offers, self.regridded):
            known.clear()
        for op in ops:
            self._look_up(op)
        for op in reversed(ops):
            self._look_down(op)

    def restate(
        self, ops: list[Operation], changed: Iterable[Operation], gone: Iterable[Operation]
    ) -> tuple[list[Operation], set[Operation], set[SSAValue]]:
        """Look again at `changed` ops of the module, which now has `ops`, and at whatever
        that is felt by: these, which of them commute or did, and the values that have other
        steps below them.

        Not at level `relaxed`, where what a use can take hangs on the other uses.
        """
        assert self.level is not Numerics.RELAXED
        self.ops, self.places = ops, {op: place for place, op in enumerate(ops)}
        for op in gone:
            self._offers.pop(op, None)
            self.commuting.pop(op, None)
            for result in op.results:
                self.above.pop(result, None)
                self.below.pop(result, None)
        self._marks = bytearray(len(ops))
        for op in changed:
            self._marks[self.places[op]] = 1
        moving: set[Operation] = set()
        others: set[SSAValue] = set()
        place = self._marks.find(1)
        while place >= 0:
            self._look_up_again(ops[place], moving)
            place = self._marks.find(1, place + 1)
        place = self._marks.rfind(1)
        while place >= 0:
            self._look_down_again(ops[place], moving, others)
            place = self._marks.rfind(1, 0, place)
        return list(compress(ops, self._marks)), moving, others

    def _look_up_again(self, op: Operation, moving: set[Operation]) -> None:
        before = [self.above.pop(result, []) for result in op.results]
        if self.commuting.pop(op, None) is not None:
            moving.add(op)
        self._look_up(op)
        if op in self.commuting:
            moving.add(op)
        for result, steps in zip(op.results, before, strict=True):
            if not _are_same(self.above.get(result, []), steps):
                for use in result.uses:
                    self._marks[self.places[use.operation]] = 1

    def _look_down_again(
        self, op: Operation, moving: set[Operation], others: set[SSAValue]
    ) -> None:
        before = self._offers.pop(op, {})
        stacks = [self.below.pop(result, []) for result in op.results]
        node = self.commuting.get(op)
        if node is not None:
            moving.add(op)
            for state in range(1, node.highest + 1):
                del node.labels[state]
            if node.labels.keys() == {0}:
                del self.commuting[op]
        self._look_down(op)
        if op in self.commuting:
            moving.add(op)
        for result, steps in zip(op.results, stacks, strict=True):
            if not _are_same(self.below.get(result, []), steps):
                others.add(result)
        after = self._offers.get(op, {})
        for index in before.keys() | after.keys():
            owner = op.operands[index].owner if index < len(op.operands) else None
            if isinstance(owner, Operation) and not _are_same(
                before.get(index, []), after.get(index, [])
            ):
                self._marks[self.places[owner]] = 1

    def _step(self, qparams: QParams, rounding: Rounding, seen: QParams, origin: RescaleOp) -> Step:
        key = self._keys.setdefault((qparams, rounding, seen), len(self._keys))
        return Step(qparams, rounding, seen, origin, key)

    def use_below(self, user: Operation, index: int) -> Sequence[Step]:
        """The steps that operand `index` of `user` can have behind it."""
        offers = self._offers.get(user)
        return () if offers is None else offers.get(index, ())

    # -- forward: states below 0 ------------------------------------------------------

    def _look_up(self, op: Operation) -> None:
        rescale = movable(op)
        if rescale is not None:
            source = rescale.input_qparams
            seen = narrowed_qparams(rescale.input, self.session) or source
            step = self._step(source, rescale.rounding, seen, rescale)
            self.above[rescale.result] = [step, *self.above.get(rescale.input, ())][:DEPTH]
            return
        if not any(operand in self.above for operand in op.operands):
            return
        node = self._labelling.node(op)
        if node is None:
            return
        moving = [i for i in node.tied if i not in node.labels[0].constants]
        stacks = [self.above.get(op.operands[i], []) for i in moving]
        alike = self._labelling.alike(node, stacks[0]) if len(moving) == 1 else None
        if alike is not None:
            node.labels.update((-depth, labels) for depth, labels in enumerate(alike, 1))
            self.commuting[op] = node
            self.above.update((result, stacks[0]) for result in op.results)
            return
        ends: list[list[Step]] = [[] for _ in op.results]
        for depth, steps in enumerate(zip(*stacks, strict=False), 1):
            known = dict(zip(moving, steps, strict=True))
            labels = self._labelling.sunk(node, known, node.labels[1 - depth])
            if labels is None:
                break
            node.labels[-depth] = labels
            rounding, origin = steps[0].rounding, steps[0].origin
            for index, end in enumerate(ends):
                seen = self._labelling.seen(node, labels, known, index)
                end.append(self._step(labels.results[index], rounding, seen, origin))
        if node.labels.keys() > {0}:
            self.commuting[op] = node
            self.above.update(zip(op.results, ends, strict=True))

    # -- backward: states above 0 -----------------------------------------------------

    def _look_down(self, op: Operation) -> None:
        for result in op.results:
            steps = self._common(result)
            if steps:
                self.below[result] = steps
        rescale = movable(op)
        if rescale is not None:
            target = rescale.result_qparams
            step = self._step(target, rescale.rounding, target, rescale)
            self._offers[op] = {0: [step, *self.below.get(rescale.result, ())][:DEPTH]}
            return
        if not op.results or not all(r in self.below for r in op.results):
            return
        node = self.commuting.get(op) or self._labelling.node(op)
        if node is None:
            return
        stacks = [self.below[result] for result in op.results]
        alike = self._labelling.alike(node, stacks[0]) if len(stacks) == 1 else None
        if alike is not None:
            node.labels.update(enumerate(alike, 1))
            self.commuting[op] = node
            self._offers[op] = dict.fromkeys(node.tied, stacks[0])
            return
        ends: list[list[Step]] = [[] for _ in node.tied]
        for depth, steps in enumerate(zip(*stacks, strict=False), 1):
            labels = self._labelling.hoisted(node, steps, node.labels[depth - 1])
            if labels is None:
                break
            node.labels[depth] = labels
            for end, qparams in zip(ends, labels.operands, strict=True):
                end.append(self._step(qparams, steps[0].rounding, qparams, steps[0].origin))
        if node.highest > 0:
            self.commuting[op] = node
            self._offers[op] = dict(zip(node.tied, ends, strict=True))
        # What the op cannot have, it cannot offer to those above either.
        for result, stack in zip(op.results, stacks, strict=True):
            self.below[result] = stack[: max(node.highest, 0)]

    def _common(self, value: SSAValue) -> list[Step]:
        """The steps that all users of `value` can take, in the same order."""
        common: list[Step] | None = None
        flexible: list[tuple[Operation, int]] = []
        for use in value.uses:
            steps = self.use_below(use.operation, use.index)
            if not steps and self._is_flexible(use.operation, use.index):
                flexible.append((use.operation, use.index))
                continue
            if common is None:
                common = list(steps)
            else:
                same = 0
                for a, b in zip(common, steps, strict=False):
                    if a.key != b.key:
                        break
                    same += 1
                del common[same:]
            if not common:
                return []
        if not common:
            return []
        for user, index in flexible:
            self.regridded.add((user, index))
            self._offers.setdefault(user, {})[index] = common
        return common

    def _is_flexible(self, user: Operation, index: int) -> bool:
        if self.level is not Numerics.RELAXED:
            return False
        behavior = self.session.behaviors.get(user)
        return behavior is not None and behavior.operand_port(index).kind is PortKind.REQUANT


def _are_same(some: Sequence[Step], others: Sequence[Step]) -> bool:
    """Whether they are alike and come from the same rescales."""
    return len(some) == len(others) and all(
        a.key == b.key and a.origin is b.origin for a, b in zip(some, others, strict=True)
    )

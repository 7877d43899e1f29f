"""The placement problem of a module while it changes.

Placing rescales lets others pass that could not before, so the problem is stated again
after each placement, and when another pass has run in between.  Components that nothing
of this touches keep the solution they have: only the others are stated and solved.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from qdialect.analysis.index import every_op
from qdialect.analysis.ranges import CodeRanges, ranges
from qdialect.context import QContext
from qdialect.numerics.contract import Numerics
from qdialect.ops import constant_of
from qdialect.passes.rescale.place.model import Model
from qdialect.passes.rescale.place.ports import takes_others
from qdialect.passes.rescale.place.prices import Prices
from qdialect.passes.rescale.place.snapshot import Changes, Snapshot
from qdialect.passes.rescale.place.states import States
from qdialect.passes.rescale.place.steps import movable
from qdialect.placement import Part, Parts, Solution
from qdialect.quant import arithmetic_of
from qdialect.targets.base import Target


class Options(NamedTuple):
    """What a solution depends on besides the module."""

    target: Target
    level: Numerics
    accuracy: float
    solver: bool


class Rounds:
    """States the problem of `module`, each time as far as it is another."""

    def __init__(self, session: QContext, module: ModuleOp, options: Options) -> None:
        self.session = session
        self.module = module
        self.options = options
        #: values for which costs are only known from above: no bound is proved then
        self.estimated: set[SSAValue] = set()
        self._prices = Prices(session, options.level, arithmetic_of(module))
        self._states = States(session, options.level, self._prices.steps)
        self._snapshot = Snapshot()
        #: the components solved, by number, and the values of each; of which of them a value is
        self._parts: dict[int, Part] = {}
        self._values: dict[int, list[SSAValue]] = {}
        self._home: dict[SSAValue, set[int]] = {}
        #: values of components that were to be placed otherwise
        self._unsettled: list[SSAValue] = []

    @property
    def parts(self) -> Parts:
        """What the components come to that have been settled and that nothing has touched."""
        return Parts(self._parts.values())

    def state(self, *, committed: bool) -> Model:
        """The problem of all that is another than when it was settled; `committed` if a
        solution has been built since, of which the ranges have not been told."""
        if committed and self.session.error_bounds.changes:
            # What rewrites move values by is handed on to others when they are gone.
            self.session.analyses.pop(CodeRanges, None)
        found = ranges(self.session)
        ops = list(every_op(self.module))
        if not self._states.ops or self.options.level is Numerics.RELAXED:
            ops, values = self._state_all(ops)
        else:
            changes = self._snapshot.compare(ops, found, stale=committed)
            ops, values = self._restate(ops, changes)
        model = Model(self._states, self._prices, self.options.accuracy, ops, values)
        self.estimated.update(model.estimated)
        self._snapshot.keep(found)
        return model

    def settle(self, model: Model, solution: Solution) -> None:
        """Keep what was found for the components of `model`."""
        first = max(self._parts, default=-1) + 1
        start, states = model.start, solution.states
        part_of: dict[int, int] = {}
        for number, part in enumerate(solution.parts, first):
            self._parts[number] = part
            part_of.update(dict.fromkeys(part.variables, number))
        for value, variable in model.variables_on():
            number = part_of[variable]
            self._home.setdefault(value, set()).add(number)
            self._values.setdefault(number, []).append(value)
        for number, part in enumerate(solution.parts, first):
            if any(start[v] != states[v] for v in part.variables):
                self._unsettled += self._values[number]

    def _state_all(self, ops: list[Operation]) -> tuple[Sequence[Operation], dict[SSAValue, None]]:
        for known in (self._parts, self._values, self._home, self._unsettled, self.estimated):
            known.clear()
        self._states.state(ops)
        self._snapshot.take(ops)
        return ops, dict.fromkeys(_made_by(ops))

    def _restate(
        self, ops: list[Operation], changes: Changes
    ) -> tuple[Sequence[Operation], dict[SSAValue, None]]:
        touched, others = self._touched(ops, changes)
        values = self._whole(touched, others)
        whole = [value for value in values if value in others or not self._is_apart(value)]
        self.estimated.difference_update(whole)
        near = {use.operation for value in whole for use in value.uses}
        near.update(value.owner for value in whole if isinstance(value.owner, Operation))
        # What is given another operand is made anew.
        anew = [op for op in near if takes_others(self.session, op)]
        near.update(use.operation for op in anew for result in op.results for use in result.uses)
        # In program order, whichever way they were found.
        place = self._states.places.__getitem__
        made = _made_by(sorted({maker for maker in map(_maker, values) if maker}, key=place))
        return sorted(near, key=place), {value: None for value in made if value in values}

    def _touched(
        self, ops: list[Operation], changes: Changes
    ) -> tuple[list[SSAValue], set[SSAValue]]:
        """The values that are felt to have changed, and those of them that are made in other
        states than they were, or hold others."""
        looked, moving, others = self._states.restate(ops, changes.ops, changes.gone)
        others |= changes.others
        touched = [*changes.values, *self._unsettled]
        self._unsettled.clear()
        movers = [op for op in looked if op in moving or movable(op)]
        takers = [op for op in looked if op in changes.new and takes_others(self.session, op)]
        for op in (*movers, *takers):
            touched += op.operands
        for op in looked:
            touched += op.results
        for op in changes.gone:
            touched += op.results
        for op in (*movers, *changes.new, *changes.gone):
            others.update(op.results)
        return touched + self._beside(movers), others

    def _is_apart(self, value: SSAValue) -> bool:
        """Whether `value` is made in one state only, and no constant: then uses of it that
        start with different rescales have nothing to do with one another."""
        owner = value.owner
        if not isinstance(owner, Operation):
            return True
        fixed = owner not in self._states.commuting and not movable(owner)
        return fixed and not self._states.below.get(value) and constant_of(value) is None

    def _beside(self, ops: Iterable[Operation]) -> list[SSAValue]:
        """What is made from values that are apart by ops that may share rescales of them
        with one of `ops`."""
        first: dict[SSAValue, set[int]] = {}
        for op in ops:
            for index, value in enumerate(op.operands):
                steps = self._states.use_below(op, index)
                if steps and self._is_apart(value):
                    first.setdefault(value, set()).add(steps[0].key)
        found: list[SSAValue] = []
        for value, keys in first.items():
            for use in value.uses:
                steps = self._states.use_below(use.operation, use.index)
                if steps and steps[0].key in keys:
                    found += use.operation.results
        return found

    def _whole(self, touched: list[SSAValue], others: Collection[SSAValue]) -> set[SSAValue]:
        """The values of all components on `touched`, which are settled no more; not of those
        that only have an end on a value that is apart, unless it is one of `others`."""
        places = self._states.places
        found: set[SSAValue] = set()
        while touched:
            value = touched.pop()
            if value in found:
                continue
            if value in others or not self._is_apart(value):
                for number in list(self._home.get(value, ())):
                    touched += self._unsettle(number)
            if _maker(value) in places:
                found.add(value)
        return found

    def _unsettle(self, number: int) -> list[SSAValue]:
        """Forget a component; its values."""
        del self._parts[number]
        values = self._values.pop(number)
        for value in values:
            homes = self._home.get(value, set())
            homes.discard(number)
            if not homes:
                self._home.pop(value, None)
        return values


def _maker(value: SSAValue) -> Operation | None:
    """The op that makes `value`, or the one around the block whose argument it is."""
    owner = value.owner
    return owner if isinstance(owner, Operation) else owner.parent_op()


def _made_by(ops: Iterable[Operation]) -> Iterator[SSAValue]:
    """What `ops` make, in that order, and the arguments of blocks in them."""
    for op in ops:
        yield from op.results
        for region in op.regions:
            for block in region.blocks:
                yield from block.args

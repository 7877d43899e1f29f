"""Rescales that move past many ops at once.

    f_n(.. rescale_k(.. f_1(rescale_1(x))))   ->   rescale_k(.. rescale_1(f_n(.. f_1(x))))

and back, for ops f that commute with each of the rescales that passes them. One by one these
are as many rewrites as there are pairs of a rescale and an op; together they are one. Ops that are
alike (`_kind`) commute with a rescale or do not, so each pair of a kind and a rescale is decided
once.

A run has parameters per tensor only, and what is known of the codes is not asked. Whatever else
`sink_rescale` and `hoist_rescale` move past goes step by step, by their other rules.

For example

    %0 = quant.rescale %x : !a to !b
    %1 = nn.flip %0 axes [0] : (!b) -> !b
    %2 = quant.rescale %1 : !b to !c
    %3 = nn.relu %2 : (!c) -> !c

becomes

    %1 = nn.flip %x axes [0] : (!a) -> !a
    %3 = nn.relu %1 : (!a) -> !a
    %0 = quant.rescale %3 : !a to !b
    %2 = quant.rescale %0 : !b to !c
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

from xdsl.ir import Operation, SSAValue

from qdialect.algebra.contract import EXACT, Contract
from qdialect.algebra.qparams import QParams
from qdialect.algebra.rounding import Rounding
from qdialect.analysis.codes import is_integer, qparams_of
from qdialect.analysis.ranges import inside_bounds
from qdialect.ir.behaviors import Behavior
from qdialect.ir.behaviors.flow import carry_all_down, carry_up, tied_operands
from qdialect.ir.context import QContext
from qdialect.ir.ops import KEY, shape_of
from qdialect.ir.quant import RescaleOp, arithmetic_of
from qdialect.passes.rescale.passing import same_order
from qdialect.passes.rule_pass import refuse_tied, rescaled, with_qparams
from qdialect.rewrite import Refusal, Rewriter, Rule, retyped

_JOINING = 16
"""As many ops are looked at for the branches from one value to meet again."""


@dataclass(frozen=True)
class _Step:
    """A rescale as the ops that it passes see it; `inside`: they take codes within their bounds."""

    source: QParams
    target: QParams
    rounding: Rounding
    inside: bool


@dataclass(frozen=True)
class Run:
    """Rescales and ops, each as values pass them. Ops read `entry`, each other's results, or
    rescales of these; nothing else uses any of that but the last."""

    entry: SSAValue
    rescales: Sequence[RescaleOp]
    ops: Sequence[Operation]

    @property
    def is_many(self) -> bool:
        """Whether it is more than one step."""
        return bool(self.rescales and self.ops) and len(self.rescales) + len(self.ops) > 2


class RescalesPastRun(Rule[Run]):
    """Many rescales past many ops; see the module."""

    def __init__(self, session: QContext) -> None:
        super().__init__(session)
        self._decisions: dict[tuple[Hashable, _Step], bool] = {}

    def check(self, match: Run) -> Contract | Refusal:
        return EXACT  # other ops are in no run

    def _read(self, op: Operation) -> list[SSAValue] | None:
        """The tied operands of an op that a run may have."""
        behavior = self.session.behaviors.get(op)
        if behavior is None or not behavior.commutes or len(op.results) != 1:
            return None
        params = qparams_of(op.results[0])
        if params is None or not params.is_per_tensor or not is_integer(params):
            return None
        tied = [op.operands[i] for i in tied_operands(op, behavior)]
        return tied if all(qparams_of(v) == params for v in tied) else None

    def _step(self, op: Operation | None, *, inside: bool) -> _Step | None:
        """`op` as a step of a run, if it is one."""
        if op is None or not op.results or rescaled(op.results[0]) is None:
            return None
        assert isinstance(op, RescaleOp)
        source, target = op.input_qparams, op.result_qparams
        if not (source.is_per_tensor and target.is_per_tensor):
            return None
        return _Step(source, target, op.rounding, inside)

    def _kind(self, op: Operation) -> Hashable:
        """What decides whether `op` commutes with a step."""
        behavior = self.session.behaviors.get(op)
        assert behavior is not None
        tied = set(tied_operands(op, behavior))
        return (
            op.name,
            tuple(op.properties.items()),
            tuple(item for item in op.attributes.items() if item[0] != KEY),
            tuple(shape_of(v) if i in tied else v for i, v in enumerate(op.operands)),
            shape_of(op.results[0]),
            arithmetic_of(op),
        )

    def _passes(self, op: Operation, kind: Hashable, step: _Step) -> bool:
        """Whether both orders of `op` and a rescale are ops, and give the same codes."""
        found = self._decisions.get((kind, step))
        if found is None:
            behavior = self.session.behaviors.get(op)
            assert behavior is not None
            found = self._decisions[kind, step] = self._decided(op, behavior, step)
        return found

    def _decided(self, op: Operation, behavior: Behavior, step: _Step) -> bool:
        count = len(tied_operands(op, behavior))
        above, below = [step.source] * count, [step.target] * count
        for params in (above, below):
            if carry_all_down(op, behavior, params) != params[:1]:
                return False
            if carry_up(op, behavior, params[:1]) != params:
                return False
            if refuse_tied(self.session, behavior, op, params, params[:1]):
                return False
        return same_order(
            behavior, op, above, below, step.source, step.rounding, inside=step.inside
        )

    def _moved(self, match: Run, new: SSAValue, params: QParams, rewriter: Rewriter) -> SSAValue:
        """The result of the ops of a run on `params`, read from `new` in place of its entry."""
        above = dict[SSAValue, SSAValue]((r.result, r.input) for r in match.rescales)
        there = {match.entry: new}
        last = new
        for op in match.ops:
            operands = list(op.operands)
            for index, value in enumerate(operands):
                while value in above:
                    value = above[value]
                operands[index] = there.get(value, operands[index])
            moved = retyped(op, operands, [with_qparams(op.results[0], params)])
            rewriter.insert(moved, op, keep=op)
            there[op.results[0]] = last = moved.results[0]
        return last

    def _rescaled(
        self, match: Run, value: SSAValue, before: Operation, rewriter: Rewriter
    ) -> SSAValue:
        for old in match.rescales:
            rescale = RescaleOp(value, with_qparams(value, old.result_qparams), old.rounding)
            rewriter.insert(rescale, before, keep=old)
            value = rescale.result
        return value


class SinkPastRun(RescalesPastRun):
    """rescales below the ops of a run; see the module."""

    name = "sink-past-run"

    def roots(self) -> Iterable[str]:
        return self.session.behaviors.names_with(lambda b: b.commutes)

    def match(self, op: Operation) -> Run | None:
        read = self._read(op)
        if not read:
            return None
        value, rescales = read[0], list[RescaleOp]()
        while (above := rescaled(value)) is not None and (not rescales or value.has_one_use()):
            rescales.append(above)
            value = above.input
        entry, end = value, read[0]
        rescales.reverse()
        steps = dict[_Step, None]()
        for rescale in rescales:
            step = self._step(rescale, inside=inside_bounds(rescale.input, self.session))
            if step is None:
                return None
            steps[step] = None
        ops, passed, checked = list[Operation](), 0, dict[Hashable, int]()
        every = list(steps)
        while rescales and (joined := self._joined(end, op)) is not None:
            for each in joined:
                kind = self._kind(each)
                new = every[checked.get(kind, 0) :]
                if not all(self._passes(each, kind, step) for step in new):
                    return self._run(entry, rescales[:passed], ops)
                checked[kind] = len(every)
            ops += joined
            passed, end = len(rescales), joined[-1].results[0]
            while (below := _only_user(end)) is not None:
                step = self._step(below, inside=inside_bounds(end, self.session))
                if step is None:
                    break
                assert isinstance(below, RescaleOp)
                rescales.append(below)
                if step not in steps:
                    steps[step] = None
                    every.append(step)
                end = below.result
        return self._run(entry, rescales[:passed], ops)

    def _run(
        self, entry: SSAValue, rescales: Sequence[RescaleOp], ops: Sequence[Operation]
    ) -> Run | None:
        run = Run(entry, rescales, ops)
        return run if run.is_many else None

    def _joined(self, value: SSAValue, root: Operation) -> list[Operation] | None:
        """The ops between `value` and the next one through which all that is made of it goes,
        in order."""
        unread = {value: _count_uses(value)}
        ops: dict[Operation, None] = {}
        pending = deque(use.operation for use in islice(value.uses, _JOINING))
        while pending and len(ops) < _JOINING:
            op = pending.popleft()
            read = None if op.parent is not root.parent else self._read(op)
            if op in ops:
                continue
            if not read or op.results[0].first_use is None:
                return None
            if not all(v in unread for v in read):
                continue  # comes again with what it reads besides
            ops[op] = None
            for operand in read:
                unread[operand] -= 1
            result = op.results[0]
            unread[result] = _count_uses(result)
            left = [v for v, count in unread.items() if count]
            if left == [result]:
                return list(ops)
            pending += (use.operation for use in islice(result.uses, _JOINING))
        return None

    def rewrite(self, match: Run, rewriter: Rewriter) -> None:
        params = match.rescales[0].input_qparams
        last = match.ops[-1]
        value = self._moved(match, match.entry, params, rewriter)
        rewriter.replace(last, [self._rescaled(match, value, last, rewriter)])


class HoistPastRun(RescalesPastRun):
    """rescales above the ops of a run, each of which reads one value; see the module."""

    name = "hoist-past-run"
    root = RescaleOp.name

    def match(self, op: Operation) -> Run | None:
        assert isinstance(op, RescaleOp)
        ops, kinds = list[Operation](), dict[Hashable, Operation]()
        entry, user = op.input, op
        while isinstance(above := entry.owner, Operation) and _only_user(entry) is user:
            read = self._read(above)
            if not read or any(v is not read[0] for v in read):
                break
            step = self._step(op, inside=inside_bounds(read[0], self.session))
            if step is None or not self._passes(above, self._kind(above), step):
                break
            ops.append(above)
            kinds[self._kind(above)] = above
            entry, user = read[0], above
        if not ops:
            return None
        ops.reverse()
        rescales, between, end = [op], list[Operation](), op.result
        examples, checked = list(kinds.items()), dict[_Step, int]()
        while (below := _only_user(end)) is not None:
            end = below.results[0] if below.results else end
            # What is below a rescale that moves up reads codes within their bounds.
            step = self._step(below, inside=True)
            if step is None:
                read = self._read(below)
                if not read or any(v is not read[0] for v in read):
                    break
                between.append(below)
                continue
            for each in between:
                kind = self._kind(each)
                if kind not in kinds:
                    kinds[kind] = each
                    examples.append((kind, each))
            new = examples[checked.get(step, 0) :]
            if not all(self._passes(each, kind, step) for kind, each in new):
                break
            checked[step] = len(examples)
            assert isinstance(below, RescaleOp)
            rescales.append(below)
            ops += between
            between.clear()
        run = Run(entry, rescales, ops)
        return run if run.is_many else None

    def rewrite(self, match: Run, rewriter: Rewriter) -> None:
        first, last = match.ops[0], match.rescales[-1]
        value = self._rescaled(match, match.entry, first, rewriter)
        params = last.result_qparams
        rewriter.replace(last, [self._moved(match, value, params, rewriter)])


def _only_user(value: SSAValue) -> Operation | None:
    """The op that all uses of `value` are of, if there is one."""
    use = value.first_use
    if use is None:
        return None
    few = list(islice(value.uses, _JOINING))
    alone = len(few) < _JOINING and all(other.operation is use.operation for other in few)
    return use.operation if alone else None


def _count_uses(value: SSAValue) -> int:
    """How many uses `value` has; of very many, that there are more than can be looked at."""
    return len(list(islice(value.uses, _JOINING + 1)))

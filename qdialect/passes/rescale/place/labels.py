"""What an op is like with rescales behind it or before it: the labels of its states.

A commuting op has the states for which its operands, its results, its declaration and the
target agree (law 2.2; the levels of order-preserving ops need a code in every state on the
way, or all codes must agree).  An op with tied ports that computes (`passage`) has them at
the price of what passing it changes.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Operation

from qdialect.analysis.codes import is_integer, qparams_of
from qdialect.analysis.intervals import LaidOut, passed_on, within
from qdialect.analysis.ranges import inside_bounds, narrowed_qparams
from qdialect.behaviors.flow import carry_all_down, carry_some_down, carry_up, tied_operands
from qdialect.context import QContext
from qdialect.numerics.contract import EXACT, Contract, Numerics
from qdialect.numerics.ranges import Interval
from qdialect.numerics.rounding import Rounding
from qdialect.ops import constant_of
from qdialect.passes.rescale.choice_constants import constant_operand, counterpart
from qdialect.passes.rescale.clamp_tables import clamp_commutes
from qdialect.passes.rescale.non_commuting_moves import Rescaled, is_passable, passage, rescaled_to
from qdialect.passes.rescale.place.steps import Commuting, Labels, Step, one_scale
from qdialect.passes.rule_pass import (
    keeps_order,
    names_all,
    refuse_effects,
    refuse_encodings,
    refuse_growth,
)
from qdialect.qparams import QParams
from qdialect.qparams.legality import Illegal
from qdialect.quant import arithmetic_of
from qdialect.rewrite import Refusal


class Labelling:
    """Asks declarations and target in which states an op can be under a level of numerics."""

    def __init__(self, session: QContext, level: Numerics) -> None:
        self.session = session
        self.level = level
        #: the labels of all ops of one name on one scale, by name, numbers and scale, on a
        #: target that does not look at more
        self._alike: dict[tuple[str, int, int, QParams], Labels] = {}
        self._one_for_all = not session.target.looks_at_ops

    def node(self, op: Operation) -> Commuting | None:
        """The op in its present state, if rescales may pass it at all."""
        behavior = self.session.behaviors.get(op)
        if behavior is None or not op.results or refuse_effects(op):
            return None
        if not behavior.commutes and not is_passable(behavior):
            return None
        tied = tied_operands(op, behavior)
        operands = [qparams_of(op.operands[i]) for i in tied]
        results = [qparams_of(result) for result in op.results]
        known = [q for q in (*operands, *results) if q is not None and is_integer(q)]
        if not tied or len(known) != len(operands) + len(results):
            return None
        now = Labels(known[: len(tied)], known[len(tied) :])
        plain = behavior.movement is None or not any(m.has_border for m in behavior.maps(op))
        if not (plain and one_scale(known)) and (
            carry_all_down(op, behavior, now.operands) != now.results
        ):
            return None  # it requantizes its operands
        if behavior.choose is not None:
            constants = [i for i in tied if constant_of(op.operands[i]) is not None]
            if len(constants) < len(tied):
                now.constants = {i: constant_operand(self.session, op, i) for i in constants}
        b = behavior
        levels = b.compared_constants(op) if b.compared_constants else ()
        inert = plain and not (b.requantizes_inputs or b.choose or b.clamp or levels) and b.commutes
        return Commuting(op, behavior, tied, {0: now}, plain, levels, inert)

    def alike(self, node: Commuting, steps: Sequence[Step]) -> list[Labels] | None:
        """The op before or behind each of `steps`, which pass it as they are: it only moves
        elements, and each has one scale. None if it needs a closer look."""
        if not (node.inert and steps and all(step.qparams.is_per_tensor for step in steps)):
            return None
        if not self._one_for_all or len(node.tied) != len(node.op.operands):
            return None
        return [self._on_one(node, step.qparams) for step in steps]

    def sunk(self, node: Commuting, steps: dict[int, Step], next: Labels) -> Labels | None:
        """The op before `steps` (by operand), which lead to `next`; None where no state
        further below can be either."""
        some = list(steps.values())
        if len({step.rounding for step in some}) > 1:
            return None
        operands = [step.qparams for step in some]
        if node.behavior.requantizes_inputs and len(set(operands)) > 1:
            return None
        carried = self._carried(node, {i: step.qparams for i, step in steps.items()})
        if isinstance(carried, Illegal):
            return None
        operands, results = carried
        inside = all(step.inside for step in some)
        if not self._orders_alike(
            node, operands, next.operands, some[0].seen, some[0].rounding, inside=inside
        ):
            return None
        labels = self._checked(node, operands, results)
        if not node.behavior.commutes:
            given = [(s.qparams, s.seen, b) for s, b in zip(some, next.operands, strict=True)]
            contract = self._passing(node, given, some[0].rounding, next.contract)
            if contract is None:
                return None
            labels.contract = contract
        for index, held in next.constants.items():
            params = operands[node.tied.index(index)]
            found = counterpart(
                node.op,
                node.behavior,
                held,
                params,
                some[0].rounding,
                defined=arithmetic_of(node.op),
                inside=inside,
            )
            if isinstance(found, Refusal):
                return None
            labels.constants[index] = found
        return labels

    def seen(self, node: Commuting, labels: Labels, known: dict[int, Step], index: int) -> QParams:
        """The qparams of result `index` in the state of `labels`, with the bounds its codes
        will be known to keep once the op is there."""
        params = labels.results[index]
        if not node.behavior.commutes or not is_integer(params):
            return params
        if node.inert:
            bounds = [step.seen.storage for step in known.values()]
            low, high = min(b.min for b in bounds), max(b.max for b in bounds)
            return within(params, Interval(low, high))
        held: list[LaidOut] = []
        for operand in node.tied:
            if operand in known:
                step = known[operand]
                storage = step.seen.storage
                held.append((step.qparams, Interval(storage.min, storage.max)))
            else:
                constant = labels.constants[operand]
                if not constant.codes.size:
                    return within(params, None)
                held.append((constant.params, Interval.exactly(constant.codes)))
        moves = node.behavior.movement is not None
        along = node.behavior.maps(node.op)[index] if moves else None
        return within(params, passed_on(node.op, node.behavior, held, params, along))

    def hoisted(self, node: Commuting, steps: Sequence[Step], before: Labels) -> Labels | None:
        """The op behind `steps`, which lead on from `before`; None where no state further
        above can be either."""
        if len({step.rounding for step in steps}) > 1:
            return None
        results = [step.qparams for step in steps]
        joins = len(results) == 1 or node.behavior.inverse_map is not None
        if node.plain and joins and one_scale(results):
            operands = results[:1] * len(node.tied)
        else:
            operands = carry_up(node.op, node.behavior, results)
            if isinstance(operands, Illegal):
                return None
        # Behind a rescale codes are inside their bounds.
        seen, inside = before.operands[0], True
        if before is node.labels[0]:
            values = [node.op.operands[i] for i in node.tied]
            inside = all(inside_bounds(value, self.session) for value in values)
            seen = narrowed_qparams(values[0], self.session) or seen
        if not self._orders_alike(
            node, before.operands, operands, seen, steps[0].rounding, inside=inside
        ):
            return None
        labels = self._checked(node, operands, results)
        if not node.behavior.commutes:
            values = [node.op.operands[index] for index in node.tied]
            pairs = zip(values, operands, strict=True)
            given = [rescaled_to(value, params, self.session) for value, params in pairs]
            contract = self._passing(node, given, steps[0].rounding, EXACT)
            if contract is None or 1 in node.labels:
                return None  # the values further above are not there to be asked about
            labels.contract = contract
        return labels

    def _carried(
        self, node: Commuting, known: dict[int, QParams]
    ) -> tuple[list[QParams], list[QParams]] | Illegal:
        """Qparams of the tied operands and of the results, given those of some operands."""
        if len(known) == len(node.tied):
            operands = list(known.values())
            if node.plain and one_scale(operands):
                return operands, operands[:1] * len(node.op.results)
            results = carry_all_down(node.op, node.behavior, operands)
            return results if isinstance(results, Illegal) else (operands, results)
        carried = carry_some_down(node.op, node.behavior, known)
        return carried if isinstance(carried, Illegal) else (carried[:-1], carried[-1:])

    def _orders_alike(
        self,
        node: Commuting,
        above: Sequence[QParams],
        below: Sequence[QParams],
        seen: QParams,
        rounding: Rounding,
        *,
        inside: bool,
    ) -> bool:
        """Whether the op compares with the same constants before and after the rescale
        above -> below of its operands; `seen` is what is known of the first one's codes."""
        behavior, op = node.behavior, node.op
        if behavior.clamp is None:
            return names_all([*above, *below], node.levels)
        if keeps_order(behavior, op, above, inside=inside) and keeps_order(
            behavior, op, below, inside=True
        ):
            return True
        return clamp_commutes(behavior, op, seen, above[0], below[0], rounding, arithmetic_of(op))

    def _passing(
        self, node: Commuting, given: Sequence[Rescaled], rounding: Rounding, further: Contract
    ) -> Contract | None:
        """What it changes that rescales of operands pass an op that does not commute, and
        then what `further` says; None if the level does not allow it."""
        found = passage(self.session, node.op, node.behavior, given, rounding)
        if isinstance(found, Refusal) or found.level > self.level:
            return None
        level = max(found.level, further.level)
        return Contract(level, found.steps + further.steps, found.note)

    def _checked(self, node: Commuting, operands: list[QParams], results: list[QParams]) -> Labels:
        op, now = node.op, node.labels[0]
        same = one_scale([*operands, *results])
        if same and len(operands) == len(op.operands) and self._one_for_all:
            return Labels(operands, results, legal=self._on_one(node, operands[0]).legal)
        if not same:
            grown = _grown(operands, set(results).difference(now.results))
            if grown or _grown(results, set(operands).difference(now.operands)):
                return Labels(operands, results, legal=False)
        return Labels(operands, results, legal=self._is_legal(node, operands, results))

    def _on_one(self, node: Commuting, params: QParams) -> Labels:
        """The op with `params` everywhere."""
        tied, results = len(node.tied), len(node.op.results)
        key = (node.op.name, tied, results, params)
        found = self._alike.get(key)
        if found is None:
            found = self._alike[key] = Labels([params] * tied, [params] * results)
            found.legal = self._is_legal(node, found.operands, found.results)
        return found

    def _is_legal(self, node: Commuting, operands: list[QParams], results: list[QParams]) -> bool:
        """Whether declaration and target let the op have these."""
        given: list[QParams | None] = [qparams_of(v) for v in node.op.operands]
        for index, qparams in zip(node.tied, operands, strict=True):
            given[index] = qparams
        return refuse_encodings(self.session, node.behavior, node.op, given, results) is None


def _grown(before: Sequence[QParams], after: set[QParams]) -> bool:
    """Whether any of `after` has more parameters than values that have `before`."""
    if not after:
        return False
    return refuse_growth(before, max(after, key=lambda q: q.count)) is not None

"""Putting every rescale where the solution of the placement problem wants it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from xdsl.ir import Attribute, Block, Operation, SSAValue

from qdialect.analysis.codes import qparams_of
from qdialect.behaviors import Behavior
from qdialect.context import QContext
from qdialect.numerics.contract import Contract, Numerics
from qdialect.ops import ConstantOp, constant_array, constant_of, make_constant
from qdialect.ops.base import KEY
from qdialect.passes.rescale.absorption import Down, Up, absorb_down, absorb_up
from qdialect.passes.rescale.choice_constants import Counterpart
from qdialect.passes.rescale.place.model import Model, Place
from qdialect.passes.rescale.place.ports import Absorption
from qdialect.passes.rescale.place.prices import Ladder, Rung
from qdialect.passes.rescale.place.steps import Commuting, Step
from qdialect.passes.rule_pass import with_qparams
from qdialect.qparams import QParams
from qdialect.quant import DCastOp, QCastOp, RescaleOp, UniformType, arithmetic_of
from qdialect.rewrite import Rewriter, retyped
from qdialect.rewrite.provenance import Provenance

REGRIDDED = Contract(Numerics.RELAXED, note="other qparams than were chosen for it")


class Commit:
    """Rebuilds, in program order, the ops whose state or operands change.

    `moved`: rescales made; `absorbed`: (op, its contract) for every port that took one,
    and `folded` for every chain that became one rescale.
    """

    def __init__(self, session: QContext, model: Model, states: Sequence[int]) -> None:
        self.session = session
        self.model = model
        self.moved: list[RescaleOp] = []
        self.absorbed: list[tuple[Operation, str, Contract]] = []
        self._rewriter = Rewriter(_ignore, session.behaviors, _ignore, Provenance(session))
        self._states = {
            what: states[variable] + lowest for what, (variable, lowest) in model.variables.items()
        }
        #: what an old value has become, and in which of its states that is
        self._new: dict[SSAValue, SSAValue] = {}
        #: the next versions of values of ops that several ports of an op have replaced
        self._passing: dict[SSAValue, SSAValue] = {}
        self._made: dict[tuple[SSAValue, Rung], SSAValue] = {}
        self._dead: list[Operation] = []

    def run(self) -> None:
        uses = self._uses_of_moved()
        for op in self.model.ops:
            rescale, node = self.model.rescale(op), self.model.commuting(op)
            if rescale is not None:
                self._rescale(rescale)
            elif node is not None:
                self._commuting(node)
            else:
                self._other(op)
        self._transfer(uses)
        for op in reversed(self._dead):
            op.detach()
            op.erase()

    def _uses_of_moved(self) -> dict[SSAValue, list[tuple[Operation, int]]]:
        """Who uses what earlier rewrites have moved, as long as uses are the old ones."""
        if not self.session.error_bounds.changes:
            return {}
        results = (value for op in self.model.ops for value in op.results)
        return {value: [(u.operation, u.index) for u in value.uses] for value in results}

    def _transfer(self, uses: dict[SSAValue, list[tuple[Operation, int]]]) -> None:
        """Let what was known of a value that is gone hold of what is used in its place."""
        error_bounds, dead = self.session.error_bounds, set(self._dead)
        for value, old_uses in uses.items():
            if value.owner not in dead or value not in error_bounds.changes:
                continue
            users_of: list[tuple[SSAValue, float, float]] = []
            for user, index in old_uses:
                if user in dead and isinstance(user, RescaleOp):
                    users_of.append((user.result, 1.0, max(user.result_qparams.scale_list())))
                    continue
                new = self._new.get(user.results[0]) if user.results else None
                now = new.owner if new is not None else user
                assert isinstance(now, Operation)
                users_of.append((now.operands[index], 1.0, 0.0))
            error_bounds.transfer(value, users_of)

    def record(self, op: Operation, remark: int, contract: Contract) -> None:
        """State what `contract` lets the results of `op`, or what they have become, be off.

        What one port of an op changes is in steps of the type the result had then; another
        rounding follows where a later port writes it in another one.
        """
        error_bounds = self.session.error_bounds
        for result in op.results:
            # A chain that is an identity as one rescale is what it was made from.
            value = self._new.get(result, result)
            error_bounds.record(value, remark, contract)
            while value in self._passing:
                after = self._passing[value]
                qparams = qparams_of(after) if after.type != value.type else None
                rounding = 0.0 if qparams is None else max(qparams.scale_list())
                error_bounds.transfer(value, [(after, 1.0, rounding)])
                value = after

    def state(self, what: Operation | Place) -> int:
        return self._states.get(what, 0)

    # -- ops --------------------------------------------------------------------------

    def _rescale(self, op: RescaleOp) -> None:
        """The value of a rescale is its operand in the state chosen for it."""
        above = op.input.owner
        unmoved = self.state(op) == 0 and not (
            op.input in self.model.free or (isinstance(above, Operation) and self.state(above))
        )
        key = self._ladder(op.input).rung(0, self.model.states.use_below(op, 0))
        if unmoved and (op.input, key) not in self._made:
            self._set_operands(op, [self._new.get(op.input, op.input)])
            if _in_block_of(op.input, op) is op:
                self._made[op.input, key] = op.result
            return
        value = self._value(op.input, self.state(op) + 1, op, 0)
        if value.name_hint is None:
            value.name_hint = op.result.name_hint
        self._new[op.result] = value
        self._dead.append(op)

    def _commuting(self, node: Commuting) -> None:
        op, state = node.op, self.state(node.op)
        operands = list(op.operands)
        constants = node.labels[state].constants if state < 0 else {}
        for index in node.tied:
            if index in constants:
                operands[index] = self._counterpart(op, constants[index])
                continue
            operands[index] = self._value(operands[index], state, op, index)
        if state == 0:
            self._set_operands(op, operands)
            return
        kinds = [
            with_qparams(v, q) for v, q in zip(op.results, node.labels[state].results, strict=True)
        ]
        new = retyped(op, operands, kinds)
        self._replace(op, new)
        contract = node.labels[state].contract
        if contract.level is not Numerics.EXACT:
            # Below state 0 it was counted in the steps of what comes after.
            steps = contract.steps * (_coarsening(node, state) if state < 0 else 1.0)
            self.absorbed.append((new, "pass", replace(contract, steps=steps)))

    def _other(self, op: Operation) -> None:
        sinks = [i for i in range(len(op.operands)) if self.state((op, i))]
        operands = [
            operand if i in sinks else self._value(operand, 0, op, i)
            for i, operand in enumerate(op.operands)
        ]
        self._set_operands(op, operands)
        current = op
        for index in sinks:
            current = self._absorb_down(op, current, index)
        if self.state(op):
            current = self._absorb_up(op, current)
        if current is not op:
            self._replace(op, current)

    def _absorb_down(self, op: Operation, current: Operation, index: int) -> Operation:
        value, state = op.operands[index], self.state((op, index))
        new_value = self._value(value, state, op, index)
        if isinstance(op, DCastOp):
            new: Operation = DCastOp(new_value, op.result.type)
            new.attributes.update(op.attributes)
            self._rewriter.insert(new, op, keep=op)
        else:
            middle = qparams_of(value)
            assert middle is not None
            steps = self.model.states.use_below(op, index)
            above = self.model.states.above.get(value, [])
            step = above[-state - 1] if state < 0 else steps[state - 1]
            match = Down(
                current, self._behavior(op), index, step.qparams, step.seen, middle, step.rounding
            )
            new = absorb_down(self.session, match, new_value, self._rewriter)
        self._drop_if_ours(current, new, op)
        if state < 0:
            self._absorbed(new, "absorb-down", self.model.down[op, index][-state])
        else:
            self.absorbed.append((new, "regrid", REGRIDDED))
        return new

    def _absorb_up(self, op: Operation, current: Operation) -> Operation:
        result = op.results[0]
        absorption = self.model.up[op][self.state(op)]
        assert absorption is not None
        for state in absorption.path[1:]:
            step = self.model.states.below[result][state - 1]
            source = qparams_of(current.results[0])
            assert source is not None
            if isinstance(current, QCastOp):
                kind = with_qparams(result, step.qparams)
                new: Operation = QCastOp(current.input, kind)
                new.attributes.update(current.attributes)
                self._rewriter.insert(new, op, keep=op)
            else:
                match = Up(current, self._behavior(op), source, step.qparams, step.rounding)
                new = absorb_up(match, self._rewriter)
            self._drop_if_ours(current, new, op)
            current = new
        self._absorbed(current, "absorb-up", absorption)
        return current

    def _absorbed(self, op: Operation, rule: str, absorption: Absorption | None) -> None:
        assert absorption is not None
        self.absorbed.append((op, rule, absorption.contract))

    def _behavior(self, op: Operation) -> Behavior:
        behavior = self.session.behaviors.get(op)
        assert behavior is not None
        return behavior

    def _drop_if_ours(self, current: Operation, new: Operation, op: Operation) -> None:
        """Erase what stood between the old op and the next version of it, `new`."""
        if current is not op:
            self._passing.update(zip(current.results, new.results, strict=True))
            current.detach()
            current.erase()

    def _set_operands(self, op: Operation, operands: Sequence[SSAValue]) -> None:
        if any(a is not b for a, b in zip(op.operands, operands, strict=True)):
            op.operands = operands

    def _replace(self, op: Operation, new: Operation) -> None:
        if new.parent is None:
            self._rewriter.insert(new, op, keep=op)
        for old, value in zip(op.results, new.results, strict=True):
            value.name_hint = value.name_hint or old.name_hint
            self._new[old] = value
        self._dead.append(op)

    # -- values -----------------------------------------------------------------------

    def _value(self, value: SSAValue, state: int, user: Operation, index: int) -> SSAValue:
        """`value` in `state` (as it counts them), for operand `index` of `user`."""
        owner = value.owner
        made = self.state(owner) if isinstance(owner, Operation) else 0
        new = self._new.get(value, value)
        if state == made:
            return new
        steps = self.model.states.use_below(user, index)
        constant = constant_of(value) if value in self.model.free else None
        ladder = self._ladder(value)
        key = ladder.rung(state - 1, steps)
        known = self._made.get((value, key))
        if known is not None:
            return known
        if constant is not None:
            found = self._constant(constant, ladder, state, steps, user)
        else:
            found = self._chain(new, ladder, made, state, steps, user)
        self._made[value, key] = found
        return found

    def _ladder(self, value: SSAValue) -> Ladder:
        qparams = qparams_of(value)
        assert qparams is not None
        return self.model.ladder(value, qparams)

    def _chain(
        self,
        new: SSAValue,
        ladder: Ladder,
        made: int,
        state: int,
        steps: Sequence[Step],
        user: Operation,
    ) -> SSAValue:
        """The rescales from one state of a value to another, the one there is nearest."""
        window = self.model.prices.window(ladder, steps)
        cost, links = window.chain(made, state)
        for k in range(state - 1, made, -1):
            known = self._made.get((ladder.value, ladder.rung(k - 1, steps)))
            if known is None:
                continue
            rest, fewer = window.chain(k, state)
            if rest < cost:  # else from where it is made, whichever use comes first
                cost, links, new = rest, fewer, known
        before = _in_block_of(ladder.value, user)
        for link in links:
            kind = self._kind(ladder, link.end, steps)
            folded = link.end - link.start > 1
            if new.type == kind and ladder.is_inside(link.start):
                if folded:
                    self.absorbed.append((user, "fold", link.contract))
                continue
            step = ladder.step(link.end - 1, steps)
            rescale = RescaleOp(new, kind, step.rounding)
            self._rewriter.insert(rescale, before, keep=step.origin)
            if folded:
                self.absorbed.append((rescale, "fold", link.contract))
            self.moved.append(rescale)
            new = rescale.result
            self._made[ladder.value, ladder.rung(link.end - 1, steps)] = new
        return new

    def _kind(self, ladder: Ladder, state: int, steps: Sequence[Step]) -> Attribute:
        return with_qparams(ladder.value, ladder.qparams(state, steps))

    def _counterpart(self, op: Operation, held: Counterpart) -> SSAValue:
        """The constant that stands for operand `held` in a lower state."""
        old = constant_of(op.operands[held.index])
        new = make_constant(held.codes, UniformType(held.params), self.session.blobs)
        self._rewriter.insert(new, op, keep=old)
        return new.result

    def _constant(
        self,
        constant: ConstantOp,
        ladder: Ladder,
        state: int,
        steps: Sequence[Step],
        user: Operation,
    ) -> SSAValue:
        from qdialect.numerics.quantize import rescale_codes

        codes = constant_array(constant, self.session.blobs)
        source: QParams = ladder.now
        for k in range(state):
            codes = rescale_codes(
                codes, source, steps[k].qparams, steps[k].rounding, arithmetic_of(user)
            )
            source = steps[k].qparams
        kept = {KEY: constant.attributes[KEY]} if KEY in constant.attributes else None
        new = make_constant(codes, UniformType(source), self.session.blobs, kept)
        self._rewriter.insert(new, _in_block_of(ladder.value, user), keep=constant)
        return new.result


def _coarsening(node: Commuting, state: int) -> float:
    """How many steps of the results in `state` one step in a state up to 0 is at most."""
    scales = (q.scale_list() for k in range(state + 1, 1) for q in node.labels[k].results)
    own = (q.scale_list() for q in node.labels[state].results)
    return max(map(max, scales)) / min(map(min, own))


def _in_block_of(value: SSAValue, user: Operation) -> Operation:
    """`user`, or the op around it in the block where `value` is made."""
    block = value.owner if isinstance(value.owner, Block) else value.owner.parent
    while user.parent is not block:
        parent = user.parent_op()
        assert parent is not None, "a value is used where it is not visible"
        user = parent
    return user


def _ignore(op: Operation) -> None:
    """There is no worklist: every op is visited once."""

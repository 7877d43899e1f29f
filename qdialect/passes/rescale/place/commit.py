"""Moving every rescale to where the solution of the placement problem puts it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from xdsl.ir import Attribute, Block, Operation, SSAValue

from qdialect.analysis.codes import qparams_of
from qdialect.behaviors import Behavior
from qdialect.context import QContext
from qdialect.numerics.contract import Contract, Numerics
from qdialect.ops import ConstantOp, constant_array, constant_of, make_constant
from qdialect.ops.keys import KEY
from qdialect.passes.rescale.absorption import Down, Up, absorb_down, absorb_up
from qdialect.passes.rescale.passing import Counterpart
from qdialect.passes.rescale.place.chains import ChainRescale, CommutingOp, movable
from qdialect.passes.rescale.place.costs import Position, RescaleChain, position_of
from qdialect.passes.rescale.place.ports import Absorption
from qdialect.passes.rescale.place.problem import OperandIndex, PlacementProblem
from qdialect.passes.rule_pass import with_qparams
from qdialect.quant import DCastOp, QCastOp, RescaleOp, UniformType, arithmetic_of
from qdialect.rewrite import Rewriter, retyped
from qdialect.rewrite.error_bounds import Change, real_bound
from qdialect.rewrite.replacements import Replacements
from qdialect.rewrite.rewriter import erase_op

REGRIDDED = Contract(Numerics.RELAXED, note="other qparams than were chosen for it")


class Commit:
    """Rebuilds, in program order, the ops whose state or operands change.

    `moved` has the new rescales; `absorbed` an op, a rule and a contract for every port that
    absorbed rescales, every op that one passed at a price, and every path that became one rescale.
    """

    def __init__(
        self, session: QContext, placement: PlacementProblem, states: Sequence[int]
    ) -> None:
        self.session = session
        self.placement = placement
        self.moved: list[RescaleOp] = []
        self.absorbed: list[tuple[Operation, str, Contract]] = []
        self._replacements = Replacements(session)
        self._rewriter = Rewriter(_ignore, session.behaviors, _ignore, self._replacements)
        self._states = {
            key: states[variable] + lowest
            for key, (variable, lowest) in placement.variables.items()
        }
        #: by old value, the one that stands for it, at the position at which it is made
        self._new: dict[SSAValue, SSAValue] = {}
        #: the next versions of results of ops of which several ports absorb
        self._versions: dict[SSAValue, SSAValue] = {}
        self._at: dict[tuple[SSAValue, Position], SSAValue] = {}
        self._replaced: list[Operation] = []

    def run(self) -> None:
        """Rebuild the ops."""
        for op in self.placement.ops:
            rescale, node = movable(op), self.placement.chains.commuting.get(op)
            if rescale is not None:
                self._rescale(rescale)
            elif node is not None:
                self._commuting(node)
            else:
                self._other(op)
        for op in reversed(self._replaced):
            erase_op(op, self.session)

    def record(self, op: Operation, remark: int, contract: Contract) -> None:
        """Add the error bound of `contract` to the results of `op`, or what stands for them.

        What one port of an op changes is in steps of the type the result had then; another
        rounding follows where a later port makes it on another one.
        """
        for result in op.results:
            # For a path that is an identity as one rescale, its start stands.
            value = self._new.get(result, result)
            real = real_bound(value, contract)
            while value in self._versions:
                after = self._versions[value]
                qparams = qparams_of(after) if after.type != value.type else None
                real += 0.0 if qparams is None else max(qparams.scale_list())
                value = after
            self.session.error_bounds.add(value, [Change(real, remark)])

    def state(self, key: Operation | OperandIndex) -> int:
        """The state that the solution gives an op or an operand."""
        return self._states.get(key, 0)

    # -- ops --------------------------------------------------------------------------

    def _rescale(self, op: RescaleOp) -> None:
        """Replace a rescale by its operand at the position that its state stands for."""
        above = op.input.owner
        unmoved = self.state(op) == 0 and not (
            op.input in self.placement.free or (isinstance(above, Operation) and self.state(above))
        )
        key = position_of(1, self.placement.chains.below_use(op, 0))
        if unmoved and (op.input, key) not in self._at:
            self._set_operands(op, [self._new.get(op.input, op.input)])
            if _in_block_of(op.input, op) is op:
                self._at[op.input, key] = op.result
            return
        value = self._value(op.input, self.state(op) + 1, op, 0)
        if value.name_hint is None:
            value.name_hint = op.result.name_hint
        self._new[op.result] = value
        self._replaced.append(op)

    def _commuting(self, node: CommutingOp) -> None:
        op, state = node.op, self.state(node.op)
        operands = list(op.operands)
        constants = node.states[state].constants if state < 0 else {}
        for index in node.tied:
            if index in constants:
                operands[index] = self._counterpart(op, constants[index])
                continue
            operands[index] = self._value(operands[index], state, op, index)
        if state == 0:
            self._set_operands(op, operands)
            return
        kinds = [
            with_qparams(v, q) for v, q in zip(op.results, node.states[state].results, strict=True)
        ]
        new = retyped(op, operands, kinds)
        self._replace(op, new)
        contract = node.states[state].contract
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
            if not self.state(op):
                for old, new in zip(op.results, current.results, strict=True):
                    self._replacements.replaced(old, new)
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
            below = self.placement.chains.below_use(op, index)
            r = self._chain(value).rescale(state, below)
            match = Down(
                current, self._behavior(op), index, r.qparams, r.narrowed, middle, r.rounding
            )
            new = absorb_down(self.session, match, new_value, self._rewriter)
        self._erase_version(current, new, op)
        if state < 0:
            self._absorbed(new, "absorb-down", self.placement.down[op, index][-state])
        else:
            self.absorbed.append((new, "regrid", REGRIDDED))
        return new

    def _absorb_up(self, op: Operation, current: Operation) -> Operation:
        result = op.results[0]
        absorption = self.placement.up[op][self.state(op)]
        assert absorption is not None
        for state in absorption.path[1:]:
            rescale = self.placement.chains.below[result][state - 1]
            source = qparams_of(current.results[0])
            assert source is not None
            if isinstance(current, QCastOp):
                kind = with_qparams(result, rescale.qparams)
                new: Operation = QCastOp(current.input, kind)
                new.attributes.update(current.attributes)
                self._rewriter.insert(new, op, keep=op)
            else:
                match = Up(current, self._behavior(op), source, rescale.qparams, rescale.rounding)
                new = absorb_up(match, self._rewriter)
            self._erase_version(current, new, op)
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

    def _erase_version(self, current: Operation, new: Operation, op: Operation) -> None:
        """Erase a version that stood between the old op and the next one, `new`."""
        if current is not op:
            self._versions.update(zip(current.results, new.results, strict=True))
            erase_op(current, self.session)

    def _set_operands(self, op: Operation, operands: Sequence[SSAValue]) -> None:
        changed = [(a, b) for a, b in zip(op.operands, operands, strict=True) if a is not b]
        for old, new in changed:
            self._replacements.replaced(old, new)
        if changed:
            op.operands = operands

    def _replace(self, op: Operation, new: Operation) -> None:
        if new.parent is None:
            self._rewriter.insert(new, op, keep=op)
        for old, value in zip(op.results, new.results, strict=True):
            value.name_hint = value.name_hint or old.name_hint
            self._new[old] = value
        self._replaced.append(op)

    # -- values -----------------------------------------------------------------------

    def _value(self, value: SSAValue, position: int, user: Operation, index: int) -> SSAValue:
        """`value` at `position` of its chain, for operand `index` of `user`."""
        owner = value.owner
        start = self.state(owner) if isinstance(owner, Operation) else 0
        new = self._new.get(value, value)
        if position == start:
            return new
        below = self.placement.chains.below_use(user, index)
        key = position_of(position, below)
        known = self._at.get((value, key))
        if known is not None:
            return known
        chain = self._chain(value)
        constant = constant_of(value) if value in self.placement.free else None
        if constant is not None:
            found = self._constant(constant, chain, position, below, user)
        else:
            found = self._rescaled(new, chain, start, position, below, user)
        self._at[value, key] = found
        return found

    def _chain(self, value: SSAValue) -> RescaleChain:
        qparams = qparams_of(value)
        assert qparams is not None
        return self.placement.chain(value, qparams)

    def _rescaled(
        self,
        new: SSAValue,
        chain: RescaleChain,
        start: int,
        end: int,
        below: Sequence[ChainRescale],
        user: Operation,
    ) -> SSAValue:
        """The rescales from one position of a value, where it is `new`, to another; or from a
        position in between that other uses need, if that is cheaper."""
        costs = self.placement.costs.chain(chain, below)
        cost, edges = costs.cost(start, end), costs.path(start, end)
        for k in range(end - 1, start, -1):
            known = self._at.get((chain.value, position_of(k, below)))
            if known is None:
                continue
            # On a tie from where it is made, so that the order of uses does not matter.
            if costs.cost(k, end) < cost:
                cost, edges, new = costs.cost(k, end), costs.path(k, end), known
        before = _in_block_of(chain.value, user)
        for edge in edges:
            kind = self._kind(chain, edge.end, below)
            folded = edge.end - edge.start > 1
            if new.type == kind and chain.is_inside(edge.start):
                if folded:
                    self.absorbed.append((user, "fold", edge.contract))
                continue
            last = chain.rescale_to(edge.end, below)
            rescale = RescaleOp(new, kind, last.rounding)
            self._rewriter.insert(rescale, before, keep=last.origin)
            if folded:
                self.absorbed.append((rescale, "fold", edge.contract))
            self.moved.append(rescale)
            new = rescale.result
            self._at[chain.value, position_of(edge.end, below)] = new
        return new

    def _kind(self, chain: RescaleChain, position: int, below: Sequence[ChainRescale]) -> Attribute:
        return with_qparams(chain.value, chain.qparams(position, below))

    def _counterpart(self, op: Operation, constant: Counterpart) -> SSAValue:
        """A new constant in place of an operand of an op in a lower state."""
        old = constant_of(op.operands[constant.index])
        new = make_constant(constant.codes, UniformType(constant.params), self.session.blobs)
        self._rewriter.insert(new, op, keep=old)
        return new.result

    def _constant(
        self,
        constant: ConstantOp,
        chain: RescaleChain,
        position: int,
        below: Sequence[ChainRescale],
        user: Operation,
    ) -> SSAValue:
        """The constant behind the rescales to `position`."""
        from qdialect.numerics.quantize import rescale_codes

        codes = constant_array(constant, self.session.blobs)
        source = chain.now
        for rescale in below[:position]:
            codes = rescale_codes(
                codes, source, rescale.qparams, rescale.rounding, arithmetic_of(user)
            )
            source = rescale.qparams
        key = {KEY: constant.attributes[KEY]} if KEY in constant.attributes else None
        new = make_constant(codes, UniformType(source), self.session.blobs, key)
        self._rewriter.insert(new, _in_block_of(chain.value, user), keep=constant)
        return new.result


def _coarsening(node: CommutingOp, state: int) -> float:
    """How many steps of the results in `state` one step in a state up to 0 is at most."""
    later = (q.scale_list() for k in range(state + 1, 1) for q in node.states[k].results)
    here = (q.scale_list() for q in node.states[state].results)
    return max(map(max, later)) / min(map(min, here))


def _in_block_of(value: SSAValue, user: Operation) -> Operation:
    """`user`, or the op around it in the block where `value` is made."""
    block = value.owner if isinstance(value.owner, Block) else value.owner.parent
    while user.parent is not block:
        parent = user.parent_op()
        assert parent is not None, "a value is used where it is not visible"
        user = parent
    return user


def _ignore(op: Operation) -> None:
    """No worklist: every op is visited once."""

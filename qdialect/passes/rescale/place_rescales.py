"""Put every rescale, quantize and dequantize where it costs least, all of them at once.

These conversions may stand anywhere along the movement and order-preserving ops around them, and
requantizing ops may absorb rescales; where one goes decides what another costs. `sink-rescale`,
`combine-rescale` and `move-casts` decide one by one. This pass states the whole choice as one
problem (`place.problem`) and solves it (`qdialect.placement`): least elements converted times the
target's price and how often that runs (`place.calls`), nothing that the target refuses, contracts
no weaker than `numerics`. Of equally cheap placements the one with the fewest conversions is taken,
then the strongest contracts, then the fewest changes, so a module that is placed best stays as it
is, and the result does not depend on the order of ops. A conversion that has moved, or become one
with another, may let others pass that could not before, so the pass states the problem again until
nothing gets cheaper.

`boundary` says which ops may change between integers and floats (`place.boundary`): an op on
integers stays on integers (`preserve`, the default); any op may change where fewer elements are
converted then (`minimize-conversions`); every op that can be on integers is (`maximize-integer`).

A dequantize and the quantize below it become one rescale, or nothing; under `relaxed` so do a
quantize and the dequantize right below it.

Under `relaxed` a requantizing operand may also be given what the other users of its value
rescale that to, so that one type serves all of them (both sides of an add, the inputs of a
concat). Every bit of precision this loses costs as much per element as `accuracy` rescales.

The remark `placement` gives the cost before and after, a lower bound on what any
placement costs, and how many components are proved least. Of a conversion that the target refuses,
which only one that stood there can be, the remark `refused-op` says why.

For example

    %0 = quant.rescale %x : !large_a to !large_b
    %1 = nn.slice %0 starts [0, 0] stops [1, 4] steps [1, 1] : (!large_b) -> !small_b
    %2 = nn.tile %1 repeats [8, 8] : (!small_b) -> !large_b

becomes

    %0 = nn.slice %x starts [0, 0] stops [1, 4] steps [1, 1] : (!large_a) -> !small_a
    %1 = quant.rescale %0 : !small_a to !small_b
    %2 = nn.tile %1 repeats [8, 8] : (!small_b) -> !large_b
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Any, ClassVar, NamedTuple

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, Block, BlockArgument, Operation, SSAValue
from xdsl.passes import ModulePass

from qdialect.algebra.contract import EXACT, Contract, Numerics, level_named
from qdialect.algebra.rounding import Rounding
from qdialect.analysis.codes import qparams_of
from qdialect.analysis.index import every_op
from qdialect.analysis.ranges import CodeRanges, ranges_anew
from qdialect.errors import UsageError
from qdialect.ir.behaviors import Behavior
from qdialect.ir.context import QContext, session
from qdialect.ir.ops import ConstantOp, constant_array, constant_of, make_constant
from qdialect.ir.ops.component_keys import merge_keys
from qdialect.ir.ops.keys import KEY
from qdialect.ir.quant import RescaleOp, UniformType, arithmetic_of
from qdialect.passes.casts.cast_rules import DequantizeOfQuantize, QuantizeOfConstant
from qdialect.passes.cleanup.cse import Cse
from qdialect.passes.rescale.absorption import Down, Up, absorb_down, absorb_up
from qdialect.passes.rescale.fold_rescale import IdentityRescale, RescaleOfConstant
from qdialect.passes.rescale.passing import Counterpart
from qdialect.passes.rescale.place.boundary import MAXIMIZE, PRESERVE, Boundary, Policy
from qdialect.passes.rescale.place.calls import FunctionPort
from qdialect.passes.rescale.place.chains import ChainConversion, CommutingOp
from qdialect.passes.rescale.place.conversions import (
    Conversion,
    Floats,
    conversion_of,
    convert,
    encoding_of,
    rounding_of,
    with_encoding,
)
from qdialect.passes.rescale.place.costs import Chain, Costs, Position, elements_cost, position_of
from qdialect.passes.rescale.place.ports import Absorption
from qdialect.passes.rescale.place.problem import PlacementProblem, Variable
from qdialect.placement import Parts, Solution, solve
from qdialect.rewrite import Driver, Rewriter, Rule, retyped
from qdialect.rewrite.error_bounds import Change, real_bound
from qdialect.rewrite.remarks import fired_remark
from qdialect.rewrite.replacements import Replacements, propagated
from qdialect.rewrite.rewriter import erase_op, set_type


class Placement(NamedTuple):
    """A placement: what the module cost before, and how good each component is now.

    The costs are those of `place.costs`; `estimated` counts the values whose costs are
    only known from above, which leaves the bound of the solution unproved.
    """

    before: int
    parts: Parts
    estimated: int


@dataclass(frozen=True)
class PlaceRescales(ModulePass):
    """Put every conversion where it costs least; see the module."""

    name = "place-rescales"
    counts_changes: ClassVar[bool] = True
    idempotent: ClassVar[bool] = True
    keeps_analyses: ClassVar[bool] = True

    numerics: str = "exact"
    boundary: Policy = PRESERVE
    solver: bool = True
    accuracy: float = 1.0

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Run the pass on a module, in place."""
        self.place(session(ctx), op)

    def place(self, session: QContext, op: ModuleOp) -> Placement:
        """Put the conversions of `op` where they cost least, and say what that is worth."""
        level = level_named(self.numerics)
        if not 0 <= self.accuracy < inf:
            raise UsageError("accuracy is a price: 0 or more, and finite", code="bad-option")
        ranges_anew(session)
        session.changes += _drop_dead(session, op)
        folds: list[Rule[Any]] = [IdentityRescale(session), RescaleOfConstant(session)]
        folds.append(QuantizeOfConstant(session))
        if level is Numerics.RELAXED and self.boundary == MAXIMIZE:
            # Between casts, integers are what this policy is to keep.
            folds.append(DequantizeOfQuantize(session))
        costs = Costs(session, level, arithmetic_of(op))
        cost_by_round: list[int] = []
        while True:
            Driver(session, folds, pass_name=self.name, numerics=level).run(op)
            Cse().apply(session, op)  # what is alike is priced as one
            ops = list(every_op(op))
            policy = Boundary(session, self.boundary)
            placing = PlacementProblem(session, level, self.accuracy, costs, policy, ops)
            cost_by_round.append(placing.problem.cost(placing.start) + placing.repeated)
            solution = solve(placing.problem, placing.start, use_solver=self.solver)
            gains = len(cost_by_round) == 1 or cost_by_round[-1] < cost_by_round[-2]
            unchanged = list(solution.states) == placing.start
            if not gains or (unchanged and not placing.repeated):
                break
            self._commit(session, placing, solution)
            del placing, solution  # the next problem is as large
            session.changes += 1
            session.analyses.pop(CodeRanges, None)
        before = cost_by_round[0]
        placement = Placement(before, solution.parts, len(placing.estimated))
        if not session.keeps_analyses:
            session.analyses.clear()
        if before or placement.parts:
            self._report(session, op, placement)
        for other in every_op(op):
            reason = costs.refused(other) if conversion_of(other) else None
            if reason:
                self._note(session, other, "refused-op", f"{session.target.name}: {reason}")
        return placement

    def _commit(self, session: QContext, placing: PlacementProblem, solution: Solution) -> None:
        commit = Commit(session, placing, solution.states)
        commit.run()
        for conversion in commit.moved:
            rule = "place-rescale" if isinstance(conversion, RescaleOp) else "place-cast"
            session.remarks.add(fired_remark(self.name, rule, conversion, EXACT))
        for absorbed in commit.absorbed:
            op, rule, contract, _ = absorbed
            session.remarks.add(fired_remark(self.name, rule, op, contract))
            if contract.level is not Numerics.EXACT:
                commit.record(absorbed, len(session.remarks.remarks) - 1)

    def _report(self, session: QContext, op: ModuleOp, placement: Placement) -> None:
        parts = placement.parts
        cost, least = elements_cost(parts.cost), elements_cost(parts.bound)
        methods = ", ".join(f"{count} by {name}" for name, count in parts.methods)
        bound = f"lower bound {least:g}, gap {max(cost - least, 0.0) / (cost or 1.0):.1%}"
        if placement.estimated:
            bound = f"no lower bound ({placement.estimated} values only estimated)"
        self._note(
            session,
            op,
            "placement",
            f"cost {elements_cost(placement.before):g} -> {cost:g} elements x price, "
            f"{bound}; {parts.exact} of {len(parts)} components exact ({methods})",
        )

    def _note(self, session: QContext, op: Operation, code: str, reason: str) -> None:
        session.remarks.at(op, "note", self.name, code, reason, rule="placement")


def _drop_dead(session: QContext, module: Operation) -> int:
    """What nobody uses need not stand anywhere; how many there were."""
    dropped = 0
    for op in reversed(list(every_op(module))):
        if conversion_of(op) and op.results[0].first_use is None:
            erase_op(op, session)
            dropped += 1
    return dropped


# Moving every conversion to where the solution of the placement problem puts it.

REGRIDDED = Contract(Numerics.RELAXED, note="other qparams than were chosen for it")


class Folded(NamedTuple):
    """Conversions became nothing: the value that is there instead, and what that changes, in
    steps of it."""

    value: SSAValue
    contract: Contract


class Absorbed(NamedTuple):
    """What changes the results of an op: in steps of these or, if `read` is given, of this operand,
    which stands for another value."""

    op: Operation
    rule: str
    contract: Contract
    read: SSAValue | None = None


class Commit:
    """Rebuilds, in program order, the ops whose state or operands change.

    `moved` has the new conversions; `absorbed` every port that absorbed rescales, every op that
    one passed at a price, and every path that became one conversion or none.
    """

    def __init__(
        self, session: QContext, placement: PlacementProblem, states: Sequence[int]
    ) -> None:
        self.session = session
        self.placement = placement
        self.moved: list[Conversion] = []
        self.absorbed: list[Absorbed] = []
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
        #: the positions of a value that ops read, apart from the one it is made at
        self._reads: dict[SSAValue, set[Position]] = {}
        #: what it changes that a value stands for a position of it as it is, by position
        self._folded: dict[tuple[SSAValue, Position], list[Folded]] = {}
        #: by new value, type and rounding, the conversion that stands there
        self._made: dict[tuple[SSAValue, Attribute, Rounding], SSAValue] = {}
        self._replaced: list[Operation] = []

    def run(self) -> None:
        """Rebuild the ops."""
        # What converts is decided by types, before those of arguments change.
        conversions = [conversion_of(op) for op in self.placement.ops]
        self._find_reads(zip(self.placement.ops, conversions, strict=True))
        changed = [port for port in self.placement.ports if self.state(port)]
        for port in changed:
            for argument in port.values:
                if isinstance(argument, BlockArgument):
                    set_type(argument, self._port_type(port, argument))
        for op, conversion in zip(self.placement.ops, conversions, strict=True):
            node = self.placement.chains.commuting.get(op)
            if conversion is not None:
                self._conversion(conversion)
            elif node is not None:
                self._commuting(node)
            else:
                self._other(op)
        for function in dict.fromkeys(port.function for port in changed):
            function.update_function_type()
        for op in reversed(self._replaced):
            erase_op(op, self.session)

    def record(self, absorbed: Absorbed, remark: int) -> None:
        """Add the error bound of a change to the results of its op, or what stands for them; of
        an op without results (a return) to what it reads.

        What one port of an op changes is in steps of the type the result had then; another
        rounding follows where a later port makes it on another one.
        """
        op, _, contract, read = absorbed
        if read is not None and not op.results:
            self.session.error_bounds.record(read, remark, contract)
        for result in op.results:
            # For a path that is an identity as one rescale, its start stands.
            value = self._new.get(result, result)
            if read is not None and value is not read:
                real = self._carried(value.owner, Folded(read, contract))
                self.session.error_bounds.add(value, [Change(real, remark)])
                continue
            real = real_bound(value, contract)
            while value in self._versions:
                after = self._versions[value]
                qparams = qparams_of(after) if after.type != value.type else None
                real += 0.0 if qparams is None else max(qparams.scale_list())
                value = after
            self.session.error_bounds.add(value, [Change(real, remark)])

    def _carried(self, user: Operation | Block, folded: Folded) -> float:
        """How far the results of `user` are off by what it reads, in real units."""
        assert isinstance(user, Operation)
        real = real_bound(*folded)
        return propagated(self.session, user, lambda v: real if v is folded.value else 0.0)

    def state(self, key: Variable) -> int:
        """The state that the solution gives an op, an operand or a port of a function."""
        return self._states.get(key, 0)

    def _made_at(self, value: SSAValue) -> int:
        port, owner = self.placement.port_of.get(value), value.owner
        if port is not None:
            return self.state(port)
        made = isinstance(owner, Operation) and encoding_of(value) is not None
        return self.state(owner) if isinstance(owner, Operation) and made else 0

    def _port_type(self, port: FunctionPort, value: SSAValue) -> Attribute:
        chain, (user, index) = self.placement.chain(value), port.uses[0]
        return self._kind(chain, self.state(port), self.placement.chains.below_use(user, index))

    # -- ops --------------------------------------------------------------------------

    def _conversion(self, op: Conversion) -> None:
        """Replace a conversion by its operand at the position that its state stands for."""
        unmoved = self.state(op) == 0 and not (
            self.placement.chain(op.input).computed(self.placement.chains.below_use(op, 0))
            or self._made_at(op.input)
            or self.placement.repeats(op)
        )
        key = position_of(1, self.placement.chains.below_use(op, 0))
        if unmoved and (op.input, key) not in self._at:
            old = op.input
            self._set_operands(op, [self._new.get(old, old)])
            if _in_block_of(old, op) is op:
                self._at[old, key] = op.result
                self._made[op.input, op.result.type, rounding_of(op)] = op.result
            return
        value = self._value(op.input, self.state(op) + 1, op, 0)
        if value.name_hint is None:
            value.name_hint = op.result.name_hint
        self._new[op.result] = value
        self._replaced.append(op)

    def _commuting(self, node: CommutingOp) -> None:
        op, state = node.op, self.state(node.op)
        operands = [
            operand if i in node.tied else self._value(operand, 0, op, i)
            for i, operand in enumerate(op.operands)
        ]
        constants = node.states[state].constants if state < 0 else {}
        for index in node.tied:
            if index in constants:
                operands[index] = self._counterpart(op, constants[index])
                continue
            operands[index] = self._value(operands[index], state, op, index)
        if state == 0:
            self._set_operands(op, operands)
            return
        made = dict(zip(node.results, node.states[state].results, strict=True))
        kinds = [with_encoding(v, made[v]) if v in made else v.type for v in op.results]
        new = retyped(op, operands, kinds)
        self._replace(op, new)
        contract = node.states[state].contract
        if contract.level is not Numerics.EXACT:
            # Below state 0 it was counted in the steps of what comes after.
            steps = contract.steps * (_coarsening(node, state) if state < 0 else 1.0)
            self.absorbed.append(Absorbed(new, "pass", replace(contract, steps=steps)))

    def _other(self, op: Operation) -> None:
        sinks = [i for i in range(len(op.operands)) if self.state((op, i))]
        operands = [
            operand if i in sinks else self._value(operand, self._read_at(op, i), op, i)
            for i, operand in enumerate(op.operands)
        ]
        self._set_operands(op, operands)
        current = op
        for index in sinks:
            current = self._absorb_down(op, current, index)
        if self.state(op):
            current = self._absorb_up(op, current)
        if any(self._made_at(result) for result in op.results if result in self.placement.port_of):
            ports = [self.placement.port_of.get(result) for result in op.results]
            kinds = [
                v.type if port is None else self._port_type(port, v)
                for v, port in zip(op.results, ports, strict=True)
            ]
            current = retyped(op, op.operands, kinds)
        if current is not op:
            if not self.state(op):
                for old, new in zip(op.results, current.results, strict=True):
                    self._replacements.replaced(old, new)
            self._replace(op, current)

    def _find_reads(self, ops: Iterable[tuple[Operation, Conversion | None]]) -> None:
        """Find the positions of values that ops read, apart from those they are made at."""
        for op, conversion in ops:
            for index, value in enumerate(op.operands):
                position = self._read_at(op, index) if conversion is None else self.state(op) + 1
                if position != self._made_at(value):
                    key = position_of(position, self.placement.chains.below_use(op, index))
                    self._reads.setdefault(value, set()).add(key)

    def _read_at(self, op: Operation, index: int) -> int:
        """The position at which an op that is no conversion reads an operand."""
        node = self.placement.chains.commuting.get(op)
        if node is not None:
            return self.state(op) if index in node.tied else 0
        port = self.placement.port_of.get((op, index))
        return self.state((op, index) if port is None else port)

    def _absorb_down(self, op: Operation, current: Operation, index: int) -> Operation:
        value, state = op.operands[index], self.state((op, index))
        new_value = self._value(value, state, op, index)
        chain = self.placement.chain(value)
        middle = chain.now
        assert not isinstance(middle, Floats)
        r = chain.conversion(state, self.placement.chains.below_use(op, index))
        assert not isinstance(r.encoding, Floats) and not isinstance(r.narrowed, Floats)
        match = Down(current, self._behavior(op), index, r.encoding, r.narrowed, middle, r.rounding)
        new = absorb_down(self.session, match, new_value, self._rewriter)
        self._erase_version(current, new, op)
        if state < 0:
            self._absorbed(new, "absorb-down", self.placement.down[op, index][-state])
        else:
            self.absorbed.append(Absorbed(new, "regrid", REGRIDDED))
        return new

    def _absorb_up(self, op: Operation, current: Operation) -> Operation:
        result = op.results[0]
        absorption = self.placement.up[op][self.state(op)]
        assert absorption is not None
        for state in absorption.path[1:]:
            below = self.placement.chains.below[result][state - 1]
            source = qparams_of(current.results[0])
            assert source is not None and not isinstance(below.encoding, Floats)
            match = Up(current, self._behavior(op), source, below.encoding, below.rounding)
            new = absorb_up(match, self._rewriter)
            self._erase_version(current, new, op)
            current = new
        self._absorbed(current, "absorb-up", absorption)
        return current

    def _absorbed(self, op: Operation, rule: str, absorption: Absorption | None) -> None:
        assert absorption is not None
        self.absorbed.append(Absorbed(op, rule, absorption.contract))

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
        found = self._at_position(value, position, user, index)
        if position != self._made_at(value):
            key = position_of(position, self.placement.chains.below_use(user, index))
            self._count(user, self._folded.get((value, key), ()))
        return found

    def _at_position(self, value: SSAValue, position: int, user: Operation, index: int) -> SSAValue:
        """`value` at a position of its chain as operand `index` of `user` sees it, made above that
        if it is not there."""
        start, new = self._made_at(value), self._new.get(value, value)
        if position == start:
            return new
        below = self.placement.chains.below_use(user, index)
        chain, key = self.placement.chain(value), position_of(position, below)
        found = self._at.get((value, key))
        constant = constant_of(value) if position <= chain.computed(below) else None
        if found is not None:
            if constant is None and (value, key) not in self._folded:
                self._merge_keys(found, chain.conversion_to(position, below))
        elif constant is not None:
            found = self._constant(constant, chain, position, below, user)
        else:
            found = self._converted(new, chain, start, position, user, index)
        self._at[value, key] = found
        return found

    def _converted(
        self, new: SSAValue, chain: Chain, start: int, end: int, user: Operation, index: int
    ) -> SSAValue:
        """The conversions from one position of a value, where it is `new`, to another; or from a
        position in between that other uses need, if that is cheaper."""
        below = self.placement.chains.below_use(user, index)
        costs = self.placement.costs.chain(chain, below)
        cost, nearest, read = costs.cost(start, end), start, self._reads[chain.value]
        for k in range(end - 1, start, -1):
            # On a tie from where it is made; nor does it matter which use comes first.
            if position_of(k, below) in read and costs.cost(k, end) < cost:
                cost, nearest = costs.cost(k, end), k
        if nearest != start:
            new = self._at_position(chain.value, nearest, user, index)
        #: what nothing in place of conversions changes, which the next one, or the user, counts
        pending = [*self._folded.get((chain.value, position_of(nearest, below)), ())]
        before = _in_block_of(chain.value, user)
        for edge in costs.path(nearest, end):
            if 0 < edge.end <= chain.computed(below):
                new = self._at_position(chain.value, edge.end, user, index)
                continue
            kind = self._kind(chain, edge.end, below)
            folded = edge.end - edge.start > 1
            if edge.is_identity:
                pending += [Folded(new, edge.contract)] if folded else []
                continue
            last = chain.conversion_to(costs.stands_for(edge.start, edge.end, edge.rounding), below)
            made = self._made.get((new, kind, edge.rounding))
            if made is None:
                source = chain.encoding(edge.start, below)
                conversion = convert(new, source, kind, edge.rounding)
                self._rewriter.insert(conversion, before, keep=last.origin)
                self.moved.append(conversion)
                made = self._made[new, kind, edge.rounding] = conversion.result
            else:
                self._merge_keys(made, last)
            assert isinstance(made.owner, Operation)
            self._count(made.owner, pending)
            pending.clear()
            if folded:
                self.absorbed.append(Absorbed(made.owner, "fold", edge.contract))
            new = made
            self._at[chain.value, position_of(edge.end, below)] = new
        if pending:
            self._folded[chain.value, position_of(end, below)] = pending
        return new

    def _merge_keys(self, made: SSAValue, conversion: ChainConversion) -> None:
        """`made` stands for the result of another conversion of the module, too."""
        assert isinstance(made.owner, Operation)
        if made.owner is not conversion.origin:
            merge_keys(made.owner, [conversion.origin], self.session.components)

    def _count(self, user: Operation, folded: Iterable[Folded]) -> None:
        """`user` reads a value that stands for another one."""
        self.absorbed += [Absorbed(user, "fold", contract, value) for value, contract in folded]

    def _kind(self, chain: Chain, position: int, below: Sequence[ChainConversion]) -> Attribute:
        return with_encoding(chain.value, chain.encoding(position, below))

    def _counterpart(self, op: Operation, constant: Counterpart) -> SSAValue:
        old = constant_of(op.operands[constant.index])
        new = make_constant(constant.codes, UniformType(constant.params), self.session.blobs)
        self._rewriter.insert(new, op, keep=old)
        return new.result

    def _constant(
        self,
        constant: ConstantOp,
        chain: Chain,
        position: int,
        below: Sequence[ChainConversion],
        user: Operation,
    ) -> SSAValue:
        from qdialect.algebra.quantize import quantize_floats, rescale_codes

        codes = constant_array(constant, self.session.blobs)
        source = chain.now
        for step in below[:position]:
            target = step.encoding
            assert not isinstance(target, Floats), "no constant becomes floats"
            if isinstance(source, Floats):
                codes = quantize_floats(codes, target, step.rounding)
            else:
                defined = arithmetic_of(user)
                codes = rescale_codes(codes, source, target, step.rounding, defined)
            source = target
        assert not isinstance(source, Floats)
        key = {KEY: constant.attributes[KEY]} if KEY in constant.attributes else None
        new = make_constant(codes, UniformType(source), self.session.blobs, key)
        self._rewriter.insert(new, _in_block_of(chain.value, user), keep=constant)
        return new.result


def _coarsening(node: CommutingOp, state: int) -> float:
    """How many steps of the results in `state` one step in a state up to 0 is at most."""
    between = (q for k in range(state + 1, 1) for q in node.states[k].results)
    later = (q.scale_list() for q in between if not isinstance(q, Floats))
    here = (q.scale_list() for q in node.states[state].results if not isinstance(q, Floats))
    return max(map(max, later), default=1.0) / min(map(min, here), default=1.0)


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

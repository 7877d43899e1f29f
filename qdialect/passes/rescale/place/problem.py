"""The placement problem of a module: variables, the costs of their states, and of pairs.

Every commuting op and every conversion that may move is a variable over its states (see `chains`);
so is every requantizing result that could take the qparams of a rescale below it, and
every requantizing operand that could take those of a rescale above it, as far as the
level of numerics allows: such a port absorbs rescales at no cost.  A value that is used at
another position of its chain than it is made at needs rescales there, each as many elements
times the target's price; uses at the same position share them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

from xdsl.ir import Operation, SSAValue

from qdialect.algebra.contract import Numerics
from qdialect.algebra.rounding import Rounding
from qdialect.analysis.codes import qparams_of
from qdialect.analysis.ranges import narrowed_qparams
from qdialect.ir.context import QContext
from qdialect.ir.ops import constant_of
from qdialect.passes.rescale.place.boundary import Boundary
from qdialect.passes.rescale.place.calls import FunctionPort, Runs, block_of, function_ports
from qdialect.passes.rescale.place.chains import (
    ChainConversion,
    Chains,
    CommutingOp,
)
from qdialect.passes.rescale.place.conversions import Encoding, conversion_of, encoding_of
from qdialect.passes.rescale.place.costs import (
    CLASS,
    MOVE,
    Chain,
    Costs,
    Position,
    position_of,
)
from qdialect.passes.rescale.place.ports import Absorptions, Ports, absorption_costs
from qdialect.placement import INFINITE, Problem, Table

OperandIndex = tuple[Operation, int]
Variable = Operation | OperandIndex | FunctionPort


class ChainUse(NamedTuple):
    """A use of a value, or what makes it: the variable of its state (None if fixed), and the
    positions of the value that its states stand for.

    A rescale in state 0 uses its operand at position 1.  `below` are the rescales to the
    positions above 0 (they differ between uses; those to the positions below 0 do not).
    """

    variable: int | None
    lowest: int
    highest: int
    now: int
    below: tuple[ChainConversion, ...]

    @property
    def positions(self) -> range:
        """All positions, from the lowest."""
        return range(self.lowest, self.highest + 1)


class _Way(NamedTuple):
    """The conversions from one position of a value to another: what they cost with what folding
    changes, and of each in turn what it makes, by number, and its cost."""

    cost: int
    kinds: list[int]
    costs: list[int]


#: of what stays as it is
_FIXED = ChainUse(None, 0, 0, 0, ())

#: positions of one value that are told apart; with more of them costs are only estimated
_POSITIONS = 7


class PlacementProblem:
    """The problem of the ops of a module, in program order, and which variable stands for what."""

    def __init__(
        self,
        session: QContext,
        level: Numerics,
        accuracy: float,
        costs: Costs,
        boundary: Boundary,
        ops: Sequence[Operation],
    ) -> None:
        self.session = session
        #: what a bit lost by regridding costs per element, in prices of a rescale
        self.accuracy = accuracy
        self.ops = ops
        self.problem = Problem()
        #: variable and its lowest state, by op (commuting, rescale, or one whose result absorbs)
        #: or by operand (that absorbs)
        self.variables: dict[Variable, tuple[int, int]] = {}
        #: what called functions take and give, by use and by value
        self.runs = Runs(ops)
        self.ports = function_ports(self.runs, public=boundary.changes_public)
        self.port_of: dict[OperandIndex | SSAValue, FunctionPort] = {}
        for port in self.ports:
            self.port_of.update(dict.fromkeys((*port.uses, *port.values), port))
        self.chains = Chains(session, level, ops, costs.keys, self.ports)
        self.costs = costs
        self._ports = Ports(session, level, costs)
        self.up: dict[Operation, Absorptions] = {}
        self.down: dict[OperandIndex, Absorptions] = {}
        #: values whose costs are only known from above: no bound is proved then
        self.estimated: set[SSAValue] = set()
        self._auxiliary: dict[int, int] = {}
        self._chain_of: dict[SSAValue, Chain] = {}
        self._boundary = boundary
        #: the values whose costs may depend on a variable
        self._near: set[SSAValue] = set()
        for op in ops:
            self._declare(op)
        for port in self.ports:
            self._declare_port(port)
        for value in _values(ops):
            if value in self._near:
                self._connect(value)

    def repeats(self, op: Operation) -> int:
        """How often more than the value that it converts a conversion runs: it need not."""
        return max(self.runs.of(op.parent) - self.runs.of(block_of(op.operands[0])), 0)

    @cached_property
    def repeated(self) -> int:
        """What conversions cost beyond `start` because they stand in loops."""
        cost = 0
        for op in filter(None, map(conversion_of, self.ops)):
            a, b = encoding_of(op.input), encoding_of(op.result)
            if a is not None and b is not None and (runs := self.repeats(op)):
                cost += self.costs.conversion(a, b, self.chain(op.input).elements, runs)
        return cost

    @cached_property
    def start(self) -> list[int]:
        """The states as the module has them."""
        start = [0] * len(self.problem.unary)
        for variable, lowest in self.variables.values():
            start[variable] = -lowest
        for variable, state in self._auxiliary.items():
            start[variable] = state
        return start

    def chain(self, value: SSAValue) -> Chain:
        """The chain of `value`, which is codes or floats."""
        if value not in self._chain_of:
            encoding = encoding_of(value)
            assert encoding is not None
            narrowed = narrowed_qparams(value, self.session) or encoding
            above = self.chains.above.get(value, ())
            runs = self.runs.of(block_of(value))
            self._chain_of[value] = Chain(value, encoding, narrowed, above, runs)
        return self._chain_of[value]

    # -- variables --------------------------------------------------------------------

    def _declare(self, op: Operation) -> None:
        chains = self.chains
        rescale, node = conversion_of(op), chains.commuting.get(op)
        if rescale is not None:
            above = len(chains.above.get(rescale.result, ()))
            below = len(chains.below_use(op, 0)) - 1
            self._variable(op, -above, [MOVE * abs(s) for s in range(-above, below + 1)])
            self._near.update((rescale.input, rescale.result))
            return
        if node is not None:
            self._variable(op, node.lowest, self._state_costs(node))
            self._near.update(op.operands)
            self._near.update(op.results)
            return
        self._declare_result(op)
        for index, operand in enumerate(op.operands):
            if operand in chains.above or (op, index) in chains.regridded:
                self._declare_operand(op, index)

    def _declare_port(self, port: FunctionPort) -> None:
        value, (user, index) = port.values[0], port.uses[0]
        above, below = self.chains.above.get(value, ()), self.chains.below_use(user, index)
        now = encoding_of(value)
        assert now is not None
        encodings = [*(c.encoding for c in reversed(above)), now, *(c.encoding for c in below)]
        states = zip(range(-len(above), len(below) + 1), encodings, strict=True)
        costs = [MOVE * abs(k) + self._boundary.port_cost(now, e) for k, e in states]
        self._variable(port, -len(above), costs)
        self._near.update(port.values)
        self._near.update(user.operands[index] for user, index in port.uses)

    def _state_costs(self, node: CommutingOp) -> list[int]:
        """A move for each conversion that passes, the class of what that changes, and what the
        encodings cost there."""
        costs: list[int] = []
        encodings = self._boundary.costs(node, self.runs.of(node.op.parent))
        for number in range(node.lowest, node.highest + 1):
            state = node.states[number]
            cost = MOVE * abs(number) + CLASS * int(state.contract.level)
            cost += encodings.get(number, 0)
            costs.append(cost if state.legal else INFINITE)
        return costs

    def _variable(
        self, key: Operation | OperandIndex | FunctionPort, lowest: int, costs: list[int]
    ) -> None:
        if len(costs) > 1:
            self.variables[key] = self.problem.variable(costs), lowest

    def _declare_result(self, op: Operation) -> None:
        below = self.chains.below.get(op.results[0]) if len(op.results) == 1 else None
        if not below:
            return
        result = op.results[0]
        if qparams_of(result) is None or constant_of(result) is not None:
            return  # each use of a constant has its own
        self.up[op] = self._ports.up(op, self.chain(result), below)
        self._variable(op, 0, absorption_costs(self.up[op]))
        self._near.add(result)

    def _declare_operand(self, op: Operation, index: int) -> None:
        value = op.operands[index]
        qparams = qparams_of(value)
        if qparams is None:
            return
        chain = self.chain(value)
        found = self.down[op, index] = self._ports.down(op, index, chain)
        costs = absorption_costs(found)[::-1]
        if (op, index) in self.chains.regridded:
            below = self.chains.below_use(op, index)
            count = self._ports.regridded(op, index, qparams, below)
            costs += [
                self.costs.accuracy(chain, k, below, self.accuracy) for k in range(1, count + 1)
            ]
        self._variable((op, index), 1 - len(found), costs)
        self._near.add(value)

    # -- costs ------------------------------------------------------------------------

    def _connect(self, value: SSAValue) -> None:
        """Add what the positions of a value and of its uses cost together."""
        encoding = encoding_of(value)
        if encoding is None:
            return
        uses, producer = self._uses(value), self._producer(value)
        if all(each.variable is None for each in (producer, *uses)):
            return
        chain = self.chain(value)
        if constant_of(value) is not None:
            uses = [use for use in uses if use.highest > chain.computed(use.below)]
            if not uses:
                return
        for group in [uses] if producer.lowest < 0 else self._groups(chain, uses):
            self._connect_with(chain, producer, group)

    def _connect_with(self, chain: Chain, producer: ChainUse, uses: list[ChainUse]) -> None:
        """Add what a value and `uses` of it that may share rescales cost together."""
        costs = [self.costs.chain(chain, use.below) for use in uses]
        if len(uses) == 1:
            self._add(producer, uses[0], costs[0].table(producer.positions, uses[0].positions))
            return
        for use in uses:
            self._order(producer, use)
        pairs = zip(costs, uses, strict=True)
        if all(cost.adds_up(producer.lowest, use.highest) for cost, use in pairs):
            self._connect_by_edges(chain, producer, uses)
        else:
            self._connect_by_positions(chain, producer, uses)

    def _producer(self, value: SSAValue) -> ChainUse:
        owner, port = value.owner, self.port_of.get(value)
        key = port or (owner if isinstance(owner, Operation) else None)
        known = None if key is None else self.variables.get(key)
        if known is None:
            return _FIXED
        variable, lowest = known
        return ChainUse(variable, lowest, lowest + len(self.problem.unary[variable]) - 1, 0, ())

    def _uses(self, value: SSAValue) -> list[ChainUse]:
        found: dict[int | None, ChainUse] = {}
        for use in value.uses:
            op, index = use.operation, use.index
            shift = 1 if conversion_of(op) else 0
            known = self.variables.get(op) if shift or op in self.chains.commuting else None
            known = known or self.variables.get(self.port_of.get((op, index)) or (op, index))
            if known is None:
                found[None] = _FIXED
                continue
            variable, lowest = known
            highest = lowest + len(self.problem.unary[variable]) - 1
            below = tuple(self.chains.below_use(op, index))
            found[variable] = ChainUse(variable, lowest + shift, highest + shift, shift, below)
        return list(found.values())

    def _order(self, producer: ChainUse, use: ChainUse) -> None:
        """Forbid uses below the position at which the value is made."""
        self._pair(producer, use, lambda i, j: INFINITE * max(i - j, 0))

    def _pair(self, a: ChainUse, b: ChainUse, cost: Callable[[int, int], int]) -> None:
        """Add `cost(position of a, position of b)`, where either may be fixed."""
        rows = [[cost(i, j) for j in b.positions] for i in a.positions]
        if any(any(row) for row in rows):
            self._add(a, b, rows)

    def _add(self, a: ChainUse, b: ChainUse, rows: Table) -> None:
        """Add a table by position of a and of b, which is left as it is."""
        if a.variable is not None and b.variable is not None:
            self.problem.add(a.variable, b.variable, rows)
        elif a.variable is not None:
            _add(self.problem.unary[a.variable], [row[0] for row in rows])
        elif b.variable is not None:
            _add(self.problem.unary[b.variable], rows[0])

    def _helper(self, states: int, start: int) -> ChainUse:
        variable = self.problem.variable([0] * states)
        self._auxiliary[variable] = start
        return ChainUse(variable, 0, states - 1, start, ())

    def _connect_by_edges(self, chain: Chain, producer: ChainUse, uses: list[ChainUse]) -> None:
        """Every edge costs its price if any use is past it and the producer is not."""
        crossing: dict[Position, list[ChainUse]] = {}
        for use in uses:
            for k in range(producer.lowest, use.highest):
                crossing.setdefault(position_of(k + 1, use.below), []).append(use)
        for (end, _), users in crossing.items():
            k = end - 1
            price = self.costs.chain(chain, users[0].below).edge(k, end)

            def pays(i: int, j: int, k: int = k, price: int = price) -> int:
                return price if i <= k < j else 0

            always = [use for use in users if use.variable is None or use.lowest > k]
            if always or len(users) == 1:
                self._pair(producer, (always or users)[0], pays)
                continue
            past = self._helper(2, int(any(use.now > k for use in users)))
            self._pair(producer, past, lambda i, z, pays=pays, k=k: pays(i, k + z))
            for use in users:
                self._pair(past, use, lambda z, j, k=k: INFINITE if j > k and not z else 0)

    def _connect_by_positions(self, chain: Chain, producer: ChainUse, uses: list[ChainUse]) -> None:
        """Several edges may fold into one or none: price each set of positions used."""
        used = {position_of(j, use.below): use.below for use in uses for j in use.positions}
        if len(used) > _POSITIONS:
            self.estimated.add(chain.value)
            self._connect_by_edges(chain, producer, uses)
            return
        number = {position: n for n, position in enumerate(used)}
        now = {number[position_of(use.now, use.below)] for use in uses}
        subset = self._helper(1 << len(used), sum(1 << n for n in now))
        self._pair(producer, subset, self._price_of_sets(chain, used))
        for use in uses:
            bit = {j: number[position_of(j, use.below)] for j in use.positions}
            self._pair(subset, use, lambda s, j, bit=bit: 0 if s >> bit[j] & 1 else INFINITE)

    def _price_of_sets(
        self, chain: Chain, used: dict[Position, tuple[ChainConversion, ...]]
    ) -> Callable[[int, int], int]:
        """The least cost of making a set of positions `used` (bits) from one of the producer."""
        positions = sorted(used, key=lambda position: position[0])
        number = {position: n for n, position in enumerate(used)}
        bits = [1 << number[position] for position in positions]
        #: by position, those on the way to it, the nearest first
        on_the_way = [
            [m for m in range(n)[::-1] if keys[: len(positions[m][1])] == positions[m][1]]
            for n, (_, keys) in enumerate(positions)
        ]
        found: dict[tuple[int, int], _Way] = {}
        kinds: dict[tuple[Encoding, Rounding], int] = {}

        def way(start: int, n: int) -> _Way:
            if (start, n) not in found:
                below = used[positions[n]]
                costs, end = self.costs.chain(chain, below), positions[n][0]
                edges = costs.path(start, end)
                made = [edge for edge in edges if not edge.is_identity]
                ends = [(chain.encoding(edge.end, below), edge.rounding) for edge in made]
                found[start, n] = _Way(
                    costs.cost(start, end),
                    [kinds.setdefault(kind, len(kinds)) for kind in ends],
                    [costs.edge(edge.start, edge.end) for edge in made],
                )
            return found[start, n]

        def price(i: int, subset: int) -> int:
            """From the position i of the producer, or from a position that is made anyway. Two
            conversions of one value to one type are one."""
            total = 0
            made: set[tuple[int, ...]] = set()
            values: dict[int, tuple[int, ...]] = {}
            for n, (k, _) in enumerate(positions):
                # What is not above the producer is there, or forbidden elsewhere.
                if not subset & bits[n] or k <= i:
                    continue
                best, value = way(i, n), ()
                for m in on_the_way[n]:
                    if m in values and way(positions[m][0], n).cost < best.cost:
                        best, value = way(positions[m][0], n), values[m]
                total += best.cost
                for kind, cost in zip(best.kinds, best.costs, strict=True):
                    value = (*value, kind)
                    if value in made:
                        total -= cost
                    made.add(value)
                values[n] = value
            return total

        return price

    def _groups(self, chain: Chain, uses: list[ChainUse]) -> list[list[ChainUse]]:
        """Uses of a value at position 0 that share no conversion: they start with other ones, and
        none becomes the first one of another by a fold."""
        if len(uses) == 1:
            return [uses]
        groups: dict[int | None, list[ChainUse]] = {}
        for use in uses:
            groups.setdefault(use.below[0].key if use.below else None, []).append(use)
        if len(groups) == 1:
            return [uses]
        together: list[tuple[set[tuple[Encoding, Rounding]], list[ChainUse]]] = []
        for group in groups.values():
            starts = {start for use in group for start in self._starts(chain, use)}
            alike = [each for each in together if each[0] & starts]
            together = [each for each in together if not each[0] & starts]
            for others, members in alike:
                starts |= others
                group = members + group
            together.append((starts, group))
        found: list[list[ChainUse]] = []
        for _, group in together:
            if (
                len({position_of(j, use.below) for use in group for j in use.positions})
                > _POSITIONS
            ):
                # What they share is not seen.
                self.estimated.add(chain.value)
                keys = dict.fromkeys(use.below[0].key if use.below else None for use in group)
                found += [groups[key] for key in keys]
            else:
                found.append(group)
        return found

    def _starts(self, chain: Chain, use: ChainUse) -> set[tuple[Encoding, Rounding]]:
        """What one conversion of a value at position 0 may make for a use."""
        if not use.below:
            return set()
        costs = self.costs.chain(chain, use.below)
        ends = [end for end in range(1, use.highest + 1) if costs.fold(0, end) is not None]
        return {(chain.encoding(end, use.below), costs.rounding(0, end)) for end in ends}


def _values(ops: Iterable[Operation]) -> Iterator[SSAValue]:
    """The results of `ops`, in that order, and the arguments of blocks in them."""
    for op in ops:
        yield from op.results
        for region in op.regions:
            for block in region.blocks:
                yield from block.args


def _add(costs: list[int], extra: Sequence[int]) -> None:
    for n, cost in enumerate(extra):
        costs[n] += cost

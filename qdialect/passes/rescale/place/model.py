"""The placement problem of ops: variables, what their states cost, what goes together.

Every commuting op and every movable rescale is a variable over its states (see `states`);
so is every requantizing result that could take the qparams of a rescale below it, and
every requantizing operand that could take those of a rescale above it, as far as the
level of numerics allows: such a port absorbs a rescale at no cost.  A value used in
another state than it is made in needs rescales, each as many elements times the target's
price; uses in the same state share them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cached_property

from xdsl.ir import Operation, SSAValue

from qdialect.analysis.codes import qparams_of
from qdialect.analysis.ranges import narrowed_qparams
from qdialect.numerics import requantize as exact
from qdialect.ops import constant_of
from qdialect.passes.rescale.place.ports import Absorptions, Ports, absorption_costs
from qdialect.passes.rescale.place.prices import CLASS, MOVE, Ladder, Prices, Rung, Use
from qdialect.passes.rescale.place.states import States
from qdialect.passes.rescale.place.steps import Commuting, Step, movable
from qdialect.placement import INFINITE, Problem, Table
from qdialect.qparams import QParams
from qdialect.quant import RescaleOp

Place = tuple[Operation, int]

#: what stays as it is
_FIXED = Use(None, 0, 0, 0, ())

#: states of one value that can be told apart before costs are only estimated
_TARGETS = 7


class Model:
    """The problem of `values` and the `ops` around them, in program order, and which variable
    stands for what.

    The values must be those of whole components: where an op has several states, all that it
    ties is among them.  The ops must be all that a solution may change.
    """

    def __init__(
        self,
        states: States,
        prices: Prices,
        accuracy: float,
        ops: Sequence[Operation],
        values: Collection[SSAValue],
    ) -> None:
        self.session = states.session
        self.level = states.level
        #: what a bit lost by regridding costs per element, in prices of a rescale
        self.accuracy = accuracy
        self.ops = ops
        self.problem = Problem()
        #: variable and its lowest state, by op (commuting, rescale, source) or use (sink)
        self.variables: dict[Operation | Place, tuple[int, int]] = {}
        #: by value whose states cost something, the variables these hang on
        self._tied: dict[SSAValue, list[int]] = {}
        self.prices = prices
        self.states = states
        self.ports = Ports(self.session, self.level, prices)
        self.up: dict[Operation, Absorptions] = {}
        self.down: dict[Place, Absorptions] = {}
        #: values for which costs are only known from above: no bound is proved then
        self.estimated: list[SSAValue] = []
        #: constants: their rescales cost nothing
        self.free: set[SSAValue] = set()
        self.values = values
        self._auxiliary: dict[int, int] = {}
        self._ladders: dict[SSAValue, Ladder] = {}
        #: the values that a variable may hang on
        self._near: set[SSAValue] = set()
        for op in ops:
            self._declare(op)
        for value in values:
            if value in self._near:
                self._connect(value)

    @property
    def folds(self) -> bool:
        """Whether a rescale of a constant stands there to be computed."""
        return any(movable(use.operation) for value in self.free for use in value.uses)

    @cached_property
    def start(self) -> list[int]:
        """The states as the module has them."""
        start = [0] * len(self.problem.unary)
        for variable, lowest in self.variables.values():
            start[variable] = -lowest
        for variable, state in self._auxiliary.items():
            start[variable] = state
        return start

    @cached_property
    def start_cost(self) -> int:
        """What they cost."""
        return self.problem.cost(self.start)

    def variables_on(self) -> Iterator[tuple[SSAValue, int]]:
        """Every value with the variables that hang on its states."""
        for value, variables in self._tied.items():
            yield from ((value, variable) for variable in variables)
        for what, (variable, _) in self.variables.items():
            value = what.results[0] if isinstance(what, Operation) else what[0].operands[what[1]]
            yield value, variable

    # -- variables --------------------------------------------------------------------

    def rescale(self, op: Operation) -> RescaleOp | None:
        """`op` if it is a rescale of the problem."""
        rescale = movable(op)
        return rescale if rescale is not None and rescale.result in self.values else None

    def commuting(self, op: Operation) -> Commuting | None:
        """`op` if it is a commuting op of the problem."""
        node = self.states.commuting.get(op)
        return node if node is not None and op.results[0] in self.values else None

    def _declare(self, op: Operation) -> None:
        rescale = self.rescale(op)
        if rescale is not None:
            above = len(self.states.above.get(rescale.result, ()))
            below = len(self.states.use_below(op, 0)) - 1
            self._variable(op, -above, [MOVE * abs(s) for s in range(-above, below + 1)])
            self._near.update((rescale.input, rescale.result))
            return
        node = self.commuting(op)
        if node is not None:
            states = range(node.lowest, node.highest + 1)
            costs = [
                MOVE * abs(s) + CLASS * int(node.labels[s].contract.level)
                if node.labels[s].legal
                else INFINITE
                for s in states
            ]
            self._variable(op, node.lowest, costs)
            self._near.update(op.operands)
            self._near.update(op.results)
            return
        self._declare_source(op)
        above, regridded = self.states.above, self.states.regridded
        for index, operand in enumerate(op.operands):
            if operand in self.values and (operand in above or (op, index) in regridded):
                self._declare_sink(op, index)

    def _variable(self, what: Operation | Place, lowest: int, costs: list[int]) -> None:
        if len(costs) > 1:
            self.variables[what] = self.problem.variable(costs), lowest

    def _declare_source(self, op: Operation) -> None:
        if len(op.results) != 1:
            return
        result = op.results[0]
        if result not in self.states.below or result not in self.values:
            return
        qparams = qparams_of(result)
        if qparams is None or constant_of(result) is not None:
            return  # each use of a constant has its own
        ladder = self.ladder(result, qparams)
        self.up[op] = self.ports.up(op, ladder, self.states.below[result])
        self._variable(op, 0, absorption_costs(self.up[op], INFINITE))
        self._near.add(result)

    def _declare_sink(self, op: Operation, index: int) -> None:
        value = op.operands[index]
        qparams = qparams_of(value)
        if qparams is None:
            return
        ladder = self.ladder(value, qparams)
        found = self.ports.down(op, index, ladder)
        self.down[op, index] = found
        costs = absorption_costs(found, INFINITE)[::-1]
        if (op, index) in self.states.regridded:
            steps = self.states.use_below(op, index)
            count = self.ports.regridded(op, index, qparams, steps)
            costs += [
                self.prices.accuracy(ladder, k, steps, self.accuracy) for k in range(1, count + 1)
            ]
        self._variable((op, index), 1 - len(found), costs)
        self._near.add(value)

    # -- costs ------------------------------------------------------------------------

    def _connect(self, value: SSAValue) -> None:
        """What the states of a value and of its uses cost together."""
        qparams = qparams_of(value)
        if qparams is None:
            return
        if self._is_free(value, qparams):
            self.free.add(value)
            return
        uses, maker = self._uses(value), self.maker(value)
        on = [each.variable for each in (maker, *uses) if each.variable is not None]
        if not on:
            return
        self._tied[value] = on
        ladder = self.ladder(value, qparams)
        for group in [uses] if maker.lowest < 0 else _apart(uses):
            self._connect_with(ladder, maker, group)

    def _connect_with(self, ladder: Ladder, maker: Use, uses: list[Use]) -> None:
        """What the states of a value and of `uses` that may share rescales cost together."""
        windows = [self.prices.window(ladder, use.steps) for use in uses]
        if len(uses) == 1:
            self._add(maker, uses[0], windows[0].table(maker, uses[0]))
            return
        for use in uses:
            self._order(maker, use)
        pairs = zip(windows, uses, strict=True)
        if all(window.adds_up(maker.lowest, use.highest) for window, use in pairs):
            self._connect_by_steps(ladder, maker, uses)
        else:
            self._connect_by_targets(ladder, maker, uses)

    def _is_free(self, value: SSAValue, qparams: QParams) -> bool:
        """Whether every rescale of `value` is a constant that can be computed."""
        if constant_of(value) is None:
            return False
        for use in value.uses:
            before = qparams
            for step in self.states.use_below(use.operation, use.index):
                if exact.unique_pairs(before, step.qparams) is None:
                    return False
                before = step.qparams
        return True

    def ladder(self, value: SSAValue, qparams: QParams) -> Ladder:
        """The states of `value`, whose qparams now are `qparams`."""
        if value not in self._ladders:
            seen = narrowed_qparams(value, self.session) or qparams
            self._ladders[value] = Ladder(value, qparams, seen, self.states.above.get(value, ()))
        return self._ladders[value]

    def maker(self, value: SSAValue) -> Use:
        """The op that makes `value`, seen as the use that is made of it first."""
        owner = value.owner
        known = self.variables.get(owner) if isinstance(owner, Operation) else None
        if known is None:
            return _FIXED
        variable, lowest = known
        return Use(variable, lowest, lowest + len(self.problem.unary[variable]) - 1, 0, ())

    def _uses(self, value: SSAValue) -> list[Use]:
        found: dict[int | None, Use] = {}
        for use in value.uses:
            op, index = use.operation, use.index
            shift = 1 if movable(op) else 0
            known = self.variables.get(op) if shift or op in self.states.commuting else None
            known = known or self.variables.get((op, index))
            if known is None:
                found[None] = _FIXED
                continue
            variable, lowest = known
            highest = lowest + len(self.problem.unary[variable]) - 1
            steps = tuple(self.states.use_below(op, index))
            found[variable] = Use(variable, lowest + shift, highest + shift, shift, steps)
        return list(found.values())

    def _order(self, maker: Use, use: Use) -> None:
        """What has been applied cannot be taken back: the use is at least where it is made."""
        self._pair(maker, use, lambda i, j: INFINITE * max(i - j, 0))

    def _pair(self, a: Use, b: Use, cost: Callable[[int, int], int]) -> None:
        """Add `cost(state of a, state of b)`, where either may be fixed."""
        rows = [
            [cost(i, j) for j in range(b.lowest, b.highest + 1)]
            for i in range(a.lowest, a.highest + 1)
        ]
        if any(any(row) for row in rows):
            self._add(a, b, rows)

    def _add(self, a: Use, b: Use, rows: Table) -> None:
        """Add a table by state of a and of b; whoever gave it may keep it."""
        if a.variable is not None and b.variable is not None:
            self.problem.add(a.variable, b.variable, rows)
        elif a.variable is not None:
            _add(self.problem.unary[a.variable], [row[0] for row in rows])
        elif b.variable is not None:
            _add(self.problem.unary[b.variable], rows[0])

    def _helper(self, states: int, start: int) -> Use:
        """A variable that several uses share."""
        variable = self.problem.variable([0] * states)
        self._auxiliary[variable] = start
        return Use(variable, 0, states - 1, start, ())

    def _connect_by_steps(self, ladder: Ladder, maker: Use, uses: list[Use]) -> None:
        """Every step costs its price if any use is past it and the maker is not."""
        crossing: dict[Rung, list[Use]] = {}
        for use in uses:
            for k in range(maker.lowest, use.highest):
                crossing.setdefault(ladder.rung(k, use.steps), []).append(use)
        for (k, _), users in crossing.items():
            price = self.prices.window(ladder, users[0].steps).link(k, k + 1)

            def pays(i: int, j: int, k: int = k, price: int = price) -> int:
                return price if i <= k < j else 0

            always = [use for use in users if use.variable is None or use.lowest > k]
            if always or len(users) == 1:
                self._pair(maker, (always or users)[0], pays)
                continue
            past = self._helper(2, int(any(use.now > k for use in users)))
            self._pair(maker, past, lambda i, z, pays=pays, k=k: pays(i, k + z))
            for use in users:
                self._pair(past, use, lambda z, j, k=k: INFINITE if j > k and not z else 0)

    def _connect_by_targets(self, ladder: Ladder, maker: Use, uses: list[Use]) -> None:
        """Several steps may fold into one or none: price each set of states used."""
        targets = {
            ladder.rung(j - 1, use.steps): use.steps
            for use in uses
            for j in range(use.lowest, use.highest + 1)
        }
        if len(targets) > _TARGETS:
            self.estimated.append(ladder.value)
            self._connect_by_steps(ladder, maker, uses)
            return
        number = {rung: n for n, rung in enumerate(targets)}
        price = self._price(ladder, targets)

        now = {number[ladder.rung(use.now - 1, use.steps)] for use in uses}
        taken = self._helper(1 << len(targets), sum(1 << n for n in now))
        self._pair(maker, taken, price)
        for use in uses:
            bit = {j: number[ladder.rung(j - 1, use.steps)] for j in _range(use)}
            self._pair(taken, use, lambda t, j, bit=bit: 0 if t >> bit[j] & 1 else INFINITE)

    def _price(
        self, ladder: Ladder, targets: dict[Rung, tuple[Step, ...]]
    ) -> Callable[[int, int], int]:
        """Least cost of a set of `targets` (bits) that are made from a state of the value."""
        rungs = list(targets)
        on_the_way = [
            [m for m, (k, path) in enumerate(rungs) if k < end and path == whole[: len(path)]]
            for end, whole in rungs
        ]
        known: dict[tuple[int, int], int] = {}

        def chain(start: int, n: int) -> int:
            if (start, n) not in known:
                window = self.prices.window(ladder, targets[rungs[n]])
                known[start, n] = window.chain(start, rungs[n][0] + 1)[0]
            return known[start, n]

        def price(i: int, mask: int) -> int:
            """From the state i of the maker, or from a state that is there anyway."""
            total = 0
            for n, (k, _) in enumerate(rungs):
                # What is not above the maker is there, or forbidden elsewhere.
                if mask >> n & 1 and k + 1 > i:
                    near = (rungs[m][0] + 1 for m in on_the_way[n] if mask >> m & 1)
                    starts = [i, *(start for start in near if start >= i)]
                    total += min(chain(start, n) for start in starts)
            return total

        return price


def _apart(uses: list[Use]) -> list[list[Use]]:
    """Uses that start with different rescales of a value have none in common."""
    if len(uses) == 1:
        return [uses]
    groups: dict[int | None, list[Use]] = {}
    for use in uses:
        groups.setdefault(use.steps[0].key if use.steps else None, []).append(use)
    return list(groups.values())


def _range(use: Use) -> range:
    return range(use.lowest, use.highest + 1)


def _add(costs: list[int], extra: Sequence[int]) -> None:
    for n, cost in enumerate(extra):
        costs[n] += cost

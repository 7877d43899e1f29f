"""Which ops of a float function are quantized so that all of it is fastest.

Each op has a state for each way it can compute in (`Precision`), each with a price; a value that
is made in one format and used in another is converted, once. The states of least total price are
found by the solver that places rescales (`placement.formats`), with a lower bound.

Prices are nanoseconds of a run of the whole model in which all ops that can be are in one state
(`Times`). The runtime executes several ops as one: an op without a time of its own costs nothing
beside the op that it is fused with, the nearest above that has one, and a pass over its
elements where that op is in another state.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from xdsl.dialects.builtin import TensorType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from qdialect.analysis.cost import elements
from qdialect.ir.behaviors.shapes import shape_of
from qdialect.ir.context import QContext
from qdialect.placement import INFINITE, Parts
from qdialect.placement.formats import Formats, State, Value
from qdialect.quantizer.recipe import Precision
from qdialect.quantizer.selection import concerns
from qdialect.quantizer.values import float_value, float_values

FORMATS = {
    Precision.FLOAT: 0,
    Precision.CODES: 1,
    Precision.DYNAMIC: 0,
    Precision.WEIGHTS: 0,
}
"""Whether what an op takes and gives in a state are floats (0) or codes (1)."""
CHANNELS_FIRST = 20
"""So many times as long ONNX Runtime's pools of bytes take where channels are first (17 to 33 were
measured)."""


@dataclass(frozen=True)
class Time:
    """What an op took in a run, in nanoseconds, whether it took and gave floats then, and whether
    its kernel was one for channels that are last."""

    nanoseconds: float
    takes_floats: bool = True
    gives_floats: bool = True
    channels_last: bool = False


@dataclass(frozen=True)
class Rate:
    """Nanoseconds of a pass over a tensor: to begin with, and for each element."""

    start: float
    element: float

    def __call__(self, count: int) -> float:
        """Of one over so many elements."""
        return self.start + self.element * count


@dataclass(frozen=True)
class Rates:
    """What a quantize, a dequantize and a change of the layout of an image cost."""

    quantize: Rate
    dequantize: Rate
    move: Rate


@dataclass(frozen=True)
class Times:
    """What was measured: for each state the times of ops by number, in a run of the whole model in
    which all ops that can be (`able`) are in that state, and of conversions. A state that is not
    there is that of no op."""

    ops: Mapping[Precision, Mapping[int, Time]]
    able: Mapping[Precision, Collection[int]]
    rates: Rates
    #: nanoseconds that an op takes more: numbers of the one above and of it, and their states
    beside: Mapping[tuple[int, int, Precision, Precision], float] = field(
        default_factory=dict["tuple[int, int, Precision, Precision]", float]
    )

    def total(self, state: Precision) -> float:
        """Nanoseconds of the ops of the run in a state."""
        return sum(time.nanoseconds for time in self.ops[state].values())


@dataclass(frozen=True)
class Plan:
    """The states of the ops, by number in the function; nanoseconds of the whole, and those that
    no plan can be below, by these prices."""

    states: Mapping[int, Precision]
    parts: Parts


@dataclass(frozen=True)
class Losses:
    """Noise over signal of an output that single roundings make; independent noises add.

    `ops` are by number of op and state: on codes with its weights in codes, and its result rounded
    to codes. `values` are of values of floats that are converted to codes.
    """

    ops: Mapping[tuple[int, Precision], float] = field(
        default_factory=dict["tuple[int, Precision]", float]
    )
    values: Mapping[SSAValue, float] = field(default_factory=dict[SSAValue, float])


def plan(
    function: FuncOp,
    ctx: QContext,
    times: Times,
    losses: Losses | None = None,
    weight: float = 0.0,
) -> Plan:
    """The states of the ops of a float function that are fastest, or of least

    nanoseconds + weight * (sum of losses of the ops that are not on floats, and of the values
                            that are converted to codes).
    """
    return _Statement(function, ctx, times, losses or Losses(), weight).solve()


def corrected(function: FuncOp, times: Times, planned: Plan, measured: Mapping[int, Time]) -> Times:
    """The times, with what was measured of a plan: an op may take longer beside one in another
    state (an image whose channels are not last), which only that shows. What an op was once
    slower than, it is; else a plan that was tried would look as good as one that was not."""
    ops = list(function.body.block.ops)
    places = {op: place for place, op in enumerate(ops)}
    known = {state: dict(each) for state, each in times.ops.items()}
    beside = dict(times.beside)
    for place, time in measured.items():
        state = planned.states.get(place, Precision.FLOAT)
        before = known[state].get(place)
        more = time.nanoseconds - (0.0 if before is None else before.nanoseconds)
        if before is None or more <= 0:
            continue
        others: list[tuple[int, int, Precision, Precision]] = []
        for value in filter(float_value, ops[place].operands):
            above = places.get(value.owner) if isinstance(value.owner, Operation) else None
            of_above = None if above is None else planned.states.get(above)
            if above is not None and of_above is not None and FORMATS[of_above] != FORMATS[state]:
                others.append((above, place, of_above, state))
        for key in others:
            beside[key] = max(beside.get(key, 0.0), more / len(others))
        if not others:
            known[state][place] = time
    return replace(times, ops=known, beside=beside)


@dataclass
class _Statement:
    function: FuncOp
    ctx: QContext
    times: Times
    losses: Losses
    weight: float
    problem: Formats = field(default_factory=Formats)
    places: dict[Operation, int] = field(default_factory=dict[Operation, int])
    numbers: dict[Operation, int] = field(default_factory=dict[Operation, int])
    states: list[list[Precision]] = field(default_factory=list[list[Precision]])
    _slower: dict[tuple[int, int], dict[tuple[Precision, Precision], int]] = field(
        default_factory=dict["tuple[int, int]", "dict[tuple[Precision, Precision], int]"]
    )

    def solve(self) -> Plan:
        ops = list(self.function.body.block.ops)
        self.places.update((op, place) for place, op in enumerate(ops))
        for (above, place, *states), more in self.times.beside.items():
            self._slower.setdefault((above, place), {})[states[0], states[1]] = round(more)
        for op in ops:
            if concerns(op):
                self._op(op)
        for op in self.numbers:
            self._fused(op)
            self._moved(op)
            self._turned(op)
            self._corrected(op)
        for value in float_values(self.function):
            self._value(value)
        start = [0] * len(self.numbers)
        found, parts = self.problem.solve(start)
        states = {self.places[op]: self.states[n][found[n]] for op, n in self.numbers.items()}
        return Plan(states, parts)

    def _op(self, op: Operation) -> None:
        self.numbers[op] = len(self.numbers)
        behavior, place = self.ctx.behaviors.get(op), self.places[op]
        product = behavior is not None and behavior.accumulator is not None
        states = [Precision.FLOAT]
        for state, able in self.times.able.items():
            # A product is never free: one without a time was not found among the nodes.
            if place in able and (place in self.times.ops[state] or not product):
                states.append(state)
        self.states.append(states)
        self.problem.ops.append([State(self._price(op, s), FORMATS[s]) for s in states])

    def _price(self, op: Operation, state: Precision) -> int:
        """What an op costs in a state; on codes, with the casts that it has there."""
        time, rates = self._time(op, state), self.times.rates
        price = self.weight * self.losses.ops.get((self.places[op], state), 0.0)
        if time is None:
            return round(price)
        price += time.nanoseconds
        if state is Precision.CODES:
            # Of equal prices floats are better.
            price += 1
            if time.takes_floats:
                price += sum(rates.dequantize(elements(v)) for v in op.operands if float_value(v))
            if time.gives_floats:
                price += sum(rates.quantize(elements(v)) for v in op.results if float_value(v))
        return round(price)

    def _time(self, op: Operation, state: Precision) -> Time | None:
        known = self.times.ops.get(state)
        return None if known is None else known.get(self.places[op])

    def _fused(self, op: Operation) -> None:
        """What an op costs that is executed with another, where the other is in another state."""
        for state in self.states[self.numbers[op]]:
            if self._time(op, state) is not None:
                continue
            anchor = self._executed_with(op, state)
            codes = self.times.able.get(Precision.CODES, ())
            if anchor is None or not {self.places[op], self.places[anchor]} <= set(codes):
                continue
            alone = round(self.times.rates.dequantize(sum(map(elements, op.results))))
            others = (other for other in Precision if other is not state)
            self._beside(anchor, op, {(other, state): alone for other in others})

    def _beside(
        self, above: Operation, op: Operation, costs: Mapping[tuple[Precision, Precision], int]
    ) -> None:
        m, n = self.numbers[above], self.numbers[op]
        table = [[costs.get((one, other), 0) for other in self.states[n]] for one in self.states[m]]
        self.problem.pairs.append((m, n, table))

    def _moved(self, op: Operation) -> None:
        """Casts are moved past an op that moves or picks the elements of one value, by us and by
        runtimes: it is on floats only between floats."""
        behavior = self.ctx.behaviors.get(op)
        if behavior is None or not behavior.commutes:
            return
        above = [v.owner for v in op.operands if float_value(v)]
        if len(above) != 1 or Precision.CODES not in self.states[self.numbers[op]]:
            return
        for near in (*above, *(use.operation for result in op.results for use in result.uses)):
            if isinstance(near, Operation) and near in self.numbers:
                self._beside(near, op, {(Precision.CODES, Precision.FLOAT): INFINITE})

    def _turned(self, op: Operation) -> None:
        """Channels are last behind a product on codes; where the nearest product above is on
        floats they are not, and the kernel for that is a slow one."""
        time, above = self._time(op, Precision.CODES), op
        if time is None or not time.channels_last:
            return
        behaviors = self.ctx.behaviors
        while (found := self._above(above)) is not None:
            above, behavior = found, behaviors.get(found)
            if behavior is not None and behavior.accumulator is not None:
                slow = round(CHANNELS_FIRST * time.nanoseconds)
                floats = (state for state, form in FORMATS.items() if not form)
                self._beside(above, op, {(state, Precision.CODES): slow for state in floats})
                return

    def _corrected(self, op: Operation) -> None:
        """What an op took longer beside another that is in another state."""
        for above in dict.fromkeys(value.owner for value in filter(float_value, op.operands)):
            if isinstance(above, Operation) and above in self.numbers:
                known = self._slower.get((self.places[above], self.places[op]))
                if known is not None:
                    self._beside(above, op, known)

    def _executed_with(self, op: Operation, state: Precision) -> Operation | None:
        above = self._above(op)
        while above is not None and self._time(above, state) is None:
            above = self._above(above)
        return above

    def _above(self, op: Operation) -> Operation | None:
        """The op that makes the first of its operands that an op makes."""
        owners = (value.owner for value in op.operands if float_value(value))
        return next((o for o in owners if isinstance(o, Operation) and o in self.numbers), None)

    def _value(self, value: SSAValue) -> None:
        owner = value.owner
        producer = self.numbers.get(owner) if isinstance(owner, Operation) else None
        users = [use.operation for use in value.uses]
        numbers = [self.numbers[user] for user in users if user in self.numbers]
        if not numbers:
            return
        near = [*users, owner] if isinstance(owner, Operation) else users
        convert = self._conversions(value, near)
        returned = any(user not in self.numbers for user in users)
        self.problem.values.append(Value(producer, numbers, convert, returned))

    def _conversions(self, value: SSAValue, near: list[Operation]) -> list[list[int]]:
        rates, count = self.times.rates, elements(value)
        # Float kernels for images take channels in blocks, those on codes channels last.
        moves = 2 * rates.move(count) if self._is_image(value, near) else 0.0
        to_codes, to_floats = rates.quantize(count) + moves, rates.dequantize(count) + moves
        to_codes += self.weight * self.losses.values.get(value, 0.0)
        return [[0, round(to_codes)], [round(to_floats), 0]]

    def _is_image(self, value: SSAValue, near: list[Operation]) -> bool:
        if not isinstance(value.type, TensorType) or len(shape_of(value)) < 4:
            return False
        behaviors = self.ctx.behaviors
        return any((b := behaviors.get(op)) is not None and b.has_weights for op in near)

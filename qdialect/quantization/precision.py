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
from types import MappingProxyType

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation, SSAValue

from qdialect.analysis.cost import elements
from qdialect.behaviors.shapes import shape_of
from qdialect.placement import Parts
from qdialect.placement.formats import Formats, State, Value
from qdialect.quantization.recipe import Precision
from qdialect.quantization.selection import Selection, concerns
from qdialect.quantization.values import Values, float_value

FORMATS = {
    Precision.FLOAT: 0,
    Precision.CODES: 1,
    Precision.DYNAMIC: 0,
    Precision.WEIGHTS: 0,
}
"""Whether what an op takes and gives in a state are floats (0) or codes (1)."""


@dataclass(frozen=True)
class Time:
    """What an op took in a run, in nanoseconds, and whether it took and gave floats then."""

    nanoseconds: float
    takes_floats: bool = True
    gives_floats: bool = True


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
    which all ops that can be (`able`) are in that state, and of conversions."""

    ops: Mapping[Precision, Mapping[int, Time]]
    able: Mapping[Precision, Collection[int]]
    rates: Rates

    def corrected(self, states: Mapping[int, Precision], times: Mapping[int, Time]) -> Times:
        """With what was measured of a model with ops in different states: what an op takes depends
        on what is beside it, which only this one knows. What an op was as fast as once, it stays;
        else a plan that was tried would look as good as one that was not."""
        ops = {state: dict(known) for state, known in self.ops.items()}
        for number, time in times.items():
            of_state = ops[states.get(number, Precision.FLOAT)]
            before = of_state.get(number)
            if before is None or time.nanoseconds > before.nanoseconds:
                of_state[number] = time
        return replace(self, ops=ops)

    def total(self, state: Precision) -> float:
        """Nanoseconds of the ops of the run in a state."""
        return sum(time.nanoseconds for time in self.ops[state].values())


@dataclass(frozen=True)
class Plan:
    """The states of the ops, by number in the function; nanoseconds of the whole, and those that
    no plan can be below, by these prices."""

    states: Mapping[int, Precision]
    parts: Parts


def plan(
    selection: Selection,
    times: Times,
    losses: Mapping[int, float] = MappingProxyType({}),
    weight: float = 0.0,
) -> Plan:
    """The states of the ops of a function that are fastest, or of least

        nanoseconds + weight * sum of losses of the ops on codes.

    `selection` has the ops that can be on codes. `losses` are by number of op: noise over signal
    of an output, with that op alone on codes; independent noises add.
    """
    return _Statement(selection, times, losses, weight).solve()


@dataclass
class _Statement:
    selection: Selection
    times: Times
    losses: Mapping[int, float]
    weight: float
    problem: Formats = field(default_factory=Formats)
    places: dict[Operation, int] = field(default_factory=dict[Operation, int])
    numbers: dict[Operation, int] = field(default_factory=dict[Operation, int])
    states: list[list[Precision]] = field(default_factory=list[list[Precision]])

    def solve(self) -> Plan:
        values = self.selection.values
        ops = list(values.block.ops)
        self.places.update((op, place) for place, op in enumerate(ops))
        for op in ops:
            if concerns(op):
                self._op(op)
        for op in self.numbers:
            self._fused(op)
        for value in values.all_values():
            self._value(value, values)
        start = [0] * len(self.numbers)
        found, parts = self.problem.solve(start)
        states = {self.places[op]: self.states[n][found[n]] for op, n in self.numbers.items()}
        return Plan(states, parts)

    def _op(self, op: Operation) -> None:
        self.numbers[op] = len(self.numbers)
        behavior, place = self.selection.values.ctx.behaviors.get(op), self.places[op]
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
        loss = self.losses.get(self.places[op], 0.0) if state is Precision.CODES else 0.0
        price = self.weight * loss
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
        return self.times.ops[state].get(self.places[op])

    def _fused(self, op: Operation) -> None:
        """What an op costs that is executed with another, where the other is in another state."""
        n = self.numbers[op]
        for index, state in enumerate(self.states[n]):
            if self._time(op, state) is not None:
                continue
            anchor = self._executed_with(op, state)
            if anchor is None or op not in self.selection.ops or anchor not in self.selection.ops:
                continue
            m = self.numbers[anchor]
            alone = round(self.times.rates.dequantize(sum(map(elements, op.results))))
            table = [
                [alone * (i == index and other is not state) for i in range(len(self.states[n]))]
                for other in self.states[m]
            ]
            known = self.problem.pairs.get((m, n))
            if known is not None:
                table = [
                    [a + b for a, b in zip(*rows, strict=True)]
                    for rows in zip(known, table, strict=True)
                ]
            self.problem.pairs[m, n] = table

    def _executed_with(self, op: Operation, state: Precision) -> Operation | None:
        """The nearest op above that has a time in a state."""
        above = op
        while True:
            owners = [v.owner for v in above.operands if float_value(v)]
            made = [o for o in owners if isinstance(o, Operation) and o in self.numbers]
            if not made:
                return None
            above = made[0]
            if self._time(above, state) is not None:
                return above

    def _value(self, value: SSAValue, values: Values) -> None:
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
        return [[0, round(to_codes)], [round(to_floats), 0]]

    def _is_image(self, value: SSAValue, near: list[Operation]) -> bool:
        if not isinstance(value.type, TensorType) or len(shape_of(value)) < 4:
            return False
        behaviors = self.selection.values.ctx.behaviors
        return any((b := behaviors.get(op)) is not None and b.has_weights for op in near)

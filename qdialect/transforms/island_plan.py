"""How a float island is computed in integers: a grid for each value, and how far it is off.

Values are looked at from the codes down. What an op makes exactly of its operands' codes has
the step that its declaration gives (`Behavior.grid`); terms of different scales are brought
on one grid first, numbers too wide for the op on a coarser one, and a function of codes of 8
bits is rounded to a fine grid, as a table of 32-bit integers. Every rounding is counted: a
value comes with the largest error that it may have, handed on by `Behavior.gain`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from math import inf, isfinite
from typing import TYPE_CHECKING, Any

from xdsl.ir import Operation, SSAValue

from qdialect.behaviors import Behavior, Size
from qdialect.behaviors import Rule as PortRule
from qdialect.behaviors.flow import carry_all_down, tied_operands
from qdialect.context import QContext
from qdialect.dialects.nn import ClipOp, DivOp, MaximumOp, MulOp, TableOp, make_constant
from qdialect.dialects.nn.base import NNOp, ranked
from qdialect.dialects.quant import RescaleOp, UniformType
from qdialect.numerics import fine_grids
from qdialect.numerics.fine_grids import ROOM
from qdialect.numerics.ranges import Interval
from qdialect.numerics.requantize import Affine, affines
from qdialect.numerics.rounding import Rounding
from qdialect.qparams import QParams
from qdialect.qparams.legality import Illegal
from qdialect.transforms.island_values import Fixed, IslandValues, Step, UnfixableError
from qdialect.transforms.rule_pass import keeps_order, with_qparams

if TYPE_CHECKING:
    from qdialect.analysis.float_islands import FloatIsland

_DIVISOR = 14
_QUOTIENT = 28
_INDEX = 13
_SLACK = 1 + 2.0**-30


class IslandPlan(IslandValues):
    """The steps of one island; UnfixableError where an op has none."""

    def __init__(
        self, session: QContext, island: FloatIsland, place: Callable[[Operation], int]
    ) -> None:
        super().__init__(session)
        #: what no bound of an error covers
        self.caveat = ""
        for op in sorted((*island.ops, *island.orders), key=place):
            self._fix(op)

    # -- ops --------------------------------------------------------------------------

    def _fix(self, op: Operation) -> None:
        behavior = self.session.behaviors.get(op)
        if behavior is None or op.regions:
            raise UnfixableError(op, "undeclared", "it computes floats, and nothing is declared")
        operands: dict[int, Fixed] = {}
        for index, value in enumerate(op.operands):
            if behavior.operand_port(index).rule in (PortRule.REQUANT, PortRule.TIED):
                operands[index] = self.fixed(op, value)
        if not operands:
            raise UnfixableError(op, "float", "none of its operands can be integers")
        if behavior.commutes or behavior.tells_order:
            self._tied(op, behavior, operands)
        elif len(op.results) > 1 or len(operands) < len(op.operands):
            raise UnfixableError(op, "float", "it computes floats; quantize its result")
        elif op.name == DivOp.name:
            self._divide(op, behavior, operands[0], operands[1])
        elif behavior.grid is not None:
            self._exact(op, behavior, list(operands.values()))
        elif behavior.elementwise and len(operands) == 1:
            self._function(op, behavior, operands[0])
        else:
            raise UnfixableError(op, "float", "it computes floats; quantize its result")

    # -- ops that move or compare -----------------------------------------------------

    def _tied(self, op: Operation, behavior: Behavior, operands: dict[int, Fixed]) -> None:
        tied = tied_operands(op, behavior)
        xs = [operands[i] for i in tied]
        params = [x.params for x in xs]
        if len(set(params)) > 1 or not keeps_order(behavior, op, params, inside=True):
            step = fine_grids.step_for(max(Fraction(x.interval.largest) for x in xs))
            xs = [self.on_grid(op, x, step) for x in xs]
            params = [x.params for x in xs]
            if not keeps_order(behavior, op, params, inside=True):
                self._clip(op, behavior, xs[0])
                return
        joined = xs[0].interval
        for x in xs[1:]:
            joined = joined.join(x.interval)
        if behavior.clamp is not None:
            joined = joined.clip(*behavior.clamp(op))
        levels = list(behavior.levels(op)) if behavior.levels and behavior.clamp is None else []
        if behavior.movement is not None:
            levels += [m.border_value for m in behavior.maps(op) if m.has_border]
        for level in levels:
            if isfinite(level):
                joined = joined.join(Interval.exactly(level))
        error = max(x.error for x in xs)
        if behavior.tells_order:
            if error:
                self.caveat = self.caveat or f"'{op.name}' may take another of nearly equals"
            self.emit(op, behavior, dict(zip(tied, xs, strict=True)), self._told(op, behavior, xs))
            return
        carried = carry_all_down(op, behavior, params)
        if isinstance(carried, Illegal):
            raise UnfixableError(op, carried.code, carried.reason)
        results = [
            Fixed(value, q, joined, error) for value, q in zip(op.results, carried, strict=True)
        ]
        self.emit(op, behavior, dict(zip(tied, xs, strict=True)), results)

    def _clip(self, op: Operation, behavior: Behavior, x: Fixed) -> None:
        """A clamp whose bounds are no numbers of the grid: the nearest ones."""
        if behavior.clamp is None:
            raise UnfixableError(op, "levels", "no code stands for a constant it compares with")
        step, most = x.step, x.step * (1 << ROOM)
        bounds = [
            round(Fraction(min(max(b, -float(most)), float(most))) / step) * step
            for b in behavior.clamp(op)
        ]
        interval = x.interval.clip(*map(float, bounds))
        made = Fixed(op.results[0], x.params, interval, x.error + float(step) / 2 * _SLACK)
        kind = with_qparams(x.like, x.params)
        self.allowed(op, ClipOp, [kind], [kind])

        def make(values: Sequence[SSAValue]) -> Operation:
            return ClipOp(values[0], min=float(bounds[0]), max=float(bounds[1]))

        self.steps.append(Step(op, (x,), (made,), make, op))
        self.of[op.results[0]] = made

    def _told(self, op: Operation, behavior: Behavior, xs: Sequence[Fixed]) -> list[Fixed | None]:
        """Results of an op that tells order: elements of its operands, or plain."""
        return [
            Fixed(value, xs[0].params, xs[0].interval, xs[0].error)
            if behavior.result_port(index).rule is PortRule.TIED
            else None
            for index, value in enumerate(op.results)
        ]

    # -- ops that compute -------------------------------------------------------------

    def _error(self, op: Operation, behavior: Behavior, xs: Sequence[Fixed]) -> float:
        """How far the result may be off if the op itself is exact."""

        def sizes(number: int) -> Size:
            x = xs[number].interval
            low = 0.0 if 0 in x else min(abs(float(x.low)), abs(float(x.high)))
            # What the floats mean is `error` away.
            off = xs[number].error
            return Size(max(low - off, 0.0), float(x.largest) + off)

        total = 0.0
        for index, x in enumerate(xs):
            if x.error:
                gain = behavior.gain(op, index, sizes) if behavior.gain else None
                total += inf if gain is None else gain * x.error
        return total * _SLACK

    def _exact(self, op: Operation, behavior: Behavior, given: list[Fixed]) -> None:
        """An op that is exact on some grid: on the one it has, or on coarser ones."""
        assert behavior.grid is not None
        for x in given:
            if not x.params.is_per_tensor:
                raise UnfixableError(op, "axis", "an operand is not quantized per tensor")
        steps = [x.step for x in given]
        for _ in range(64):
            params = [
                x.params if x.step == s else self.grid(op, s, x.like)
                for x, s in zip(given, steps, strict=True)
            ]
            spread = [
                x.interval if x.step == s else x.interval.widened(s)
                for x, s in zip(given, steps, strict=True)
            ]
            interval = self._interval(op, behavior, given, spread)
            step = behavior.grid(op, params)
            if step is None:
                if len(given) < 2 or len(set(steps)) == 1:
                    raise UnfixableError(op, "grid", "no single step makes up every result")
                reach = max(Fraction(i.largest) for i in (*spread, interval))
                steps = [fine_grids.step_for(reach)] * len(given)
            elif interval.largest <= step * (1 << ROOM):
                break
            else:
                # The widest operands lose a bit.
                bits = [Fraction(i.largest) / s for i, s in zip(spread, steps, strict=True)]
                steps = [s * 2 if b == max(bits) else s for s, b in zip(steps, bits, strict=True)]
        else:
            raise UnfixableError(op, "overflow", "32 bits may not hold every result")
        xs = [
            x if x.step == s else self.on_grid(op, x, s) for x, s in zip(given, steps, strict=True)
        ]
        result = self.grid(op, step, op.results[0])
        error = self._error(op, behavior, xs)
        if Fraction(result.scale) != step:
            error += float(interval.largest) * 2.0**-52
        made = Fixed(op.results[0], result, self._interval(op, behavior, xs, None), error)
        self.emit(op, behavior, dict(enumerate(xs)), [made])

    def _interval(
        self,
        op: Operation,
        behavior: Behavior,
        xs: Sequence[Fixed],
        intervals: Sequence[Interval] | None,
    ) -> Interval:
        known = [x.interval for x in xs] if intervals is None else list(intervals)
        if op.name == MulOp.name and xs[0] is xs[1]:
            return _squared(known[0])
        compute = behavior.interval or behavior.arithmetic
        assert compute is not None
        try:
            return Interval.exactly(compute(op, known))
        except ValueError as error:
            raise UnfixableError(op, "unbounded", str(error)) from None

    def _function(self, op: Operation, behavior: Behavior, x: Fixed) -> None:
        """f of codes of 8 bits, or of as many as a table may have: a table of a fine grid."""
        exponent = op.values["exponent"] if op.name == "nn.pow" and isinstance(op, NNOp) else None
        if exponent == 2.0:
            self._square(op, x)
            return
        import numpy as np

        if behavior.pointwise is None:
            raise UnfixableError(op, "float", "it computes floats; quantize its result")
        if not x.params.is_per_tensor:
            raise UnfixableError(op, "axis", "its operand is not quantized per tensor")
        if x.params.storage.width > 8:
            x = self._narrowed(op, x)
        (a,) = affines(x.params)
        low, high = x.params.storage.full_range
        first, last = _codes_within(x.interval, a)
        # Codes that never occur are taken for the nearest that do.
        codes = np.clip(np.arange(low, high + 1), max(first, low), min(last, high))
        with np.errstate(all="ignore"):
            values = behavior.pointwise(op, (codes - a.zero) * np.float64(a.scale))
        if np.isnan(values).any() or not np.isfinite(values).any():
            raise UnfixableError(op, "undefined", "it is no number on every code")
        finite = values[np.isfinite(values)]
        step = fine_grids.step_for(Fraction(float(np.abs(finite).max())))
        params = self.grid(op, step, op.results[0])
        # What is infinite saturates, here and wherever it is quantized.
        most = float(step) * (1 << ROOM - 1)
        if finite.size < values.size:
            self.caveat = self.caveat or f"'{op.name}' takes infinity for {most:.2g}"
        values = np.clip(values, -most, most)
        entries = np.rint(values / float(step)).astype(np.int32)
        interval = Interval(int(entries.min()) * step, int(entries.max()) * step)
        error = float(step) * 0.5 * _SLACK
        if x.error:
            slope = behavior.gain(op, 0, lambda _: Size()) if behavior.gain else None
            if slope is None:
                slope = float(np.abs(np.diff(values)).max(initial=0)) / a.scale
            error += slope * x.error * _SLACK
        made = Fixed(op.results[0], params, interval, error)
        self._look_up(op, x, entries, made)

    def _narrowed(self, op: Operation, x: Fixed) -> Fixed:
        """`x` in 16-bit codes, as many as a table may have."""
        step = fine_grids.step_for(Fraction(x.interval.largest), _INDEX)
        wide = self.on_grid(op, x, step)
        params = QParams.per_tensor("i16", wide.params.scale, 0, wide.params.expressed)
        made = Fixed(x.like, params, wide.interval, wide.error)
        kind = with_qparams(x.like, params)
        self.steps.append(
            Step(op, (wide,), (made,), lambda v: RescaleOp(v[0], kind, Rounding.HALF_UP))
        )
        return made

    def _look_up(self, op: Operation, x: Fixed, entries: Any, made: Fixed) -> None:
        kind = UniformType(made.params)
        table = Fixed(op.results[0], made.params, made.interval)
        gives = [with_qparams(made.like, made.params)]
        takes = [with_qparams(x.like, x.params), ranked(kind, [len(entries)])]
        self.steps.append(
            Step(op, (), (table,), lambda _: make_constant(entries, kind, self.session.blobs))
        )
        self.allowed(op, TableOp, takes, gives)
        self.steps.append(
            Step(
                op,
                (x, table),
                (made,),
                lambda v: TableOp(v[0], v[1], result_types=gives),
                op,
            )
        )
        self.of[op.results[0]] = made

    def _square(self, op: Operation, x: Fixed) -> None:
        """x to the power 2 is a product."""
        reach = Fraction(x.interval.largest)
        if x.furthest() >= 1 << ROOM // 2:
            x = self.on_grid(op, x, fine_grids.step_for(reach, ROOM // 2))
        kind = self.grid(op, x.step * x.step, op.results[0])
        interval = _squared(x.interval)
        error = x.error * (2 * float(reach) + x.error) * _SLACK
        made = Fixed(op.results[0], kind, interval, error)
        types = [with_qparams(x.like, x.params)] * 2, [with_qparams(made.like, kind)]
        self.allowed(op, MulOp, *types)

        def make(values: Sequence[SSAValue]) -> Operation:
            return MulOp(values[0], values[0], result_types=types[1])

        self.steps.append(Step(op, (x,), (made,), make, op))
        self.of[op.results[0]] = made

    def _divide(self, op: Operation, behavior: Behavior, a: Fixed, b: Fixed) -> None:
        """n / d of integers, rounded half up: a step of n is one of d and of the result.

        A divisor that may be 0 is at least one step.
        """
        if b.interval.low < 0:
            raise UnfixableError(op, "divisor", "it divides by what may be negative")
        may_vanish = b.interval.low - Fraction(b.error) <= 0
        b = self.on_grid(op, b, fine_grids.step_for(Fraction(b.interval.high), _DIVISOR))
        least = b.step
        if b.interval.low < least:
            b = self._at_least_one(op, b)
        top = Fraction(a.interval.largest)
        step = fine_grids.step_for(top / least, _QUOTIENT)
        a = self.on_grid(op, a, step * least)
        if may_vanish:
            self.caveat = self.caveat or f"'{op.name}' takes a divisor of 0 for {float(least):.2g}"
        result = self.grid(op, step, op.results[0])
        interval = (a.interval / Interval(max(b.interval.low, least), b.interval.high)).widened(
            step
        )
        error = self._error(op, behavior, (a, b)) + float(step) / 2 * _SLACK
        made = Fixed(op.results[0], result, interval, error)
        types = (
            [with_qparams(x.like, x.params) for x in (a, b)],
            [with_qparams(made.like, result)],
        )
        self.allowed(op, DivOp, *types)

        def make(values: Sequence[SSAValue]) -> Operation:
            return DivOp(*values, result_types=types[1], rounding="half_up")

        self.steps.append(Step(op, (a, b), (made,), make, op))
        self.of[op.results[0]] = made

    def _at_least_one(self, op: Operation, b: Fixed) -> Fixed:
        """max(b, one step)."""
        import numpy as np

        kind = UniformType(b.params)
        one = Fixed(b.like, b.params, Interval(b.step, b.step))
        array = np.ones((1,), np.int32)
        self.steps.append(
            Step(op, (), (one,), lambda _: make_constant(array, kind, self.session.blobs))
        )
        low = Fraction(max(b.interval.low, b.step))
        high = Fraction(max(b.interval.high, b.step))
        made = Fixed(b.like, b.params, Interval(low, high), b.error + float(b.step))
        result = with_qparams(b.like, b.params)
        one_kind = ranked(kind, [1])
        self.allowed(op, MaximumOp, [result, one_kind], [result])
        self.steps.append(Step(op, (b, one), (made,), lambda v: MaximumOp(v[0], v[1])))
        return made


def _squared(x: Interval) -> Interval:
    ends = [Fraction(x.low) ** 2, Fraction(x.high) ** 2]
    return Interval(0 if 0 in x else min(ends), max(ends), x.assuming)


def _codes_within(x: Interval, a: Affine) -> tuple[int, int]:
    """The codes of `a` that name numbers of `x`."""
    low, high = (Fraction(end) / Fraction(a.scale) + a.zero for end in (x.low, x.high))
    return -int(-low // 1), int(high // 1)

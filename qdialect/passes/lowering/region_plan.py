"""How a float region is computed in integers: a grid for each value, the ops, and the error.

`RegionPlan` visits the ops of a region from the codes down. What an op computes exactly of its
operands' codes has the step that its declaration gives (`Behavior.grid`). Terms of different
scales are rescaled to one grid first, values too wide for the op to a coarser one; a function of
codes of 8 bits becomes a table of 32-bit integers on a fine grid. The plan counts every rounding:
each value has a bound of its error, which `Behavior.gain` carries from operands to results.

    %2 = nn.add %0, %1 : (!f, !f) -> !f        %0 in steps of 0.5, %1 in steps of 0.3:
                                               both rescaled to steps of 2^-k, then added exactly

Nothing is built before the whole region has a plan: the plan is a list of `PlannedOp`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import inf, isfinite
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Attribute, Operation, SSAValue

from qdialect.algebra import fine_grids
from qdialect.algebra.fine_grids import BITS, ROOM
from qdialect.algebra.qparams import QParams
from qdialect.algebra.qparams.legality import Illegal
from qdialect.algebra.ranges import Interval
from qdialect.algebra.requantize import QuantGrid, quant_grids
from qdialect.algebra.rounding import Rounding
from qdialect.analysis.codes import constant_values, is_integer, qparams_of
from qdialect.analysis.contractions import bias_reals, sums_of
from qdialect.analysis.ranges import ranges
from qdialect.ir.behaviors import Behavior, PortKind, Size
from qdialect.ir.behaviors.flow import carry_all_down, tied_operands
from qdialect.ir.context import QContext
from qdialect.ir.ops import (
    AddOp,
    ClipOp,
    ConstantOp,
    DivOp,
    MaximumOp,
    MulOp,
    SoftmaxOp,
    TableOp,
    make_constant,
    shape_of,
)
from qdialect.ir.ops.base import NNOp, ranked
from qdialect.ir.ops.ports import bias_matches
from qdialect.ir.quant import DCastOp, RescaleOp, UniformType, element_type
from qdialect.passes.rule_pass import keeps_order, refuse_types, with_qparams
from qdialect.rewrite import Refusal, retyped

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qdialect.analysis.float_regions import FloatRegion

SLACK = 1 + 2.0**-30
"""What sums of bounds in doubles may have lost, many times over."""

_DIVISOR, _QUOTIENT = 14, 28
"""Bits of a divisor and of a quotient."""
_INDEX = 13
"""Bits of codes that a table of 16-bit codes is indexed with."""
_PARTS = 11
"""Bits of quotients of softmax: more would leave fewer to the exponentials."""


class NoFixedPointError(Exception):
    """An op of a float region cannot be computed in integers; `refusal` says why."""

    def __init__(self, op: Operation, code: str, reason: str) -> None:
        super().__init__(reason)
        self.refusal = Refusal(code, f"'{op.name}': {reason}")


@dataclass(eq=False)
class FixedValue:
    """Integers that stand for the float value `like`: their qparams, the interval of the reals they
    mean, and a bound of their error against the floats, both in real units. `value` once they are
    built."""

    like: SSAValue
    params: QParams
    interval: Interval
    error: float = 0.0
    value: SSAValue | None = None
    #: its extents, where they are not those of `like`
    dims: tuple[int, ...] | None = None

    @property
    def step(self) -> Fraction:
        """The scale, which is one for the whole tensor."""
        return Fraction(self.params.scale)

    def type(self) -> Attribute:
        """The type of its tensor."""
        if self.dims is not None:
            return ranked(UniformType(self.params), self.dims)
        return with_qparams(self.like, self.params)

    def furthest(self) -> int:
        """The largest number of steps from zero."""
        return -int(-Fraction(self.interval.largest) // self.step)


@dataclass(frozen=True)
class PlannedOp:
    """One op to build before the float op `before`, on the values of `operands`; with `keep` it has
    the key of that op."""

    before: Operation
    operands: Sequence[FixedValue]
    results: Sequence[FixedValue]
    build: Callable[[Sequence[SSAValue]], Operation]
    keep: Operation | None = None


class RegionPlan:
    """The integer ops of one float region, in program order, and what stands for each value.

    `place` numbers ops in program order. Raises NoFixedPointError where an op has no integers.
    """

    def __init__(
        self, session: QContext, region: FloatRegion, place: Callable[[Operation], int]
    ) -> None:
        self.session = session
        self.ops: list[PlannedOp] = []
        #: what stands for a float value
        self.of: dict[SSAValue, FixedValue] = {}
        #: why no bound covers the error, if none does
        self.caveat = ""
        self._rescaled: dict[tuple[FixedValue, Fraction], FixedValue] = {}
        for op in sorted((*region.ops, *region.orders), key=place):
            self._plan(op)

    # -- ops --------------------------------------------------------------------------

    def _plan(self, op: Operation) -> None:
        behavior = self.session.behaviors.get(op)
        if behavior is None or op.regions:
            raise NoFixedPointError(op, "undeclared", "it computes floats, and nothing is declared")
        operands: dict[int, FixedValue] = {}
        for index, value in enumerate(op.operands):
            if behavior.operand_port(index).kind in (PortKind.REQUANT, PortKind.TIED):
                operands[index] = self.fixed(op, value)
        if not operands:
            raise NoFixedPointError(op, "float", "none of its operands can be integers")
        if behavior.commutes or behavior.compares:
            self._tied(op, behavior, operands)
        elif behavior.accumulator is not None:
            self._contract(op, behavior, operands)
        elif not all(x.params.is_per_tensor for x in operands.values()):
            raise NoFixedPointError(op, "axis", "an operand is not quantized per tensor")
        elif behavior.affine_along is not None:
            self._affine(op, behavior, operands[0])
        elif len(op.results) > 1 or len(operands) < len(op.operands):
            raise NoFixedPointError(op, "float", "it computes floats; quantize its result")
        elif op.name == SoftmaxOp.name:
            self._softmax(op, behavior, operands[0])
        elif op.name == DivOp.name:
            self._divide(op, behavior, operands[0], operands[1])
        elif behavior.grid is not None:
            self._exact(op, behavior, list(operands.values()))
        elif behavior.elementwise and len(operands) == 1:
            self._function(op, behavior, operands[0])
        else:
            raise NoFixedPointError(op, "float", "it computes floats; quantize its result")

    # -- ops that move or compare -----------------------------------------------------

    def _tied(self, op: Operation, behavior: Behavior, operands: dict[int, FixedValue]) -> None:
        tied = tied_operands(op, behavior)
        xs = [operands[i] for i in tied]
        params = [x.params for x in xs]
        if len(set(params)) > 1 or not keeps_order(behavior, op, params, inside=True):
            step = fine_grids.step_for(max(Fraction(x.interval.largest) for x in xs))
            xs = [self._on_grid(op, x, step) for x in xs]
            params = [x.params for x in xs]
            if not keeps_order(behavior, op, params, inside=True):
                self._clip(op, behavior, xs[0])
                return
        joined = xs[0].interval
        for x in xs[1:]:
            joined = joined.join(x.interval)
        if behavior.clamp is not None:
            joined = joined.clip(*behavior.clamp(op))
        levels = (
            list(behavior.compared_constants(op))
            if behavior.compared_constants and behavior.clamp is None
            else []
        )
        if behavior.movement is not None:
            levels += [m.border_value for m in behavior.maps(op) if m.has_border]
        for level in levels:
            if isfinite(level):
                joined = joined.join(Interval.exactly(level))
        error = max(x.error for x in xs)
        if behavior.compares:
            if error:
                self.caveat = self.caveat or f"'{op.name}' may take another of nearly equals"
            self._emit(
                op, behavior, dict(zip(tied, xs, strict=True)), self._compared(op, behavior, xs)
            )
            return
        carried = carry_all_down(op, behavior, params)
        if isinstance(carried, Illegal):
            raise NoFixedPointError(op, carried.code, carried.reason)
        results = [
            FixedValue(value, q, joined, error)
            for value, q in zip(op.results, carried, strict=True)
        ]
        self._emit(op, behavior, dict(zip(tied, xs, strict=True)), results)

    def _compared(
        self, op: Operation, behavior: Behavior, xs: Sequence[FixedValue]
    ) -> list[FixedValue | None]:
        """Results of an op that compares: elements of its operands, or plain."""
        return [
            FixedValue(value, xs[0].params, xs[0].interval, xs[0].error)
            if behavior.result_port(index).kind is PortKind.TIED
            else None
            for index, value in enumerate(op.results)
        ]

    # -- ops that compute -------------------------------------------------------------

    def _exact(self, op: Operation, behavior: Behavior, operands: list[FixedValue]) -> None:
        """An op that is exact on some grid: on the one it has, or on coarser ones."""
        assert behavior.grid is not None
        steps = [x.step for x in operands]
        for _ in range(64):
            params = [
                x.params if x.step == s else self._grid(op, s, x.like)
                for x, s in zip(operands, steps, strict=True)
            ]
            spread = [
                x.interval if x.step == s else x.interval.widened(s)
                for x, s in zip(operands, steps, strict=True)
            ]
            interval = self._interval(op, behavior, operands, spread)
            step = behavior.grid(op, params)
            if step is None:
                if len(operands) < 2 or len(set(steps)) == 1:
                    raise NoFixedPointError(op, "grid", "no single step makes up every result")
                reach = max(Fraction(i.largest) for i in (*spread, interval))
                steps = [fine_grids.step_for(reach)] * len(operands)
            elif interval.largest <= step * (1 << ROOM):
                break
            else:
                # The widest operands lose a bit.
                bits = [Fraction(i.largest) / s for i, s in zip(spread, steps, strict=True)]
                steps = [s * 2 if b == max(bits) else s for s, b in zip(steps, bits, strict=True)]
        else:
            raise NoFixedPointError(op, "overflow", "32 bits may not hold every result")
        xs = [
            x if x.step == s else self._on_grid(op, x, s)
            for x, s in zip(operands, steps, strict=True)
        ]
        result = self._grid(op, step, op.results[0])
        error = self._error(op, behavior, xs)
        if Fraction(result.scale) != step:
            error += float(interval.largest) * 2.0**-52
        fixed = FixedValue(op.results[0], result, self._interval(op, behavior, xs, None), error)
        self._emit(op, behavior, dict(enumerate(xs)), [fixed])

    def _interval(
        self,
        op: Operation,
        behavior: Behavior,
        xs: Sequence[FixedValue],
        intervals: Sequence[Interval] | None,
    ) -> Interval:
        known = [x.interval for x in xs] if intervals is None else list(intervals)
        if op.name == MulOp.name and xs[0] is xs[1]:
            return squared(known[0])
        compute = behavior.interval or behavior.arithmetic
        assert compute is not None
        try:
            return Interval.exactly(compute(op, known))
        except ValueError as error:
            raise NoFixedPointError(op, "unbounded", str(error)) from None

    # -- ops that other ops stand for ---------------------------------------------------

    def _error(self, op: Operation, behavior: Behavior, xs: Sequence[FixedValue]) -> float:
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
        return total * SLACK

    def _clip(self, op: Operation, behavior: Behavior, x: FixedValue) -> None:
        """A clamp whose bounds are no numbers of the grid: the nearest ones."""
        if behavior.clamp is None:
            raise NoFixedPointError(op, "levels", "no code stands for a constant it compares with")
        step, most = x.step, x.step * (1 << ROOM)
        bounds = [
            round(Fraction(min(max(b, -float(most)), float(most))) / step) * step
            for b in behavior.clamp(op)
        ]
        interval = x.interval.clip(*map(float, bounds))
        fixed = FixedValue(op.results[0], x.params, interval, x.error + float(step) / 2 * SLACK)

        def make(values: Sequence[SSAValue]) -> Operation:
            return ClipOp(values[0], min=float(bounds[0]), max=float(bounds[1]))

        self.of[op.results[0]] = self._computed(op, ClipOp, (x,), fixed, make)

    def _function(self, op: Operation, behavior: Behavior, x: FixedValue) -> None:
        """f of codes of 8 bits, or of as many as a table may have: a table of a fine grid."""
        exponent = op.values["exponent"] if op.name == "nn.pow" and isinstance(op, NNOp) else None
        if exponent == 2.0:
            self._square(op, x)
            return
        import numpy as np

        if behavior.pointwise is None:
            raise NoFixedPointError(op, "float", "it computes floats; quantize its result")
        if x.params.storage.width > 8:
            x = self._narrowed(op, x)
        (a,) = quant_grids(x.params)
        low, high = x.params.storage.full_range
        first, last = _codes_within(x.interval, a)
        # Codes that never occur are taken for the nearest that do.
        codes = np.clip(np.arange(low, high + 1), max(first, low), min(last, high))
        with np.errstate(all="ignore"):
            values = behavior.pointwise(op, (codes - a.zero) * np.float64(a.scale))
        if np.isnan(values).any() or not np.isfinite(values).any():
            raise NoFixedPointError(op, "undefined", "it is no number on every code")
        finite = values[np.isfinite(values)]
        step = fine_grids.step_for(Fraction(float(np.abs(finite).max())))
        params = self._grid(op, step, op.results[0])
        # What is infinite saturates, here and wherever it is quantized.
        most = float(step) * (1 << ROOM - 1)
        if finite.size < values.size:
            self.caveat = self.caveat or f"'{op.name}' takes infinity for {most:.2g}"
        values = np.clip(values, -most, most)
        entries = np.rint(values / float(step)).astype(np.int32)
        interval = Interval(int(entries.min()) * step, int(entries.max()) * step)
        error = float(step) * 0.5 * SLACK
        if x.error:
            slope = behavior.gain(op, 0, lambda _: Size()) if behavior.gain else None
            if slope is None:
                slope = float(np.abs(np.diff(values)).max(initial=0)) / a.scale
            error += slope * x.error * SLACK
        fixed = FixedValue(op.results[0], params, interval, error)
        self._look_up(op, x, entries, fixed)

    def _narrowed(self, op: Operation, x: FixedValue) -> FixedValue:
        """`x` in 16-bit codes, as many as a table may have."""
        step = fine_grids.step_for(Fraction(x.interval.largest), _INDEX)
        wide = self._on_grid(op, x, step)
        params = QParams.per_tensor("i16", wide.params.scale, 0, wide.params.expressed)
        fixed = FixedValue(x.like, params, wide.interval, wide.error, dims=x.dims)
        kind = fixed.type()
        self.ops.append(
            PlannedOp(op, (wide,), (fixed,), lambda v: RescaleOp(v[0], kind, Rounding.HALF_UP))
        )
        return fixed

    def _look_up(self, op: Operation, x: FixedValue, entries: Any, fixed: FixedValue) -> None:
        kind, gives = UniformType(fixed.params), [fixed.type()]
        table = FixedValue(op.results[0], fixed.params, fixed.interval, dims=(len(entries),))
        self.ops.append(
            PlannedOp(op, (), (table,), lambda _: make_constant(entries, kind, self.session.blobs))
        )
        self.of[op.results[0]] = self._computed(
            op, TableOp, (x, table), fixed, lambda v: TableOp(v[0], v[1], result_types=gives)
        )

    def _square(self, op: Operation, x: FixedValue) -> None:
        """x to the power 2 is a product."""
        reach = Fraction(x.interval.largest)
        if x.furthest() >= 1 << ROOM // 2:
            x = self._on_grid(op, x, fine_grids.step_for(reach, ROOM // 2))
        kind = self._grid(op, x.step * x.step, op.results[0])
        interval = squared(x.interval)
        error = x.error * (2 * float(reach) + x.error) * SLACK
        fixed = FixedValue(op.results[0], kind, interval, error)
        gives = [fixed.type()]
        self.of[op.results[0]] = self._computed(
            op, MulOp, (x, x), fixed, lambda v: MulOp(v[0], v[1], result_types=gives)
        )

    def _divide(self, op: Operation, behavior: Behavior, a: FixedValue, b: FixedValue) -> None:
        """n / d of integers, rounded half up: a step of n is one of d and of the result.

        A divisor that may be 0 is at least one step.
        """
        if b.interval.low < 0:
            raise NoFixedPointError(op, "divisor", "it divides by what may be negative")
        may_vanish = b.interval.low - Fraction(b.error) <= 0
        b = self._on_grid(op, b, fine_grids.step_for(Fraction(b.interval.high), _DIVISOR))
        least = b.step
        if b.interval.low < least:
            b = self._at_least_one(op, b)
        top = Fraction(a.interval.largest)
        step = fine_grids.step_for(top / least, _QUOTIENT)
        a = self._on_grid(op, a, step * least)
        if may_vanish:
            self.caveat = self.caveat or f"'{op.name}' takes a divisor of 0 for {float(least):.2g}"
        result = self._grid(op, step, op.results[0])
        interval = (a.interval / Interval(max(b.interval.low, least), b.interval.high)).widened(
            step
        )
        error = self._error(op, behavior, (a, b)) + float(step) / 2 * SLACK
        fixed = FixedValue(op.results[0], result, interval, error)
        gives = [fixed.type()]

        def make(values: Sequence[SSAValue]) -> Operation:
            return DivOp(*values, result_types=gives, rounding="half_up")

        self.of[op.results[0]] = self._computed(op, DivOp, (a, b), fixed, make)

    def _at_least_one(self, op: Operation, b: FixedValue) -> FixedValue:
        """max(b, one step)."""
        import numpy as np

        one = FixedValue(b.like, b.params, Interval(b.step, b.step), dims=(1,))
        kind, array = UniformType(b.params), np.ones((1,), np.int32)
        self.ops.append(
            PlannedOp(op, (), (one,), lambda _: make_constant(array, kind, self.session.blobs))
        )
        low, high = (Fraction(max(end, b.step)) for end in (b.interval.low, b.interval.high))
        error = b.error + float(b.step)
        fixed = FixedValue(b.like, b.params, Interval(low, high), error, dims=b.dims)
        return self._computed(op, MaximumOp, (b, one), fixed, lambda v: MaximumOp(v[0], v[1]))

    # -- contractions ------------------------------------------------------------------

    def _contract(self, op: Operation, behavior: Behavior, operands: dict[int, FixedValue]) -> None:
        """Codes times codes, rounded to a fine grid (`split-rescale` makes exact sums of it)."""
        acc = behavior.accumulator
        assert acc is not None
        lhs, rhs = (operands[n] for n in (acc.lhs, acc.rhs))
        if any(x.value is None or x.params.storage.width > 8 for x in (lhs, rhs)):
            raise NoFixedPointError(op, "wide", "it multiplies what was not quantized; quantize it")
        assert lhs.value is not None and rhs.value is not None
        known = ranges(self.session).of
        port = behavior.operand_port(acc.rhs)
        sums = sums_of(self.session, op, acc, port, (lhs.value, rhs.value), known)
        if sums is None:
            raise NoFixedPointError(op, "unbounded", "its sums have no bound")
        total = sums.reals().joined()
        codes = dict(operands)
        if acc.bias is not None and acc.bias < len(op.operands):
            cast = op.operands[acc.bias].owner
            source = cast.input if isinstance(cast, DCastOp) else op.operands[acc.bias]
            bias, params = bias_reals(self.session, source, known), qparams_of(source)
            if bias is None:
                raise NoFixedPointError(op, "bias", "its bias has no bound")
            total = total + bias.joined()
            if params and bias_matches(lhs.params, rhs.params, params, acc.repeats(op)):
                codes[acc.bias] = FixedValue(op.operands[acc.bias], params, total, value=source)
        step = fine_grids.step_for(Fraction(total.largest))
        if behavior.activation is not None:
            total = total.clip(*behavior.activation(op))
        params = self._grid(op, step, op.results[0])
        fixed = FixedValue(op.results[0], params, total.widened(step), float(step) / 2 * SLACK)
        self._emit(op, behavior, codes, [fixed])

    # -- one number per channel -------------------------------------------------------

    def _affine(self, op: Operation, behavior: Behavior, x: FixedValue) -> None:
        """slope * x + offset with numbers that are constant, along one dimension."""
        import numpy as np

        rows: list[Any] = []
        for value in op.operands[1:]:
            array = constant_values(value, self.session)
            if array is None or array.ndim != 1 or array.dtype.kind != "f":
                raise NoFixedPointError(op, "constant", "its statistics are not constant")
            rows.append(array)
        numbers = [
            behavior.affine(op, [None, *(Fraction(float(row[c])) for row in rows)])
            if behavior.affine
            else None
            for c in range(len(rows[0]))
        ]
        found = [
            n for n in numbers if n is not None and not isfinite(n.low) and not isfinite(n.high)
        ]
        if len(found) < len(numbers) or behavior.affine_along is None:
            raise NoFixedPointError(op, "float", "it computes floats; quantize its result")
        rank = len(shape_of(op.results[0]))
        dims = tuple(len(found) if d == behavior.affine_along else 1 for d in range(rank))
        slopes, offsets = (
            self._numbers(
                op,
                np.array([float(getattr(n, name)) for n in found]).reshape(dims),
                op.results[0],
                bits,
                dims,
            )
            for name, bits in (("slope", ROOM // 2), ("offset", BITS))
        )
        room = Fraction(1 << ROOM) / max(slopes.furthest(), 1)
        if x.furthest() >= room:
            x = self._on_grid(op, x, fine_grids.step_for(x.interval.largest * (1 << BITS) / room))
        shape = shape_of(op.results[0])
        params = self._grid(op, x.step * slopes.step, op.results[0])
        error = slopes.error * (float(x.interval.largest) + x.error)
        error += float(slopes.interval.largest) * x.error
        product = FixedValue(op.results[0], params, x.interval * slopes.interval, error * SLACK)
        kind = [product.type()]
        self._computed(
            op, MulOp, (x, slopes), product, lambda v: MulOp(v[0], v[1], result_types=kind)
        )
        total = product.interval + offsets.interval
        reach = max(Fraction(i.largest) for i in (product.interval, offsets.interval, total))
        step = fine_grids.step_for(reach)
        terms = [self._on_grid(op, term, step) for term in (product, offsets)]
        fixed = FixedValue(
            op.results[0],
            terms[0].params,
            terms[0].interval + terms[1].interval,
            (terms[0].error + terms[1].error) * SLACK,
            dims=shape,
        )
        gives = [fixed.type()]
        self.of[op.results[0]] = self._computed(
            op, AddOp, terms, fixed, lambda v: AddOp(v[0], v[1], result_types=gives)
        )

    # -- softmax -----------------------------------------------------------------------

    def _softmax(self, op: Operation, behavior: Behavior, x: FixedValue) -> None:
        """Itself, of 8-bit or 16-bit codes (`form-softmax-tables`)."""
        if x.params.storage.width > 8:
            x = self._narrowed(op, x)
        params = self._grid(op, Fraction(1, 1 << _PARTS), op.results[0])
        error = self._error(op, behavior, (x,)) + 2.0**-_PARTS
        fixed = FixedValue(op.results[0], params, Interval(0, 1), error)
        self._emit(op, behavior, {0: x}, [fixed])

    # -- values -------------------------------------------------------------------------

    def fixed(self, user: Operation, value: SSAValue) -> FixedValue:
        """What stands for a float value."""
        found = self.of.get(value)
        if found is None:
            owner = value.owner
            if qparams_of(value) is not None:
                found = self._codes(user, value, value)
            elif isinstance(owner, ConstantOp):
                found = self._constant(user, value)
            else:
                if not isinstance(owner, DCastOp):
                    raise NoFixedPointError(user, "storage", "an operand is not dequantized")
                found = self._codes(user, value, owner.input)
            self.of[value] = found
        return found

    def _codes(self, user: Operation, real: SSAValue, codes: SSAValue) -> FixedValue:
        """An operand that is codes, or is dequantized from some."""
        params, interval = qparams_of(codes), ranges(self.session).real(codes)
        if params is None or interval is None or not is_integer(params):
            raise NoFixedPointError(user, "storage", "an operand is not dequantized integers")
        return FixedValue(real, params, interval, value=codes)

    def _constant(self, user: Operation, value: SSAValue) -> FixedValue:
        import numpy as np

        array = constant_values(value, self.session)
        if array is None or not array.size or not np.isfinite(array).all():
            raise NoFixedPointError(user, "constant", "a constant is not finite")
        return self._numbers(user, array.astype(np.float64), value, BITS)

    def _numbers(
        self,
        user: Operation,
        reals: NDArray[Any],
        like: SSAValue,
        bits: int,
        dims: tuple[int, ...] | None = None,
    ) -> FixedValue:
        """Constants in 32-bit codes of so many bits."""
        codes, step, off = fine_grids.constants_on_grid(reals, bits)
        params = self._grid(user, step, like)
        interval = Interval.exactly(codes) * step
        fixed = FixedValue(like, params, interval, float(off), dims=dims)
        kind = UniformType(params)
        self.ops.append(
            PlannedOp(user, (), (fixed,), lambda _: make_constant(codes, kind, self.session.blobs))
        )
        return fixed

    def _grid(self, user: Operation, step: Fraction, like: SSAValue) -> QParams:
        """32-bit integers in steps of `step`, expressed as `like`."""
        try:
            params = QParams.per_tensor("i32", float(step), 0, str(element_type(like.type)))
        except OverflowError:
            params = None
        if params is None or not params.is_expressible:
            raise NoFixedPointError(user, "grid", "its step is no number of the type")
        return params

    def _on_grid(self, user: Operation, x: FixedValue, step: Fraction) -> FixedValue:
        if not x.params.is_per_tensor:
            raise NoFixedPointError(user, "axis", "an operand is not quantized per tensor")
        params = self._grid(user, step, x.like)
        if x.params == params:
            return x
        known = self._rescaled.get((x, step))
        if known is not None:
            return known
        ratio, furthest = x.step / step, x.furthest()
        pair = fine_grids.pair_onto(ratio, furthest)
        if pair is None:
            raise NoFixedPointError(user, "overflow", "scales are too far apart for 32 bits")
        off = fine_grids.off_by(ratio, pair, furthest) * step
        error = x.error + float(off) * SLACK
        fixed = FixedValue(x.like, params, x.interval.widened(off), error, dims=x.dims)
        kind = fixed.type()
        self.ops.append(
            PlannedOp(
                user,
                (x,),
                (fixed,),
                lambda v: RescaleOp(v[0], kind, Rounding.HALF_UP, [pair[0]], [pair[1]]),
            )
        )
        self._rescaled[x, step] = fixed
        return fixed

    def _emit(
        self,
        op: Operation,
        behavior: Behavior,
        operands: dict[int, FixedValue],
        results: Sequence[FixedValue | None],
    ) -> None:
        takes = [v.type for v in op.operands]
        for index, x in operands.items():
            takes[index] = x.type()
        gives = [
            value.type if fixed is None else with_qparams(value, fixed.params)
            for value, fixed in zip(op.results, results, strict=True)
        ]
        refusal = refuse_types(self.session, behavior, op, takes, gives)
        if refusal is not None:
            raise NoFixedPointError(op, refusal.code, refusal.reason)
        inputs = list(op.operands)

        def make(values: Sequence[SSAValue]) -> Operation:
            for index, value in zip(operands, values, strict=True):
                inputs[index] = value
            new = retyped(op, inputs, gives)
            if "rounding" in new.properties:
                new.properties["rounding"] = StringAttr(Rounding.HALF_EVEN.value)
            return new

        known = [
            FixedValue(value, QParams.per_tensor("i32", 1.0), Interval(0, 0))
            if fixed is None
            else fixed
            for value, fixed in zip(op.results, results, strict=True)
        ]
        self.ops.append(PlannedOp(op, list(operands.values()), known, make, op))
        self.of.update(zip(op.results, known, strict=True))

    def _computed(
        self,
        op: Operation,
        kind: type[Operation],
        operands: Sequence[FixedValue],
        fixed: FixedValue,
        make: Callable[[Sequence[SSAValue]], Operation],
    ) -> FixedValue:
        """`fixed` by an op of another kind in place of `op`, if the target runs it."""
        self._allowed(op, kind, [x.type() for x in operands], [fixed.type()])
        self.ops.append(PlannedOp(op, operands, (fixed,), make, op))
        return fixed

    def _allowed(self, op: Operation, kind: type[Operation], takes: Any, gives: Any) -> None:
        """Raises NoFixedPointError for what the target does not run in place of `op`."""
        reason = self.session.target.refuses(kind.create(), takes, gives)
        if reason is not None:
            raise NoFixedPointError(op, "target", f"{self.session.target.name}: {reason}")


def squared(x: Interval) -> Interval:
    """The squares of all numbers of `x`."""
    ends = [Fraction(x.low) ** 2, Fraction(x.high) ** 2]
    return Interval(0 if 0 in x else min(ends), max(ends), x.assuming)


def _codes_within(x: Interval, a: QuantGrid) -> tuple[int, int]:
    """The codes of `a` that name numbers of `x`."""
    low, high = (Fraction(end) / Fraction(a.scale) + a.zero for end in (x.low, x.high))
    return -int(-low // 1), int(high // 1)

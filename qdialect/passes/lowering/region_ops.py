"""Ops of a float region in integers that are not their own: functions, quotients, squares,
clamps, contractions and affine functions per channel."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import inf, isfinite
from typing import TYPE_CHECKING, Any

from xdsl.ir import Operation, SSAValue

from qdialect.analysis.codes import constant_values, qparams_of
from qdialect.analysis.contractions import bias_reals, sums_of
from qdialect.analysis.ranges import ranges
from qdialect.behaviors import Behavior, Size
from qdialect.context import QContext
from qdialect.numerics import fine_grids
from qdialect.numerics.fine_grids import BITS, ROOM
from qdialect.numerics.ranges import Interval
from qdialect.numerics.requantize import QuantGrid, quant_grids
from qdialect.numerics.rounding import Rounding
from qdialect.ops import AddOp, ClipOp, DivOp, MaximumOp, MulOp, TableOp, make_constant, shape_of
from qdialect.ops.base import NNOp
from qdialect.ops.ports import bias_matches
from qdialect.passes.lowering.region_values import SLACK, Fixed, RegionValues, Step, UnfixableError
from qdialect.qparams import QParams
from qdialect.quant import DCastOp, RescaleOp, UniformType

if TYPE_CHECKING:
    pass

_DIVISOR = 14
_QUOTIENT = 28
_INDEX = 13
_PARTS = 11
"""Bits of quotients of softmax: more would leave fewer to the exponentials."""


class RegionOps(RegionValues):
    """Writes one op of a float region with others."""

    def __init__(self, session: QContext) -> None:
        super().__init__(session)
        #: what no bound of an error covers
        self.caveat = ""

    def error(self, op: Operation, behavior: Behavior, xs: Sequence[Fixed]) -> float:
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

    def clip(self, op: Operation, behavior: Behavior, x: Fixed) -> None:
        """A clamp whose bounds are no numbers of the grid: the nearest ones."""
        if behavior.clamp is None:
            raise UnfixableError(op, "levels", "no code stands for a constant it compares with")
        step, most = x.step, x.step * (1 << ROOM)
        bounds = [
            round(Fraction(min(max(b, -float(most)), float(most))) / step) * step
            for b in behavior.clamp(op)
        ]
        interval = x.interval.clip(*map(float, bounds))
        made = Fixed(op.results[0], x.params, interval, x.error + float(step) / 2 * SLACK)

        def make(values: Sequence[SSAValue]) -> Operation:
            return ClipOp(values[0], min=float(bounds[0]), max=float(bounds[1]))

        self.of[op.results[0]] = self.computed(op, ClipOp, (x,), made, make)

    def function(self, op: Operation, behavior: Behavior, x: Fixed) -> None:
        """f of codes of 8 bits, or of as many as a table may have: a table of a fine grid."""
        exponent = op.values["exponent"] if op.name == "nn.pow" and isinstance(op, NNOp) else None
        if exponent == 2.0:
            self.square(op, x)
            return
        import numpy as np

        if behavior.pointwise is None:
            raise UnfixableError(op, "float", "it computes floats; quantize its result")
        if not x.params.is_per_tensor:
            raise UnfixableError(op, "axis", "its operand is not quantized per tensor")
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
        error = float(step) * 0.5 * SLACK
        if x.error:
            slope = behavior.gain(op, 0, lambda _: Size()) if behavior.gain else None
            if slope is None:
                slope = float(np.abs(np.diff(values)).max(initial=0)) / a.scale
            error += slope * x.error * SLACK
        made = Fixed(op.results[0], params, interval, error)
        self._look_up(op, x, entries, made)

    def _narrowed(self, op: Operation, x: Fixed) -> Fixed:
        """`x` in 16-bit codes, as many as a table may have."""
        step = fine_grids.step_for(Fraction(x.interval.largest), _INDEX)
        wide = self.on_grid(op, x, step)
        params = QParams.per_tensor("i16", wide.params.scale, 0, wide.params.expressed)
        made = Fixed(x.like, params, wide.interval, wide.error, dims=x.dims)
        kind = made.kind()
        self.steps.append(
            Step(op, (wide,), (made,), lambda v: RescaleOp(v[0], kind, Rounding.HALF_UP))
        )
        return made

    def _look_up(self, op: Operation, x: Fixed, entries: Any, made: Fixed) -> None:
        kind, gives = UniformType(made.params), [made.kind()]
        table = Fixed(op.results[0], made.params, made.interval, dims=(len(entries),))
        self.steps.append(
            Step(op, (), (table,), lambda _: make_constant(entries, kind, self.session.blobs))
        )
        self.of[op.results[0]] = self.computed(
            op, TableOp, (x, table), made, lambda v: TableOp(v[0], v[1], result_types=gives)
        )

    def square(self, op: Operation, x: Fixed) -> None:
        """x to the power 2 is a product."""
        reach = Fraction(x.interval.largest)
        if x.furthest() >= 1 << ROOM // 2:
            x = self.on_grid(op, x, fine_grids.step_for(reach, ROOM // 2))
        kind = self.grid(op, x.step * x.step, op.results[0])
        interval = squared(x.interval)
        error = x.error * (2 * float(reach) + x.error) * SLACK
        made = Fixed(op.results[0], kind, interval, error)
        gives = [made.kind()]
        self.of[op.results[0]] = self.computed(
            op, MulOp, (x, x), made, lambda v: MulOp(v[0], v[1], result_types=gives)
        )

    def divide(self, op: Operation, behavior: Behavior, a: Fixed, b: Fixed) -> None:
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
        error = self.error(op, behavior, (a, b)) + float(step) / 2 * SLACK
        made = Fixed(op.results[0], result, interval, error)
        gives = [made.kind()]

        def make(values: Sequence[SSAValue]) -> Operation:
            return DivOp(*values, result_types=gives, rounding="half_up")

        self.of[op.results[0]] = self.computed(op, DivOp, (a, b), made, make)

    def _at_least_one(self, op: Operation, b: Fixed) -> Fixed:
        """max(b, one step)."""
        import numpy as np

        one = Fixed(b.like, b.params, Interval(b.step, b.step), dims=(1,))
        kind, array = UniformType(b.params), np.ones((1,), np.int32)
        self.steps.append(
            Step(op, (), (one,), lambda _: make_constant(array, kind, self.session.blobs))
        )
        low, high = (Fraction(max(end, b.step)) for end in (b.interval.low, b.interval.high))
        error = b.error + float(b.step)
        made = Fixed(b.like, b.params, Interval(low, high), error, dims=b.dims)
        return self.computed(op, MaximumOp, (b, one), made, lambda v: MaximumOp(v[0], v[1]))

    # -- contractions ------------------------------------------------------------------

    def contract(self, op: Operation, behavior: Behavior, operands: dict[int, Fixed]) -> None:
        """Codes times codes, rounded to a fine grid (`split-rescale` makes exact sums of it)."""
        acc = behavior.accumulator
        assert acc is not None
        lhs, rhs = (operands[n] for n in (acc.lhs, acc.rhs))
        if any(x.value is None or x.params.storage.width > 8 for x in (lhs, rhs)):
            raise UnfixableError(op, "wide", "it multiplies what was not quantized; quantize it")
        assert lhs.value is not None and rhs.value is not None
        known = ranges(self.session).of
        port = behavior.operand_port(acc.rhs)
        sums = sums_of(self.session, op, acc, port, (lhs.value, rhs.value), known)
        if sums is None:
            raise UnfixableError(op, "unbounded", "its sums have no bound")
        total = sums.reals().joined()
        given = dict(operands)
        if acc.bias is not None and acc.bias < len(op.operands):
            cast = op.operands[acc.bias].owner
            held = cast.input if isinstance(cast, DCastOp) else op.operands[acc.bias]
            bias, params = bias_reals(self.session, held, known), qparams_of(held)
            if bias is None:
                raise UnfixableError(op, "bias", "its bias has no bound")
            total = total + bias.joined()
            if params and bias_matches(lhs.params, rhs.params, params, acc.repeats(op)):
                given[acc.bias] = Fixed(op.operands[acc.bias], params, total, value=held)
        step = fine_grids.step_for(Fraction(total.largest))
        params = self.grid(op, step, op.results[0])
        made = Fixed(op.results[0], params, total.widened(step), float(step) / 2 * SLACK)
        self.emit(op, behavior, given, [made])

    # -- one number per channel -------------------------------------------------------

    def affine(self, op: Operation, behavior: Behavior, x: Fixed) -> None:
        """slope * x + offset with numbers that are constant, along one dimension."""
        import numpy as np

        rows: list[Any] = []
        for value in op.operands[1:]:
            array = constant_values(value, self.session)
            if array is None or array.ndim != 1 or array.dtype.kind != "f":
                raise UnfixableError(op, "constant", "its statistics are not constant")
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
            raise UnfixableError(op, "float", "it computes floats; quantize its result")
        rank = len(shape_of(op.results[0]))
        dims = tuple(len(found) if d == behavior.affine_along else 1 for d in range(rank))
        slopes, offsets = (
            self.numbers(
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
            x = self.on_grid(op, x, fine_grids.step_for(x.interval.largest * (1 << BITS) / room))
        shape = shape_of(op.results[0])
        params = self.grid(op, x.step * slopes.step, op.results[0])
        error = slopes.error * (float(x.interval.largest) + x.error)
        error += float(slopes.interval.largest) * x.error
        product = Fixed(op.results[0], params, x.interval * slopes.interval, error * SLACK)
        kind = [product.kind()]
        self.computed(
            op, MulOp, (x, slopes), product, lambda v: MulOp(v[0], v[1], result_types=kind)
        )
        total = product.interval + offsets.interval
        reach = max(Fraction(i.largest) for i in (product.interval, offsets.interval, total))
        step = fine_grids.step_for(reach)
        terms = [self.on_grid(op, term, step) for term in (product, offsets)]
        made = Fixed(
            op.results[0],
            terms[0].params,
            terms[0].interval + terms[1].interval,
            (terms[0].error + terms[1].error) * SLACK,
            dims=shape,
        )
        gives = [made.kind()]
        self.of[op.results[0]] = self.computed(
            op, AddOp, terms, made, lambda v: AddOp(v[0], v[1], result_types=gives)
        )

    # -- softmax -----------------------------------------------------------------------

    def softmax(self, op: Operation, behavior: Behavior, x: Fixed) -> None:
        """Itself, of 8-bit or 16-bit codes (`form-softmax-tables`)."""
        if x.params.storage.width > 8 or not x.params.is_per_tensor:
            x = self._narrowed(op, x)
        params = self.grid(op, Fraction(1, 1 << _PARTS), op.results[0])
        error = self.error(op, behavior, (x,)) + 2.0**-_PARTS
        made = Fixed(op.results[0], params, Interval(0, 1), error)
        self.emit(op, behavior, {0: x}, [made])


def squared(x: Interval) -> Interval:
    ends = [Fraction(x.low) ** 2, Fraction(x.high) ** 2]
    return Interval(0 if 0 in x else min(ends), max(ends), x.assuming)


def _codes_within(x: Interval, a: QuantGrid) -> tuple[int, int]:
    """The codes of `a` that name numbers of `x`."""
    low, high = (Fraction(end) / Fraction(a.scale) + a.zero for end in (x.low, x.high))
    return -int(-low // 1), int(high // 1)

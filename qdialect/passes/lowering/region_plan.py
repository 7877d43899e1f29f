"""How a float region is computed in integers: a grid for each value, and how far it is off.

Values are looked at from the codes down. What an op makes exactly of its operands' codes has
the step that its declaration gives (`Behavior.grid`); terms of different scales are brought
on one grid first, numbers too wide for the op on a coarser one, and a function of codes of 8
bits is rounded to a fine grid, as a table of 32-bit integers. Every rounding is counted: a
value comes with the largest error that it may have, handed on by `Behavior.gain`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from math import isfinite
from typing import TYPE_CHECKING

from xdsl.ir import Operation

from qdialect.behaviors import Behavior, PortKind
from qdialect.behaviors.flow import carry_all_down, tied_operands
from qdialect.context import QContext
from qdialect.numerics import fine_grids
from qdialect.numerics.fine_grids import ROOM
from qdialect.numerics.ranges import Interval
from qdialect.ops import DivOp, MulOp, SoftmaxOp
from qdialect.passes.lowering.region_ops import RegionOps, squared
from qdialect.passes.lowering.region_values import Fixed, UnfixableError
from qdialect.passes.rule_pass import keeps_order
from qdialect.qparams.legality import Illegal

if TYPE_CHECKING:
    from qdialect.analysis.float_regions import FloatRegion

_DIVISOR = 14
_QUOTIENT = 28
_INDEX = 13


class RegionPlan(RegionOps):
    """The steps of one region; UnfixableError where an op has none."""

    def __init__(
        self, session: QContext, region: FloatRegion, place: Callable[[Operation], int]
    ) -> None:
        super().__init__(session)
        for op in sorted((*region.ops, *region.orders), key=place):
            self._fix(op)

    # -- ops --------------------------------------------------------------------------

    def _fix(self, op: Operation) -> None:
        behavior = self.session.behaviors.get(op)
        if behavior is None or op.regions:
            raise UnfixableError(op, "undeclared", "it computes floats, and nothing is declared")
        operands: dict[int, Fixed] = {}
        for index, value in enumerate(op.operands):
            if behavior.operand_port(index).kind in (PortKind.REQUANT, PortKind.TIED):
                operands[index] = self.fixed(op, value)
        if not operands:
            raise UnfixableError(op, "float", "none of its operands can be integers")
        if behavior.commutes or behavior.compares:
            self._tied(op, behavior, operands)
        elif behavior.accumulator is not None:
            self.contract(op, behavior, operands)
        elif behavior.affine_along is not None:
            self.affine(op, behavior, operands[0])
        elif len(op.results) > 1 or len(operands) < len(op.operands):
            raise UnfixableError(op, "float", "it computes floats; quantize its result")
        elif op.name == SoftmaxOp.name:
            self.softmax(op, behavior, operands[0])
        elif op.name == DivOp.name:
            self.divide(op, behavior, operands[0], operands[1])
        elif behavior.grid is not None:
            self._exact(op, behavior, list(operands.values()))
        elif behavior.elementwise and len(operands) == 1:
            self.function(op, behavior, operands[0])
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
                self.clip(op, behavior, xs[0])
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
            self.emit(op, behavior, dict(zip(tied, xs, strict=True)), self._told(op, behavior, xs))
            return
        carried = carry_all_down(op, behavior, params)
        if isinstance(carried, Illegal):
            raise UnfixableError(op, carried.code, carried.reason)
        results = [
            Fixed(value, q, joined, error) for value, q in zip(op.results, carried, strict=True)
        ]
        self.emit(op, behavior, dict(zip(tied, xs, strict=True)), results)

    def _told(self, op: Operation, behavior: Behavior, xs: Sequence[Fixed]) -> list[Fixed | None]:
        """Results of an op that tells order: elements of its operands, or plain."""
        return [
            Fixed(value, xs[0].params, xs[0].interval, xs[0].error)
            if behavior.result_port(index).kind is PortKind.TIED
            else None
            for index, value in enumerate(op.results)
        ]

    # -- ops that compute -------------------------------------------------------------

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
        error = self.error(op, behavior, xs)
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
            return squared(known[0])
        compute = behavior.interval or behavior.arithmetic
        assert compute is not None
        try:
            return Interval.exactly(compute(op, known))
        except ValueError as error:
            raise UnfixableError(op, "unbounded", str(error)) from None

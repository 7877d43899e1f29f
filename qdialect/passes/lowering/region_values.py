"""Values of a float region as codes, and the steps that make them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Attribute, Operation, SSAValue

from qdialect.analysis.codes import constant_values, is_integer, qparams_of
from qdialect.analysis.ranges import ranges
from qdialect.behaviors import Behavior
from qdialect.context import QContext
from qdialect.numerics import fine_grids
from qdialect.numerics.fine_grids import BITS
from qdialect.numerics.ranges import Interval
from qdialect.numerics.rounding import Rounding
from qdialect.ops import make_constant
from qdialect.ops.base import ranked
from qdialect.ops.constants import ConstantOp
from qdialect.passes.rule_pass import refuse_types, with_qparams
from qdialect.qparams import QParams
from qdialect.quant import DCastOp, RescaleOp, UniformType, element_type
from qdialect.rewrite import Refusal, retyped

SLACK = 1 + 2.0**-30
"""What sums of bounds in doubles may have lost, many times over."""


if TYPE_CHECKING:
    from numpy.typing import NDArray


class UnfixableError(Exception):
    """An op of a float region has no integers."""

    def __init__(self, op: Operation, code: str, reason: str) -> None:
        super().__init__(reason)
        self.refusal = Refusal(code, f"'{op.name}': {reason}")


@dataclass(eq=False)
class Fixed:
    """A real value as codes: their qparams, between which numbers they lie, and how far they
    may be from what the floats mean. `value` once they are there."""

    like: SSAValue
    params: QParams
    interval: Interval
    error: float = 0.0
    value: SSAValue | None = None
    #: its extents, where they are not those of `like`
    dims: tuple[int, ...] | None = None

    @property
    def step(self) -> Fraction:
        return Fraction(self.params.scale)

    def kind(self, params: QParams | None = None) -> Attribute:
        """Its type, with other parameters if they are given."""
        params = params or self.params
        if self.dims is not None:
            return ranked(UniformType(params), self.dims)
        return with_qparams(self.like, params)

    def furthest(self) -> int:
        """The largest number of steps from zero."""
        return -int(-Fraction(self.interval.largest) // self.step)


@dataclass(frozen=True)
class Step:
    """One op that is to be built before `at`, on the values of these, and what its results are."""

    at: Operation
    operands: Sequence[Fixed]
    results: Sequence[Fixed]
    make: Callable[[Sequence[SSAValue]], Operation]
    keep: Operation | None = None


class RegionValues:
    """What stands for the values of a float region; the steps that make it, in program order."""

    def __init__(self, session: QContext) -> None:
        self.session = session
        self.steps: list[Step] = []
        self.of: dict[SSAValue, Fixed] = {}
        self._moved: dict[tuple[Fixed, Fraction], Fixed] = {}

    def fixed(self, user: Operation, value: SSAValue) -> Fixed:
        """What stands for a float value."""
        found = self.of.get(value)
        if found is None:
            owner = value.owner
            if isinstance(owner, ConstantOp):
                found = self._constant(user, value)
            else:
                assert isinstance(owner, DCastOp)
                found = self._codes(user, owner)
            self.of[value] = found
        return found

    def _codes(self, user: Operation, cast: DCastOp) -> Fixed:
        params, interval = qparams_of(cast.input), ranges(self.session).real(cast.input)
        if params is None or interval is None or not is_integer(params):
            raise UnfixableError(user, "storage", "an operand is not dequantized integers")
        return Fixed(cast.result, params, interval, value=cast.input)

    def _constant(self, user: Operation, value: SSAValue) -> Fixed:
        import numpy as np

        array = constant_values(value, self.session)
        if array is None or not array.size or not np.isfinite(array).all():
            raise UnfixableError(user, "constant", "a constant is not finite")
        return self.numbers(user, array.astype(np.float64), value, BITS)

    def numbers(
        self,
        user: Operation,
        reals: NDArray[Any],
        like: SSAValue,
        bits: int,
        dims: tuple[int, ...] | None = None,
    ) -> Fixed:
        """Constants in 32-bit codes of so many bits."""
        codes, step, off = fine_grids.held(reals, bits)
        params = self.grid(user, step, like)
        held = Interval.exactly(codes) * step
        made = Fixed(like, params, held, float(off), dims=dims)
        kind = UniformType(params)
        self.steps.append(
            Step(user, (), (made,), lambda _: make_constant(codes, kind, self.session.blobs))
        )
        return made

    def grid(self, user: Operation, step: Fraction, like: SSAValue) -> QParams:
        try:
            made = QParams.per_tensor("i32", float(step), 0, str(element_type(like.type)))
        except OverflowError:
            made = None
        if made is None or not made.is_expressible:
            raise UnfixableError(user, "grid", "its step is no number of the type")
        return made

    def on_grid(self, user: Operation, x: Fixed, step: Fraction) -> Fixed:
        """`x` in steps of 32 bits, by a rescale if it is not held so."""
        if not x.params.is_per_tensor:
            raise UnfixableError(user, "axis", "an operand is not quantized per tensor")
        params = self.grid(user, step, x.like)
        if x.params == params:
            return x
        known = self._moved.get((x, step))
        if known is not None:
            return known
        ratio, furthest = x.step / step, x.furthest()
        pair = fine_grids.pair_onto(ratio, furthest)
        if pair is None:
            raise UnfixableError(user, "overflow", "scales are too far apart for 32 bits")
        off = fine_grids.off_by(ratio, pair, furthest) * step
        error = x.error + float(off) * SLACK
        made = Fixed(x.like, params, x.interval.widened(off), error, dims=x.dims)
        kind = made.kind()
        self.steps.append(
            Step(
                user,
                (x,),
                (made,),
                lambda v: RescaleOp(v[0], kind, Rounding.HALF_UP, [pair[0]], [pair[1]]),
            )
        )
        self._moved[x, step] = made
        return made

    def emit(
        self,
        op: Operation,
        behavior: Behavior,
        operands: dict[int, Fixed],
        results: Sequence[Fixed | None],
    ) -> None:
        """`op` itself on codes."""
        takes = [v.type for v in op.operands]
        for index, x in operands.items():
            takes[index] = x.kind()
        gives = [
            value.type if made is None else with_qparams(value, made.params)
            for value, made in zip(op.results, results, strict=True)
        ]
        refusal = refuse_types(self.session, behavior, op, takes, gives)
        if refusal is not None:
            raise UnfixableError(op, refusal.code, refusal.reason)
        given = list(op.operands)

        def make(values: Sequence[SSAValue]) -> Operation:
            for index, value in zip(operands, values, strict=True):
                given[index] = value
            new = retyped(op, given, gives)
            if "rounding" in new.properties:
                new.properties["rounding"] = StringAttr(Rounding.HALF_EVEN.value)
            return new

        known = [
            Fixed(value, QParams.per_tensor("i32", 1.0), Interval(0, 0)) if made is None else made
            for value, made in zip(op.results, results, strict=True)
        ]
        self.steps.append(Step(op, list(operands.values()), known, make, op))
        self.of.update(zip(op.results, known, strict=True))

    def computed(
        self,
        op: Operation,
        kind: type[Operation],
        operands: Sequence[Fixed],
        made: Fixed,
        make: Callable[[Sequence[SSAValue]], Operation],
    ) -> Fixed:
        """`made` by an op of another kind in place of `op`, if the target runs it."""
        self.allowed(op, kind, [x.kind() for x in operands], [made.kind()])
        self.steps.append(Step(op, operands, (made,), make, op))
        return made

    def allowed(self, op: Operation, kind: type[Operation], takes: Any, gives: Any) -> None:
        """Refuse what the target does not run in place of `op`."""
        reason = self.session.target.refuses(kind.create(), takes, gives)
        if reason is not None:
            raise UnfixableError(op, "target", f"{self.session.target.name}: {reason}")

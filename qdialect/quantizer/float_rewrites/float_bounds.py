"""A bound of what a rewrite changes in float32.

In the reals a rewritten model is what the model was; in float32 its new constants are rounded, and
both models round each step.  So on a sample, with a^ what float32 makes of model a,

    |a^ - b^|  <=  |a^ - a|  +  |a - b|  +  |b^ - b|

The middle term is computed in float64, with the constants as they are stored, so it needs no trust
in the rewrite.  The others are bounded by the declarations of the ops: each formula
(`Behavior.arithmetic`, `analytic`) runs on numbers that count what they round, composites by their
pieces, and what only copies or chooses elements rounds nothing.

    strict         carried along (`algebra.running_errors`); nothing is neglected
    first order    by the slopes of the output by every step (`algebra.first_order`)
    likely         the same, if roundings are independent and of mean 0; exceeded with a
                   probability below 4e-8 for one number

An engine computes as declared, one rounding for each operation and sums in any order, except that
functions of one operand of several steps, not all rational (a gelu), are granted what
`algebra.float_spans` does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import hypot, inf, isfinite
from typing import TYPE_CHECKING, Any, Generic, Protocol, Self, TypeVar

import numpy as np
from xdsl.dialects.builtin import Float32Type, ModuleOp, TensorType
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Attribute, Block, Operation, SSAValue

from qdialect.algebra.first_order import FirstOrder, Traced
from qdialect.algebra.float_spans import granted
from qdialect.algebra.running_errors import SLACK, Rounded
from qdialect.errors import QError
from qdialect.interpreter import Interpreter, argument_names
from qdialect.interpreter.kernels import KEPT_NODES
from qdialect.interpreter.machine import evaluate_op, output_names
from qdialect.ir.behaviors import Behavior
from qdialect.ir.behaviors.declaration import Expression
from qdialect.ir.behaviors.shapes import shape_of
from qdialect.ir.context import QContext
from qdialect.ir.ops.components import NoPiecesError
from qdialect.ir.quant import element_type
from qdialect.passes.lowering.lower_composites import plan_pieces

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]
    Arrays = Mapping[str, Array]

Program = tuple[ModuleOp, QContext]
"""A module and its session."""

ELEMENTS = 8
"""Of how many elements of an output the slopes are taken, where nobody says."""
MOST_PRODUCTS = 2**33
"""Of how many products a model may consist: all steps are kept."""
_DEVIATIONS = 6.0


class NoBoundError(Exception):
    """Why there is no bound."""


class Number(Protocol):
    """Arrays that count what float32 rounds."""

    value: NDArray[np.float64]

    @staticmethod
    def exactly(values: Any) -> Any:
        """Numbers that are known."""
        ...

    @staticmethod
    def of_monotone(function: Callable[[Sequence[Any]], Any], operands: Sequence[Any]) -> Any:
        """A function that copies or chooses elements."""
        ...

    @property
    def is_exact(self) -> bool:
        """Whether nothing was rounded."""
        ...

    def clip(self, low: float, high: float) -> Self:
        """min(max(x, low), high)"""
        ...

    def widened(self, by: Any) -> Self:
        """Float32 may be further off by so much."""
        ...

    def reshape(self, *shape: int) -> Self:
        """The same elements."""
        ...


N = TypeVar("N", bound=Number)


@dataclass(frozen=True)
class FloatBound:
    """Of one output, how far two models can be apart in float32 on a sample, in real units:
    `strict` for all its elements (infinite where there is no bound), the others for `elements` of
    them. `largest` is the largest number in it."""

    output: str
    strict: float
    first_order: float
    likely: float
    largest: float
    elements: int

    def relative(self, bound: float) -> float:
        """A bound over the largest number of the output."""
        return bound / self.largest if self.largest > 0 else inf

    def as_json(self) -> dict[str, Any]:
        """As plain data, over the largest number of the output; None is no bound."""
        numbers = {
            "strict": self.relative(self.strict),
            "first_order": self.relative(self.first_order),
            "likely": self.relative(self.likely),
            "largest": self.largest,
        }
        finite = {name: number if isfinite(number) else None for name, number in numbers.items()}
        return {"output": self.output, **finite, "elements": self.elements}


def worst(bounds: Iterable[FloatBound]) -> FloatBound:
    """The bound of the output of which most may be lost."""
    return max(bounds, key=lambda each: each.relative(each.first_order))


def float_bounds(
    before: Program, after: Program, sample: Arrays, elements: int = ELEMENTS
) -> Sequence[FloatBound]:
    """A bound for each float output, the latter two of so many elements (that where the programs
    are furthest apart, others evenly spread); NoBoundError where there is none."""
    names = output_names(Interpreter(before[1], before[0]).function())
    try:
        strict = [_outputs(Rounded, *each, sample) for each in (before, after)]
        pairs = [
            _Pair(number, name, first, second, elements)
            for number, (name, first, second) in enumerate(zip(names, *strict, strict=True))
            if isinstance(first, Rounded) and isinstance(second, Rounded) and first.value.size
        ]
        # One after the other: all steps of a program are kept until its slopes are known.
        sides = [_first_order(each, sample, pairs) for each in (before, after)]
    except (QError, NoPiecesError, ValueError) as error:
        raise NoBoundError(str(error)) from None
    if not pairs:
        raise NoBoundError("no output is floats")
    return [pair.bound(*each) for pair, *each in zip(pairs, *sides, strict=True)]


class _Pair:
    """One output of both programs."""

    def __init__(self, number: int, name: str, first: Rounded, second: Rounded, count: int) -> None:
        apart = np.abs(first.value - second.value).reshape(-1) * SLACK
        self.apart = np.where(np.isnan(apart), inf, apart)
        self.elements = _evenly(self.apart, count)
        self.number = number
        self._name = name
        self._largest = float(np.abs(first.value).max())
        strict = first.bound.reshape(-1) + second.bound.reshape(-1) + self.apart
        self._strict = inf if np.isnan(strict).any() else float(strict.max())

    def bound(self, first: Sequence[FirstOrder], second: Sequence[FirstOrder]) -> FloatBound:
        """The bound, by what is known of each of the elements in both."""
        bound = likely = 0.0
        for element, a, b in zip(self.elements, first, second, strict=True):
            apart = float(self.apart[element])
            bound = max(bound, a.bound + b.bound + apart)
            likely = max(likely, _DEVIATIONS * hypot(a.deviation, b.deviation) + apart)
        return FloatBound(
            self._name, self._strict, bound, min(likely, bound), self._largest, len(self.elements)
        )


def _first_order(
    program: Program, sample: Arrays, pairs: Sequence[_Pair]
) -> Sequence[Sequence[FirstOrder]]:
    outputs = _outputs(Traced, *program, sample)
    found: list[Sequence[FirstOrder]] = []
    for pair in pairs:
        output = outputs[pair.number]
        assert isinstance(output, Traced)
        found.append([output.error_of(element) for element in pair.elements])
    return found


def _evenly(apart: NDArray[np.float64], count: int) -> Sequence[int]:
    """Elements spread evenly, with that where two models are furthest apart."""
    count = min(count, apart.size)
    spread = np.linspace(0, apart.size - 1, count).astype(int).tolist()
    return spread if count == apart.size else [int(apart.argmax()), *spread[1:]]


def _outputs(kind: type[N], module: ModuleOp, ctx: QContext, sample: Arrays) -> Sequence[N | Array]:
    """What a model makes of a sample; NoBoundError."""
    function = Interpreter(ctx, module).function()
    block, run = function.body.block, _Run(kind, ctx)
    for name, argument in zip(argument_names(function), block.args, strict=True):
        run.values[argument] = run.known(sample[name], argument)
    with np.errstate(all="ignore"):
        run.all(block.ops)
    last = block.last_op
    assert isinstance(last, ReturnOp)
    return [run.values[value] for value in last.operands]


class _Run(Generic[N]):
    """The values of a program so far: of floats numbers of a kind, of others arrays."""

    def __init__(self, kind: type[N], ctx: QContext) -> None:
        self.values: dict[SSAValue, N | Array] = {}
        self._kind, self._ctx, self._products = kind, ctx, 0

    def all(self, ops: Iterable[Operation]) -> None:
        """Run ops one after the other."""
        for op in ops:
            if not isinstance(op, ReturnOp):
                results = self._results(op, [self.values[value] for value in op.operands])
                self.values.update(zip(op.results, results, strict=True))

    def known(self, array: Array, value: SSAValue) -> N | Array:
        """An array without error."""
        if array.dtype.kind != "f":
            return array
        if not isinstance(element_type(value.type), Float32Type):
            raise NoBoundError(f"floats of type {element_type(value.type)} have no bound")
        return self._kind.exactly(array)

    def _results(self, op: Operation, operands: Sequence[N | Array]) -> Sequence[N | Array]:
        plain = [_array(each) for each in operands]
        results = self._evaluated(op, plain)
        floats = {n: each for n, each in enumerate(operands) if not isinstance(each, np.ndarray)}
        if not floats:
            return [self.known(*each) for each in zip(results, op.results, strict=True)]
        behavior = self._ctx.behaviors.get(op)
        if behavior is not None and all(array.dtype.kind == "f" for array in results):
            if behavior.commutes:
                return self._copied(op, behavior, plain, floats)
            found = self._computed(_with_shapes(op, plain, results), behavior, operands)
            if found is not None:
                return found
        if all(each.is_exact for each in floats.values()) and not behavior:
            return [self.known(*each) for each in zip(results, op.results, strict=True)]
        if all(each.is_exact for each in floats.values()) and results[0].dtype.kind != "f":
            return results
        raise NoBoundError(f"nothing says what '{op.name}' rounds")

    def _evaluated(self, op: Operation, operands: Sequence[Array]) -> Sequence[Array]:
        if op.name not in KEPT_NODES:
            found = evaluate_op(op, operands, self._ctx, "real")
        else:  # these take floats of their own type
            floats = [x.astype("f4") if x.dtype == np.float64 else x for x in operands]
            found = evaluate_op(op, floats, self._ctx, functions=KEPT_NODES)
        return [np.asarray(array) for array in found]

    def _copied(
        self, op: Operation, behavior: Behavior, plain: Sequence[Array], floats: Mapping[int, N]
    ) -> Sequence[N]:
        """The results of an op that copies or chooses elements."""
        if behavior.clamp is not None:
            return [floats[0].clip(*behavior.clamp(op))]

        def result(number: int) -> Callable[[Sequence[Array]], Array]:
            def function(arrays: Sequence[Array]) -> Array:
                taken = list(plain)
                for place, array in zip(floats, arrays, strict=True):
                    taken[place] = array
                return self._evaluated(op, taken)[number]

            return function

        operands = [*floats.values()]
        return [self._kind.of_monotone(result(n), operands) for n in range(len(op.results))]

    def _computed(
        self, op: Operation, behavior: Behavior, operands: Sequence[N | Array]
    ) -> Sequence[N | Array] | None:
        """The results by the formula of an op, or by its pieces; None if it has neither."""
        if behavior.work is not None:
            self._products += behavior.work(op)
            if self._products > MOST_PRODUCTS:
                raise NoBoundError("the model is too large")
        formula = behavior.arithmetic or behavior.analytic
        if formula is not None:
            found: N = formula(op, operands)
            found = found.reshape(*shape_of(op.results[0]))
            if behavior.arithmetic is None and not _is_one_step(op, formula):
                found = found.widened(granted(found.value, _array(operands[0])))
            return [found]
        components = self._ctx.components.get(op.name)
        if components is None or not components.roles_of(op):
            return None
        plan = plan_pieces(op, components, self._ctx, {})
        pieces = _Run(self._kind, self._ctx)
        pieces.values.update(zip(op.operands, operands, strict=True))
        pieces.all(plan.ops)
        return [pieces.values[value] for value in plan.results]


def _array(number: Number | Array) -> Array:
    return number if isinstance(number, np.ndarray) else number.value


def _is_one_step(op: Operation, formula: Expression) -> bool:
    x = Traced.exactly(np.ones(1))
    return [parent for parent, _ in formula(op, [x]).parents] == [x]


def _with_shapes(op: Operation, operands: Sequence[Array], results: Sequence[Array]) -> Operation:
    """An op of the same kind whose types say the shapes of arrays."""

    def types(values: Sequence[SSAValue], arrays: Sequence[Array]) -> list[Attribute]:
        pairs = zip(values, arrays, strict=True)
        return [TensorType(element_type(value.type), array.shape) for value, array in pairs]

    block = Block(arg_types=types(op.operands, operands))
    copy = type(op).create(
        operands=block.args,
        result_types=types(op.results, results),
        properties=op.properties,
        attributes=op.attributes,
    )
    block.add_op(copy)
    return copy

"""Compare the results of a program before and after rewrites, in the reference interpreter.

Exact rewrites must not change one bit. The error bound of each result (`rewrite.summary`) limits
what other rewrites may change; where there is no bound, because a rewrite dropped a clip or changed
qparams, the difference is reported only.

Contracts compare exact arithmetic. Floats rounded at every op put about one element in a thousand
on the other side of a tie, so inputs on which results differ too much run again in reals. The
interpreter stores reals in 64 bits. Where a program computes floats and quantizes them, a tie (a
leaky relu of slope 0.01 on code -50) may still be on either side, and what follows may make many
steps of that one. So both programs run again with such ties on other sides (`_Sides`), and what an
element may be is all that these runs give.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from math import isinf
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.traits import ConstantLike
from xdsl.utils.test_value import create_ssa_value

from qdialect.analysis.float_regions import is_float
from qdialect.errors import UnsupportedError
from qdialect.interpreter import Difference, Interpreter, compare_all, evaluate_op, random_inputs
from qdialect.interpreter.casts import qcast
from qdialect.interpreter.quantize import load
from qdialect.interpreter.values import Evaluation, Floats, declared_shape
from qdialect.ir.context import QContext
from qdialect.ir.quant import ROUNDING_KEY, DCastOp, QCastOp, quant_element
from qdialect.passes.casts.fold_interface import ROUNDING
from qdialect.rewrite.remarks import OutputBound

Arrays = Sequence[NDArray[Any]]


@dataclass(frozen=True)
class Compared:
    """A result of a function, the worst over all inputs, and the inputs it was found on."""

    bound: OutputBound
    worst: Difference
    inputs: Arrays
    #: whether the results are compared as floats, whatever the function gives now
    floats: bool = False
    #: what float arithmetic may do besides, in real units
    slack: float = 0.0

    @property
    def _in_reals(self) -> bool:
        return isinf(self.bound.steps) or (self.floats and self.bound.real + self.slack > 0)

    @property
    def allowed(self) -> float:
        """In quantization steps; in real units for floats."""
        return self.bound.real if self._in_reals else self.bound.steps

    @property
    def is_wrong(self) -> bool:
        """Whether the rewrites do not allow the difference."""
        found = self.worst.max_abs if self._in_reals else self.worst.max_steps
        return found > self.allowed * (1 + 2.0**-20) + (self.slack if self._in_reals else 0.0)


def drawn(function: FuncOp, samples: int, dynamic: int = 1) -> list[Arrays]:
    """Random inputs; half of the values of every other sample are at boundaries, and unknown
    extents are `dynamic`."""
    kinds = function.function_type.inputs.data
    shapes = [tuple(dynamic if n < 0 else n for n in declared_shape(kind)) for kind in kinds]
    return [
        random_inputs(function, seed, boundary=seed % 2 == 1, shapes=shapes)
        for seed in range(samples)
    ]


def compared(
    ctx: QContext,
    before: ModuleOp,
    after: ModuleOp,
    function: FuncOp,
    bounds: Sequence[OutputBound],
    inputs: Sequence[Arrays],
) -> list[Compared]:
    """Every result of `function`, which is that of `after`, on some inputs.

    Inputs with a result that is wrong in IEEE floats run again in reals, each element as near to
    what it was as ties that 64 bits cannot tell allow."""
    found = _compared(ctx, before, after, function, bounds, inputs, "ieee")
    if not any(one.is_wrong for one in found):
        return found
    wrong = list({id(one.inputs): one.inputs for one in found if one.is_wrong}.values())
    return _compared(ctx, before, after, function, bounds, wrong, "real")


def _compared(
    ctx: QContext,
    before: ModuleOp,
    after: ModuleOp,
    function: FuncOp,
    bounds: Sequence[OutputBound],
    inputs: Sequence[Arrays],
    floats: Floats,
) -> list[Compared]:
    symbol = function.sym_name.data
    first, second = (Interpreter(ctx, module, floats=floats) for module in (before, after))
    old = first.function(symbol).function_type
    gives = list(zip(old.outputs.data, function.function_type.outputs.data, strict=True))
    found: list[Compared] = []
    decided = floats == "real" and _computes_floats(before)
    for arrays in inputs:
        given = across(ctx, arrays, old.inputs.data, function, floats)

        def run_first(arrays: Arrays = arrays) -> list[NDArray[Any]]:
            return first.run(list(arrays), symbol)

        def run_second(given: Arrays = given) -> list[NDArray[Any]]:
            # Judged as the interface was; the types come the other way round.
            pairs = zip(second.run(list(given), symbol), gives, strict=True)
            return [converted(ctx, y, b, a, floats=floats) for y, (a, b) in pairs]

        references, results = [run_first()], [run_second()]
        if decided:
            references += _on_other_sides(first, run_first, references[0])
            results += _on_other_sides(second, run_second, results[0])
        nearest = [
            _nearest([r[i] for r in references], [r[i] for r in results], kind)
            for i, kind in enumerate(old.outputs.data)
        ]
        kinds = old.outputs.data
        each = compare_all([a for a, _ in nearest], [b for _, b in nearest], kinds)
        slack = [_slack(a) if floats == "real" else 0.0 for a in references[0]]
        for index, difference in enumerate(each):
            in_floats = references[0][index].dtype.kind == "f"
            one = Compared(bounds[index], difference, arrays, in_floats, slack[index])
            if index == len(found):
                found.append(one)
            elif _is_worse(one, found[index]):
                found[index] = one
    return found


def _is_worse(one: Compared, known: Compared) -> bool:
    if one.is_wrong != known.is_wrong:
        return one.is_wrong
    steps = one.worst.max_steps, known.worst.max_steps
    return steps[0] > steps[1] or (known.worst.is_equal and not one.worst.is_equal)


def _computes_floats(module: ModuleOp) -> bool:
    """Whether an op, casts and constants left out, has a float result."""
    kinds = (DCastOp, QCastOp)
    return any(
        is_float(value.type)
        for op in module.walk()
        if not isinstance(op, kinds) and not op.has_trait(ConstantLike, value_if_unregistered=False)
        for value in op.results
    )


@dataclass
class _Sides:
    """A quantize that puts what is within 2^-30 of a tie on a side of it: away from zero, towards
    it, or for each element on one that is drawn."""

    draw: Callable[[tuple[int, ...]], NDArray[Any] | float]

    def __call__(
        self, op: Operation, operands: Sequence[NDArray[Any]], evaluation: Evaluation
    ) -> list[NDArray[Any]]:
        values = operands[0]
        return qcast(op, [values * (1 + self.draw(values.shape) * _NEAR)], evaluation)


_NEAR = 2.0**-30
"""Relative: what the roundings of many ops to 64 bits stay far below."""

_DRAWN = 6
"""Runs with a side drawn for each element, besides those with all on one side."""


def _on_other_sides(
    interpreter: Interpreter, run: Callable[[], list[NDArray[Any]]], known: Arrays
) -> list[list[NDArray[Any]]]:
    """What `run`, which uses `interpreter`, gives with ties on other sides, where that is
    something else than `known`."""
    rng, kernel = np.random.default_rng(0), interpreter.kernels[QCastOp.name]
    ways = [_Sides(lambda shape: 1.0), _Sides(lambda shape: -1.0)]
    ways += [_Sides(lambda shape: rng.choice([-1.0, 1.0], shape))] * _DRAWN
    found: list[list[NDArray[Any]]] = []
    for number, interpreter.kernels[QCastOp.name] in enumerate(ways):
        if number == 2 and not found:
            break
        results = run()
        if not all(np.array_equal(a, b) for a, b in zip(results, known, strict=True)):
            found.append(results)
    interpreter.kernels[QCastOp.name] = kernel
    return found


def _nearest(
    references: Arrays, results: Arrays, kind: Attribute
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Element by element, those of any of `references` and of `results` that are nearest to each
    other; the first ones where all are as near."""
    a, b = references[0], results[0]
    if len(references) == len(results) == 1 or a.dtype.kind not in "fiub":
        return a, b
    with np.errstate(all="ignore"):
        least = np.abs(load(a, kind).approx - load(b, kind).approx)
        for one, other in product(references, results):
            distance = np.abs(load(one, kind).approx - load(other, kind).approx)
            nearer = distance < least
            a, b = np.where(nearer, one, a), np.where(nearer, other, b)
            least = np.where(nearer, distance, least)
    return a, b


def _slack(array: NDArray[Any]) -> float:
    """What rounding each op to 64 bits may do to reals that are not codes, in real units."""
    if array.dtype.kind != "f":
        return 0.0
    finite = np.abs(array[np.isfinite(array)])
    return float(finite.max(initial=0.0)) * _NEAR


def across(
    ctx: QContext,
    inputs: Arrays,
    types: Sequence[Attribute],
    function: FuncOp,
    floats: Floats = "ieee",
) -> list[NDArray[Any]]:
    """Inputs of `types` as `function` takes them."""
    takes = function.function_type.inputs.data
    notes = function.arg_attrs or [None] * len(takes)
    roundings = [note.data.get(ROUNDING) if note else None for note in notes]
    return [
        converted(ctx, array, source, target, rounding=how, floats=floats)
        for array, source, target, how in zip(inputs, types, takes, roundings, strict=True)
    ]


def converted(
    ctx: QContext,
    array: NDArray[Any],
    source: Attribute,
    target: Attribute,
    *,
    rounding: Attribute | None = None,
    floats: Floats = "ieee",
) -> NDArray[Any]:
    """A value across an interface that a pass changed between floats and codes, with
    the rounding it recorded (default: half to even)."""
    if source == target:
        return array
    value: SSAValue = create_ssa_value(source)
    if quant_element(source) is None and quant_element(target) is not None:
        cast: Operation = QCastOp(value, target)
        if rounding is not None:
            cast.attributes[ROUNDING_KEY] = rounding
    elif quant_element(source) is not None and quant_element(target) is None:
        cast = DCastOp(value, target)
    else:
        raise UnsupportedError(f"the pass changed {source} to {target} at the interface")
    return evaluate_op(cast, [array], ctx, floats)[0]

"""Compare the results of a program before and after rewrites, in the reference interpreter.

Exact rewrites must not change one bit. The error bound of each result (`rewrite.summary`) limits
what other rewrites may change; where there is no bound, because a rewrite dropped a clip or changed
qparams, the difference is reported only.

Contracts compare exact arithmetic. Floats rounded at every op put about one element in a thousand
on the other side of a tie, so inputs on which results differ too much run again in reals. The
interpreter stores reals in 64 bits: where they are quantized, a tie (a leaky relu of slope 0.01 on
code -50) may still be on either side, so one step is no error in a program that computes floats (of
a float result: one step of what the program quantizes).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isinf
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.traits import ConstantLike
from xdsl.utils.test_value import create_ssa_value

from qdialect.analysis.codes import qparams_of
from qdialect.analysis.float_regions import is_float
from qdialect.analysis.functions import is_private
from qdialect.context import QContext
from qdialect.errors import UnsupportedError
from qdialect.passes.casts.fold_interface import ROUNDING
from qdialect.quant import ROUNDING_KEY, DCastOp, QCastOp, quant_element
from qdialect.reference import Difference, Interpreter, compare_all, evaluate_op, random_inputs
from qdialect.reference.values import Floats
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
    #: what float arithmetic may do besides, in real units, and to codes
    slack: float = 0.0
    doubt: float = 0.0

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
        doubt = self.slack if self._in_reals else self.doubt
        return found > self.allowed * (1 + 2.0**-20) + doubt


def follows_calls(before: FuncOp, after: FuncOp) -> bool:
    """Whether a private function takes or gives other types than before, as all its calls do:
    it is compared through what calls it."""
    return is_private(after) and before.function_type != after.function_type


def drawn(function: FuncOp, samples: int, dynamic: int = 1) -> list[Arrays]:
    """Random inputs; those of every other sample are half values at boundaries, unknown
    extents are `dynamic`."""
    return [
        random_inputs(function, seed, boundary=seed % 2 == 1, dynamic=dynamic)
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

    Inputs with a result that is wrong in IEEE floats run again in reals."""
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
    step = _largest_step(before)
    for arrays in inputs:
        reference = first.run(list(arrays), symbol)
        results = second.run(across(ctx, arrays, old.inputs.data, function, floats), symbol)
        # Judged as the interface was; the types come the other way round.
        pairs = zip(results, gives, strict=True)
        results = [converted(ctx, y, b, a, floats=floats) for y, (a, b) in pairs]
        each = compare_all(reference, results, old.outputs.data)
        doubt = 1.0 if floats == "real" and _computes_floats(before) else 0.0
        slack = [_slack(array, doubt * step) if floats == "real" else 0.0 for array in reference]
        for index, difference in enumerate(each):
            in_floats = reference[index].dtype.kind == "f"
            one = Compared(bounds[index], difference, arrays, in_floats, slack[index], doubt)
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


def _largest_step(module: ModuleOp) -> float:
    """The largest step of what casts quantize, in real units."""
    casts = (qparams_of(op.result) for op in module.walk() if isinstance(op, QCastOp))
    return max((max(qparams.scale_list()) for qparams in casts if qparams), default=0.0)


def _slack(array: NDArray[Any], step: float) -> float:
    """What rounding each op to 64 bits, and one tie to another `step`, may do to reals that are
    not codes, in real units."""
    if array.dtype.kind != "f":
        return 0.0
    finite = np.abs(array[np.isfinite(array)])
    return float(finite.max(initial=0.0)) * 2.0**-30 + step


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

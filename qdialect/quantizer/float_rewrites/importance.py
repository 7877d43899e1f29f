"""How much of the noise in a value comes out of a model: what its rounding is worth.

Noise of one power over the signal does not count alike everywhere: thirty layers make more of what
the first rounds than of what the last does, a residual sum drowns a small branch, and a channel
that a softmax decides by is worth more than one that it does not.  So it is tried: results of ops
get white noise of 1e-4 of their power, one after the other, and

    importance = (noise / signal of the outputs) / (noise / signal of the value)

is what comes out, of the output where that is most.  Of `MOST` results, evenly spread over the
program, it is measured, and in between its logarithm is interpolated along the program.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Operation, SSAValue

from qdialect.interpreter import Interpreter, argument_names
from qdialect.interpreter.machine import ARGUMENT_NAME
from qdialect.interpreter.values import runtime_dtype
from qdialect.ir.behaviors.shapes import DYNAMIC
from qdialect.ir.context import QContext
from qdialect.ir.dialects.interface import DIMS
from qdialect.ir.ops import AddOp, shape_of
from qdialect.quantizer.profile.engines import Engine, open_engine
from qdialect.quantizer.profile.instrument import Instrumented, Observed
from qdialect.quantizer.values import float_value, is_constant

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Arrays = Mapping[str, NDArray[Any]]
    Array = NDArray[np.float64]

MOST = 32
"""Results at most that get noise."""
SAMPLES = 2
"""Samples that it is tried on, at most."""
DEVIATION = 1e-2
"""Of the noise, over the root of the mean square of the value."""
_LEAST = 1e-12


def importances(
    module: ModuleOp,
    ctx: QContext,
    powers: Mapping[int, float],
    samples: Sequence[Arrays],
    engine: str,
) -> Mapping[int, float]:
    """The importance of float results by their number in the function, of those whose mean square
    is in `powers`; empty where no output is floats. `module` stays as it is."""
    clone = module.clone()
    function = Interpreter(ctx, clone).function()
    block = function.body.block
    values = [*block.args, *(result for op in block.ops for result in op.results)]
    computed = [n for n, value in enumerate(values) if powers.get(n) and _fits(value, ctx)]
    few = min(MOST, len(computed))
    chosen = [computed[n * len(computed) // few] for n in range(few)]
    names = argument_names(function)
    for number in chosen:
        _add_argument(function, values[number])
    noisy = {f"noise {number}": values[number] for number in chosen}
    _name_arguments(function, [*names, *noisy])
    last = block.last_op
    assert isinstance(last, ReturnOp)
    plan = Instrumented(clone, function)
    for number, value in enumerate(dict.fromkeys(last.operands)):
        if float_value(value) and isinstance(value.owner, Operation) and not is_constant(value):
            plan.observed.append(Observed((str(number),), value))
    if not chosen or not plan.observed or not samples:
        return {}
    zeros = {name: np.zeros(shape_of(v), runtime_dtype(v.type)) for name, v in noisy.items()}
    sizes = {f"noise {number}": DEVIATION * powers[number] ** 0.5 for number in chosen}
    running = open_engine(engine, plan, ctx)
    tried = [_tried(running, {**sample, **zeros}, sizes) for sample in samples[:SAMPLES]]
    logs: Array = np.log(np.maximum(np.mean(tried, axis=0), _LEAST))
    found: Array = np.exp(np.interp(computed, chosen, logs))
    return dict(zip(computed, found.tolist(), strict=True))


def _fits(value: SSAValue, ctx: QContext) -> bool:
    """Whether noise in a value counts: it is computed, not copied."""
    owner = value.owner
    behavior = ctx.behaviors.get(owner) if isinstance(owner, Operation) else None
    # What an op gives of which nothing is declared may have no rank.
    return behavior is not None and not behavior.commutes and DYNAMIC not in shape_of(value)


def _add_argument(function: FuncOp, value: SSAValue) -> None:
    block, owner = function.body.block, value.owner
    assert isinstance(owner, Operation)
    noise = block.insert_arg(value.type, len(block.args))
    total = AddOp(value, noise)
    block.insert_op_after(total, owner)
    value.replace_uses_with_if(total.results[0], lambda use: use.operation is not total)


def _name_arguments(function: FuncOp, names: Sequence[str]) -> None:
    function.update_function_type()
    notes = [DictionaryAttr({ARGUMENT_NAME: StringAttr(name)}) for name in names]
    function.arg_attrs = ArrayAttr(notes)
    function.attributes.pop(DIMS, None)


def _tried(running: Engine, inputs: Arrays, sizes: Mapping[str, float]) -> Sequence[float]:
    """The importance of each of the noisy values, on one sample, by the sizes of their noise."""
    random, found = np.random.default_rng(0), list[float]()
    before = {key: np.array(array, np.float64) for key, array in running.run(inputs)}
    for name, size in sizes.items():
        noise = random.normal(0, size, inputs[name].shape).astype(inputs[name].dtype)
        after = running.run({**inputs, name: noise})
        found.append(max(_noise(before[key], array) for key, array in after) / DEVIATION**2)
    return found


def _noise(before: Array, after: NDArray[Any]) -> float:
    """Noise over signal; 0 where it is no number."""
    signal, noise = float(np.square(before).sum()), float(np.square(after - before).sum())
    return noise / signal if signal > 0 and np.isfinite(noise / signal) else 0.0

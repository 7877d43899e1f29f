"""Running models in an engine and comparing what they answer."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import StringAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import SSAValue

from qdialect.engines.local import output_names
from qdialect.errors import InputError
from qdialect.ops import FlattenOp, ReshapeOp, SliceOp, TransposeOp
from qdialect.quant import DCastOp, quant_element

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qdialect.api import Model
    from qdialect.qparams import QParams

    Array = NDArray[Any]
    Run = Callable[[Mapping[str, Array]], dict[str, Array]]

Inputs = Mapping[str, "NDArray[Any]"]
Outputs = tuple[dict[str, "NDArray[Any]"], dict[str, "NDArray[Any]"]]
_MOVES = (ReshapeOp, FlattenOp, TransposeOp, SliceOp)


@dataclass(frozen=True)
class OutputDifference:
    """One output of two models: the worst over all inputs.

    `unit` says what `max_steps` counts: `steps` of the quantization behind the output,
    `units` of an integer, or `ulp` of a float with no quantization behind it.
    """

    name: str
    type: str
    unit: str
    max_steps: float
    max_abs: float
    share_differing: float
    sqnr_db: float


def open_engine(model: Model, engine: str, *, optimize: bool = False) -> Run:
    """A function from inputs to outputs, both by name.

    `optimize` lets ONNX Runtime rewrite the graph; without it the graph runs as written.
    """
    from qdialect.engines.installed import local_engine, require

    require(engine)
    local = local_engine(engine)
    if local is not None:
        return local.open(model.module, model.ctx, source=model.source, optimize=optimize)
    from qdialect.cli.engine_runs import open_program

    return open_program(model, engine)


def run_all(run: Run, samples: Sequence[Mapping[str, Array]]) -> Iterator[dict[str, Array]]:
    """Outputs sample by sample; an engine that compiles does so once."""
    from qdialect.cli.engine_runs import InEngine

    if isinstance(run, InEngine):
        yield from run.all(samples)
    else:
        yield from map(run, samples)


def drawn_inputs(function: FuncOp, samples: int) -> list[dict[str, Array]]:
    """Random inputs by name; every other one has many values at boundaries."""
    from qdialect.reference import argument_names, random_inputs

    arguments = argument_names(function)
    return [
        dict(zip(arguments, random_inputs(function, n, boundary=n % 2 == 1), strict=True))
        for n in range(samples)
    ]


def main_function(model: Model) -> FuncOp:
    """`main`, or the only function."""
    from qdialect.reference import Interpreter

    return Interpreter(model.ctx, model.module).function()


def compare_models(
    a: Model,
    b: Model,
    inputs: Mapping[str, Array] | None,
    *,
    samples: int,
    engine: str,
    other_engine: str | None = None,
    optimize: bool = False,
    watch: Callable[[Iterable[Outputs]], Iterable[Outputs]] = iter,
) -> list[OutputDifference]:
    """See `qdialect.api.diff`; `b` runs in `other_engine`, if given. `watch` sees the sample
    numbers go by."""
    reference, other = main_function(a), main_function(b)
    names = output_names(reference)
    if names != output_names(other):
        if len(names) != len(output_names(other)):
            raise InputError(
                f"the models have {len(names)} and {len(output_names(other))} outputs",
                code="not-comparable",
            )
        names = [str(index) for index in range(len(names))]
    runs = (
        open_engine(a, engine, optimize=optimize),
        open_engine(b, other_engine or engine, optimize=optimize),
    )
    given = [inputs] if inputs is not None else drawn_inputs(reference, samples)
    worst: list[OutputDifference] = []
    outputs = zip(*(run_all(run, given) for run in runs), strict=True)
    for one, other_one in watch(outputs):
        found = _compare(reference, names, list(one.values()), list(other_one.values()))
        worst = [_worse(x, y) for x, y in zip(worst, found, strict=True)] if worst else found
    return worst


def _worse(x: OutputDifference, y: OutputDifference) -> OutputDifference:
    return replace(
        x,
        max_steps=max(x.max_steps, y.max_steps),
        max_abs=max(x.max_abs, y.max_abs),
        share_differing=max(x.share_differing, y.share_differing),
        sqnr_db=min(x.sqnr_db, y.sqnr_db),
    )


def _compare(
    function: FuncOp, names: Sequence[str], a: Sequence[Array], b: Sequence[Array]
) -> list[OutputDifference]:
    from qdialect.reference import compare_all

    types = function.function_type.outputs.data
    terminator = function.body.block.last_op
    values = terminator.operands if isinstance(terminator, ReturnOp) else ()
    found: list[OutputDifference] = []
    for index, difference in enumerate(compare_all(a, b, types)):
        steps = difference.max_steps
        integer = a[index].dtype.kind in "iub"
        unit = "units" if integer else "ulp"
        if quant_element(types[index]) is not None:
            unit = "steps"
        elif not integer and (qparams := _quantization_behind(values[index])) is not None:
            unit = "steps"
            scale = float(qparams.scale_array().min())
            steps = difference.max_abs / scale if math.isfinite(difference.max_abs) else math.inf
        found.append(
            OutputDifference(
                names[index],
                str(types[index]),
                unit,
                steps,
                difference.max_abs,
                difference.share_differing,
                difference.sqnr_db,
            )
        )
    return found


def _quantization_behind(value: SSAValue) -> QParams | None:
    """The qparams a float output was dequantized from, through ops that only move it."""
    owner = value.owner
    while isinstance(owner, _MOVES):
        owner = owner.operands[0].owner
    if not isinstance(owner, DCastOp):
        return None
    element = quant_element(owner.input.type)
    return None if element is None else element.qparams


def argument_types(function: FuncOp) -> dict[str, str]:
    """Argument names and types as text."""
    from qdialect.reference import argument_names

    types = function.function_type.inputs.data
    return {n: str(t) for n, t in zip(argument_names(function), types, strict=True)}


def graph_name(function: FuncOp) -> str:
    """The name of a function for people."""
    given = function.attributes.get("onnx.graph")
    return given.data if isinstance(given, StringAttr) else function.sym_name.data

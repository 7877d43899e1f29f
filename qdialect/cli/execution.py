"""Running models in an engine and comparing what they answer."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

from xdsl.dialects.builtin import StringAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Operation, SSAValue

from qdialect.dialects.nn import FlattenOp, ReshapeOp, SliceOp, TransposeOp
from qdialect.dialects.onnx import RESULT_NAMES, NodeOp, string_list
from qdialect.dialects.quant import DCastOp, quant_element
from qdialect.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qdialect.api import Model
    from qdialect.interpreter import Evaluation
    from qdialect.qparams import QParams

    Array = NDArray[Any]
    Run = Callable[[Mapping[str, Array]], dict[str, Array]]

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
    if engine == "numpy":
        return _numpy(model)
    if engine == "onnxruntime":
        return _onnxruntime(model, optimize)
    from qdialect.cli.engine_runs import run_in

    return run_in(model, engine)


def main_function(model: Model) -> FuncOp:
    """`main`, or the only function."""
    from qdialect.interpreter import Interpreter

    return Interpreter(model.ctx, model.module).function()


def output_names(function: FuncOp) -> list[str]:
    """The names of the results: those of the imported model, or `result0`, `result1`, ..."""
    given = string_list(function.attributes.get(RESULT_NAMES))
    count = len(function.function_type.outputs)
    return given if len(given) == count else [f"result{i}" for i in range(count)]


def _numpy(model: Model) -> Run:
    from qdialect.interpreter import Interpreter

    interpreter = Interpreter(model.ctx, model.module, functions={NodeOp.name: kept_node})
    names = output_names(interpreter.function())

    def run(inputs: Mapping[str, Array]) -> dict[str, Array]:
        return dict(zip(names, interpreter.run(inputs), strict=True))

    return run


def kept_node(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> list[Array]:
    """The kernel of `onnx.node` for the interpreter."""
    from qdialect.backends.onnx import evaluate_node

    return evaluate_node(cast("NodeOp", op), operands, evaluation.ctx.blobs)


def _onnxruntime(model: Model, optimize: bool) -> Run:
    from qdialect.backends.onnx import OrtEngine, export_model

    if model.source is not None and model.source.suffix == ".onnx":
        engine = OrtEngine(model.source, optimize=optimize)
    else:
        engine = OrtEngine(export_model(model.module, model.ctx), optimize=optimize)

    def run(inputs: Mapping[str, Array]) -> dict[str, Array]:
        for name in inputs:
            if name not in engine.inputs:
                known = ", ".join(engine.inputs)
                raise InputError(f"no input '{name}' (inputs: {known})", code="bad-input")
        return engine.run(inputs)

    return run


def compare_models(
    a: Model,
    b: Model,
    inputs: Mapping[str, Array] | None,
    *,
    samples: int,
    engine: str,
    optimize: bool = False,
    watch: Callable[[Iterable[int]], Iterable[int]] = iter,
) -> list[OutputDifference]:
    """See `qdialect.api.diff`; `watch` sees the sample numbers go by."""
    from qdialect.interpreter import argument_names, random_inputs

    reference, other = main_function(a), main_function(b)
    names = output_names(reference)
    if names != output_names(other):
        if len(names) != len(output_names(other)):
            raise InputError(
                f"the models have {len(names)} and {len(output_names(other))} outputs",
                code="not-comparable",
            )
        names = [str(index) for index in range(len(names))]
    run_a = open_engine(a, engine, optimize=optimize)
    run_b = open_engine(b, engine, optimize=optimize)
    arguments = argument_names(reference)
    worst: list[OutputDifference] = []
    for seed in watch(range(1 if inputs is not None else samples)):
        given = inputs
        if given is None:
            drawn = random_inputs(reference, seed, boundary=seed % 2 == 1)
            given = dict(zip(arguments, drawn, strict=True))
        outputs = list(run_a(given).values()), list(run_b(given).values())
        found = _compare(reference, names, *outputs)
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
    from qdialect.interpreter import compare_all

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
    from qdialect.interpreter import argument_names

    types = function.function_type.inputs.data
    return {n: str(t) for n, t in zip(argument_names(function), types, strict=True)}


def graph_name(function: FuncOp) -> str:
    """The name of a function for people."""
    given = function.attributes.get("onnx.graph")
    return given.data if isinstance(given, StringAttr) else function.sym_name.data

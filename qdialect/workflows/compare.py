"""Comparing the outputs of two models, or of one model in two engines."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import SSAValue

from qdialect.errors import InputError
from qdialect.interpreter import argument_names, output_names
from qdialect.ir.ops import FlattenOp, ReshapeOp, SliceOp, TransposeOp
from qdialect.ir.quant import DCastOp, quant_element
from qdialect.workflows.inputs import drawn_inputs
from qdialect.workflows.inspect import type_text
from qdialect.workflows.run import open_engine, run_all

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qdialect.algebra.qparams import QParams
    from qdialect.workflows.model import Model

    Array = NDArray[Any]

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


class Differences(list[OutputDifference]):
    """How far outputs are apart, one entry for each."""

    def _repr_html_(self) -> str:
        from qdialect.report.notebook import table_html

        return table_html("differences of outputs", difference_rows(self))


def difference_rows(found: Sequence[OutputDifference]) -> list[tuple[str, ...]]:
    """How far outputs are apart, in words, under a heading."""
    rows: list[tuple[str, ...]] = [
        ("output", "type", "max", "unit", "max abs", "differing", "SQNR")
    ]
    rows += [
        (
            output.name,
            type_text(output.type),
            f"{output.max_steps:.4g}",
            output.unit,
            f"{output.max_abs:.4g}",
            f"{output.share_differing:.4%}",
            f"{output.sqnr_db:.1f} dB",
        )
        for output in found
    ]
    return rows


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
    """See `qdialect.api.diff`; `b` runs in `other_engine`, if that is not None. `watch` gets the
    outputs sample by sample and hands them on."""
    reference, other = a.function(), b.function()
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
    given = [inputs] if inputs is not None else drawn_inputs(a, samples, runs[0], [b])
    others = [
        _by_position(arrays, argument_names(reference), argument_names(other)) for arrays in given
    ]
    worst: list[OutputDifference] = []
    outputs = zip(run_all(runs[0], given), run_all(runs[1], others), strict=True)
    for one, other_one in watch(outputs):
        found = _compare(reference, names, list(one.values()), list(other_one.values()))
        worst = [_worse(x, y) for x, y in zip(worst, found, strict=True)] if worst else found
    return worst


def _by_position(arrays: Inputs, names: Sequence[str], others: Sequence[str]) -> Inputs:
    """The same arrays for a model whose inputs have other names, as converters give them."""
    if set(names) == set(others) or len(names) != len(others) or set(arrays) != set(names):
        return arrays
    return {other: arrays[name] for name, other in zip(names, others, strict=True)}


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

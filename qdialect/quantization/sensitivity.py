"""Which ops lose most: the model with one op quantized at a time, against the float model.

    sensitivity of an op = SQNR of the model's float outputs, only that op quantized

Ops that move elements or pick them lose nothing by themselves and are not ranked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import ModuleOp

from qdialect.context import QContext
from qdialect.ops import keys_of
from qdialect.profile.record import Profile
from qdialect.quantization.emission import emit
from qdialect.quantization.grids import assign
from qdialect.quantization.recipe import Recipe
from qdialect.quantization.search import sqnr
from qdialect.quantization.selection import Selection, select
from qdialect.quantization.values import Values
from qdialect.reference import Interpreter

if TYPE_CHECKING:
    from qdialect.quantization.search import Arrays, OpenRun


@dataclass(frozen=True)
class Sensitivity:
    """An op by key and the SQNR of the model, in dB, when only that op is quantized."""

    key: str
    op: str
    sqnr: float


def rank(
    module: ModuleOp,
    ctx: QContext,
    profile: Profile,
    recipe: Recipe,
    samples: Sequence[Arrays],
    open_run: OpenRun,
    watch: Callable[[Iterable[int]], Iterable[int]] = lambda numbers: numbers,
) -> list[Sensitivity]:
    """The ops that would be quantized, the most sensitive first; ties in program order."""
    whole = select(Values(Interpreter(ctx, module).function(), ctx, profile, recipe))
    assign(whole)
    places = {op: number for number, op in enumerate(whole.values.block.ops)}
    chosen = [op for op, behavior in whole.ops.items() if not behavior.commutes and keys_of(op)]
    if not chosen:
        return []
    run = open_run(module)
    expected = [run(sample) for sample in samples]
    found: list[Sensitivity] = []
    for number in watch(range(len(chosen))):
        op = chosen[number]
        clone = module.clone()
        values = Values(Interpreter(ctx, clone).function(), ctx, profile, recipe)
        cloned = list(values.block.ops)[places[op]]
        alone = Selection(values)
        alone.ops[cloned] = whole.ops[op]
        emit(alone, assign(alone))
        quantized = open_run(clone)
        actual = [quantized(sample) for sample in samples]
        found.append(Sensitivity(keys_of(op)[0], op.name, sqnr(expected, actual)))
    return sorted(found, key=lambda entry: entry.sqnr)

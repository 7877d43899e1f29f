"""What the quantization of each op alone does to the outputs: measured, on samples.

    loss of an op = noise power / signal power of the outputs, only that op quantized

A ratio, not dB: small noises of several ops are nearly independent, so their powers add.  An op
that is quantized alone has the qparams that it has among the others: its operands, constants and
results are rounded, and nothing else is.

What is above an op does not change. So the float model is cut into parts (`parts`), run once, and
all values that cross are kept; for an op only its own part is made again, with casts around that
op, and of the parts below those are run that read something which changed.  A model of n ops in k
parts opens n sessions of n/k ops each, not n of n.

Ops that move elements or pick them lose nothing by themselves and are not measured.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from qdialect.context import QContext
from qdialect.ops import ConstantOp, keys_of
from qdialect.profile.ranges import Range
from qdialect.profile.record import Profile
from qdialect.quantization.emission import emit
from qdialect.quantization.grids import Grids, assign
from qdialect.quantization.parts import Part, Parts, split
from qdialect.quantization.recipe import Recipe
from qdialect.quantization.selection import Selection, select
from qdialect.quantization.values import Values
from qdialect.reference import Interpreter

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qdialect.quantization.search import Arrays, OpenRun, Run

    Environment = dict[int, NDArray[Any]]

Judge = Callable[[Sequence["Arrays"], Sequence["Arrays"]], float]
"""Of outputs of the float model and of another on the same samples: noise over signal."""


@dataclass(frozen=True)
class Sensitivity:
    """An op by key, and its loss: noise over signal of the outputs when only it is quantized."""

    key: str
    op: str
    loss: float

    @property
    def sqnr(self) -> float:
        """The same in dB."""
        return -10 * math.log10(self.loss) if self.loss > 0 else math.inf


def worst_noise(expected: Sequence[Arrays], actual: Sequence[Arrays]) -> float:
    """Noise power over signal power over all samples, of the float output where that is largest;
    infinite where an output without signal has noise, or noise is no number."""
    worst = 0.0
    for name in expected[0] if expected else ():
        signal = noise = 0.0
        for one, other in zip(expected, actual, strict=True):
            if one[name].dtype.kind != "f":
                continue
            real = one[name].astype("f8")
            signal += float((real**2).sum())
            noise += float(((real - other[name]) ** 2).sum())
        if noise != 0:
            worst = max(worst, noise / signal if signal and math.isfinite(noise) else math.inf)
    return worst


@dataclass
class Measurement:
    """The parts of a float model, opened, and their values on the samples.

    `module` is prepared as for quantization, and stays as it is; `judge` says how far outputs are
    off.  What is measured depends on nothing but these, so that several processes may each measure
    some of `candidates`.
    """

    module: ModuleOp
    ctx: QContext
    profile: Profile
    recipe: Recipe
    samples: Sequence[Arrays]
    open_run: OpenRun
    judge: Judge = worst_noise
    _runs: list[Run] = field(default_factory=list["Run"], init=False)
    _known: list[Environment] = field(default_factory=list["Environment"], init=False)

    def __post_init__(self) -> None:
        function = Interpreter(self.ctx, self.module).function()
        self._whole = select(Values(function, self.ctx, self.profile, self.recipe))
        self._grids = assign(self._whole)
        self._chosen = {
            keys_of(op)[0]: op
            for op, behavior in self._whole.ops.items()
            if not behavior.commutes and keys_of(op)
        }
        count = sum(not isinstance(op, ConstantOp) for op in function.body.block.ops)
        self._parts: Parts = split(function, max(round(math.sqrt(count)), 1))
        self._values = {number: value for value, number in self._parts.numbers.items()}

    @property
    def candidates(self) -> Sequence[str]:
        """The keys of the ops that would be quantized, in program order."""
        return list(self._chosen)

    def losses(self, keys: Collection[str]) -> Iterator[Sensitivity]:
        """What each of these ops loses alone, in program order."""
        if not self._runs:
            self._start()
        expected = self._outputs([{} for _ in self.samples])
        for key, op in self._chosen.items():
            if key not in keys:
                continue
            part, place = self._parts.places[op]
            run = self.open_run(self._alone(part, place, op))
            changed = [part.run(run, known) for known in self._known]
            self._below(part, changed)
            yield Sensitivity(key, op.name, self.judge(expected, self._outputs(changed)))

    def _start(self) -> None:
        """Open all parts, and run them."""
        self._runs = [self.open_run(part.module) for part in self._parts.parts]
        for sample in self.samples:
            known = {n: sample[name] for n, name in enumerate(self._parts.arguments)}
            for part, run in zip(self._parts.parts, self._runs, strict=True):
                known.update(part.run(run, known))
            self._known.append(known)

    def _below(self, first: Part, changed: Sequence[Environment]) -> None:
        """What of the parts behind `first` changes by what has changed."""
        parts = iter(zip(self._parts.parts, self._runs, strict=True))
        for part, _ in parts:
            if part is first:
                break
        for part, run in parts:
            for known, new in zip(self._known, changed, strict=True):
                if not new.keys().isdisjoint(part.takes):
                    taken = {number: new.get(number, known.get(number)) for number in part.takes}
                    new.update(part.run(run, {n: a for n, a in taken.items() if a is not None}))

    def _outputs(self, changed: Sequence[Environment]) -> list[Arrays]:
        """The outputs of the function by sample, by name, constants left out."""
        returned = self._parts.returned
        return [
            {name: new[n] if n in new else known[n] for name, n in returned.items()}
            for known, new in zip(self._known, changed, strict=True)
        ]

    def _alone(self, part: Part, place: int, op: Operation) -> ModuleOp:
        """The part with casts around one op."""
        copy = part.clone()
        block, whole = copy.function.body.block, self._whole.values
        ranges: dict[SSAValue, Range] = {
            argument: found
            for number, argument in zip(part.takes, block.args, strict=True)
            if (found := whole.range(self._values[number])) is not None
        }
        values = Values(copy.function, self.ctx, self.profile, self.recipe, ranges)
        alone, cloned = Selection(values), copy.ops[place]
        alone.ops[cloned] = self._whole.ops[op]
        emit(alone, _grids_of(op, cloned, self._grids))
        return copy.module


def losses(
    module: ModuleOp,
    ctx: QContext,
    profile: Profile,
    recipe: Recipe,
    samples: Sequence[Arrays],
    open_run: OpenRun,
    judge: Judge = worst_noise,
) -> Mapping[str, float]:
    """By key of each op that would be quantized: noise over signal when only it is."""
    work = Measurement(module, ctx, profile, recipe, samples, open_run, judge)
    return {found.key: found.loss for found in work.losses(work.candidates)}


def _grids_of(op: Operation, copy: Operation, grids: Grids) -> Grids:
    """What the grids of the whole say of one op, for a copy of it: casts on each use of a value,
    and on its results."""
    found = Grids()
    for index, value in enumerate(copy.operands):
        params = grids.operand(op, index)
        if params is not None:
            found.uses[copy, index] = found.qparams[value] = params
        if (op, index) in grids.constants:
            found.constants[copy, index] = grids.constants[op, index]
    results: dict[SSAValue, SSAValue] = dict(zip(op.results, copy.results, strict=True))
    for result, value in results.items():
        if (params := grids.qparams.get(result)) is not None:
            found.qparams[value] = params
            found.pairs[value] = None
    if op in grids.sums:
        found.sums[copy] = grids.sums[op]
    return found

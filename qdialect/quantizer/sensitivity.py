"""What the quantization of each op alone does to the outputs: measured, on samples.

    loss of an op = noise power / signal power of the outputs, only that op quantized

A ratio, not dB: small noises of several ops are nearly independent, so their powers add.  An op
that is quantized alone has the qparams that it has among the others: its operands, constants and
results are rounded, and nothing else is.

What is above an op does not change. So the float model is cut into parts (`parts`), run once, and
all values that cross are kept; for an op only its own part is made again, with casts around that
op, and of the parts below those are run that read something which changed.  A model of n ops in k
parts opens n sessions of n/k ops each, not n of n.

Ops that move elements or pick them lose nothing by themselves and are not measured as ops.

Two ops beside each other round the value between them once. For the precision of ops (`precision`)
losses are therefore also measured in pieces that no two share: of each value that may be in codes,
and of each op with weights these and its result.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from qdialect.algebra.qparams import QParams
from qdialect.interpreter import Interpreter
from qdialect.ir.context import QContext
from qdialect.ir.ops import ConstantOp, keys_of
from qdialect.quantizer.emission import cast_pair, emit
from qdialect.quantizer.grids import Grids, assign
from qdialect.quantizer.parts import Part, Parts, split
from qdialect.quantizer.profile.ranges import Range
from qdialect.quantizer.profile.record import Profile
from qdialect.quantizer.recipe import Recipe
from qdialect.quantizer.selection import Selection, select
from qdialect.quantizer.values import Values

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qdialect.quantizer.search import Arrays, OpenRun, Run

    Environment = dict[int, NDArray[Any]]

Judge = Callable[[Sequence["Arrays"], Sequence["Arrays"]], float]
"""Of outputs of the float model and of another on the same samples: noise over signal."""


class Rounded(Enum):
    """What is rounded alone."""

    #: an op: its operands, weights and results
    OP = "op"
    #: its weights and results
    KERNEL = "kernel"
    #: a value
    VALUE = "value"


@dataclass(frozen=True)
class _Source:
    """A rounding: an op (None: `value` is an argument), and one of its results."""

    kind: Rounded
    op: Operation | None
    value: SSAValue


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
        count = sum(not isinstance(op, ConstantOp) for op in function.body.block.ops)
        self._parts: Parts = split(function, max(round(math.sqrt(count)), 1))
        places = self._parts.places
        # What constants alone make (a cast of a weight) is in no part, and is rounded as a weight.
        known = ((k, s) for k, s in self._all_sources() if s.op is None or s.op in places)
        self._sources = dict(known)
        self._values = {number: value for value, number in self._parts.numbers.items()}

    @property
    def candidates(self) -> Sequence[str]:
        """The keys of the ops that would be quantized, in program order."""
        return [key for key, source in self._sources.items() if source.kind is Rounded.OP]

    @property
    def roundings(self) -> Sequence[str]:
        """The names of what is rounded in all of these, piece by piece (`Rounded`): noises that do
        not contain each other, and so add up to that of any plan."""
        return [key for key, source in self._sources.items() if source.kind is not Rounded.OP]

    def losses(self, keys: Collection[str]) -> Iterator[Sensitivity]:
        """What each of these (`candidates`, `roundings`) loses alone."""
        if not self._runs:
            self._start()
        expected = self._outputs([{} for _ in self.samples])
        for key, source in self._sources.items():
            if key not in keys:
                continue
            if source.op is None:
                changed = [self._rounded(source.value, known) for known in self._known]
                self._below(None, changed)
            else:
                part, place = self._parts.places[source.op]
                run = self.open_run(self._alone(part, place, source))
                changed = [part.run(run, known) for known in self._known]
                self._below(part, changed)
            what = "input" if source.op is None else source.op.name
            yield Sensitivity(key, what, self.judge(expected, self._outputs(changed)))

    def _start(self) -> None:
        """Open all parts, and run them."""
        self._runs = [self.open_run(part.module) for part in self._parts.parts]
        for sample in self.samples:
            known = {n: sample[name] for n, name in enumerate(self._parts.arguments)}
            for part, run in zip(self._parts.parts, self._runs, strict=True):
                known.update(part.run(run, known))
            self._known.append(known)

    def _all_sources(self) -> Iterator[tuple[str, _Source]]:
        """What may be rounded, by name: ops, then their results and codes, in program order."""
        chosen = {op: behavior for op, behavior in self._whole.ops.items() if keys_of(op)}
        for op, behavior in chosen.items():
            if not behavior.commutes:
                yield keys_of(op)[0], _Source(Rounded.OP, op, op.results[0])
        for op, behavior in chosen.items():
            if behavior.has_weights:
                yield kernel_name(keys_of(op)[0]), _Source(Rounded.KERNEL, op, op.results[0])
        values = self._whole.values
        for value in self._grids.qparams:
            owner = value.owner
            if keys := values.keys(value):
                op = owner if isinstance(owner, Operation) else None
                yield value_name(keys[0]), _Source(Rounded.VALUE, op, value)

    def _rounded(self, argument: SSAValue, known: Environment) -> Environment:
        number, params = self._parts.numbers[argument], self._grids.qparams[argument]
        array, storage = known[number], params.storage
        scale, zero = params.scale_list()[0], params.zero_point_list()[0]
        codes = np.clip(np.rint(array / scale) + zero, storage.min, storage.max)
        return {number: ((codes - zero) * scale).astype(array.dtype)}

    def _below(self, first: Part | None, changed: Sequence[Environment]) -> None:
        """What of the parts behind `first` (None: of all) changes by what has changed."""
        parts = iter(zip(self._parts.parts, self._runs, strict=True))
        for part, _ in parts if first is not None else ():
            if part is first:
                break
        for part, run in parts:
            for known, new in zip(self._known, changed, strict=True):
                if not new.keys().isdisjoint(part.takes):
                    taken = {number: new.get(number, known.get(number)) for number in part.takes}
                    new.update(part.run(run, {n: a for n, a in taken.items() if a is not None}))

    def _outputs(self, changed: Sequence[Environment]) -> list[Arrays]:
        returned = self._parts.returned
        return [
            {name: new[n] if n in new else known[n] for name, n in returned.items()}
            for known, new in zip(self._known, changed, strict=True)
        ]

    def _alone(self, part: Part, place: int, source: _Source) -> ModuleOp:
        """The part with casts around one op, or on one result."""
        copy = part.clone()
        block, whole, op = copy.function.body.block, self._whole.values, source.op
        assert op is not None
        if source.kind is Rounded.VALUE:
            value = copy.ops[place].results[op.results.index(source.value)]
            _round(value, self._grids.qparams[source.value])
            return copy.module
        ranges: dict[SSAValue, Range] = {
            argument: found
            for number, argument in zip(part.takes, block.args, strict=True)
            if (found := whole.range(self._values[number])) is not None
        }
        values = Values(copy.function, self.ctx, self.profile, self.recipe, ranges)
        alone, cloned = Selection(values), copy.ops[place]
        alone.ops[cloned] = self._whole.ops[op]
        whole_op = source.kind is Rounded.OP
        emit(alone, _grids_of(op, cloned, self._grids, operands=whole_op))
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


def kernel_name(key: str) -> str:
    """The name of the weights and the result of an op."""
    return f"kernel {key}"


def value_name(key: str) -> str:
    """The name of a value that is rounded."""
    return f"value {key}"


def _round(value: SSAValue, params: QParams) -> None:
    """Casts to codes and back between a value and its users."""
    owner = value.owner
    assert isinstance(owner, Operation)
    codes, real = cast_pair(value, params, owner)
    value.replace_uses_with_if(real.result, lambda use: use.operation is not codes)
    block = owner.parent
    assert block is not None
    block.insert_ops_after([codes, real], owner)


def _grids_of(op: Operation, copy: Operation, grids: Grids, *, operands: bool) -> Grids:
    """What the grids of the whole say of one op, for a copy of it: casts on its results, and with
    `operands` on each use of a value."""
    found = Grids()
    for index, value in enumerate(copy.operands):
        params = grids.operand(op, index)
        if params is not None:
            # Its scale is also that of the bias.
            found.qparams[value] = params
        if params is not None and operands:
            found.uses[copy, index] = params
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

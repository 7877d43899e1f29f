"""Choosing how ranges are chosen: the model tells, on data.

How much of a tail may be clipped is a matter of what the layers behind do with it, which no
statistic of one tensor knows: of two trained networks one is 4 dB nearer to its float model
with ranges of least squared error, the other 10 dB with the whole ranges.  So some ways are
tried on a part of the calibration data.

What counts is the mean over samples of the SQNR in dB, since a sum of squares over all
samples is that of the few worst ones, and says little of other data.  Of one sample, the worst
part of the outputs (`output_parts`) counts as much as the mean of all: boxes in pixels do not
make up for scores.  More than `ENOUGH` dB of a part is no better than that: it is a class that is
certain anyway.  For the same reason what a steep last op (a softmax, a sigmoid) is applied to is
a part, too.

Ranges have head room for samples to come, unless it surely costs more than it saves.

One thing after another is chosen: ranges of values, ranges of weights, whether biases are
corrected.  The plainest way is the safe one: another is taken if it is better by more than
`DOUBT` standard errors of the gain over the samples, the best of those.  A way that is worse
by as much after `FEW` samples is not tried on the others.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import FunctionType, ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Operation, SSAValue

from qdialect.interpreter import Interpreter
from qdialect.ir.context import QContext
from qdialect.ir.dialects.attributes import string_list, strings
from qdialect.ir.dialects.interface import DIMS, RESULT_NAMES
from qdialect.ir.ops import keys_of
from qdialect.quantizer.apply_profile import Correct, apply_profile
from qdialect.quantizer.output_parts import parts_of
from qdialect.quantizer.profile.ranges import WIDE
from qdialect.quantizer.profile.record import Profile
from qdialect.quantizer.quality import ENOUGH, Judge, Quality
from qdialect.quantizer.recipe import Recipe
from qdialect.quantizer.selection import select
from qdialect.quantizer.values import Values, float_value

DOUBT = 2.0
FEW = 4
LOSS = 0.3
"""What head room may cost in dB on the samples of trials."""

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Arrays = Mapping[str, NDArray[Any]]
    Run = Callable[[Arrays], Mapping[str, NDArray[Any]]]
    OpenRun = Callable[[ModuleOp], Run]


@dataclass(frozen=True)
class Trial:
    """A recipe that was tried, and what it gave: the mean of `score` over samples, in dB."""

    recipe: Recipe
    sqnr: float


def stages(recipe: Recipe) -> list[list[Mapping[str, Any]]]:
    """What is tried in the place of the plainest, one thing after another; everything else is
    as asked for."""
    biases: list[Mapping[str, Any]] = [{"correct_bias": False}] if recipe.correct_bias else []
    wide = recipe.activation_scheme("f32").levels.count >= WIDE
    room: list[Mapping[str, Any]] = [{"unseen": 0}] if recipe.unseen and not wide else []
    return [
        room,
        [
            {"calibration": "percentile", "percentile": 99.999},
            {"calibration": "percentile", "percentile": 99.99},
            {"calibration": "mse"},
        ],
        [{"weight_ranges": "mse"}],
        biases,
    ]


class Scoring:
    """What quantized modules are compared with: the parts of the outputs of a float module, and
    of the operands of its steep last ops, on `samples`."""

    def __init__(
        self,
        module: ModuleOp,
        ctx: QContext,
        profile: Profile,
        recipe: Recipe,
        samples: Sequence[Arrays],
        open_run: OpenRun,
    ) -> None:
        self._samples, self._open_run = samples, open_run
        plain = module.clone()
        self._ends = steep_ends(module, ctx, profile, recipe)
        _return_operands(_named(plain, self._ends, ctx), ctx)
        self._judge = Judge(parts_of(plain, ctx), map(open_run(plain), samples))

    def answers(
        self,
        module: ModuleOp,
        ctx: QContext,
        profile: Profile,
        recipe: Recipe,
        *,
        correct: Correct | None = None,
        rounding: Correct | None = None,
    ) -> Iterator[Arrays]:
        """What the float module, or one that computes the same, gives on each sample when it is
        quantized by a profile of it; `module` stays as it is."""
        clone, session = module.clone(), ctx.clone()
        ends = _named(clone, self._ends, ctx)
        apply_profile(clone, session, profile, recipe, correct=correct, rounding=rounding)
        _return_operands(ends, ctx)
        quantized = self._open_run(clone)
        return (quantized(sample) for sample in self._samples)

    def scores(self, answers: Iterable[Arrays]) -> Iterator[float]:
        """The `score` of each sample."""
        return (score(self._judge.sample_db(n, each)) for n, each in enumerate(answers))

    def quality(self, answers: Iterable[Arrays]) -> Quality:
        """What is lost over all samples, and what of the outputs is one number where the float
        module's is not."""
        return self._judge.judge(answers)


def best_recipe(
    module: ModuleOp,
    ctx: QContext,
    profile: Profile,
    recipe: Recipe,
    samples: Sequence[Arrays],
    open_run: OpenRun,
    correct: Correct | None = None,
    watch: Callable[[Iterable[int]], Iterable[int]] = lambda numbers: numbers,
    rounding: Correct | None = None,
) -> list[Trial]:
    """The recipes tried: the one to take, then the others by what they gave."""
    scoring = Scoring(module, ctx, profile, recipe, samples, open_run)

    def scores(choice: Recipe) -> Iterator[float]:
        return scoring.scores(
            scoring.answers(module, ctx, profile, choice, correct=correct, rounding=rounding)
        )

    recipe = replace(recipe, calibration="minmax", weight_ranges="minmax")
    recipe = replace(recipe, correct_bias=recipe.correct_bias and correct is not None)
    each = stages(recipe)
    numbers = iter(watch(range(1 + sum(len(stage) for stage in each))))
    next(numbers)
    best = list(scores(recipe))
    taken = Trial(recipe, fmean(best))
    trials = [taken]
    for stage in each:
        base, before = best, taken
        for way in stage:
            next(numbers)
            choice = replace(before.recipe, **way)
            found = while_hopeful(base, scores(choice))
            gains = gains_of(base, found)
            trials.append(Trial(choice, before.sqnr + fmean(gains)))
            enough = surely(gains) or ("unseen" in way and _less_noise(base, found))
            if enough and trials[-1].sqnr > taken.sqnr:
                best, taken = found, trials[-1]
    next(numbers, None)
    return [taken, *sorted((t for t in trials if t is not taken), key=lambda t: -t.sqnr)]


def while_hopeful(base: Sequence[float], scores: Iterable[float]) -> list[float]:
    """The scores, or the first of them if these are surely below."""
    found: list[float] = []
    for one in scores:
        found.append(one)
        if len(found) >= FEW and surely([-gain for gain in gains_of(base, found)]):
            break
    return found


def gains_of(base: Sequence[float], found: Sequence[float]) -> list[float]:
    """By how many dB each sample is better, of those that were tried."""
    return [b - a for a, b in zip(base, found, strict=False)]


def surely(gains: Sequence[float]) -> bool:
    """Whether gains are above zero by more than the samples leave in doubt."""
    if len(gains) < 2:
        return False
    return fmean(gains) > max(DOUBT * stdev(gains) / math.sqrt(len(gains)), 0.0)


def _less_noise(base: Sequence[float], found: Sequence[float]) -> bool:
    """Whether all samples together have less noise than before by more than `LOSS` dB."""
    before, after = (math.log10(fmean(10 ** (-db / 10) for db in each)) for each in (base, found))
    return len(found) == len(base) and 10 * (before - after) > LOSS


def score(parts: Sequence[float]) -> float:
    """Of the dB of each part of one sample: half their mean and half the least."""
    each = [max(min(db, ENOUGH), -ENOUGH) for db in parts]
    return (fmean(each) + min(each)) / 2 if each else ENOUGH


def steep_ends(
    module: ModuleOp, ctx: QContext, profile: Profile, recipe: Recipe
) -> Sequence[_Name]:
    """The ops that stay float as they amplify or are returned, and whose results are those of the
    model, perhaps moved; in program order."""
    values = Values(Interpreter(ctx, module).function(), ctx, profile, recipe)
    left = select(values).left
    found: set[Operation] = set()
    last = values.block.last_op
    assert isinstance(last, ReturnOp)
    for value in last.operands:
        owner = value.owner
        while isinstance(owner, Operation) and (behavior := ctx.behaviors.get(owner)) is not None:
            if not float_value(owner.operands[0] if owner.operands else value):
                break
            if not behavior.commutes or len(owner.operands) > 1:
                if owner in left and left[owner].code in ("amplifies", "returned"):
                    found.add(owner)
                break
            owner = owner.operands[0].owner
    return [name for name, op in _names(values.function) if op in found]


_Name = tuple[str, tuple[str, ...], int]
"""What an op is found by in another form of its module: its kind, its keys, and the how manieth it
is of those."""


def _names(function: FuncOp) -> Iterator[tuple[_Name, Operation]]:
    counts = Counter[tuple[str, tuple[str, ...]]]()
    for op in function.body.block.ops:
        known = op.name, tuple(keys_of(op))
        yield (*known, counts[known]), op
        counts[known] += 1


def _named(module: ModuleOp, names: Sequence[_Name], ctx: QContext) -> list[Operation]:
    ops = dict(_names(Interpreter(ctx, module).function()))
    return [ops[name] for name in names]


def _return_operands(ends: Sequence[Operation], ctx: QContext) -> None:
    """Make the function of some ops also return what their first operands are."""
    for end in ends:
        function = end.parent_op()
        assert isinstance(function, FuncOp)
        _append_result(function, end.operands[0])


def _append_result(function: FuncOp, value: SSAValue) -> None:
    last = function.body.block.last_op
    assert isinstance(last, ReturnOp)
    last.operands = [*last.operands, value]
    old = function.function_type
    function.function_type = FunctionType.from_lists(list(old.inputs), [*old.outputs, value.type])
    function.res_attrs = None
    function.attributes.pop(DIMS, None)
    if names := string_list(function.attributes.get(RESULT_NAMES)):
        more = f"{names[-1]} and operand {len(names)}"
        function.attributes[RESULT_NAMES] = strings([*names, more])


def sqnr(expected: Sequence[Arrays], actual: Sequence[Arrays]) -> float:
    """Signal to quantization noise over all float outputs of all samples, in dB."""
    signal = noise = 0.0
    for a, b in zip(expected, actual, strict=True):
        for name, array in a.items():
            if array.dtype.kind == "f":
                real = array.astype("f8")
                signal += float((real**2).sum())
                noise += float(((real - b[name]) ** 2).sum())
    return 10 * math.log10(signal / noise) if signal and noise else math.inf

"""Choosing how ranges are chosen: the model tells, on data.

How much of a tail may be clipped is a matter of what the layers behind do with it, which no
statistic of one tensor knows: of two trained networks one is 4 dB nearer to its float model
with ranges of least squared error, the other 10 dB with the whole ranges.  So some ways are
tried on a part of the calibration data.

What counts is the mean over samples of the SQNR in dB, since a sum of squares over all
samples is that of the few worst ones, and says little of other data.  Three kinds of values
are looked at:

    results     of the model; more than `ENOUGH` dB of one sample is no better than that
    steep ends  what a steep last op (a softmax, a sigmoid) is applied to, in the place of
                its result, which is certain anyway for most samples
    features    what the last contraction in front of each result is applied to: it depends on
                nearly all of the network, and on so many numbers that the dB of one sample
                are hardly a matter of luck, as those of two classes are

Their gains are averaged with the weights 1 / variance, the least doubtful average of them.

One thing after another is chosen: ranges of values, ranges of weights, whether biases are
corrected.  The plainest way is the safe one: another is taken if it is better by more than
`DOUBT` standard errors of the gain over the samples, the best of those.  A way that is worse
by `STOP` of them after `FEW` samples or more is not tried on the others.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, stdev, variance
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import FunctionType, ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Operation, SSAValue

from qdialect.context import QContext
from qdialect.dialects.onnx import DIMS, RESULT_NAMES, string_list, strings
from qdialect.interpreter import Interpreter
from qdialect.profile.record import Profile
from qdialect.quantization.apply_profile import Correct, apply_profile
from qdialect.quantization.recipe import Recipe
from qdialect.quantization.selection import select
from qdialect.quantization.values import Values, float_value

ENOUGH = 60.0
DOUBT = 2.0
STOP = 4.0
FEW = 4

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Arrays = Mapping[str, NDArray[Any]]
    Run = Callable[[Arrays], Mapping[str, NDArray[Any]]]
    OpenRun = Callable[[ModuleOp], Run]

Score = list[float]
"""dB of one sample, value by value."""
Place = tuple[int, int]
"""An op of the function, and one of its operands, by number."""


@dataclass(frozen=True)
class Trial:
    """A recipe that was tried, and what it gave: mean dB over samples and values."""

    recipe: Recipe
    sqnr: float


def stages(recipe: Recipe) -> list[list[Mapping[str, Any]]]:
    """What is tried in the place of the plainest, one thing after another; everything else is
    as asked for."""
    biases: list[Mapping[str, Any]] = [{"correct_bias": False}] if recipe.correct_bias else []
    return [
        [
            {"calibration": "percentile", "percentile": 99.999},
            {"calibration": "percentile", "percentile": 99.99},
            {"calibration": "mse"},
        ],
        [{"weight_ranges": "mse"}],
        biases,
    ]


def best_recipe(
    module: ModuleOp,
    ctx: QContext,
    profile: Profile,
    recipe: Recipe,
    samples: Sequence[Arrays],
    open_run: OpenRun,
    correct: Correct | None = None,
    watch: Callable[[Iterable[int]], Iterable[int]] = lambda numbers: numbers,
) -> list[Trial]:
    """The recipes tried: the one to take, then the others by what they gave."""
    places, hidden = looked_at(module, ctx, profile, recipe)
    plain = module.clone()
    _return_operands(_at(plain, places, ctx), ctx)
    run = open_run(plain)
    wanted = [_shown(run(sample), hidden) for sample in samples]

    def scores(choice: Recipe) -> Iterator[Score]:
        clone, session = module.clone(), ctx.clone()
        ends = _at(clone, places, ctx)
        apply_profile(clone, session, profile, choice, correct=correct)
        _return_operands(ends, ctx)
        quantized = open_run(clone)
        return (score(a, quantized(s)) for a, s in zip(wanted, samples, strict=True))

    recipe = replace(recipe, calibration="minmax", weight_ranges="minmax")
    recipe = replace(recipe, correct_bias=recipe.correct_bias and correct is not None)
    each = stages(recipe)
    numbers = iter(watch(range(1 + sum(len(stage) for stage in each))))
    next(numbers)
    best = list(scores(recipe))
    taken = Trial(recipe, _mean(best))
    trials = [taken]
    for stage in each:
        base, before = best, taken
        for way in stage:
            next(numbers)
            choice = replace(before.recipe, **way)
            found = _while_hopeful(base, scores(choice))
            gains = combined_gains(base, found)
            trials.append(Trial(choice, before.sqnr + fmean(gains)))
            if surely(gains) and trials[-1].sqnr > taken.sqnr:
                best, taken = found, trials[-1]
    next(numbers, None)
    return [taken, *sorted((t for t in trials if t is not taken), key=lambda t: -t.sqnr)]


def _while_hopeful(base: Sequence[Score], scores: Iterable[Score]) -> list[Score]:
    """The scores, or the first of them if these are surely below."""
    found: list[Score] = []
    for one in scores:
        found.append(one)
        if len(found) >= FEW and surely([-g for g in combined_gains(base, found)], STOP):
            break
    return found


def combined_gains(base: Sequence[Score], found: Sequence[Score]) -> list[float]:
    """What each sample gains, all its values taken together; a value that gains the same
    everywhere tells as little as its variance tells."""
    each = [[b - a for a, b in zip(*pair, strict=True)] for pair in zip(base, found, strict=False)]
    values = list(zip(*each, strict=True))
    weights = [0.0 if len(gains) < 2 else variance(gains) for gains in values]
    weights = [1 / weight if weight else 0.0 for weight in weights]
    if not any(weights):
        return [fmean(gains) if gains else 0.0 for gains in each]
    total = sum(weights)
    return [sum(w * g for w, g in zip(weights, gains, strict=True)) / total for gains in each]


def _mean(scores: Sequence[Score]) -> float:
    return fmean(value for score in scores for value in score) if scores and scores[0] else ENOUGH


def surely(gains: Sequence[float], doubt: float = DOUBT) -> bool:
    """Whether gains are above zero by more than the samples leave in doubt."""
    if len(gains) < 2:
        return False
    return fmean(gains) > max(doubt * stdev(gains) / math.sqrt(len(gains)), 0.0)


def score(wanted: Arrays, got: Arrays) -> Score:
    """The SQNR in dB of each float value of one sample."""
    return [
        min(sqnr([{name: array}], [got]), ENOUGH)
        for name, array in wanted.items()
        if array.dtype.kind == "f"
    ]


def _shown(outputs: Arrays, hidden: Container[int]) -> Arrays:
    return {name: outputs[name] for index, name in enumerate(outputs) if index not in hidden}


def looked_at(
    module: ModuleOp, ctx: QContext, profile: Profile, recipe: Recipe
) -> tuple[list[Place], Container[int]]:
    """Which operands count besides the results (number of the op, and of the operand), and
    which results do not."""
    function = Interpreter(ctx, module).function()
    numbers = {op: number for number, op in enumerate(function.body.block.ops)}
    steep = _steep_ends(function, ctx, profile, recipe)
    ends = [(op, 0) for op in steep.values()]
    last = function.body.block.last_op
    assert last is not None
    ends += _features(last.operands, ctx)
    return [(numbers[op], operand) for op, operand in dict.fromkeys(ends)], steep


def _features(results: Iterable[SSAValue], ctx: QContext) -> list[tuple[Operation, int]]:
    """What the contractions nearest to some values are applied to."""
    found: dict[tuple[Operation, int], None] = {}
    seen: set[Operation] = set()
    left = [value.owner for value in results]
    while left:
        op = left.pop()
        if not isinstance(op, Operation) or op in seen:
            continue
        seen.add(op)
        behavior = ctx.behaviors.get(op)
        acc = None if behavior is None else behavior.accumulator
        if acc is None:
            left += [value.owner for value in op.operands]
        elif float_value(op.operands[acc.lhs]):
            found[op, acc.lhs] = None
    return list(found)


def _steep_ends(
    function: FuncOp, ctx: QContext, profile: Profile, recipe: Recipe
) -> dict[int, Operation]:
    """By result, the ops that stay float as they amplify or are returned, and whose results
    are those of the model, perhaps moved."""
    left = select(Values(function, ctx, profile, recipe)).left
    found: dict[int, Operation] = {}
    last = function.body.block.last_op
    assert isinstance(last, ReturnOp)
    for index, value in enumerate(last.operands):
        owner = value.owner
        while isinstance(owner, Operation) and (behavior := ctx.behaviors.get(owner)) is not None:
            if not float_value(owner.operands[0] if owner.operands else value):
                break
            if not behavior.commutes or len(owner.operands) > 1:
                if owner in left and left[owner].code in ("amplifies", "returned"):
                    found[index] = owner
                break
            owner = owner.operands[0].owner
    return found


def _at(module: ModuleOp, places: Sequence[Place], ctx: QContext) -> list[tuple[Operation, int]]:
    ops = list(Interpreter(ctx, module).function().body.block.ops)
    return [(ops[number], operand) for number, operand in places]


def _return_operands(ends: Sequence[tuple[Operation, int]], ctx: QContext) -> None:
    """Make the function of some ops also return some of their operands."""
    for end, operand in ends:
        function = end.parent_op()
        assert isinstance(function, FuncOp)
        _append_result(function, end.operands[operand])


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


def sqnr(wanted: Sequence[Arrays], got: Sequence[Arrays]) -> float:
    """Signal to quantization noise over all float outputs of all samples, in dB."""
    signal = noise = 0.0
    for a, b in zip(wanted, got, strict=True):
        for name, array in a.items():
            if array.dtype.kind == "f":
                real = array.astype("f8")
                signal += float((real**2).sum())
                noise += float(((real - b[name]) ** 2).sum())
    return 10 * math.log10(signal / noise) if signal and noise else math.inf

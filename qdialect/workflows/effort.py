"""Making a float model easier to quantize, as far as data confirms it and time lets: `--effort`.

Two kinds of steps are tried.  A *rewrite* (`quantizer.float_rewrites`) gives a float model of
the same function whose values and weights lose less when they are rounded; the ranges are then
those of the new model, measured again.  A *rounding* (`quantizer.weight_rounding`) leaves the
float model and chooses other codes of its weights than the nearest.

Rewrites are tried in falling order of the gain that their own model of the loss foretells, each on
what was kept so far; roundings come last, as they are of the weights that are then there.  A step
is kept if the quantized model is nearer to the float one on samples that it has not seen, by more
than they leave in doubt (`search.surely`), sample by sample, and no further from it over all of
them together, where loud samples count most.  One that would take longer than the time that is
left, by what the step before took, is not tried, and the report says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import inf
from statistics import fmean
from time import monotonic
from typing import TYPE_CHECKING, Any

from qdialect.errors import QError
from qdialect.quantizer.float_rewrites.base import costs_of, decibels_less
from qdialect.quantizer.float_rewrites.float_bounds import NoBoundError, float_bounds, worst
from qdialect.quantizer.float_rewrites.statistics import measured
from qdialect.quantizer.float_rewrites.table import rewrites
from qdialect.quantizer.search import Scoring, gains_of, surely, while_hopeful
from qdialect.quantizer.weight_rounding import Method
from qdialect.workflows.effort_steps import Step
from qdialect.workflows.model import Model

if TYPE_CHECKING:
    from qdialect.quantizer.apply_profile import Correct
    from qdialect.quantizer.float_rewrites.base import AnyRewrite, Foretold
    from qdialect.quantizer.float_rewrites.float_bounds import FloatBound
    from qdialect.quantizer.float_rewrites.statistics import Statistics
    from qdialect.quantizer.profile.engines import EngineName
    from qdialect.quantizer.profile.record import Profile
    from qdialect.quantizer.quality import Quality
    from qdialect.quantizer.recipe import Recipe
    from qdialect.quantizer.search import Arrays, OpenRun

    Calibrate = Callable[[Model], Profile]
    """The profile of a float model on the samples that ranges are of while steps are tried."""
    Make = Callable[[], "tuple[State, str] | str"]
    """The state after a step and what it changed, or why there is none."""
    Attempt = tuple[str, Make]
    Watch = Callable[[Iterable[Attempt], int], Iterable[Attempt]]

SECONDS = {0: 0.0, 1: 120.0, 2: 1200.0}
"""How long steps are tried at each level, where nobody says."""

_ELEMENTS = 2
"""Of how many elements of an output a bound is derived."""

ROUNDINGS: Mapping[int, Sequence[Method]] = {
    1: ("gptq",),
    2: ("gptq", "descent", "sequential", "adaround", "blocks"),
}
"""Methods of rounding that are tried at a level, the fastest first."""

WORTH: Mapping[Method, float] = {
    "gptq": 0.1, "descent": 0.2, "sequential": 0.5, "adaround": 0.5, "blocks": 3.0,
}  # fmt: skip
"""So many dB must weights lose for a method to be tried: more than that it cannot bring, but for
what those that look at errors from above do, which is less. Blocks take the longest, and gain
where weights lose most of all."""


@dataclass(frozen=True)
class State:
    """A float model, its profile, how it is quantized, and how its weights are rounded (None: to
    the nearest)."""

    model: Model
    profile: Profile
    recipe: Recipe
    rounding: Correct | None = None


@dataclass(frozen=True)
class Improved:
    """The best state that was found, and the steps that were tried."""

    state: State
    steps: Sequence[Step]


@dataclass
class Effort:
    """Tries the steps of a `level` for about so many `seconds`.

    `samples` judge what is tried, and nothing else sees them; `seen` are others, that statistics
    are of. `calibrate` gives the profile of a rewritten model, and `rounding` what rounds weights;
    `first` rounds them until a step does it otherwise.
    `watch` sees the names of steps go by.
    """

    level: int
    seconds: float
    samples: Sequence[Arrays]
    seen: Sequence[Arrays]
    engine: EngineName
    calibrate: Calibrate
    rounding: Callable[[Method], Correct]
    open_run: OpenRun
    correct: Correct | None = None
    first: Correct | None = None
    watch: Watch = lambda names, total: names

    def improved(self, prepared: Model, profile: Profile, recipe: Recipe) -> Improved:
        """The best that is found from a float model that was prepared, which stays as it is."""
        search = _Search(self, State(prepared, profile, recipe, self.first))
        attempts = search.attempts()
        for name, make in self.watch(attempts, len(attempts)):
            search.attempt(name, make)
        return Improved(search.best, search.bounded())


@dataclass(frozen=True)
class _Planned:
    """What a rewrite would do to `copy`, which still is as `base`."""

    rewrite: AnyRewrite
    base: Model
    copy: Model
    foretold: Foretold[Any]


class _Search:
    """The steps so far; `best` is the state that they end in."""

    def __init__(self, effort: Effort, start: State) -> None:
        self.effort, self.best = effort, start
        self.steps: list[Step] = []
        #: of rewrites that were kept, by the number of the step: the model before and after
        self._rewrites: dict[int, tuple[Model, Model]] = {}
        self._began, self._longest = monotonic(), 0.0
        #: what was found out about a model, the last that was asked for
        self._known: tuple[Model, Statistics] | None = None
        self._weights: tuple[Model, float] | None = None
        model, run = start.model, effort.open_run
        self._scoring = Scoring(
            model.module, model.ctx, start.profile, start.recipe, effort.samples, run
        )
        answers = list(self._answers(start))
        self._scores = list(self._scoring.scores(answers))
        self._whole = self._scoring.quality(answers)

    def attempts(self) -> Sequence[Attempt]:
        """The names of steps, and what makes the state after each."""
        found: list[Attempt] = []
        for planned in self._in_order():
            found.append((planned.rewrite.name, partial(self._rewritten, planned)))
        for method in ROUNDINGS[self.effort.level]:
            found.append((method, partial(self._rounded, method)))
        return found

    def attempt(self, name: str, make: Make) -> None:
        """Try a step if there is time, and keep it if it is surely better."""
        began = monotonic()
        if began - self._began + self._longest > self.effort.seconds:
            self.steps.append(Step(name, None, False, 0.0, why="there was no time"))
            return
        made = make()
        if isinstance(made, str):
            self.steps.append(Step(name, None, False, monotonic() - began, why=made))
            return
        state, done = made
        # Of a step that is surely better all samples were run.
        answers: list[Arrays] = []
        scores = while_hopeful(self._scores, self._scoring.scores(self._noted(state, answers)))
        gains = gains_of(self._scores, scores)
        quality = self._scoring.quality(answers) if surely(gains) else None
        worse = None if quality is None else _worse(quality, self._whole)
        kept = quality is not None and worse is None
        if worse is not None:
            done += f"; {worse}"
        if quality is not None and kept:
            if state.model is not self.best.model:
                self._rewrites[len(self.steps)] = self.best.model, state.model
            self.best, self._scores, self._whole = state, scores, quality
        took = monotonic() - began
        self._longest = max(self._longest, took)
        self.steps.append(Step(name, fmean(gains), kept, took, done))

    def bounded(self) -> Sequence[Step]:
        """The steps, rewrites with a bound of what they changed in float32 while time lets."""
        steps, sample = list(self.steps), self.effort.samples[0]
        for number, (before, after) in self._rewrites.items():
            is_late = monotonic() - self._began > self.effort.seconds
            bound = "there was no time" if is_late else _in_float32(before, after, sample)
            steps[number] = replace(steps[number], in_float32=bound)
        return steps

    def _noted(self, state: State, answers: list[Arrays]) -> Iterator[Arrays]:
        """The answers of a state, each of which is also kept in `answers`."""
        for each in self._answers(state):
            answers.append(each)
            yield each

    def _answers(self, state: State) -> Iterator[Arrays]:
        model, correct = state.model, self.effort.correct
        return self._scoring.answers(
            model.module, model.ctx, state.profile, state.recipe,
            correct=correct, rounding=state.rounding,
        )  # fmt: skip

    def _in_order(self) -> Sequence[_Planned]:
        """What each rewrite would do alone, the largest foretold gain first."""
        found: list[_Planned] = []
        for rewrite in rewrites(self.effort.level):
            planned = self._planned(rewrite)
            if planned is None:
                self.steps.append(Step(rewrite.name, None, False, 0.0, why="nothing to gain"))
            else:
                found.append(planned)
        return sorted(found, key=lambda each: -each.foretold.gain)

    def _planned(self, rewrite: AnyRewrite) -> _Planned | None:
        """What a rewrite would do to the best model so far, of which it has a copy."""
        base, copy = self.best.model, _copy(self.best.model)
        found = rewrite.foretold(copy.module, copy.ctx, self._statistics(), self.best.recipe)
        return None if found is None else _Planned(rewrite, base, copy, found)

    def _statistics(self) -> Statistics:
        model = self.best.model
        if self._known is None or self._known[0] is not model:
            found = measured(model.module, model.ctx, self.effort.seen, self.effort.engine)
            self._known = model, found
        return self._known[1]

    def _rewritten(self, planned: _Planned) -> tuple[State, str] | str:
        """The state after a rewrite, or why there is none; it is planned anew if another was kept
        meanwhile."""
        if planned.base is not self.best.model:
            again = self._planned(planned.rewrite)
            if again is None:
                return "nothing to gain any more"
            planned = again
        done = planned.foretold.apply()
        if done is None:
            return "constants would overflow"
        recipe = self.best.recipe
        recipe = replace(recipe, keep_float=recipe.keep_float | done.keep_float)
        profile = self.effort.calibrate(planned.copy)
        return State(planned.copy, profile, recipe, self.effort.first), str(done)

    def _rounded(self, method: Method) -> tuple[State, str] | str:
        """The state with codes of weights by a method, or why there is none."""
        lost = self._lost_to_weights()
        if lost < WORTH[method]:
            return f"no more than {lost:.1f} dB are lost to weights"
        try:
            rounding = self.effort.rounding(method)
        except QError as error:
            # A package is missing.
            return error.message
        return replace(self.best, rounding=rounding), "codes of weights"

    def _lost_to_weights(self) -> float:
        """By how many dB less would be lost with weights as they are; infinite where nothing else
        is rounded."""
        model = self.best.model
        if self._weights is None or self._weights[0] is not model:
            _, costs = costs_of(model.module, model.ctx, self._statistics(), self.best.recipe)
            values = costs.of_all_values()
            self._weights = model, decibels_less(costs.of_all(), values) if values else inf
        return self._weights[1]


def _worse(quality: Quality, before: Quality) -> str | None:
    """In what outputs are worse over all samples, which the mean over samples does not say."""
    if len(quality.dead) > len(before.dead):
        return "more channels of the outputs would be one number"
    if quality.worst_db < before.worst_db:
        return f"over all samples {before.worst_db - quality.worst_db:.1f} dB would be lost"
    return None


def _in_float32(before: Model, after: Model, sample: Arrays) -> FloatBound | str:
    """How far a rewritten model is at most from what it was, or why there is no bound."""
    try:
        first, second = ((model.module, model.ctx) for model in (before, after))
        return worst(float_bounds(first, second, sample, elements=_ELEMENTS))
    except NoBoundError as error:
        return str(error)


def _copy(model: Model) -> Model:
    return Model(model.module.clone(), model.ctx.clone())

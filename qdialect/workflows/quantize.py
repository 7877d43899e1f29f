"""From a float model and data or a profile to a quantized model.

The model is prepared (`prepared`), what was asked to be found out on data is, and the candidates
that come of it are built, and race (`candidates`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, cast

from qdialect.algebra.rounding import Rounding
from qdialect.analysis.caches import find_caches
from qdialect.errors import InputError, UsageError
from qdialect.interpreter import argument_names
from qdialect.quantizer.apply_profile import LoadedModel, remark
from qdialect.quantizer.coverage import Coverage
from qdialect.quantizer.grids import assign
from qdialect.quantizer.prepared import prepare_whole
from qdialect.quantizer.profile.matching import Matching, match_profile
from qdialect.quantizer.profile.record import Profile, Settings
from qdialect.quantizer.recipe import Recipe
from qdialect.targets.base import Target
from qdialect.workflows.budget import parse_budget
from qdialect.workflows.calibrate import calibrate, new_profile, open_data
from qdialect.workflows.candidates import NOISE_PRICE, RULES, Builder, Candidate, Raced
from qdialect.workflows.inputs import drawn_inputs
from qdialect.workflows.interface_codes import CacheCodes, cache_codes
from qdialect.workflows.model import Form, Model
from qdialect.workflows.quality import HELD_OUT, Samples, held_out, unfit
from qdialect.workflows.run import open_engine

if TYPE_CHECKING:
    from qdialect.ir.context import QContext
    from qdialect.quantizer.apply_profile import Correct
    from qdialect.quantizer.bias_correction import BiasCorrection
    from qdialect.quantizer.block_rounding import BlockRounding
    from qdialect.quantizer.grids import Grids
    from qdialect.quantizer.profile.data import DataSet
    from qdialect.quantizer.profile.engines import EngineName
    from qdialect.quantizer.search import Arrays, OpenRun, Trial
    from qdialect.quantizer.selection import Selection
    from qdialect.quantizer.sensitivity import Sensitivity
    from qdialect.quantizer.weight_rounding import Method
    from qdialect.workflows.budgeted import Answer, Request
    from qdialect.workflows.effort import Improved, Step

    Watch = Callable[[Iterable[int], int], Iterable[int]]

SENSITIVITY_SAMPLES = 4
SEARCH_SAMPLES = 32
CORRECTION_SAMPLES = 32
ROUNDING_SAMPLES = 256
SEEN_SAMPLES = {1: 64, 2: 64}
"""How many samples statistics and roundings are of, at most, at each level of effort."""
REPORT_SAMPLES = 2
LOOKED_AT = 8
"""How many samples are checked for being fit to calibrate on."""
LEAST = "sqnr>=6"
"""What a result keeps where nobody says how accurate it has to be: noise is at most a quarter of
each part of the outputs."""


@dataclass(frozen=True)
class Quantized:
    """A quantized model, the profile it is from, what in it is float and why, and what was
    measured for that; what matched of the profile, if it may be of another model; what came of a
    request."""

    model: Model
    profile: Profile
    coverage: Coverage
    ranking: Sequence[Sensitivity] = ()
    trials: Sequence[Trial] = ()
    matching: Matching | None = None
    raced: Raced | None = None
    answer: Answer | None = None
    #: what `--effort` tried
    steps: Sequence[Step] = ()
    #: why there was no race, if there was to be one
    unraced: str = ""

    def caches(self) -> list[CacheCodes]:
        """The caches that the model takes and gives in codes, with their grids."""
        return cache_codes(self.model)


def _both(first: Correct, second: Correct, selection: Selection, grids: Grids) -> None:
    first(selection, grids)
    second(selection, grids)


def rounding_by(
    method: Method,
    samples: Sequence[Arrays],
    engine: str,
    first: Correct | None,
    state: Path | None = None,
    workers: str | None = None,
) -> Correct:
    """What rounds weights by a method, behind what is `first` done with them; `state` and `workers`
    as of `Quantization`. QError where the method takes a package that is not installed."""
    from qdialect.plugins.torch.blocks import TorchBlocks
    from qdialect.quantizer.weight_rounding import WeightRounding, in_turn
    from qdialect.workflows.rounding_workers import on_workers

    solve = on_workers(workers) if workers else in_turn
    solver = TorchBlocks() if method == "blocks" else None
    made = WeightRounding(samples, engine, method, state, solve, solver)
    return made if first is None else partial(_both, first, made)


def _spread(count: int, most: int) -> Sequence[int]:
    """At most that many of the first `count` numbers, evenly spread."""
    most = min(most, count)
    return [number * count // most for number in range(most)]


def _others(count: int, taken: Sequence[int]) -> Sequence[int]:
    """The first `count` numbers without those that are taken."""
    return sorted(set(range(count)).difference(taken))


def _sensitivity_samples(count: int) -> Sequence[int]:
    ours = _others(count, held_out(count))
    return [ours[n] for n in _spread(len(ours), SENSITIVITY_SAMPLES)]


def _level(target: Target) -> str:
    """The strictest contract under which a target runs quantized ops: the casts round half
    to even."""
    return "exact" if target.rounding(Rounding.HALF_EVEN) is Rounding.HALF_EVEN else "ties"


def _unwatched(numbers: Iterable[int], total: int) -> Iterable[int]:
    return numbers


@dataclass
class Quantization:
    """One run: `model` is the float model as it was loaded.

    Without data and profile all ops stay float but those in states that need no ranges
    (`Recipe.needs_no_ranges`), and nothing races.
    With `search` the data also decides how ranges are chosen.  With `another_model` what matches
    of a profile is used, whatever model it is of; `profile_path` is where it is from.  `numerics`
    is how far integer ops may be from what the casts say; None: no farther than the target's
    rounding.  For so many `seconds` ONNX Runtime times what could be written (`candidates`).
    `request` is what is asked for besides (`budgeted`). What single ops lose is kept in the folder
    `state`, and measured by `workers` (`sensitivity`), or with `estimate` guessed (`noise`).
    With `effort` the float model is made easier to quantize first, for `effort_seconds` (None: as
    long as that takes at most).
    With `or_float` the float model is what is written where nothing quantized is faster.
    With `by_prices` the prices of the target say which ops are quantized, first of all.
    """

    model: Model
    recipe: Recipe
    target: Target
    numerics: str | None = None
    data: Path | None = None
    profile: Profile | None = None
    profile_path: Path | None = None
    another_model: bool = False
    engine: EngineName | None = None
    whole_files: bool = False
    require_all: bool = False
    search: bool = False
    seconds: float = 0.0
    form: Form = "qdq"
    state: Path | None = None
    workers: str | None = None
    request: Request | None = None
    estimate: bool = False
    by_prices: bool = False
    or_float: bool = False
    effort: int = 0
    effort_seconds: float | None = None
    watch: Watch = _unwatched

    def run(self, keep_sensitive: int = 0) -> Quantized:
        """The quantized model; UsageError without data and profile, where ranges are needed."""
        blind = self.data is None and self.profile is None
        if (blind and not self.recipe.needs_no_ranges) or (keep_sensitive and self.data is None):
            what = "data" if keep_sensitive else "data or a profile"
            raise UsageError(f"{what} to calibrate on is missing", code="missing-data")
        if self.effort and self.data is None:
            raise UsageError("effort takes data: --data", code="missing-data")
        if self.recipe.caches:
            self._check_caches()
        if blind:
            profile = tried = new_profile(self.model, Settings(self._engine()))
        elif self.profile is None:
            profile, tried = self._calibrated()
        else:
            profile = tried = self.profile
        loaded = LoadedModel.of(self.model.module, self.model.ctx)
        matching = None
        if self.another_model:
            matching = match_profile(profile, self.model.module, self.model.ctx, loaded.identity)
            profile = tried = matching.profile
        else:
            loaded.identity.check(profile, self.profile_path, "--profile-of-another-model")
        prepared = self.model.copied(self.target)
        refused = prepare_whole(prepared.module, prepared.ctx, profile, self.recipe)
        recipe, correct = self.recipe, self._correction()
        trials: Sequence[Trial] = ()
        ranking: Sequence[Sensitivity] = ()
        if self.search and self.data is not None:
            trials = self._trials(prepared, tried, recipe, correct)
            recipe = trials[0].recipe
        rounding, steps = self._rounding(), ()
        if self.effort:
            improved = self._improved(prepared, tried, recipe, correct)
            rounding, steps = improved.state.rounding, improved.steps
            if improved.state.model is not prepared:
                prepared, tried = improved.state.model, improved.state.profile
                recipe = improved.state.recipe
                if self.search:
                    trials = self._trials(prepared, tried, recipe, correct, rounding)
                    recipe = trials[0].recipe
                profile = self._with_trial_samples(prepared, tried)
        if profile is not tried and (self.effort or recipe.calibration != "minmax"):
            both = profile, tried
            profile = self._no_worse(prepared, both, recipe, correct, rounding)
        if keep_sensitive:
            ranking = self._ranking(prepared, profile, recipe)
            keys = {entry.key for entry in ranking[:keep_sensitive]}
            recipe = replace(recipe, keep_float=recipe.keep_float | keys)
        if matching is not None:
            remark(matching, prepared.ctx)
        races = self.seconds and recipe.plan is None and not (self.require_all or blind)
        builder = Builder(
            prepared,
            profile,
            recipe,
            self.target,
            self.numerics or _level(self.target),
            rounding=rounding,
            correct=correct,
            require_all=self.require_all,
            removed=loaded.removed(profile),
            whole=refused,
            # Who asks for accuracy may need weights that are floats.
            stores=bool(races) and not self.or_float and self.request is None,
            or_float=self.or_float or not races,
        )
        raced, answer, unraced = None, None, ""
        chosen = builder.by_prices() if self.by_prices else builder.quantized(RULES, recipe.plan)
        if races and (self.data is not None or self.request is None):
            try:
                raced, answer = self._raced(builder, chosen)
                chosen = raced.chosen
            except InputError as error:
                if error.code != "engine-failed" or self.request is not None:
                    raise
                unraced = f"not raced: {error.message}\n"
        elif self.request is not None:
            raise UsageError(
                "a metric, budgets and a front take data, ONNX Runtime and time for a race",
                code="missing-data",
            )
        return Quantized(
            *(chosen.model, profile, chosen.coverage, ranking, trials, matching),
            *(raced, answer, steps, unraced),
        )

    def _check_caches(self) -> None:
        function = self.model.function()
        found, refused = find_caches(function, self.model.ctx)
        if not found:
            names = argument_names(function)
            raise InputError(
                "no input of the model is a cache, which gets elements joined and is returned",
                code="no-cache",
                notes=tuple(f"'{names[n]}': {reason}" for n, reason in refused.items()),
            )

    def _raced(self, builder: Builder, first: Candidate) -> tuple[Raced, Answer | None]:
        """What was asked for; else a fast candidate of little noise that keeps `LEAST`, on data.
        Without data the fastest for random inputs, of which the loss says little."""
        from qdialect.workflows.budgeted import BudgetedLoop, Request

        request = self.request
        if self.data is None:
            request, samples = Request(), drawn_inputs(self.model, 1, profile=builder.profile)
        else:
            if request is None:
                floor, price = parse_budget(LEAST), self._noise_price
                request = Request((floor,), best_effort=True, noise_price=price)
            judged = self.judged_samples()
            assert judged is not None
            samples = list(judged.inputs)
        recipe = replace(builder.recipe, plan={})

        def losses() -> dict[str, float]:
            if self.estimate or (self.request is None and not self.effort):
                from qdialect.quantizer.noise import estimated_losses

                selection = builder.selection()
                return dict(estimated_losses(selection, assign(selection)))
            found = self._sensitivities(builder.prepared, builder.profile, recipe, roundings=True)
            return {entry.key: entry.loss for entry in found}

        loop = BudgetedLoop(builder, samples, self.seconds, self.model, self.form, request, losses)
        raced, answer = loop.answered(first)
        return raced, None if self.request is None else answer

    @property
    def _noise_price(self) -> float:
        """What noise is worth in time: the more, the more effort goes into it."""
        return NOISE_PRICE * (1 + self.effort)

    def _engine(self) -> EngineName:
        if self.engine is not None:
            return self.engine
        return "onnxruntime" if find_spec("onnxruntime") else "numpy"

    def _calibrated(self) -> tuple[Profile, Profile]:
        """The profile of all the data, and one that has not seen what ways are tried on."""
        part = self._without_trial_samples(self.model)
        return self._with_trial_samples(self.model, part), part

    def _parts(self) -> tuple[DataSet, Sequence[int], Sequence[int]]:
        """The data, the numbers of the samples that ways are tried on, and of the others that
        ranges are of."""
        assert self.data is not None
        data = open_data(self.model, self.data, self.whole_files)
        trial: Sequence[int] = ()
        if (self.search or self.effort) and len(data) > 1:
            trial = self._trial_samples(len(data))
        return data, trial, _others(len(data), [*trial, *held_out(len(data))])

    def _without_trial_samples(self, model: Model) -> Profile:
        data, _, rest = self._parts()
        start = new_profile(model, Settings(self._engine()))
        return calibrate(model, data, start, rest, watch=self.watch)

    def _with_trial_samples(self, model: Model, profile: Profile) -> Profile:
        data, trial, _ = self._parts()
        return calibrate(model, data, profile, trial, watch=self.watch) if trial else profile

    def _trial_samples(self, count: int) -> Sequence[int]:
        """Which of the samples ways are tried on: a third of those that ranges are of."""
        ours = _others(count, held_out(count))
        return [ours[n] for n in _spread(len(ours), min(SEARCH_SAMPLES, (len(ours) + 2) // 3))]

    def _samples(self, numbers: Callable[[int], Sequence[int]]) -> list[Arrays]:
        assert self.data is not None
        data = open_data(self.model, self.data, self.whole_files)
        return list(data.read(numbers(len(data))))

    def some_samples(self) -> list[Arrays]:
        """A few samples of the data to look at, if there is data."""
        return [] if self.data is None else self._samples(lambda n: _spread(n, REPORT_SAMPLES))

    def unfit_data(self) -> list[str]:
        """Why the data cannot calibrate, judged by `LOOKED_AT` samples."""
        if self.data is None:
            return []
        data = open_data(self.model, self.data, self.whole_files)
        return unfit(list(data.read(_spread(len(data), LOOKED_AT))), len(data))

    def judged_samples(self) -> Samples | None:
        """What the result is judged on; None without data. A profile may be of any of it."""
        if self.data is None:
            return None
        data = open_data(self.model, self.data, self.whole_files)
        numbers = held_out(len(data)) if self.profile is None else []
        judged = numbers or _spread(len(data), HELD_OUT)
        return Samples(list(data.read(judged)), judged, len(data), bool(numbers))

    def _runner(self, ctx: QContext) -> OpenRun:
        engine = self._engine()
        return lambda module: open_engine(Model(module, ctx), engine)

    def _watch(self, numbers: Iterable[int]) -> Iterable[int]:
        return self.watch(numbers, len(cast("Sequence[int]", numbers)))

    def _correction(self) -> BiasCorrection | None:
        """What corrects biases, on data that nothing is tried on where there is other."""
        if self.data is None or not self.recipe.correct_bias:
            return None
        from qdialect.quantizer.bias_correction import BiasCorrection

        def others(count: int) -> Sequence[int]:
            rest = _others(count, [*self._trial_samples(count), *held_out(count)])
            return [rest[number] for number in _spread(len(rest), CORRECTION_SAMPLES)] or [0]

        return BiasCorrection(self._samples(others), self._engine())

    def _rounding(self) -> BlockRounding | None:
        """What rounds weights that alone become codes, where these are few, on data that neither
        the result is judged on nor, with effort, steps are, where there is other."""
        from qdialect.quantizer.block_rounding import BlockRounding, gains

        if self.data is None or not gains(self.recipe):
            return None

        def ours(count: int) -> Sequence[int]:
            tried = self._trial_samples(count) if self.effort else ()
            rest = _others(count, [*tried, *held_out(count)])
            return [rest[number] for number in _spread(len(rest), ROUNDING_SAMPLES)]

        return BlockRounding(self._samples(ours), self._engine())

    def _trials(
        self,
        prepared: Model,
        profile: Profile,
        recipe: Recipe,
        correct: BiasCorrection | None,
        rounding: Correct | None = None,
    ) -> Sequence[Trial]:
        from qdialect.quantizer.search import best_recipe

        return best_recipe(
            prepared.module,
            prepared.ctx,
            profile,
            recipe,
            self._samples(self._trial_samples),
            self._runner(prepared.ctx),
            correct,
            self._watch,
            rounding,
        )

    def _no_worse(
        self,
        prepared: Model,
        profiles: tuple[Profile, Profile],
        recipe: Recipe,
        correct: BiasCorrection | None,
        rounding: Correct | None,
    ) -> Profile:
        """The first of two profiles, of all the data, unless ranges of it surely lose more on the
        samples that only it has seen: then the second, which everything was tried with.

        More data makes ranges that were chosen by least error or by a share other than those that
        were judged, and not always better.
        """
        from qdialect.quantizer.search import Scoring, gains_of, surely

        whole, tried = profiles
        samples, run = self._samples(self._trial_samples), self._runner(prepared.ctx)
        module, ctx = prepared.module, prepared.ctx
        scoring = Scoring(module, ctx, tried, recipe, samples, run)
        first, second = (
            list(
                scoring.scores(
                    scoring.answers(
                        module, ctx, profile, recipe, correct=correct, rounding=rounding
                    )
                )
            )
            for profile in (whole, tried)
        )
        return tried if surely(gains_of(first, second)) else whole

    def _improved(
        self, prepared: Model, profile: Profile, recipe: Recipe, correct: BiasCorrection | None
    ) -> Improved:
        """The float model made easier to quantize; UsageError where nothing is left to try it
        on."""
        from qdialect.workflows.effort import SECONDS, Effort

        data, trial, rest = self._parts()
        if not trial or not rest:
            raise UsageError("effort takes two samples or more", code="missing-data")
        numbers = [rest[n] for n in _spread(len(rest), SEEN_SAMPLES[self.effort])]
        seconds, engine, seen = self.effort_seconds, self._engine(), list(data.read(numbers))
        first = self._rounding()

        def rounding(method: Method) -> Correct:
            return rounding_by(method, seen, engine, first, self.state, self.workers)

        return Effort(
            self.effort,
            SECONDS[self.effort] if seconds is None else seconds,
            list(data.read(trial)),
            seen,
            engine,
            self._without_trial_samples,
            rounding,
            self._runner(prepared.ctx),
            correct,
            first,
        ).improved(prepared, profile, recipe)

    def _ranking(self, prepared: Model, profile: Profile, recipe: Recipe) -> Sequence[Sensitivity]:
        """What each op loses alone, the most first."""
        found = self._sensitivities(prepared, profile, recipe)
        return sorted(found, key=lambda entry: -entry.loss)

    def _sensitivities(
        self, prepared: Model, profile: Profile, recipe: Recipe, *, roundings: bool = False
    ) -> Sequence[Sensitivity]:
        from qdialect.workflows.sensitivity import SensitivityRun

        assert self.data is not None
        count = len(open_data(self.model, self.data, self.whole_files))
        return SensitivityRun(
            self.model,
            self.target,
            profile,
            recipe,
            self.data,
            _sensitivity_samples(count),
            self.whole_files,
            self._engine(),
            self.state,
            # Workers prepare the model of the file, and here it may be a rewritten one.
            None if self.effort else self.workers,
            prepared,
            roundings,
            self.watch,
        ).run()

"""From a float model and data or a profile to a quantized model: all the steps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, cast

from qdialect.api import Engine, Model, run_passes
from qdialect.cli.calibration import calibrate, new_profile, open_data
from qdialect.errors import InputError, UsageError
from qdialect.profile.instrument import model_digest
from qdialect.profile.record import Profile, Settings
from qdialect.quantization.apply_profile import apply_profile
from qdialect.quantization.coverage import Coverage
from qdialect.quantization.recipe import Recipe
from qdialect.targets.base import Target
from qdialect.transforms.pipelines import PREPARATION, optimize_pipeline

if TYPE_CHECKING:
    from qdialect.context import QContext
    from qdialect.quantization.search import Arrays, OpenRun, Trial
    from qdialect.quantization.sensitivity import Sensitivity

    Watch = Callable[[Iterable[int], int], Iterable[int]]

SENSITIVITY_SAMPLES = 4
SEARCH_SAMPLES = 32


@dataclass(frozen=True)
class Quantized:
    """A quantized model, what in it is float and why, and what was measured for that."""

    model: Model
    coverage: Coverage
    ranking: Sequence[Sensitivity] = ()
    trials: Sequence[Trial] = ()


def _unwatched(numbers: Iterable[int], total: int) -> Iterable[int]:
    return numbers


@dataclass
class Quantization:
    """One run: `model` is the float model as it was loaded.

    With `search` the data also decides how ranges are chosen.
    """

    model: Model
    recipe: Recipe
    target: Target
    numerics: str = "exact"
    data: Path | None = None
    profile: Profile | None = None
    engine: Engine | None = None
    whole_files: bool = False
    require_all: bool = False
    search: bool = False
    watch: Watch = _unwatched

    def run(self, keep_sensitive: int = 0) -> Quantized:
        """The quantized model; UsageError without data and profile."""
        if self.data is None and (self.profile is None or keep_sensitive):
            what = "data" if keep_sensitive else "data or a profile"
            raise UsageError(f"{what} to calibrate on is missing", code="missing-data")
        profile = self.profile or self._calibrated()
        if profile.digest != model_digest(self.model.module, self.model.ctx):
            raise InputError(
                f"the profile is of another model ({profile.digest})",
                code="profile-of-another-model",
            )
        prepared = run_passes(self.model, PREPARATION, target=self.target, verify_each=False)
        recipe = self.recipe
        trials: Sequence[Trial] = ()
        ranking: Sequence[Sensitivity] = ()
        if self.search and self.data is not None:
            trials = self._trials(prepared, profile)
            recipe = trials[0].recipe
        if keep_sensitive:
            ranking = self._ranking(prepared, profile, recipe)
            keys = {entry.key for entry in ranking[:keep_sensitive]}
            recipe = replace(recipe, keep_float=recipe.keep_float | keys)
        coverage = apply_profile(
            prepared.module, prepared.ctx, profile, recipe, require_all=self.require_all
        )
        told = prepared.ctx.remarks.remarks
        optimized = run_passes(
            prepared,
            optimize_pipeline(self.target, self.numerics),
            target=self.target,
            verify_each=False,
        )
        optimized.ctx.remarks.remarks[:0] = told
        return Quantized(optimized, coverage, ranking, trials)

    def _engine(self) -> Engine:
        if self.engine is not None:
            return self.engine
        return "onnxruntime" if find_spec("onnxruntime") else "numpy"

    def _calibrated(self) -> Profile:
        assert self.data is not None
        data = open_data(self.model, self.data, self.whole_files)
        start = new_profile(self.model, Settings(self._engine()))
        return calibrate(self.model, data, start, range(len(data)), watch=self.watch)

    def _samples(self, limit: int) -> list[Arrays]:
        """Some samples of the data, evenly spread."""
        assert self.data is not None
        data = open_data(self.model, self.data, self.whole_files)
        count = min(len(data), limit)
        return list(data.read([number * len(data) // count for number in range(count)]))

    def _runner(self, ctx: QContext) -> OpenRun:
        from qdialect.cli.execution import open_engine

        engine = self._engine()
        return lambda module: open_engine(Model(module, ctx), engine)

    def _watch(self, numbers: Iterable[int]) -> Iterable[int]:
        return self.watch(numbers, len(cast("Sequence[int]", numbers)))

    def _trials(self, prepared: Model, profile: Profile) -> Sequence[Trial]:
        from qdialect.quantization.search import best_recipe

        return best_recipe(
            prepared.module,
            prepared.ctx,
            profile,
            self.recipe,
            self._samples(SEARCH_SAMPLES),
            self._runner(prepared.ctx),
            self._watch,
        )

    def _ranking(self, prepared: Model, profile: Profile, recipe: Recipe) -> Sequence[Sensitivity]:
        from qdialect.quantization.sensitivity import rank

        return rank(
            prepared.module,
            prepared.ctx,
            profile,
            recipe,
            self._samples(SENSITIVITY_SAMPLES),
            self._runner(prepared.ctx),
            self._watch,
        )

"""Measuring what each op loses alone: with progress, to be gone on with, over several processes.

What is measured of an op depends on the model, the recipe, the ranges and the samples alone. So
results are kept in a file that these name, a line for each op: a run that was interrupted goes on
where it was, and a search that asks again has the answer. Workers read model and data by path, as
for `qopt profile`, and each measures some of the ops.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from qdialect.errors import InputError, QError, UsageError, Where
from qdialect.quantizer.output_parts import Part, parts_of
from qdialect.quantizer.prepared import prepare_whole
from qdialect.quantizer.profile.file import parse_profile, profile_text
from qdialect.quantizer.sensitivity import Judge, Measurement, Sensitivity
from qdialect.targets.installed import get_target
from qdialect.workflows.calibrate import open_data
from qdialect.workflows.model import Model, load
from qdialect.workflows.run import open_engine
from qdialect.workflows.workers import client_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qdialect.quantizer.profile.record import Profile
    from qdialect.quantizer.recipe import Recipe
    from qdialect.targets.base import Target

    Arrays = dict[str, NDArray[Any]]
    Watch = Callable[[Iterable[int], int], Iterable[int]]

_TASKS_PER_WORKER = 4


@dataclass
class SensitivityRun:
    """One run on a float `model` as it was loaded; `numbers` are the samples of the data that are
    looked at, `state` a folder to keep results in, `workers` a number of processes or the address
    of a scheduler (None: this process). `prepared` is the model as it is quantized, where somebody
    has made it. With `roundings` the pieces are measured that add up to any plan.
    """

    model: Model
    target: Target
    profile: Profile
    recipe: Recipe
    data: Path
    numbers: Sequence[int]
    whole_files: bool = False
    engine: str = "onnxruntime"
    state: Path | None = None
    workers: str | None = None
    prepared: Model | None = None
    roundings: bool = False
    watch: Watch = field(default=lambda numbers, total: numbers)

    def run(self) -> list[Sensitivity]:
        """Of each op that would be quantized, or of each rounding; UsageError with workers for a
        model that no file has, InputError for a state that cannot be kept."""
        work = _measurement(self)
        names = work.roundings if self.roundings else work.candidates
        known = self._read(work)
        missing = [key for key in names if key not in known]
        results = self._on_workers(missing) if self.workers else work.losses(missing)
        path = self._path(work)
        for _ in self.watch(range(len(missing)), len(missing)) if missing else ():
            found = next(results)
            known[found.key] = found
            if path is not None:
                _append(path, found)
        return [known[key] for key in names]

    def _path(self, work: Measurement) -> Path | None:
        """The file of this measurement."""
        if self.state is None:
            return None
        hasher = blake2b(digest_size=8)
        plan = None if self.recipe.plan is None else sorted(self.recipe.plan.items())
        keep = sorted(self.recipe.keep_float)
        said = [self.target.name, self.engine, _without(self.recipe), keep, plan, work.candidates]
        for part in (*map(repr, said), profile_text(self.profile)):
            hasher.update(part.encode() + b"\0")
        for sample in work.samples:
            for name, array in sample.items():
                hasher.update(f"{name} {array.dtype} {array.shape}".encode())
                hasher.update(np.ascontiguousarray(array).data)
        return self.state / f"sensitivity-{hasher.hexdigest()}.jsonl"

    def _read(self, work: Measurement) -> dict[str, Sensitivity]:
        path, known = self._path(work), dict[str, Sensitivity]()
        if path is None:
            return known
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        except OSError as error:
            reason = error.strerror or str(error)
            raise InputError(
                f"cannot keep state here: {reason}",
                where=Where(str(path.parent)),
                code="unwritable-file",
            ) from None
        for line in lines:
            # The last line may be the beginning of one.
            with suppress(ValueError, TypeError, KeyError):
                entry = json.loads(line)
                found = Sensitivity(str(entry["key"]), str(entry["op"]), float(entry["loss"]))
                known[found.key] = found
        return known

    def _on_workers(self, keys: Sequence[str]) -> Iterator[Sensitivity]:
        source = self.model.source
        if source is None:
            raise UsageError("workers read the model from a file, and it is from none")
        assert self.workers is not None
        task = _Task(
            str(source.resolve()),
            str(self.model.function().function_type),
            self.target.name,
            profile_text(self.profile),
            self.recipe,
            str(self.data.resolve()),
            tuple(self.numbers),
            self.whole_files,
            self.engine,
        )
        with client_of(self.workers) as (client, as_completed):
            count = max(len(client.scheduler_info()["workers"]), 1) * _TASKS_PER_WORKER
            # Ops beside each other share a part of the model, which is opened once.
            size = max(-(-len(keys) // count), 1)
            parts = [list(keys[n : n + size]) for n in range(0, len(keys), size)]
            futures = [client.submit(_measured, task, part, pure=False) for part in parts]
            try:
                for future in as_completed(futures):
                    entries, refusal = future.result()
                    if refusal is not None:
                        message, where, code, notes = refusal
                        raise InputError(message, where=where, code=code, notes=notes)
                    yield from (Sensitivity(*entry) for entry in entries)
            except KeyboardInterrupt:
                client.cancel(futures, force=True)
                raise


@dataclass(frozen=True)
class _Task:
    """What a worker has to know."""

    model: str
    kind: str
    target: str
    profile: str
    recipe: Recipe
    data: str
    numbers: tuple[int, ...]
    whole_files: bool
    engine: str


def _measured(task: _Task, keys: Sequence[str]) -> tuple[list[tuple[str, str, float]], Any]:
    """On a worker: key, op and loss of some ops, or what is wrong."""
    try:
        work = _opened(task, Path(task.model).stat().st_mtime_ns)
        return [(found.key, found.op, found.loss) for found in work.losses(keys)], None
    except QError as error:
        return [], (error.message, error.where, error.code, error.notes)


@lru_cache(maxsize=1)
def _opened(task: _Task, changed: int) -> Measurement:
    model = load(task.model)
    if str(model.function().function_type) != task.kind:
        raise InputError(
            "workers read the model as it is in its file, and this one has other extents: write it "
            "with them first",
            where=Where(task.model),
            code="bad-workers",
        )
    return _measurement(
        SensitivityRun(
            model,
            get_target(task.target),
            parse_profile(task.profile),
            task.recipe,
            Path(task.data),
            task.numbers,
            task.whole_files,
            task.engine,
        )
    )


def _measurement(run: SensitivityRun) -> Measurement:
    """What measures, of a model as it was loaded."""
    prepared = run.prepared
    if prepared is None:
        prepared = run.model.copied(run.target)
        prepare_whole(prepared.module, prepared.ctx, run.profile, run.recipe)
    ctx = prepared.ctx
    samples = list(open_data(run.model, run.data, run.whole_files).read(run.numbers))
    return Measurement(
        prepared.module,
        ctx,
        run.profile,
        run.recipe,
        samples,
        lambda module: open_engine(Model(module, ctx), run.engine),
        worst_part(parts_of(run.model.module, run.model.ctx)),
    )


def worst_part(parts: Sequence[Part]) -> Judge:
    """Noise power over signal power of the part of the float outputs where that is largest, over
    all samples; infinite where something without signal has noise, or noise is no number."""

    def judge(expected: Sequence[Arrays], actual: Sequence[Arrays]) -> float:
        worst = 0.0
        for part in parts:
            signal = noise = 0.0
            for one, other in zip(expected, actual, strict=True):
                if part.output not in one or one[part.output].dtype.kind != "f":
                    continue
                real = part.of(one[part.output]).astype(np.float64)
                error = real - part.of(other[part.output])
                signal += float(np.vdot(real, real))
                noise += float(np.vdot(error, error))
            if noise != 0:
                worst = max(worst, noise / signal if signal and np.isfinite(noise) else np.inf)
        return worst

    return cast("Judge", judge)


def _append(path: Path, found: Sensitivity) -> None:
    line = json.dumps({"key": found.key, "op": found.op, "loss": found.loss})
    # A line that an interrupted run began ends here.
    began = path.exists() and not path.read_bytes().endswith(b"\n")
    with path.open("a", encoding="utf-8") as file:
        file.write(("\n" if began else "") + line + "\n")


def _without(recipe: Recipe) -> dict[str, Any]:
    shown = {name: getattr(recipe, name) for name in recipe.__dataclass_fields__}
    del shown["keep_float"], shown["plan"]
    return shown

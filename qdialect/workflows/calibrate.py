"""Running a data set through a model and gathering its profile.

Over many workers (dask) the profile is the same, byte for byte, as in one process. Workers read
the model and the data by path, so on several machines both must be on a disk that all of them
see.  Each task is a run of consecutive samples; a worker returns the text of its profile.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from threading import current_thread, main_thread
from time import monotonic
from types import FrameType
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from qdialect.algebra.contract import Numerics
from qdialect.errors import InputError, QError, UsageError
from qdialect.interpreter import Interpreter
from qdialect.ir.context import QContext
from qdialect.ir.ops import ConstantOp, keys_of
from qdialect.passes.importing.raise_composites import RaiseFunction
from qdialect.quantizer.profile.collector import Collector
from qdialect.quantizer.profile.data import DataSet
from qdialect.quantizer.profile.engines import ENGINES, open_engine
from qdialect.quantizer.profile.file import parse_profile, profile_text
from qdialect.quantizer.profile.instrument import instrument, leave_derived
from qdialect.quantizer.profile.model_identity import identify
from qdialect.quantizer.profile.record import Profile, Settings
from qdialect.rewrite import Driver
from qdialect.targets.base import Target
from qdialect.workflows.model import load
from qdialect.workflows.workers import client_of

if TYPE_CHECKING:
    from qdialect.workflows.model import Model

    Watch = Callable[[Iterable[int], int], Iterable[int]]
    """Sees sample numbers go by; the second argument is how many there are."""

    Save = Callable[[Profile], None]

SAVE_SECONDS = 60.0
_TASKS_PER_WORKER = 4


class Interrupted(Exception):
    """A run was stopped; `profile` is that of the samples it finished."""

    def __init__(self, profile: Profile) -> None:
        super().__init__("interrupted")
        self.profile = profile


@contextmanager
def undivided() -> Generator[None]:
    """What is inside is done whole: a signal that asks to end waits for that."""
    if current_thread() is not main_thread():
        yield
        return
    came: list[tuple[int, FrameType | None]] = []

    def wait(number: int, frame: FrameType | None) -> None:
        came.append((number, frame))

    stops = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.signal(number, wait) for number in stops}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
    for number, frame in came:
        handler = before[signal.Signals(number)]
        if callable(handler):
            handler(number, frame)
        elif handler is not signal.SIG_IGN:
            signal.raise_signal(number)


def calibrate(
    model: Model,
    data: DataSet,
    start: Profile,
    numbers: Sequence[int],
    first: int = 0,
    *,
    watch: Watch = lambda numbers, total: numbers,
    save: Save = lambda profile: None,
) -> Profile:
    """`start` with the samples `numbers` of `data` added, as number + `first` of the whole.

    `save` gets the profile so far once in a while.  Interrupted on Ctrl-C.
    """
    settings = start.settings
    plan = instrument(model.module, model.ctx, settings.components, raised_forms)
    leave_derived(plan, model.ctx, settings.channels != "none")
    engine = open_engine(settings.engine, plan, model.ctx)
    collector = Collector(start, plan.derived(), undivided)
    saved = monotonic()
    try:
        samples = data.read(numbers)
        for number, sample in zip(watch(numbers, len(numbers)), samples, strict=True):
            collector.add(first + number, engine.run(sample))
            if monotonic() - saved > SAVE_SECONDS:
                save(collector.profile())
                saved = monotonic()
    except KeyboardInterrupt:
        raise Interrupted(collector.profile()) from None
    return collector.profile()


def raised_forms(module: ModuleOp, ctx: QContext) -> Sequence[Operation]:
    """Composites that a target may run whole, at the end of a module of their pieces: it may not
    name all pieces of their declaration (`x * 0.5` of a gelu)."""
    values: dict[SSAValue, SSAValue] = {}
    copy, own = module.clone(values), ctx.clone()
    own.target = Target("any", "whatever is a composite")
    old, block = set(copy.walk()), Interpreter(ctx, module).function().body.block
    Driver(own, (RaiseFunction(own),), pass_name="observe", numerics=Numerics.TIES).run(copy)
    last = block.last_op
    assert last is not None
    here = {value: known for known, value in values.items()}
    named = {key: op.results[0] for op in block.ops if op.results for key in keys_of(op)}
    found: list[Operation] = []
    for op in Interpreter(own, copy).function().body.block.ops:
        if op in old:
            continue
        new = op.clone(here)
        block.insert_op_before(new, last)
        if not isinstance(new, ConstantOp):
            found.append(new)
            here[op.results[0]] = named[keys_of(op)[0]]
    return found


def open_data(model: Model, source: Path, whole: bool) -> DataSet:
    """The data set for a model's function."""
    return DataSet(source, model.function(), whole=whole)


def new_profile(model: Model, settings: Settings) -> Profile:
    """A profile of a model with no samples in it."""
    if settings.engine not in ENGINES:
        known = ", ".join(ENGINES)
        raise UsageError(f"no engine '{settings.engine}' ({known})", code="unknown-engine")
    found = identify(model.module, model.ctx)
    return Profile(found.digest, settings, ops=found.ops)


def still_to_do(profile: Profile, requested: range, first: int) -> list[int]:
    """The sample numbers of `requested` that are not in the profile yet."""
    return [
        number
        for number in requested
        if not any(a <= first + number < b for a, b in profile.samples)
    ]


def calibrate_on_workers(
    model_path: Path,
    data_path: Path,
    whole: bool,
    start: Profile,
    numbers: Sequence[int],
    first: int,
    *,
    workers: str = "2",
    watch: Watch = lambda numbers, total: numbers,
) -> Profile:
    """`start` with the samples `numbers` added; see `calibrate`.

    `workers` is how many local processes to start, or the address of a scheduler.
    UsageError (`missing-package`) without dask.distributed; Interrupted on Ctrl-C.
    """
    profile = start
    with client_of(workers) as (client, as_completed):
        count = max(len(client.scheduler_info()["workers"]), 1)
        parts = _parts(numbers, count * _TASKS_PER_WORKER)
        plan = str(model_path.resolve()), str(data_path.resolve()), whole
        futures = [
            client.submit(
                _profile_part, *plan, part, first, start.digest, start.settings, pure=False
            )
            for part in parts
        ]
        done = as_completed(futures)
        try:
            for _ in watch(range(len(parts)), len(parts)):
                profile = profile.merge(_result(next(done)))
        except KeyboardInterrupt:
            client.cancel(futures, force=True)
            raise Interrupted(profile) from None
    return profile


def _parts(numbers: Sequence[int], count: int) -> list[list[int]]:
    size = max(-(-len(numbers) // count), 1)
    return [list(numbers[i : i + size]) for i in range(0, len(numbers), size)]


def _result(future: Any) -> Profile:
    """The profile of one task; what was wrong there is an error here."""
    text, refusal = future.result()
    if refusal is not None:
        message, where, code, notes = refusal
        raise InputError(message, where=where, code=code, notes=notes)
    return parse_profile(text)


def _profile_part(
    model_path: str,
    data_path: str,
    whole: bool,
    numbers: list[int],
    first: int,
    digest: str,
    settings: Settings,
) -> tuple[str, Any]:
    """On a worker: the text of the profile of some samples, or what is wrong."""
    try:
        model = _model(model_path, Path(model_path).stat().st_mtime_ns)
        data = open_data(model, Path(data_path), whole)
        profile = calibrate(model, data, Profile(digest, settings), numbers, first)
    except QError as error:
        return "", (error.message, error.where, error.code, error.notes)
    return profile_text(profile), None


@lru_cache(maxsize=1)
def _model(path: str, changed: int) -> Model:
    return load(path)

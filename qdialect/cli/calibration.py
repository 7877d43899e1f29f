"""Running a data set through a model and gathering its profile, in one process."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from types import FrameType
from typing import TYPE_CHECKING

from qdialect.errors import InputError, UsageError
from qdialect.profile.collector import Collector
from qdialect.profile.data import DataSet
from qdialect.profile.engines import ENGINES, open_engine
from qdialect.profile.instrument import instrument, leave_derived, model_digest
from qdialect.profile.record import Profile, Settings

if TYPE_CHECKING:
    from qdialect.api import Model

    Watch = Callable[[Iterable[int], int], Iterable[int]]
    """Sees sample numbers go by; the second argument is how many there are."""

    Save = Callable[[Profile], None]

SAVE_SECONDS = 60.0


class Interrupted(Exception):
    """A run was stopped; `profile` is that of the samples it finished."""

    def __init__(self, profile: Profile) -> None:
        super().__init__("interrupted")
        self.profile = profile


@contextmanager
def undivided() -> Generator[None]:
    """What is inside is done whole: a signal that asks to end waits for that."""
    if threading.current_thread() is not threading.main_thread():
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
    plan = instrument(model.module, model.ctx, settings.components)
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


def open_data(model: Model, source: Path, whole: bool) -> DataSet:
    """The data set for a model's function."""
    from qdialect.cli.execution import main_function

    return DataSet(source, main_function(model), whole=whole)


def new_profile(model: Model, settings: Settings) -> Profile:
    """A profile of a model with no samples in it."""
    if settings.engine not in ENGINES:
        known = ", ".join(ENGINES)
        raise UsageError(f"no engine '{settings.engine}' ({known})", code="unknown-engine")
    return Profile(model_digest(model.module, model.ctx), settings)


def still_to_do(profile: Profile, wanted: range, first: int) -> list[int]:
    """The sample numbers of `wanted` that are not in the profile yet."""
    return [
        number for number in wanted if not any(a <= first + number < b for a, b in profile.samples)
    ]


def chosen_samples(text: str | None, count: int) -> range:
    """`A:B`, either end optional, as sample numbers; all without a text."""
    if text is None:
        return range(count)
    start, colon, end = text.partition(":")
    if not colon or not all(part.isdecimal() or not part for part in (start, end)):
        raise UsageError(f"--samples takes A:B, not '{text}'")
    low, high = int(start or 0), int(end or count)
    if low >= high or high > count:
        raise InputError(
            f"samples {low} to {high} are asked for, but the data has {count}", code="bad-data"
        )
    return range(low, high)

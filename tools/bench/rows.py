"""What a benchmark measures with: work in turns, in processes of their own, as rows of figures.

Times are processor time, in seconds. What is compared runs in turns in one process, and a
ratio is taken in each round, so that both sides share what the machine does meanwhile; median
and quartiles are over the rounds. The garbage collector is set as our commands set it.
"""

from __future__ import annotations

import gc
import math
import multiprocessing
import resource
import signal
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")

LIMIT = 60.0
"""Seconds after which a run is given up."""
FAINT = 1e-3
"""Seconds below which no growth is seen."""


@dataclass(frozen=True)
class Spread:
    """Median and quartiles of some runs; no runs: given up after so many seconds."""

    median: float
    low: float
    high: float
    runs: int

    @staticmethod
    def of(values: Sequence[float]) -> Spread:
        if math.inf in values:
            return Spread(LIMIT, LIMIT, LIMIT, 0)
        if len(values) == 1:
            return Spread(values[0], values[0], values[0], 1)
        low, median, high = statistics.quantiles(values, n=4, method="inclusive")
        return Spread(median, low, high, len(values))


@dataclass(frozen=True)
class Row:
    """One figure and what it is a multiple of.

    `key` says where it belongs: the section, what it was measured on, its size (0: as it is).
    """

    section: str
    case: str
    size: int
    name: str
    value: Spread
    """Seconds, or bytes if `unit` is that."""
    ops: int = 0
    """Ops that `value` is for; 0 if it is not of ops."""
    ratios: Mapping[str, Spread] = field(default_factory=dict[str, Spread])
    """By baseline."""
    unit: str = "s"
    note: str = ""
    watched: bool = True
    """Whether a history keeps its ratios."""

    @property
    def key(self) -> str:
        return "/".join((self.section, self.case, str(self.size), self.name))


class Absent(Exception):
    """What a section would need and this machine has not."""


@dataclass(frozen=True)
class Rounds:
    """As many rounds as `seconds` allow, at least one and at most `most`."""

    most: int
    seconds: float

    def __iter__(self) -> Iterator[int]:
        start = time.process_time()
        for index in range(self.most):
            yield index
            if time.process_time() - start > self.seconds:
                return


class _TooLong(BaseException):
    """Nothing that is measured may take it for an error of its own."""


@contextmanager
def limited(limit: float) -> Generator[None]:
    """Ends what takes longer than that many seconds of processor time.

    A timer of processor time would make its clock tick by tick, so one of real time looks.
    """
    start = time.process_time()

    def look(*_: object) -> None:
        if time.process_time() - start > limit:
            raise _TooLong

    before = signal.signal(signal.SIGALRM, look)
    every = min(limit, 0.25)
    signal.setitimer(signal.ITIMER_REAL, every, every)
    try:
        with suppress(_TooLong):
            yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def seconds(work: Callable[[], object], limit: float = LIMIT) -> float:
    """Processor time of one run; infinite if it is longer than `limit`."""
    gc.collect()
    used = math.inf
    with limited(limit):
        start = time.process_time()
        result = work()
        used = time.process_time() - start
        del result
    return used


def in_turns(works: Mapping[str, Callable[[], object]], rounds: Rounds) -> dict[str, list[float]]:
    """Times of each, round by round; who goes first changes from round to round."""
    names = list(works)
    times: dict[str, list[float]] = {name: [] for name in names}
    for index in rounds:
        turn = index % len(names)
        for name in names[turn:] + names[:turn]:
            given_up = times[name][-1:] == [math.inf]
            times[name].append(math.inf if given_up else seconds(works[name]))
    return times


def ratios(ours: Sequence[float], theirs: Mapping[str, Sequence[float]]) -> dict[str, Spread]:
    """Of times that were taken in turns, by baseline; none of what was given up."""
    return {
        name: Spread.of([a / max(b, 1e-9) for a, b in zip(ours, other, strict=True)])
        for name, other in theirs.items()
        if math.inf not in (*ours, *other)
    }


def resident() -> int:
    """Bytes of memory that this process holds."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return peak()
    return pages * resource.getpagesize()


def peak() -> int:
    """The most bytes of memory that this process has held."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
        return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))
    except (OSError, StopIteration):
        unit = 1 if sys.platform == "darwin" else 1024
        return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def growth_of_peak(run: Callable[[], object]) -> int:
    """Bytes by which a run exceeds what is held before it; once in a process that is fresh."""
    gc.collect()
    # Where that cannot be written, peaks of what was done before may hide some of it.
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    before = resident()
    result = run()
    grown = peak() - before
    del result
    return max(grown, 0)


@contextmanager
def collecting_seldom() -> Generator[None]:
    """The garbage collector as our commands set it."""
    before = gc.get_threshold()
    gc.set_threshold(200_000, 20, 100)
    try:
        yield
    finally:
        gc.set_threshold(*before)


def _called(function: Callable[..., T], arguments: Sequence[Any]) -> T:
    with collecting_seldom():
        return function(*arguments)


def alone(function: Callable[..., T], *arguments: Any) -> T:
    """A call in a new process: no leftovers of others in its memory, caches or counters."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(_called, (function, arguments))


def growth(rows: Iterable[Row]) -> dict[str, float]:
    """How rows grow with their ops, as an exponent: 1 is linear. By key without the size.
    What takes next to no time says nothing."""
    points: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for row in rows:
        if row.ops and row.value.runs and row.value.median > FAINT:
            place = "/".join((row.section, row.case, row.name))
            points[place].append((math.log(row.ops), math.log(row.value.median)))
    return {
        place: statistics.linear_regression(*zip(*found, strict=True)).slope
        for place, found in points.items()
        if len({x for x, _ in found}) > 1
    }

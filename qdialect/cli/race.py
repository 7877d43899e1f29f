"""Which of several files ONNX Runtime runs fastest: short runs in turns, on this machine.

The order in which candidates are given is the order of preference: of those that are as fast
as the fastest, within what the measurement can tell, the first wins.  Without a race (a budget
of 0) it is the first, so that the same command writes the same file anywhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import sqrt
from random import Random
from time import monotonic, thread_time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from xdsl.dialects.builtin import ModuleOp

    from qdialect.api import Form
    from qdialect.formats.onnx.write import OrtEngine
    from qdialect.targets.base import Target

    Arrays = Mapping[str, NDArray[Any]]

_WORTH = 0.95
"""QDQ runs anywhere, so another form has to be cheaper by more than measurements differ."""

SECONDS = 3.0
"""How long candidates are timed in turns, unless said."""
FEWEST = 5
"""Turns that are needed to tell a spread."""
_CLEAR = 50
"""After so many turns, and twice, four times as many, it is looked whether the spread is small
enough to end before the time is up."""
_NOISE = 0.01
"""Medians of ratios that are as close are the same, however narrow their spread is."""


def cheapest_form(module: ModuleOp, target: Target) -> Form:
    """The form in which the kernels of the module's ops cost less."""
    qdq = kernels = 0.0
    for op in module.walk():
        prices = target.form_prices(op)
        if prices is not None:
            qdq, kernels = qdq + prices[0], kernels + prices[1]
    return "qoperator" if kernels < _WORTH * qdq else "qdq"


@dataclass(frozen=True)
class Lap:
    """How one candidate ran: median milliseconds of processor time, and the median and the
    quartiles of its time over that of the input in the same turn."""

    milliseconds: float
    ratio: float
    low: float
    high: float
    turns: int

    @property
    def noise(self) -> float:
        """How far the median of the ratios may be off: two standard errors."""
        return max(_NOISE, 2 * 0.93 * (self.high - self.low) / sqrt(self.turns))

    def as_json(self) -> dict[str, float]:
        return {"ms": self.milliseconds, "ratio": self.ratio, "low": self.low, "high": self.high}


@dataclass(frozen=True)
class Race:
    """What a race measured, by candidate; `chosen` is the name of the winner."""

    laps: Mapping[str, Lap] = field(default_factory=dict[str, Lap])
    chosen: str = ""

    def __str__(self) -> str:
        if not self.laps:
            return "not raced: the prices of the target choose the form"
        rows = [
            f"{name} {lap.milliseconds:.3g} ms"
            + (f" ({lap.ratio:.2f} of the input, {lap.low:.2f} to {lap.high:.2f})" if n else "")
            for n, (name, lap) in enumerate(self.laps.items())
        ]
        turns = next(iter(self.laps.values())).turns
        return f"raced in ONNX Runtime, one thread, {turns} turns: {', '.join(rows)}"


def race(engines: Mapping[str, OrtEngine], inputs: Arrays, seconds: float) -> Race:
    """Run all in turns, in a new order each time, for about so many seconds (and `FEWEST` turns,
    if those take no more than four times as long), or until more turns would tell nothing new.
    The first is the one that the others are compared with."""
    times: dict[str, list[float]] = {name: [] for name in engines}
    for engine in engines.values():
        engine.run(inputs)
    order, names, began, turn, look = Random(0), list(engines), monotonic(), 0, _CLEAR
    while (spent := monotonic() - began) < seconds or (turn < FEWEST and spent < 4 * seconds):
        for name in names:
            start = thread_time()
            engines[name].run(inputs)
            times[name].append(1e3 * (thread_time() - start))
        # Whoever runs after the largest finds its own weights gone from the caches.
        order.shuffle(names)
        turn += 1
        if turn == look:
            look *= 2
            if all(lap.noise <= _NOISE for lap in _laps(times).values()):
                break
    return Race(_laps(times))


def _laps(times: Mapping[str, Sequence[float]]) -> dict[str, Lap]:
    first = next(iter(times.values()))
    return {name: _lap(own, first) for name, own in times.items()}


def _lap(own: Sequence[float], first: Sequence[float]) -> Lap:
    ratios = sorted(a / b if b else 1.0 for a, b in zip(own, first, strict=True))
    count = len(ratios)
    low, middle, high = (ratios[min(int(part * count), count - 1)] for part in (0.25, 0.5, 0.75))
    return Lap(sorted(own)[count // 2], middle, low, high, count)


def winner(laps: Mapping[str, Lap], preferred: Sequence[str]) -> str:
    """The first of the `preferred` that is as fast as the fastest."""
    fastest = min(laps, key=lambda name: laps[name].ratio)
    limit = laps[fastest].ratio + laps[fastest].noise
    return next(name for name in preferred if laps[name].ratio <= limit)

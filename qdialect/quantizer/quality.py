"""How far a quantized model's outputs are from the float model's: part by part, on data.

One figure for a whole output hides what is small beside something large, so each part of it
(`output_parts`) is judged, and each channel of a part. For a part with numbers x in the float
model and y in the quantized one:

    sqnr_db   10 log10(sum x² / sum (x - y)²) over all elements of all samples
    mean_db   the mean over samples of the same of one sample: not that of the loudest. More than
              `ENOUGH` of one sample, or than `sqnr_db`, is no better: it is certain anyway
    channels  sqnr_db of each channel

What is compared across parts and models is `sqnr_db`, but that of numbers from 0 to 1 (a sigmoid's)
that all are near 0 it is asked how large the noise is beside `FAINT`: no user of them tells them
from 0 (`judged_db`), and such a part is not dead. Of a channel whose mean power is below
`NEGLIGIBLE` of the part's nothing is said: a hundredth of the part's amplitude is no more than a
step of 8 bits. A channel is *dead* that varies in the float model by more than `ALIVE` of what the
part varies by (four steps of 8 bits), over all positions and samples, and is one number in the
quantized model; a part that itself varies by less than that share of its largest number is not
looked at. Where x is not finite nothing is compared; where only y is not, the noise is
infinite. Outputs that are not floats count how many elements are the same.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qdialect.quantizer.output_parts import Part

    Array = NDArray[Any]
    Arrays = Mapping[str, Array]

ENOUGH = 60.0
"""Decibels of one sample."""
NEGLIGIBLE = 1e-4
"""Of the mean power of a part."""
ALIVE = 4 / 256
"""Of how far a part reaches."""
FAINT = 0.01
"""The least amplitude of numbers from 0 to 1 that noise is compared with."""


def decibels(signal: float, noise: float) -> float:
    """10 log10(signal / noise): infinite without noise, -inf without signal or where the noise is
    no number."""
    if not noise:
        return math.inf
    return 10 * math.log10(signal / noise) if signal and math.isfinite(noise) else -math.inf


@dataclass(frozen=True)
class PartQuality:
    """One part, judged on all samples; dB are infinite where both models give the same.

    `channels` has the dB of each channel (None: it is negligible), empty where the part has no
    channels. `agreement` is the share of places where both models have their largest channel at
    the same index, or of integers that are the same; None where it is no answer. `dead` are the
    channels that are; `is_dead`: the part varies in the float model and is one number now.
    `not_compared` counts samples in which the shapes differ. `judged_db` is what counts: `sqnr_db`,
    or more where the part `is_faint`.
    """

    part: Part
    sqnr_db: float
    mean_db: float
    channels: Sequence[float | None] = ()
    agreement: float | None = None
    dead: Sequence[int] = ()
    is_dead: bool = False
    not_compared: int = 0
    faint_db: float | None = None

    @property
    def is_faint(self) -> bool:
        """Whether it has numbers from 0 to 1 that all are near 0."""
        return self.faint_db is not None

    @property
    def judged_db(self) -> float:
        """What is compared across parts and models."""
        return self.sqnr_db if self.faint_db is None else self.faint_db

    @property
    def worst_channel(self) -> int | None:
        """The channel with the least dB; None where all are negligible."""
        loud = [n for n, db in enumerate(self.channels) if db is not None]
        return min(loud, key=lambda n: self.channels[n] or 0.0, default=None)

    @property
    def worst_channel_db(self) -> float:
        """The least dB of a channel; `sqnr_db` where all are negligible."""
        loud = [db for db in self.channels if db is not None]
        return min(loud, default=self.sqnr_db)

    @property
    def is_real(self) -> bool:
        """Whether it has dB: a float part of which something was compared."""
        return not math.isnan(self.sqnr_db)

    def as_json(self) -> dict[str, Any]:
        """As plain data; dB are None where both models give the same."""
        return {
            "output": self.part.output,
            "place": self.part.place,
            "key": self.part.key,
            "sqnr_db": finite_db(self.sqnr_db),
            "mean_db": finite_db(self.mean_db),
            "judged_db": finite_db(self.judged_db),
            "exact": self.sqnr_db == math.inf,
            "channel_dimension": self.part.channel,
            "worst_channel": self.worst_channel,
            "worst_channel_db": finite_db(self.worst_channel_db),
            "agreement": self.agreement,
            "dead_channels": list(self.dead),
            "dead": self.is_dead,
            "not_compared": self.not_compared,
        }


def finite_db(db: float) -> float | None:
    """A number of dB as JSON has it: None where it is infinite."""
    return db if math.isfinite(db) else None


@dataclass(frozen=True)
class Dead:
    """A part, or one channel of it, that was alive and is one number in the quantized model."""

    part: Part
    channel: int | None

    def __str__(self) -> str:
        where = "" if self.channel is None else f", channel {self.channel}"
        return f"{self.part}{where}"


@dataclass(frozen=True)
class Quality:
    """All parts, judged on `samples` samples."""

    parts: Sequence[PartQuality]
    samples: int

    @property
    def worst(self) -> PartQuality | None:
        """The part with the least dB; None where nothing has dB."""
        return min((p for p in self.parts if p.is_real), key=lambda p: p.judged_db, default=None)

    @property
    def worst_db(self) -> float:
        """The least `judged_db` of a part; -inf where nothing could be compared."""
        return -math.inf if self.worst is None else self.worst.judged_db

    @property
    def worst_channel_db(self) -> float:
        """The least dB of a channel of any part."""
        each = [part.worst_channel_db for part in self.parts if part.is_real]
        return min(each, default=-math.inf)

    @property
    def dead(self) -> list[Dead]:
        """What is dead: whole parts, and channels of others."""
        found: list[Dead] = []
        for one in self.parts:
            channels = [None] if one.is_dead else one.dead
            found += [Dead(one.part, channel) for channel in channels]
        return found

    def as_json(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "samples": self.samples,
            "worst_db": finite_db(self.worst_db),
            "worst_channel_db": finite_db(self.worst_channel_db),
            "parts": [part.as_json() for part in self.parts],
        }

    def rows(self, most: int | None = None) -> list[tuple[str, ...]]:
        """A table of the parts under a heading; of more than `most` the worst, in order."""
        shown = list(self.parts)
        if most is not None and len(shown) > most:
            worst = sorted(shown, key=lambda p: p.sqnr_db if p.is_real else math.inf)[:most]
            kept = {id(part) for part in worst}
            shown = [part for part in shown if id(part) in kept]
        heading = ("output", "SQNR", "mean of samples", "worst channel", "same winner", "dead")
        rows = [_row(part) for part in shown]
        # A column that says nothing of any part is left out.
        columns = [n for n in range(len(heading)) if n < 3 or any(row[n] for row in rows)]
        return [tuple(row[n] for n in columns) for row in (heading, *rows)]


def _row(one: PartQuality) -> tuple[str, ...]:
    worst = one.worst_channel
    differs = worst is not None and one.worst_channel_db < math.inf
    channel = f"{worst}: {db_text(one.worst_channel_db)}" if differs else ""
    dead = "all of it" if one.is_dead else ", ".join(map(str, one.dead[:4]))
    if len(one.dead) > 4 and not one.is_dead:
        dead += f" and {len(one.dead) - 4} more"
    return (
        str(one.part),
        (db_text(one.sqnr_db) + " (near 0)" * one.is_faint) if one.is_real else "",
        db_text(one.mean_db) if one.is_real else "",
        channel,
        "" if one.agreement is None else f"{one.agreement:.1%}",
        dead,
    )


def db_text(db: float) -> str:
    """`31.4 dB`, or what stands for none."""
    if math.isfinite(db):
        return f"{db:.1f} dB"
    return "exact" if db > 0 else "no number"


class Judge:
    """Judges outputs by those of the float model: `expected`, one mapping from output name to
    array per sample, and `parts`, of that model."""

    def __init__(self, parts: Sequence[Part], expected: Iterable[Arrays]) -> None:
        self.parts = list(parts)
        self.expected = list(expected)

    def no_number(self) -> str | None:
        """The first output in which the float model itself gives NaN; None where none does."""
        for sample in self.expected:
            for name, array in sample.items():
                if array.dtype.kind == "f" and np.isnan(array).any():
                    return name
        return None

    def judge(self, actual: Iterable[Arrays]) -> Quality:
        """The quality of outputs on the same samples, in the same order."""
        tallies = [Tally(part) for part in self.parts]
        for one, other in zip(self.expected, actual, strict=True):
            for tally in tallies:
                tally.add(one[tally.part.output], other[tally.part.output])
        return Quality([tally.quality() for tally in tallies], len(self.expected))

    def sample_db(self, number: int, actual: Arrays) -> list[float]:
        """The dB of each float part of one sample."""
        return [
            db
            for part in self.parts
            if not math.isnan(db := _sample_db(part, self.expected[number], actual))
        ]


def _sample_db(part: Part, expected: Arrays, actual: Arrays) -> float:
    tally = Tally(part)
    tally.add(expected[part.output], actual[part.output])
    return decibels(*tally.powers()) if tally.counts.any() else math.nan


@dataclass
class Tally:
    """Sums of one part over samples: by channel, or one of each without channels."""

    part: Part
    signal: Array = field(default_factory=lambda: np.zeros(1))
    noise: Array = field(default_factory=lambda: np.zeros(1))
    counts: Array = field(default_factory=lambda: np.zeros(1))
    ends: Array | None = None
    """Least and largest number by channel, of both models."""
    each: list[float] = field(default_factory=list[float])
    winners: list[int] = field(default_factory=lambda: [0, 0])
    same: list[int] = field(default_factory=lambda: [0, 0])
    joined: bool = False
    compared: int = 0
    not_compared: int = 0

    def add(self, expected: Array, actual: Array) -> None:
        """The part of one sample's output, in the float model and in the other."""
        if expected.shape != actual.shape:
            self.not_compared += 1
            return
        if expected.dtype.kind != "f":
            self._count(expected, actual)
            return
        x, y = (self._by_channel(array) for array in (expected, actual))
        if not x.size:
            return
        if self.compared and len(x) != len(self.signal):
            # As many channels as a sample happens to have are none.
            self._join()
        if self.joined:
            x, y = np.reshape(x, (1, -1)), np.reshape(y, (1, -1))
        sound = np.isfinite(x)
        x, y = np.where(sound, x, 0.0), np.where(sound, y, 0.0)
        signal, noise = np.square(x).sum(1), np.square(x - y).sum(1)
        noise = np.where(np.isfinite(noise), noise, math.inf)
        self.signal = self.signal + signal
        self.noise = self.noise + noise
        self.counts = self.counts + sound.sum(1)
        self.each.append(decibels(float(signal.sum()), float(noise.sum())))
        self._widen(x, y)
        if self.part.scores and len(x) > 1:
            self.winners[0] += int((x.argmax(0) == y.argmax(0)).sum())
            self.winners[1] += x.shape[1]
        self.compared += 1

    def _by_channel(self, array: Array) -> Array:
        """[channels, elements of one]."""
        part, channel = self.part.of(array).astype(np.float64), self.part.channel
        if channel is None or channel >= part.ndim or self.part.cells is not None:
            return np.reshape(part, (1, -1))
        if not part.size:
            return np.zeros((1, 0))
        return np.reshape(np.moveaxis(part, channel, 0), (part.shape[channel], -1))

    def _join(self) -> None:
        self.joined = True
        self.signal, self.noise, self.counts = (
            each.sum(keepdims=True) for each in (self.signal, self.noise, self.counts)
        )
        if self.ends is not None:
            low, high, low_now, high_now = self.ends
            self.ends = np.array([[low.min()], [high.max()], [low_now.min()], [high_now.max()]])

    def _widen(self, x: Array, y: Array) -> None:
        ends = np.stack([x.min(1), x.max(1), y.min(1), y.max(1)])
        if self.ends is None:
            self.ends = ends
            return
        low, high = np.minimum(self.ends, ends), np.maximum(self.ends, ends)
        self.ends = np.stack([low[0], high[1], low[2], high[3]])

    def _count(self, expected: Array, actual: Array) -> None:
        self.same[0] += int((self.part.of(expected) == self.part.of(actual)).sum())
        self.same[1] += self.part.of(expected).size
        self.compared += 1

    def powers(self) -> tuple[float, float]:
        """Signal and noise of all."""
        return float(self.signal.sum()), float(self.noise.sum())

    def quality(self) -> PartQuality:
        """What the sums say."""
        if self.ends is None or not self.counts.any():
            share = self.same[0] / self.same[1] if self.same[1] else None
            return PartQuality(
                self.part, math.nan, math.nan, agreement=share, not_compared=self.not_compared
            )
        sqnr = decibels(*self.powers())
        most = max(ENOUGH, sqnr)
        mean = sum(min(db, most) for db in self.each) / len(self.each)
        dead, is_dead = self._dead()
        return PartQuality(
            self.part,
            sqnr,
            mean,
            self._channels(),
            self.winners[0] / self.winners[1] if self.winners[1] else None,
            dead,
            is_dead,
            self.not_compared,
            self._faint_db(),
        )

    def _faint_db(self) -> float | None:
        """Decibels beside `FAINT`, where all are shares that near 0."""
        signal, noise = self.powers()
        least = FAINT**2 * float(self.counts.sum())
        return decibels(least, noise) if self.part.shares and signal < least else None

    def _channels(self) -> list[float | None]:
        """dB by channel; None where the power is negligible."""
        if len(self.signal) < 2:
            return []
        power = self.signal / np.maximum(self.counts, 1)
        least = NEGLIGIBLE * self.signal.sum() / max(self.counts.sum(), 1)
        return [
            decibels(float(s), float(n)) if p >= least and p > 0 else None
            for s, n, p in zip(self.signal, self.noise, power, strict=True)
        ]

    def _dead(self) -> tuple[list[int], bool]:
        """The channels that are one number now and were not, and whether the part is."""
        assert self.ends is not None
        low, high, low_now, high_now = self.ends
        reach, size = float(high.max() - low.min()), float(max(high.max(), -low.min()))
        if reach <= ALIVE * (max(size, 1.0) if self.part.shares else size):
            return [], False
        if float(low_now.min()) == float(high_now.max()):
            return [], True
        alive = (high - low > ALIVE * reach) & (low_now == high_now)
        return np.flatnonzero(alive).tolist() if len(low) > 1 else [], False

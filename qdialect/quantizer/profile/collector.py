"""Gathering: (key, array) pairs of one sample after another into a profile.

Knows neither models nor engines. A sample counts as a whole or not at all, so that a run
that is interrupted leaves a profile of the samples it finished.

Small values of many samples are counted together, as counting has a fixed price.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from qdialect.errors import InputError
from qdialect.quantizer.profile.record import (
    LAST_SAMPLES,
    Derived,
    Entry,
    Profile,
    Settings,
    check_channels,
    join_intervals,
    with_derived,
)
from qdialect.quantizer.profile.sketch import (
    CODE_SHIFT,
    HUGE,
    OCTAVES,
    PER_OCTAVE,
    SIGN,
    ZERO,
    Sketch,
    empty,
    folded,
    no_tops,
    observe,
    observe_rows,
    rounded,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Counting fast: the bins of one value while a profile is gathered.
#
# A `Tally` holds the same numbers as a `Sketch` of one row, as an array over the octaves that
# count, so that what is observed is added in place.  Values that a sketch has rules for (NaN,
# infinities, magnitudes of `HUGE` and more) go into a sketch instead; `sketch` is all of it.

_CHUNK = 1 << 16
_KEPT = OCTAVES + 1
_SIDE = _KEPT * PER_OCTAVE


class Tally:
    """The statistics of one value so far.

    `_window[0]` counts positive values and `_window[1]` negative ones, by octave from
    `_base` (biased, as in the bits of a float) and bin; the octaves below are zero to it.
    """

    __slots__ = ("_base", "_count", "_high", "_low", "_odd", "_window")

    def __init__(self) -> None:
        self._count = 0
        self._low, self._high = math.inf, -math.inf
        self._base = 1
        self._window: NDArray[np.int64] | None = None
        self._odd: Sketch | None = None

    def add(self, values: NDArray[np.float32]) -> tuple[float, float]:
        """Count the values of a vector; their extremes, +inf and -inf if there are none."""
        if not len(values):
            return math.inf, -math.inf
        low, high = float(values.min()), float(values.max())
        if not (low > -HUGE and high < HUGE):
            odd = observe(values)
            self._odd = odd if self._odd is None else self._odd.merge(odd)
            return float(odd.minimum[0]), float(odd.maximum[0])
        self.add_codes(values.view(np.uint32), CODE_SHIFT, low, high)
        return low + 0.0, high + 0.0

    def add_codes(self, words: NDArray[Any], shift: int, low: float, high: float) -> None:
        """Count bin codes, which are `words` shifted; `low` and `high` are the extremes of
        the values, all finite and below `HUGE`."""
        self._count += len(words)
        self._low, self._high = min(self._low, low), max(self._high, high)
        window = self._reach(max(-low, high))
        start, wide = self._base * PER_OCTAVE, np.empty(min(len(words), _CHUNK), np.int64)
        for first in range(0, len(words), _CHUNK):
            part = words[first : first + _CHUNK]
            chunk = wide[: len(part)]
            np.right_shift(part, shift, out=chunk) if shift else np.copyto(chunk, part)
            # As long as the highest code: of what has no negative values a quarter.
            found = np.bincount(chunk)
            for side in (0, 1):
                bins = found[start + side * SIGN : start + side * SIGN + _SIDE]
                window[side].reshape(-1)[: len(bins)] += bins

    def merge(self, other: Tally) -> None:
        """Count what `other` has counted, too."""
        if other._odd is not None:
            self._odd = other._odd if self._odd is None else self._odd.merge(other._odd)
        if other._window is None:
            return
        self._count += other._count
        self._low, self._high = min(self._low, other._low), max(self._high, other._high)
        window = self._reach(max(-other._low, other._high))
        start = self._base - other._base
        window[:, : _KEPT - start] += other._window[:, start:]

    def _reach(self, magnitude: float) -> NDArray[np.int64]:
        """The window, moved up so that the octave of `magnitude` is in it: what then lies
        too far below the top is zero, as in `Sketch`."""
        top = int(np.abs(np.float32(magnitude)).view(np.uint32)) >> 23
        up = top - OCTAVES - self._base
        if self._window is None:
            self._window = np.zeros((2, _KEPT, PER_OCTAVE), np.int64)
            self._base = max(top - OCTAVES, 1)
        elif up > 0:
            moved = np.zeros_like(self._window)
            if up < _KEPT:
                moved[:, :-up] = self._window[:, up:]
            self._window, self._base = moved, self._base + up
        return self._window

    def sketch(self) -> Sketch:
        """Everything that was counted."""
        window = self._window
        if window is None:
            return empty() if self._odd is None else self._odd
        flat = window.reshape(-1)
        found = np.flatnonzero(flat != 0)
        counts = flat[found]
        codes = found + self._base * PER_OCTAVE
        codes[found >= _SIDE] += SIGN - _SIDE
        zeros = self._count - int(counts.sum())
        if zeros:
            codes = np.concatenate(([ZERO], codes))
            counts = np.concatenate(([zeros], counts))
        codes, counts, tops = folded(codes, counts, no_tops(1))
        none = np.zeros(1, np.int64)
        sketch = Sketch(
            np.array([self._count], np.int64),
            none,
            none,
            none,
            np.array([self._low], np.float32) + np.float32(0),
            np.array([self._high], np.float32) + np.float32(0),
            codes,
            counts,
            tops,
        )
        return sketch if self._odd is None else sketch.merge(self._odd)


_SMALL = 1 << 15
"""Values of fewer elements wait, as bin codes, to be counted with those of other samples."""
_TINY = 1 << 11
"""Values of fewer elements are looked at together."""
_WAITING = 1 << 23
"""How many bin codes may wait."""
_PENDING = 16

Observation = tuple[Sequence[str], "NDArray[Any]"]
"""The keys of a value and what it was."""


@dataclass
class _Value:
    """What goes under some keys: counts, channels, extremes by sample, codes that wait."""

    keys: tuple[str, ...]
    tally: Tally = field(default_factory=Tally)
    channels: list[Sketch] = field(default_factory=list[Sketch])
    extremes: dict[int, tuple[float, float]] = field(default_factory=dict[int, tuple[float, float]])
    codes: list[NDArray[np.uint16]] = field(default_factory=list["NDArray[np.uint16]"])
    low: float = math.inf
    high: float = -math.inf

    def count(self) -> None:
        """Count the codes that wait."""
        if self.codes:
            self.tally.add_codes(np.concatenate(self.codes), 0, self.low, self.high)
            self.codes = []
            self.low, self.high = math.inf, -math.inf

    def entry(self) -> Entry:
        """The statistics, in full."""
        self.count()
        channels = self.merged_channels()
        last = {i: (rounded(a), rounded(b)) for i, (a, b) in self.extremes.items()}
        return Entry(self.tally.sketch(), channels[0] if channels else None, last)

    def merged_channels(self) -> list[Sketch]:
        """All channels as one sketch, if there are any."""
        while len(self.channels) > 1:
            # Pairs of equal size: the work does not grow with what is already there.
            pairs = zip(self.channels[::2], self.channels[1::2], strict=False)
            odd = self.channels[-1:] if len(self.channels) % 2 else []
            self.channels = [a.merge(b) for a, b in pairs] + odd
        return self.channels


class Collector:
    """The profile of a model being gathered; `start` is one to go on from. What `derived`
    names is not observed."""

    def __init__(
        self,
        start: Profile,
        derived: Mapping[str, Derived] | None = None,
        undivided: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        #: around what must be done whole or not at all, whoever interrupts
        self._undivided = undivided
        self._profile = start
        self._derived = derived or {}
        self._values: dict[tuple[str, ...], _Value] = {}
        self._samples: list[int] = []
        self._waiting = 0
        # Memory that is used again and again is not asked for, page by page, anew.
        self._codes: NDArray[np.uint16] | None = None

    def add(self, index: int, observations: Iterable[Observation]) -> None:
        """Sample number `index` of the whole data set: every key once.

        InputError if the sample was counted before, or its channels are not those of
        other samples.
        """
        done = self._profile.samples
        if index in self._samples or any(start <= index < end for start, end in done):
            raise InputError(f"sample {index} would count twice", code="samples-overlap")
        settings = self._profile.settings
        small: list[tuple[tuple[str, ...], NDArray[np.float32]]] = []
        large: list[tuple[tuple[str, ...], Tally, tuple[float, float]]] = []
        rows: list[tuple[tuple[str, ...], Sketch]] = []
        for keys, array in observations:
            keys, vector = tuple(keys), _as_vector(array)
            if 0 < len(vector) < _SMALL:
                small.append((keys, vector))
            else:
                tally = Tally()
                large.append((keys, tally, tally.add(vector)))
            channels = _channels(array, settings)
            if channels is not None:
                rows.append((keys, self._fitting(keys, channels)))
        # From here on nothing fails, and the sample counts.
        with self._undivided():
            self._samples.append(index)
            for keys, tally, extremes in large:
                value = self._value(keys)
                value.tally.merge(tally)
                _note(value, index, *extremes)
            for keys, channels in rows:
                value = self._value(keys)
                value.channels.append(channels)
                if len(value.channels) == _PENDING:
                    value.merged_channels()
            if small:
                self._wait(index, small)
            if len(self._samples) >= LAST_SAMPLES:
                self.profile()

    def _wait(self, index: int, small: list[tuple[tuple[str, ...], NDArray[np.float32]]]) -> None:
        """Extremes of small values at once, their counts later."""
        tiny: list[tuple[tuple[str, ...], NDArray[np.float32]]] = []
        for keys, vector in small:
            if len(vector) < _TINY:
                tiny.append((keys, vector))
            else:
                low, high = vector.min(), vector.max()
                self._keep(index, keys, vector, self._coded(vector), float(low), float(high))
        if not tiny:
            return
        flat = np.concatenate([vector for _, vector in tiny])
        ends = np.cumsum([len(vector) for _, vector in tiny])
        starts = np.concatenate(([0], ends[:-1]))
        lows, highs = np.minimum.reduceat(flat, starts), np.maximum.reduceat(flat, starts)
        codes = self._coded(flat)
        for (keys, vector), start, end, low, high in zip(
            tiny, starts.tolist(), ends.tolist(), lows.tolist(), highs.tolist(), strict=True
        ):
            self._keep(index, keys, vector, codes[start:end], low, high)

    def _coded(self, values: NDArray[np.float32]) -> NDArray[np.uint16]:
        """The bin codes of values, in memory that stays theirs until codes are counted."""
        if self._codes is None:
            self._codes = np.empty(_WAITING, np.uint16)
        if self._waiting + len(values) > len(self._codes):
            for value in self._values.values():
                value.count()
            self._waiting = 0
        codes = self._codes[self._waiting : self._waiting + len(values)]
        if len(codes) < len(values):
            codes = np.empty(len(values), np.uint16)
        self._waiting += len(codes)
        np.right_shift(values.view(np.uint32), CODE_SHIFT, out=codes, casting="unsafe")
        return codes

    def _keep(
        self,
        index: int,
        keys: tuple[str, ...],
        vector: NDArray[np.float32],
        codes: NDArray[np.uint16],
        low: float,
        high: float,
    ) -> None:
        """One small value of a sample: its extremes, and its codes for later."""
        value = self._value(keys)
        if low > -HUGE and high < HUGE:
            value.codes.append(codes)
            value.low, value.high = min(value.low, low), max(value.high, high)
            value.extremes[index] = low + 0.0, high + 0.0
        else:
            _note(value, index, *value.tally.add(vector))

    def _value(self, keys: tuple[str, ...]) -> _Value:
        found = self._values.get(keys)
        if found is None:
            found = self._values[keys] = _Value(keys)
        return found

    def _fitting(self, keys: tuple[str, ...], channels: Sketch) -> Sketch:
        value, entry = self._values.get(keys), self._profile.entries.get(keys[0])
        before = value.channels[0] if value and value.channels else entry and entry.channels
        if before:
            check_channels(before, channels, keys[0])
        return channels

    def profile(self) -> Profile:
        """The profile of the samples so far."""
        if self._samples:
            entries: dict[str, Entry] = {}
            for value in self._values.values():
                entries.update(dict.fromkeys(value.keys, value.entry()))
            start = self._profile
            samples = join_intervals((index, index + 1) for index in self._samples)
            entries = with_derived(entries, self._derived)
            fresh = Profile(
                start.digest, start.settings, samples, entries, self._derived, start.ops
            )
            self._profile = start.merge(fresh)
            self._values, self._samples, self._waiting = {}, [], 0
        return self._profile


def _note(value: _Value, index: int, low: float, high: float) -> None:
    if low <= high:
        value.extremes[index] = low, high


def _as_vector(array: NDArray[Any]) -> NDArray[np.float32]:
    with np.errstate(over="ignore"):
        return np.ascontiguousarray(array, np.float32).reshape(-1)


def _channels(array: NDArray[Any], settings: Settings) -> Sketch | None:
    """By index of dimension 1, or 0 of a vector; a scalar has no channels."""
    if settings.channels == "none" or array.ndim == 0:
        return None
    rows = np.moveaxis(array, min(1, array.ndim - 1), 0)
    matrix = rows.reshape(len(rows), -1 if len(rows) else 0)
    return observe_rows(matrix, bins=settings.channels == "bins")

"""A profile: statistics by key, the model they belong to, and how they were gathered."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from qdialect.errors import InputError
from qdialect.quantizer.profile.sketch import (
    CODE_SHIFT,
    CODES,
    HUGE,
    PER_OCTAVE,
    SIGN,
    ZERO,
    Sketch,
    edges,
    folded,
    merged,
    rounded,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qdialect.quantizer.profile.ranges import Range, RangeChoice

SCHEMA = 4
LAST_SAMPLES = 64
"""Of how many samples, those of the highest index, the extremes are kept one by one."""

Channels = Literal["none", "range", "bins"]
CHANNELS: tuple[Channels, ...] = ("none", "range", "bins")


@dataclass(frozen=True)
class Settings:
    """What must be the same for profiles to be merged: the engine, what is kept of
    channels (dimension 1; `range` their extremes, `bins` everything), and whether the
    pieces of composite ops were observed."""

    engine: str = "numpy"
    channels: Channels = "none"
    components: bool = True


@dataclass(frozen=True)
class Entry:
    """Statistics of one value: of the tensor, of its channels, and the extremes of its
    last samples by sample index, which are `rounded`.  `chosen` are ranges that were chosen
    from them, which is not done twice."""

    tensor: Sketch
    channels: Sketch | None = None
    samples: Mapping[int, tuple[float, float]] = field(
        default_factory=dict[int, tuple[float, float]]
    )
    chosen: dict[RangeChoice, Range] = field(
        default_factory=dict["RangeChoice", "Range"], init=False, repr=False, compare=False
    )

    def merge(self, other: Entry, key: str) -> Entry:
        """The statistics of the samples of both."""
        if (self.channels is None) != (other.channels is None):
            raise _unmergeable(key, "only one of the profiles has channels")
        channels = self.channels
        if channels is not None and other.channels is not None:
            check_channels(channels, other.channels, key)
            channels = channels.merge(other.channels)
        samples = {**self.samples, **other.samples}
        last = sorted(samples)[-LAST_SAMPLES:]
        return Entry(
            self.tensor.merge(other.tensor), channels, {index: samples[index] for index in last}
        )

    def joined(self, others: Sequence[Entry]) -> Entry:
        """The statistics of this value and `others`, as one value over the same samples."""
        tensor, channels, samples = self.tensor, self.channels, dict(self.samples)
        for other in others:
            tensor = tensor.merge(other.tensor)
            channels = None
            samples = {
                index: (min(low, other.samples[index][0]), max(high, other.samples[index][1]))
                for index, (low, high) in samples.items()
                if index in other.samples
            }
        return Entry(tensor, channels, samples)


@dataclass(frozen=True)
class Derived:
    """An entry that follows from others exactly, and is therefore neither observed nor stored:
    all elements of the values `of`, clamped to [low, high].

    A reshape, a transpose or a concat holds the elements of others once each, so it has the
    counts of all of them; a relu or clip has the counts of its operand, with those beyond a
    bound in the bin of the bound.  A merge derives anew, so the result does not depend on how
    the data was split.
    """

    of: tuple[str, ...]
    low: float = -math.inf
    high: float = math.inf

    @property
    def is_clamp(self) -> bool:
        """Whether one of the bounds is finite."""
        return (self.low, self.high) != (-math.inf, math.inf)


@dataclass(frozen=True)
class Profile:
    """Statistics by key over the samples in `samples`: disjoint, ascending half-open
    intervals of indices into the whole data set. `digest` names the model and `ops` its ops
    (`model_identity`), `derived` the entries that follow from others. `ranges` are
    not of data: what the codes of a model that was quantized already reach (not stored)."""

    digest: str
    settings: Settings = field(default_factory=Settings)
    samples: tuple[tuple[int, int], ...] = ()
    entries: Mapping[str, Entry] = field(default_factory=dict[str, Entry])
    derived: Mapping[str, Derived] = field(default_factory=dict[str, Derived])
    ops: Mapping[str, str] = field(default_factory=dict[str, str])
    ranges: Mapping[str, Range] = field(default_factory=dict[str, "Range"], compare=False)

    @property
    def sample_count(self) -> int:
        """How many samples were observed."""
        return sum(end - start for start, end in self.samples)

    def merge(self, other: Profile) -> Profile:
        """The profile of all samples of both; associative and commutative.

        InputError if they are not of one model, were gathered differently, or share a
        sample (which would then count twice).
        """
        if self.digest != other.digest:
            raise InputError(
                f"the profiles are of different models ({self.digest} and {other.digest})",
                code="profile-of-another-model",
            )
        if self.settings != other.settings:
            raise InputError(
                f"the profiles were gathered differently ({_show(self.settings)} and "
                f"{_show(other.settings)})",
                code="profile-settings-differ",
            )
        samples = join_intervals((*self.samples, *other.samples))
        entries = dict(self.entries)
        for key, entry in other.entries.items():
            if key in entries and self.derived.get(key) != other.derived.get(key):
                raise _unmergeable(key, "the profiles do not derive it in the same way")
            if key not in other.derived:
                entries[key] = entries[key].merge(entry, key) if key in entries else entry
        derived = {**self.derived, **other.derived}
        entries = with_derived(entries, derived)
        ops = self.ops or other.ops
        return Profile(self.digest, self.settings, samples, entries, derived, ops)


def join_intervals(intervals: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Intervals as ascending ones that do not touch; InputError where they overlap."""
    joined: list[tuple[int, int]] = []
    for start, end in sorted(intervals):
        if joined and start < joined[-1][1]:
            raise InputError(
                f"sample {start} is in both profiles, and would count twice",
                code="samples-overlap",
                notes=("say which part of the data each run sees: --samples and --first",),
            )
        if joined and start == joined[-1][1]:
            joined[-1] = (joined[-1][0], end)
        else:
            joined.append((start, end))
    return tuple(joined)


def check_channels(a: Sketch, b: Sketch, key: str) -> None:
    """InputError if they have not the same number of channels."""
    if a.rows != b.rows:
        raise _unmergeable(key, f"{a.rows} channels in one, {b.rows} in another")


def _unmergeable(key: str, reason: str) -> InputError:
    return InputError(f"entry '{key}' cannot be merged: {reason}", code="profile-shape-differs")


def _show(settings: Settings) -> str:
    pieces = "" if settings.components else ", no components"
    return f"engine {settings.engine}, channels {settings.channels}{pieces}"


def can_clamp(low: float, high: float) -> bool:
    """Whether bins know what a clamp to these bounds gives."""
    return low <= high and all(
        math.isinf(bound) or (abs(bound) < HUGE and float(np.float32(bound)) == bound)
        for bound in (low, high)
    )


def with_derived(entries: Mapping[str, Entry], derived: Mapping[str, Derived]) -> dict[str, Entry]:
    """`entries`, and those that derive from them; one whose source is missing, or which
    derives from itself, is left out."""
    found = {key: entry for key, entry in entries.items() if key not in derived}
    opened: set[str] = set()
    for first in derived:
        path = [first]
        while path:
            key = path[-1]
            waiting = [k for k in derived[key].of if k in derived and k not in opened]
            opened.add(key)
            if waiting:
                path += waiting
                continue
            path.pop()
            sources = derived[key].of
            if key not in found and all(source in found for source in sources):
                found[key] = derive(derived[key], [found[source] for source in sources])
    return found


def derive(rule: Derived, sources: Sequence[Entry]) -> Entry:
    """The entry of a value, from those of the values it is made of."""
    entry = sources[0].joined(sources[1:])
    if not rule.is_clamp:
        return entry
    low, high = rule.low, rule.high
    return Entry(
        clamped(entry.tensor, low, high),
        None if entry.channels is None else clamped(entry.channels, low, high),
        {i: (_clip(a, low, high), _clip(b, low, high)) for i, (a, b) in entry.samples.items()},
    )


def clamped(sketch: Sketch, low: float, high: float) -> Sketch:
    """The statistics of the values clamped to [low, high]; see `can_clamp`."""
    rows, codes = sketch.codes // CODES, sketch.codes % CODES
    signs, inner, _ = edges(sketch.codes, sketch.tops)
    near = np.where(codes == ZERO, 0.0, signs * inner)
    zeros = np.zeros(sketch.rows, np.int64)
    minimum = np.clip(sketch.minimum, low, high, dtype=np.float32)
    maximum = np.clip(sketch.maximum, low, high, dtype=np.float32)
    none = sketch.minimum > sketch.maximum
    minimum[none], maximum[none] = np.inf, -np.inf
    infinite: list[NDArray[Any]] = []
    all_rows = np.arange(sketch.rows)
    has_bins = len(codes) > 0 or (sketch.nan + sketch.low + sketch.high == sketch.count).all()
    added: list[tuple[NDArray[Any], NDArray[Any]]] = []
    for bound, side, beyond in ((low, sketch.low, near < low), (high, sketch.high, near > high)):
        if math.isinf(bound):
            infinite.append(side)
            continue
        infinite.append(zeros)
        code = _code_of(bound)
        # What shares its bin with the bound stays there.
        shared = codes == merged(rows * CODES + code, sketch.tops) % CODES
        codes = np.where(beyond & ~shared, code, codes)
        huge = np.bincount(rows[beyond & (np.abs(near) >= HUGE)], minlength=sketch.rows) > 0
        clipped = huge | (side > 0)
        minimum[clipped] = np.minimum(minimum[clipped], np.float32(bound))
        maximum[clipped] = np.maximum(maximum[clipped], np.float32(bound))
        if has_bins:
            added.append((all_rows[side > 0] * CODES + code, side[side > 0]))
    parts = [(rows * CODES + codes, sketch.counts), *added]
    every = np.concatenate([part[0] for part in parts])
    unique, where = np.unique(every, return_inverse=True)
    counts = np.zeros(len(unique), np.int64)
    np.add.at(counts, where, np.concatenate([part[1] for part in parts]))
    unique, counts, tops = folded(unique.astype(np.int64), counts, sketch.tops)
    return Sketch(
        sketch.count,
        sketch.nan,
        infinite[0],
        infinite[1],
        minimum + np.float32(0),
        maximum + np.float32(0),
        unique,
        counts,
        tops,
    )


def _code_of(bound: float) -> int:
    word = int(np.float32(bound).view(np.uint32))
    code = word >> CODE_SHIFT
    return ZERO if (code % SIGN) < PER_OCTAVE else code


def _clip(value: float, low: float, high: float) -> float:
    return rounded(min(max(value, low), high) + 0.0)

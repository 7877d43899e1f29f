"""A profile: statistics by key, the model they belong to, and how they were gathered."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from qdialect.errors import InputError
from qdialect.profile.derived import Derived, with_derived
from qdialect.profile.sketch import Sketch

if TYPE_CHECKING:
    from qdialect.profile.ranges import Range, RangeChoice

SCHEMA = 3
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
class Profile:
    """Statistics by key over the samples in `samples`: disjoint, ascending half-open
    intervals of indices into the whole data set. `digest` names the model, `derived` the
    entries that follow from others."""

    digest: str
    settings: Settings = field(default_factory=Settings)
    samples: tuple[tuple[int, int], ...] = ()
    entries: Mapping[str, Entry] = field(default_factory=dict[str, Entry])
    derived: Mapping[str, Derived] = field(default_factory=dict[str, Derived])

    @property
    def sample_count(self) -> int:
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
        return Profile(self.digest, self.settings, samples, entries, derived)


def merge_all(profiles: Sequence[Profile]) -> Profile:
    """All profiles as one."""
    merged = profiles[0]
    for profile in profiles[1:]:
        merged = merged.merge(profile)
    return merged


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

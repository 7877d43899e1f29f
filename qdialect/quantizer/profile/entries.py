"""Ranges of the entries of a profile: of the tensor, or of each channel."""

from __future__ import annotations

from qdialect.errors import InputError
from qdialect.quantizer.profile.distribution import distribution
from qdialect.quantizer.profile.ranges import (
    HAS_MASKS,
    HAS_NAN,
    NO_DATA,
    Range,
    RangeChoice,
    choose_range,
    max_of_channels,
)
from qdialect.quantizer.profile.record import Entry
from qdialect.quantizer.profile.sketch import Sketch


def tensor_range(entry: Entry, choice: RangeChoice, by_channel: bool = False) -> Range:
    """The range of a value; with `by_channel` the largest of its channels'."""
    if by_channel:
        return max_of_channels(channel_ranges(entry, choice))
    if choice not in entry.chosen:
        data = distribution(entry.tensor, masks=choice.masks)
        entry.chosen[choice] = choose_range(data, choice, entry.samples)
    return entry.chosen[choice]


def channel_ranges(entry: Entry, choice: RangeChoice) -> list[Range]:
    """The range of every channel; those of samples are not kept by channel, so `average`
    has none.  InputError (`no-channels`) if the profile lacks what that takes."""
    channels = entry.channels
    if channels is None:
        raise InputError("the profile has no channels (--channels)", code="no-channels")
    if choice.method == "average":
        raise InputError("there is no moving average of channels", code="no-channels")
    has_bins = len(channels.codes) > 0 or not (channels.minimum <= channels.maximum).any()
    if has_bins:
        data = (distribution(channels, row) for row in range(channels.rows))
        return [choose_range(row, choice) for row in data]
    if choice.method != "minmax":
        raise InputError(
            f"the profile has no bins of channels, which {choice.method} takes (--channels=bins)",
            code="no-channels",
        )
    return [_extremes(channels, row) for row in range(channels.rows)]


def _extremes(sketch: Sketch, row: int) -> Range:
    """The range of one row without bins."""
    low, high = float(sketch.minimum[row]), float(sketch.maximum[row])
    reasons = (HAS_NAN,) if sketch.nan[row] else ()
    if sketch.low[row] + sketch.high[row]:
        reasons = (*reasons, HAS_MASKS)
    if low > high:
        return Range(0.0, 0.0, (NO_DATA, *reasons))
    return Range(min(low, 0.0), max(high, 0.0), reasons)

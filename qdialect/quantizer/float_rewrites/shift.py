"""Numbers added to channels such that their ranges lie around one middle.

A grid has to reach from the least number of any channel to the largest of any other.  Where
channels lie apart (the result of a layer norm with large biases), that is much more than the
widest of them needs:

    channel 0 in [4, 6], 1 in [-9, -8]    one grid over [-9, 6]
    less 5 and -8.5                       one grid over [-1, 1]

The bias before takes up what is added, and that of the op behind the weights times as much less
(Outlier Suppression+: Wei et al., 2023).  Weights round what they meet with less power then.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue

from qdialect.algebra.channel_transforms import total_loss
from qdialect.analysis.channel_groups import ChannelGroup, find_shifts
from qdialect.analysis.channel_labels import added
from qdialect.quantizer.float_rewrites.apply import shift_channels
from qdialect.quantizer.float_rewrites.base import FloatRewrite
from qdialect.quantizer.float_rewrites.statistics import Channels
from qdialect.quantizer.float_rewrites.terms import Costs, along

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

SMALL = 2.0**-3
"""Of the widest range: channels whose middle is nearer to zero and that need no more of the grid
than the widest stay as they are."""


@dataclass(frozen=True)
class Shifted:
    """What is added to the classes of a group, and what is lost without and with it."""

    group: ChannelGroup
    numbers: Array
    before: float
    after: float

    @property
    def channels(self) -> int:
        return self.group.size


@dataclass(frozen=True)
class Shift(FloatRewrite[Shifted]):
    """Adds numbers to channels wherever biases take them up; the ends of ranges are of few samples,
    so half a decibel is in doubt."""

    name: str = "shift"
    worth: float = 0.5

    def choices(self, function: FuncOp, costs: Costs) -> Iterator[Shifted]:
        for group in find_shifts(function, costs.ctx):
            yield _chosen(group, costs)

    def change(self, chosen: Sequence[Shifted], costs: Costs) -> tuple[()]:
        shift_channels([(each.group, each.numbers) for each in chosen], costs.ctx)
        return ()


def _chosen(group: ChannelGroup, costs: Costs) -> Shifted:
    numbers = _to_the_middle(group, costs)
    moved = {**costs.known, **_moved(group, numbers, costs.known)}
    after = costs.afterwards(moved)
    logs = np.zeros(group.size + 1)
    losses = [total_loss(each.of_group(group), logs)[0] for each in (costs, after)]
    return Shifted(group, numbers, *losses)


def _to_the_middle(group: ChannelGroup, costs: Costs) -> Array:
    """What has to be added to each class, by its range over all values that are rounded."""
    low, high = np.full(group.size + 1, np.inf), np.full(group.size + 1, -np.inf)
    for value, labels in group.values.items():
        if costs.of_value(value, labels) is None:
            continue
        dims = [d for d in range(labels.ndim) if labels.shape[d] > 1]
        ends = along(costs.known[value], dims)
        least, most = (np.broadcast_to(each, labels.shape) for each in ends[:2])
        np.minimum.at(low, np.abs(labels), np.where(labels < 0, -most, least))
        np.maximum.at(high, np.abs(labels), np.where(labels < 0, -least, most))
    low, high = (np.where(low <= high, ends, 0.0)[1:] for ends in (low, high))
    middle, widths = (low + high) / 2, high - low
    widest = widths.max(initial=0.0)
    fits = np.abs(middle) + widths / 2 <= widest / 2
    return np.where(fits & (np.abs(middle) <= SMALL * widest), 0.0, -middle)


def _moved(
    group: ChannelGroup, numbers: Array, known: Mapping[SSAValue, Channels]
) -> Mapping[SSAValue, Channels]:
    """What is known of the values of a group after numbers were added."""
    found: dict[SSAValue, Channels] = {}
    for value, labels in group.values.items():
        if value in known:
            was, more = known[value], added(labels, numbers)
            power = was.power + 2 * more * was.mean + np.square(more)
            found[value] = Channels(was.low + more, was.high + more, was.mean + more, power)
    return found

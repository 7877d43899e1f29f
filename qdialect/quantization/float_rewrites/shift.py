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

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from qdialect.analysis.channel_groups import ChannelGroup, find_shifts
from qdialect.analysis.channel_labels import added
from qdialect.context import QContext
from qdialect.numerics.channel_transforms import total_loss
from qdialect.quantization.float_rewrites.apply import as_many_as_fit, shift_channels
from qdialect.quantization.float_rewrites.base import Rewritten, mean_gain
from qdialect.quantization.float_rewrites.statistics import Channels, Statistics
from qdialect.quantization.float_rewrites.terms import Costs, along
from qdialect.quantization.recipe import Recipe
from qdialect.reference import Interpreter

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

WORTH = 0.5
"""Groups that gain fewer dB stay as they are: the ends of ranges are of few samples."""
SMALL = 2.0**-3
"""Of the widest range: channels whose middle is nearer to zero and that need no more of the grid
than the widest stay as they are."""


@dataclass(frozen=True)
class _Chosen:
    """What is added to the classes of a group, and what is lost without and with it."""

    group: ChannelGroup
    numbers: Array
    before: float
    after: float


@dataclass(frozen=True)
class Shift:
    """Adds numbers to channels wherever biases take them up."""

    name: str = "shift"

    def __call__(
        self, module: ModuleOp, ctx: QContext, statistics: Statistics, recipe: Recipe
    ) -> Rewritten | None:
        """See `FloatRewrite`."""
        function = Interpreter(ctx, module).function()
        costs = Costs(ctx, statistics.of(function), recipe)
        found = [_chosen(group, costs) for group in find_shifts(function, ctx)]
        found = [each for each in found if mean_gain([each]) >= WORTH]
        changes = [(each.group, each.numbers) for each in found]
        found = [found[number] for number in as_many_as_fit(shift_channels, changes, ctx)]
        if not found:
            return None
        channels = sum(each.group.size for each in found)
        return Rewritten(len(found), channels, mean_gain(found))


def _chosen(group: ChannelGroup, costs: Costs) -> _Chosen:
    numbers = _to_the_middle(group, costs)
    moved = {**costs.known, **_moved(group, numbers, costs.known)}
    after = Costs(costs.ctx, moved, costs.recipe, signal=costs.known)
    logs = np.zeros(group.size + 1)
    losses = [total_loss(each.of_group(group), logs)[0] for each in (costs, after)]
    return _Chosen(group, numbers, *losses)


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

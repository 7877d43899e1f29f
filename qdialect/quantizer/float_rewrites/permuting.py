"""Put the channels of a block in another order: constants take it up, the function stays.

    %w = nn.constant dense<[[1.0, 2.0], [3.0, 4.0]]>      order [1, 0] on %h
    %v = nn.constant dense<[[5.0, 6.0]]>
    %h = nn.gelu (nn.fully_connected %x, %w)
    %y = nn.fully_connected %h, %v

becomes

    %w = nn.constant dense<[[3.0, 4.0], [1.0, 2.0]]>
    %v = nn.constant dense<[[6.0, 5.0]]>
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from xdsl.ir import Operation

from qdialect.analysis.channel_groups import ChannelGroup
from qdialect.analysis.channel_labels import Labels
from qdialect.ir.context import QContext
from qdialect.quantizer.float_rewrites.apply import replace_constants
from qdialect.quantizer.float_rewrites.mixing import Change, change_constants, changed_value

Array = NDArray[np.float64]

Ordered = tuple[ChannelGroup, Sequence[int], NDArray[np.int64]]
"""A block of a group, and an order of its classes: the k-th becomes what the class at `order[k]`
is."""


def permute_channels(changes: Iterable[Ordered], ctx: QContext) -> int:
    """Put the classes of blocks in other orders; how many constants changed. A class is in one
    change at most. No number is rounded. ValueError for what is no order; nothing is changed
    then."""
    arrays = permuted_constants(changes, ctx)
    replace_constants(arrays, ctx)
    return len(arrays)


def permuted_constants(
    changes: Iterable[Ordered], ctx: QContext
) -> Mapping[tuple[Operation, int], Array]:
    """What constant operands, by op and number, would be. ValueError as in `permute_channels`."""
    arrays: dict[tuple[Operation, int], Array] = {}
    for group, block, order in changes:
        change_constants(arrays, group, block, _permute(block, order), ctx)
    return arrays


def permuted_value(
    array: Array, labels: Labels, block: Sequence[int], order: NDArray[np.int64]
) -> Array:
    """What a value with these labels would be; further dimensions come first."""
    return changed_value(array, labels, block, _permute(block, order))


def _permute(block: Sequence[int], order: NDArray[np.int64]) -> Change:
    """The order, which of the inverse factor is the same."""
    if not np.array_equal(np.sort(order), np.arange(len(block))):
        raise ValueError(f"expects each of 0 to {len(block) - 1} once")
    return lambda fibres, sign: fibres[..., order]

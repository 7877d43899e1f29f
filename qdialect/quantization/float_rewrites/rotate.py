"""Rotations of channels, such that no few of them are much larger than the others.

    v = Wv x,  o = p v,  y = Wo o     becomes     v = (R Wv) x,  o = p v,  y = (Wo R^T) o

for every block of channels that only linear ops meet (`analysis.channel_mixing`): what an
attention makes of a head, the narrow side of an inverted bottleneck.  Factors make channels of one
size only where some are always large; a rotation does also where each is large now and then, and
spreads what is large in weights too (QuaRot: Ashkboos et al., 2024).

What a rotation is worth is foretold from whole vectors of the values, rotated, and from the
weights at both ends, rotated; of the rotations of a few seeds that of the least loss is taken.
Nothing is added to the graph.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue

from qdialect.analysis.channel_groups import ChannelGroup
from qdialect.analysis.channel_mixing import Blocks, find_blocks
from qdialect.numerics.channel_transforms import Term, total_loss
from qdialect.numerics.rotations import random_rotation
from qdialect.quantization.float_rewrites.base import FloatRewrite
from qdialect.quantization.float_rewrites.mixing import (
    Mixed,
    mix_channels,
    mixed_constants,
    mixed_value,
)
from qdialect.quantization.float_rewrites.statistics import Channels
from qdialect.quantization.float_rewrites.terms import Costs, numbered_channels

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

SEEDS = 4
"""How many rotations of a group are tried."""


@dataclass(frozen=True)
class Rotated:
    """The rotations of the blocks of a group, and what is lost without and with them."""

    changes: Sequence[Mixed]
    before: float
    after: float

    @property
    def channels(self) -> int:
        """See `Choice`."""
        return sum(len(block) for _, block, _ in self.changes)


@dataclass(frozen=True)
class Rotate(FloatRewrite[Rotated]):
    """Mixes channels by rotations wherever weights take them up; some vectors of few samples leave
    a decibel in doubt."""

    name: str = "rotate"
    worth: float = 1.0

    def choices(self, function: FuncOp, costs: Costs) -> Iterator[Rotated]:
        """See `FloatRewrite`."""
        known = costs.known
        for group, blocks in find_blocks(function, costs.ctx):
            if all(value in known and known[value].rows is not None for value in group.values):
                yield _best(group, blocks, costs)

    def change(self, chosen: Sequence[Rotated], costs: Costs) -> tuple[()]:
        """See `FloatRewrite`."""
        mix_channels([change for each in chosen for change in each.changes], costs.ctx)
        return ()


def _best(group: ChannelGroup, blocks: Blocks, costs: Costs) -> Rotated:
    """The rotations of the seed with the least loss."""
    identity = [(group, block, np.eye(len(block))) for block in blocks]
    before, tried = _loss(identity, costs), list[Rotated]()
    for seed in range(SEEDS):
        random = np.random.default_rng(seed)
        changes = [(group, block, random_rotation(len(block), random)) for block in blocks]
        tried.append(Rotated(changes, before, _loss(changes, costs)))
    return min(tried, key=lambda each: each.after)


def _loss(changes: Sequence[Mixed], costs: Costs) -> float:
    """What rounding the values of a group and the weights at its ends would cost after changes."""
    group = changes[0][0]
    weights = mixed_constants(changes, costs.ctx)
    known = {**costs.known, **_rotated(changes, costs.known)}
    after = costs.afterwards(known, weights)
    terms: list[Term] = []
    for value, labels in group.values.items():
        term = after.of_value(value, labels)
        terms += [] if term is None else [term]
    count = group.size
    for op, number in weights:
        acc = after.contraction(op, None)
        if acc is not None and acc.rhs == number:
            value, axis = op.operands[acc.lhs], acc.lhs_axis(op)
            labels = numbered_channels(value, axis)
            terms += after.of_weights(op, value, labels)
            count = max(count, labels.size)
    return total_loss(terms, np.zeros(count + 1))[0]


def _rotated(
    changes: Sequence[Mixed], known: Mapping[SSAValue, Channels]
) -> Mapping[SSAValue, Channels]:
    """What is known of the values of a group after changes, by the vectors that were kept."""
    found: dict[SSAValue, Channels] = {}
    for value, labels in changes[0][0].values.items():
        rows = known[value].rows
        assert rows is not None
        # A place is a value whose extents are 1 where it has no channels.
        rotated = rows.astype(np.float64).reshape(-1, *known[value].low.shape)
        for _, block, matrix in changes:
            rotated = mixed_value(rotated, labels, block, matrix)
        found[value] = Channels(
            rotated.min(axis=0),
            rotated.max(axis=0),
            rotated.mean(axis=0),
            np.square(rotated).mean(axis=0),
        )
    return found

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

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from qdialect.analysis.channel_groups import ChannelGroup
from qdialect.analysis.channel_mixing import Blocks, find_blocks
from qdialect.context import QContext
from qdialect.numerics.channel_transforms import Term, total_loss
from qdialect.numerics.rotations import random_rotation
from qdialect.ops import shape_of
from qdialect.quantization.float_rewrites.apply import as_many_as_fit
from qdialect.quantization.float_rewrites.base import Rewritten, mean_gain
from qdialect.quantization.float_rewrites.mixing import (
    Mixed,
    mix_channels,
    mixed_constants,
    mixed_value,
)
from qdialect.quantization.float_rewrites.statistics import Channels, Statistics
from qdialect.quantization.float_rewrites.terms import Costs
from qdialect.quantization.recipe import Recipe
from qdialect.reference import Interpreter

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

WORTH = 1.0
"""How many dB a group has to gain; as many as some vectors of few samples leave in doubt."""
SEEDS = 4
"""How many rotations of a group are tried."""


@dataclass(frozen=True)
class _Chosen:
    """The rotations of the blocks of a group, and what is lost without and with them."""

    changes: Sequence[Mixed]
    before: float
    after: float


@dataclass(frozen=True)
class Rotate:
    """Mixes channels by rotations wherever weights take them up."""

    name: str = "rotate"

    def __call__(
        self, module: ModuleOp, ctx: QContext, statistics: Statistics, recipe: Recipe
    ) -> Rewritten | None:
        """See `FloatRewrite`."""
        function = Interpreter(ctx, module).function()
        known = statistics.of(function)
        found: list[_Chosen] = []
        for group, blocks in find_blocks(function, ctx):
            if all(value in known and known[value].rows is not None for value in group.values):
                best = _best(group, blocks, Costs(ctx, known, recipe))
                found += [best] if mean_gain([best]) >= WORTH else []
        kept = as_many_as_fit(_mix, [each.changes for each in found], ctx)
        found = [found[number] for number in kept]
        if not found:
            return None
        channels = sum(len(block) for each in found for _, block, _ in each.changes)
        return Rewritten(len(found), channels, mean_gain(found))


def _mix(chosen: Sequence[Sequence[Mixed]], ctx: QContext) -> int:
    return mix_channels([change for changes in chosen for change in changes], ctx)


def _best(group: ChannelGroup, blocks: Blocks, costs: Costs) -> _Chosen:
    """The rotations of the seed with the least loss."""
    identity = [(group, block, np.eye(len(block))) for block in blocks]
    before, tried = _loss(identity, costs), list[_Chosen]()
    for seed in range(SEEDS):
        random = np.random.default_rng(seed)
        changes = [(group, block, random_rotation(len(block), random)) for block in blocks]
        tried.append(_Chosen(changes, before, _loss(changes, costs)))
    return min(tried, key=lambda each: each.after)


def _loss(changes: Sequence[Mixed], costs: Costs) -> float:
    """What rounding the values of a group and the weights at its ends would cost after changes."""
    group = changes[0][0]
    weights = mixed_constants(changes, costs.ctx)
    known = {**costs.known, **_rotated(changes, costs.known)}
    after = Costs(costs.ctx, known, costs.recipe, weights, signal=costs.known)
    terms: list[Term] = []
    for value, labels in group.values.items():
        term = after.of_value(value, labels)
        terms += [] if term is None else [term]
    count = group.size
    for op, number in weights:
        acc = after.contraction(op, None)
        if acc is not None and acc.rhs == number:
            value, axis = op.operands[acc.lhs], acc.lhs_axis(op)
            labels = _numbered(value, axis)
            terms += after.of_weights(op, value, labels)
            count = max(count, labels.size)
    return total_loss(terms, np.zeros(count + 1))[0]


def _numbered(value: SSAValue, axis: int) -> NDArray[np.int64]:
    """A label of its own for each channel along a dimension."""
    shape = shape_of(value)
    extents = [extent if d == axis else 1 for d, extent in enumerate(shape)]
    return np.arange(1, shape[axis] + 1).reshape(extents)


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

"""Rotations of channels, such that no few of them are much larger than the others.

    v = Wv x,  o = p v,  y = Wo o     becomes     v = (R Wv) x,  o = p v,  y = (Wo R^T) o

for every block of channels that linear ops and norms meet (`analysis.channel_mixing`): what an
attention makes of a head, the narrow side of an inverted bottleneck, the residual stream of a
transformer whose norms stand in front.  Factors make channels of one size only where some are
always large; a rotation does also where each is large now and then, and spreads what is large in
weights too (QuaRot: Ashkboos et al., 2024; through norms SliceGPT: Ashkboos et al., 2024).

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

from qdialect.algebra.channel_transforms import Term, total_loss
from qdialect.algebra.rotations import random_rotation, rotation_keeping_ones
from qdialect.analysis.channel_labels import scaled
from qdialect.analysis.channel_mixing import Block, Matrices, Mixable, find_blocks
from qdialect.ir.ops import shape_of
from qdialect.quantizer.float_rewrites.base import FloatRewrite
from qdialect.quantizer.float_rewrites.mixing import (
    Mixed,
    mix_channels,
    mixed_constants,
    mixed_value,
)
from qdialect.quantizer.float_rewrites.statistics import Channels
from qdialect.quantizer.float_rewrites.terms import Costs, numbered_labels

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
        return sum(len(block.classes) for _, block, _ in self.changes)


@dataclass(frozen=True)
class Rotate(FloatRewrite[Rotated]):
    """Mixes channels by rotations wherever weights take them up; some vectors of few samples leave
    a decibel in doubt."""

    name: str = "rotate"
    worth: float = 1.0

    def choices(self, function: FuncOp, costs: Costs) -> Iterator[Rotated]:
        known = costs.known
        for mixable in find_blocks(function, costs.ctx):
            if all(value in known and known[value].rows is not None for value in mixable.values):
                yield _best(mixable, costs)

    def change(self, chosen: Sequence[Rotated], costs: Costs) -> tuple[()]:
        mix_channels([change for each in chosen for change in each.changes], costs.ctx)
        return ()


def _best(mixable: Mixable, costs: Costs) -> Rotated:
    """The rotations of the seed with the least loss."""
    known = costs.known
    as_it_is = {**known, **_of_rows(mixable, known, ())}
    before, tried = _loss(mixable, costs.afterwards(as_it_is)), list[Rotated]()
    for seed in range(SEEDS):
        random = np.random.default_rng(seed)
        changes = [(mixable, block, _rotation(block, random)) for block in mixable.blocks]
        rotated = {**known, **_of_rows(mixable, known, changes)}
        after = costs.afterwards(rotated, mixed_constants(changes, costs.ctx))
        tried.append(Rotated(changes, before, _loss(mixable, after)))
    return min(tried, key=lambda each: each.after)


def _rotation(block: Block, random: np.random.Generator) -> Array:
    keeps_ones = block.matrices is Matrices.KEEPING_ONES
    return (rotation_keeping_ones if keeps_ones else random_rotation)(len(block.classes), random)


def _loss(mixable: Mixable, costs: Costs) -> float:
    """What rounding the values and the weights that change costs."""
    terms, count = list[Term](), 0
    for value in mixable.values:
        labels = numbered_labels(costs.known[value].low.shape)
        term = costs.of_value(value, labels)
        terms += [] if term is None else [term]
        count = max(count, labels.size)
    absorbers = (each for group in mixable.groups for each in group.absorbers)
    for op, number in dict.fromkeys((each.op, each.operand) for each in absorbers):
        acc = costs.contraction(op, None)
        if acc is not None and acc.rhs == number:
            value, axis = op.operands[acc.lhs], acc.lhs_axis(op)
            shape = shape_of(value)
            labels = numbered_labels([n if d == axis else 1 for d, n in enumerate(shape)])
            terms += costs.of_weights(op, value, labels)
            count = max(count, labels.size)
    return total_loss(terms, np.zeros(count + 1))[0]


def _of_rows(
    mixable: Mixable, known: Mapping[SSAValue, Channels], changes: Sequence[Mixed]
) -> Mapping[SSAValue, Channels]:
    """What is known of the values of a group after changes, if any, by the vectors that were
    kept."""
    found: dict[SSAValue, Channels] = {}
    for value in mixable.values:
        rows = known[value].rows
        assert rows is not None
        # A place is a value whose extents are 1 where it has no channels.
        array = rows.astype(np.float64).reshape(-1, *known[value].low.shape)
        for gain in mixable.gains if changes else ():
            if value in gain.group.values:
                array = array * scaled(gain.group.values[value], gain.factors)
        for _, block, matrix in changes:
            if value in mixable.group.values:
                array = mixed_value(array, mixable.group.values[value], block, matrix)
        found[value] = Channels(
            array.min(axis=0),
            array.max(axis=0),
            array.mean(axis=0),
            np.square(array).mean(axis=0),
        )
    return found

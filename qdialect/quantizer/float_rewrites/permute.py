"""Another order of channels, such that weights of one size share a scale.

    y = W2 f(W1 x + b)     becomes     y = (W2 P^T) f((P W1) x + P b)

for every group of channels that may change places (`analysis.channel_permutations`), whatever f
computes element by element.  Where weights have a scale for every so many numbers that are summed,
it matters which of them are together; elsewhere no order gains anything.  Of the orders that
`algebra.channel_orders` knows the one of the least loss is taken.  Nothing is added to the graph.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from qdialect.algebra.channel_orders import sizes_of_channels, sorted_within
from qdialect.algebra.channel_transforms import RoundedRows, total_loss
from qdialect.analysis.channel_groups import ChannelGroup
from qdialect.analysis.channel_permutations import Blocks, find_permutable
from qdialect.ir.ops import shape_of
from qdialect.quantizer.float_rewrites.base import FloatRewrite
from qdialect.quantizer.float_rewrites.permuting import (
    Ordered,
    permute_channels,
    permuted_constants,
    permuted_value,
)
from qdialect.quantizer.float_rewrites.statistics import Channels
from qdialect.quantizer.float_rewrites.terms import Costs, channel_vector, numbered_labels

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]


@dataclass(frozen=True)
class Reader:
    """A product of a value and weights, whose scales are for blocks of the channels of a group:
    the class of each, 0 of others."""

    op: Operation
    value: SSAValue
    classes: NDArray[np.int64]


@dataclass(frozen=True)
class Permuted:
    """The orders of the blocks of a group, and what is lost without and with them."""

    changes: Sequence[Ordered]
    before: float
    after: float

    @property
    def channels(self) -> int:
        return sum(len(block) for _, block, _ in self.changes)


@dataclass(frozen=True)
class Permute(FloatRewrite[Permuted]):
    """Puts channels in another order wherever weights at both ends take it up."""

    name: str = "permute"
    worth: float = 0.1

    def choices(self, function: FuncOp, costs: Costs) -> Iterator[Permuted]:
        if not costs.recipe.only_weights:
            return
        for group, blocks in find_permutable(function, costs.ctx):
            readers = list(_readers(group, costs))
            if readers:
                yield _best(group, blocks, readers, costs)

    def change(self, chosen: Sequence[Permuted], costs: Costs) -> tuple[()]:
        permute_channels([change for each in chosen for change in each.changes], costs.ctx)
        return ()


def _readers(group: ChannelGroup, costs: Costs) -> Iterator[Reader]:
    """What reads channels of a group block by block."""
    for op in dict.fromkeys(absorber.op for absorber in group.absorbers):
        acc = costs.contraction(op, None)
        labels = None if acc is None else group.values.get(op.operands[acc.lhs])
        if acc is None or labels is None:
            continue
        value, axis = op.operands[acc.lhs], acc.lhs_axis(op)
        if labels.shape[axis] > 1 and value in costs.known and costs.block_of(op, acc):
            yield Reader(op, value, np.abs(channel_vector(labels, axis, value)))


def _best(group: ChannelGroup, blocks: Blocks, readers: Sequence[Reader], costs: Costs) -> Permuted:
    """The orders of least loss."""
    blocks = _as_read(blocks, readers)
    sums, most, energies = np.zeros((3, group.size + 1))
    before = 0.0
    for reader in readers:
        terms = _terms(reader, costs)
        before += total_loss(terms, np.zeros(len(reader.classes) + 1))[0]
        for term in terms:
            classes = reader.classes[term.labels - 1]
            squares = term.costs[:, None] * np.square(term.magnitudes)
            np.add.at(sums, classes, squares.sum(axis=0))
            np.maximum.at(most, classes, squares.max(axis=0))
            np.add.at(energies, classes, term.energies * term.costs.sum())
    tried = [Permuted([], before, before)]
    for sizes in sizes_of_channels(sums, most, energies):
        orders = sorted_within(sizes, blocks)
        changes = [(group, block, order) for block, order in zip(blocks, orders, strict=True)]
        tried.append(Permuted(changes, before, _loss(changes, readers, costs)))
    return min(tried, key=lambda each: each.after)


def _as_read(blocks: Blocks, readers: Sequence[Reader]) -> Blocks:
    """The classes of each block in the order in which they are read."""
    places: dict[int, int] = {}
    for reader in readers:
        for label in reader.classes.tolist():
            places.setdefault(label, len(places))
    return [sorted(block, key=lambda label: places.get(label, -1)) for block in blocks]


def _loss(changes: Sequence[Ordered], readers: Sequence[Reader], costs: Costs) -> float:
    known = {**costs.known, **_permuted(changes, readers, costs.known)}
    after = costs.afterwards(known, permuted_constants(changes, costs.ctx))
    terms = [(reader, _terms(reader, after)) for reader in readers]
    return sum(total_loss(each, np.zeros(len(r.classes) + 1))[0] for r, each in terms)


def _terms(reader: Reader, costs: Costs) -> Sequence[RoundedRows]:
    acc = costs.contraction(reader.op, reader.value)
    assert acc is not None
    axis, shape = acc.lhs_axis(reader.op), shape_of(reader.value)
    labels = numbered_labels([n if d == axis else 1 for d, n in enumerate(shape)])
    terms = costs.of_weights(reader.op, reader.value, labels)
    return [term for term in terms if isinstance(term, RoundedRows)]


def _permuted(
    changes: Sequence[Ordered], readers: Sequence[Reader], known: Mapping[SSAValue, Channels]
) -> Mapping[SSAValue, Channels]:
    """What is known of the values that are read, in another order."""
    found: dict[SSAValue, Channels] = {}
    for value in {reader.value for reader in readers}:
        was, labels = known[value], changes[0][0].values[value]
        arrays = [was.low, was.high, was.mean, was.power]
        for _, block, order in changes:
            arrays = [permuted_value(array, labels, block, order) for array in arrays]
        low, high, mean, power = arrays
        found[value] = Channels(low, high, mean, power)
    return found

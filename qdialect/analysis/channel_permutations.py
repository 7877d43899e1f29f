"""Which channels of which values may change places, on any graph.

    W2 P^-1 f(P W1 x + P b) = W2 f(W1 x + b)          P a permutation, f the same on every channel

The walk is that of factors, with places instead of numbers: equal labels are one channel. Whatever
is computed element by element passes, whether it is linear or not, and the constants that it
meets are permuted too; so do pools, and sums over all channels, in which order does not
matter. Weights take up the order of both sides. Weights in groups keep channels of one group
together, those of one channel each (a depthwise convolution) have the order of what they meet.

Channels change places in blocks: classes that lie, each once, in the same fibres (along one
dimension) of every value and of every constant (`channel_mixing`): those of one head, or of one
group. What is returned has the order that it had.

Contract: the same products and sums of the same numbers, which floats may round otherwise in
another order.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from qdialect.algebra.qparams.maps import IndexMap, Select
from qdialect.analysis.channel_groups import ChannelGroup, groups_of
from qdialect.analysis.channel_labels import Labels, aligned
from qdialect.analysis.channel_mixing import fibre_blocks, fibre_dim, joins_all
from qdialect.analysis.channel_walk import Walk
from qdialect.ir.behaviors import Accumulator, Behavior
from qdialect.ir.behaviors.degrees import sums_alike
from qdialect.ir.behaviors.shapes import shape_of
from qdialect.ir.context import QContext

Blocks = Sequence[Sequence[int]]
"""Classes of a group, numbered from 1, that may change places with each other."""


def find_permutable(function: FuncOp, ctx: QContext) -> list[tuple[ChannelGroup, Blocks]]:
    """The groups of `function` with channels that may change places, and their blocks of two or
    more classes, each of which may be in any order."""
    return blocks_of(PermutationWalk(ctx), function)


def blocks_of(walk: PermutationWalk, function: FuncOp) -> list[tuple[ChannelGroup, Blocks]]:
    """The groups that a walk finds, and their blocks of two or more classes."""
    walk.run(function.body.block)
    walk.settle()
    block = function.body.block
    inner = [labels for value, labels in walk.labels.items() if value.owner.parent is not block]
    arrays = [*walk.kept_apart, *((labels, ()) for labels in inner if labels.any())]
    roots = [(walk.classes.roots(labels), dims) for labels, dims in arrays]
    found: list[tuple[ChannelGroup, Blocks]] = []
    for group, name in groups_of(walk, function):
        blocks = fibre_blocks(group, [(name(labels), dims) for labels, dims in roots])
        if blocks:
            found.append((group, blocks))
    return found


class PermutationWalk(Walk):
    """Equal labels are one channel, in whatever place."""

    #: arrays of labels, and dimensions along which their channels must not change places
    kept_apart: list[tuple[Labels, Sequence[int]]]
    #: what constants take up, by op and number of the operand
    taken: dict[tuple[Operation, int], Sequence[tuple[Labels, int]]]

    def __init__(self, ctx: QContext) -> None:
        super().__init__(ctx)
        self.kept_apart, self.taken = [], {}

    def absorb(self, use: tuple[Operation, int], *terms: tuple[Labels, int]) -> None:
        """A constant is permuted once, also where pieces of a composite take it several times."""
        before = self.taken.setdefault(use, terms)
        if before is terms:
            super().absorb(use, *terms)
            return
        alike = len(before) == len(terms)
        for (labels, _), (other, _) in zip(before, terms, strict=False):
            self.classes.unite(labels, other if alike else 0)
        for labels, _ in () if alike else terms:
            self.classes.pin(labels)

    def results(self, op: Operation, behavior: Behavior) -> Sequence[Labels] | None:
        """Of what is computed element by element, the labels of the operands."""
        if behavior.elementwise:
            return [self._alike(op)]
        if behavior.affine_along is not None:
            return self._vectors(op, behavior.affine_along)
        return super().results(op, behavior)

    def movement(self, op: Operation, behavior: Behavior) -> Sequence[Labels] | None:
        """Copies; but which of two is taken may differ by channel."""
        if any(isinstance(each, Select) for each in behavior.maps(op)):
            return None
        return super().movement(op, behavior)

    def matrices(self, op: Operation, sums: Accumulator) -> Sequence[Labels] | None:
        """Of stacks of matrices, each is multiplied by itself."""
        made = super().matrices(op, sums)
        if made is not None:
            rank = len(shape_of(op.results[0]))
            arrays = [*made, *(aligned(self.of(value), rank) for value in op.operands)]
            self.kept_apart += [(labels, range(rank - 2)) for labels in arrays]
        return made

    def passes_border(self, along: IndexMap) -> bool:
        """Every channel gets the same number."""
        return True

    def linear(self, op: Operation, behavior: Behavior) -> Sequence[Labels] | None:
        """A sum over channels has no order."""
        dim, axes = fibre_dim(self.of(op.operands[0])), behavior.operand_port(0).axes
        over = axes is not None and dim is not None and dim not in axes(op)
        if over and sums_alike(op, behavior):
            return [np.zeros((1,) * len(shape_of(op.results[0])), np.int64)]
        return super().linear(op, behavior)

    def _alike(self, op: Operation) -> Labels:
        """Elements at one place of operands that broadcast; constants take up the order."""
        rank = len(shape_of(op.results[0]))
        values = [n for n in range(len(op.operands)) if self.use_of(op, n) is None]
        arrays = {n: aligned(self.of(op.operands[n]), rank) for n in values}
        shape = np.broadcast_shapes(*(labels.shape for labels in arrays.values()))
        dim = fibre_dim(np.empty(shape, np.int64))
        if dim is None:
            return np.zeros((1,) * rank, np.int64)
        made: Labels | None = None
        for n, labels in arrays.items():
            if _extents(op, n, rank)[dim] == 1:
                # The same along the channels, so nothing of it may move.
                self.classes.pin(labels)
            elif made is None:
                made = labels
            else:
                self.classes.unite(made, labels)
        assert made is not None
        for n in range(len(op.operands)):
            use, extents = self.use_of(op, n), _extents(op, n, rank)
            if use is not None and extents[dim] > 1:
                others = [d for d in range(rank) if extents[d] == 1]
                own = self.classes.along(made, others)
                self.absorb(
                    use, (own.reshape(own.shape[rank - len(shape_of(op.operands[n])) :]), 1)
                )
        return made

    def _vectors(self, op: Operation, along: int) -> Sequence[Labels] | None:
        """A value and constant vectors along one of its dimensions."""
        labels = self.of(op.operands[0])
        if not all(self.use_of(op, n) for n in range(1, len(op.operands))):
            return None
        vector = self.classes.along(labels, [d for d in range(labels.ndim) if d != along])
        for n in range(1, len(op.operands)):
            use = self.use_of(op, n)
            assert use is not None
            self.absorb(use, (vector.reshape(-1), 1))
        return [vector]

    def contraction(
        self, op: Operation, behavior: Behavior, sums: Accumulator
    ) -> Sequence[Labels] | None:
        """Of weights, both sides; channels that read or are read alike stay together."""
        weights = self.use_of(op, sums.rhs)
        if weights is None:
            return self.matrices(op, sums)
        if sums.channels is None or not self.joins_channels(op, sums):
            return None
        vector, (inner, outer) = self.vector(op, sums), sums.channels(op)
        if one_to_one(inner, outer):
            out = vector[_reads(inner, outer).argmax(axis=1)]
            self.absorb(weights, (out[outer], 1))
            return [self.with_bias(op, sums, out)]
        out = self.fresh_channels(op, sums)
        if not joins_all(inner, outer):
            reads = _reads(inner, outer)
            for labels, rows in ((out, reads), (vector, reads.T)):
                groups = np.unique(rows, axis=0, return_inverse=True)[1].reshape(-1)
                self.kept_apart += [(labels[groups == n], ()) for n in range(groups.max() + 1)]
        self.absorb(weights, (out[outer], 1), (vector[inner], -1))
        return [self.with_bias(op, sums, out)]


def _extents(op: Operation, n: int, rank: int) -> Sequence[int]:
    shape = shape_of(op.operands[n])
    return (*(1,) * (rank - len(shape)), *shape)


def one_to_one(inner: Labels, outer: Labels) -> bool:
    """Whether every channel of the result of weights reads one channel that no other reads."""
    if joins_all(inner, outer):
        return False
    reads = _reads(inner, outer)
    return bool((reads.sum(axis=0) == 1).all() and (reads.sum(axis=1) == 1).all())


def _reads(inner: Labels, outer: Labels) -> np.ndarray[tuple[int, int], np.dtype[np.bool_]]:
    """Which channels of the result (rows) read which of the operand."""
    inner, outer = np.broadcast_arrays(inner, outer)
    found = np.zeros((int(outer.max()) + 1, int(inner.max()) + 1), np.bool_)
    found[outer.reshape(-1), inner.reshape(-1)] = True
    return found

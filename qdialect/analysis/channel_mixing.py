"""Which channels of which values may be mixed by one invertible matrix.

    (W2 R^-1) (R W1 x + R b) = W2 (W1 x + b)          q R (k R^-T)^T = q k^T

The walk is that of factors, but only what is linear in all its values passes: sums, means,
resizes, movements, products with one number. Labels of one factor then are one row of a matrix R;
those of the inverse factor one of R^-T. Channels are mixed in blocks: classes that lie, each once,
in the same fibres (along one dimension) of every value and of every constant that takes them up.
Batches of matrices are multiplied one by one, so no fibre of a block crosses them: heads of an
attention are blocks of their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from math import isfinite

import numpy as np
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from qdialect.analysis.channel_groups import ChannelGroup, groups_of
from qdialect.analysis.channel_labels import Labels, aligned
from qdialect.analysis.channel_walk import Walk
from qdialect.behaviors import Accumulator, Behavior
from qdialect.behaviors.degrees import Homogeneity, homogeneity, translation
from qdialect.behaviors.shapes import shape_of
from qdialect.context import QContext
from qdialect.ops import constant_array, constant_of
from qdialect.qparams.maps import IndexMap, Select

Blocks = Sequence[Sequence[int]]
"""Classes of a group, numbered from 1, that may be mixed with each other."""


def find_blocks(function: FuncOp, ctx: QContext) -> list[tuple[ChannelGroup, Blocks]]:
    """The groups of `function` with channels that any invertible matrix may mix, and their blocks
    of two or more classes."""
    return blocks_of(_LinearWalk(ctx), function)


def blocks_of(walk: BlockWalk, function: FuncOp) -> list[tuple[ChannelGroup, Blocks]]:
    """The groups that a walk finds, and their blocks of two or more classes."""
    walk.run(function.body.block)
    walk.settle()
    found: list[tuple[ChannelGroup, Blocks]] = []
    block = function.body.block
    inner = [labels for value, labels in walk.labels.items() if value.owner.parent is not block]
    arrays = [*walk.kept_apart, *((labels, ()) for labels in inner if labels.any())]
    roots = [(walk.classes.roots(labels), dims) for labels, dims in arrays]
    for group, name in groups_of(walk, function):
        kept = [(name(labels), dims) for labels, dims in roots]
        blocks = _blocks(group, kept)
        if blocks:
            found.append((group, blocks))
    return found


def fibre_dim(labels: Labels, kept_apart: Sequence[int] = ()) -> int | None:
    """The dimension along which channels with these labels lie."""
    dims = [d for d, n in enumerate(labels.shape) if n > 1 and d not in kept_apart]
    return dims[-1] if dims else None


class BlockWalk(Walk):
    """Some channels are exchanged or mixed with each other, within fibres."""

    #: arrays of labels, and dimensions along which their channels must not be mixed
    kept_apart: list[tuple[Labels, Sequence[int]]]

    def __init__(self, ctx: QContext) -> None:
        super().__init__(ctx)
        self.kept_apart = []

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


class _LinearWalk(BlockWalk):
    """Equal labels are one row of a matrix."""

    def passes_border(self, along: IndexMap) -> bool:
        """Sums of nothing are 0."""
        return not along.border_value

    def ordered(self, op: Operation, behavior: Behavior) -> Sequence[Labels] | None:
        """No choice is linear."""
        return None

    def of_formula(self, op: Operation, behavior: Behavior) -> Homogeneity | None:
        """Sums, and products with constants of one number."""
        found, moved = homogeneity(op, behavior), translation(op, behavior)
        if found is None or moved is None or behavior.affine_along is not None:
            return None
        if not moved.conditions:
            return found
        known = {n: self._number(op, n) for n in range(len(op.operands))}
        numbers = {n: number for n, number in known.items() if number is not None}
        scaled = translation(op, behavior, numbers)
        if found.conditions or scaled is None or scaled.conditions or len(scaled.result) != 1:
            return None
        return Homogeneity({next(iter(scaled.result)): Fraction(1)}, ())

    def _number(self, op: Operation, n: int) -> float | None:
        """The number that a constant operand is, if it is one throughout."""
        use = self.use_of(op, n) or (op, n)
        constant = constant_of(use[0].operands[use[1]])
        if constant is None:
            return None
        array = constant_array(constant, self.ctx.blobs)
        first = float(array.flat[0])
        return first if isfinite(first) and (array == first).all() else None

    def contraction(
        self, op: Operation, behavior: Behavior, sums: Accumulator
    ) -> Sequence[Labels] | None:
        """Of constant weights, if every channel of the result reads every channel."""
        if behavior.activation is not None:
            return None
        joined = sums.channels(op) if sums.channels and self.use_of(op, sums.rhs) else None
        if joined is not None and not joins_all(*joined):
            return None
        return super().contraction(op, behavior, sums)


def joins_all(inner: Labels, outer: Labels) -> bool:
    """Whether every channel of the result of weights reads every channel."""
    return sum(n > 1 for n in (inner + outer).shape) == (
        sum(n > 1 for n in inner.shape) + sum(n > 1 for n in outer.shape)
    )


def _blocks(group: ChannelGroup, kept_apart: Sequence[tuple[Labels, Sequence[int]]]) -> Blocks:
    """Classes of which every array says that they lie in the same fibres, once in each."""
    keys: dict[int, list[object]] = {label: [] for label in range(1, group.size + 1)}
    for number, (labels, dims) in enumerate(_arrays(group, kept_apart)):
        for label, key in _fibres(labels, dims).items():
            keys[label].append((number, key))
    found: dict[tuple[object, ...], list[int]] = {}
    for label, key in keys.items():
        found.setdefault(tuple(key), []).append(label)
    return [block for block in found.values() if len(block) > 1]


def _arrays(
    group: ChannelGroup, kept_apart: Sequence[tuple[Labels, Sequence[int]]]
) -> Iterator[tuple[Labels, Sequence[int]]]:
    yield from ((labels, ()) for labels in group.values.values())
    yield from ((term.labels, ()) for each in group.absorbers for term in each.terms)
    yield from ((labels, dims) for labels, dims in kept_apart if labels.any())


def _fibres(labels: Labels, kept_apart: Sequence[int]) -> dict[int, object]:
    """By class, the fibres that it lies in and its sign there; something of its own for one that
    cannot be mixed."""
    dim = fibre_dim(labels, kept_apart)
    rows = np.moveaxis(labels, dim, -1).reshape(-1, labels.shape[dim]) if dim is not None else None
    if rows is None:
        return {int(n): int(n) for n in np.unique(np.abs(labels)) if n}
    places: dict[int, list[tuple[int, int]]] = {}
    for number, row in enumerate(rows.tolist()):
        for label in row:
            if label:
                places.setdefault(abs(label), []).append((number, 1 if label > 0 else -1))
    return {
        label: label if len({row for row, _ in at}) < len(at) else tuple(at)
        for label, at in places.items()
    }

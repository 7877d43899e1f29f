"""Which channels of which values may be mixed by one matrix, and by which matrices.

    (W2 R^-1) (R W1 x + R b) = W2 (W1 x + b)          q R (k R^-T)^T = q k^T
    mean (R x) = mean x,  R (x - mean x) = R x - mean x       if R 1 = 1 and R^T 1 = 1
    |R x|^2 = |x|^2,  R (x / |x|) = R x / |x|                 if R R^T = I

The walk is that of factors, but only what is linear in all its values passes: sums, resizes,
movements, products with one number.  Labels of one factor then are one row of a matrix R; those of
the inverse factor one of R^-T.  Channels are mixed in blocks: classes that lie, each once, in the
same fibres (along one dimension) of every value and of every constant that takes them up.
Batches of matrices are multiplied one by one, so no fibre of a block crosses them: heads of an
attention are blocks of their own.

Norms are no rule of their own but their formulas.  A sum of a whole fibre that gives its elements
one weight does not change if R keeps the vector of ones; nor does a number added to a whole fibre
where that is what R should make of it.  Squares are not mixed, but their sum stays for orthogonal
R, and a fibre may be multiplied with what is one number for all of it.  The gain of a norm is taken
for 1 where weights behind take it up (`channel_gains`); its bias is mixed.  So all of a residual
stream before norms is one group.  Contract: exact in the reals.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from math import isfinite, prod
from typing import TYPE_CHECKING

import numpy as np
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from qdialect.algebra.qparams.maps import IndexMap, Select
from qdialect.analysis.channel_groups import ChannelGroup, groups_of
from qdialect.analysis.channel_labels import LARGEST, Labels, Term, aligned
from qdialect.analysis.channel_walk import Walk
from qdialect.ir.behaviors import Accumulator, Behavior
from qdialect.ir.behaviors.degrees import (
    Homogeneity,
    homogeneity,
    product_powers,
    sums_alike,
    translation,
)
from qdialect.ir.behaviors.shapes import shape_of
from qdialect.ir.context import QContext
from qdialect.ir.ops import constant_array, constant_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Which gains of channels may be 1, because the weights behind them take them up.
#
#     W ((x / |x|) * g) = (W diag(g)) (x / |x|)
#
# A gain is a constant that a product multiplies channels with, each with a number of its own: the
# scale of a norm.  The walk is that of factors, from gains on, through linear ops alone, so that a
# factor may also be negative.  A gain g becomes 1 by the factors 1 / g, if the factors of its
# channels are free and no other gain's: where the result of a norm goes to the next norm, they are
# not.
# Contract: as in `channel_groups`.

Use = tuple[Operation, int]
"""A constant operand, by op and number."""


@dataclass(frozen=True)
class Gain:
    """The factors by class of a group that make a gain 1."""

    group: ChannelGroup
    factors: NDArray[np.float64]


@dataclass(frozen=True)
class Gains:
    """Gains that may be 1, and of others the reason why not."""

    free: Mapping[Use, Gain] = field(default_factory=dict[Use, Gain])
    refused: Mapping[Use, str] = field(default_factory=dict[Use, str])


class LinearWalk(Walk):
    """What linear ops alone hand on."""

    def movement(self, op: Operation, behavior: Behavior) -> Sequence[Labels] | None:
        """Copies; but which of two is taken may differ by channel."""
        if any(isinstance(each, Select) for each in behavior.maps(op)):
            return None
        return super().movement(op, behavior)

    def passes_border(self, along: IndexMap) -> bool:
        """Sums of nothing are 0."""
        return not along.border_value

    def ordered(self, op: Operation, behavior: Behavior) -> Sequence[Labels] | None:
        """No choice is linear."""
        return None

    def contraction(
        self, op: Operation, behavior: Behavior, sums: Accumulator
    ) -> Sequence[Labels] | None:
        """Sums that nothing limits."""
        return None if behavior.activation is not None else super().contraction(op, behavior, sums)

    def number(self, op: Operation, n: int) -> float | None:
        """The number that a constant operand is, if it is one throughout."""
        use = self.use_of(op, n) or (op, n)
        constant = constant_of(use[0].operands[use[1]])
        if constant is None:
            return None
        array = constant_array(constant, self.ctx.blobs)
        first = float(array.flat[0])
        return first if isfinite(first) and (array == first).all() else None


class _GainWalk(LinearWalk):
    """Factors that may be negative, of gains and of what is behind them."""

    #: constants with a number for each channel that something is multiplied with
    gains: set[Use]

    def __init__(self, ctx: QContext) -> None:
        super().__init__(ctx)
        self.gains = set()

    def results(self, op: Operation, behavior: Behavior) -> Sequence[Labels] | None:
        """What is multiplied with one number keeps its factors, the number too; what is multiplied
        with a gain has none of its own."""
        powers = product_powers(op, behavior) if behavior.elementwise else None
        numbers = {n for n in powers or () if self.number(op, n) is not None}
        others = [n for n in powers or () if n not in numbers]
        gains = [n for n in others if self.use_of(op, n) is not None]
        rank = len(shape_of(op.results[0]))
        if powers is not None and len(gains) == 1 and abs(powers[gains[0]]) == 1:
            return self._gained(op, gains[0], int(powers[gains[0]]))
        if powers is not None and numbers and len(others) == 1 and powers[others[0]] == 1:
            return [aligned(self.of(op.operands[others[0]]), rank)]
        return super().results(op, behavior)

    def _gained(self, op: Operation, gain: int, power: int) -> Sequence[Labels] | None:
        """New factors, which the gain takes up."""
        use, shape = self.use_of(op, gain), shape_of(op.operands[gain])
        assert use is not None
        self.gains.add(use)
        if prod(shape) > LARGEST:
            return None
        for value in op.operands:
            self.stop(value)
        made = self.classes.fresh(shape)
        self.absorb(use, (made, power))
        return [aligned(made, len(shape_of(op.results[0])))]

    def of_formula(self, op: Operation, behavior: Behavior) -> Homogeneity | None:
        """Sums and products."""
        moved = translation(op, behavior)
        is_sum = moved is not None and not moved.conditions
        return homogeneity(op, behavior) if is_sum or product_powers(op, behavior) else None


_NO_FACTORS = "what takes its result takes up no factors"


def find_gains(function: FuncOp, ctx: QContext) -> Gains:
    """The gains of `function`."""
    walk = _GainWalk(ctx)
    walk.run(function.body.block)
    walk.settle()
    counts = Counter((each.op, each.operand) for each in walk.absorbers)
    free: dict[Use, Gain] = {}
    refused: dict[Use, str] = dict.fromkeys(walk.gains, _NO_FACTORS)
    for group, _ in groups_of(walk, function):
        taken = np.zeros(group.size + 1, np.bool_)
        for absorber in group.absorbers:
            use = absorber.op, absorber.operand
            term = absorber.terms[0]
            labels = np.abs(term.labels)
            if use not in walk.gains or counts[use] > 1 or not labels.all():
                continue
            factors = _factors(use, term, group.size, ctx)
            if factors is None:
                refused[use] = "it has a zero, or not a number for each factor"
            elif taken[labels].any():
                refused[use] = "another gain has the same factors"
            else:
                taken[labels] = True
                free[use] = Gain(group, factors)
                refused.pop(use)
    return Gains(free, refused)


def _factors(use: Use, term: Term, size: int, ctx: QContext) -> NDArray[np.float64] | None:
    """The factors that make a constant 1; None if a number of it is 0, or two of one class are not
    the same."""
    constant = constant_of(use[0].operands[use[1]])
    assert constant is not None
    numbers = constant_array(constant, ctx.blobs).astype(np.float64)
    if not (np.isfinite(numbers) & (numbers != 0)).all():
        return None
    expected = np.where(term.labels * term.sign > 0, 1 / numbers, numbers)
    factors = np.ones(size + 1)
    factors[np.abs(term.labels)] = expected
    return factors[1:] if (factors[np.abs(term.labels)] == expected).all() else None


class Matrices(IntEnum):
    """Which matrices may mix a block; each class has the next in it."""

    INVERTIBLE = 0
    ORTHOGONAL = 1
    #: orthogonal, R 1 = 1: the vector of ones stays, and so does the sum
    KEEPING_ONES = 2


@dataclass(frozen=True)
class Block:
    """Classes of a group, numbered from 1, that these matrices may mix with each other."""

    classes: Sequence[int]
    matrices: Matrices


@dataclass(frozen=True)
class Mixable:
    """A group with blocks of two or more classes, and the gains that have to become 1 first."""

    group: ChannelGroup
    blocks: Sequence[Block]
    gains: Sequence[Gain]

    @property
    def groups(self) -> Sequence[ChannelGroup]:
        """The group and those of its gains."""
        return [self.group, *(gain.group for gain in self.gains)]

    @property
    def values(self) -> Sequence[SSAValue]:
        """All values that change."""
        return [*dict.fromkeys(value for group in self.groups for value in group.values)]


def find_blocks(function: FuncOp, ctx: QContext) -> list[Mixable]:
    """The groups of `function` with channels that matrices may mix."""
    walk = _MixingWalk(ctx, find_gains(function, ctx))
    walk.run(function.body.block)
    walk.settle()
    roots = walk.classes.roots
    kept_apart = [(roots(labels), dims) for labels, dims in walk.kept_apart]
    conditions = [(roots(labels), matrices) for labels, matrices in walk.conditions]
    ones = [(roots(labels), gain) for labels, gain in walk.ones]
    found: list[Mixable] = []
    for group, name in groups_of(walk, function):
        asked = [(name(labels), matrices) for labels, matrices in conditions]
        made = fibre_blocks(group, [(name(labels), dims) for labels, dims in kept_apart])
        blocks = [_block(classes, asked) for classes in made]
        if blocks:
            mixed = [label for block in blocks for label in block.classes]
            gains = [gain for labels, gain in ones if np.isin(np.abs(name(labels)), mixed).any()]
            found.append(Mixable(group, blocks, gains))
    return found


def _block(classes: Sequence[int], asked: Sequence[tuple[Labels, Matrices]]) -> Block:
    kinds = (kind for labels, kind in asked if np.isin(np.abs(labels), classes).any())
    return Block(classes, max(kinds, default=Matrices.INVERTIBLE))


def fibre_dim(labels: Labels, kept_apart: Sequence[int] = ()) -> int | None:
    """The dimension along which channels with these labels lie."""
    dims = [d for d, n in enumerate(labels.shape) if n > 1 and d not in kept_apart]
    return dims[-1] if dims else None


_ANY_NUMBER = 3.0
"""In the place of one that is not known: formulas are the same for all numbers but 0."""


class _MixingWalk(LinearWalk):
    """Equal labels are one row of a matrix."""

    #: arrays of labels, and dimensions along which their channels must not be mixed
    kept_apart: list[tuple[Labels, Sequence[int]]]
    #: arrays of labels, and what mixes them
    conditions: list[tuple[Labels, Matrices]]
    #: labels of what gains are multiplied with that are taken for 1
    ones: list[tuple[Labels, Gain]]
    #: by value that is made of the squares of channels, their labels
    squares: dict[SSAValue, Labels]

    def __init__(self, ctx: QContext, gains: Gains) -> None:
        super().__init__(ctx)
        self.free: Mapping[Use, Gain] = gains.free
        self.kept_apart, self.conditions, self.ones, self.squares = [], [], [], {}

    def of(self, value: SSAValue) -> Labels:
        """See `Walk`; what is asked for the labels of squares must not mix them."""
        self._pin_squares(value)
        return super().of(value)

    def stop(self, value: SSAValue) -> None:
        """Nor may squares change."""
        self._pin_squares(value)
        super().stop(value)

    def _pin_squares(self, value: SSAValue) -> None:
        if value in self.squares:
            self.classes.pin(self.squares.pop(value))

    def results(self, op: Operation, behavior: Behavior) -> Sequence[Labels] | None:
        """Squares are summed, fibres multiplied by one number or shifted by one."""
        if any(value in self.squares for value in op.operands):
            made = self._of_squares(op, behavior)
        elif behavior.elementwise:
            made = self._of_fibres(op, behavior)
        else:
            made = None
        return super().results(op, behavior) if made is None else made

    def of_formula(self, op: Operation, behavior: Behavior) -> Homogeneity | None:
        """Sums."""
        moved = translation(op, behavior)
        if moved is None or moved.conditions or behavior.affine_along is not None:
            return None
        return homogeneity(op, behavior)

    def _of_fibres(self, op: Operation, behavior: Behavior) -> Sequence[Labels] | None:
        """Of one mixed operand, and others of one number for each of its fibres; or of two, whose
        product is of squares."""
        mixed = [n for n, value in enumerate(op.operands) if self.of(value).any()]
        if not mixed:
            return None
        rank, powers = len(shape_of(op.results[0])), product_powers(op, behavior) or {}
        labels = [aligned(self.of(op.operands[n]), rank) for n in mixed]
        if len(mixed) == len(powers) and sum(powers.values()) == 2:
            return self._squared(op, labels, rank) if set(powers.values()) <= {1, 2} else None
        if len(mixed) > 1:
            return None
        others = [n for n in range(len(op.operands)) if n not in mixed]
        kept = self._differing(op, others, labels[0], is_product=bool(powers))
        if kept is None:
            return None
        if powers.get(mixed[0]) == 1:
            self.kept_apart.append((labels[0], kept))
            return labels
        moved = translation(op, behavior, dict.fromkeys(others, _ANY_NUMBER))
        if not others or moved is None or moved.conditions or set(moved.result) != set(mixed):
            return None
        self.kept_apart.append((labels[0], kept))
        self.conditions.append((labels[0], Matrices.KEEPING_ONES))
        return labels

    def _squared(
        self, op: Operation, labels: Sequence[Labels], rank: int
    ) -> Sequence[Labels] | None:
        """Products of channels with the same rows of matrices."""
        if any(each.shape != labels[0].shape for each in labels):
            return None
        for each in labels[1:]:
            self.classes.unite(labels[0], each)
        self.squares[op.results[0]] = labels[0]
        return [np.zeros((1,) * rank, np.int64)]

    def _of_squares(self, op: Operation, behavior: Behavior) -> Sequence[Labels] | None:
        """Sums of squares, that stay if matrices are orthogonal, or products with one number."""
        (number, *more) = [n for n, value in enumerate(op.operands) if value in self.squares]
        rank, labels = len(shape_of(op.results[0])), self.squares[op.operands[number]]
        zeros = np.zeros((1,) * rank, np.int64)
        if behavior.linear and sums_alike(op, behavior):
            self.conditions.append((labels, Matrices.ORTHOGONAL))
            self.kept_apart.append((labels, _kept(op, behavior, labels.ndim)))
            return [zeros]
        powers = product_powers(op, behavior) if behavior.elementwise and not more else None
        others = [n for n in range(len(op.operands)) if n != number]
        labels = aligned(labels, rank)
        kept = self._differing(op, others, labels, is_product=True)
        if powers is None or kept is None or powers.get(number) != 1:
            return None
        self.kept_apart.append((labels, kept))
        self.squares[op.results[0]] = labels
        return [zeros]

    def _differing(
        self, op: Operation, others: Sequence[int], labels: Labels, *, is_product: bool
    ) -> Sequence[int] | None:
        """Along which dimensions other operands have several numbers; None if they are mixed too,
        or of a constant that is added, and so is mixed itself, or is a gain that is not free."""
        rank, found = labels.ndim, set[int]()
        for n in others:
            use, shape = self.use_of(op, n), shape_of(op.operands[n])
            if self.of(op.operands[n]).any() or (use is not None and not is_product):
                return None
            if is_product and self.number(op, n) is not None:
                continue
            if use is None:
                found.update(d + rank - len(shape) for d, extent in enumerate(shape) if extent != 1)
            elif use in self.free:
                self.ones.append((labels, self.free[use]))
            else:
                return None
        return sorted(found)

    def linear(self, op: Operation, behavior: Behavior) -> Sequence[Labels] | None:
        """Sums of whole fibres stay if matrices keep them."""
        labels = self.of(op.operands[0])
        kept = _kept(op, behavior, labels.ndim)
        summed = prod(n for d, n in enumerate(labels.shape) if d not in kept)
        if summed == 1 or not sums_alike(op, behavior):
            return super().linear(op, behavior)
        self.conditions.append((labels, Matrices.KEEPING_ONES))
        self.kept_apart.append((labels, kept))
        return [np.zeros((1,) * len(shape_of(op.results[0])), np.int64)]

    def contraction(
        self, op: Operation, behavior: Behavior, sums: Accumulator
    ) -> Sequence[Labels] | None:
        """Of constant weights, if every channel of the result reads every channel."""
        joined = sums.channels(op) if sums.channels and self.use_of(op, sums.rhs) else None
        if joined is not None and not joins_all(*joined):
            return None
        made = super().contraction(op, behavior, sums)
        if made is not None and self.use_of(op, sums.rhs) is None:
            rank = len(shape_of(op.results[0]))
            arrays = [*made, *(aligned(self.of(value), rank) for value in op.operands)]
            self.kept_apart += [(labels, range(rank - 2)) for labels in arrays]
        return made


def joins_all(inner: Labels, outer: Labels) -> bool:
    """Whether every channel of the result of weights reads every channel."""
    return sum(n > 1 for n in (inner + outer).shape) == (
        sum(n > 1 for n in inner.shape) + sum(n > 1 for n in outer.shape)
    )


def _kept(op: Operation, behavior: Behavior, rank: int) -> Sequence[int]:
    """The dimensions of its operand that a linear op keeps apart."""
    axes = behavior.operand_port(0).axes
    return range(rank) if axes is None else sorted(axes(op))


def fibre_blocks(
    group: ChannelGroup, kept_apart: Sequence[tuple[Labels, Sequence[int]]]
) -> list[list[int]]:
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

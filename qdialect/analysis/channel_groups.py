"""Which channels of which float values must be transformed together, on any graph.

A positive factor D_k on a channel leaves the function of a model as it was if every op that
meets it hands it on, and a constant at each end takes it up. Inserted at one value as
D * D^-1, the two halves are pushed apart by what ops let pass:

    W2 relu(W1 x + b) = (W2 D^-1) D relu(W1 x + b) = (W2 D^-1) relu(D W1 x + D b)

What ties factors is a system of equations in their logarithms, read from declarations:

    movements               the labels of the operands, along the index map
    order-preserving ops    all tied values have one factor, where 0 and infinities alone are
                            compared with; one factor along what is reduced
    formulas (`degrees`)    of a sum, one factor; of a product, the product of the factors
    linear ops              one factor along the dimensions that they do not keep apart
    contractions            of constant weights: none, w[o, i] takes D_o / D_i and the bias D_o;
                            of two values: D[m, n] = D[m, k] D[k, n]
    composites              what their pieces say
    everything else         the factor 1

A constant takes up any factor that the equations leave to it. Where two runtime values are
multiplied one of the factors is 1: of q k^T, whose result goes through a softmax, one is
the inverse of the other. What is left free is the groups.

Contract: exact in the reals; bit for bit in floats where factors are powers of two and nothing
overflows or becomes subnormal; otherwise each new constant is rounded once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import isfinite

import numpy as np
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from qdialect.algebra.qparams.maps import IndexMap
from qdialect.algebra.ranges import Interval
from qdialect.analysis.channel_labels import Absorber, Labels, Term
from qdialect.analysis.channel_walk import Walk
from qdialect.ir.behaviors import Accumulator, Behavior
from qdialect.ir.behaviors.degrees import Homogeneity, translation
from qdialect.ir.behaviors.shapes import shape_of
from qdialect.ir.context import QContext


@dataclass(frozen=True)
class ChannelGroup:
    """Classes of channels that meet in a value, numbered from 1 to `size`.

    `values` gives the labels of every float value in which they are: +k has the factor D_k,
    -k its inverse, 0 belongs to no class of the group. `absorbers` are all constants that change.
    """

    size: int
    values: Mapping[SSAValue, Labels]
    absorbers: tuple[Absorber, ...]


def find_shifts(function: FuncOp, ctx: QContext) -> list[ChannelGroup]:
    """The groups of `function` to whose channels any numbers may be added, in program order: +k
    has s_k added, -k subtracted. It goes into the
    biases of the op before and, times its weights, of the op behind: not past padding, whose zeros
    do not move, nor past a relu."""
    walk = ShiftWalk(ctx)
    walk.run(function.body.block)
    walk.settle()
    return [group for group, _ in groups_of(walk, function)]


def find_groups(function: FuncOp, ctx: QContext) -> list[ChannelGroup]:
    """The groups of `function` whose channels may have any positive factors, in program order."""
    walk = Walk(ctx)
    walk.run(function.body.block)
    walk.settle()
    return [group for group, _ in groups_of(walk, function)]


Name = Callable[[Labels], Labels]
"""Labels by their number in a group, of labels that stand for classes; 0 of other groups'."""


def groups_of(walk: Walk, function: FuncOp) -> list[tuple[ChannelGroup, Name]]:
    """Classes that meet in a value are one group; and how they are called in it."""
    block = function.body.block
    values = {
        value: walk.classes.roots(labels)
        for value, labels in walk.labels.items()
        if value.owner.parent is block and labels.any()
    }
    leader: dict[int, int] = {}

    def find(root: int) -> int:
        while leader.setdefault(root, root) != root:
            leader[root] = leader[leader[root]]
            root = leader[root]
        return root

    for labels in values.values():
        first, *others = [int(n) for n in np.unique(np.abs(labels)) if n] or [0]
        for other in others:
            leader[find(other)] = find(first)
    members: dict[int, list[int]] = {}
    for root in leader:
        members.setdefault(find(root), []).append(root)
    members.pop(0, None)
    roots = [_renamed(each, walk.classes.roots) for each in walk.absorbers]
    return [_group(sorted(found), values, roots) for found in members.values()]


def _group(
    found: Sequence[int],
    values: Mapping[SSAValue, Labels],
    absorbers: Sequence[Absorber],
) -> tuple[ChannelGroup, Name]:
    numbers = np.array(found, np.int64)

    def own(labels: Labels) -> Labels:
        """By the number in the group; 0 for other classes."""
        places = np.searchsorted(numbers, np.abs(labels)).clip(max=len(numbers) - 1)
        inside = numbers[places] == np.abs(labels)
        return np.where(inside, (places + 1) * np.sign(labels), 0)

    taking = [_renamed(each, own) for each in absorbers]
    taking = [each for each in taking if each.terms or each.through is not None]
    mine = {value: own(labels) for value, labels in values.items()}
    mine = {value: labels for value, labels in mine.items() if labels.any()}
    return ChannelGroup(len(found), mine, tuple(taking)), own


def _renamed(absorber: Absorber, name: Name) -> Absorber:
    """With other labels; without terms of none."""
    terms = [Term(name(term.labels), term.sign) for term in absorber.terms]
    through = None if absorber.through is None else name(absorber.through)
    return Absorber(
        absorber.op,
        absorber.operand,
        tuple(term for term in terms if term.labels.any()),
        through if through is not None and through.any() else None,
        absorber.products,
    )


# What of numbers added to channels every op hands on, takes up or stops.
#
#     W2 (W1 x + b1) + b2 = W2 ((W1 x + b1 + s) ) + (b2 - W2 s)
#
# The walk is that of factors, with sums in place of products: a sum of two values moves by both, a
# mean by what its operand does, a constant that is added takes up the difference, a bias besides
# the weights times what its operand moved by. Padding with numbers, comparing with them and
# multiplying two values let nothing pass.


class ShiftWalk(Walk):
    """Labels k stand for a number s_k that is added, -k for one that is subtracted."""

    #: of results of products without a bias: what they are of, and the labels of the channels
    moved: dict[SSAValue, tuple[Operation, Labels]]

    def __init__(self, ctx: QContext) -> None:
        super().__init__(ctx)
        self.moved = {}

    def results(self, op: Operation, behavior: Behavior) -> Sequence[Labels] | None:
        """Of products, only a constant that is added takes up how they moved."""
        moved = [(n, value) for n, value in enumerate(op.operands) if value in self.moved]
        if len(op.operands) == 2 and len(moved) == 1 and not self.inside:
            number, value = moved[0]
            use, found = self.use_of(op, 1 - number), self.of_formula(op, behavior)
            if use and found == Homogeneity({0: Fraction(1), 1: Fraction(1)}, ()):
                return self._bias(use, value)
        for _, value in moved:
            self.stop(value)
        return super().results(op, behavior)

    def stop(self, value: SSAValue) -> None:
        """Nor may products without a bias move, which nothing takes up."""
        super().stop(value)
        if value in self.moved:
            self.classes.pin(self.moved[value][1])

    def _bias(self, use: tuple[Operation, int], value: SSAValue) -> Sequence[Labels] | None:
        """A constant behind products, with a number for each channel."""
        op, through = self.moved[value]
        behavior = self.ctx.behaviors.get(op)
        assert behavior is not None
        assert behavior.accumulator is not None
        shape, along = shape_of(value), behavior.accumulator.result_axis(op)
        laid = (shape[along], *(1,) * (len(shape) - 1 - along))
        constant = shape_of(use[0].operands[use[1]])
        if shape_of(use[0].results[0]) != shape or len(constant) > len(shape):
            self.classes.pin(through)
            return None
        if constant != laid and constant != (*(1,) * along, *laid):
            self.classes.pin(through)
            return None
        out = self.classes.fresh((shape[along],))
        self.absorbers.append(Absorber(*use, (Term(out.reshape(constant), 1),), through, op))
        return [out.reshape([-1 if d == along else 1 for d in range(len(shape))])]

    def of_formula(self, op: Operation, behavior: Behavior) -> Homogeneity | None:
        """What is read off a formula."""
        return translation(op, behavior)

    def passes_border(self, along: IndexMap) -> bool:
        """Copies move as what they are of; a border does not."""
        return False

    def ordered(self, op: Operation, behavior: Behavior) -> Sequence[Labels] | None:
        """Choices among numbers that all move alike."""
        if behavior.compared_constants and any(map(isfinite, behavior.compared_constants(op))):
            return None
        return super().ordered(op, behavior)

    def linear(self, op: Operation, behavior: Behavior) -> Sequence[Labels] | None:
        """A mean moves as its operand; that is one whose bounds are those of the operand."""
        bounds = Interval(1, 1)
        try:
            mean = behavior.interval is not None and behavior.interval(op, [bounds]) is bounds
        except ValueError:
            mean = False
        return super().linear(op, behavior) if mean else None

    def contraction(
        self, op: Operation, behavior: Behavior, sums: Accumulator
    ) -> Sequence[Labels] | None:
        """The bias takes up both sides, also one that is made for that."""
        weights, rank = self.use_of(op, sums.rhs), len(shape_of(op.results[0]))
        if weights is None or weights[0] is not op:
            return None
        if sums.channels is None or not self.joins_channels(op, sums):
            return None
        if sums.bias is None:
            self.moved[op.results[0]] = op, self.vector(op, sums)
            return [np.zeros((1,) * rank, np.int64)]
        if sums.bias < len(op.operands) and self.use_of(op, sums.bias) is None:
            return None
        if sums.pads is not None and sums.pads(op):
            self.classes.pin(self.of(op.operands[sums.lhs]))
        along = sums.result_axis(op)
        count = shape_of(op.results[0])[along]
        limited = behavior.activation is not None and any(map(isfinite, behavior.activation(op)))
        out = np.zeros(count, np.int64) if limited else self.classes.fresh((count,))
        through = self.vector(op, sums)
        self.absorbers.append(Absorber(op, sums.bias, (Term(out, 1),), through, op))
        return [out.reshape([-1 if d == along else 1 for d in range(rank)])]

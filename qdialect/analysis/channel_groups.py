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

import numpy as np
from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue

from qdialect.analysis.channel_labels import Absorber, Labels, Term
from qdialect.analysis.channel_shifts import ShiftWalk
from qdialect.analysis.channel_walk import Walk
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

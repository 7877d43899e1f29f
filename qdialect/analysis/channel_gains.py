"""Which gains of channels may be 1, because the weights behind them take them up.

    W ((x / |x|) * g) = (W diag(g)) (x / |x|)

A gain is a constant that a product multiplies channels with, each with a number of its own: the
scale of a norm.  The walk is that of factors, through linear ops alone, so that a factor may also
be negative.  A gain g becomes 1 by the factors 1 / g, if the factors of its channels are free and
no other gain's: behind a norm whose result is also added to something else, they are often not.
Contract: as in `channel_groups`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import TYPE_CHECKING

import numpy as np
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from qdialect.analysis.channel_groups import ChannelGroup, groups_of
from qdialect.analysis.channel_labels import Labels, Term, aligned
from qdialect.analysis.channel_walk import Walk
from qdialect.behaviors import Accumulator, Behavior
from qdialect.behaviors.degrees import Homogeneity, homogeneity, product_powers, translation
from qdialect.behaviors.shapes import shape_of
from qdialect.context import QContext
from qdialect.ops import constant_array, constant_of
from qdialect.qparams.maps import IndexMap, Select

if TYPE_CHECKING:
    from numpy.typing import NDArray

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
    """Factors that may be negative."""

    #: constants of one number for each channel that something is multiplied with
    gains: set[Use]

    def __init__(self, ctx: QContext) -> None:
        super().__init__(ctx)
        self.gains = set()

    def results(self, op: Operation, behavior: Behavior) -> Sequence[Labels] | None:
        """What is multiplied with one number keeps its factors, the number too."""
        powers = product_powers(op, behavior) if behavior.elementwise else None
        if powers is None:
            return super().results(op, behavior)
        others = {n for n in powers if self.number(op, n) is None}
        if len(others) == 1 and len(others) < len(powers) and powers[min(others)] == 1:
            return [aligned(self.of(op.operands[min(others)]), len(shape_of(op.results[0])))]
        found = (self.use_of(op, n) for n in powers)
        self.gains.update(use for use in found if use is not None)
        return super().results(op, behavior)

    def of_formula(self, op: Operation, behavior: Behavior) -> Homogeneity | None:
        """Sums and products."""
        moved = translation(op, behavior)
        is_sum = moved is not None and not moved.conditions
        return homogeneity(op, behavior) if is_sum or product_powers(op, behavior) else None


def find_gains(function: FuncOp, ctx: QContext) -> Gains:
    """The gains of `function`."""
    walk = _GainWalk(ctx)
    walk.run(function.body.block)
    walk.settle()
    groups = [group for group, _ in groups_of(walk, function)]
    roots = walk.classes.roots
    terms = Counter(
        (each.op, each.operand)
        for each in walk.absorbers
        for term in each.terms
        if roots(term.labels).any()
    )
    free: dict[Use, Gain] = {}
    refused: dict[Use, str] = dict.fromkeys(walk.gains, "what takes its result takes up no factors")
    for group in groups:
        taken = np.zeros(group.size + 1, np.bool_)
        for absorber in group.absorbers:
            use = absorber.op, absorber.operand
            if use not in walk.gains:
                continue
            (term, *others) = absorber.terms
            numbers = _numbers(use[0].operands[use[1]], term, ctx)
            if others or terms[use] > 1:
                refused[use] = "what is multiplied with it has factors too"
            elif numbers is None:
                refused[use] = "it has a zero, or not a factor for each number"
            elif taken[np.abs(term.labels)].any():
                refused[use] = "another gain has the same factors"
            else:
                taken[np.abs(term.labels)] = True
                factors = np.ones(group.size + 1)
                powers = -term.sign * np.sign(term.labels)
                factors[np.abs(term.labels)] = np.where(powers > 0, numbers, 1 / numbers)
                free[use] = Gain(group, factors[1:])
                refused.pop(use)
    return Gains(free, refused)


def _numbers(value: SSAValue, term: Term, ctx: QContext) -> NDArray[np.float64] | None:
    """The numbers of a constant by label; None unless each label has one, none of them 0."""
    constant = constant_of(value)
    assert constant is not None
    array = constant_array(constant, ctx.blobs).astype(np.float64)
    labels = np.abs(term.labels)
    try:
        where = np.broadcast_to(labels, np.broadcast_shapes(labels.shape, array.shape))
    except ValueError:
        return None
    if where.size != array.size or len(np.unique(labels)) < labels.size or not labels.all():
        return None
    array = array.reshape(where.shape)
    first = np.zeros(int(labels.max()) + 1)
    first[where.reshape(-1)[::-1]] = array.reshape(-1)[::-1]
    fits = np.isfinite(array).all() and (array == first[where]).all() and (array != 0).all()
    return first[labels] if fits else None

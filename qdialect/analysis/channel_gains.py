"""Which gains of channels may be 1, because the weights behind them take them up.

    W ((x / |x|) * g) = (W diag(g)) (x / |x|)

A gain is a constant that a product multiplies channels with, each with a number of its own: the
scale of a norm.  The walk is that of factors, from gains on, through linear ops alone, so that a
factor may also be negative.  A gain g becomes 1 by the factors 1 / g, if the factors of its
channels are free and no other gain's: where the result of a norm goes to the next norm, they are
not.
Contract: as in `channel_groups`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite, prod
from typing import TYPE_CHECKING

import numpy as np
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from qdialect.algebra.qparams.maps import IndexMap, Select
from qdialect.analysis.channel_groups import ChannelGroup, groups_of
from qdialect.analysis.channel_labels import LARGEST, Labels, Term, aligned
from qdialect.analysis.channel_walk import Walk
from qdialect.ir.behaviors import Accumulator, Behavior
from qdialect.ir.behaviors.degrees import Homogeneity, homogeneity, product_powers, translation
from qdialect.ir.behaviors.shapes import shape_of
from qdialect.ir.context import QContext
from qdialect.ir.ops import constant_array, constant_of

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

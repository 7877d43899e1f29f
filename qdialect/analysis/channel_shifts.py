"""What of numbers added to channels every op hands on, takes up or stops.

    W2 (W1 x + b1) + b2 = W2 ((W1 x + b1 + s) ) + (b2 - W2 s)

The walk is that of factors, with sums in place of products: a sum of two values moves by both, a
mean by what its operand does, a constant that is added takes up the difference, a bias besides
the weights times what its operand moved by. Padding with numbers, comparing with them and
multiplying two values let nothing pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import isfinite

import numpy as np
from xdsl.ir import Operation, SSAValue

from qdialect.algebra.qparams.maps import IndexMap
from qdialect.algebra.ranges import Interval
from qdialect.analysis.channel_labels import Absorber, Labels, Term
from qdialect.analysis.channel_walk import Walk
from qdialect.ir.behaviors import Accumulator, Behavior
from qdialect.ir.behaviors.degrees import Homogeneity, translation
from qdialect.ir.behaviors.shapes import shape_of
from qdialect.ir.context import QContext


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

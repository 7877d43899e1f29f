"""What of scaled channels every op hands on, takes up or stops, along a function.

Read from declarations; see `channel_groups` for the equations. The walk meets the ops once, in
order: results get labels of operands or new ones, constants take up what is left to them, and
products of two runtime values are settled at the end, when it is known which factors are 1.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import isfinite, prod

import numpy as np
from xdsl.dialects.builtin import AnyFloat, TensorType
from xdsl.ir import Block, Operation, SSAValue

from qdialect.algebra.qparams.maps import IndexMap
from qdialect.analysis.channel_labels import (
    LARGEST,
    Absorber,
    Classes,
    Labels,
    Term,
    aligned,
    carried,
)
from qdialect.ir.behaviors import Accumulator, Behavior, PortKind
from qdialect.ir.behaviors.degrees import Homogeneity, Powers, homogeneity, solved_for, substituted
from qdialect.ir.behaviors.flow import tied_operands
from qdialect.ir.behaviors.shapes import DYNAMIC, shape_of
from qdialect.ir.context import QContext
from qdialect.ir.ops import constant_of
from qdialect.ir.ops.components import NoPiecesError, Pieces, built
from qdialect.ir.quant import element_type

_SHARED = 4096
"""A constant of more elements that several ops use is not copied for each."""


@dataclass
class Walk:
    """Labels of values as they are met, and what constants take up."""

    ctx: QContext
    classes: Classes = field(default_factory=Classes)
    labels: dict[SSAValue, Labels] = field(default_factory=dict[SSAValue, Labels])
    absorbers: list[Absorber] = field(default_factory=list[Absorber])
    #: labels y, a, b with D_y = D_a D_b
    products: list[tuple[Labels, Labels, Labels]] = field(
        default_factory=list[tuple[Labels, Labels, Labels]]
    )
    #: inside a composite, the operand of the op of the model that an argument stands for
    uses: dict[SSAValue, tuple[Operation, int]] = field(
        default_factory=dict[SSAValue, tuple[Operation, int]]
    )
    inside: bool = False

    # -- values --------------------------------------------------------------------

    def run(self, block: Block) -> None:
        """The ops of a block, in order."""
        for op in block.ops:
            if constant_of_result(op) is None:
                self._visit(op)

    def of(self, value: SSAValue) -> Labels:
        """The labels of a value; 1 throughout of one that has none."""
        found = self.labels.get(value)
        return np.zeros((1,) * len(shape_of(value)), np.int64) if found is None else found

    def use_of(self, op: Operation, number: int) -> tuple[Operation, int] | None:
        """The constant operand of the model that this is; None for a value, and for a
        constant that only the pieces of a composite have."""
        value = op.operands[number]
        if value in self.uses:
            outer = self.uses[value]
            return outer if constant_of(outer[0].operands[outer[1]]) else None
        return (op, number) if not self.inside and constant_of(value) else None

    def absorb(self, use: tuple[Operation, int], *terms: tuple[Labels, int]) -> None:
        """A constant takes up these factors."""
        self.absorbers.append(Absorber(*use, tuple(Term(*term) for term in terms)))

    def stop(self, value: SSAValue) -> None:
        """Nothing is known of an op that takes this value: it stays as it is."""
        if value in self.labels:
            self.classes.pin(self.labels[value])

    # -- ops -----------------------------------------------------------------------

    def _visit(self, op: Operation) -> None:
        behavior = self.ctx.behaviors.get(op)
        made = None
        if behavior is not None and _computes_floats(op, behavior):
            made = self.results(op, behavior)
        if made is None:
            for value in op.operands:
                self.stop(value)
            return
        self.labels.update(zip(op.results, made, strict=True))

    def results(self, op: Operation, behavior: Behavior) -> Sequence[Labels] | None:
        """The labels of the results; None where nothing is known."""
        if behavior.movement is not None:
            return self.movement(op, behavior)
        if behavior.order_preserving:
            return self.ordered(op, behavior)
        if behavior.accumulator is not None:
            return self.contraction(op, behavior, behavior.accumulator)
        if behavior.linear:
            return self.linear(op, behavior)
        if behavior.elementwise or behavior.affine_along is not None:
            vectors = behavior.affine_along is not None
            if vectors and not all(self.use_of(op, n) for n in range(1, len(op.operands))):
                return None
            found = self.of_formula(op, behavior)
            return None if found is None else self._formula(op, behavior, found)
        return self._composite(op)

    def movement(self, op: Operation, behavior: Behavior) -> Sequence[Labels] | None:
        """Copies have the labels of what they are of."""
        maps = behavior.maps(op)
        if not all(self.passes_border(each) for each in maps if each.has_border):
            return None
        tied = tied_operands(op, behavior)
        operands: list[Labels] = []
        for number in tied:
            use = self.use_of(op, number)
            shape = shape_of(op.operands[number])
            if use is None:
                operands.append(self.of(op.operands[number]))
                continue
            # Of a table whose rows are picked, columns are the channels.
            extents = shape if len(tied) > 1 else (*(1,) * (len(shape) - 1), *shape[-1:])
            extents = extents if prod(extents) <= LARGEST else (1,) * len(shape)
            operands.append(self.classes.fresh(extents))
            self.absorb(use, (operands[-1], 1))
        shapes = [shape_of(op.operands[number]) for number in tied]
        return [carried(each, operands, shapes, self.classes) for each in maps]

    def passes_border(self, along: IndexMap) -> bool:
        """Whether what a movement fills in is what it was, however channels change: 0 and
        infinities are, times any factor."""
        return not (along.border_value and isfinite(along.border_value))

    def ordered(self, op: Operation, behavior: Behavior) -> Sequence[Labels] | None:
        """Choices among numbers of one factor, where 0 alone is compared with."""
        assert behavior.compared_constants is not None or behavior.choose or behavior.select
        compared = behavior.compared_constants(op) if behavior.compared_constants else ()
        if any(isfinite(number) and number for number in compared):
            return None
        if behavior.select is not None:
            return self.kept(op, behavior, self.of(op.operands[0]))
        same = Homogeneity(
            {0: Fraction(1)},
            tuple({0: Fraction(1), n: Fraction(-1)} for n in range(1, len(op.operands))),
        )
        return self._formula(op, behavior, same)

    def kept(self, op: Operation, behavior: Behavior, labels: Labels) -> Sequence[Labels] | None:
        """One factor along the dimensions that the op does not keep apart."""
        axes = behavior.operand_port(0).axes
        shape, result = shape_of(op.operands[0]), shape_of(op.results[0])
        kept = range(len(shape)) if axes is None else sorted(axes(op))
        others = [d for d in range(len(shape)) if d not in kept]
        labels = self.classes.along(labels, others)
        if len(result) == len(shape):
            return [labels]
        if len(result) != len(kept):
            return None
        return [labels.reshape([labels.shape[d] for d in kept])]

    def linear(self, op: Operation, behavior: Behavior) -> Sequence[Labels] | None:
        """A linear function of the operand."""
        return self.kept(op, behavior, self.of(op.operands[0]))

    # -- formulas ------------------------------------------------------------------

    def of_formula(self, op: Operation, behavior: Behavior) -> Homogeneity | None:
        """What is read off a formula."""
        return homogeneity(op, behavior)

    def _formula(
        self, op: Operation, behavior: Behavior, found: Homogeneity
    ) -> Sequence[Labels] | None:
        """Constants take up what ties them; what is left ties values."""
        rank = len(shape_of(op.results[0]))
        uses = {n: self.use_of(op, n) for n in range(len(op.operands))}
        constants = [n for n, use in uses.items() if use is not None]
        solved, rest = solved_for(found.conditions, constants)
        result = substituted(found.result, solved)
        if any(abs(p) != 1 for powers in (result, *solved.values()) for p in powers.values()):
            return None
        arrays = {n: aligned(self.of(op.operands[n]), rank) for n in uses}
        for condition in rest:
            self._tie(condition, arrays)
        y = self._power({n: p for n, p in result.items() if uses[n] is None}, arrays, rank)
        # One constant that nothing ties takes up the factor between operand and result.
        taken: dict[int, list[tuple[Labels, int]]] = {}
        free = next((n for n in constants if result.get(n)), None)
        made = None if free is None else self._fresh_beside(y, _along(op, behavior, free, rank))
        if free is not None and made is not None:
            sign = int(result[free])
            taken[free] = [(made, sign), (y, -sign)]
            y = made
        for n, powers in solved.items():
            taken[n] = []
            for m, power in powers.items():
                parts = [(arrays[m], 1)] if uses[m] is None else taken.get(m, [])
                taken[n] += [(labels, sign * int(power)) for labels, sign in parts]
        for n, terms in taken.items():
            use = uses[n]
            if terms and use is not None:
                self.absorb(use, *self._laid(op.operands[n], behavior, terms))
        return [y]

    def _tie(self, condition: Powers, arrays: Mapping[int, Labels]) -> None:
        terms = [(arrays[n], power) for n, power in condition.items()]
        if len(terms) == 2 and abs(terms[0][1]) == abs(terms[1][1]):
            self.classes.unite(terms[0][0], terms[1][0] * -int(terms[0][1] / terms[1][1]))
        else:
            for labels, _ in terms:
                self.classes.pin(labels)

    def _power(self, powers: Powers, arrays: Mapping[int, Labels], rank: int) -> Labels:
        terms = [arrays[n] * int(power) for n, power in powers.items()]
        result = np.zeros((1,) * rank, np.int64)
        for labels in terms:
            result = self._product(result, labels)
        return result

    def _product(self, a: Labels, b: Labels) -> Labels:
        if not a.any():
            return b
        if not b.any():
            return a
        shape = np.broadcast_shapes(a.shape, b.shape)
        if prod(shape) > LARGEST:
            self.classes.pin(b)
            return a
        y = self.classes.fresh(shape)
        self.products.append((y, a, b))
        return y

    def _fresh_beside(self, x: Labels, shape: Sequence[int]) -> Labels | None:
        """New labels of the product of values of labels x and a constant of this shape; None
        where the constant cannot tell the channels of x apart."""
        if any(n > 1 and m != n for n, m in zip(x.shape, shape, strict=True)):
            return None
        extents = [n if n > 1 else 1 for n in x.shape] if x.size > 1 else list(shape)
        if prod(extents) == 1 or prod(extents) > LARGEST:
            return None
        return self.classes.fresh(extents)

    def _laid(
        self, constant: SSAValue, behavior: Behavior, terms: Sequence[tuple[Labels, int]]
    ) -> Iterator[tuple[Labels, int]]:
        """Terms, of the rank of the result, as they lie on a constant."""
        shape, vector = shape_of(constant), behavior.affine_along
        for labels, sign in terms:
            if vector is not None:
                others = [d for d in range(labels.ndim) if d != vector]
                yield self.classes.along(labels, others).reshape(-1), sign
                continue
            labels = self.classes.along(labels, _not_grown(labels, shape))
            extra = labels.ndim - len(shape)
            plain = max(labels.shape[:extra], default=1) == 1
            yield labels.reshape(labels.shape[extra:]) if plain else labels, sign

    # -- contractions --------------------------------------------------------------

    def contraction(
        self, op: Operation, behavior: Behavior, sums: Accumulator
    ) -> Sequence[Labels] | None:
        """Constant weights take up the factors of both sides."""
        if behavior.activation is not None and any(
            isfinite(bound) and bound for bound in behavior.activation(op)
        ):
            return None
        weights = self.use_of(op, sums.rhs)
        if weights is None:
            return self.matrices(op, sums)
        if sums.channels is None or not self.joins_channels(op, sums):
            return None
        vector, out = self.vector(op, sums), self.fresh_channels(op, sums)
        inner, outer = sums.channels(op)
        self.absorb(weights, (out[outer], 1), (vector[inner], -1))
        return [self.with_bias(op, sums, out)]

    def fresh_channels(self, op: Operation, sums: Accumulator) -> Labels:
        """New labels of the channels of the result of weights, or those of a bias that is a
        value."""
        count = shape_of(op.results[0])[sums.result_axis(op)]
        bias = sums.bias
        if bias is None or bias >= len(op.operands) or self.use_of(op, bias):
            return self.classes.fresh((count,))
        return np.broadcast_to(self.of(op.operands[bias]), (count,))

    def with_bias(self, op: Operation, sums: Accumulator, out: Labels) -> Labels:
        """The labels of the result, of its channels; a constant bias takes them up."""
        bias = sums.bias
        use = None if bias is None or bias >= len(op.operands) else self.use_of(op, bias)
        if use is not None:
            self.absorb(use, (out, 1))
        rank, axis = len(shape_of(op.results[0])), sums.result_axis(op)
        return out.reshape([-1 if d == axis else 1 for d in range(rank)])

    def joins_channels(self, op: Operation, sums: Accumulator) -> bool:
        """Whether weights join channels of known number, of a value and of the result."""
        if len(shape_of(op.operands[sums.rhs])) < 2 or self.use_of(op, sums.lhs) is not None:
            return False
        before = shape_of(op.operands[sums.lhs])[sums.lhs_axis(op)]
        return DYNAMIC not in (before, shape_of(op.results[0])[sums.result_axis(op)])

    def vector(self, op: Operation, sums: Accumulator) -> Labels:
        """The labels of the channels that weights meet; one along other dimensions."""
        x, axis = self.of(op.operands[sums.lhs]), sums.lhs_axis(op)
        vector = self.classes.along(x, [d for d in range(x.ndim) if d != axis]).reshape(-1)
        return np.broadcast_to(vector, (shape_of(op.operands[sums.lhs])[axis],))

    def _are_values(self, op: Operation) -> bool:
        """Two matrices or stacks of them, neither a constant."""
        if any(len(shape_of(operand)) < 2 for operand in op.operands):
            return False
        return not any(constant_of(v) or self.use_of(op, n) for n, v in enumerate(op.operands))

    def matrices(self, op: Operation, sums: Accumulator) -> Sequence[Labels] | None:
        """Of two values, D[m, n] = D[m, k] D[k, n] for each k."""
        if not sums.matrices or not self._are_values(op):
            return None
        rank = len(shape_of(op.results[0]))
        a, b = (aligned(self.of(op.operands[n]), rank) for n in (sums.lhs, 1))
        batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        if prod(batch) * prod(a.shape[-2:]) * b.shape[-1] > LARGEST:
            return None
        if not a.any() and not b.any():
            return [np.zeros((1,) * rank, np.int64)]
        y = self.classes.fresh((*batch, a.shape[-2], b.shape[-1]))
        self.products.append((y[..., :, None, :], a[..., :, :, None], b[..., None, :, :]))
        return [y]

    # -- composites ----------------------------------------------------------------

    def _composite(self, op: Operation) -> Sequence[Labels] | None:
        """What the pieces of a composite say, written in a block of their own."""
        components = self.ctx.components.get(op.name)
        if components is None:
            return None
        block = Block(arg_types=[operand.type for operand in op.operands])
        probe = op.clone(dict(zip(op.operands, block.args, strict=False)))
        probe.operands = block.args
        block.add_op(probe)
        try:
            finals = built(
                components.build,
                probe,
                Pieces(probe, self.ctx.blobs, {}, self.ctx.target.most_pieces),
            )
        except NoPiecesError:
            return None
        if finals is None:
            return None
        for n, argument in enumerate(block.args):
            self.labels[argument] = self.of(op.operands[n])
            if op.operands[n] in self.uses:
                self.uses[argument] = self.uses[op.operands[n]]
            elif not self.inside:
                self.uses[argument] = (op, n)
        probe.detach()
        outside, self.inside = self.inside, True
        self.run(block)
        self.inside = outside
        return [self.of(final) for final in finals]

    # -- the end -------------------------------------------------------------------

    def settle(self) -> None:
        """Bind what constants and products leave open."""
        self._tie_shared()
        open_products = self.products
        while open_products:
            left = [each for each in open_products if not self._settled(*each)]
            if len(left) == len(open_products):
                # Any choice keeps the function: what has fewest classes gets the factor 1.
                y, a, b = (self.classes.roots(each) for each in left[0])
                self.classes.pin(min((b, a, y), key=lambda labels: len(np.unique(np.abs(labels)))))
            open_products = left

    def _settled(self, y: Labels, a: Labels, b: Labels) -> bool:
        """Whether every equation became one between two labels."""
        ry, ra, rb = np.broadcast_arrays(*(self.classes.roots(each) for each in (y, a, b)))
        for known, one, other in ((rb, ry, ra), (ra, ry, rb), (ry, ra, -rb)):
            places = known == 0
            if places.any():
                self.classes.unite(one[places], other[places])
        return bool(((ry == 0) | (ra == 0) | (rb == 0)).all())

    def _tie_shared(self) -> None:
        """Large constants of several uses keep one value: all uses take up the same."""
        by_value: dict[SSAValue, list[Absorber]] = {}
        for each in self.absorbers:
            if each.operand == len(each.op.operands):
                continue
            value = each.op.operands[each.operand]
            if prod(shape_of(value)) > _SHARED and len(list(value.uses)) > 1:
                by_value.setdefault(value, []).append(each)
        for value, found in by_value.items():
            first = found[0]
            forms = {tuple((t.labels.shape, t.sign) for t in each.terms) for each in found}
            if len(forms) > 1 or len(found) < len(list(value.uses)):
                for each in found:
                    for term in each.terms:
                        self.classes.pin(term.labels)
                continue
            for each in found[1:]:
                for term, other in zip(first.terms, each.terms, strict=True):
                    self.classes.unite(term.labels, other.labels)


def constant_of_result(op: Operation) -> Operation | None:
    """The op, if it is a constant."""
    return constant_of(op.results[0]) if op.results else None


def _along(op: Operation, behavior: Behavior, n: int, rank: int) -> Sequence[int]:
    shape = shape_of(op.operands[n])
    if behavior.affine_along is not None:
        return [shape[0] if d == behavior.affine_along else 1 for d in range(rank)]
    return (*(1,) * (rank - len(shape)), *shape)


def _not_grown(labels: Labels, shape: Sequence[int]) -> list[int]:
    """Dimensions along which a constant would become too large."""
    full = (*(1,) * (labels.ndim - len(shape)), *shape)
    extents = list(zip(labels.shape, full, strict=True))
    if prod(max(pair) for pair in extents) <= max(prod(shape), LARGEST):
        return []
    return [d for d, (n, m) in enumerate(extents) if n > m]


def _is_float(value: SSAValue) -> bool:
    """Whether a value is a tensor of floats that has a rank and elements."""
    element = element_type(value.type)
    ranked = isinstance(value.type, TensorType)
    return ranked and isinstance(element, AnyFloat) and 0 not in shape_of(value)


def _computes_floats(op: Operation, behavior: Behavior) -> bool:
    plain = PortKind.PLAIN
    numbers = [v for n, v in enumerate(op.operands) if behavior.operand_port(n).kind is not plain]
    return all(_is_float(value) for value in (*numbers, *op.results))

"""Put channels there twice: constants take it up, values get larger, the function stays.

    %w = nn.constant dense<[[1.0], [4.0]]>             channel 1 of %h, of two
    %v = nn.constant dense<[[1.0, 6.0]]>
    %h = nn.relu (nn.fully_connected %x, %w)           : tensor<8x2xf32>
    %y = nn.fully_connected %h, %v

becomes

    %w = nn.constant dense<[[1.0], [4.0], [4.0]]>
    %v = nn.constant dense<[[1.0, 3.0, 3.0]]>
    %h = nn.relu (nn.fully_connected %x, %w)           : tensor<8x3xf32>
    %y = nn.fully_connected %h, %v

An op is written anew with one property changed, where that says the number of channels (the groups
of a depthwise convolution, the extents of a reshape): what its verifier takes, and what its
declaration says of copies and weights, decide whether it means the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from qdialect.analysis.channel_groups import ChannelGroup
from qdialect.analysis.channel_labels import Labels, pulled_labels
from qdialect.analysis.channel_permutations import one_to_one
from qdialect.ir.behaviors.flow import tied_operands
from qdialect.ir.behaviors.shapes import Shape, shape_of
from qdialect.ir.context import QContext
from qdialect.ir.ops.base import ranked, to_attribute, to_python
from qdialect.ir.quant import element_type
from qdialect.quantizer.float_rewrites.apply import constant_numbers, replace_constants
from qdialect.quantizer.values import users

Array = NDArray[np.float64]
Split = tuple[ChannelGroup, Sequence[int]]
"""A group of `find_splittable`, and those of its classes that will be there twice."""
Use = tuple[Operation, int]


def split_channels(changes: Iterable[Split], ctx: QContext) -> int:
    """Put channels of groups there twice; how many constants changed.

    ValueError, and nothing changes, where an op cannot be written for more channels.
    """
    changes = list(changes)
    planned = [_Plan.of(group, chosen) for group, chosen in changes]
    properties: dict[Operation, Mapping[str, Attribute]] = {}
    for plan in planned:
        properties.update(plan.properties(ctx))
    arrays: dict[Use, Array] = {}
    for group, chosen in changes:
        for use, terms in _terms(group).items():
            array = arrays.get(use)
            if array is None:
                array = constant_numbers(use, ctx).astype(np.float64)
            for labels, sign in terms:
                array = _copied(array, labels, chosen, 0.5 if sign < 0 else 1.0)
            arrays[use] = array
    replace_constants(arrays, ctx)
    for op, changed in properties.items():
        op.properties.update(changed)
    for plan in planned:
        for value, shape in plan.shapes.items():
            value._type = ranked(element_type(value.type), shape)  # pyright: ignore[reportPrivateUsage]
    return len(arrays)


def split_refusal(group: ChannelGroup, chosen: Sequence[int], ctx: QContext) -> str | None:
    """Why classes of a group cannot be there twice; None: they can."""
    try:
        _Plan.of(group, chosen).properties(ctx)
    except ValueError as error:
        return str(error)
    return None


def _terms(group: ChannelGroup) -> Mapping[Use, Sequence[tuple[Labels, int]]]:
    """The labels on each constant of a group, and whether it reads channels (-1) or makes them."""
    found: dict[Use, list[tuple[Labels, int]]] = {}
    for absorber in group.absorbers:
        terms = found.setdefault((absorber.op, absorber.operand), [])
        terms += [(term.labels, term.sign) for term in absorber.terms]
    return found


def _dim(labels: Labels) -> int | None:
    return next((d for d, n in enumerate(labels.shape) if n > 1), None)


def _counts(labels: Labels, chosen: Sequence[int]) -> NDArray[np.int64]:
    return 1 + np.isin(np.abs(labels.reshape(-1)), chosen).astype(np.int64)


def _copied(array: Array, labels: Labels, chosen: Sequence[int], part: float) -> Array:
    """An array on which labels lie, with copies beside what they are of, each times `part`."""
    dim = _dim(labels)
    if dim is None:
        return array
    counts, along = _counts(labels, chosen), dim - labels.ndim
    parts = np.repeat(np.where(counts > 1, part, 1.0), counts)
    shape = [len(parts) if d == dim else 1 for d in range(labels.ndim)]
    return np.repeat(array, counts, axis=along) * parts.reshape(shape)


@dataclass
class _Plan:
    """What values of a group will be: shapes, and labels by which copies are told."""

    group: ChannelGroup
    chosen: Sequence[int]
    shapes: dict[SSAValue, Shape] = field(default_factory=dict[SSAValue, Shape])
    labels: dict[SSAValue, Labels] = field(default_factory=dict[SSAValue, Labels])
    #: what lies on constants, as it was
    terms: Mapping[Use, Sequence[tuple[Labels, int]]] = field(
        default_factory=dict[Use, "Sequence[tuple[Labels, int]]"]
    )

    @staticmethod
    def of(group: ChannelGroup, chosen: Sequence[int]) -> _Plan:
        """That of a group whose chosen classes will be there twice."""
        plan = _Plan(group, chosen, terms=_terms(group))
        for value, labels in group.values.items():
            plan.labels[value] = plan._grown(labels)
            plan.shapes[value] = plan._shape(shape_of(value), labels)
        return plan

    def properties(self, ctx: QContext) -> Mapping[Operation, Mapping[str, Attribute]]:
        """The properties that change, of each op that has some. ValueError where an op cannot be
        written, with the reason."""
        ops: dict[Operation, None] = {}
        for value in self.group.values:
            ops.update(dict.fromkeys(users(value)))
            if isinstance(value.owner, Operation):
                ops[value.owner] = None
        found: dict[Operation, Mapping[str, Attribute]] = {}
        for op in ops:
            changed = self._written(op, ctx)
            if changed:
                found[op] = changed
        return found

    def _grown(self, labels: Labels) -> Labels:
        dim = _dim(labels)
        return labels if dim is None else np.repeat(labels, _counts(labels, self.chosen), axis=dim)

    def _shape(self, shape: Shape, labels: Labels) -> Shape:
        """A shape on which labels lie, which may have fewer dimensions."""
        dim, grown = _dim(labels), self._grown(labels)
        if dim is None:
            return shape
        at = dim - labels.ndim + len(shape)
        return tuple(grown.shape[dim] if d == at else n for d, n in enumerate(shape))

    def _written(self, op: Operation, ctx: QContext) -> Mapping[str, Attribute]:
        """The properties with which an op means the same; ValueError if there are none."""
        reason = ""
        for changed in self._candidates(op):
            probe = self._probe(op, changed)
            try:
                probe.verify()
            except VerifyException as error:
                reason = reason or str(error)
                continue
            if self._means_the_same(op, probe, ctx):
                return changed
            reason = reason or f"'{op.name}' would not join the same channels"
        raise ValueError(reason)

    def _candidates(self, op: Operation) -> Iterator[Mapping[str, Attribute]]:
        """None changed, then one number that is the extent of a value."""
        yield {}
        pairs = {
            (old, new)
            for value in (*op.operands, *op.results)
            if value in self.shapes
            for old, new in zip(shape_of(value), self.shapes[value], strict=True)
            if old != new
        }
        for name, attribute in op.properties.items():
            number = to_python(attribute)
            for old, new in sorted(pairs):
                if isinstance(number, tuple):
                    listed = cast("tuple[Any, ...]", number)
                    for place in (p for p, each in enumerate(listed) if each == old):
                        changed = (*listed[:place], new, *listed[place + 1 :])
                        yield {name: to_attribute(changed)}
                elif isinstance(attribute, IntegerAttr) and number == old:
                    yield {name: to_attribute(new)}

    def _probe(self, op: Operation, changed: Mapping[str, Attribute]) -> Operation:
        """The op of values of the new shapes, in a block of its own."""

        def kind(value: SSAValue, shape: Shape) -> Attribute:
            return (
                value.type if shape == shape_of(value) else ranked(element_type(value.type), shape)
            )

        operands = [self._operand(op, n) for n in range(len(op.operands))]
        block = Block(
            arg_types=[kind(v, s) for v, (s, _) in zip(op.operands, operands, strict=True)]
        )
        probe = type(op).create(
            operands=block.args,
            result_types=[kind(value, self._of(value)[0]) for value in op.results],
            properties={**op.properties, **changed},
            attributes=op.attributes,
        )
        block.add_op(probe)
        return probe

    def _of(self, value: SSAValue) -> tuple[Shape, Labels]:
        shape = shape_of(value)
        none = np.zeros((1,) * len(shape), np.int64)
        return self.shapes.get(value, shape), self.labels.get(value, none)

    def _operand(self, op: Operation, number: int) -> tuple[Shape, Labels]:
        """Those of an operand, which may be a constant."""
        shape, labels = self._of(op.operands[number])
        for old, _ in self.terms.get((op, number), []):
            shape, labels = self._shape(shape, old), self._grown(old)
        return shape, labels

    def _means_the_same(self, op: Operation, probe: Operation, ctx: QContext) -> bool:
        """Whether an op of larger values gives copies of what it gave, where its declaration says
        from which elements each of the result is."""
        behavior = ctx.behaviors.get(op)
        if behavior is None:
            return False
        results = [self._of(value)[1] for value in op.results]
        if behavior.movement is not None:
            tied = tied_operands(op, behavior)
            labels = [self._operand(op, n)[1] for n in tied]
            shapes = [shape_of(probe.operands[n]) for n in tied]
            made = [pulled_labels(each, labels, shapes) for each in behavior.maps(probe)]
            return all(
                got is not None and _same(got, expected)
                for got, expected in zip(made, results, strict=True)
            )
        sums = behavior.accumulator
        if sums is None or sums.channels is None:
            return True
        inner, outer = sums.channels(probe)
        read = _vector(
            self._of(op.operands[sums.lhs])[1], sums.lhs_axis(op), probe.operands[sums.lhs]
        )
        made_of = _vector(results[0], sums.result_axis(op), probe.results[0])
        terms = self.terms.get((op, sums.rhs), [])
        lies = {sign: self._grown(labels) for labels, sign in terms}
        nothing = np.zeros((1,) * inner.ndim, np.int64)
        on_rows = lies.get(1, nothing)
        on_columns = on_rows if one_to_one(inner, outer) else lies.get(-1, nothing)
        return _same(made_of[outer], on_rows) and _same(read[inner], on_columns)


def _vector(labels: Labels, axis: int, value: SSAValue) -> Labels:
    """The label of each channel along a dimension."""
    return np.broadcast_to(
        labels.reshape(-1) if labels.shape[axis] > 1 else labels.flat[0], (shape_of(value)[axis],)
    )


def _same(a: Labels, b: Labels) -> bool:
    return bool((np.equal(*np.broadcast_arrays(a, b))).all())

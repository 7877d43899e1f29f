"""What the rounding of a group of channels costs, as terms of their factors.

Of a group (`analysis.channel_groups`), these are rounded:

    a value that ops compute with    to one grid; what that costs in channel c is the noise over
                                     signal of the results of its users, by their declarations
    the weights of a contraction     row by row (or block by block, or all on one grid), what is
                                     multiplied with them having the inverse factors

Weights by row do not care by how much their rows are multiplied: rows scale along.  A value that
goes to nothing but movements and order-preserving ops is rounded behind them.  Noise counts over
the power of the result of the op that it meets first, times the importance of that result: what
noise in it is in the outputs (`importance`), or 1 where nobody measured that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import TYPE_CHECKING

import numpy as np
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Operation, SSAValue

from qdialect.algebra.channel_transforms import RoundedRows, RoundedValue, Term, total_loss
from qdialect.algebra.qparams import Storage
from qdialect.analysis.channel_groups import ChannelGroup
from qdialect.ir.behaviors import Accumulator
from qdialect.ir.context import QContext
from qdialect.ir.ops import shape_of
from qdialect.quantizer.block_formats import block_format
from qdialect.quantizer.blocks import block_size
from qdialect.quantizer.float_rewrites.statistics import Channels
from qdialect.quantizer.recipe import Recipe
from qdialect.quantizer.values import real_array, users

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]
    Labels = NDArray[np.int64]

_LEAST = 1e-30


def _none() -> dict[tuple[Operation, int], Array]:
    return {}


@dataclass(frozen=True)
class Costs:
    """Makes terms of groups of one function, of which this is `known`.

    As it would be after a change: `known` and `weights` (of those constant operands that change)
    are then what they would be, and noise counts over the power of `signal`, which is what is
    known of the function as it is. `importance` of results that are not in it is 1.
    """

    ctx: QContext
    known: Mapping[SSAValue, Channels]
    recipe: Recipe
    weights: Mapping[tuple[Operation, int], Array] = field(default_factory=_none)
    signal: Mapping[SSAValue, Channels] | None = None
    importance: Mapping[SSAValue, float] = field(default_factory=dict[SSAValue, float])

    def afterwards(
        self,
        known: Mapping[SSAValue, Channels],
        weights: Mapping[tuple[Operation, int], Array] | None = None,
    ) -> Costs:
        """As it would be after a change, with this `known` and these weights."""
        return replace(self, known=known, weights=weights or {}, signal=self.known)

    def of_all(self) -> float:
        """The loss of all that is known, as it is."""
        return self._of_each(self.of_labels)

    def of_all_values(self) -> float:
        """The part of `of_all` that rounding values costs; weights cost the rest."""

        def of_one(value: SSAValue, labels: Labels) -> list[Term]:
            term = self.of_value(value, labels)
            return [] if term is None else [term]

        return self._of_each(of_one)

    def _of_each(self, terms: Callable[[SSAValue, Labels], Sequence[Term]]) -> float:
        """What these terms of all that is known cost, with a label for each channel."""
        found = 0.0
        for value, channels in self.known.items():
            labels = np.arange(1, channels.low.size + 1).reshape(channels.low.shape)
            found += total_loss(terms(value, labels), np.zeros(labels.size + 1))[0]
        return found

    def of_group(self, group: ChannelGroup) -> list[Term]:
        """The terms of a group; class 0 is what has the factor 1."""
        each = (self.of_labels(value, labels) for value, labels in group.values.items())
        return [term for terms in each for term in terms]

    def of_labels(self, value: SSAValue, labels: Labels) -> list[Term]:
        """The terms of one value: its own rounding, that of the weights that it meets, and of those
        that make it."""
        term = self.of_value(value, labels)
        found: list[Term] = [] if term is None else [term]
        for user in users(value):
            found += self.of_weights(user, value, labels)
        return [*found, *self.of_made(value, labels)]

    def of_value(
        self, value: SSAValue, labels: Labels, only: frozenset[Operation] | None = None
    ) -> RoundedValue | None:
        """The rounding of a value as these users need it; None if nobody rounds it."""
        if value not in self.known or self.recipe.only_weights:
            return None
        gains, rounded = np.zeros(labels.shape), False
        for user in users(value):
            behavior = self.ctx.behaviors.get(user)
            if only is not None and user not in only:
                continue
            if behavior is None or isinstance(user, ReturnOp) or behavior.commutes:
                continue
            rounded = True
            gains = gains + self._gains(user, value, labels)
        if not rounded:
            return None
        found = self.known[value]
        dims = [d for d in range(labels.ndim) if labels.shape[d] > 1]
        low, high, power = along(found, dims)
        flat = labels.reshape(-1)
        return RoundedValue(
            np.abs(flat),
            np.minimum(low.reshape(-1), 0.0),
            np.maximum(high.reshape(-1), 0.0),
            gains.reshape(-1),
            power.reshape(-1),
            _steps(self.recipe.activations),
            np.sign(flat).astype(np.float64),
        )

    def of_weights(self, op: Operation, value: SSAValue, labels: Labels) -> Iterator[Term]:
        """The rounding of the weights of a contraction of a value."""
        acc = self.contraction(op, value)
        if acc is None or value not in self.known:
            return
        weights = self._weights(op, acc)
        axis, row = acc.lhs_axis(op), acc.rhs_axis(op)
        inner, vector = inner_channels(op, acc), channel_vector(labels, axis, value)
        power = along(self.known[value], [axis])[2].reshape(-1)
        rows = np.abs(np.moveaxis(weights, row, 0).reshape(weights.shape[row], -1))
        index = np.moveaxis(np.broadcast_to(inner, weights.shape), row, 0).reshape(rows.shape)
        costs = np.full(len(rows), self._share(op) / len(rows))
        for first, chosen in _rows_alike(index):
            own = vector[first]
            if len(np.unique(own)) < 2 and self.recipe.per_channel:
                continue
            for part in _blocks(len(first), self.block_of(op, acc)):
                yield _rows_term(
                    own[part],
                    rows[chosen][:, part],
                    power[first[part]],
                    costs[chosen],
                    self._weight_steps() // 2,
                    per_row=self.recipe.per_channel,
                )

    def of_made(self, value: SSAValue, labels: Labels) -> Iterator[Term]:
        """The rounding of the weights that make a value, if all their rows have one grid."""
        op = value.owner
        if self.recipe.per_channel or not isinstance(op, Operation) or not labels.any():
            return
        acc = self.contraction(op, None)
        if acc is None or op.operands[acc.lhs] not in self.known:
            return
        weights = self._weights(op, acc)
        energy = self.known[op.operands[acc.lhs]].total_power()
        rows = np.moveaxis(weights, acc.rhs_axis(op), 0).reshape(
            weights.shape[acc.rhs_axis(op)], -1
        )
        own = channel_vector(labels, acc.result_axis(op), value)
        largest = np.tile(np.abs(rows).max(axis=1), len(own) // len(rows))
        gains = np.full(len(own), energy * rows.shape[1] * self._share(op) / len(own))
        squares = np.tile(np.square(rows).mean(axis=1), len(own) // len(rows))
        levels = self._weight_steps() - 1
        powers = np.sign(own).astype(np.float64)
        yield RoundedValue(np.abs(own), -largest, largest, gains, squares, levels, powers)

    def contraction(self, op: Operation, value: SSAValue | None) -> Accumulator | None:
        """The accumulator of an op that multiplies a value (None: any) with constant weights."""
        behavior = self.ctx.behaviors.get(op)
        acc = None if behavior is None else behavior.accumulator
        if acc is None or acc.channels is None:
            return None
        if value is not None and op.operands[acc.lhs] is not value:
            return None
        weights = op.operands[acc.rhs]
        if len(shape_of(weights)) < 2 or real_array(weights, self.ctx.blobs) is None:
            return None
        return acc

    def _gains(self, op: Operation, value: SSAValue, labels: Labels) -> Array:
        """What noise of power 1 in each channel of a value is in the result of an op, over the
        power of that; of the shape of the labels."""
        acc = self.contraction(op, value)
        if acc is not None:
            weights = self._weights(op, acc)
            axis = acc.lhs_axis(op)
            inner = np.broadcast_to(inner_channels(op, acc), weights.shape).reshape(-1)
            count = shape_of(value)[axis]
            sums = np.bincount(inner, np.square(weights).reshape(-1), count).astype(np.float64)
            sums *= acc.repeats(op) / shape_of(op.results[0])[acc.result_axis(op)]
            return _spread(sums * self._share(op), labels, axis)
        others = [other for other in op.operands if other is not value and other in self.known]
        behavior = self.ctx.behaviors.get(op)
        if behavior is not None and behavior.accumulator is not None and len(others) == 1:
            return self._of_product(op, value, labels)
        share = np.full(labels.shape, 1 / labels.size)
        if behavior is not None and behavior.grid is not None and op.name in _ADDS:
            return share * self._share(op)
        return share * self._importance(op) / self._power(value)

    def _of_product(self, op: Operation, value: SSAValue, labels: Labels) -> Array:
        """Of a matrix of values: noise meets the other side's channel of the inverse factor."""
        dims = [d for d in range(labels.ndim) if labels.shape[d] > 1]
        own = along(self.known[value], dims)[2]
        share = self._importance(op) / max(float(own.mean()), _LEAST)
        return np.full(labels.shape, share / labels.size)

    def block_of(self, op: Operation, acc: Accumulator) -> int:
        """How many numbers of a row of the weights of a contraction have a scale; 0: all of
        them."""
        shape = shape_of(op.operands[acc.rhs])
        if not self.recipe.only_weights or len(shape) != 2:
            return 0
        depth = shape[1 - acc.rhs_axis(op)]
        size = block_size(self.recipe, self.ctx.target, depth)
        return size if size < depth else 0

    def _weight_steps(self) -> int:
        codes = block_format(self.recipe.weights).codes
        return codes.high - codes.low

    def _weights(self, op: Operation, acc: Accumulator) -> Array:
        changed = self.weights.get((op, acc.rhs))
        weights = real_array(op.operands[acc.rhs], self.ctx.blobs) if changed is None else changed
        assert weights is not None
        return weights

    def _share(self, op: Operation) -> float:
        """What noise of power 1 in the result of an op counts."""
        return self._importance(op) / self._power(op.results[0])

    def _importance(self, op: Operation) -> float:
        return self.importance.get(op.results[0], 1.0)

    def _power(self, value: SSAValue) -> float:
        found = (self.signal or self.known).get(value)
        return 1.0 if found is None else max(found.total_power(), _LEAST)


def _steps(storage: str) -> int:
    """How many steps there are from the least code to the largest."""
    codes = Storage.of(storage)
    return codes.max - codes.min


_ADDS = frozenset({"nn.add", "nn.sub"})


def numbered_labels(shape: Sequence[int]) -> Labels:
    """A label of its own for each channel of an array."""
    return np.arange(1, prod(shape) + 1).reshape(shape)


def inner_channels(op: Operation, acc: Accumulator) -> Labels:
    """Which channel of the left operand each weight is multiplied with; broadcasts."""
    assert acc.channels is not None
    return np.asarray(acc.channels(op)[0])


def channel_vector(labels: Labels, axis: int, value: SSAValue) -> Labels:
    """The label of each channel along a dimension of a value that is whole along the others."""
    moved = np.moveaxis(labels, axis, 0).reshape(labels.shape[axis], -1)[:, 0]
    return np.broadcast_to(moved, (shape_of(value)[axis],))


def along(found: Channels, dims: list[int]) -> tuple[Array, Array, Array]:
    """The least, the largest and the mean square along these dimensions."""
    others = tuple(d for d in range(found.low.ndim) if d not in dims)
    return (
        found.low.min(axis=others, keepdims=True),
        found.high.max(axis=others, keepdims=True),
        found.power.mean(axis=others, keepdims=True),
    )


def _spread(vector: Array, labels: Labels, axis: int) -> Array:
    if labels.shape[axis] == 1:
        vector = vector.sum(keepdims=True)
    shape = [-1 if d == axis else 1 for d in range(labels.ndim)]
    return np.broadcast_to(vector.reshape(shape), labels.shape) * (labels.shape[axis] / labels.size)


def _rows_alike(index: Labels) -> Iterator[tuple[Labels, Labels]]:
    """The channels of a row, and the numbers of the rows that have the same."""
    if (index == index[0]).all():
        yield index[0], np.arange(len(index))
        return
    distinct, places = np.unique(index, axis=0, return_inverse=True)
    for number, first in enumerate(distinct):
        yield first, np.flatnonzero(places.reshape(-1) == number)


def _blocks(count: int, block: int) -> Iterator[slice]:
    size = block or count
    for start in range(0, count, size):
        yield slice(start, start + size)


def _rows_term(
    labels: Labels, rows: Array, power: Array, costs: Array, levels: int, *, per_row: bool
) -> Term:
    """Rows with the elements of one label put together: the largest, and what it meets."""
    distinct, places = np.unique(labels, return_inverse=True)
    order = np.argsort(places, kind="stable")
    starts = np.searchsorted(places[order], np.arange(len(distinct)))
    largest = np.maximum.reduceat(rows[:, order], starts, axis=1)
    energies = np.bincount(places, power).astype(np.float64)
    signs = np.sign(distinct).astype(np.float64)
    if per_row:
        return RoundedRows(np.abs(distinct), largest, energies, costs, levels, signs)
    most = largest.max(axis=0)
    gains, squares = energies * costs.sum(), np.bincount(places, np.square(rows).mean(axis=0))
    squares /= np.bincount(places)
    return RoundedValue(np.abs(distinct), -most, most, gains, squares, 2 * levels, -signs)

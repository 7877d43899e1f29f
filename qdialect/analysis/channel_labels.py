"""Labels of channels, which of them have one factor, and how movements carry them.

A label is a number: +k is the factor D_k, -k its inverse, 0 the factor 1. A value has an array
of labels of its rank, with extent 1 along dimensions along which the factor does not change:

    tensor<1x64x8x8xf32>     labels [1, 64, 1, 1]
    tensor<1x12x?x32xf32>    labels [1, 12, 1, 32]

An index map that carries qparams carries labels too: they lie on the value as scales would.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.ir import Operation

from qdialect.algebra.qparams.legality import Illegal
from qdialect.algebra.qparams.maps import IndexMap
from qdialect.algebra.qparams.parameter_field import ParameterField
from qdialect.algebra.qparams.parameters import Layout, Storage

Labels = NDArray[np.int64]
Shape = Sequence[int]

LARGEST = 1 << 16
"""Arrays of more labels are not made: the factor is then one number along some dimension."""

_STORAGE = Storage.of("i32")
_OFFSET = 1 << 40


@dataclass(frozen=True)
class Term:
    """Labels that lie on a constant, which takes up their factors to the power `sign`."""

    labels: Labels
    sign: int


@dataclass(frozen=True)
class Absorber:
    """A constant operand, and the factor of each of its elements: the product of its terms,
    whose labels broadcast to it (a term of a larger shape makes it larger).

    Of shifts, what is added to each: the sum of its terms. A bias, which may be missing yet, also
    takes up what is added to the operand of `products`: less the weights of that op times
    `through`, the labels of the channels they meet.
    """

    op: Operation
    operand: int
    terms: tuple[Term, ...]
    through: Labels | None = None
    products: Operation | None = None

    def factors(self, by_label: Sequence[float] | np.ndarray[Any, Any]) -> Any:
        """The factor of each element (float64), given D by label; D of label 0 is 1."""
        result: Any = np.ones(1)
        for term in self.terms:
            result = result * scaled(term.labels * term.sign, by_label)
        return result

    def offsets(self, by_label: Sequence[float] | NDArray[np.float64]) -> Any:
        """What its terms add to each element (float64), given what is added by label."""
        return sum((term.sign * added(term.labels, by_label) for term in self.terms), np.zeros(1))


def scaled(labels: Labels, by_label: Sequence[float] | NDArray[Any]) -> NDArray[np.float64]:
    """The factor where labels lie: of label k number k, of -k its inverse, of 0 it is 1."""
    table = np.concatenate([[1.0], np.asarray(by_label, np.float64)])
    factor = table[np.abs(labels)]
    return np.where(labels > 0, factor, 1 / factor)


def added(labels: Labels, by_label: Sequence[float] | NDArray[np.float64]) -> NDArray[np.float64]:
    """What is added where labels lie: of label k number k, of -k its negative, of 0 nothing."""
    table = np.concatenate([[0.0], np.asarray(by_label, np.float64)])
    return np.sign(labels) * table[np.abs(labels)]


class Classes:
    """Labels that stand for one factor, or for its inverse; of factor 1 if for both."""

    def __init__(self) -> None:
        self._parent: list[int] = [0]

    def fresh(self, shape: Shape) -> Labels:
        """New labels, each of a class of its own."""
        start, count = len(self._parent), prod(shape)
        self._parent.extend(range(start, start + count))
        return np.arange(start, start + count, dtype=np.int64).reshape(shape)

    def find(self, label: int) -> int:
        """The label that stands for the class."""
        path: list[int] = []
        root = abs(label)
        while (up := self._parent[root]) != root:
            path.append(root)
            root = abs(up)
        relative = root
        for node in reversed(path):
            relative = relative if self._parent[node] > 0 else -relative
            self._parent[node] = relative
        return relative if label > 0 else -relative

    def roots(self, labels: Labels) -> Labels:
        """`find` of each."""
        distinct, places = np.unique(labels, return_inverse=True)
        found = np.array([self.find(int(label)) for label in distinct], np.int64)
        return found[places].reshape(labels.shape)

    def unite(self, a: Labels | int, b: Labels | int) -> None:
        """One factor where arrays, broadcast against each other, lie on each other."""
        pairs = np.stack(np.broadcast_arrays(a, b)).reshape(2, -1)
        for one, other in np.unique(pairs, axis=1).T.tolist():
            self._unite(one, other)

    def _unite(self, a: int, b: int) -> None:
        one, other = self.find(a), self.find(b)
        if one == other:
            return
        if one == -other or not one or not other:
            # Where both are one class, its factor is its own inverse.
            self._parent[abs(one)] = self._parent[abs(other)] = 0
            return
        self._parent[abs(one)] = other if one > 0 else -other

    def pin(self, labels: Labels) -> None:
        """The factor 1."""
        self.unite(labels, 0)

    def along(self, labels: Labels, dims: Sequence[int]) -> Labels:
        """One factor along these dimensions: the array with extent 1 there."""
        for dim in dims:
            if labels.shape[dim] > 1:
                first = np.take(labels, [0], dim)
                self.unite(labels, first)
                labels = first
        return labels


def carried(
    along: IndexMap, operands: Sequence[Labels], shapes: Sequence[Shape], classes: Classes
) -> Labels:
    """The labels of what a movement makes of operands of these shapes; where no array of labels
    says them, operands get one factor first."""
    found = pulled_labels(along, operands, shapes)
    if found is None:
        operands = [classes.along(labels, range(labels.ndim)) for labels in operands]
        found = pulled_labels(along, operands, shapes)
    if found is None:
        for labels in operands[1:]:
            classes.unite(operands[0], labels)
        operands = [np.full_like(labels, operands[0].flat[0]) for labels in operands]
        found = pulled_labels(along, operands, shapes)
    if found is None:
        for labels in operands:
            classes.pin(labels)
        rank = len(along.output_shape([tuple(shape) for shape in shapes]))
        return np.zeros((1,) * rank, np.int64)
    return found


def pulled_labels(
    along: IndexMap, operands: Sequence[Labels], shapes: Sequence[Shape]
) -> Labels | None:
    """The labels of what a movement makes of operands of these shapes; None where no array of
    labels says them."""
    fields = [_field(labels, shape) for labels, shape in zip(operands, shapes, strict=True)]
    pulled = along.pull(fields, layout=Layout.BLOCK)
    return None if isinstance(pulled, Illegal) else _labels(pulled)


def _field(labels: Labels, shape: Shape) -> ParameterField:
    """Labels as scales; every label is a normal positive number then."""
    blocks = tuple(1 if n > 1 else s for n, s in zip(labels.shape, shape, strict=True))
    scales = (labels + _OFFSET).astype(np.float64)
    zero_points = np.zeros(labels.size, np.int64).tobytes()
    return ParameterField(_STORAGE, "f64", tuple(shape), blocks, scales.tobytes(), zero_points)


def _labels(pulled: ParameterField) -> Labels | None:
    grid = pulled.to_array()
    counts = [
        extent if cells > 1 else 1
        for extent, cells in zip(grid.shape, grid.pairs.shape, strict=True)
    ]
    if prod(counts) > LARGEST:
        return None
    labels = np.array(grid.pairs["scale"]).view(np.float64).astype(np.int64) - _OFFSET
    for dim, count in enumerate(counts):
        if count > 1:
            labels = np.repeat(labels, grid.blocks[dim], axis=dim)
            labels = np.take(labels, np.arange(count), axis=dim)
    return labels


def aligned(labels: Labels, rank: int) -> Labels:
    """As numpy broadcasts to a rank."""
    return labels.reshape((1,) * (rank - labels.ndim) + labels.shape)

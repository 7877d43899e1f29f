"""Second moments of what weights are multiplied with: E[x x^T] of each contraction, on samples.

The weights of a contraction are rows [groups, outputs, K], and each element of its result is a
row times a vector x of K numbers: a window of a convolution (padding is 0; of a transposed one
all that meets in an element), a row of a matrix. The loss of other weights is then

    E[((w' - w) x)^2] = (w' - w) E[x x^T] (w' - w)^T

for each row, by the moments of its group [groups, K, K] (a depthwise convolution has one small
matrix per channel). They are measured: the float model gives the operand of each op, and moments
are added up sample by sample, of a part of the positions where there are many. Large models are
run several times, so that no more matrices are kept at once than `LIMIT_BYTES`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.ir import Operation

from qdialect.ir.behaviors.shapes import shape_of
from qdialect.ir.ops import FullyConnectedOp, MatMulOp
from qdialect.ir.ops.contraction import ConvolutionOp, TransposedConvolutionOp
from qdialect.ir.ops.declare import values as attribute_values
from qdialect.ir.ops.shapes import DYNAMIC
from qdialect.ir.ops.windows import taps, transposed_taps, windows
from qdialect.quantizer.operands import float_operands
from qdialect.quantizer.values import Values, float_value

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qdialect.ir.ops.windows import Places

    Array = NDArray[np.float64]
    Arrays = Mapping[str, NDArray[Any]]

LIMIT_BYTES = 512 << 20
_DEEPEST = 8192
"""A row of more weights than this would need a matrix too large to factor."""
_POSITIONS = 2
"""Of each sample about so many times K positions are looked at,"""
_LEAST_POSITIONS = 1024
"""or so many, if that is more."""


@dataclass
class Moments:
    """Sums over `count` vectors of each group: x x^T [groups, K, K] and x [groups, K], in f64: of
    channels that are nearly constant a covariance is the small difference of large ones."""

    products: Array
    sums: Array
    count: int = 0

    @staticmethod
    def of_rows(groups: int, depth: int) -> Moments:
        """Of no vectors yet."""
        return Moments(np.zeros((groups, depth, depth)), np.zeros((groups, depth)))

    def add(self, columns: NDArray[np.float32]) -> None:
        """Take vectors [groups, K, positions] in, unless they overflow."""
        wide = columns.astype(np.float64)
        products = wide @ wide.swapaxes(1, 2)
        if np.isfinite(products).all():
            self.products += products
            self.sums += wide.sum(axis=2)
            self.count += wide.shape[2]

    def mean(self) -> Array:
        """E[x] [groups, K]."""
        return self.sums / max(self.count, 1)

    def second(self) -> Array:
        """E[x x^T]."""
        return self.products / max(self.count, 1)

    def covariance(self) -> Array:
        """E[x x^T] - E[x] E[x]^T: what is lost when means are corrected."""
        mean = self.mean()
        return self.second() - mean[:, :, None] * mean[:, None, :]

    def joined(self, other: Moments) -> Moments:
        """The moments of all vectors of both."""
        return Moments(
            self.products + other.products, self.sums + other.sums, self.count + other.count
        )


def rows_of(op: Operation, array: NDArray[Any]) -> NDArray[Any] | None:
    """An array shaped like the weights of a contraction as rows [groups, outputs, K]; None for an
    op that has no such rows."""
    if isinstance(op, ConvolutionOp):
        return array.reshape(_groups(op), -1, prod(array.shape[1:]))
    if isinstance(op, TransposedConvolutionOp):
        groups, (_, outputs) = _groups(op), array.shape[:2]
        grouped = array.reshape(groups, -1, outputs, prod(array.shape[2:])).swapaxes(1, 2)
        return grouped.reshape(groups, outputs, -1)
    if isinstance(op, FullyConnectedOp):
        return array[None]
    if isinstance(op, MatMulOp) and array.ndim in (1, 2):
        return array.T.reshape(1, -1, array.shape[0])
    return None


def array_of(op: Operation, rows: NDArray[Any]) -> NDArray[Any]:
    """The array with the shape of the weights of a contraction that rows are of."""
    shape = shape_of(op.operands[1])
    if isinstance(op, TransposedConvolutionOp):
        groups, outputs, _ = rows.shape
        grouped = rows.reshape(groups, outputs, -1, prod(shape[2:]))
        return grouped.swapaxes(1, 2).reshape(shape)
    if isinstance(op, MatMulOp):
        return rows[0].T.reshape(shape)
    return rows.reshape(shape)


def measurable(op: Operation) -> bool:
    """Whether moments are measured for the rows of an op: its operand is computed, and rows are
    not too deep."""
    weight = shape_of(op.operands[1]) if len(op.operands) > 1 else ()
    if not weight or 0 in weight or DYNAMIC in weight or not float_value(op.operands[0]):
        return False
    products = isinstance(op, FullyConnectedOp | MatMulOp) and len(weight) <= 2
    if not products and not isinstance(op, ConvolutionOp | TransposedConvolutionOp):
        return False
    return shape_of_moments(op)[1] <= _DEEPEST


def shape_of_moments(op: Operation) -> tuple[int, int]:
    """The number of groups and K."""
    weight = shape_of(op.operands[1])
    if isinstance(op, TransposedConvolutionOp):
        return _groups(op), weight[0] // _groups(op) * prod(weight[2:])
    if isinstance(op, ConvolutionOp):
        return _groups(op), prod(weight[1:])
    return 1, weight[1] if isinstance(op, FullyConnectedOp) else weight[0]


def columns_of(op: Operation, x: NDArray[Any]) -> NDArray[np.float32]:
    """What the rows of an op are multiplied with [groups, K, positions], of some positions."""
    groups, depth = shape_of_moments(op)
    most = max(_POSITIONS * depth, _LEAST_POSITIONS)
    x = x.astype(np.float32)
    if not isinstance(op, ConvolutionOp | TransposedConvolutionOp):
        rows = x.reshape(-1, depth)
        return np.ascontiguousarray(rows[:: max(-(-len(rows) // most), 1)].T)[None]
    weight = shape_of(op.operands[1])
    kernel, size = weight[2:], x.shape[2:]
    out = type(op).infer([x.shape, weight], attribute_values(op))[0][2:]
    at = transposed_taps if isinstance(op, TransposedConvolutionOp) else taps
    view, inside = windows(op, x, _some(at(op, kernel, out), -(-most // len(x))), size)
    view = np.where(inside, view, np.float32(0))
    positions = prod(view.shape[2 + len(kernel) :])
    return np.moveaxis(view.reshape(len(x), groups, depth, positions), 0, 2).reshape(
        groups, depth, -1
    )


def _some(places: Sequence[Places], most: int) -> list[Places]:
    """Windows of every so many places along each dimension, about `most` in all."""
    total = prod(each.shape[1] for each in places)
    step = max(round((total / most) ** (1 / len(places))), 1)
    # In steps that an even stride of what comes before does not share.
    step += step > 1 and step % 2 == 0
    return [each[:, (each.shape[1] - 1) % step // 2 :: step] for each in places]


def _groups(op: Operation) -> int:
    return int(attribute_values(op)["groups"])


def batches(ops: Sequence[Operation], parts: int = 1) -> Iterator[list[Operation]]:
    """Ops in order, so many at once as have matrices of no more than `LIMIT_BYTES`, or one; a
    matrix for each of `parts`."""
    batch, total = list[Operation](), 0
    for op in ops:
        groups, depth = shape_of_moments(op)
        size = 8 * groups * depth * depth * parts
        if batch and total + size > LIMIT_BYTES:
            yield batch
            batch, total = [], 0
        batch.append(op)
        total += size
    if batch:
        yield batch


def moments(
    values: Values, ops: Sequence[Operation], samples: Sequence[Arrays], engine: str
) -> dict[Operation, Moments]:
    """The moments of measurable ops of a float function on samples; see the module."""
    return moments_of_parts(values, ops, samples, engine, 1)[0]


def moments_of_parts(
    values: Values, ops: Sequence[Operation], samples: Sequence[Arrays], engine: str, parts: int
) -> list[dict[Operation, Moments]]:
    """The moments of each of so many parts of the samples, which take turns, in one run."""
    found = [{op: Moments.of_rows(*shape_of_moments(op)) for op in ops} for _ in range(parts)]
    run = float_operands(values, ops, engine)
    for number, sample in enumerate(samples):
        for op, array in run.of(sample):
            found[number % parts][op].add(columns_of(op, array))
    return found

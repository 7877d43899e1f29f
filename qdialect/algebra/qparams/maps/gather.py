"""Gather along one dimension, with constant or run-time indices (law 2.5)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from qdialect.algebra.qparams.legality import Code, Illegal
from qdialect.algebra.qparams.maps.base import Array, IndexMap, single
from qdialect.algebra.qparams.maps.composite import Composite
from qdialect.algebra.qparams.maps.dims import InPlace
from qdialect.algebra.qparams.maps.reshape import Reshape
from qdialect.algebra.qparams.maps.separable import Index
from qdialect.algebra.qparams.parameter_array import DYNAMIC, ParameterArray, Shape
from qdialect.algebra.qparams.parameters import Layout


@dataclass(frozen=True)
class Take(InPlace):
    """Result index j of dimension `axis` reads operand index `indices[j]` (negative: from the end).

    The vector of a quantized axis is taken alike.
    """

    axis: int
    indices: tuple[int, ...]

    @cached_property
    def _span(self) -> tuple[int, int]:
        return min(self.indices, default=0), max(self.indices, default=-1)

    def output_shape(self, in_shapes: Sequence[Shape]) -> Shape:
        """The number of indices along `axis`; ValueError for an index outside."""
        shape = single(in_shapes)
        if not 0 <= self.axis < len(shape):
            raise ValueError(f"no dimension {self.axis} in {shape}")
        size = shape[self.axis]
        low, high = self._span
        if size != DYNAMIC and not -size <= low <= high < size and self.indices:
            raise ValueError(f"indices {low} to {high} for dimension {self.axis} of {shape}")
        return (*shape[: self.axis], len(self.indices), *shape[self.axis + 1 :])

    def index(self, dim: int, size: int) -> Index | None:
        """The indices along `axis`, else None."""
        if dim != self.axis:
            return None
        indices = np.array(self.indices, np.intp)
        return np.where(indices < 0, indices + size, indices)


@dataclass(frozen=True)
class Gather(Composite):
    """`numpy.take(x, indices, axis)` with constant indices of shape `index_shape`.

    `indices` is flat, row-major.  A scalar (`index_shape` ()) removes the dimension; k
    index dimensions replace it, and a quantized axis then needs a grid over them unless
    the taken parameters vary along one of them only.
    """

    axis: int
    indices: tuple[int, ...]
    index_shape: Shape
    code: ClassVar[Code] = "axis-split"

    @staticmethod
    def of(axis: int, indices: ArrayLike) -> Gather:
        """A gather with an array (or nested lists, or a number) of indices."""
        array: NDArray[np.int64] = np.asarray(indices, np.int64)
        return Gather(axis, tuple(map(int, np.ravel(array))), array.shape)

    def steps(self, shape: Shape) -> Sequence[IndexMap]:
        """Take along the flattened indices, then their shape."""
        if prod(self.index_shape) != len(self.indices):
            raise ValueError(f"{len(self.indices)} indices for the shape {self.index_shape}")
        if len(self.index_shape) == 1:
            return (self._take,)
        before, after = shape[: self.axis], shape[self.axis + 1 :]
        groups = (
            *((1, 1),) * len(before),
            (1, len(self.index_shape)),
            *((1, 1),) * len(after),
        )
        return (self._take, Reshape((*before, *self.index_shape, *after), groups))

    @cached_property
    def _take(self) -> Take:
        return Take(self.axis, self.indices)


@dataclass(frozen=True)
class GatherDynamic(IndexMap):
    """A gather whose indices, of shape `index_shape`, are known at run time only.

    Legal when the parameters do not vary along `axis`; otherwise they would have to be
    gathered with the same indices.  `apply` takes the data and the indices.
    """

    axis: int
    index_shape: Shape
    code: ClassVar[Code] = "dynamic-params"

    def output_shape(self, in_shapes: Sequence[Shape]) -> Shape:
        """The shape of the indices in place of `axis`."""
        shape = single(in_shapes)
        if not 0 <= self.axis < len(shape):
            raise ValueError(f"no dimension {self.axis} in {shape}")
        return self._replaced(shape, self.index_shape)

    def apply(self, arrays: Sequence[Array], fill: ArrayLike = 0) -> Array:
        """numpy's take; the second array is the indices."""
        if len(arrays) != 2:
            raise ValueError("a gather with run-time indices needs them as second operand")
        data, indices = arrays
        return np.take(data, indices, self.axis)

    def pull_array(
        self, grids: Sequence[ParameterArray], layout: Layout
    ) -> ParameterArray | Illegal:
        """The parameters, unless they vary along `axis`."""
        (grid,) = grids
        if self.axis in grid.blocked:
            return self.refusal(self.output_shape([grid.shape]))
        ones = (1,) * len(self.index_shape)
        return grid.on(
            self.output_shape([grid.shape]),
            self._replaced(grid.blocks, self.index_shape),
            np.reshape(grid.pairs, self._replaced(grid.pairs.shape, ones)),
        )

    def push_array(
        self, out: ParameterArray, in_shapes: Sequence[Shape]
    ) -> list[ParameterArray] | Illegal:
        """The parameters, unless they vary along the indices."""
        shape = single(in_shapes)
        end = self.axis + len(self.index_shape)
        if any(self.axis <= k < end for k in out.blocked):
            return self.refusal(out.shape)
        counts, blocks = out.pairs.shape, out.blocks
        inner = (*counts[: self.axis], 1, *counts[end:])
        restored = (*blocks[: self.axis], shape[self.axis], *blocks[end:])
        return [out.on(shape, restored, np.reshape(out.pairs, inner))]

    def refusal(self, out_shape: Shape) -> Illegal:
        """A refusal because indices are known at run time only."""
        return Illegal(
            self.code,
            f"parameters that vary along dimension {self.axis} would depend on run-time indices",
        )

    def _replaced(self, sizes: Shape, by: Shape) -> Shape:
        return (*sizes[: self.axis], *by, *sizes[self.axis + 1 :])

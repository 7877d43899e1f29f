"""Maps that act on each dimension by itself: y[j] = x[.., v_k(j_k), ..], dimensions reordered."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from qdialect.algebra.qparams.legality import Illegal
from qdialect.algebra.qparams.maps.base import Array, IndexMap, single
from qdialect.algebra.qparams.parameter_array import (
    DYNAMIC,
    Pairs,
    ParameterArray,
    Shape,
    coarsest_block,
)
from qdialect.algebra.qparams.parameters import Layout

Index = NDArray[np.intp]


class Separable(IndexMap):
    """Result dimension k reads operand dimension `sources(..)[k]` through `index(k, size)`.

    Every operand dimension is read by exactly one result dimension; result dimensions
    with source None repeat the operand.
    """

    @abstractmethod
    def sources(self, rank: int) -> tuple[int | None, ...]:
        """For each result dimension the operand dimension it reads; `rank` is the operand's."""

    @abstractmethod
    def index(self, dim: int, size: int) -> Index | None:
        """v_k: the operand indices result dimension `dim` reads, None for all in order."""

    def pull_array(
        self, grids: Sequence[ParameterArray], layout: Layout
    ) -> ParameterArray | Illegal:
        """Dimension by dimension: parameters read by the same indices as elements."""
        (grid,) = grids
        shape = self.output_shape([grid.shape])
        sources = self.sources(len(grid.shape))
        params, blocks = _moved(grid.pairs, sources), list(shape)
        for k, source in enumerate(sources):
            if params.shape[k] == 1 or source is None:
                continue
            size, block = grid.shape[source], grid.blocks[source]
            if size == DYNAMIC and not self._keeps(k):
                return Illegal("dynamic-shape", f"which indices of dimension {source} are read")
            index = self.index(k, size)
            if index is None:
                blocks[k] = block
            else:
                params, blocks[k] = _read(params, k, index // block, grid.ragged(source))
        return grid.on(shape, blocks, params)

    def push_array(
        self, out: ParameterArray, in_shapes: Sequence[Shape]
    ) -> list[ParameterArray] | Illegal:
        """Dimension by dimension, where every operand index is read."""
        shape = list(single(in_shapes))
        sources = self.sources(len(shape))
        params, blocks = out.pairs, list(shape)
        for k in out.blocked:
            source = sources[k]
            if source is None:
                return _undetermined(k, "the operand does not have that dimension")
            if shape[source] == DYNAMIC:
                if not self._keeps(k):
                    return _undetermined(k, "the operand has an unknown number of indices")
                shape[source] = out.shape[k]
            index = self.index(k, shape[source])
            if index is None:
                blocks[source] = out.blocks[k]
                continue
            first = _inverse(index, shape[source])
            if first is None:
                return _undetermined(k, "not every operand index is read")
            cell = np.arange(index.size) // out.blocks[k]
            if not _agree(params, k, cell, cell[first[index]]):
                return _undetermined(k, "reads of the same operand index want different ones")
            params, blocks[source] = _read(params, k, cell[first], out.ragged(k))
        return [out.on(tuple(shape), blocks, _unmoved(params, sources, len(shape)))]

    def _keeps(self, dim: int) -> bool:
        """Whether result dimension `dim` reads all indices in order, however many there are."""
        return self.index(dim, 1) is None

    def apply(self, arrays: Sequence[Array], fill: ArrayLike = 0) -> Array:
        """Dimension by dimension."""
        (array,) = arrays
        sources = self.sources(array.ndim)
        result = _moved(array, sources)
        for k, source in enumerate(sources):
            index = None if source is None else self.index(k, array.shape[source])
            if index is not None:
                result = np.take(result, index, k)
        return result


def _moved(array: Array, sources: tuple[int | None, ...]) -> Array:
    """`array` with its dimensions in result order, size 1 where there is no source."""
    order = [source for source in sources if source is not None]
    new = tuple(k for k, source in enumerate(sources) if source is None)
    return np.expand_dims(np.transpose(array, order), new)


def _unmoved(params: Pairs, sources: tuple[int | None, ...], rank: int) -> Pairs:
    order = [sources.index(dim) for dim in range(rank)]
    new = [k for k, source in enumerate(sources) if source is None]
    return np.reshape(np.transpose(params, [*order, *new]), [params.shape[k] for k in order])


def _read(params: Pairs, dim: int, cell: Index, ragged: bool) -> tuple[Pairs, int]:
    """Cells along `dim` when position j reads cell `cell[j]`, and their block size."""
    changes = np.flatnonzero(cell[1:] != cell[:-1]) + 1
    block = coarsest_block(changes, cell.size, ragged)
    return np.take(params, cell[::block], dim), block


def _inverse(index: Index, size: int) -> Index | None:
    """For each operand index one position that reads it, None if one is not read."""
    first = np.full(size, -1, np.intp)
    first[index] = np.arange(index.size)
    return None if (first < 0).any() else first


def _agree(params: Pairs, dim: int, a: Index, b: Index) -> bool:
    """Are cells a[j] and b[j] along `dim` equal for all j?"""
    differ = np.unique(np.stack([a, b])[:, a != b], axis=1)
    return np.array_equal(np.take(params, differ[0], dim), np.take(params, differ[1], dim))


def _undetermined(dim: int, why: str) -> Illegal:
    return Illegal("undetermined", f"parameters vary along result dimension {dim}, and {why}")

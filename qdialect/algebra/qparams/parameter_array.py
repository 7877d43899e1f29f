"""A block grid of parameters as one array: the working form of the index maps.

Every map of the law ends in the same three steps: build some grid that is constant
on its blocks, reduce it to the coarsest such grid, and see whether the layout the
caller allows can hold it.  The coarsest grid is unique: the valid block sizes of a
dimension are closed under lcm (blocks of b1 and b2 overlap into lcm(b1, b2)), and
dimensions do not influence each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd, prod
from typing import cast

import numpy as np
from numpy.typing import NDArray

from qdialect.algebra.qparams.parameters import Layout, Storage

DYNAMIC = -1
Shape = tuple[int, ...]
Pairs = NDArray[np.void]

PAIR = np.dtype([("scale", np.int64), ("zero_point", np.int64), ("slot", np.int64)])
"""One parameter pair: the scale's bits, the zero point (steps), and a slot number that is
0 when pairs are compared by value and distinct when they are compared structurally."""

_FREE_PAIRS = 1 << 20
_MAX_GROWTH = 16


@dataclass(frozen=True)
class ParameterArray:
    """`pairs[i_0 // blocks[0], ..]` is the pair of element i of a tensor of `shape`.

    A dimension of unknown size has block `DYNAMIC`, i.e. one cell.
    """

    storage: Storage
    shape: Shape
    blocks: Shape
    pairs: Pairs

    def on(self, shape: Shape, blocks: Sequence[int], pairs: Pairs) -> ParameterArray:
        """Another grid of the same storage."""
        return ParameterArray(self.storage, shape, tuple(blocks), pairs)

    @property
    def blocked(self) -> list[int]:
        """The dimensions along which there is more than one cell."""
        return [k for k, n in enumerate(self.pairs.shape) if n > 1]

    def ragged(self, dim: int) -> bool:
        """Does the last block along `dim` stop short?"""
        return self.blocks[dim] > 0 and self.shape[dim] % self.blocks[dim] != 0

    def reduced(self) -> ParameterArray:
        """The coarsest grid with the same pair at every element (law 2.2)."""
        params, blocks = self.pairs, list(self.blocks)
        for k in self.blocked:
            change = np.flatnonzero(slab_changes(params, k)) + 1
            block = coarsest_block(change * blocks[k], self.shape[k], self.ragged(k))
            if block != blocks[k]:
                params = np.take(params, _starts(self.shape[k], block) // blocks[k], k)
                blocks[k] = block
        return self.on(self.shape, blocks, params)

    def refined(self, blocks: Shape) -> ParameterArray:
        """The same field on smaller blocks; each of them divides its old one."""
        params = self.pairs
        for k, (old, new) in enumerate(zip(self.blocks, blocks, strict=True)):
            if new != old:
                params = np.take(params, _starts(self.shape[k], new) // old, k)
        return self.on(self.shape, blocks, params)

    def fitted(self, layout: Layout) -> ParameterArray | None:
        """This reduced grid in a form no richer than `layout`, None if there is none."""
        blocked = self.blocked
        if layout is Layout.BLOCK or not blocked:
            return self
        if layout is Layout.TENSOR or len(blocked) > 1:
            return None
        return self.refined(_replaced(self.blocks, blocked[0], 1))

    def equals(self, other: ParameterArray) -> bool:
        """Same blocks, bitwise equal pairs."""
        return self.blocks == other.blocks and bool(np.all(self.pairs == other.pairs))


def cell_count(size: int, block: int) -> int:
    """Cells along a dimension; a whole one (also when unknown) is one cell."""
    return 1 if size == block else -(-size // block)


def slab_changes(params: Pairs, axis: int) -> NDArray[np.bool_]:
    """For each cell index m >= 1 along `axis`: does slab m differ from slab m - 1?"""
    rows = np.reshape(np.moveaxis(params, axis, 0), (params.shape[axis], -1))
    differ = cast("NDArray[np.bool_]", rows[1:] != rows[:-1])
    return np.any(differ, axis=1)


def coarsest_block(changes: NDArray[np.intp], size: int, ragged: bool) -> int:
    """The largest block size whose boundaries include all positions of `changes`.

    A size is valid iff every change is one of its multiples, so the largest is their
    gcd; it must divide `size` too, unless a ragged end is allowed.
    """
    if not changes.size:
        return size
    block = gcd(*map(int, changes))
    return block if ragged else gcd(block, size)


def outgrown(counts: Sequence[int], source: int) -> bool:
    """Would a grid of `counts` pairs be too large to build from one of `source` pairs?"""
    return prod(counts) > max(_FREE_PAIRS, _MAX_GROWTH * source)


def _starts(size: int, block: int) -> NDArray[np.intp]:
    """The first position of every block."""
    return np.arange(0, size, block)


def _replaced(shape: Shape, dim: int, value: int) -> Shape:
    return (*shape[:dim], value, *shape[dim + 1 :])

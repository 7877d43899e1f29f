"""Reshape: row-major order kept, dimensions cut anew (law 2.3, 2.4)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import gcd
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from qdialect.algebra.qparams.legality import Illegal
from qdialect.algebra.qparams.maps.base import Array, IndexMap, single
from qdialect.algebra.qparams.maps.extents import Extent, extents, resolved, strides
from qdialect.algebra.qparams.parameter_array import (
    DYNAMIC,
    Pairs,
    ParameterArray,
    Shape,
    cell_count,
    outgrown,
)
from qdialect.algebra.qparams.parameters import Layout


@dataclass(frozen=True)
class Reshape(IndexMap):
    """The elements in the same row-major order, in `shape` (-1: unknown, or inferred).

    `groups` optionally splits both shapes into runs (operand dimensions, result
    dimensions) with equal element counts each, as expand and collapse ops know them;
    an unknown size then affects its own group only.
    """

    permutes: ClassVar[bool] = True

    shape: Shape
    groups: tuple[tuple[int, int], ...] | None = None

    @staticmethod
    def onnx(source: Shape, target: Sequence[int], allowzero: bool = False) -> Reshape:
        """ONNX Reshape: 0 copies the operand's dimension, -1 is inferred.

        Dimensions that stay the same at either end are groups of their own: `[0, 4, -1, 1]`
        of `?x4x?` moves nothing but the last, whatever the unknown sizes are.
        """
        if allowzero:
            return Reshape(tuple(target))
        shape = tuple(source[k] if size == 0 else size for k, size in enumerate(target))
        if 0 in shape:
            return Reshape(shape)  # no elements, in whatever groups
        kept = tuple(
            size == 0 or size == source[k] != DYNAMIC
            for k, size in enumerate(target[: len(source)])
        )
        first = next((k for k, same in enumerate(kept) if not same), len(kept))
        last = 0
        if len(source) == len(target):
            last = next((k for k, same in enumerate(kept[first:][::-1]) if not same), 0)
        middle = (len(source) - first - last, len(target) - first - last)
        return Reshape(shape, (*((1, 1),) * first, middle, *((1, 1),) * last))

    def output_shape(self, in_shapes: Sequence[Shape]) -> Shape:
        """The target, its unknown extent computed where that is known."""
        source = single(in_shapes)
        if self.groups is None:
            return resolved(source, self.shape)[1]
        return tuple(size for group in self._groups(source) for size in group.target)

    def apply(self, arrays: Sequence[Array], fill: ArrayLike = 0) -> Array:
        """The elements in row-major order under the target."""
        return np.reshape(arrays[0], self.output_shape([arrays[0].shape]))

    def pull_array(
        self, grids: Sequence[ParameterArray], layout: Layout
    ) -> ParameterArray | Illegal:
        """Group by group of dimensions with equal products; a refusal where blocks are cut."""
        grid = _without_ragged_ends(grids[0])
        groups = [_GroupPull.of(group, grid) for group in self._groups(grid.shape)]
        for group in groups:
            if not group.provable:
                what = f"{grid.shape} -> {self.shape}"
                return Illegal("dynamic-shape", f"unknown sizes decide the parameters of {what}")
        if layout is not Layout.BLOCK and sum(group.least_blocked for group in groups) > 1:
            return _merged_or_split(groups, grid.shape, self.shape)
        shape = tuple(size for group in groups for size in group.shape)
        blocks = tuple(block for group in groups for block in group.blocks)
        counts = tuple(cell_count(s, b) for s, b in zip(shape, blocks, strict=True))
        if outgrown(counts, grid.pairs.size):
            return Illegal("growth", f"{grid.pairs.size} parameters become {counts}")
        return grid.on(shape, blocks, _sampled(grid.pairs, groups, counts))

    def push_array(
        self, out: ParameterArray, in_shapes: Sequence[Shape]
    ) -> list[ParameterArray] | Illegal:
        """`pull_array` of the reverse reshape."""
        source = single(in_shapes)
        groups = None if self.groups is None else tuple((j, i) for i, j in self.groups)
        pulled = Reshape(source, groups).pull_array([out], Layout.BLOCK)
        return pulled if isinstance(pulled, Illegal) else [pulled]

    def _groups(self, source: Shape) -> Iterator[_Group]:
        pairs = self.groups or ((len(source), len(self.shape)),)
        if tuple(map(sum, zip(*pairs, strict=True))) != (len(source), len(self.shape)):
            raise ValueError(f"groups {pairs} do not cover {source} -> {self.shape}")
        i = j = 0
        for ins, outs in pairs:
            old, new = resolved(source[i : i + ins], self.shape[j : j + outs])
            yield _Group(i, j, old, new)
            i, j = i + ins, j + outs


class _Group(NamedTuple):
    """One independent part of a reshape, from dimensions `first_in` and `first_out` on."""

    first_in: int
    first_out: int
    source: Shape
    target: Shape


@dataclass(frozen=True)
class _Digit:
    """A quantized dimension seen in the flat index f: cell = (f // run) mod (period // run)."""

    dim: int
    run: Extent
    period: Extent

    def block(self, stride: Extent, size: Extent) -> Extent:
        """Law 2.4: the largest provable b' of a result dimension of `stride` and `size`."""
        if self.period.divides(stride) or stride.times(size).divides(self.run):
            return size
        if not stride.divides(self.run):
            return Extent(1)
        return Extent(gcd(size.factor, self.run.factor // stride.factor))

    def provable(self, stride: Extent, size: Extent) -> bool:
        """Does no unknown decide the cell along such a result dimension?"""
        constant = self.period.divides(stride) or stride.times(size).divides(self.run)
        return constant or (stride.unknowns == self.run.unknowns and not size.unknowns)


@dataclass(frozen=True)
class _GroupPull:
    """What a group's quantized dimensions ask of its result dimensions."""

    group: _Group
    digits: tuple[_Digit, ...]
    sizes: tuple[Extent, ...]
    strides: tuple[Extent, ...]

    @staticmethod
    def of(group: _Group, grid: ParameterArray) -> _GroupPull:
        quantized = [k for k in grid.blocked if 0 <= k - group.first_in < len(group.source)]
        if not quantized:
            return _GroupPull(group, (), (), ())
        old, new = extents(group.source, group.target)
        steps = strides(old)
        digits: list[_Digit] = []
        for k in quantized:
            step = steps[k - group.first_in]
            run = step.times(Extent(grid.blocks[k]))
            digits.append(_Digit(k, run, run.times(Extent(_minimal_period(grid.pairs, k)))))
        return _GroupPull(group, tuple(digits), tuple(new), tuple(strides(new)))

    @property
    def shape(self) -> Shape:
        return self.group.target

    @cached_property
    def blocks(self) -> Shape:
        """Block size of each result dimension."""
        if not self.digits:
            return self.group.target
        return tuple(
            DYNAMIC
            if size.unknowns
            else gcd(*(digit.block(stride, size).factor for digit in self.digits))
            for size, stride in zip(self.sizes, self.strides, strict=True)
        )

    @property
    def provable(self) -> bool:
        return all(
            digit.provable(stride, size)
            for digit in self.digits
            for size, stride in zip(self.sizes, self.strides, strict=True)
        )

    @property
    def least_blocked(self) -> int:
        """A lower bound on the blocked result dimensions of the coarsest grid.

        Exact for one digit: law 2.3, that theorem's condition is that all dimensions
        but one are whole.
        """
        if len(self.digits) != 1:
            return min(len(self.digits), 1)
        return sum(a != b for a, b in zip(self.blocks, self.shape, strict=True))


def _without_ragged_ends(grid: ParameterArray) -> ParameterArray:
    """Law 2.4: a ragged last block is refined away."""
    return grid.refined(
        tuple(
            gcd(block, size) if grid.ragged(k) else block
            for k, (block, size) in enumerate(zip(grid.blocks, grid.shape, strict=True))
        )
    )


def _minimal_period(params: Pairs, dim: int) -> int:
    """Smallest divisor d of the cell count along `dim` such that cell m equals cell m mod d."""
    rows = np.moveaxis(params, dim, 0)
    count = rows.shape[0]
    for d in range(1, count // 2 + 1):
        if count % d == 0 and np.all(rows[d:] == rows[:-d]):
            return d
    return count


def _sampled(params: Pairs, groups: Sequence[_GroupPull], counts: Shape) -> Pairs:
    """The pair of the first element of every result cell.

    Evaluated with every unknown set to 1, which `provable` makes representative.
    """
    index: list[Array | int] = [0] * params.ndim
    rank = len(counts)
    for group in groups:
        flat = np.zeros((1,) * rank, np.intp)
        for k, (block, stride) in enumerate(zip(group.blocks, group.strides, strict=False)):
            dim = group.group.first_out + k
            if counts[dim] > 1:
                step = np.arange(counts[dim]) * (block * stride.factor)
                flat = flat + np.reshape(step, [-1 if d == dim else 1 for d in range(rank)])
        for digit in group.digits:
            cell = flat // digit.run.factor % (digit.period.factor // digit.run.factor)
            index[digit.dim] = cell
    return np.broadcast_to(params[tuple(index)], counts)


def _merged_or_split(groups: Sequence[_GroupPull], source: Shape, target: Shape) -> Illegal:
    """The refusal of law 2.3: does a result dimension start inside the axis?"""
    what = f"the quantized axis of {source}"
    for group in groups:
        for digit in group.digits:
            for size, stride in zip(group.sizes, group.strides, strict=True):
                inside = digit.run.divides(stride) and stride.divides(digit.period)
                if inside and stride not in (digit.run, digit.period) and size != Extent(1):
                    return Illegal("axis-split", f"{target} cuts {what}, whose parameters differ")
    return Illegal("axis-merge", f"{target} merges part of {what} with its neighbours")

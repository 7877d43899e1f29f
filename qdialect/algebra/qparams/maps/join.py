"""Maps with several operands: concat and select (law 2.5)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from qdialect.algebra.qparams.legality import Illegal
from qdialect.algebra.qparams.maps.base import Array, IndexMap
from qdialect.algebra.qparams.maps.dims import Broadcast, split
from qdialect.algebra.qparams.parameter_array import (
    DYNAMIC,
    ParameterArray,
    Shape,
    cell_count,
    outgrown,
)
from qdialect.algebra.qparams.parameters import Layout


@dataclass(frozen=True)
class Concat(IndexMap):
    """The operands one after the other along `axis` (>= 0).

    Operands that all have the same field keep it; otherwise the result is quantized
    along `axis`, each operand repeating its pair over its length (per tensor) or
    giving its vector (per axis).  Never requantizes.
    """

    permutes: ClassVar[bool] = True

    axis: int

    def output_shape(self, in_shapes: Sequence[Shape]) -> Shape:
        """Extents summed along `axis`; ValueError where others differ."""
        first = in_shapes[0]
        if not 0 <= self.axis < len(first):
            raise ValueError(f"cannot concatenate along {self.axis} of rank {len(first)}")
        if all(shape == first for shape in in_shapes) and first[self.axis] != DYNAMIC:
            whole = list(first)
            whole[self.axis] *= len(in_shapes)
            return tuple(whole)
        return tuple(
            _total(sizes) if k == self.axis else _common(sizes)
            for k, sizes in enumerate(zip(*in_shapes, strict=True))
        )

    def apply(self, arrays: Sequence[Array], fill: ArrayLike = 0) -> Array:
        """The arrays one after the other."""
        return np.concatenate(arrays, self.axis)

    def pull_array(
        self, grids: Sequence[ParameterArray], layout: Layout
    ) -> ParameterArray | Illegal:
        """The grids one after the other, in blocks of their greatest common divisor."""
        shape = self.output_shape([grid.shape for grid in grids])
        parts = [self._sized(grid, shape) for grid in grids if grid.shape[self.axis] != 0]
        if self._all_equal(parts):
            blocks = self._along(parts[0].blocks, shape[self.axis])
            return parts[0].on(shape, blocks, parts[0].pairs)
        if shape[self.axis] == DYNAMIC:
            return Illegal("dynamic-shape", f"parts of unknown size along {self.axis} differ")
        elsewhere = any(k != self.axis for part in parts for k in part.blocked)
        if layout is Layout.TENSOR or (layout is Layout.AXIS and elsewhere):
            what = f"operands of a concat along {self.axis} to {shape}"
            return Illegal("concat-params", f"{what} have different parameters")
        blocks = self._along(_common_blocks(parts), self._unit(parts))
        if outgrown(
            [cell_count(s, b) for s, b in zip(shape, blocks, strict=True)],
            sum(part.pairs.size for part in parts),
        ):
            return Illegal("growth", f"parts of {shape} share only blocks of {blocks}")
        refined = [part.refined(blocks).pairs for part in parts]
        return parts[0].on(shape, blocks, np.concatenate(refined, self.axis))

    def push_array(
        self, out: ParameterArray, in_shapes: Sequence[Shape]
    ) -> list[ParameterArray] | Illegal:
        """The part of the grid for each operand."""
        sizes = [shape[self.axis] for shape in in_shapes]
        if DYNAMIC in sizes:
            if self.axis in out.blocked:
                return Illegal("dynamic-shape", f"parts of unknown size along {self.axis}")
            return [
                out.on(self._along(out.shape, size), self._along(out.blocks, size), out.pairs)
                for size in sizes
            ]
        grids: list[ParameterArray] = []
        for part, shape in zip(split(len(out.shape), self.axis, sizes), in_shapes, strict=True):
            if 0 in shape:
                one = np.reshape(out.pairs, -1)[:1]
                grids.append(out.on(shape, shape, np.reshape(one, (1,) * len(shape))))
                continue
            pulled = part.pull_array([out], Layout.BLOCK)
            if isinstance(pulled, Illegal):
                return pulled
            grids.append(pulled)
        return grids

    def _all_equal(self, parts: Sequence[ParameterArray]) -> bool:
        """The same field in all parts, and constant along the axis?"""
        first = self._along(parts[0].blocks, 0)
        return all(
            part.pairs.shape[self.axis] == 1
            and self._along(part.blocks, 0) == first
            and bool(np.all(part.pairs == parts[0].pairs))
            for part in parts
        )

    def _sized(self, part: ParameterArray, shape: Shape) -> ParameterArray:
        """An operand with the sizes filled in that the other operands know."""
        known = self._along(shape, part.shape[self.axis])
        blocks = [
            size if block == DYNAMIC else block
            for size, block in zip(known, part.blocks, strict=True)
        ]
        return part.on(known, blocks, part.pairs)

    def _unit(self, parts: Sequence[ParameterArray]) -> int:
        """The largest block along the axis that every cell boundary is a multiple of."""
        end = 0
        unit = 0
        for part in parts:
            unit = gcd(unit, end)
            if self.axis in part.blocked:
                unit = gcd(unit, part.blocks[self.axis])
            end += part.shape[self.axis]
        return unit if parts[-1].ragged(self.axis) else gcd(unit, end)

    def _along(self, blocks: Shape, block: int) -> Shape:
        return (*blocks[: self.axis], block, *blocks[self.axis + 1 :])


@dataclass(frozen=True)
class Select(IndexMap):
    """`mask ? operand 0 : operand 1`, both broadcast to `shape`.

    Legal when both operands have the same field there, whatever the mask.  `mask` is
    only needed for `apply` and `gather_index`: the flat mask over `shape`, row-major.
    """

    shape: Shape
    mask: tuple[bool, ...] | None = None

    def output_shape(self, in_shapes: Sequence[Shape]) -> Shape:
        """The broadcast shape of the data operands."""
        if len(in_shapes) != 2:
            raise ValueError(f"two data operands expected, got {len(in_shapes)}")
        for shape in in_shapes:
            self._spread().output_shape([shape])
        return self.shape

    def apply(self, arrays: Sequence[Array], fill: ArrayLike = 0) -> Array:
        """Elements of the first data operand where the condition holds, else of the second."""
        if self.mask is None:
            raise ValueError("a select without a constant mask has no index map")
        first, second = (self._spread().apply([array]) for array in arrays)
        return np.where(np.reshape(np.array(self.mask, np.bool_), self.shape), first, second)

    def pull_array(
        self, grids: Sequence[ParameterArray], layout: Layout
    ) -> ParameterArray | Illegal:
        """The grid of both data operands, if it is one."""
        spread: list[ParameterArray] = []
        for grid in grids:
            pulled = self._spread().pull_array([grid], layout)
            if isinstance(pulled, Illegal):
                return pulled
            spread.append(pulled.reduced())
        if not spread[0].equals(spread[1]):
            what = f"the operands of a select on {self.shape}"
            return Illegal("select-params", f"{what} have different parameters")
        return spread[0]

    def push_array(
        self, out: ParameterArray, in_shapes: Sequence[Shape]
    ) -> list[ParameterArray] | Illegal:
        """The grid for both data operands."""
        grids: list[ParameterArray] = []
        for shape in in_shapes:
            pushed = self._spread().push_array(out, [shape])
            if isinstance(pushed, Illegal):
                return pushed
            grids.extend(pushed)
        return grids

    def _spread(self) -> Broadcast:
        return Broadcast(self.shape)


def _total(sizes: Sequence[int]) -> int:
    return DYNAMIC if DYNAMIC in sizes else sum(sizes)


def _common(sizes: Sequence[int]) -> int:
    known = {size for size in sizes if size != DYNAMIC}
    if len(known) > 1:
        raise ValueError(f"concatenated operands have sizes {sorted(known)} along one dimension")
    return known.pop() if known else DYNAMIC


def _common_blocks(parts: Sequence[ParameterArray]) -> Shape:
    return tuple(
        gcd(*blocks) if blocks[0] != DYNAMIC else DYNAMIC
        for blocks in zip(*(part.blocks for part in parts), strict=True)
    )

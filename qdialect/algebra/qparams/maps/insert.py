"""A small tensor written into a big one (law 2.5)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd

import numpy as np
from numpy.typing import ArrayLike

from qdialect.algebra.qparams.legality import Illegal
from qdialect.algebra.qparams.maps.base import Array, IndexMap
from qdialect.algebra.qparams.maps.dims import Slice
from qdialect.algebra.qparams.parameter_array import (
    DYNAMIC,
    ParameterArray,
    Shape,
    cell_count,
    outgrown,
)
from qdialect.algebra.qparams.parameters import Layout


@dataclass(frozen=True)
class Insert(IndexMap):
    """Operand 0, with operand 1 at `starts[k] + i * steps[k]` (i < its extent) per dimension.

    Where the update has other parameters than what it replaces, so has the result there.
    """

    starts: Shape
    steps: Shape

    def output_shape(self, in_shapes: Sequence[Shape]) -> Shape:
        """The shape of the first operand; ValueError where the update does not fit."""
        if len(in_shapes) != 2:
            raise ValueError(f"two operands expected, got {len(in_shapes)}")
        whole, update = in_shapes
        if not len(whole) == len(update) == len(self.starts) == len(self.steps):
            raise ValueError(f"{self} does not fit ranks {len(whole)} and {len(update)}")
        for size, count, start, step in zip(whole, update, self.starts, self.steps, strict=True):
            last = start + (count - 1) * step
            if size != DYNAMIC and count > 0 and last >= size:
                raise ValueError(f"index {last} in an extent of {size}")
        return whole

    def apply(self, arrays: Sequence[Array], fill: ArrayLike = 0) -> Array:
        """A copy of the first array with the update in its place."""
        whole, update = arrays
        result = np.array(whole)
        if update.size:
            result[self._place(update.shape)] = update
        return result

    def pull_array(
        self, grids: Sequence[ParameterArray], layout: Layout
    ) -> ParameterArray | Illegal:
        """The grid with the parameters of the update in its place, in blocks that divide both."""
        whole, update = grids
        if 0 in update.shape:
            return whole
        replaced = self._replaced(whole, update.shape)
        if not isinstance(replaced, Illegal) and replaced.reduced().equals(update.reduced()):
            return whole
        if DYNAMIC in (*whole.shape, *update.shape):
            what = f"an update of a tensor of {whole.shape}"
            return Illegal("dynamic-shape", f"{what} has other parameters than what it replaces")
        blocks = [
            gcd(a, b) if count == size else 1
            for a, b, size, count in zip(
                whole.blocks, update.blocks, whole.shape, update.shape, strict=True
            )
        ]
        counts = [cell_count(n, b) for n, b in zip(whole.shape, blocks, strict=True)]
        if outgrown(counts, whole.pairs.size + update.pairs.size):
            return Illegal("growth", f"an update of {whole.shape} shares only blocks of {blocks}")
        pairs = np.array(whole.refined(tuple(blocks)).pairs)
        fine = update.refined(tuple(blocks)).pairs
        pairs[self._place(fine.shape)] = fine
        return whole.on(whole.shape, blocks, pairs)

    def push_array(
        self, out: ParameterArray, in_shapes: Sequence[Shape]
    ) -> list[ParameterArray] | Illegal:
        """The grid, and the part of it where the update is."""
        update = in_shapes[1]
        if 0 in update:
            one = np.reshape(np.reshape(out.pairs, -1)[:1], (1,) * len(update))
            return [out, out.on(update, update, one)]
        replaced = self._replaced(out, update)
        if isinstance(replaced, Illegal):
            return replaced
        return [out, replaced]

    def _replaced(self, whole: ParameterArray, update: Shape) -> ParameterArray | Illegal:
        """The parameters at the place of an update of this shape."""
        unknown = [k for k, n in enumerate(update) if n == DYNAMIC]
        if any(k in whole.blocked for k in unknown):
            return Illegal("dynamic-shape", f"an update of unknown size along {unknown[0]}")
        bounds = [
            (0, None, 1) if size == DYNAMIC or k not in whole.blocked else (s.start, s.stop, s.step)
            for k, (size, s) in enumerate(zip(update, self._place(update), strict=True))
        ]
        part = Slice(*zip(*bounds, strict=True)).pull_array([whole], Layout.BLOCK)
        if isinstance(part, Illegal):
            return part
        blocks = [
            block if k in part.blocked else size
            for k, (size, block) in enumerate(zip(update, part.blocks, strict=True))
        ]
        return part.on(update, blocks, part.pairs)

    def _place(self, update: Shape) -> tuple[slice, ...]:
        return tuple(
            slice(start, start + (max(size, 1) - 1) * step + 1, step)
            for size, start, step in zip(update, self.starts, self.steps, strict=True)
        )

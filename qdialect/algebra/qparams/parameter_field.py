"""A parameter field on a shape: per tensor, per axis and block grid in one structure.

Law 2.1: element i has the pair `params[i_0 // b_0, .., i_r // b_r]`.  Per tensor
is b = shape; per axis a is b_a = 1 and whole dimensions elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import prod

import numpy as np

from qdialect.algebra.qparams.legality import Illegal
from qdialect.algebra.qparams.parameter_array import (
    DYNAMIC,
    PAIR,
    ParameterArray,
    Shape,
    cell_count,
)
from qdialect.algebra.qparams.parameters import Layout, QParams, Storage

DEFAULT_CAP = 4
_ELEMENTS_PER_PAIR = 16


@dataclass(frozen=True)
class ParameterField:
    """Pairs (scale, zero point) on `shape`, one per cell of the grid of `blocks`.

    `blocks[k]` is the block size along dimension k; the whole dimension is
    `shape[k]` (`DYNAMIC` where the size is unknown: such a dimension is always one
    block).  A block size that does not divide its dimension leaves a short last
    block ("ragged").  `scales` (real units per step) and `zero_points` (steps) are
    packed as in `QParams`, row-major over `grid`.
    """

    storage: Storage
    expressed: str
    shape: Shape
    blocks: Shape
    scales: bytes
    zero_points: bytes

    @staticmethod
    def of(qparams: QParams, shape: Sequence[int]) -> ParameterField:
        """`qparams` laid on `shape` (`DYNAMIC` for an unknown size); not canonicalised.

        A quantized axis of unknown size has as many indices as there are scales.
        Raises ValueError when the parameters do not fit the shape.
        """
        sizes = tuple(shape)
        if qparams.layout is Layout.AXIS:
            sizes, blocks = _axis_blocks(qparams, sizes)
        elif qparams.layout is Layout.BLOCK:
            blocks = _grid_blocks(qparams, sizes)
        else:
            blocks = sizes
        return ParameterField(
            qparams.storage, qparams.expressed, sizes, blocks, qparams.scales, qparams.zero_points
        )

    # -- reading ----------------------------------------------------------

    @property
    def count(self) -> int:
        """Number of pairs stored."""
        return len(self.scales) // 8

    @property
    def is_per_tensor(self) -> bool:
        """Whether one pair holds for all elements."""
        return len(self.scales) == 8

    @property
    def grid(self) -> Shape:
        """Cells per dimension."""
        return tuple(cell_count(s, b) for s, b in zip(self.shape, self.blocks, strict=True))

    @property
    def blocked(self) -> tuple[int, ...]:
        """The dimensions along which there is more than one cell."""
        return tuple(k for k, n in enumerate(self.grid) if n != 1)

    @property
    def layout(self) -> Layout:
        """The plainest layout that holds `blocks`, whatever the values are."""
        if self.is_per_tensor:
            return Layout.TENSOR
        dims = self.blocked
        return Layout.AXIS if len(dims) == 1 and self.blocks[dims[0]] == 1 else Layout.BLOCK

    @property
    def elements(self) -> int | None:
        """Number of tensor elements, None while a dimension is unknown."""
        return None if DYNAMIC in self.shape else prod(self.shape)

    def same_params(self, other: ParameterField) -> bool:
        """Bit-for-bit equal parameters in the same blocks' order (law 2.7.1)."""
        return self.scales == other.scales and self.zero_points == other.zero_points

    def gives_same(self, other: ParameterField) -> bool:
        """Whether every element has the same pair here and in `other`, a field on the same
        shape: one field has many encodings (a vector in runs, blocks of it, finer blocks)."""
        if (self.storage, self.expressed) != (other.storage, other.expressed):
            return False
        here, there = self.to_array().pairs, other.to_array().pairs
        for k, (mine, theirs) in enumerate(zip(self.blocks, other.blocks, strict=True)):
            if mine == theirs or here.shape[k] == there.shape[k] == 1:
                continue
            # One element of each piece into which the blocks of both cut the dimension.
            size = max(self.shape[k], other.shape[k])
            steps = [size if block == DYNAMIC else block for block in (mine, theirs)]
            starts = np.unique(np.concatenate([np.arange(0, size, step) for step in steps]))
            here, there = (
                np.take(cells, starts // step, k)
                for cells, step in zip((here, there), steps, strict=True)
            )
        return bool(np.array_equal(here, there))

    # -- deriving ---------------------------------------------------------

    def uniform(self, shape: Shape) -> ParameterField:
        """This field's first pair over the whole of `shape`."""
        return ParameterField(
            self.storage, self.expressed, shape, shape, self.scales[:8], self.zero_points[:8]
        )

    def canonical(self) -> ParameterField:
        """The plainest, then coarsest, encoding with the same pair at every element (law 2.1).

        A per-axis vector constant in runs stays per axis.
        """
        if self.count <= 1:
            return self
        if _is_repeated(self.scales) and _is_repeated(self.zero_points):
            return self.uniform(self.shape)
        layout = self.layout
        return self.with_array(self.reduced.fitted(layout) or self.to_array())

    @cached_property
    def reduced(self) -> ParameterArray:
        """The coarsest grid of the parameters; many results may read one field."""
        return self.to_array().reduced()

    def to_array(self, first_slot: int | None = None) -> ParameterArray:
        """The parameters as an array; pairs get distinct slots from `first_slot` on."""
        params = np.zeros(self.count, PAIR)
        params["scale"] = np.frombuffer(self.scales, np.int64)
        params["zero_point"] = np.frombuffer(self.zero_points, np.int64)
        if first_slot is not None:
            params["slot"] = np.arange(first_slot, first_slot + self.count)
        return ParameterArray(self.storage, self.shape, self.blocks, np.reshape(params, self.grid))

    def with_array(self, grid: ParameterArray) -> ParameterField:
        """This storage and expressed type with the parameters of `grid`."""
        return ParameterField(
            self.storage,
            self.expressed,
            grid.shape,
            grid.blocks,
            np.ascontiguousarray(grid.pairs["scale"]).tobytes(),
            np.ascontiguousarray(grid.pairs["zero_point"]).tobytes(),
        )

    def to_qparams(self, *, canonical: bool = True) -> QParams:
        """The encoding of this field; lossless for storage, bounds and expressed type.

        Canonicalised downwards by value (grid -> axis -> tensor, bitwise equality of
        scales and zero points) unless told not to.
        """
        field = self.canonical() if canonical else self
        layout = field.layout
        dims = field.blocked
        if layout is Layout.TENSOR:
            dims, grid = (), ()
        elif layout is Layout.AXIS:
            grid = (field.count,)
        else:
            grid = field.grid
        blocks = tuple((k, field.blocks[k]) for k in dims)
        return QParams(
            self.storage, self.expressed, layout, blocks, grid, field.scales, field.zero_points
        )


def _is_repeated(packed: bytes) -> bool:
    return packed == packed[:8] * (len(packed) // 8)


def _axis_blocks(qparams: QParams, shape: Shape) -> tuple[Shape, Shape]:
    """Shape with the axis resolved, and its blocks."""
    axis = qparams.blocks[0][0]
    if not 0 <= axis < len(shape):
        raise ValueError(f"quantized axis {axis} is not a dimension of a rank {len(shape)} tensor")
    if shape[axis] not in (DYNAMIC, qparams.count):
        raise ValueError(f"{qparams.count} scales on axis {axis} of size {shape[axis]}")
    sizes = (*shape[:axis], qparams.count, *shape[axis + 1 :])
    return sizes, (*sizes[:axis], 1, *sizes[axis + 1 :])


def _grid_blocks(qparams: QParams, shape: Shape) -> Shape:
    """Block size of every dimension."""
    listed = dict(qparams.blocks)
    if any(not 0 <= k < len(shape) for k in listed) or len(qparams.grid) != len(shape):
        raise ValueError(f"a grid {qparams.grid} does not fit a rank {len(shape)} tensor")
    if any(shape[k] == DYNAMIC and qparams.grid[k] != 1 for k in listed):
        raise ValueError("a dimension of unknown size has more than one block")
    blocks = tuple(
        size if size == DYNAMIC else min(listed.get(k, size), size) for k, size in enumerate(shape)
    )
    if any(block == 0 < size for block, size in zip(blocks, shape, strict=True)):
        raise ValueError("block size 0")
    grid = tuple(cell_count(s, b) for s, b in zip(shape, blocks, strict=True))
    if grid != qparams.grid or prod(grid) != qparams.count:
        raise ValueError(f"grid {qparams.grid} of {qparams.count} pairs, blocks need {grid}")
    return blocks


def growth(before: Sequence[ParameterField], after: ParameterField) -> Fraction:
    """|parameters after| / |parameters of all operands|: what a legal move costs (law 2.2)."""
    return Fraction(after.count, sum(field.count for field in before))


def within_growth(
    before: Sequence[ParameterField],
    after: ParameterField,
    *,
    constant: bool,
    cap: int = DEFAULT_CAP,
) -> ParameterField | Illegal:
    """`after`, or a refusal when it holds too many parameters.

    Growth of at most 1 is always accepted.  More is accepted only for a constant
    (`constant`), up to max(cap * |before|, elements / 16) pairs.
    """
    source = sum(field.count for field in before)
    if after.count <= source:
        return after
    if not constant:
        return Illegal("growth", f"{source} parameters become {after.count} at run time")
    limit = max(cap * source, (after.elements or 0) // _ELEMENTS_PER_PAIR)
    if after.count <= limit:
        return after
    return Illegal("growth", f"{source} parameters become {after.count}, the cap is {limit}")

"""Index maps: how a movement op's result elements read its operands' elements.

Law 2.2: y[j] = x[phi(j)], integers move verbatim, and the result's field is
sigma' = sigma o phi.  `pull` computes it (dequantize moves from the operands to the
result); `push` goes the other way (quantize moves from the result to the operands).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import accumulate
from math import prod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from qdialect.algebra.qparams.legality import Code, Illegal
from qdialect.algebra.qparams.parameter_array import DYNAMIC, ParameterArray, Shape
from qdialect.algebra.qparams.parameter_field import ParameterField
from qdialect.algebra.qparams.parameters import Layout

Array = NDArray[Any]
_RICHNESS = {Layout.TENSOR: 0, Layout.AXIS: 1, Layout.BLOCK: 2}


class IndexMap(ABC):
    """One data movement.

    Shapes are in elements, `DYNAMIC` (-1) where a size is unknown.  All methods raise
    ValueError when the map does not fit the operand shapes: that is a malformed op,
    not a refusal.
    """

    code: ClassVar[Code] = "layout"
    """The code of a refusal because `layout` cannot hold the result."""

    permutes: ClassVar[bool] = False
    """The result has every element of all operands exactly once."""

    @abstractmethod
    def output_shape(self, in_shapes: Sequence[Shape]) -> Shape:
        """Shape of the result."""

    @abstractmethod
    def apply(self, arrays: Sequence[Array], fill: ArrayLike = 0) -> Array:
        """The movement itself; `fill` broadcasts to the result and goes where phi is undefined."""

    @abstractmethod
    def pull_array(
        self, grids: Sequence[ParameterArray], layout: Layout
    ) -> ParameterArray | Illegal:
        """A grid for sigma o phi, not necessarily the coarsest; operands are reduced.

        May give up early, with `self.code`, if the coarsest cannot fit `layout`.
        """

    @abstractmethod
    def push_array(
        self, out: ParameterArray, in_shapes: Sequence[Shape]
    ) -> list[ParameterArray] | Illegal:
        """Operand grids with sigma o phi = `out` (reduced), where they are determined."""

    def pull(
        self,
        fields: Sequence[ParameterField],
        *,
        structural: bool = False,
        layout: Layout | None = None,
    ) -> ParameterField | Illegal:
        """The result's field sigma o phi, canonical, or why there is none (law 2.2).

        `structural` treats any two stored pairs as different, whatever their values
        (for parameters that may still change); pairs of different operands differ too.
        `layout` is the richest the result may have: by default as rich as the
        richest operand, and at least per axis.
        """
        first = fields[0]
        if not all(_same_numbers(first, other) for other in fields):
            return _storage_mismatch(fields)
        out_shape = self.output_shape([field.shape for field in fields])
        if _uniform(fields, structural):
            return self.checked(first.uniform(out_shape))
        if 0 in out_shape or all(0 in field.shape for field in fields):
            return Illegal("empty", "a tensor without elements has no per-axis parameters")
        grids = _grids(fields, structural)
        if len(grids) == 1 and grids[0].pairs.size == 1:
            return self.checked(first.uniform(out_shape))
        limit = layout or _richest(fields)
        grid = self.pull_array(grids, limit)
        if isinstance(grid, Illegal):
            return grid
        fitted = grid.reduced().fitted(limit)
        return self.refusal(out_shape) if fitted is None else first.with_array(fitted)

    def push(
        self,
        out: ParameterField,
        in_shapes: Sequence[Sequence[int]],
        *,
        structural: bool = False,
        layout: Layout | None = None,
    ) -> tuple[ParameterField, ...] | Illegal:
        """Operand fields whose `pull` is exactly `out` (canonical), or why none is determined.

        Per tensor always works, whatever the fill of a pad: the integer fill is then
        the quantized fill value.
        """
        shapes = [tuple(shape) for shape in in_shapes]
        if not _compatible(self.output_shape(shapes), out.shape):
            raise ValueError(f"the result's parameters are for the shape {out.shape}")
        if out.is_per_tensor:
            return tuple(out.uniform(shape) for shape in shapes)
        if 0 in out.shape or all(0 in shape for shape in shapes):
            return Illegal("empty", "a tensor without elements has no per-axis parameters")
        limit = layout or _richest([out])
        grids = self.push_array(_grids([out], structural)[0], shapes)
        if isinstance(grids, Illegal):
            return grids
        fitted = [grid.reduced().fitted(limit) for grid in grids]
        fields = tuple(out.with_array(grid) for grid in fitted if grid is not None)
        return fields if len(fields) == len(grids) else self.refusal(out.shape)

    def gather_index(
        self, in_shapes: Sequence[Sequence[int]]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """phi itself on static shapes: operand number and flat index, -1 for a fill."""
        sizes = [prod(shape) for shape in in_shapes]
        starts = list(accumulate(sizes, initial=0))
        flat: list[Array] = [
            np.reshape(np.arange(start, start + size), tuple(shape))
            for start, size, shape in zip(starts, sizes, in_shapes, strict=False)
        ]
        index = np.asarray(self.apply(flat, -1), np.int64)
        operand = np.searchsorted(starts[1:], index, side="right")
        operand = np.where(index < 0, -1, operand)
        return operand, np.where(index < 0, -1, index - np.array(starts)[operand])

    @property
    def has_border(self) -> bool:
        """Whether phi may be undefined somewhere, so that results are not all copies."""
        return False

    @property
    def border_value(self) -> float:
        """The real number that `fill` stands for, where phi is undefined."""
        return 0.0

    def border_integers(self, fields: Sequence[ParameterField]) -> NDArray[np.int64] | Illegal:
        """`fill` for stored integers: q with (q - zero_point) * scale = `border_value` in
        every cell of the result that has a border, for operands with `fields`."""
        return np.zeros((), np.int64)

    def checked(self, out: ParameterField) -> ParameterField | Illegal:
        """`out`, a per-tensor result, or a refusal that depends on its values."""
        return out

    def refusal(self, out_shape: Shape) -> Illegal:
        """The refusal when `layout` cannot hold the result."""
        what = f"{type(self).__name__} to {out_shape}"
        return Illegal(self.code, f"{what}: no allowed layout holds the parameters")


def single(items: Sequence[Shape]) -> Shape:
    """The only operand shape of a map with one operand."""
    if len(items) != 1:
        raise ValueError(f"one operand expected, got {len(items)}")
    return items[0]


def _same_numbers(a: ParameterField, b: ParameterField) -> bool:
    return a is b or (a.storage == b.storage and a.expressed == b.expressed)


def _storage_mismatch(fields: Sequence[ParameterField]) -> Illegal:
    kinds = sorted({f"{field.storage}:{field.expressed}" for field in fields})
    return Illegal("storage-mismatch", f"operands are stored as {', '.join(kinds)}")


def _uniform(fields: Sequence[ParameterField], structural: bool) -> bool:
    """Is sigma one pair over all operands?"""
    first = fields[0]
    if len(fields) == 1:
        return first.is_per_tensor
    return (
        not structural
        and first.is_per_tensor
        and all(field.same_params(first) for field in fields[1:])
    )


def _richest(fields: Sequence[ParameterField]) -> Layout:
    return max((Layout.AXIS, *(field.layout for field in fields)), key=_RICHNESS.__getitem__)


def _grids(fields: Sequence[ParameterField], structural: bool) -> list[ParameterArray]:
    grids: list[ParameterArray] = []
    slot = 0
    for field in fields:
        grids.append(field.to_array(slot).reduced() if structural else field.reduced)
        slot += field.count
    return grids


def _compatible(a: Shape, b: Shape) -> bool:
    return len(a) == len(b) and all(x == y or DYNAMIC in (x, y) for x, y in zip(a, b, strict=True))

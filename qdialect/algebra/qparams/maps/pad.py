"""Pad: a border of a constant or of copies (law 2.5)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, isfinite
from struct import pack, unpack
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from qdialect.algebra.qparams.legality import Illegal
from qdialect.algebra.qparams.maps.base import Array, single
from qdialect.algebra.qparams.maps.dims import InPlace
from qdialect.algebra.qparams.maps.separable import Index
from qdialect.algebra.qparams.parameter_array import DYNAMIC, PAIR, ParameterArray, Shape
from qdialect.algebra.qparams.parameter_field import ParameterField
from qdialect.algebra.qparams.parameters import Layout, Storage

PadMode = Literal["constant", "edge", "reflect", "wrap"]

_UNIT_PAIR = np.array([(unpack("q", pack("d", 1.0))[0], 0, -1)], PAIR)[0]


@dataclass(frozen=True)
class Pad(InPlace):
    """`low[k]` elements before and `high[k]` after dimension k, as numpy's `mode`.

    A constant border of real `value` needs, in every cell it touches, a stored integer
    q in the storage bounds with (q - zero_point) * scale = value exactly.  Parameters
    of new indices of a quantized dimension copy their neighbour, or are (1.0, 0) where
    only that represents an integer `value`.

    `order_only`: the result is only compared (a max or min pool), so an infinite
    `value` may be the lowest or highest integer: order-preserving, not value-preserving.
    """

    low: tuple[int, ...]
    high: tuple[int, ...]
    mode: PadMode = "constant"
    value: float = 0.0
    order_only: bool = False

    def output_shape(self, in_shapes: Sequence[Shape]) -> Shape:
        """Extents and what is added at their ends; `DYNAMIC` stays."""
        shape = single(in_shapes)
        if not len(self.low) == len(self.high) == len(shape) or min(*self.low, *self.high, 0) < 0:
            raise ValueError(f"cannot pad {shape} by {self.low} and {self.high}")
        return tuple(
            DYNAMIC if size == DYNAMIC and low + high else size + low + high
            for size, low, high in zip(shape, self.low, self.high, strict=True)
        )

    def index(self, dim: int, size: int) -> Index | None:
        """The operand indices read; a constant border reads its neighbour's parameters."""
        if not self.low[dim] + self.high[dim]:
            return None
        mode = "edge" if self.mode == "constant" else self.mode
        return np.pad(np.arange(size), (self.low[dim], self.high[dim]), mode)

    def apply(self, arrays: Sequence[Array], fill: ArrayLike = 0) -> Array:
        """Padded with `fill` where the mode is constant."""
        (array,) = arrays
        if self.mode != "constant":
            return super().apply(arrays, fill)
        result = np.empty(self.output_shape([array.shape]), array.dtype)
        result[...] = fill
        inner = zip(self.low, array.shape, strict=True)
        result[tuple(slice(low, low + size) for low, size in inner)] = array
        return result

    def fill_integers(self, out: ParameterField) -> NDArray[np.int64] | Illegal:
        """The integers of a constant border, for a result with parameters `out`.

        Broadcasts to the result (one number for a per-tensor `out`).  Cells without a
        border hold their zero point.
        """
        grid = out.to_array()
        fills, bad = self._fills(grid)
        if bad.any():
            return self._unrepresentable(out.storage)
        for k in grid.blocked:
            cell = np.arange(out.shape[k]) // out.blocks[k]
            fills = np.take(fills, cell, k)
        return fills

    @property
    def border_value(self) -> float:
        """The constant that is filled in."""
        return self.value

    def border_integers(self, fields: Sequence[ParameterField]) -> NDArray[np.int64] | Illegal:
        """`fill_integers` for the field of the result."""
        out = self.pull(fields, layout=Layout.BLOCK)
        return out if isinstance(out, Illegal) else self.fill_integers(out)

    def checked(self, out: ParameterField) -> ParameterField | Illegal:
        """A refusal where the fill is no stored integer."""
        if not self.has_border:
            return out
        (scale,), (zero_point,) = unpack("d", out.scales), unpack("q", out.zero_points)
        if self._fill(scale, zero_point, out.storage) is None:
            return self._unrepresentable(out.storage)
        return out

    def pull_array(
        self, grids: Sequence[ParameterArray], layout: Layout
    ) -> ParameterArray | Illegal:
        """The grid padded; a refusal where the fill is no stored integer of a border cell."""
        copied = super().pull_array(grids, layout)
        if isinstance(copied, Illegal) or not self.has_border:
            return copied
        if not self._fills(copied)[1].any():
            return copied
        padded = [low + high > 0 for low, high in zip(self.low, self.high, strict=True)]
        blocks = [
            1 if padded[k] and k in copied.blocked else b for k, b in enumerate(copied.blocks)
        ]
        grid = copied.refined(tuple(blocks))
        bad = self._fills(grid)[1]
        unit = self._fill(1.0, 0, grid.storage)
        if unit is None or bool(np.any(bad & ~self._border(grid, whole=True))):
            return self._unrepresentable(grid.storage)
        return grid.on(grid.shape, grid.blocks, np.where(bad, _UNIT_PAIR, grid.pairs))

    @property
    def has_border(self) -> bool:
        """Whether the mode is constant and something is added."""
        return self.mode == "constant" and (any(self.low) or any(self.high))

    def _fills(self, grid: ParameterArray) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """The fill of every cell, and which cells have a border but no fill."""
        fills: NDArray[np.int64] = np.copy(grid.pairs["zero_point"])
        border = self._border(grid, whole=False)
        if not self.value and grid.storage.quantile is None:
            outside = (fills < grid.storage.min) | (fills > grid.storage.max)
            return fills, border & outside
        bad = np.zeros(fills.shape, np.bool_)
        scales = np.reshape(np.frombuffer(grid.pairs["scale"].tobytes(), np.float64), fills.shape)
        known: dict[tuple[float, int], int | None] = {}
        for cell in np.argwhere(border):
            at = tuple(cell)
            pair = (float(scales[at]), int(fills[at]))
            if pair not in known:
                known[pair] = self._fill(*pair, grid.storage)
            fill = known[pair]
            bad[at] = fill is None
            fills[at] = pair[1] if fill is None else fill
        return fills, bad

    def _border(self, grid: ParameterArray, *, whole: bool) -> NDArray[np.bool_]:
        """Which cells hold some border elements, or with `whole` nothing else."""
        counts = grid.pairs.shape
        found = np.zeros(counts, np.bool_)
        for k, (low, high) in enumerate(zip(self.low, self.high, strict=True)):
            if not low + high or (whole and counts[k] == 1):
                continue
            if counts[k] == 1:
                return np.ones(counts, np.bool_)
            size = grid.shape[k]
            first = np.arange(0, size, grid.blocks[k])
            last = np.minimum(first + grid.blocks[k], size) - 1
            if whole:
                first, last = last, first
            along: NDArray[np.bool_] = (first < low) | (last >= size - high)
            found |= np.reshape(along, [-1 if d == k else 1 for d in range(len(counts))])
        return found

    def _fill(self, scale: float, zero_point: int, storage: Storage) -> int | None:
        """The q in the storage bounds with (q - zero_point) * scale = value, if any.

        For a float storage only the zero point is tried, for a look-up table nothing.
        """
        if storage.quantile is not None or (storage.is_float and self.value):
            return None
        if not isfinite(self.value):
            lowest = {-inf: storage.min, inf: storage.max}.get(self.value)
            return lowest if self.order_only else None
        top, bottom = self.value.as_integer_ratio()
        scale_top, scale_bottom = scale.as_integer_ratio()
        steps, rest = divmod(top * scale_bottom, bottom * scale_top)
        fill = steps + zero_point
        return fill if rest == 0 and storage.min <= fill <= storage.max else None

    def _unrepresentable(self, storage: Storage) -> Illegal:
        return Illegal("pad-value", f"no {storage} integer stands for the border {self.value!r}")

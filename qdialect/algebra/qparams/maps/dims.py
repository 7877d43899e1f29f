"""Per-dimension movements: permute, slice, flip, tile, repeat, broadcast, resize (law 2.5)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from qdialect.algebra.qparams.legality import Illegal
from qdialect.algebra.qparams.maps.base import Array, single
from qdialect.algebra.qparams.maps.separable import Index, Separable
from qdialect.algebra.qparams.parameter_array import DYNAMIC, ParameterArray, Shape
from qdialect.algebra.qparams.parameters import Layout


class InPlace(Separable):
    """A separable map whose result dimension k reads operand dimension k."""

    def sources(self, rank: int) -> tuple[int | None, ...]:
        """Every dimension reads itself."""
        return tuple(range(rank))


@dataclass(frozen=True)
class Transpose(Separable):
    """Result dimension k reads operand dimension `perm[k]` (ONNX, StableHLO).

    A quantized axis a moves to `perm.index(a)`: the inverse permutation, always.
    """

    permutes: ClassVar[bool] = True

    perm: tuple[int, ...]

    def output_shape(self, in_shapes: Sequence[Shape]) -> Shape:
        """The extents permuted."""
        shape = single(in_shapes)
        if sorted(self.perm) != list(range(len(shape))):
            raise ValueError(f"{self.perm} is not a permutation of {len(shape)} dimensions")
        return tuple(shape[k] for k in self.perm)

    def sources(self, rank: int) -> tuple[int | None, ...]:
        """The permutation."""
        return self.perm

    def index(self, dim: int, size: int) -> Index | None:
        """None: all of every dimension in order."""
        return None


@dataclass(frozen=True)
class Slice(InPlace):
    """`x[starts[k]:stops[k]:steps[k], ..]` with Python's meaning per dimension.

    None is "from the end the step comes from" and "to the other end"; negative numbers
    count from the end, so `stop=-1` with a negative step is the last index, not "before
    index 0": write None for that.  On the quantized axis the vector is sliced alike.
    """

    starts: tuple[int | None, ...]
    stops: tuple[int | None, ...]
    steps: tuple[int, ...]

    @staticmethod
    def along(rank: int, axis: int, start: int | None, stop: int | None, step: int = 1) -> Slice:
        """A slice of one dimension."""
        whole: list[int | None] = [None] * rank
        starts, stops, steps = whole.copy(), whole.copy(), [1] * rank
        starts[axis], stops[axis], steps[axis] = start, stop, step
        return Slice(tuple(starts), tuple(stops), tuple(steps))

    def output_shape(self, in_shapes: Sequence[Shape]) -> Shape:
        """The extents of the slices; `DYNAMIC` where the size is."""
        shape = single(in_shapes)
        if not len(self.starts) == len(self.stops) == len(self.steps) == len(shape):
            raise ValueError(f"{self} does not fit rank {len(shape)}")
        return tuple(self._size(k, size) for k, size in enumerate(shape))

    def index(self, dim: int, size: int) -> Index | None:
        """The indices of a slice; None for a whole dimension."""
        taken = self._slice(dim)
        return None if taken == slice(None, None, 1) else np.arange(*taken.indices(size))

    def apply(self, arrays: Sequence[Array], fill: ArrayLike = 0) -> Array:
        """A view of the array."""
        return arrays[0][tuple(self._slice(k) for k in range(arrays[0].ndim))]

    def _slice(self, dim: int) -> slice:
        return slice(self.starts[dim], self.stops[dim], self.steps[dim])

    def _size(self, dim: int, size: int) -> int:
        if size == DYNAMIC:
            return DYNAMIC
        if self.starts[dim] is None and self.stops[dim] is None and self.steps[dim] == 1:
            return size
        return len(range(*self._slice(dim).indices(size)))


def split(rank: int, axis: int, sizes: Sequence[int]) -> tuple[Slice, ...]:
    """The parts of a split of `axis` into `sizes`, as slices."""
    parts: list[Slice] = []
    start = 0
    for size in sizes:
        parts.append(Slice.along(rank, axis, start, start + size))
        start += size
    return tuple(parts)


@dataclass(frozen=True)
class Flip(InPlace):
    """Reverses `dims`; a quantized axis among them has its vector reversed."""

    permutes: ClassVar[bool] = True

    dims: tuple[int, ...]

    def output_shape(self, in_shapes: Sequence[Shape]) -> Shape:
        """The extents as they are."""
        shape = single(in_shapes)
        if any(not 0 <= dim < len(shape) for dim in self.dims):
            raise ValueError(f"cannot flip dimensions {self.dims} of rank {len(shape)}")
        return shape

    def index(self, dim: int, size: int) -> Index | None:
        """Backwards along `dims`, else None."""
        return np.arange(size)[::-1] if dim in self.dims else None


@dataclass(frozen=True)
class Tile(InPlace):
    """`repeats[k]` copies of the tensor along dimension k, one after the other."""

    repeats: tuple[int, ...]

    def output_shape(self, in_shapes: Sequence[Shape]) -> Shape:
        """Extents times `repeats`."""
        return _scaled(single(in_shapes), self.repeats)

    def index(self, dim: int, size: int) -> Index | None:
        """The indices again and again; None without a repeat."""
        repeats = self.repeats[dim]
        return None if repeats == 1 else np.tile(np.arange(size), repeats)


@dataclass(frozen=True)
class RepeatInterleave(InPlace):
    """Every index of dimension k `repeats[k]` times in a row."""

    repeats: tuple[int, ...]

    def output_shape(self, in_shapes: Sequence[Shape]) -> Shape:
        """Extents times `repeats`."""
        return _scaled(single(in_shapes), self.repeats)

    def index(self, dim: int, size: int) -> Index | None:
        """Every index several times in a row; None without a repeat."""
        repeats = self.repeats[dim]
        return None if repeats == 1 else np.repeat(np.arange(size), repeats)


@dataclass(frozen=True)
class Broadcast(Separable):
    """numpy broadcasting to `shape` (ONNX Expand): dimensions are aligned at the end.

    An unknown operand dimension is taken to have the size it is broadcast to; an
    operand dimension other than 1 keeps its size where `shape` says unknown.
    """

    shape: Shape

    def output_shape(self, in_shapes: Sequence[Shape]) -> Shape:
        """`shape`, if the operand broadcasts to it; ValueError."""
        shape = single(in_shapes)
        new = len(self.shape) - len(shape)
        aligned = list(zip(shape, self.shape[max(new, 0) :], strict=False))
        if new < 0 or any(s not in (1, DYNAMIC, t) and t != DYNAMIC for s, t in aligned):
            raise ValueError(f"cannot broadcast {shape} to {self.shape}")
        sizes = (s if t == DYNAMIC and s != 1 else t for s, t in aligned)
        return (*self.shape[:new], *sizes)

    def sources(self, rank: int) -> tuple[int | None, ...]:
        """None for dimensions that the operand lacks."""
        new = len(self.shape) - rank
        return (*(None for _ in range(new)), *range(rank))

    def index(self, dim: int, size: int) -> Index | None:
        """None unless a dimension of size 1 becomes longer, or may: it is read by none for sure."""
        return None if size != 1 else np.zeros(max(self.shape[dim], 0), np.intp)

    def apply(self, arrays: Sequence[Array], fill: ArrayLike = 0) -> Array:
        """A read-only view of the array."""
        return np.broadcast_to(arrays[0], self.output_shape([arrays[0].shape]))


@dataclass(frozen=True)
class ResizeNearest(InPlace):
    """Nearest-neighbour resampling: result index j of dimension k reads `indices[k][j]`.

    None leaves a dimension alone.  How a framework rounds coordinates is settled by
    whoever builds the index vectors.  Along `unknown` dimensions neither size nor
    indices are known: legal when the parameters do not vary there.
    """

    indices: tuple[tuple[int, ...] | None, ...]
    unknown: tuple[int, ...] = ()

    def output_shape(self, in_shapes: Sequence[Shape]) -> Shape:
        """One extent per list of indices."""
        shape = single(in_shapes)
        if len(self.indices) != len(shape):
            raise ValueError(f"{len(self.indices)} index vectors for rank {len(shape)}")
        return tuple(
            DYNAMIC if k in self.unknown else size if index is None else len(index)
            for k, (size, index) in enumerate(zip(shape, self.indices, strict=True))
        )

    def pull_array(
        self, grids: Sequence[ParameterArray], layout: Layout
    ) -> ParameterArray | Illegal:
        """As a separable map; a refusal where unknown sizes decide what is read."""
        return self._undecided(grids[0]) or super().pull_array(grids, layout)

    def push_array(
        self, out: ParameterArray, in_shapes: Sequence[Shape]
    ) -> list[ParameterArray] | Illegal:
        """As a separable map; a refusal where unknown sizes decide what is read."""
        return self._undecided(out) or super().push_array(out, in_shapes)

    def _undecided(self, grid: ParameterArray) -> Illegal | None:
        if not set(self.unknown) & set(grid.blocked):
            return None
        return Illegal("dynamic-shape", "parameters vary along a dimension of unknown size")

    def index(self, dim: int, size: int) -> Index | None:
        """The indices of a dimension; None where it is not resized."""
        index = self.indices[dim]
        return None if index is None else np.array(index, np.intp)


def _scaled(shape: Shape, factors: tuple[int, ...]) -> Shape:
    if len(factors) != len(shape) or any(factor < 0 for factor in factors):
        raise ValueError(f"cannot repeat {shape} by {factors}")
    return tuple(
        size if factor == 1 else DYNAMIC if size == DYNAMIC else size * factor
        for size, factor in zip(shape, factors, strict=True)
    )

"""Reshapes that name dimensions rather than a target shape: squeeze, unsqueeze, flatten."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import ClassVar

from qdialect.algebra.qparams.legality import Code
from qdialect.algebra.qparams.maps.base import IndexMap
from qdialect.algebra.qparams.maps.composite import Composite
from qdialect.algebra.qparams.maps.dims import ResizeNearest
from qdialect.algebra.qparams.maps.reshape import Reshape
from qdialect.algebra.qparams.parameter_array import DYNAMIC, Shape


@dataclass(frozen=True)
class Squeeze(Composite):
    """Removes the size-1 dimensions `dims` (an unknown one is taken to be 1)."""

    permutes: ClassVar[bool] = True

    dims: tuple[int, ...]

    def steps(self, shape: Shape) -> Sequence[IndexMap]:
        """A reshape without the dimensions."""
        if any(not 0 <= dim < len(shape) or shape[dim] not in (1, DYNAMIC) for dim in self.dims):
            raise ValueError(f"cannot squeeze dimensions {self.dims} of {shape}")
        remaining = tuple(size for k, size in enumerate(shape) if k not in self.dims)
        groups = tuple((1, 0 if k in self.dims else 1) for k in range(len(shape)))
        return (Reshape(remaining, groups),)


@dataclass(frozen=True)
class Unsqueeze(Composite):
    """Inserts dimensions of size 1 such that they are `dims` of the result."""

    permutes: ClassVar[bool] = True

    dims: tuple[int, ...]

    def steps(self, shape: Shape) -> Sequence[IndexMap]:
        """A reshape with the dimensions."""
        rank = len(shape) + len(set(self.dims))
        if any(not 0 <= dim < rank for dim in self.dims):
            raise ValueError(f"cannot unsqueeze dimensions {self.dims} of {shape}")
        sizes = iter(shape)
        target = tuple(1 if k in self.dims else next(sizes) for k in range(rank))
        groups = tuple((0 if k in self.dims else 1, 1) for k in range(rank))
        return (Reshape(target, groups),)


@dataclass(frozen=True)
class First(Composite):
    """Index 0 of dimensions `dims`, which stay with size 1 (`keep`) or are removed: where
    parameters that do not vary there are after a reduction."""

    dims: tuple[int, ...]
    keep: bool = True

    def steps(self, shape: Shape) -> Sequence[IndexMap]:
        """A resize to index 0 of the dimensions, and a squeeze."""
        if any(not 0 <= dim < len(shape) for dim in self.dims):
            raise ValueError(f"cannot reduce dimensions {self.dims} of {shape}")
        taken = ResizeNearest(tuple((0,) if k in self.dims else None for k in range(len(shape))))
        return (taken,) if self.keep else (taken, Squeeze(self.dims))


@dataclass(frozen=True)
class Flatten(Composite):
    """Merges dimensions `start` to `end` (exclusive, start < end) into one."""

    permutes: ClassVar[bool] = True

    start: int
    end: int
    code: ClassVar[Code] = "axis-merge"

    def steps(self, shape: Shape) -> Sequence[IndexMap]:
        """A reshape that merges the dimensions."""
        if not 0 <= self.start < self.end <= len(shape):
            raise ValueError(f"cannot flatten dimensions {self.start} to {self.end} of {shape}")
        merged = shape[self.start : self.end]
        size = DYNAMIC if DYNAMIC in merged else prod(merged)
        before, after = shape[: self.start], shape[self.end :]
        groups = (*((1, 1),) * len(before), (len(merged), 1), *((1, 1),) * len(after))
        return (Reshape((*before, size, *after), groups),)

"""Gathers and scatters of StableHLO: which dimensions index, and which are moved whole.

`scatter` writes what `gather` reads, so both state the same of an array, indices and windows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute

from qdialect.dialects.stablehlo.attributes import RecordAttr
from qdialect.upstream.inference.bodies import reduced
from qdialect.upstream.inference.view import Inferred, Rule, View, demand
from qdialect.upstream.shapes import (
    Shape,
    element_or_self,
    fit,
    have_fitting_shapes,
    listed,
    shape_of,
)

Dims = Sequence[int]


@dataclass(frozen=True)
class _Numbers:
    """The dimension numbers of a gather or scatter."""

    window: Dims
    """Dimensions of the windows, among those of what is gathered or written."""
    dropped: Dims
    """Dimensions of the array of which windows have one place."""
    batches: Dims
    index_batches: Dims
    mapped: Dims
    """Dimensions of the array that an index gives places of."""
    vector: int
    """The dimension along which an index lies."""

    def check(self, shape: Shape, indices: Shape, moved: int) -> None:
        """VerifyException unless they fit to an array and to indices; `moved`: the rank of what
        is gathered or written."""
        rank = len(shape)
        kinds = {"window": self.window, "dropped": self.dropped, "batching": self.batches}
        demand(
            sum(map(len, kinds.values())) == rank,
            f"dimension numbers must divide the {rank} dimensions of the operand, but have "
            + ", ".join(f"{len(dims)} {name}" for name, dims in kinds.items()),
        )
        for name, dims in kinds.items():
            demand(sorted(dims) == [*dims], f"{name} dimensions must be sorted: {[*dims]}")
        _different(self.window, moved, "window dimensions")
        _different([*self.dropped, *self.batches], rank, "dropped and batching dimensions")
        _different([*self.mapped, *self.batches], rank, "indexed and batching dimensions")
        demand(
            0 <= self.vector <= len(indices),
            f"index_vector_dim must be at most {len(indices)}, but is {self.vector}",
        )
        _different(self.index_batches, len(indices), "batching dimensions of indices")
        demand(
            self.vector not in self.index_batches and len(self.batches) == len(self.index_batches),
            f"indices must be batched along other dimensions than {self.vector}, "
            f"as many as the operand: {[*self.index_batches]} and {[*self.batches]}",
        )
        sides = [
            tuple(s[d] for d in dims)
            for s, dims in ((shape, self.batches), (indices, self.index_batches))
        ]
        demand(fit(*sides), f"batches must have one size: {listed(sides[0])}, {listed(sides[1])}")
        count = 1 if self.vector == len(indices) else indices[self.vector]
        demand(
            count in (-1, len(self.mapped)),
            f"an index has {count} numbers, for dimensions {[*self.mapped]}",
        )

    def others(self, indices: Shape) -> Shape:
        """The extents of indices but along the dimension in which an index lies."""
        return tuple(n for d, n in enumerate(indices) if d != self.vector)

    def kept(self, shape: Sequence[int]) -> list[int]:
        """Of the numbers of each dimension of the array, those of windows."""
        gone = {*self.dropped, *self.batches}
        return [n for d, n in enumerate(shape) if d not in gone]


def _different(dims: Dims, rank: int, what: str) -> None:
    demand(
        len({*dims}) == len(dims) and all(0 <= d < rank for d in dims),
        f"{what} must be different ones of {rank}, from 0, but are {[*dims]}",
    )


def _numbers(v: View, name: str, *fields: str) -> _Numbers:
    found = v.attribute(name)
    demand(isinstance(found, RecordAttr), f"{name} cannot be {found}")
    values = cast("RecordAttr", found).values
    lists = (cast("Dims", values[field] or ()) for field in fields)
    return _Numbers(*lists, vector=cast("int", values["index_vector_dim"] or 0))


def _gather(v: View) -> Sequence[Inferred]:
    dims = _numbers(
        v,
        "dimension_numbers",
        "offset_dims",
        "collapsed_slice_dims",
        "operand_batching_dims",
        "start_indices_batching_dims",
        "start_index_map",
    )
    shape, indices = v.shape("operand") or (), v.shape("start_indices") or ()
    rank = len(dims.window) + len(dims.others(indices))
    dims.check(shape, indices, rank)
    sizes = _slice_sizes(v, len(shape))
    for d, (size, n) in enumerate(zip(sizes, shape, strict=True)):
        demand(
            size <= n or n < 0,
            f"slice_sizes must be at most {listed(shape)}, but are {[*sizes]}",
        )
        demand(
            size <= 1 or d not in (*dims.dropped, *dims.batches),
            f"dimension {d} is dropped or batching, so its slice has one place, not {size}",
        )
    inner, outer = iter(dims.kept(sizes)), iter(dims.others(indices))
    found = tuple(next(inner if d in dims.window else outer) for d in range(rank))
    return [Inferred(found, v.element("operand"))]


def _slice_sizes(v: View, rank: int) -> Sequence[int]:
    if v.op.name == "stablehlo.gather":
        sizes = v.integers("slice_sizes")
    else:
        given, count = v.constant("slice_sizes"), (v.shape("slice_sizes") or (-1,))[0]
        sizes = [-1] * (rank if count < 0 else count) if given is None else [int(n) for n in given]
        demand(given is None or min(sizes, default=0) >= 0, f"slice_sizes are negative: {sizes}")
    demand(len(sizes) == rank, f"slice_sizes must have {rank} numbers, but has {len(sizes)}")
    demand(
        min(sizes, default=0) >= 0 or v.op.name != "stablehlo.gather",
        f"slice_sizes must not be negative: {[*sizes]}",
    )
    return sizes


def _scatter(v: View) -> Sequence[Inferred]:
    dims = _numbers(
        v,
        "scatter_dimension_numbers",
        "update_window_dims",
        "inserted_window_dims",
        "input_batching_dims",
        "scatter_indices_batching_dims",
        "scatter_dims_to_operand_dims",
    )
    inputs, updates, indices = v.kinds("inputs"), v.kinds("updates"), v.shape("scatter_indices")
    assert indices is not None
    for name, kinds in (("inputs", inputs), ("updates", updates)):
        demand(have_fitting_shapes(kinds), f"{name} must have one shape")
    scalars: list[Attribute] = [TensorType(element_or_self(kind), []) for kind in updates]
    returned = reduced(v, 0, inputs, scalars)
    outer = dims.others(indices)
    for given, update in zip(inputs, updates, strict=True):
        shape, written = shape_of(given) or (), shape_of(update) or ()
        dims.check(shape, indices, len(written))
        demand(
            len(written) == len(outer) + len(dims.window),
            f"updates must have {len(outer) + len(dims.window)} dimensions, but are {update}",
        )
        windows = [written[d] for d in dims.window]
        demand(
            all(a < 0 or b < 0 or a <= b for a, b in zip(windows, dims.kept(shape), strict=True)),
            f"updates of {update} are larger than {given}",
        )
        rest = tuple(n for d, n in enumerate(written) if d not in dims.window)
        demand(fit(rest, outer), f"updates of {update} do not fit to indices of {listed(indices)}")
    return [
        Inferred(shape_of(given), element_or_self(kind))
        for given, kind in zip(inputs, returned, strict=True)
    ]


RULES: Mapping[str, Rule] = {
    "dynamic_gather": _gather,
    "gather": _gather,
    "scatter": _scatter,
}

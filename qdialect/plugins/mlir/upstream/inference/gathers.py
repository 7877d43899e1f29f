"""Gathers and scatters of StableHLO: which dimensions index, and which are moved whole.

`scatter` writes what `gather` reads, so both state the same of an array, indices and windows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from qdialect.plugins.mlir.upstream.inference.bodies import reduced, scalar
from qdialect.plugins.mlir.upstream.inference.view import (
    Inferred,
    Results,
    Rule,
    View,
    at_least,
    demand,
    dimensions,
    must_agree,
    must_be,
    must_fit,
    types,
)
from qdialect.plugins.mlir.upstream.shapes import (
    Shape,
    element_or_self,
    have_fitting_shapes,
    listed,
    shape_of,
)
from qdialect.plugins.stablehlo.dialect.attributes import RecordAttr

Dims = Sequence[int]


class _Numbers(NamedTuple):
    """The dimension numbers of a gather or scatter, in the order of their attributes."""

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

    @staticmethod
    def of(v: View, name: str) -> _Numbers:
        """From an attribute."""
        values = v.record(name, RecordAttr).data
        demand(len(values) == len(_Numbers._fields), f"attribute '{name}' has other numbers")
        return _Numbers(*values)

    def check(self, shape: Shape, indices: Shape, moved: int) -> None:
        """VerifyException unless they fit to an array and to indices; `moved`: the rank of what
        is gathered or written."""
        rank, kinds = len(shape), (self.window, self.dropped, self.batches)
        must_be("number of window, dropped and batching dimensions", sum(map(len, kinds)), rank)
        ordered = all(sorted(dims) == [*dims] for dims in kinds)
        demand(ordered, f"window, dropped and batching dimensions must be sorted: {kinds}")
        dimensions("window dimensions", self.window, moved)
        dimensions("dropped and batching dimensions", (*self.dropped, *self.batches), rank)
        dimensions("indexed and batching dimensions", (*self.mapped, *self.batches), rank)
        dimensions("index_vector_dim", [self.vector], len(indices) + 1)
        dimensions("batching dimensions of indices", self.index_batches, len(indices))
        demand(self.vector not in self.index_batches, "index_vector_dim must not be batching")
        must_agree("numbers of batching dimensions", len(self.batches), len(self.index_batches))
        sizes = tuple(shape[d] for d in self.batches)
        must_fit("batches of indices", tuple(indices[d] for d in self.index_batches), sizes)
        count = 1 if self.vector == len(indices) else indices[self.vector]
        must_fit("an index", (count,), (len(self.mapped),))

    def others(self, indices: Shape) -> Shape:
        """The extents of indices but along the dimension in which an index lies."""
        return tuple(n for d, n in enumerate(indices) if d != self.vector)

    def kept(self, numbers: Sequence[int]) -> list[int]:
        """Of numbers for each dimension of the array, those of windows."""
        return [n for d, n in enumerate(numbers) if d not in (*self.dropped, *self.batches)]


def _gather(v: View) -> Results:
    return _gathered(v, v.integers("slice_sizes"))


def _dynamic_gather(v: View) -> Results:
    sizes, count = v.sizes("slice_sizes"), v.ranked("slice_sizes")[0]
    at_least(0, "slice_sizes", sizes or ())
    return _gathered(v, sizes if sizes is not None else (-1,) * count, given=sizes is not None)


def _gathered(v: View, sizes: Sequence[int], *, given: bool = True) -> Results:
    dims, shape = _Numbers.of(v, "dimension_numbers"), v.ranked("operand")
    outer = dims.others(v.ranked("start_indices"))
    rank = len(dims.window) + len(outer)
    dims.check(shape, v.ranked("start_indices"), rank)
    must_be("number of slice_sizes", len(sizes), len(shape))
    at_least(0, "slice_sizes", sizes if given else ())
    for d, (size, n) in enumerate(zip(sizes, shape, strict=True)):
        most = min(1 if d in (*dims.dropped, *dims.batches) else size, n if n >= 0 else size)
        demand(size <= most, f"slice size {size} of dimension {d} must be at most {most}")
    inner, rest = iter(dims.kept(sizes)), iter(outer)
    found = tuple(next(inner if d in dims.window else rest) for d in range(rank))
    return [Inferred(found, v.element("operand"))]


def _scatter(v: View) -> Results:
    dims = _Numbers.of(v, "scatter_dimension_numbers")
    inputs, updates, indices = v.kinds("inputs"), v.kinds("updates"), v.ranked("scatter_indices")
    for name, kinds in (("inputs", inputs), ("updates", updates)):
        demand(have_fitting_shapes(kinds), f"{name} must have one shape, but are {types(kinds)}")
    returned = reduced(v, 0, inputs, [scalar(kind) for kind in updates])
    outer = dims.others(indices)
    for given, update in zip(inputs, updates, strict=True):
        shape, written = shape_of(given) or (), shape_of(update) or ()
        must_be("rank of updates", len(written), len(outer) + len(dims.window))
        dims.check(shape, indices, len(written))
        windows = zip((written[d] for d in dims.window), dims.kept(shape), strict=True)
        inside = all(n < 0 or m < 0 or n <= m for n, m in windows)
        demand(inside, f"updates {listed(written)} are larger than {listed(shape)}")
        rest = tuple(n for d, n in enumerate(written) if d not in dims.window)
        must_fit("updates, but for windows,", rest, outer)
    pairs = zip(inputs, returned, strict=True)
    return [Inferred(shape_of(given), element_or_self(kind)) for given, kind in pairs]


RULES: Mapping[str, Rule] = {
    "dynamic_gather": _dynamic_gather,
    "gather": _gather,
    "scatter": _scatter,
}

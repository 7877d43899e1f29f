"""Constants of which a file has only some elements, as arrays with all of them.

`SparsityParameters` lists the dimensions in an order (`traversal_order`), those behind the rank
being blocks within the dimensions of `block_map`. Each is DENSE (all indices) or SPARSE_CSR: of
each index of the dimensions before, a segment of the list of indices that there are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray

LARGEST = 1 << 28
"""Elements of an array at most, however few of them a file has."""


def to_dense(
    values: NDArray[Any], shape: Sequence[int], sparsity: Mapping[str, Any]
) -> NDArray[Any]:
    """All elements, those that are not in `values` (rank 1) zero.

    Raises ValueError where order, segments or indices do not fit the shape.
    """
    import numpy as np

    rank, order = len(shape), _list(sparsity["traversal_order"])
    blocks = _list(sparsity["block_map"])
    levels: list[Any] = sparsity["dim_metadata"] or []
    if len(order) != len(levels) or len(order) != rank + len(blocks):
        raise ValueError("its order of dimensions does not fit its shape")
    if sorted(order[:rank]) != list(range(rank)):
        raise ValueError(f"its order of dimensions is {order}")
    if sorted(order[rank:]) != list(range(rank, len(order))) or len(set(blocks)) != len(blocks):
        raise ValueError(f"its order of blocks is {order[rank:]}")
    if prod(shape) > LARGEST:
        raise ValueError(f"an array of shape {list(shape)} is too large")
    extents = list(shape)
    sizes = [1] * rank
    for position, dimension in enumerate(blocks):
        if not 0 <= dimension < rank:
            raise ValueError(f"its blocks are of dimension {dimension}")
        level = order.index(rank + position, rank)
        sizes[dimension] = size = levels[level]["dense_size"]
        if size <= 0 or shape[dimension] % size:
            raise ValueError(f"blocks of {size} in {shape[dimension]}")
        extents[dimension] //= size
    extents += [sizes[dimension] for dimension in blocks]
    #: of each element found up to a level: its place in that level, and its indices
    places: NDArray[Any] = np.zeros(1, np.int64)
    found: NDArray[Any] = np.zeros((len(order), 1), np.int64)
    for number, (dimension, level) in enumerate(zip(order, levels, strict=True)):
        counts, places, indices = _step(places, level, extents[dimension])
        found = np.repeat(found, counts, axis=1)
        found[number] = indices
    if len(places) and places.max() >= len(values):
        raise ValueError(f"it has {len(values)} elements, too few")
    index = [np.zeros(len(places), np.int64) for _ in shape]
    for number, dimension in enumerate(order):
        if dimension < rank:
            index[dimension] += found[number] * sizes[dimension]
        else:
            index[blocks[dimension - rank]] += found[number]
    dense = np.zeros(shape, values.dtype)
    dense[tuple(index)] = values[places]
    return dense


def _step(
    places: NDArray[Any], level: Mapping[str, Any], extent: int
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Of each place in the level before, how many elements there are; their places in this level,
    and their indices."""
    import numpy as np

    if level["format"] == "DENSE":
        if level["dense_size"] != extent or len(places) * extent > LARGEST:
            raise ValueError(f"a dimension of {extent} has {level['dense_size']} indices")
        indices = np.arange(len(places) * extent) % max(extent, 1)
        return np.full(len(places), extent), np.repeat(places * extent, extent) + indices, indices
    segments, listed = _vector(level["array_segments"]), _vector(level["array_indices"])
    if len(places) and int(places.max()) + 1 >= len(segments):
        raise ValueError("segments are missing")
    if (np.diff(segments) < 0).any() or (segments < 0).any():
        raise ValueError("its segments are not in order")
    if len(listed) and (listed.min() < 0 or listed.max() >= extent):
        raise ValueError(f"an index is outside of a dimension of {extent}")
    starts, counts = segments[places], segments[places + 1] - segments[places]
    if counts.sum() > len(listed) or (starts + counts).max(initial=0) > len(listed):
        raise ValueError("its segments have more indices than there are")
    within: NDArray[Any] = np.arange(int(counts.sum())) - np.repeat(
        np.cumsum(counts) - counts, counts
    )
    found: NDArray[Any] = np.repeat(starts, counts) + within
    return counts, found, listed[found]


def _list(vector: Any) -> list[int]:
    return [] if vector is None else vector.tolist()


def _vector(union: Any) -> NDArray[Any]:
    """The numbers of a `SparseIndexVector`; ValueError where there are none."""
    import numpy as np

    if union is None or union[1]["values"] is None:
        raise ValueError("it lacks segments or indices")
    return union[1]["values"].astype(np.int64)

"""Large arrays a piece at a time, for what makes wider numbers of each element on the way."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

PIECE = 1 << 20
"""Elements that are looked at together."""


def chunks(shape: Sequence[int], most: int = PIECE) -> Iterator[tuple[Any, ...]]:
    """Indices of pieces (arrays, also of what has no dimension) of at most `most` elements or
    one slice, cut along the longest dimension; of all of it if that is little."""
    size = 1
    for extent in shape:
        size *= extent
    if size <= most:
        yield (slice(None),) * len(shape) or (...,)
        return
    along = max(range(len(shape)), key=lambda d: shape[d])
    count = max(most * shape[along] // size, 1)
    for start in range(0, shape[along], count):
        piece = slice(start, start + count)
        yield tuple(piece if d == along else slice(None) for d in range(len(shape)))

"""STRIDED_SLICE with all its masks as bounds of each dimension."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from qdialect.plugins.common.raising.errors import Unraisable
from qdialect.plugins.tflite.raising.node import Node


@dataclass(frozen=True)
class Slices:
    """What is taken of each dimension (start, stop, step; None for all up to an end), which
    dimensions are dropped then, and where new ones come in."""

    taken: Sequence[tuple[int | None, int | None, int]]
    dropped: Sequence[int]
    #: positions among the dimensions of the result
    added: Sequence[int]

    def bounds(self, shape: Sequence[int]) -> list[tuple[int | None, int | None, int]]:
        """Bounds as numpy has them, for an operand of `shape`."""
        return [_clamped(bounds, size) for bounds, size in zip(self.taken, shape, strict=True)]

    def shape(self, taken: Sequence[int]) -> tuple[int, ...]:
        """The shape of the result, of elements in the shape `taken`."""
        shape = [n for d, n in enumerate(taken) if d not in self.dropped]
        for place in self.added:
            shape.insert(place, 1)
        return tuple(shape)


def _clamped(
    bounds: tuple[int | None, int | None, int], size: int
) -> tuple[int | None, int | None, int]:
    """Bounds with which numpy takes the same: a stop below 0 counts from the end there."""
    start, stop, step = bounds
    if size < 0:
        return bounds
    if start is not None:
        start = start + size if start < 0 else start
        start = min(max(start, 0), size) if step > 0 else min(max(start, -1), size - 1)
        if start < 0:
            return (0, 0, 1)
    if stop is not None:
        stop = stop + size if stop < 0 else stop
        stop = min(max(stop, 0), size) if step > 0 else min(max(stop, -1), size - 1)
        if stop < 0:
            stop = None
    return start, stop, step


def slices_of(node: Node, shape: Sequence[int]) -> Slices:
    """What a `STRIDED_SLICE` of an operand of `shape` takes."""
    begin, end, step = (node.integers(place) for place in (1, 2, 3))
    masks = {
        name: node.number(f"{name}_mask")
        for name in ("begin", "end", "ellipsis", "new_axis", "shrink_axis")
    }
    if node.flag("offset"):
        end = [a + n for a, n in zip(begin, end, strict=True)]
    count = len(begin)
    ellipses = [i for i in range(count) if masks["ellipsis"] >> i & 1]
    if len(ellipses) > 1:
        raise Unraisable("masks", "it has several ellipses")
    new = [i for i in range(count) if masks["new_axis"] >> i & 1 and i not in ellipses]
    explicit = count - len(ellipses) - len(new)
    rank = len(shape)
    if explicit > rank:
        raise Unraisable("masks", f"it slices {explicit} dimensions of {rank}")
    taken: list[tuple[int | None, int | None, int]] = []
    dropped: list[int] = []
    added: list[int] = []
    results = 0
    for i in range(count):
        if i in ellipses:
            taken += [(None, None, 1)] * (rank - explicit)
            results += rank - explicit
        elif i in new:
            added.append(results)
            results += 1
        else:
            is_dropped = bool(masks["shrink_axis"] >> i & 1)
            taken.append(_taken(i, (begin[i], end[i], step[i]), masks, is_dropped))
            if is_dropped:
                dropped.append(len(taken) - 1)
            else:
                results += 1
    taken += [(None, None, 1)] * (rank - len(taken))
    return Slices(taken, dropped, added)


def _taken(
    i: int, given: tuple[int, int, int], masks: dict[str, int], is_dropped: bool
) -> tuple[int | None, int | None, int]:
    begin, end, step = given
    if not step:
        raise Unraisable("stride", "it has a stride of 0")
    if is_dropped:
        return begin, (None if begin == -1 else begin + 1), 1
    start = None if masks["begin"] >> i & 1 else begin
    stop = None if masks["end"] >> i & 1 else end
    return start, stop, step

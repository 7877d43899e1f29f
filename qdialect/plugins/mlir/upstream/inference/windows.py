"""Windows of StableHLO: of convolutions, reductions and what they are undone with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from qdialect.plugins.mlir.upstream.inference.view import View, at_least, must_be
from qdialect.plugins.mlir.upstream.shapes import Shape, shape_of


class Window(NamedTuple):
    """How a window moves along each dimension."""

    size: Sequence[int]
    strides: Sequence[int]
    base: Sequence[int]
    spread: Sequence[int]
    padding: Sequence[tuple[int, int]]

    @staticmethod
    def of(v: View, size: Sequence[int], dilations: tuple[str, str]) -> Window:
        """From the attributes of an op; dilations: what they are called, of the input and of the
        window."""
        rank = len(size)
        lists: list[Sequence[int]] = []
        for name in ("window_strides", *dilations, "window_reversal"):
            (numbers,) = v.counted(rank, name) if v.integers(name) else ((1,) * rank,)
            lists.append(numbers)
            if name != "window_reversal":
                at_least(1, name, numbers)
        at_least(1, "window", [n for n in size if n >= 0])
        padding: Any = v.attribute("padding")
        if padding is None:
            return Window(size, lists[0], lists[1], lists[2], [(0, 0)] * rank)
        must_be("shape of padding", shape_of(padding.type), (rank, 2))
        numbers = v.integers("padding")
        pairs = list(zip(numbers[::2], numbers[1::2], strict=True))
        return Window(size, lists[0], lists[1], lists[2], pairs)

    def extents(self, shape: Sequence[int]) -> Shape:
        """How many windows there are in an input."""
        return tuple(
            -1
            if min(n, size) < 0
            else _count(low + _dilated(n, base) + high, _dilated(size, spread), stride)
            for n, size, stride, base, spread, (low, high) in zip(shape, *self, strict=True)
        )


def _dilated(size: int, dilation: int) -> int:
    return (size - 1) * dilation + 1 if size else 0


def _count(size: int, window: int, stride: int) -> int:
    return (size - window) // stride + 1 if 0 < window <= size else 0

"""Windows of StableHLO: of convolutions, reductions and what they are undone with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from xdsl.ir import Attribute

from qdialect.upstream.inference.view import View, demand
from qdialect.upstream.shapes import Shape, listed, shape_of


@dataclass(frozen=True)
class Window:
    """How a window moves along each dimension."""

    size: Sequence[int]
    strides: Sequence[int]
    base: Sequence[int]
    spread: Sequence[int]
    padding: Sequence[tuple[int, int]] | None
    """None where it is known at run time only."""

    @staticmethod
    def of(v: View, size: Sequence[int], *, base: str, spread: str) -> Window:
        """From the attributes of an op; `base` and `spread` name those that dilate the input
        and the window."""
        rank = len(size)
        lists: dict[str, Sequence[int]] = {}
        for name in ("window_strides", base, spread, "window_reversal"):
            numbers = v.integers(name) or (1,) * rank
            demand(
                len(numbers) == rank,
                f"{name} must have {rank} numbers, one for each dimension, but has {len(numbers)}",
            )
            lists[name] = numbers
        del lists["window_reversal"]
        for name, numbers in {"window": [n for n in size if n >= 0], **lists}.items():
            demand(min(numbers, default=1) > 0, f"{name} must be positive: {[*numbers]}")
        return Window(size, *lists.values(), padding=_padding(v, rank))

    def extents(self, shape: Sequence[int]) -> Shape:
        """How many windows there are in an input."""
        pads = self.padding
        return tuple(
            -1
            if n < 0 or self.size[d] < 0 or pads is None
            else _count(
                pads[d][0] + _dilated(n, self.base[d]) + pads[d][1],
                _dilated(self.size[d], self.spread[d]),
                self.strides[d],
            )
            for d, n in enumerate(shape)
        )


def _padding(v: View, rank: int) -> Sequence[tuple[int, int]] | None:
    found: Attribute | Any = v.attribute("padding")
    if found is None:
        return None if v.op.name == "stablehlo.dynamic_conv" else [(0, 0)] * rank
    shape = shape_of(found.type)
    demand(
        shape == (rank, 2),
        f"padding must have two numbers for each of {rank} dimensions, but is {listed(shape)}",
    )
    numbers = v.integers("padding")
    return list(zip(numbers[::2], numbers[1::2], strict=True))


def _dilated(size: int, dilation: int) -> int:
    return (size - 1) * dilation + 1 if size else 0


def _count(size: int, window: int, stride: int) -> int:
    return (size - window) // stride + 1 if 0 < window <= size else 0

"""Windows as TFLite places them: SAME and VALID paddings as numbers of elements."""

from __future__ import annotations

from collections.abc import Sequence

from qdialect.plugins.common.raising.errors import Unraisable
from qdialect.plugins.tflite.raising.node import Node

_NAMES = {1: ("w",), 2: ("h", "w"), 3: ("d", "h", "w")}


def strides(node: Node, count: int) -> tuple[int, ...]:
    """The strides along the spatial dimensions."""
    return tuple(node.number(f"stride_{name}", 1) for name in _NAMES[count])


def dilations(node: Node, count: int) -> tuple[int, ...]:
    """The dilations along the spatial dimensions."""
    return tuple(node.number(f"dilation_{name}_factor", 1) for name in _NAMES[count])


def paddings(
    node: Node,
    size: Sequence[int],
    kernel: Sequence[int],
    stride: Sequence[int],
    dilation: Sequence[int],
) -> tuple[int, ...]:
    """Elements in front of each spatial dimension, then behind each: SAME makes ceil(n / s)
    results, and puts the odd element behind."""
    before: list[int] = []
    after: list[int] = []
    kind = str(node.option("padding", "SAME"))
    if kind not in ("SAME", "VALID"):
        raise Unraisable("padding", f"it pads '{kind}'")
    for n, k, s, d in zip(size, kernel, stride, dilation, strict=True):
        total = 0
        if kind == "SAME":
            total = total_padding(n, (k - 1) * d + 1, s)
        before.append(total // 2)
        after.append(total - total // 2)
    return (*before, *after)


def total_padding(size: int, reach: int, stride: int) -> int:
    """How many elements SAME adds to a dimension, for a window that reaches over `reach`."""
    if size < 0:
        if stride == 1:
            return reach - 1
        raise Unraisable("dynamic-shape", "how much it pads depends on an extent that is not known")
    return max((-(-size // stride) - 1) * stride + reach - size, 0)

"""Where the windows of convolutions and pools are, and how many elements they average."""

from __future__ import annotations

from collections.abc import Sequence
from math import lcm
from typing import TYPE_CHECKING, Any

import numpy as np

from qdialect.ir.behaviors.shapes import shape_of
from qdialect.ir.ops.base import NNOp
from qdialect.ir.ops.pooling import window_counts

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Geometry:
    """Where windows are: pads as (before, after) per dimension, strides, dilations, how much
    of the input's end no window reads, and the extents of the result."""

    def __init__(
        self,
        pads: Sequence[tuple[int, int]],
        strides: Sequence[int],
        dilations: Sequence[int],
        crops: Sequence[int],
        result: Sequence[int],
    ) -> None:
        self.pads = tuple(pads)
        self.strides = tuple(strides)
        self.dilations = tuple(dilations)
        self.crops = tuple(crops)
        self.result = tuple(result)


def fitted(
    size: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    pads: Sequence[int],
    dilations: Sequence[int],
    result: Sequence[int] | None = None,
) -> Geometry:
    """The same windows so that they fit evenly; `result` gives the number of windows where
    the pads do not."""
    rank = len(size)
    both: list[tuple[int, int]] = []
    crops: list[int] = []
    counts: list[int] = []
    for d in range(rank):
        before, after = pads[d], pads[d + rank]
        reach = (kernel[d] - 1) * dilations[d] + 1
        count = (size[d] + before + after - reach) // strides[d] + 1
        count = count if result is None else result[d]
        read = (count - 1) * strides[d] + reach
        after = read - before - size[d]
        both.append((before, max(after, 0)))
        crops.append(max(-after, 0))
        counts.append(count)
    return Geometry(both, strides, dilations, crops, counts)


def pool_windows(op: NNOp) -> Geometry:
    """The windows of a pool over [N, C, spatial...]."""
    v, size = op.values, shape_of(op.operands[0])[2:]
    dilations = v.get("dilations", (1,) * len(size))
    result = shape_of(op.results[0])[2:]
    return fitted(size, v["kernel"], v["strides"], v["pads"], dilations, result)


def mean_factors(op: NNOp) -> NDArray[np.int32] | None:
    """What the sum of each window of an average pool is multiplied with, [spatial...], so that
    all are divided by the same number; None if all windows have as many elements."""
    counts = window_counts(op)
    common = lcm(*{int(n) for n in counts.reshape(-1)})
    if (counts == common).all():
        return None
    return (common // counts).reshape(shape_of(op.results[0])[2:]).astype(np.int32)


def turned(weight: NDArray[Any], groups: int) -> NDArray[Any]:
    """The weight of a transposed convolution [in, out / groups, kernel...] as that of the
    convolution which gives the same, [out, in / groups, kernel backwards...]."""
    takes, gives, *kernel = weight.shape
    array = weight.reshape(groups, takes // groups, gives, *kernel).swapaxes(1, 2)
    array = np.flip(array, tuple(range(3, array.ndim)))
    return np.ascontiguousarray(array.reshape(groups * gives, takes // groups, *kernel))

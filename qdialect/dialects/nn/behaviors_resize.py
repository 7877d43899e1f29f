"""The declaration of bilinear resize."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any

from xdsl.ir import Operation

from qdialect.behaviors import Behavior, Port, axes
from qdialect.dialects.nn import behaviors_gains as gains
from qdialect.dialects.nn.base import shape_of
from qdialect.dialects.nn.behaviors_movement import values

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def _places(op: Operation, dim: int) -> tuple[NDArray[np.int64], NDArray[np.int64], Any]:
    """Per result index along `dim` the two elements it reads, and the weight of the second."""
    import numpy as np

    v = values(op)
    size, out = shape_of(op.operands[0])[dim], shape_of(op.results[0])[dim]
    single = np.float32
    given = v.get("scales")
    scale = single(given[dim]) if given else single(out) / single(max(size, 1))
    j, half, mode = np.arange(out, dtype=single), single(0.5), v["coordinates"]
    if mode == "asymmetric":
        at = j / scale
    elif mode == "align_corners":
        at = j * single(size - 1) / single(max(out - 1, 1))
    elif mode == "pytorch_half_pixel" and out == 1:
        at = np.zeros(1, single)
    else:
        at = (j + half) / scale - half
    at = np.clip(at, 0, size - 1).astype(np.float64)
    first = np.floor(at).astype(np.int64)
    return first, np.minimum(first + 1, size - 1), at - first


def _linear(op: Operation, x: Sequence[Any]) -> Any:
    """Between rows, then between columns; float64 holds the weights and their rests."""
    if 0 in shape_of(op.results[0]):
        raise ValueError("resizes nothing")
    first, second, weight = _places(op, 2)
    weight = weight.reshape(-1, 1)
    rows = x[0][:, :, first] * (1.0 - weight) + x[0][:, :, second] * weight
    first, second, weight = _places(op, 3)
    return rows[:, :, :, first] * (1.0 - weight) + rows[:, :, :, second] * weight


RESIZE_LINEAR = Behavior(
    "nn.resize_linear",
    (Port("input", axes=axes(0, 1)),),
    (Port("result", axes=axes(0, 1)),),
    arithmetic=_linear,
    interval=lambda op, x: x[0],
    work=lambda op: 4 * prod(shape_of(op.results[0])),
    gain=gains.unit,
)

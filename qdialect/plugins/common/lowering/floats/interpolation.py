"""Which elements a bilinear resize lies between, and where, in f32 as ONNX Runtime computes it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from qdialect.ir.ops.base import NNOp

if TYPE_CHECKING:
    from numpy.typing import NDArray


def linear_places(
    op: NNOp, size: int, count: int, dimension: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """Along a dimension of `nn.resize_linear` from `size` to `count` elements: of each result the
    element before it, the one after, and how far it is past the first (0 to 1)."""
    v = op.values
    if v.get("sizes") is not None:
        scale = np.float32(count) / np.float32(max(size, 1))
    else:
        scale = np.float32(v["scales"][dimension])
    at = np.clip(_coordinates(scale, size, count, v["coordinates"]).astype(np.float64), 0, size - 1)
    first = np.floor(at).astype(np.int64)
    return first, np.minimum(first + 1, size - 1), at - first


def _coordinates(scale: np.float32, size: int, count: int, mode: str) -> NDArray[Any]:
    """Where in the input each index of the result lies."""
    index = np.arange(count, dtype=np.float32)
    if mode == "asymmetric":
        return index / scale
    if mode in ("align_corners", "pytorch_half_pixel") and count == 1:
        return np.zeros(1, np.float32)
    if mode == "align_corners":
        return index * np.float32(size - 1) / np.float32(count - 1)
    return (index + np.float32(0.5)) / scale - np.float32(0.5)

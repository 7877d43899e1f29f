"""Which input index each result index of a nearest-neighbour resize reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from qdialect.ops.shapes import DYNAMIC, Shape

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class NearestIndices(NamedTuple):
    """Per dimension the indices read, None for all in order; and the dimensions where
    neither the size nor the indices are known (their entry is empty)."""

    indices: tuple[tuple[int, ...] | None, ...]
    unknown: tuple[int, ...]


def nearest_indices(shape: Shape, values: Mapping[str, Any]) -> NearestIndices:
    """What an `nn.resize_nearest` with properties `values` reads of an input of `shape`;
    the formulas are those of `ResizeNearestOp`."""
    rank = len(shape)
    sizes: Sequence[int | None] = values.get("sizes") or (None,) * rank
    scales: Sequence[float | None] = values.get("scales") or (None,) * rank
    result: list[tuple[int, ...] | None] = []
    unknown: list[int] = []
    for k, (size, out, scale) in enumerate(zip(shape, sizes, scales, strict=True)):
        if size != DYNAMIC:
            result.append(_along(size, out, scale, values))
        elif scale == 1.0:
            result.append(None)
        else:
            result.append(())
            unknown.append(k)
    return NearestIndices(tuple(result), tuple(unknown))


def _along(
    size: int, out: int | None, scale: float | None, values: Mapping[str, Any]
) -> tuple[int, ...] | None:
    import numpy as np

    one, half = np.float32(1), np.float32(0.5)
    factor = np.float32(scale) if scale is not None else np.float32(out) / np.float32(size or 1)
    count = out if out is not None else int(np.floor(np.float32(size) * factor))
    if count == size and factor == one:
        return None
    j = np.arange(count, dtype=np.float32)
    if values["coordinates"] == "asymmetric":
        x = j / factor
    elif values["coordinates"] == "half_pixel":
        x = (j + half) / factor - half
    else:
        x = j * np.float32(size - 1) / np.float32(max(count - 1, 1))
    index = np.clip(_nearest(x, values["nearest"]), 0, size - 1).astype(np.int64)
    return tuple(index.tolist())


def _nearest(x: NDArray[np.float32], mode: str) -> NDArray[np.float32]:
    import numpy as np

    if mode == "floor":
        return np.floor(x)
    if mode == "ceil":
        return np.ceil(x)
    half = np.float32(0.5)
    if mode == "round_prefer_floor":
        return np.ceil(x - half)
    return np.floor(x + half)

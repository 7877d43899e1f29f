"""How the numbers of a value are distributed, and the range that its codes can hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from qdialect.algebra.qparams import Layout

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qdialect.algebra.qparams import QParams
    from qdialect.quantizer.profile.distribution import Distribution

    Values = NDArray[Any]

BINS = 48


@dataclass(frozen=True)
class Histogram:
    """`counts` of equal bins from `start` to `stop`, which hold the data (`minimum` to
    `maximum`) and the range of its codes (`low` to `high`); `below` and `above` are the shares
    of the data beyond it."""

    key: str
    storage: str
    start: float
    stop: float
    counts: tuple[int, ...]
    minimum: float
    maximum: float
    low: float
    high: float
    below: float
    above: float


def range_of(params: QParams) -> tuple[float, float] | None:
    """The least and the largest number that codes mean, of all channels; None where codes are
    floats or a table."""
    import numpy as np

    storage = params.storage
    if storage.is_float or storage.quantile is not None or params.layout is Layout.BLOCK:
        return None
    scales = params.scale_array().astype(np.float64)
    zeros = params.zero_point_array().astype(np.float64)
    return (
        float(((storage.min - zeros) * scales).min()),
        float(((storage.max - zeros) * scales).max()),
    )


def of_values(
    key: str, storage: str, arrays: Sequence[Values], low: float, high: float
) -> Histogram | None:
    """Of numbers as they are; None where there are none."""
    import numpy as np

    values = np.concatenate([array.reshape(-1).astype(np.float64) for array in arrays])
    values = values[np.isfinite(values)]
    if not values.size:
        return None
    minimum, maximum = float(values.min()), float(values.max())
    start, stop = _extent(minimum, maximum, low, high)
    counts, _ = np.histogram(values, BINS, (start, stop))
    return Histogram(
        key,
        storage,
        start,
        stop,
        tuple(map(int, counts)),
        minimum,
        maximum,
        low,
        high,
        float((values < low).mean()),
        float((values > high).mean()),
    )


def of_distribution(
    key: str, storage: str, data: Distribution, low: float, high: float
) -> Histogram | None:
    """Of the bins of a profile: those on the border of two of ours are with the one that
    their middle is in."""
    import numpy as np

    if not data.size:
        return None
    start, stop = _extent(data.minimum, data.maximum, low, high)
    middles, weights = (data.left + data.right) / 2, data.counts
    if data.zeros:
        middles, weights = np.append(middles, 0.0), np.append(weights, data.zeros)
    counts, _ = np.histogram(middles, BINS, (start, stop), weights=weights)
    # A bin that is cut by an end of the range is in it: only what is beyond is clipped.
    return Histogram(
        key,
        storage,
        start,
        stop,
        tuple(map(int, counts)),
        data.minimum,
        data.maximum,
        low,
        high,
        float(data.counts[data.right < low].sum()) / data.size,
        float(data.counts[data.left > high].sum()) / data.size,
    )


def _extent(minimum: float, maximum: float, low: float, high: float) -> tuple[float, float]:
    start, stop = min(minimum, low), max(maximum, high)
    return (start, stop) if start < stop else (start - 0.5, stop + 0.5)

"""Codes on another scale: what each engine multiplies with, and what CONCATENATION makes of u8."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np

from qdialect.numerics.fixed_point import FixedPoint
from qdialect.numerics.litert_scales import Engine, fixed_point, rescale_of, single
from qdialect.numerics.rounding import Rounding
from qdialect.qparams import QParams

if TYPE_CHECKING:
    from numpy.typing import NDArray

Pair = tuple[FixedPoint, Rounding]
"""Multiplier and shift, and rounding."""


def requantization(engine: str, source: QParams, target: QParams, count: int) -> Pair | None:
    """How an engine makes `count` codes (-1: nobody knows) of `target` of codes of `source`; None
    where some are rounded in one way, and some in another. XNNPACK takes codes of one type."""
    if source.storage.width != 8 or target.storage.width != 8:
        return by_gemmlowp(source.scale / target.scale)
    elements = None if count < 0 else count
    return rescale_of(cast("Engine", engine), source.scale, target.scale, elements)


def by_gemmlowp(ratio: float) -> Pair:
    """With the two roundings of the reference kernels."""
    return fixed_point(ratio), Rounding.GEMMLOWP


def clamping(source: QParams, target: QParams) -> Pair:
    """How a clamp makes codes of `target`: as the reference kernels, by a ratio of 32 bits."""
    return by_gemmlowp(single(source.scale / target.scale))


def concatenated(source: QParams, target: QParams) -> NDArray[Any]:
    """What CONCATENATION makes of each u8 code, in float32: round((q m - z m) + z_y), halves away
    from zero, m = s_x (1 / s_y)."""
    scale = np.float32(source.scale) * (np.float32(1) / np.float32(target.scale))
    bias = np.float32(-source.zero_point) * scale
    steps = (np.arange(256, dtype=np.float32) * scale + bias).astype(np.float64)
    rounded = np.copysign(np.floor(np.abs(steps) + 0.5), steps) + target.zero_point
    return np.clip(rounded, 0, 255).astype(np.uint8)

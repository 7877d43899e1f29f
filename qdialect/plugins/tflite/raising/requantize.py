"""Codes on another scale: what each engine multiplies with."""

from __future__ import annotations

from typing import cast

from qdialect.algebra.fixed_point import FixedPoint
from qdialect.algebra.qparams import QParams
from qdialect.algebra.rounding import Rounding
from qdialect.plugins.tflite.numerics.scales import Engine, fixed_point, rescale_of, single

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

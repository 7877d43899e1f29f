"""The part of a range that a function tells apart.

A function that is flat at an end (hard-swish below -3, a sigmoid far from zero) makes the same
of all numbers there.  A range that ends where that begins loses nothing behind the function,
and its steps are finer where they matter.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from qdialect.profile.ranges import Range

if TYPE_CHECKING:
    from numpy.typing import NDArray

_POINTS = 4097
FLAT = 0.25
"""Steps of the result by which clipping an end may change it."""


def without_flat_tails(
    function: Callable[[NDArray[np.float64]], NDArray[Any]], found: Range, step: float
) -> Range:
    """The least range with zero such that clipping to it changes the function nowhere in
    `found` by more than `FLAT` steps of its result (`step` in real units); `found` where the
    function is not finite."""
    if found.degenerate or not step > 0:
        return found
    points = np.linspace(found.low, found.high, _POINTS)
    with np.errstate(all="ignore"):
        made = np.asarray(function(points), dtype=np.float64)
    if made.shape != points.shape or not np.isfinite(made).all():
        return found
    low = _flat_until(points, made, FLAT * step)
    high = -_flat_until(-points[::-1], made[::-1], FLAT * step)
    return replace(found, low=low, high=high)


def _flat_until(points: NDArray[np.float64], made: NDArray[np.float64], tolerance: float) -> float:
    """The last point up to zero, which is in every range, that the function differs from by
    `tolerance` at most in front of it."""
    above = np.maximum.accumulate(made) - made
    below = made - np.minimum.accumulate(made)
    flat = (np.maximum(above, below) <= tolerance) & (points <= 0)
    return float(points[np.flatnonzero(flat)[-1]])

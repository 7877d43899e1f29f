"""The values behind a sketch, as bins on the real line, without what only masks something.

**What counts as a mask.** Infinities do. So does a group of values at an end that is
`GAP` octaves further out than everything else, if it holds nothing but values of
magnitude 2**27 and more (-1e9, float32's minimum), or nothing but values around one of
the literals people mask with (-1e4, -65504, -1e5 ... on either side, plus or minus what
the other values may add to it). Everything else is data, however large.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from qdialect.quantizer.profile.sketch import HUGE, PER_OCTAVE, ZERO, Sketch

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Values = NDArray[np.float64]

GAP = 6
MASK_LITERALS = (1e4, 65504.0, 1e5, 1e6, 1e7, 1e8)
_SMALLEST_MASK = 8192.0


@dataclass(frozen=True)
class Distribution:
    """Data of one tensor or channel: bins [left, right] with counts, ascending.

    The bins are cut to [`minimum`, `maximum`], which are exact unless values of
    magnitude 2**27 and more are data. `zeros` counts values that are zero or too small
    to matter, `masked` what was left out as a mask, `nan` what was NaN.
    """

    left: NDArray[np.float64]
    right: NDArray[np.float64]
    counts: NDArray[np.int64]
    zeros: int
    minimum: float
    maximum: float
    masked: int
    nan: int

    @property
    def size(self) -> int:
        """How many values there are, zeros among them."""
        return int(self.counts.sum()) + self.zeros


def distribution(sketch: Sketch, row: int = 0, *, masks: bool = True) -> Distribution:
    """The data of one row of a sketch that keeps bins; without `masks` all finite numbers."""
    codes, counts = sketch.row_bins(row)
    zero = codes == ZERO
    zeros = int(counts[zero].sum())
    signs, inner, outer = sketch.row_edges(row)
    left, right = np.where(signs > 0, inner, -outer), np.where(signs > 0, outer, -inner)
    order = np.argsort(left)
    left, right, counts = left[order], right[order], counts[~zero][order]
    masked = int(sketch.low[row] + sketch.high[row])
    keep = ~_masks(left, right) if masks else np.ones(len(left), np.bool_)
    masked += int(counts[~keep].sum())
    cut = not keep.all()
    left, right, counts = left[keep], right[keep], counts[keep]
    minimum, maximum = float(sketch.minimum[row]), float(sketch.maximum[row])
    # Extremes that are masks, or not tracked because huge, give way to the edges of bins.
    if minimum > maximum:
        minimum, maximum = (0.0, 0.0) if not len(left) else (np.inf, -np.inf)
    if len(left):
        if left[0] <= -HUGE or (cut and minimum < left[0]) or minimum == np.inf:
            minimum = float(left[0])
        if right[-1] >= HUGE or (cut and maximum > right[-1]) or maximum == -np.inf:
            maximum = float(right[-1])
    elif cut:
        minimum = maximum = 0.0
    return Distribution(
        np.clip(left, minimum, maximum),
        np.clip(right, minimum, maximum),
        counts,
        zeros,
        minimum,
        maximum,
        masked,
        int(sketch.nan[row]),
    )


def _masks(left: NDArray[np.float64], right: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Which bins hold masks; see the module."""
    masks = np.zeros(len(left), np.bool_)
    inner = np.minimum(np.abs(left), np.abs(right))
    outer = np.maximum(np.abs(left), np.abs(right))
    # Both ends of one mask (0 and 1 times it) are found one after the other.
    for _ in range(2):
        for end in (-1, 1):
            rest = ~masks
            side = rest & (left < 0 if end < 0 else left >= 0)
            group = _outlying(inner, outer, side, rest)
            if group is not None:
                masks |= group
    return masks


def _outlying(
    inner: NDArray[np.float64],
    outer: NDArray[np.float64],
    side: NDArray[np.bool_],
    rest: NDArray[np.bool_],
) -> NDArray[np.bool_] | None:
    """The bins of one side that are masks of the others, or None."""
    magnitudes = np.unique(inner[side & (inner >= _SMALLEST_MASK)])[::-1]
    for start in magnitudes:
        group = side & (inner >= start)
        others = rest & ~group
        reach = float(outer[others].max()) if others.any() else 0.0
        if start < reach * 2.0**GAP:
            continue
        if start >= HUGE:
            return group
        top = float(outer[group].max())
        for literal in MASK_LITERALS:
            slack = reach + literal / PER_OCTAVE
            if literal - slack <= start and top <= literal + slack:
                return group if others.any() else None
    return None


def image(data: Distribution, function: Callable[[Values], Values]) -> Distribution:
    """The distribution of f(x): each bin has become the interval between what its edges become,
    which holds its values if f is monotone there.  Results that are no numbers are left out."""
    with np.errstate(all="ignore"):
        ends = np.stack([function(data.left), function(data.right)])
        at_zero = float(function(np.zeros(1))[0])
    counts, zeros = data.counts, data.zeros
    if zeros and at_zero != 0 and np.isfinite(at_zero):
        ends = np.append(ends, [[at_zero], [at_zero]], axis=1)
        counts = np.append(counts, zeros)
    if at_zero != 0:
        zeros = 0
    known = np.isfinite(ends).all(axis=0)
    left, right, counts = ends.min(axis=0)[known], ends.max(axis=0)[known], counts[known]
    order = np.argsort(left, kind="stable")
    left, right, counts = left[order], right[order], counts[order]
    low, high = (float(left.min()), float(right.max())) if len(left) else (0.0, 0.0)
    return Distribution(left, right, counts, zeros, low, high, 0, data.nan)

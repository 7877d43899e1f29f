"""Counting fast: the bins of one value while a profile is gathered.

A `Tally` holds the same numbers as a `Sketch` of one row, as an array over the octaves that
count, so that what is observed is added in place.  Values that a sketch has rules for (NaN,
infinities, magnitudes of `HUGE` and more) go into a sketch instead; `sketch` is all of it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from qdialect.quantizer.profile.sketch import (
    CODE_SHIFT,
    HUGE,
    OCTAVES,
    PER_OCTAVE,
    SIGN,
    ZERO,
    Sketch,
    empty,
    folded,
    no_tops,
    observe,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

_CHUNK = 1 << 16
_KEPT = OCTAVES + 1
_SIDE = _KEPT * PER_OCTAVE


class Tally:
    """The statistics of one value so far.

    `_window[0]` counts positive values and `_window[1]` negative ones, by octave from
    `_base` (biased, as in the bits of a float) and bin; the octaves below are zero to it.
    """

    __slots__ = ("_base", "_count", "_high", "_low", "_odd", "_window")

    def __init__(self) -> None:
        self._count = 0
        self._low, self._high = math.inf, -math.inf
        self._base = 1
        self._window: NDArray[np.int64] | None = None
        self._odd: Sketch | None = None

    def add(self, values: NDArray[np.float32]) -> tuple[float, float]:
        """Count the values of a vector; their extremes, +inf and -inf if there are none."""
        if not len(values):
            return math.inf, -math.inf
        low, high = float(values.min()), float(values.max())
        if not (low > -HUGE and high < HUGE):
            odd = observe(values)
            self._odd = odd if self._odd is None else self._odd.merge(odd)
            return float(odd.minimum[0]), float(odd.maximum[0])
        self.add_codes(values.view(np.uint32), CODE_SHIFT, low, high)
        return low + 0.0, high + 0.0

    def add_codes(self, words: NDArray[Any], shift: int, low: float, high: float) -> None:
        """Count bin codes, which are `words` shifted; `low` and `high` are the extremes of
        the values, all finite and below `HUGE`."""
        self._count += len(words)
        self._low, self._high = min(self._low, low), max(self._high, high)
        window = self._reach(max(-low, high))
        start, wide = self._base * PER_OCTAVE, np.empty(min(len(words), _CHUNK), np.int64)
        for first in range(0, len(words), _CHUNK):
            part = words[first : first + _CHUNK]
            chunk = wide[: len(part)]
            np.right_shift(part, shift, out=chunk) if shift else np.copyto(chunk, part)
            # As long as the highest code: of what has no negative values a quarter.
            found = np.bincount(chunk)
            for side in (0, 1):
                bins = found[start + side * SIGN : start + side * SIGN + _SIDE]
                window[side].reshape(-1)[: len(bins)] += bins

    def merge(self, other: Tally) -> None:
        """Count what `other` has counted, too."""
        if other._odd is not None:
            self._odd = other._odd if self._odd is None else self._odd.merge(other._odd)
        if other._window is None:
            return
        self._count += other._count
        self._low, self._high = min(self._low, other._low), max(self._high, other._high)
        window = self._reach(max(-other._low, other._high))
        start = self._base - other._base
        window[:, : _KEPT - start] += other._window[:, start:]

    def _reach(self, magnitude: float) -> NDArray[np.int64]:
        """The window, moved up so that the octave of `magnitude` is in it: what then lies
        too far below the top is zero, as in `Sketch`."""
        top = int(np.abs(np.float32(magnitude)).view(np.uint32)) >> 23
        up = top - OCTAVES - self._base
        if self._window is None:
            self._window = np.zeros((2, _KEPT, PER_OCTAVE), np.int64)
            self._base = max(top - OCTAVES, 1)
        elif up > 0:
            moved = np.zeros_like(self._window)
            if up < _KEPT:
                moved[:, :-up] = self._window[:, up:]
            self._window, self._base = moved, self._base + up
        return self._window

    def sketch(self) -> Sketch:
        """Everything that was counted."""
        window = self._window
        if window is None:
            return empty() if self._odd is None else self._odd
        flat = window.reshape(-1)
        found = np.flatnonzero(flat != 0)
        counts = flat[found]
        codes = found + self._base * PER_OCTAVE
        codes[found >= _SIDE] += SIGN - _SIDE
        zeros = self._count - int(counts.sum())
        if zeros:
            codes = np.concatenate(([ZERO], codes))
            counts = np.concatenate(([zeros], counts))
        codes, counts, tops = folded(codes, counts, no_tops(1))
        none = np.zeros(1, np.int64)
        sketch = Sketch(
            np.array([self._count], np.int64),
            none,
            none,
            none,
            np.array([self._low], np.float32) + np.float32(0),
            np.array([self._high], np.float32) + np.float32(0),
            codes,
            counts,
            tops,
        )
        return sketch if self._odd is None else sketch.merge(self._odd)

"""Entries that follow from others exactly, which are therefore neither observed nor stored.

A value that holds the elements of others once each (a reshape, a transpose, a concat) has
the counts of all of them; one that is a clamp of another (relu, clip) has its counts, with
those beyond a bound in the bin of the bound.  What derives from a profile is derived anew
after a merge, so it does not depend on how the data was split either.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from qdialect.profile.sketch import (
    CODE_SHIFT,
    CODES,
    HUGE,
    PER_OCTAVE,
    SIGN,
    ZERO,
    Sketch,
    edges,
    folded,
    merged,
    rounded,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qdialect.profile.record import Entry


@dataclass(frozen=True)
class Derived:
    """All elements of the values `of`, clamped to [low, high]."""

    of: tuple[str, ...]
    low: float = -math.inf
    high: float = math.inf

    @property
    def is_clamp(self) -> bool:
        return (self.low, self.high) != (-math.inf, math.inf)


def can_clamp(low: float, high: float) -> bool:
    """Whether bins know what a clamp to these bounds gives."""
    return low <= high and all(
        math.isinf(bound) or (abs(bound) < HUGE and float(np.float32(bound)) == bound)
        for bound in (low, high)
    )


def with_derived(entries: Mapping[str, Entry], derived: Mapping[str, Derived]) -> dict[str, Entry]:
    """`entries`, and those that derive from them; one whose source is missing, or which
    derives from itself, is left out."""
    found = {key: entry for key, entry in entries.items() if key not in derived}
    seen: set[str] = set()
    for first in derived:
        path = [first]
        while path:
            key = path[-1]
            waiting = [k for k in derived[key].of if k in derived and k not in seen]
            seen.add(key)
            if waiting:
                path += waiting
                continue
            path.pop()
            sources = derived[key].of
            if key not in found and all(source in found for source in sources):
                found[key] = derive(derived[key], [found[source] for source in sources])
    return found


def derive(rule: Derived, sources: Sequence[Entry]) -> Entry:
    """The entry of a value, from those of the values it is made of."""
    entry = sources[0].joined(sources[1:])
    if not rule.is_clamp:
        return entry
    low, high = rule.low, rule.high
    return type(entry)(
        clamped(entry.tensor, low, high),
        None if entry.channels is None else clamped(entry.channels, low, high),
        {i: (_clip(a, low, high), _clip(b, low, high)) for i, (a, b) in entry.samples.items()},
    )


def clamped(sketch: Sketch, low: float, high: float) -> Sketch:
    """The statistics of the values clamped to [low, high]; see `can_clamp`."""
    rows, codes = sketch.codes // CODES, sketch.codes % CODES
    signs, inner, _ = edges(sketch.codes, sketch.tops)
    near = np.where(codes == ZERO, 0.0, signs * inner)
    zeros = np.zeros(sketch.rows, np.int64)
    minimum = np.clip(sketch.minimum, low, high, dtype=np.float32)
    maximum = np.clip(sketch.maximum, low, high, dtype=np.float32)
    none = sketch.minimum > sketch.maximum
    minimum[none], maximum[none] = np.inf, -np.inf
    infinite: list[NDArray[Any]] = []
    all_rows = np.arange(sketch.rows)
    has_bins = len(codes) > 0 or (sketch.nan + sketch.low + sketch.high == sketch.count).all()
    added: list[tuple[NDArray[Any], NDArray[Any]]] = []
    for bound, side, beyond in ((low, sketch.low, near < low), (high, sketch.high, near > high)):
        if math.isinf(bound):
            infinite.append(side)
            continue
        infinite.append(zeros)
        code = _code_of(bound)
        # What shares its bin with the bound stays there.
        shared = codes == merged(rows * CODES + code, sketch.tops) % CODES
        codes = np.where(beyond & ~shared, code, codes)
        huge = np.bincount(rows[beyond & (np.abs(near) >= HUGE)], minlength=sketch.rows) > 0
        clipped = huge | (side > 0)
        minimum[clipped] = np.minimum(minimum[clipped], np.float32(bound))
        maximum[clipped] = np.maximum(maximum[clipped], np.float32(bound))
        if has_bins:
            added.append((all_rows[side > 0] * CODES + code, side[side > 0]))
    parts = [(rows * CODES + codes, sketch.counts), *added]
    every = np.concatenate([part[0] for part in parts])
    unique, where = np.unique(every, return_inverse=True)
    counts = np.zeros(len(unique), np.int64)
    np.add.at(counts, where, np.concatenate([part[1] for part in parts]))
    unique, counts, tops = folded(unique.astype(np.int64), counts, sketch.tops)
    return Sketch(
        sketch.count,
        sketch.nan,
        infinite[0],
        infinite[1],
        minimum + np.float32(0),
        maximum + np.float32(0),
        unique,
        counts,
        tops,
    )


def _code_of(bound: float) -> int:
    word = int(np.float32(bound).view(np.uint32))
    code = word >> CODE_SHIFT
    return ZERO if (code % SIGN) < PER_OCTAVE else code


def _clip(value: float, low: float, high: float) -> float:
    return rounded(min(max(value, low), high) + 0.0)

"""Stating on the IR what a profile saw, for passes that are asked to believe it."""

from __future__ import annotations

from xdsl.dialects.builtin import DenseArrayBase, f64
from xdsl.ir import Operation

from qdialect.analysis.assumptions import ASSUMED
from qdialect.ir.ops import constant_of, keys_of
from qdialect.quantizer.profile.record import Profile


def state_ranges(module: Operation, profile: Profile) -> int:
    """Give every op whose key the profile has the range it saw there, as
    `nn.assumed_range` in real units; returns how many.

    What is wider than the data is not stated: a value with NaN, infinities or no data, and
    ops with several results, get none.  The profile is usually of the float model, so its
    digest is not asked about: keys connect the two.
    """
    stated = 0
    for op in module.walk():
        if len(op.results) != 1 or constant_of(op.results[0]) is not None:
            continue
        entries = [profile.entries.get(key) for key in keys_of(op)]
        known = [entry.tensor for entry in entries if entry is not None]
        if not known or len(known) != len(entries):
            continue
        if any(int(s.nan[0]) + int(s.low[0]) + int(s.high[0]) for s in known):
            continue
        low = min(float(s.minimum[0]) for s in known)
        high = max(float(s.maximum[0]) for s in known)
        if low <= high:
            op.attributes[ASSUMED] = DenseArrayBase.from_list(f64, [low, high])
            stated += 1
    return stated

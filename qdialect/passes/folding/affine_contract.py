"""What another op in place of a chain of affine functions of codes changes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from qdialect.numerics import requantize as exact
from qdialect.numerics.contract import Contract, Numerics
from qdialect.passes.folding.affine_tables import Channel, Tables, tables_of, undecided


def read_contract(channels: Sequence[Channel], expressed: str) -> Contract | None:
    """Of reading the same codes on other qparams; None if some code becomes another."""
    seen = channels[0].seen
    for code in (seen.low, (seen.low + seen.high) // 2, seen.high):
        if channels[0].code(code) not in (code, None):
            return None
    if all(channel.shift(expressed) == 0 for channel in channels):
        return Contract(Numerics.EXACT)
    # The first channel tells, mostly.
    samples = (channels[:1], channels) if len(channels) > 1 else (channels,)
    if not all((tables_of(sample).codes == exact.codes_of(seen)).all() for sample in samples):
        return None
    return ties_contract(channels, expressed)


def ties_contract(channels: Sequence[Channel], expressed: str) -> Contract:
    """Of an op that gives the same codes: `ties` where floats may decide otherwise."""
    count = undecided(list(dict.fromkeys(channels)), expressed)
    if count:
        return Contract(Numerics.TIES, note=f"{count} results are ties in floats")
    return Contract(Numerics.EXACT)


def codes_contract(
    channels: Sequence[Channel], wanted: Tables, got: exact.Codes, expressed: str
) -> Contract | None:
    """What codes `got` in place of those of each channel's chain change; None if a clamp
    would be lost."""
    apart = np.abs(wanted.codes - got)
    if (apart[wanted.clipped >= 2] != 0).any():
        return None
    if not apart.any():
        return ties_contract(channels, expressed)
    steps, clipped = int(apart.max()), int(np.count_nonzero(apart * wanted.clipped))
    if clipped:
        note = f"{clipped} codes were clipped on the way"
        return Contract(Numerics.SATURATION, steps, note)
    return Contract(Numerics.BOUNDED, steps, f"{np.count_nonzero(apart)} codes change")

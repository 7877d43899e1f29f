"""All rewrites of a float model, by how much effort may go into them."""

from __future__ import annotations

from collections.abc import Sequence

from qdialect.quantizer.float_rewrites.base import AnyRewrite
from qdialect.quantizer.float_rewrites.equalize import Equalize
from qdialect.quantizer.float_rewrites.permute import Permute
from qdialect.quantizer.float_rewrites.rotate import Rotate
from qdialect.quantizer.float_rewrites.shift import Shift
from qdialect.quantizer.float_rewrites.smooth import Smooth
from qdialect.quantizer.float_rewrites.split import Split

CHEAP, THOROUGH = 1, 2
"""Levels of effort: what adds nothing to the graph, and all."""


def rewrites(level: int) -> Sequence[AnyRewrite]:
    """Those of a level, in the order in which they are best done."""
    found: list[AnyRewrite] = [Equalize(), Permute()] if level >= CHEAP else []
    if level >= THOROUGH:
        found += [Shift(), Rotate(), Smooth(), Smooth("smooth codes", on_codes=True), Split()]
    return found

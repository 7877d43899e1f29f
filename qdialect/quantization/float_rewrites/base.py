"""What every rewrite of a float model is: a choice of factors, made on statistics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from qdialect.context import QContext
from qdialect.quantization.float_rewrites.statistics import Statistics
from qdialect.quantization.recipe import Recipe


@dataclass(frozen=True)
class Rewritten:
    """What a rewrite changed: how many groups of how many channels, and by how many dB it expects
    the noise of these groups to be less, in the mean over them; `keep_float` are keys of ops that
    it added and that have to stay float."""

    groups: int
    channels: int
    gain: float
    keep_float: frozenset[str] = frozenset()

    def __str__(self) -> str:
        return f"{self.channels} channels in {self.groups} groups"


class Losses(Protocol):
    """What is lost in a group as it is, and after a change."""

    @property
    def before(self) -> float:
        """As it is."""
        ...

    @property
    def after(self) -> float:
        """After the change."""
        ...


def mean_gain(found: Sequence[Losses]) -> float:
    """By how many dB the sum of losses is less."""
    before, after = sum(each.before for each in found), sum(each.after for each in found)
    return float(10 * np.log10(before / after)) if before > 0 and after > 0 else 0.0


class FloatRewrite(Protocol):
    """Changes a float module such that its function stays, and less is lost when it is
    quantized."""

    @property
    def name(self) -> str:
        """What it is called in reports and options."""
        ...

    def __call__(
        self, module: ModuleOp, ctx: QContext, statistics: Statistics, recipe: Recipe
    ) -> Rewritten | None:
        """Change `module` in place, by statistics of it as it is, for what the recipe makes of
        it; None where nothing is worth it."""
        ...

"""Factors of channels wherever constants take them up, such that rounding loses least.

Each group of channels has factors of its own, which are found by themselves
(`numerics.channel_transforms`): with one scale for each row of weights no group minds the factors
of another.  Nothing is added to the graph.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from qdialect.analysis.channel_groups import ChannelGroup, find_groups
from qdialect.context import QContext
from qdialect.numerics.channel_transforms import Factors, least_factors
from qdialect.quantization.float_rewrites.apply import as_many_as_fit, scale_channels
from qdialect.quantization.float_rewrites.base import Rewritten, mean_gain
from qdialect.quantization.float_rewrites.statistics import Statistics
from qdialect.quantization.float_rewrites.terms import Costs
from qdialect.quantization.recipe import Recipe
from qdialect.reference import Interpreter

WORTH = 0.1
"""Groups that gain fewer dB stay as they are."""


@dataclass(frozen=True)
class Equalize:
    """Cross-layer equalization and its like, on any graph."""

    name: str = "equalize"

    def __call__(
        self, module: ModuleOp, ctx: QContext, statistics: Statistics, recipe: Recipe
    ) -> Rewritten | None:
        """See `FloatRewrite`."""
        function = Interpreter(ctx, module).function()
        costs = Costs(ctx, statistics.of(function), recipe)
        found: list[tuple[ChannelGroup, Factors]] = []
        for group in find_groups(function, ctx):
            tied = np.arange(group.size + 1) == 0
            factors = least_factors(costs.of_group(group), group.size + 1, tied)
            if factors.decibels >= WORTH:
                found.append((group, factors))
        kept = as_many_as_fit(
            scale_channels, [(group, each.factors[1:]) for group, each in found], ctx
        )
        found = [found[number] for number in kept]
        if not found:
            return None
        channels = sum(group.size for group, _ in found)
        return Rewritten(len(found), channels, mean_gain([each for _, each in found]))

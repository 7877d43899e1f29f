"""Factors of channels wherever constants take them up, such that rounding loses least.

Each group of channels has factors of its own, which are found by themselves
(`algebra.channel_transforms`): with one scale for each row of weights no group minds the factors
of another.  Nothing is added to the graph.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.dialects.func import FuncOp

from qdialect.algebra.channel_transforms import least_factors
from qdialect.analysis.channel_groups import ChannelGroup, find_groups
from qdialect.quantizer.float_rewrites.apply import scale_channels
from qdialect.quantizer.float_rewrites.base import ByFactors, FloatRewrite
from qdialect.quantizer.float_rewrites.terms import Costs


@dataclass(frozen=True)
class Scaled(ByFactors):
    """The factors of a group."""

    group: ChannelGroup

    @property
    def channels(self) -> int:
        return self.group.size


@dataclass(frozen=True)
class Equalize(FloatRewrite[Scaled]):
    """Cross-layer equalization and its like, on any graph."""

    name: str = "equalize"
    worth: float = 0.1

    def choices(self, function: FuncOp, costs: Costs) -> Iterator[Scaled]:
        for group in find_groups(function, costs.ctx):
            tied = np.arange(group.size + 1) == 0
            yield Scaled(least_factors(costs.of_group(group), group.size + 1, tied), group)

    def change(self, chosen: Sequence[Scaled], costs: Costs) -> tuple[()]:
        scale_channels([(each.group, each.factors.factors[1:]) for each in chosen], costs.ctx)
        return ()

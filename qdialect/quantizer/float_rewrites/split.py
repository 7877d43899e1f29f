"""Channels that are there twice, where few of them make a grid coarse for all.

    y = W2 f(W1 x + b)     becomes     y = W2' f(W1' x + b')

with rows of W1 and b repeated and columns of W2 halved (`analysis.channel_splits`): outlier
channel splitting (Zhao et al., 2019).  Weights that read a channel are then half as large; or,
where factors pass (`analysis.channel_groups`), the channel itself is, and they stay.  Which
channels, and which of the two, is chosen by what the rounding loses (`algebra.channel_copies`).

Every op between has more to do, so about one channel in fifty may be there twice, or as many as
make their number a multiple of eight, which kernels take at once anyway.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp

from qdialect.algebra.channel_copies import Copies, best_copies
from qdialect.algebra.channel_transforms import Term
from qdialect.analysis.channel_groups import ChannelGroup, find_groups
from qdialect.analysis.channel_splits import find_splittable
from qdialect.ir.context import QContext
from qdialect.quantizer.float_rewrites.apply import scale_channels
from qdialect.quantizer.float_rewrites.base import FloatRewrite, Foretold
from qdialect.quantizer.float_rewrites.splitting import split_channels, split_refusal
from qdialect.quantizer.float_rewrites.statistics import Statistics
from qdialect.quantizer.float_rewrites.terms import Costs
from qdialect.quantizer.recipe import Recipe
from qdialect.quantizer.values import users

SHARE, TOGETHER = 0.02, 8
"""Of the channels, how many may be there twice; and how many kernels take at once."""

Scaled = tuple[ChannelGroup, int]
"""A group of factors, and a class of it."""


@dataclass(frozen=True)
class Doubled:
    """The channels of a group that will be there twice, and the factors that halve some."""

    group: ChannelGroup
    copies: Copies
    halved: Sequence[Scaled]

    @property
    def channels(self) -> int:
        return len(self.copies.doubled)

    @property
    def before(self) -> float:
        return self.copies.before

    @property
    def after(self) -> float:
        return self.copies.after


@dataclass(frozen=True)
class Split(FloatRewrite[Doubled]):
    """Outlier channel splitting, on any graph; what more there is to compute has to gain a decibel
    in a group, and `in_all` dB of the outputs."""

    name: str = "split"
    worth: float = 1.0
    in_all: float = 0.1

    def foretold(
        self, module: ModuleOp, ctx: QContext, statistics: Statistics, recipe: Recipe
    ) -> Foretold[Doubled] | None:
        found = super().foretold(module, ctx, statistics, recipe)
        return None if found is None or found.gain < self.in_all else found

    def choices(self, function: FuncOp, costs: Costs) -> Iterator[Doubled]:
        scaling = find_groups(function, costs.ctx)
        for group, classes in find_splittable(function, costs.ctx):
            numbers, halves = np.arange(group.size + 1), _halves(group, scaling)
            copies = best_copies(
                *_terms(group, costs),
                np.isin(numbers, classes),
                np.isin(numbers, list(halves)),
                _spare(group.size),
            )
            if copies.doubled and not split_refusal(group, copies.doubled, costs.ctx):
                yield Doubled(group, copies, [halves[label] for label in copies.halved])

    def change(self, chosen: Sequence[Doubled], costs: Costs) -> tuple[()]:
        factors: dict[int, tuple[ChannelGroup, np.ndarray[tuple[int], np.dtype[np.float64]]]] = {}
        for group, label in (scaled for each in chosen for scaled in each.halved):
            _, found = factors.setdefault(id(group), (group, np.ones(group.size)))
            found[label - 1] = 0.5
        scale_channels(factors.values(), costs.ctx)
        split_channels([(each.group, each.copies.doubled) for each in chosen], costs.ctx)
        return ()


def _spare(count: int) -> int:
    return -(-(count + ceil(SHARE * count)) // TOGETHER) * TOGETHER - count


def _terms(group: ChannelGroup, costs: Costs) -> tuple[Sequence[Term], Sequence[Term]]:
    """Those of the values of a group and what makes them, and of the weights that read them."""
    made: list[Term] = []
    read: list[Term] = []
    for value, labels in group.values.items():
        rounded = costs.of_value(value, labels)
        made += [] if rounded is None else [rounded]
        made += costs.of_made(value, labels)
        for user in users(value):
            read += costs.of_weights(user, value, labels)
    return made, read


def _halves(group: ChannelGroup, scaling: Sequence[ChannelGroup]) -> Mapping[int, Scaled]:
    """The classes of a group that have a factor of their own, of which all values take it."""
    found: dict[int, set[tuple[int, int]]] = {}
    for value, labels in group.values.items():
        classes = next(
            ((n, each.values[value]) for n, each in enumerate(scaling) if value in each.values),
            None,
        )
        number, others = classes or (-1, np.zeros_like(labels))
        for label, other in zip(
            *(a.flat for a in np.broadcast_arrays(labels, others)), strict=True
        ):
            found.setdefault(int(label), set()).add((number, int(other)))
    meant: dict[tuple[int, int], list[int]] = {}
    for label, pairs in found.items():
        for pair in pairs:
            meant.setdefault(pair, []).append(label)
    return {
        label: (scaling[number], other)
        for label, pairs in found.items()
        if label and len(pairs) == 1
        for number, other in pairs
        if other > 0 and meant[number, other] == [label]
    }

"""Which channels are worth having twice, such that rounding loses least; pure numbers.

A channel x that weights w read may be there twice, each copy read with half of w.  If the value is
rounded as D x and the weights as w / D', one copy has D = D' (`channel_transforms`), two have
D' = 2 D:

    the value as it was, halves of weights     D = 1,   D' = 2
    half of the value, weights as they were    D = 1/2, D' = 1

as copies are equal, and so are their errors, which add up.  So a copy lets the grid of a value, or
of rows of weights, be finer without the other being coarser, where a factor alone would make it so
(outlier channel splitting: Zhao et al., 2019).

Channels are taken one after another, whichever makes the loss least, of those that by its
derivatives hold the grids open.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from qdialect.algebra.channel_transforms import Term, total_loss

if TYPE_CHECKING:
    from numpy.typing import NDArray

TRIED = 4
"""How many channels are tried for each next copy, of those that hold open the grids of values, and
of weights."""


@dataclass(frozen=True)
class Copies:
    """The classes that are to be there twice, those of them whose value is halved (else the weights
    that read it), and the loss without and with them."""

    doubled: tuple[int, ...]
    halved: tuple[int, ...]
    before: float
    after: float


def best_copies(
    values: Sequence[Term],
    weights: Sequence[Term],
    may_double: NDArray[np.bool_],
    may_halve: NDArray[np.bool_],
    most: int,
) -> Copies:
    """At most so many classes to have twice, of those [classes] that may, for the terms of values
    and of the weights that read them; halves of values only of those that may be."""
    logs = np.zeros((2, len(may_double)))
    sides, allowed = (values, weights), (may_halve & may_double, may_double.copy())
    losses = [total_loss(side, own)[0] for side, own in zip(sides, logs, strict=True)]
    before, doubled = sum(losses), list[tuple[int, int]]()
    steps = (-np.log(2.0), np.log(2.0))
    while len(doubled) < most:
        best: tuple[float, int, int, float] | None = None
        for number, (side, step) in enumerate(zip(sides, steps, strict=True)):
            slopes = total_loss(side, logs[number])[1] * step
            free = np.flatnonzero(allowed[number] & (slopes < 0))
            for label in free[np.argsort(slopes[free], kind="stable")][:TRIED]:
                there = logs[number].copy()
                there[label] += step
                loss = total_loss(side, there)[0]
                less = losses[number] - loss
                if less > 0 and (best is None or less > best[0]):
                    best = less, number, int(label), loss
        if best is None:
            break
        _, number, label, losses[number] = best
        logs[number, label] += steps[number]
        allowed[0][label] = allowed[1][label] = False
        doubled.append((label, number))
    return Copies(
        tuple(sorted(label for label, _ in doubled)),
        tuple(sorted(label for label, number in doubled if number == 0)),
        before,
        sum(losses),
    )

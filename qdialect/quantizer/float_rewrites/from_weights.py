"""Statistics without data: what the weights say of the sizes of channels.

What contractions take is assumed to have a mean square of 1 in every channel, and to be
independent.  Then channel c of a value that is made with rows W_c, biases b_c and gains has

    power    sum of the squares of all constants that its factor is multiplied into,
    range    +- 4 roots of that; from 0 behind a clamp at 0.

Of channels of one group these ratios are what matters, and they are the ratios by which data-free
equalization (Nagel et al., 2019) goes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from qdialect.analysis.channel_groups import ChannelGroup
from qdialect.ir.context import QContext
from qdialect.quantizer.float_rewrites.statistics import Channels, Statistics, numbered
from qdialect.quantizer.values import real_array

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

DEVIATIONS = 4.0
"""How many standard deviations values reach."""


def statistics_of_weights(
    function: FuncOp, groups: Sequence[ChannelGroup], ctx: QContext
) -> Statistics:
    """Statistics of the values of groups of a function."""
    numbers: Mapping[SSAValue, int] = {v: n for n, v in enumerate(numbered(function))}
    found: dict[int, Channels] = {}
    for group in groups:
        powers = _powers(group, ctx)
        for value, labels in group.values.items():
            power = np.where(labels > 0, powers[np.abs(labels)], powers[0])
            # Of what the inverse factor lies on, nothing is known.
            reach = DEVIATIONS * np.sqrt(power)
            low, high = (np.clip(end, *_bounds(value, ctx)) for end in (-reach, reach))
            found[numbers[value]] = Channels(low, high, np.zeros(labels.shape), power)
    return Statistics(found, 1)


def _powers(group: ChannelGroup, ctx: QContext) -> Array:
    """The mean square by class; 1 where nothing says it."""
    sums = np.zeros(group.size + 1)
    for absorber in group.absorbers:
        array = real_array(absorber.op.operands[absorber.operand], ctx.blobs)
        if array is None:
            continue
        for term in absorber.terms:
            made = term.labels * term.sign
            if not (made > 0).any():
                continue
            labels = np.broadcast_to(made, np.broadcast_shapes(made.shape, array.shape))
            squares = np.broadcast_to(np.square(array), labels.shape)
            own = labels > 0
            total = np.bincount(labels[own], squares[own], len(sums))
            rows = np.bincount(made[made > 0], minlength=len(sums))
            sums += total / np.maximum(rows, 1)
    return np.where(sums > 0, sums, 1.0)


def _bounds(value: SSAValue, ctx: QContext) -> tuple[float, float]:
    op = value.owner
    behavior = ctx.behaviors.get(op) if isinstance(op, Operation) else None
    if behavior is None or behavior.clamp is None or not isinstance(op, Operation):
        return -np.inf, np.inf
    return behavior.clamp(op)

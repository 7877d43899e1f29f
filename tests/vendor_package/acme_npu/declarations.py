"""How the ops behave under quantization: all that the passes of qdialect read."""

from __future__ import annotations

from math import inf

import numpy as np
from xdsl.ir import Operation

from qdialect.behaviors import Accumulator, Behavior, Clamp, Contraction, Movement, Port, PortKind
from qdialect.qparams.maps import Flip


def floor_of(op: Operation) -> float:
    return op.properties["floor"].value.data


def rank(op: Operation) -> int:
    return len(op.operands[0].type.get_shape())


SPLAT_MAX = Clamp(
    "acme.splat_max",
    (Port("input", PortKind.TIED, axes=None),),
    (Port("result", PortKind.TIED, axes=None),),
    clamp=lambda op: (floor_of(op), inf),
)
ROTATE = Movement(
    "acme.rotate",
    (Port("input", PortKind.TIED, axes=None),),
    (Port("result", PortKind.TIED, axes=None),),
    movement=lambda op: Flip((rank(op) - 1,)),
)
CONV_RELU = Contraction(
    "acme.conv_relu",
    (
        Port("input"),
        Port("weight", axes=lambda op: frozenset({0})),
        Port("bias", PortKind.BIAS, axes=lambda op: frozenset({0})),
    ),
    accumulator=Accumulator(
        0,
        1,
        2,
        rhs_axis=lambda op: 0,
        result_axis=lambda op: 1,
        depth=lambda op: int(np.prod(op.operands[1].type.get_shape()[1:])),
    ),
)
#: our average pool sums i8 and shifts: one scale on both sides
AVERAGE_POOL = Behavior(
    "nn.avg_pool2d", (Port("input", PortKind.TIED),), (Port("result", PortKind.TIED),)
)

"""How the op behaves under quantization: all that the passes of qdialect read of it."""

from __future__ import annotations

from math import inf, prod

from qdialect.ir.behaviors import Accumulator, Contraction, Port, PortKind, axes
from qdialect.ir.ops import shape_of
from xdsl.ir import Operation


def products(op: Operation) -> int:
    """How many products are summed for an element of the result."""
    return prod(shape_of(op.operands[1])[1:])


CONV_RELU = Contraction(
    "acme.conv_relu",
    (
        Port("input"),
        Port("weight", axes=axes(0)),  # a scale for each output channel, or one
        Port("bias", PortKind.BIAS, axes=axes(0)),
    ),
    (Port("result", axes=axes(1)),),
    accumulator=Accumulator(
        lhs=0,
        rhs=1,
        bias=2,
        rhs_axis=lambda op: 0,
        result_axis=lambda op: 1,
        depth=products,
        pads=lambda op: True,
    ),
    # The fused activation: sums are limited to these reals. Without this line, a factor of -2
    # behind the op would be folded into its weights.
    activation=lambda op: (0.0, inf),
)

"""Declarations of ops that quantize their input as they run: floats in and out."""

from __future__ import annotations

from xdsl.ir import Operation

from qdialect.behaviors import Behavior, Port, PortKind, axes
from qdialect.ops.base import shape_of


def _columns(op: Operation) -> frozenset[int]:
    """The last dimension of a weight that has columns."""
    rank = len(shape_of(op.operands[1]))
    return frozenset({rank - 1}) if rank > 1 else frozenset()


_INPUT, _RESULT = Port("input", PortKind.PLAIN), Port("result", PortKind.PLAIN)

DYNAMICALLY = (
    Behavior(
        "nn.dynamic_quantize",
        (_INPUT,),
        tuple(Port(role, PortKind.PLAIN) for role in ("codes", "scale", "zero_point")),
    ),
    Behavior(
        "nn.dynamic_matmul", (_INPUT, Port("weight", PortKind.FIXED, axes=_columns)), (_RESULT,)
    ),
    *(
        Behavior(
            f"nn.dynamic_conv{rank}d",
            (_INPUT, Port("weight", PortKind.FIXED, axes=axes(0))),
            (_RESULT,),
        )
        for rank in (1, 2, 3)
    ),
)

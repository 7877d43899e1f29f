"""The declarations of ops that tell how elements compare."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.ir import Operation

from qdialect.behaviors import Behavior, Port, PortKind
from qdialect.ops.base import shape_of
from qdialect.ops.behaviors_movement import values
from qdialect.ops.shapes import normalize_axis

if TYPE_CHECKING:
    from qdialect.qparams.maps import IndexMap

_TOLD = Port("result", PortKind.PLAIN)


def broadcasts(op: Operation) -> list[IndexMap]:
    """How the parameters of each operand lie along the result: numpy broadcasting."""
    from qdialect.qparams.maps import Broadcast

    return [Broadcast(shape_of(op.results[0]))] * len(op.operands)


def _axis(op: Operation) -> int:
    return normalize_axis(values(op)["axis"], len(shape_of(op.operands[0])))


def _others(op: Operation) -> frozenset[int]:
    return frozenset(range(len(shape_of(op.operands[0])))) - {_axis(op)}


def _rows(op: Operation) -> list[IndexMap]:
    from qdialect.qparams.maps import First

    return [First((_axis(op),), values(op)["keepdims"])]


def _kept(op: Operation) -> list[IndexMap]:
    from qdialect.qparams.maps import Slice

    return [Slice.along(len(shape_of(op.operands[0])), _axis(op), 0, values(op)["k"])]


def _place(name: str) -> Behavior:
    return Behavior(
        name,
        (Port("input", PortKind.TIED, axes=_others),),
        (_TOLD,),
        carries=_rows,
        compares=True,
    )


ORDERING: tuple[Behavior, ...] = (
    Behavior(
        "nn.compare",
        (Port("lhs", PortKind.TIED, axes=None), Port("rhs", PortKind.TIED, axes=None)),
        (_TOLD,),
        carries=broadcasts,
        compares=True,
    ),
    _place("nn.arg_max"),
    _place("nn.arg_min"),
    Behavior(
        "nn.top_k",
        (Port("input", PortKind.TIED, axes=_others),),
        (Port("result", PortKind.TIED, axes=None), Port("indices", PortKind.PLAIN)),
        carries=_kept,
        compares=True,
    ),
)

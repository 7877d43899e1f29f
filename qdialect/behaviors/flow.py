"""How qparams pass through an op with tied ports, read from its declaration."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Operation

from qdialect.behaviors.declaration import Behavior, Rule
from qdialect.behaviors.shapes import shape_of
from qdialect.qparams import QParams
from qdialect.qparams.legality import Illegal


def tied_operands(op: Operation, behavior: Behavior) -> list[int]:
    """Numbers of the operands that share their qparams with the result."""
    return [i for i in range(len(op.operands)) if behavior.operand_port(i).rule is Rule.TIED]


def carry_down(op: Operation, behavior: Behavior, operands: Sequence[QParams]) -> QParams | Illegal:
    """Result qparams of `op` when its tied operands have `operands`.

    Law 2.2: the field pulled back along the index map; elementwise tied ops need
    equal operands and keep them.
    """
    first = operands[0]
    equal = all(q == first for q in operands)
    if behavior.movement is None:
        if equal:
            return first
        return Illegal("storage-mismatch", "operands have different qparams")
    from qdialect.qparams.field import Field

    fields = [
        Field.of(q, shape_of(op.operands[i]))
        for i, q in zip(tied_operands(op, behavior), operands, strict=True)
    ]
    pulled = behavior.movement(op).pull(fields)
    return pulled if isinstance(pulled, Illegal) else pulled.to_qparams()


def carry_up(op: Operation, behavior: Behavior, result: QParams) -> list[QParams] | Illegal:
    """Qparams for the tied operands of `op` that make its result have `result`."""
    tied = tied_operands(op, behavior)
    if behavior.movement is None:
        return [result] * len(tied)
    from qdialect.qparams.field import Field

    shapes = [shape_of(op.operands[i]) for i in tied]
    pushed = behavior.movement(op).push(Field.of(result, shape_of(op.results[0])), shapes)
    if isinstance(pushed, Illegal):
        return pushed
    operands = [field.to_qparams() for field in pushed]
    pulled = carry_down(op, behavior, operands)
    if isinstance(pulled, Illegal):
        return pulled
    if pulled != result:
        return Illegal("undetermined", "the qparams do not survive the way back")
    return operands

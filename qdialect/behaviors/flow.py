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


def carry_down(
    op: Operation, behavior: Behavior, operands: Sequence[QParams], result: int = 0
) -> QParams | Illegal:
    """Qparams of result number `result` of `op` when its tied operands have `operands`.

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
    pulled = behavior.maps(op)[result].pull(fields)
    return pulled if isinstance(pulled, Illegal) else pulled.to_qparams()


def carry_all_down(
    op: Operation, behavior: Behavior, operands: Sequence[QParams]
) -> list[QParams] | Illegal:
    """`carry_down` for every result, or the first refusal."""
    carried: list[QParams] = []
    for index in range(len(op.results)):
        qparams = carry_down(op, behavior, operands, index)
        if isinstance(qparams, Illegal):
            return qparams
        carried.append(qparams)
    return carried


def carry_up(
    op: Operation, behavior: Behavior, results: Sequence[QParams]
) -> list[QParams] | Illegal:
    """Qparams for the tied operands of `op` that make its results have `results`."""
    if behavior.movement is None:
        return [results[0]] * len(tied_operands(op, behavior))
    above = _pushed(op, behavior, results)
    if isinstance(above, Illegal):
        return above
    below = carry_all_down(op, behavior, above)
    if isinstance(below, Illegal):
        return below
    if below != list(results):
        return Illegal("undetermined", "the qparams do not survive the way back")
    return above


def _pushed(
    op: Operation, behavior: Behavior, results: Sequence[QParams]
) -> list[QParams] | Illegal:
    from qdialect.qparams.field import Field

    fields = [Field.of(q, shape_of(v)) for q, v in zip(results, op.results, strict=True)]
    if behavior.joins is not None:
        joined = behavior.joins(op).pull(fields)
        return joined if isinstance(joined, Illegal) else [joined.to_qparams()]
    if len(fields) != 1:
        return Illegal("undetermined", f"'{op.name}' does not say how its results join")
    shapes = [shape_of(op.operands[i]) for i in tied_operands(op, behavior)]
    pushed = behavior.maps(op)[0].push(fields[0], shapes)
    return pushed if isinstance(pushed, Illegal) else [field.to_qparams() for field in pushed]

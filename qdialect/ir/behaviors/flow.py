"""How qparams pass through an op with tied ports, read from its declaration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, cast

from xdsl.ir import Operation

from qdialect.algebra.qparams import Layout, QParams
from qdialect.algebra.qparams.legality import Illegal
from qdialect.ir.behaviors.declaration import Behavior, PortKind
from qdialect.ir.behaviors.shapes import shape_of

if TYPE_CHECKING:
    from qdialect.algebra.qparams.maps import IndexMap
    from qdialect.algebra.qparams.parameter_field import ParameterField


def tied_operands(op: Operation, behavior: Behavior) -> list[int]:
    """Numbers of the operands that share their qparams with the result."""
    return [i for i in range(len(op.operands)) if behavior.operand_port(i).kind is PortKind.TIED]


def carry_down(
    op: Operation,
    behavior: Behavior,
    operands: Sequence[QParams],
    result: int = 0,
    *,
    like: QParams | None = None,
) -> QParams | Illegal:
    """Qparams of result number `result` of `op` when its tied operands have `operands`.

    Law 2.2: the field pulled back along the index map; other tied ops need operands
    that give equal fields along the result, and keep them. The result is at most per axis,
    or of the richest layout of the operands and of `like`, qparams that it has or is to have:
    on a block grid every reshape is expressible (law 2.4), but no grid comes out of nowhere.
    """
    if behavior.movement is None:
        return _common(op, behavior, dict(zip(tied_operands(op, behavior), operands, strict=True)))
    return pulled_along(behavior.maps(op)[result], _fields(op, behavior, operands), like)


def _fields(op: Operation, behavior: Behavior, operands: Sequence[QParams]) -> list[ParameterField]:
    """Those of the tied operands."""
    from qdialect.algebra.qparams.parameter_field import ParameterField

    return [
        ParameterField.of(q, shape_of(op.operands[i]))
        for i, q in zip(tied_operands(op, behavior), operands, strict=True)
    ]


def pulled_along(
    along: IndexMap, fields: Sequence[ParameterField], like: QParams | None
) -> QParams | Illegal:
    """Qparams of the result of the movement `along` of operands with `fields`; see `carry_down`."""
    is_grid = like is not None and like.layout is Layout.BLOCK
    pulled = along.pull(fields, layout=Layout.BLOCK if is_grid else None)
    return pulled if isinstance(pulled, Illegal) else _encoded(pulled)


def _encoded(field: ParameterField) -> QParams | Illegal:
    """The qparams of `field`; a refusal where they would be blocks with scales that none has."""
    found = field.to_qparams()
    if found.layout is not Layout.BLOCK or found.is_expressible:
        return found
    differ = found.difference(found.rounded())
    return Illegal("layout", f"scales of blocks are {found.expressed}{differ}")


def carry_some_down(
    op: Operation, behavior: Behavior, operands: Mapping[int, QParams]
) -> list[QParams] | Illegal:
    """Qparams of all operands and then of the result of an `op` that computes, when only
    those of some tied operands (by number) are known."""
    result = _common(op, behavior, operands)
    if isinstance(result, Illegal):
        return result
    above = carry_up(op, behavior, [result])
    return above if isinstance(above, Illegal) else [*above, result]


def _common(
    op: Operation, behavior: Behavior, operands: Mapping[int, QParams]
) -> QParams | Illegal:
    """The field along the result that all these operands of an `op` that computes have."""
    found: list[QParams] = []
    for index, qparams in operands.items():
        carried = _along(op, behavior, index, qparams)
        if isinstance(carried, Illegal):
            return carried
        found.append(carried)
    if all(q == found[0] for q in found):
        return found[0]
    return Illegal("storage-mismatch", "operands have different qparams")


def _along(op: Operation, behavior: Behavior, index: int, qparams: QParams) -> QParams | Illegal:
    if behavior.operand_maps is None or qparams.is_per_tensor:
        return qparams
    taken, shape = behavior.operand_port(index).axes, shape_of(op.operands[index])
    allowed = None if taken is None else taken(op)
    for axis, block in qparams.blocks:
        varies = not (axis < len(shape) and block == shape[axis])
        if allowed is not None and axis not in allowed and varies:
            # `operand_maps` take one of parameters that are all the same where the port takes them.
            return Illegal("select-params", f"'{op.name}' reads across dimension {axis}")
    from qdialect.algebra.qparams.parameter_field import ParameterField

    which = tied_operands(op, behavior).index(index)
    pulled = behavior.operand_maps(op)[which].pull(
        [ParameterField.of(qparams, shape_of(op.operands[index]))]
    )
    return pulled if isinstance(pulled, Illegal) else _encoded(pulled)


def carry_all_down(
    op: Operation,
    behavior: Behavior,
    operands: Sequence[QParams],
    like: Sequence[QParams | None] = (),
) -> list[QParams] | Illegal:
    """`carry_down` for every result, or the first refusal; `like` has an entry for each or none."""
    carried: list[QParams] = []
    moves = behavior.movement is not None
    maps = behavior.maps(op) if moves else ()
    fields = _fields(op, behavior, operands) if moves else []
    for index in range(len(op.results)):
        if moves:
            qparams = pulled_along(maps[index], fields, like[index] if like else None)
        else:
            qparams = carry_down(op, behavior, operands, index)
        if isinstance(qparams, Illegal):
            return qparams
        carried.append(qparams)
    return carried


def carry_up(
    op: Operation, behavior: Behavior, results: Sequence[QParams]
) -> list[QParams] | Illegal:
    """Qparams for the tied operands of `op` that make its results have `results`."""
    everywhere = behavior.operand_maps is None or results[0].is_per_tensor
    if behavior.movement is None and everywhere:
        tied, made = tied_operands(op, behavior), shape_of(op.results[0])
        for axis, _ in results[0].blocks:
            if any(
                shape_of(op.operands[i])[axis : axis + 1] != made[axis : axis + 1] for i in tied
            ):
                return Illegal("select-params", f"'{op.name}' reads across dimension {axis}")
        return [results[0]] * len(tied)
    above = _pushed(op, behavior, results)
    if isinstance(above, Illegal):
        return above
    below = carry_all_down(op, behavior, above, results)
    if isinstance(below, Illegal):
        return below
    if below != list(results):
        return Illegal("undetermined", "the qparams do not survive the way back")
    return above


def _pushed(
    op: Operation, behavior: Behavior, results: Sequence[QParams]
) -> list[QParams] | Illegal:
    from qdialect.algebra.qparams.parameter_field import ParameterField

    fields = [ParameterField.of(q, shape_of(v)) for q, v in zip(results, op.results, strict=True)]
    tied = [shape_of(op.operands[i]) for i in tied_operands(op, behavior)]
    pushed: tuple[ParameterField, ...] | Illegal = ()
    if behavior.operand_maps is not None:
        for along, shape in zip(behavior.operand_maps(op), tied, strict=True):
            above = along.push(fields[0], [shape])
            if isinstance(above, Illegal):
                return above
            pushed += above
    elif behavior.inverse_map is not None:
        joined = behavior.inverse_map(op).pull(fields)
        pushed = joined if isinstance(joined, Illegal) else (joined,)
    elif len(fields) != 1:
        return Illegal("undetermined", f"'{op.name}' does not say how its results join")
    else:
        pushed = behavior.maps(op)[0].push(fields[0], tied)
    if isinstance(pushed, Illegal):
        return pushed
    encoded = [*map(_encoded, pushed)]
    return next((q for q in encoded if isinstance(q, Illegal)), cast("list[QParams]", encoded))

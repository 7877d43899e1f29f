"""Ops declared as movements: what their index maps say, whatever they are lowered to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from xdsl.ir import Operation

from qdialect.analysis.codes import qparams_of
from qdialect.behaviors import Behavior, PortKind
from qdialect.behaviors.flow import carry_down
from qdialect.behaviors.shapes import shape_of
from qdialect.lowerings.emitter import E, Lowering
from qdialect.lowerings.errors import Unlowerable
from qdialect.lowerings.laid_out import LaidOut, plain
from qdialect.qparams import QParams

if TYPE_CHECKING:
    from qdialect.qparams.maps import IndexMap

LARGEST = 1 << 22
"""Indices that are written out: more of them are refused."""


def movement(moved: Callable[[E, IndexMap, Sequence[LaidOut]], LaidOut]) -> Lowering[E]:
    """Any movement, by `moved`: operands (of one storage) moved by a map, without parameters."""
    return lambda e, op, operands: _moved_by(moved, e, op, operands)


def laid_out_as(
    moved: Callable[[E, IndexMap, Sequence[LaidOut]], LaidOut],
    e: E,
    phi: IndexMap,
    operands: Sequence[LaidOut],
    shape: tuple[int, ...],
) -> LaidOut | None:
    """What of a movement needs no operation that moves: constants are moved at compile time,
    a transpose only says in which order the value is held, a reshape keeps the elements; maps
    in a row are taken one by one, by `moved`. None for any other."""
    import numpy as np

    from qdialect.qparams.maps import Reshape, Transpose
    from qdialect.qparams.maps.composite import Composite

    if phi.has_border:
        return None
    arrays = [x.array for x in operands if x.array is not None]
    if len(arrays) == len(operands):
        return LaidOut(
            shape, plain(len(shape)), None, None, np.ascontiguousarray(phi.apply(arrays))
        )
    if len(operands) != 1:
        return None
    x = operands[0]
    if isinstance(phi, Composite):
        for step in phi.steps(x.shape):
            x = moved(e, step, [x])
        return x
    if isinstance(phi, Transpose):
        return LaidOut(shape, tuple(phi.perm.index(d) for d in x.order), None, x.value)
    if isinstance(phi, Reshape):
        return LaidOut(shape, plain(len(shape)), None, e.reshaped(e.given(x), shape))
    return None


def _moved_by(
    moved: Callable[[E, IndexMap, Sequence[LaidOut]], LaidOut],
    e: E,
    op: Operation,
    operands: Sequence[LaidOut],
) -> Sequence[LaidOut]:
    """One value per result."""
    behavior = e.session.behaviors.get(op)
    assert behavior is not None and behavior.movement is not None
    taken = [
        x for n, x in enumerate(operands) if behavior.operand_port(n).kind is not PortKind.PLAIN
    ]
    maps = _maps(op, behavior, operands)
    found: list[LaidOut] = []
    for value, phi in zip(op.results, maps, strict=True):
        params, shape = qparams_of(value), shape_of(value)
        if len({x.params and x.params.storage for x in taken} | {params and params.storage}) > 1:
            raise Unlowerable("qparams", "its operands are not stored alike", "integerize")
        if behavior.requantizes_inputs and not _on_one_scale(op, behavior, taken, params):
            raise Unlowerable("qparams", "its operands are not on one scale", "integerize")
        out = moved(e, phi, taken)
        if out.shape != shape:
            raise Unlowerable("shape", f"its index map gives {out.shape}, its type {shape}")
        if out.value is not None:
            out = e.held(out.value, out.order, params, shape)
        else:
            out = LaidOut(shape, out.order, params, None, out.array)
        found.append(out)
    return found


def _on_one_scale(
    op: Operation, behavior: Behavior, operands: Sequence[LaidOut], result: QParams | None
) -> bool:
    given = [x.params for x in operands]
    if all(params == result for params in given):
        return True
    known = [params for params in given if params is not None]
    return len(known) == len(given) and carry_down(op, behavior, known) == result


def _maps(op: Operation, behavior: Behavior, operands: Sequence[LaidOut]) -> Sequence[IndexMap]:
    if behavior.movement_of_values is None:
        return behavior.maps(op)
    given = [
        x.array
        for n, x in enumerate(operands)
        if behavior.operand_port(n).kind is PortKind.PLAIN and x.array is not None
    ]
    if len(given) != sum(p.kind is PortKind.PLAIN for p in behavior.operands):
        raise Unlowerable("indices", "what it moves is known at run time only", "constant indices")
    return (behavior.movement_of_values(op, given),)

"""Lowers any op that is declared as a movement, by its index map, for every dialect.

A constant is moved at compile time, and a transpose only changes the order of a laid-out
tensor: operations are written for the rest. So an op of a plug-in that is declared as a
movement is lowered like ours.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import TYPE_CHECKING

import numpy as np
from xdsl.ir import Operation

from qdialect.algebra.qparams import QParams
from qdialect.analysis.codes import qparams_of
from qdialect.ir.behaviors import Behavior, PortKind
from qdialect.ir.behaviors.flow import carry_down
from qdialect.ir.behaviors.shapes import shape_of
from qdialect.plugins.common.lowering.emitter import E, Lowering
from qdialect.plugins.common.lowering.errors import Unlowerable
from qdialect.plugins.common.lowering.laid_out import LaidOut, identity_order

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qdialect.algebra.qparams.maps import IndexMap

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
    a transpose only says in which order the value is laid out, a reshape keeps the elements; maps
    in a row are taken one by one, by `moved`. None for any other."""
    from qdialect.algebra.qparams.maps import Reshape, Transpose
    from qdialect.algebra.qparams.maps.composite import Composite

    if phi.has_border:
        return None
    arrays = [x.array for x in operands if x.array is not None]
    if len(arrays) == len(operands):
        return LaidOut(
            shape, identity_order(len(shape)), None, None, np.ascontiguousarray(phi.apply(arrays))
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
        return LaidOut(shape, identity_order(len(shape)), None, e.reshaped(e.value_of(x), shape))
    return None


def flat_index(
    phi: IndexMap, operands: Sequence[LaidOut], shape: tuple[int, ...]
) -> tuple[NDArray[np.int64], int]:
    """Where each element of the result of `shape` is in the elements of all operands, one
    operand after the other, -1 at borders; and how many elements these are.

    Unlowerable (`size`) if the result is too large to list its elements."""
    if prod(shape) > LARGEST:
        raise Unlowerable(
            "size", f"its result has {prod(shape)} elements to list (at most {LARGEST})"
        )
    shapes = [x.shape for x in operands]
    operand, element = phi.gather_index(shapes)
    starts = np.cumsum([0, *(prod(s) for s in shapes)])
    return np.where(operand < 0, -1, element + starts[operand]), int(starts[-1])


def _moved_by(
    moved: Callable[[E, IndexMap, Sequence[LaidOut]], LaidOut],
    e: E,
    op: Operation,
    operands: Sequence[LaidOut],
) -> Sequence[LaidOut]:
    """One value per result."""
    behavior = e.session.behaviors.get(op)
    assert behavior is not None and behavior.movement is not None
    moved_operands = [
        x for n, x in enumerate(operands) if behavior.operand_port(n).kind is not PortKind.PLAIN
    ]
    maps = _maps(op, behavior, operands)
    results: list[LaidOut] = []
    for value, phi in zip(op.results, maps, strict=True):
        params, shape = qparams_of(value), shape_of(value)
        if (
            len(
                {x.params and x.params.storage for x in moved_operands}
                | {params and params.storage}
            )
            > 1
        ):
            raise Unlowerable("qparams", "its operands are not stored alike", "integerize")
        if behavior.requantizes_inputs and not _on_one_scale(op, behavior, moved_operands, params):
            raise Unlowerable("qparams", "its operands are not on one scale", "integerize")
        out = moved(e, phi, moved_operands)
        if out.shape != shape:
            raise Unlowerable("shape", f"its index map gives {out.shape}, its type {shape}")
        if out.value is not None:
            out = e.result(out.value, out.order, params, shape)
        else:
            out = LaidOut(shape, out.order, params, None, out.array)
        results.append(out)
    return results


def _on_one_scale(
    op: Operation, behavior: Behavior, operands: Sequence[LaidOut], result: QParams | None
) -> bool:
    params = [x.params for x in operands]
    if all(entry == result for entry in params):
        return True
    known = [entry for entry in params if entry is not None]
    return len(known) == len(params) and carry_down(op, behavior, known, like=result) == result


def _maps(op: Operation, behavior: Behavior, operands: Sequence[LaidOut]) -> Sequence[IndexMap]:
    if behavior.movement_of_values is None:
        return behavior.maps(op)
    constants = [
        x.array
        for n, x in enumerate(operands)
        if behavior.operand_port(n).kind is PortKind.PLAIN and x.array is not None
    ]
    if len(constants) != sum(p.kind is PortKind.PLAIN for p in behavior.operands):
        raise Unlowerable("indices", "what it moves is known at run time only", "constant indices")
    return (behavior.movement_of_values(op, constants),)

"""Ops that move elements: what TOSA says along its dimensions, along those of the value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from xdsl.dialects.builtin import i64
from xdsl.ir import Operation, SSAValue

from qdialect.algebra.qparams import QParams
from qdialect.ir import ops as nn
from qdialect.ir.dialects.attributes import integer_of, integers_of
from qdialect.plugins.common.lowering.laid_out import Order, identity_order
from qdialect.plugins.common.raising.errors import Unraisable
from qdialect.plugins.common.raising.raised import Raised, all_known
from qdialect.plugins.tosa.raising.facts import known, numbers
from qdialect.plugins.tosa.raising.raiser import Handler, Raiser


def as_typed(r: Raiser, x: Raised, value: SSAValue, order: Order | None = None) -> SSAValue:
    """`x` as it is typed; a constant with what is known of it, or as plain numbers."""
    order = x.order if order is None else order
    if x.array is not None and r.meanings.is_quantized(value):
        return r.typed(x, r.meanings.params(value), order)
    if x.array is not None:
        return r.plain(x, order)
    turned = r.in_order(x, order)
    assert turned.value is not None
    return turned.value


def along(order: Order, items: Sequence[int]) -> list[int]:
    """What is said dimension by dimension of TOSA, in the dimensions of the value."""
    found = [0] * len(order)
    for place, item in zip(order, items, strict=True):
        found[place] = item
    return found


def _transpose(r: Raiser, op: Operation, operands: Sequence[Raised]) -> Raised:
    """Another order, and no op."""
    (x,), perms = operands, integers_of(op, "perms")
    if x.array is not None:
        array = np.ascontiguousarray(x.array.transpose(perms))
        return Raised(identity_order(x.rank), None, array, x.element)
    return Raised(tuple(x.order[p] for p in perms), x.value)


def _identity(r: Raiser, op: Operation, operands: Sequence[Raised]) -> Raised:
    return operands[0]


def _reshape(r: Raiser, op: Operation, operands: Sequence[Raised]) -> Raised:
    x, shape = operands[0], numbers(op, 1, r.session)
    if x.array is not None:
        return Raised(identity_order(len(shape)), None, x.array.reshape(shape), x.element)
    order = identity_order(x.rank)
    value = as_typed(r, x, op.operands[0], order)
    kept = x.params
    if kept is not None and not kept.is_per_tensor:
        return _reshaped_per_axis(r, op, x, shape)
    return Raised(identity_order(len(shape)), r.append(nn.ReshapeOp(value, shape)).results[0])


def _reshaped_per_axis(r: Raiser, op: Operation, x: Raised, shape: Sequence[int]) -> Raised:
    """With a scale for each place of the last dimension, which stays; the storage is reshaped
    and read again."""
    params = x.params
    assert params is not None
    if x.order[-1] != params.axis or tuple(shape)[-1:] != x.shape[-1:]:
        raise Unraisable("axis", "it mixes dimensions of different scales")
    plain = r.plain(x)
    value = r.append(nn.ReshapeOp(plain, shape)).results[0]
    axis = QParams.per_axis(
        params.storage, len(shape) - 1, params.scale_list(), params.zero_point_list()
    )
    order = identity_order(len(shape))
    return Raised(order, r.typed(Raised(order, value), axis))


def _concat(r: Raiser, op: Operation, operands: Sequence[Raised]) -> Raised:
    axis = integer_of(op, "axis")
    order = common_order(operands)
    values = same_typed(r, op, list(operands), order, op.operands)
    return Raised(order, r.op(nn.ConcatOp, *values, axis=order[axis]))


def common_order(operands: Sequence[Raised]) -> Order:
    """The order of the largest operand that is no constant."""
    found = [x for x in operands if x.array is None]
    if not found:
        return identity_order(operands[0].rank)
    return max(found, key=lambda x: int(np.prod(x.shape))).order


def same_typed(
    r: Raiser,
    op: Operation,
    operands: Sequence[Raised],
    order: Order,
    values: Sequence[SSAValue],
) -> list[SSAValue]:
    """The operands with the one type that the result has: its qparams, or plain numbers."""
    result = op.results[0]
    if r.meanings.is_quantized(result):
        params = r.meanings.params(result)
        own = {x.params for x in operands if x.array is None}
        if len(own) == 1 and None not in own:
            (only,) = own
            assert only is not None
            params = only if only.is_per_tensor else params
        return [r.typed(x, params, order) for x in operands]
    return [r.plain(x, order) for x in operands]


def _pad(r: Raiser, op: Operation, operands: Sequence[Raised]) -> Raised:
    """With one number, which the value that it stands for pads with."""
    x, value = operands[0], op.operands[0]
    amounts = numbers(op, 1, r.session)
    fill = known(op, 2, r.session).reshape(-1)[0]
    low, high = along(x.order, amounts[::2]), along(x.order, amounts[1::2])
    stored = as_typed(r, x, value)
    params = Raised(x.order, stored).params
    if params is None:
        return Raised(x.order, r.op(nn.PadOp, stored, low=low, high=high, value=float(fill)))
    if not params.is_per_tensor:
        raise Unraisable("axis", "its scales vary along a dimension")
    unsigned = not params.storage.signed
    code = int(fill) & ((1 << params.storage.width) - 1) if unsigned else int(fill)
    # Read with a zero point of what it pads with, codes are padded with 0.
    padding = QParams.per_tensor(params.storage, params.scale, code)
    padded = r.op(nn.PadOp, r.typed(Raised(x.order, stored), padding), low=low, high=high)
    return Raised(x.order, r.typed(Raised(x.order, padded), params))


def _slice(r: Raiser, op: Operation, operands: Sequence[Raised]) -> Raised:
    x = operands[0]
    start, size = numbers(op, 1, r.session), numbers(op, 2, r.session)
    if x.array is not None:
        box = tuple(slice(a, a + n) for a, n in zip(start, size, strict=True))
        return Raised(x.order, None, np.ascontiguousarray(x.array[box]), x.element)
    if not all_known(size):
        raise Unraisable("dynamic-shape", "how much it takes is not known")
    starts = along(x.order, start)
    stops = along(x.order, [a + n for a, n in zip(start, size, strict=True)])
    stored = as_typed(r, x, op.operands[0])
    out = r.op(nn.SliceOp, stored, starts=starts, stops=stops, steps=[1] * x.rank)
    return Raised(x.order, out)


def _reverse(r: Raiser, op: Operation, operands: Sequence[Raised]) -> Raised:
    (x,) = operands
    axis = x.order[integer_of(op, "axis")]
    return Raised(x.order, r.op(nn.FlipOp, as_typed(r, x, op.operands[0]), axes=[axis]))


def _tile(r: Raiser, op: Operation, operands: Sequence[Raised]) -> Raised:
    x = operands[0]
    repeats = along(x.order, numbers(op, 1, r.session))
    return Raised(x.order, r.op(nn.TileOp, as_typed(r, x, op.operands[0]), repeats=repeats))


def _gather(r: Raiser, op: Operation, operands: Sequence[Raised]) -> Raised:
    """By constant indices, the same in all batches: along dimension 1."""
    x, indices = operands
    if indices.array is None or not (indices.array == indices.array[:1]).all():
        raise Unraisable("indices", "its indices are no constants, or differ between batches")
    where = r.constant(indices.array[0].astype(np.int64), i64)
    value = as_typed(r, x, op.operands[0], identity_order(3))
    return Raised(identity_order(3), r.op(nn.GatherOp, value, where, axis=1))


HANDLERS: Mapping[str, Handler] = {
    "transpose": _transpose,
    "identity": _identity,
    "reshape": _reshape,
    "concat": _concat,
    "pad": _pad,
    "slice": _slice,
    "reverse": _reverse,
    "tile": _tile,
    "gather": _gather,
}

"""Reductions over some dimensions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from qdialect.ir import ops as nn
from qdialect.ir.ops.base import NNOp
from qdialect.plugins.common.lowering.laid_out import Order
from qdialect.plugins.common.raising.errors import Unraisable
from qdialect.plugins.common.raising.raised import Raised
from qdialect.plugins.tflite.raising.node import Node, is_float, is_plain_integer, params_of
from qdialect.plugins.tflite.raising.raiser import Handler, Raiser, element_in, settled


def without(order: Order, axes: Sequence[int]) -> Order:
    """The order of what is left without some dimensions (of the file)."""
    kept = [place for d, place in enumerate(order) if d not in axes]
    return tuple(sorted(kept).index(place) for place in kept)


def axes_of(node: Node, rank: int) -> list[int]:
    """The dimensions (of the file) that are reduced, each once."""
    found = node.integers(1)
    if any(not -rank <= axis < rank for axis in found):
        raise Unraisable("axis", f"it reduces dimensions {found} of {rank}")
    return sorted({axis % rank for axis in found}) if rank else []


def _reduction(kind: type[NNOp], computes: bool) -> Handler:
    def raise_it(r: Raiser, node: Node) -> Raised:
        x = node.input(0)
        axes, keep = axes_of(node, x.rank), node.flag("keep_dims")
        order = x.order if keep else without(x.order, axes)
        if is_plain_integer(x) and kind is nn.ReduceMeanOp:
            raise Unraisable("type", "it takes a mean of plain integers")
        where = sorted(x.order[axis] for axis in axes)
        value = r.value(x)
        if computes:
            element = element_in(r, node, order)
            out = r.computed(kind, value, axes=where, keepdims=keep, element=element)
            return Raised(order, out)
        out = r.op(kind, value, axes=where, keepdims=keep)
        return settled(r, node, Raised(order, out))

    return raise_it


def product(r: Raiser, node: Node) -> Raised:
    """`REDUCE_PROD` of floats or integers, as ONNX has it."""
    x = node.input(0)
    if params_of(x) is not None and not is_float(x):
        raise Unraisable("no-counterpart", "no op of ours multiplies codes")
    axes, keep = axes_of(node, x.rank), node.flag("keep_dims")
    order = x.order if keep else without(x.order, axes)
    shape = [node.shape()[order.index(d)] for d in range(len(order))]
    inputs = [r.value(x), r.vector(sorted(x.order[axis] for axis in axes))]
    found = r.onnx("ReduceProd", inputs, (x.kind, shape), keepdims=int(keep))
    return Raised(order, found[0])


def _of_booleans(kind: str) -> Handler:
    """`REDUCE_ANY` and `REDUCE_ALL`: the largest or smallest of 0 and 1."""

    def raise_it(r: Raiser, node: Node) -> Raised:
        from xdsl.dialects.builtin import i1, i32

        x = node.input(0)
        axes, keep = axes_of(node, x.rank), node.flag("keep_dims")
        order = x.order if keep else without(x.order, axes)
        shape = [node.shape()[order.index(d)] for d in range(len(order))]
        inputs = [r.cast(r.value(x), i32), r.vector(sorted(x.order[axis] for axis in axes))]
        found = r.onnx(kind, inputs, (i32, shape), keepdims=int(keep))[0]
        return Raised(order, r.cast(found, i1))

    return raise_it


HANDLERS: Mapping[str, Handler] = {
    "MEAN": _reduction(nn.ReduceMeanOp, True),
    "SUM": _reduction(nn.ReduceSumOp, True),
    "REDUCE_MAX": _reduction(nn.ReduceMaxOp, False),
    "REDUCE_MIN": _reduction(nn.ReduceMinOp, False),
    "REDUCE_PROD": product,
    "REDUCE_ANY": _of_booleans("ReduceMax"),
    "REDUCE_ALL": _of_booleans("ReduceMin"),
}

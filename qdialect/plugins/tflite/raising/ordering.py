"""Where extremes are, sums from the front, and numbers in rows."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from xdsl.dialects.builtin import i64

from qdialect.ir import ops as nn
from qdialect.ir.ops import shape_of
from qdialect.plugins.common.lowering.laid_out import identity_order
from qdialect.plugins.common.raising.errors import Unraisable
from qdialect.plugins.common.raising.raised import Raised, all_known
from qdialect.plugins.tflite.raising.node import Node, is_float, kind_of, params_of
from qdialect.plugins.tflite.raising.raiser import Handler, Raiser
from qdialect.plugins.tflite.raising.reduction import without


def _place(kind: type[nn.ArgOp]) -> Handler:
    def raise_it(r: Raiser, node: Node) -> Raised:
        x = node.input(0)
        axis = node.integers(1)[0] % x.rank
        out = r.op(kind, r.value(x), axis=x.order[axis], keepdims=False)
        order = without(x.order, [axis])
        return Raised(order, r.cast(out, node.kind()))

    return raise_it


def top_k(r: Raiser, node: Node) -> list[Raised]:
    """`TOPK_V2` along the last dimension."""
    x = node.input(0)
    made = r.append(nn.TopKOp(r.value(x), k=node.integers(1)[0], axis=x.order[-1]))
    places = r.cast(made.results[1], node.kind(1))
    return [Raised(x.order, made.results[0]), Raised(x.order, places)]


def cumsum(r: Raiser, node: Node) -> Raised:
    """`CUMSUM` of plain numbers."""
    x = node.input(0)
    if params_of(x) is not None and not is_float(x):
        raise Unraisable("no-counterpart", "ONNX sums plain numbers only")
    axis = r.constant(np.array(x.order[node.integers(1)[0] % x.rank], np.int64), i64)
    value = r.value(x)
    flags = {name: int(node.flag(name)) for name in ("exclusive", "reverse")}
    found = r.onnx("CumSum", [value, axis], (node.kind(), shape_of(value)), **flags)
    return Raised(x.order, found[0])


def where(r: Raiser, node: Node) -> Raised:
    """`WHERE` of one input: the places of what is true, one a row."""
    x = node.input(0)
    if kind_of(x) != "i1" or len(node.inputs) != 1:
        raise Unraisable("type", "it is of no booleans")
    value = r.value(x, identity_order(x.rank))
    found = r.onnx("NonZero", [value], (i64, (x.rank, -1)))[0]
    # [rank, places] read as [places, rank]
    return Raised((1, 0), r.cast(found, node.kind()))


def shape(r: Raiser, node: Node) -> Raised:
    """`SHAPE` of what has unknown extents."""
    x = node.input(0)
    value = r.value(x, identity_order(x.rank))
    if params_of(x) is not None:
        value = r.plain(Raised(identity_order(x.rank), value))
    found = r.onnx("Shape", [value], (i64, (x.rank,)))[0]
    return Raised((0,), r.cast(found, node.kind()))


def zeros_like(r: Raiser, node: Node) -> Raised:
    """`ZEROS_LIKE` of a known shape."""
    shape, name = node.shape(), kind_of(node.input(0))
    kinds = {"f32": np.float32, "i32": np.int32, "i64": np.int64}
    if not all_known(shape) or name not in kinds:
        raise Unraisable("dynamic-shape", "its shape is not known, or it is of codes")
    value = r.constant(np.zeros(shape, kinds[name]), node.kind())
    return Raised(identity_order(len(shape)), value)


def fill(r: Raiser, node: Node) -> Raised:
    """`FILL`: a number in all places."""
    number = node.input(1)
    if params_of(number) is not None:
        raise Unraisable("no-counterpart", "it fills with a code")
    shape, value = node.shape(), r.value(number)
    if all_known(shape):
        return Raised(identity_order(len(shape)), r.op(nn.ExpandOp, value, shape=list(shape)))
    extents = r.cast(r.value(node.input(0)), i64)
    found = r.onnx("Expand", [value, extents], (node.kind(), shape))[0]
    return Raised(identity_order(len(shape)), found)


def row(r: Raiser, node: Node) -> Raised:
    """`RANGE` of numbers that are computed."""
    values = [r.value(node.input(index)) for index in range(3)]
    found = r.onnx("Range", values, (node.kind(), node.shape()))[0]
    return Raised((0,), found)


HANDLERS: Mapping[str, Handler] = {
    "ARG_MAX": _place(nn.ArgMaxOp),
    "ARG_MIN": _place(nn.ArgMinOp),
    "TOPK_V2": top_k,
    "CUMSUM": cumsum,
    "WHERE": where,
    "SHAPE": shape,
    "ZEROS_LIKE": zeros_like,
    "FILL": fill,
    "RANGE": row,
}

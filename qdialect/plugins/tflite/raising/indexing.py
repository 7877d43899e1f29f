"""Reading elements by indices, and writing them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from xdsl.dialects.builtin import i64

from qdialect.ir import ops as nn
from qdialect.plugins.common.lowering.laid_out import identity_order
from qdialect.plugins.common.raising.errors import Unraisable
from qdialect.plugins.common.raising.raised import Raised
from qdialect.plugins.tflite.raising.node import Node, is_float, kind_of, params_of
from qdialect.plugins.tflite.raising.raiser import Handler, Raiser, settled


def gather(r: Raiser, node: Node) -> Raised:
    """`GATHER` along one dimension."""
    x, indices = node.input(0), node.input(1)
    axis = node.number("axis") % max(x.rank, 1)
    if node.number("batch_dims"):
        raise Unraisable("batch-dims", "it has indices of its own for each batch")
    return _gathered(r, node, x, indices, axis)


def _gathered(r: Raiser, node: Node, x: Raised, indices: Raised, axis: int) -> Raised:
    place, count = x.order[axis], indices.rank
    where = r.value(indices, identity_order(count))
    out = r.op(nn.GatherOp, r.value(x), where, axis=place)
    moved = [d + (count - 1) * (d > place) for d in x.order]
    order = (*moved[:axis], *range(place, place + count), *moved[axis + 1 :])
    return settled(r, node, Raised(order, out))


def embedding(r: Raiser, node: Node) -> Raised:
    """`EMBEDDING_LOOKUP`: rows of a table; the first input is where."""
    table = node.input(1)
    if params_of(table) != node.params() and not is_float(table):
        raise Unraisable("hybrid", "its table is dequantized row by row")
    return _gathered(r, node, table, node.input(0), 0)


def _plain(x: Raised) -> Raised:
    if params_of(x) is not None and not is_float(x):
        raise Unraisable("no-counterpart", "ONNX does it of plain numbers only")
    return x


def gather_nd(r: Raiser, node: Node) -> Raised:
    """`GATHER_ND` of plain numbers."""
    x, indices = _plain(node.input(0)), node.input(1)
    value = r.value(x, identity_order(x.rank))
    where = r.cast(r.value(indices, identity_order(indices.rank)), i64)
    found = r.onnx("GatherND", [value, where], (node.kind(), node.shape()))
    return Raised(identity_order(len(node.shape())), found[0])


def scatter_nd(r: Raiser, node: Node) -> Raised:
    """`SCATTER_ND`: sums of the updates at each place, 0 elsewhere."""
    indices, updates = node.input(0), _plain(node.input(1))
    shape = node.integers(2)
    name = kind_of(updates)
    if name not in ("f32", "i32", "i64"):
        raise Unraisable("type", f"it scatters {name or 'codes'}")
    kind = {"f32": np.float32, "i32": np.int32, "i64": np.int64}[name]
    zeros = r.constant(np.zeros(shape, kind), node.kind())
    where = r.cast(r.value(indices, identity_order(indices.rank)), i64)
    values = r.value(updates, identity_order(updates.rank))
    found = r.onnx("ScatterND", [zeros, where, values], (node.kind(), shape), reduction="add")
    return Raised(identity_order(len(shape)), found[0])


def one_hot(r: Raiser, node: Node) -> Raised:
    """`ONE_HOT` of plain numbers."""
    indices, depth = node.input(0), node.integers(1)[0]
    on, off = node.array(2).reshape(-1)[0], node.array(3).reshape(-1)[0]
    values = r.constant(np.array([off, on], node.array(2).dtype), node.kind())
    where = r.cast(r.value(indices, identity_order(indices.rank)), i64)
    size = r.constant(np.array(depth, np.int64), i64)
    # ONNX counts negative indices from the end, TFLite leaves them off.
    if indices.array is None or (indices.array < 0).any():
        raise Unraisable("indices", "negative indices mean another thing in ONNX")
    kind = (node.kind(), node.shape())
    found = r.onnx("OneHot", [where, size, values], kind, axis=node.number("axis", -1))
    return Raised(identity_order(len(node.shape())), found[0])


HANDLERS: Mapping[str, Handler] = {
    "GATHER": gather,
    "EMBEDDING_LOOKUP": embedding,
    "GATHER_ND": gather_nd,
    "SCATTER_ND": scatter_nd,
    "ONE_HOT": one_hot,
}

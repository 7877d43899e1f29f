"""SPACE_TO_BATCH_ND and BATCH_TO_SPACE_ND; a convolution between them is one with dilations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from qdialect.ir import ops as nn
from qdialect.plugins.common.lowering.laid_out import identity_order
from qdialect.plugins.common.raising.errors import Unraisable
from qdialect.plugins.common.raising.raised import Raised, all_known
from qdialect.plugins.tflite.dialect import TfliteNodeOp
from qdialect.plugins.tflite.raising.contraction import dilated
from qdialect.plugins.tflite.raising.node import Node, params_of
from qdialect.plugins.tflite.raising.raiser import Handler, Raiser, settled


def space_to_batch(r: Raiser, node: Node) -> Raised:
    """`SPACE_TO_BATCH_ND`: each phase of the padded spatial dimensions in a batch of its own."""
    x, block = node.input(0), node.integers(1)
    amounts = node.array(2).reshape(-1, 2).tolist()
    count = len(block)
    rest = x.rank - 1 - count
    value = r.value(x, identity_order(x.rank))
    if any(map(any, amounts)):
        low, high = ([0, *(pair[k] for pair in amounts), *[0] * rest] for k in (0, 1))
        value = r.op(nn.PadOp, value, low=low, high=high)
    sizes = [n + sum(p) for n, p in zip(x.shape[1:], amounts, strict=False)]
    shape = node.shape()
    if not all_known((*x.shape, *shape)):
        raise Unraisable("dynamic-shape", "its shape is not known")
    split: list[int] = [x.shape[0]]
    for n, b in zip(sizes, block, strict=True):
        split += [n // b, b]
    out = r.append(nn.ReshapeOp(value, [*split, *x.shape[1 + count :]])).results[0]
    inner = [2 + 2 * k for k in range(count)]
    outer = [1 + 2 * k for k in range(count)]
    perm = [*inner, 0, *outer, *range(1 + 2 * count, 1 + 2 * count + rest)]
    out = r.op(nn.TransposeOp, out, perm=perm)
    out = r.append(nn.ReshapeOp(out, list(shape))).results[0]
    return settled(r, node, Raised(identity_order(len(shape)), out))


def batch_to_space(r: Raiser, node: Node) -> Raised:
    """`BATCH_TO_SPACE_ND`, the way back, less crops."""
    found = _dilated(r, node)
    if found is not None:
        return found
    x, block = node.input(0), node.integers(1)
    crops = node.array(2).reshape(-1, 2).tolist()
    count = len(block)
    if not all_known(x.shape):
        raise Unraisable("dynamic-shape", "its shape is not known")
    batch = x.shape[0]
    for b in block:
        batch //= b
    rest = list(x.shape[1 + count :])
    value = r.value(x, identity_order(x.rank))
    out = r.append(nn.ReshapeOp(value, [*block, batch, *x.shape[1:]])).results[0]
    perm = [count]
    for k in range(count):
        perm += [count + 1 + k, k]
    out = r.op(nn.TransposeOp, out, perm=[*perm, *range(2 * count + 1, 2 * count + 1 + len(rest))])
    sizes = [n * b for n, b in zip(x.shape[1:], block, strict=False)]
    out = r.append(nn.ReshapeOp(out, [batch, *sizes, *rest])).results[0]
    if any(map(any, crops)):
        starts = [0, *(pair[0] for pair in crops), *[0] * len(rest)]
        ends = [n - pair[1] for n, pair in zip(sizes, crops, strict=True)]
        stops = [batch, *ends, *rest]
        out = r.op(nn.SliceOp, out, starts=starts, stops=stops, steps=[1] * len(stops))
    return settled(r, node, Raised(identity_order(x.rank), out))


def _dilated(r: Raiser, node: Node) -> Raised | None:
    """A convolution between the two ops as one of the operand of the first."""
    middle = node.op.arguments[0]
    product = None if middle is None else middle.owner
    if not isinstance(product, TfliteNodeOp):
        return None
    if product.op.data not in ("CONV_2D", "DEPTHWISE_CONV_2D"):
        return None
    source = product.arguments[0]
    first = None if source is None else source.owner
    if not isinstance(first, TfliteNodeOp) or first.op.data != "SPACE_TO_BATCH_ND":
        return None
    begin = Node(first, [None if v is None else r.known[v] for v in first.arguments])
    conv = Node(product, [None if v is None else r.known[v] for v in product.arguments])
    if begin.params() != params_of(begin.input(0)) or conv.params() != node.params():
        return None
    pads = _pads(begin, conv, node)
    if pads is None or begin.integers(1) != node.integers(1):
        return None
    x = begin.input(0)
    inputs: list[Any] = [x, *conv.inputs[1:]]
    r.node = Node(product, inputs)
    made = dilated(r, r.node, tuple(begin.integers(1)), pads)
    r.node = node
    return settled(r, node, made)


def _pads(begin: Node, conv: Node, end: Node) -> tuple[int, ...] | None:
    """The paddings of the one convolution; None where it is none."""
    before: Sequence[Any] = begin.array(2).reshape(-1, 2).tolist()
    after: Sequence[Any] = end.array(2).reshape(-1, 2).tolist()
    simple = str(conv.option("padding", "SAME")) == "VALID" and all(
        conv.number(name, 1) == 1
        for name in ("stride_h", "stride_w", "dilation_h_factor", "dilation_w_factor")
    )
    if not simple or len(before) != 2 or len(after) != 2 or any(pair[0] for pair in after):
        return None
    ends = [p[1] - c[1] for p, c in zip(before, after, strict=True)]
    if min(ends) < 0:
        return None
    return (before[0][0], before[1][0], *ends)


HANDLERS: Mapping[str, Handler] = {
    "SPACE_TO_BATCH_ND": space_to_batch,
    "BATCH_TO_SPACE_ND": batch_to_space,
}

"""Pools over windows of images."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from qdialect.ir import ops as nn
from qdialect.plugins.common.lowering.laid_out import channels_last
from qdialect.plugins.common.raising.errors import Unraisable
from qdialect.plugins.common.raising.raised import Raised
from qdialect.plugins.tflite.raising.activations import activated
from qdialect.plugins.tflite.raising.node import Node, is_float
from qdialect.plugins.tflite.raising.raiser import Handler, Raiser, settled
from qdialect.plugins.tflite.raising.windows import paddings, strides


def _windows(node: Node) -> dict[str, Any]:
    x = node.input(0)
    kernel = node.number("filter_height", 1), node.number("filter_width", 1)
    stride = strides(node, 2)
    return {
        "kernel": kernel,
        "strides": stride,
        "pads": paddings(node, x.shape[1:3], kernel, stride, (1, 1)),
    }


def max_pool(r: Raiser, node: Node) -> Raised:
    """`MAX_POOL_2D`."""
    order = channels_last(4)
    out = r.op(nn.MaxPool2DOp, r.value(node.input(0), order), **_windows(node))
    settle = settled(r, node, Raised(order, out))
    return Raised(order, activated(r, r.value(settle), node.activation))


def average_pool(r: Raiser, node: Node) -> Raised:
    """`AVERAGE_POOL_2D`, over what is inside; of codes, whatever they stand for: the kernel does
    not read the qparams of its result."""
    order = channels_last(4)
    out = r.computed(nn.AvgPool2DOp, r.value(node.input(0), order), **_windows(node))
    settle = settled(r, node, Raised(order, out))
    return Raised(order, activated(r, r.value(settle), node.activation))


def l2_pool(r: Raiser, node: Node) -> Raised:
    """`L2_POOL_2D`: the root of the mean of squares."""
    x, order = node.input(0), channels_last(4)
    if not is_float(x):
        raise Unraisable("no-counterpart", "no op of ours computes it of codes")
    value = r.value(x, order)
    mean = r.op(nn.AvgPool2DOp, r.op(nn.MulOp, value, value), **_windows(node))
    return Raised(order, activated(r, r.op(nn.SqrtOp, mean), node.activation))


HANDLERS: Mapping[str, Handler] = {
    "MAX_POOL_2D": max_pool,
    "AVERAGE_POOL_2D": average_pool,
    "L2_POOL_2D": l2_pool,
}

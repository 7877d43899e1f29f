"""RESIZE_BILINEAR and RESIZE_NEAREST_NEIGHBOR as the ops of `nn` that read the same pixels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from xdsl.dialects.builtin import i64

from qdialect.ir import ops as nn
from qdialect.ir.ops.resize import NEAREST, NEAREST_COORDINATES, nearest_indices
from qdialect.plugins.common.lowering.laid_out import channels_last
from qdialect.plugins.common.raising.errors import Unraisable
from qdialect.plugins.common.raising.raised import Raised, all_known
from qdialect.plugins.tflite.raising.node import Node
from qdialect.plugins.tflite.raising.raiser import Handler, Raiser, settled


def _sizes(node: Node) -> tuple[int, ...]:
    x, shape = node.input(0).shape, list(node.shape())
    if node.input(1).array is not None:
        shape[1:3] = node.integers(1)
    if not all_known((*x[1:3], *shape[1:3])):
        raise Unraisable("dynamic-shape", "its shape is not known")
    return (shape[0], shape[3], shape[1], shape[2])


def bilinear(r: Raiser, node: Node) -> Raised:
    """`RESIZE_BILINEAR`."""
    x, order, sizes = node.input(0), channels_last(4), _sizes(node)
    coordinates = "asymmetric"
    if node.flag("align_corners"):
        coordinates = "align_corners"
    elif node.flag("half_pixel_centers"):
        coordinates = "half_pixel"
    given = _scales_or_sizes(x.shape, sizes)
    out = r.computed(nn.ResizeLinearOp, r.value(x, order), coordinates=coordinates, **given)
    return settled(r, node, Raised(order, out))


def _scales_or_sizes(shape: Sequence[int], sizes: Sequence[int]) -> dict[str, Any]:
    """Sizes, or factors where batches are not known."""
    if sizes[0] >= 0 and sizes[1] >= 0:
        return {"sizes": tuple(sizes)}
    factors = [float(out) / n for out, n in zip(sizes[2:], shape[1:3], strict=True)]
    if any(factor != int(factor) for factor in factors):
        raise Unraisable("dynamic-shape", "its batch is not known, and its factors are fractions")
    return {"scales": (1.0, 1.0, *factors)}


def _read(node: Node, size: int, count: int) -> tuple[int, ...]:
    """The pixels that TFLite reads along a dimension."""
    single = np.float32
    corners = node.flag("align_corners") and count > 1
    scale = single(size - 1) / single(count - 1) if corners else single(size) / single(count)
    offset = single(0.5) if node.flag("half_pixel_centers") else single(0)
    at = (np.arange(count, dtype=np.float32) + offset) * scale
    # Half away from zero, of numbers that are not negative.
    found = np.floor(at.astype(np.float64) + 0.5) if node.flag("align_corners") else np.floor(at)
    return tuple(int(n) for n in np.clip(found, 0, size - 1))


def nearest(r: Raiser, node: Node) -> Raised:
    """`RESIZE_NEAREST_NEIGHBOR`; where no op reads the same pixels, rows and columns by index."""
    x, order, sizes = node.input(0), channels_last(4), _sizes(node)
    shape = tuple(x.shape[d] for d in (0, 3, 1, 2))
    expected = [_read(node, n, m) for n, m in zip(shape[2:], sizes[2:], strict=True)]
    value = r.value(x, order)
    if sizes[0] >= 0 and sizes[1] >= 0:
        for coordinates in NEAREST_COORDINATES:
            for rounding in NEAREST:
                chosen = {"coordinates": coordinates, "nearest": rounding}
                found = nearest_indices(shape, {"sizes": sizes, **chosen}).indices[2:]
                read = [
                    tuple(range(n)) if index is None else index
                    for n, index in zip(shape[2:], found, strict=True)
                ]
                if read == expected:
                    out = r.op(nn.ResizeNearestOp, value, sizes=sizes, **chosen)
                    return settled(r, node, Raised(order, out))
    for axis, places in zip((2, 3), expected, strict=True):
        where = r.constant(np.array(places, np.int64), i64)
        value = r.op(nn.GatherOp, value, where, axis=axis)
    return settled(r, node, Raised(order, value))


HANDLERS: Mapping[str, Handler] = {
    "RESIZE_BILINEAR": bilinear,
    "RESIZE_NEAREST_NEIGHBOR": nearest,
}

"""Kernels of ops that move elements between channels and space of NCHW arrays."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from xdsl.ir import Operation

from qdialect import ops as nn
from qdialect.quant import quant_element
from qdialect.reference.elementwise import properties
from qdialect.reference.quantize import real_zeros
from qdialect.reference.values import Array, Evaluation, Kernel
from qdialect.reference.windows import windows


def _depth_to_space(
    op: Operation, operands: Sequence[Array], evaluation: Evaluation
) -> list[Array]:
    """y[n, c, h * r + i, w * r + j] = x[n, channel(c, i, j), h, w]"""
    x, r = operands[0], properties(op)["block"]
    n, channels, h, w = x.shape
    result = np.empty((n, channels // (r * r), h * r, w * r), x.dtype)
    for i, j, chosen in _phases(op, channels // (r * r)):
        result[:, :, i::r, j::r] = x[:, chosen]
    return [result]


def _space_to_depth(
    op: Operation, operands: Sequence[Array], evaluation: Evaluation
) -> list[Array]:
    """y[n, channel(c, i, j), h, w] = x[n, c, h * r + i, w * r + j]"""
    x, r = operands[0], properties(op)["block"]
    n, channels, h, w = x.shape
    result = np.empty((n, channels * r * r, h // r, w // r), x.dtype)
    for i, j, chosen in _phases(op, channels):
        result[:, chosen] = x[:, :, i::r, j::r]
    return [result]


def _phases(op: Operation, channels: int) -> list[tuple[int, int, slice]]:
    """Row and column in the block, and the channels of the deep side that hold it."""
    v = properties(op)
    r: int = v["block"]
    found: list[tuple[int, int, slice]] = []
    for i in range(r):
        for j in range(r):
            phase = i * r + j
            if v["mode"] == "DCR":
                chosen = slice(phase * channels, (phase + 1) * channels)
            else:
                chosen = slice(phase, channels * r * r, r * r)
            found.append((i, j, chosen))
    return found


def _im2col(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> list[Array]:
    """Windows as columns; padding is real 0, the zero point of each stored cell."""
    v, x = properties(op), operands[0]
    top, left, bottom, right = v["pads"]
    element = quant_element(op.operands[0].type)
    if element is not None:
        zeros = np.broadcast_to(real_zeros(element.qparams, x.shape), x.shape)
        filled = np.pad(zeros, ((0, 0), (0, 0), (top, bottom), (left, right)), "edge")
        filled = filled.astype(x.dtype)
        filled[:, :, top : top + x.shape[2], left : left + x.shape[3]] = x
        x, top, left, bottom, right = filled, 0, 0, 0, 0
    pads = (top, left, bottom, right)
    view = windows(x, v["kernel"], v["strides"], pads, v["dilations"], 0)
    n, channels, kh, kw, oh, ow = view.shape
    return [view.reshape(n, channels * kh * kw, oh * ow)]


_ROUND: Mapping[str, Callable[[float], int]] = {
    "floor": math.floor,
    "ceil": math.ceil,
    "round_prefer_floor": lambda x: math.ceil(x - 0.5),
    "round_prefer_ceil": lambda x: math.floor(x + 0.5),
}


def _resize_nearest(
    op: Operation, operands: Sequence[Array], evaluation: Evaluation
) -> list[Array]:
    """Each dimension reads the nearest index; coordinates in f32."""
    v, x = properties(op), operands[0]
    for axis, size in enumerate(x.shape):
        if v.get("sizes") is not None:
            out = int(v["sizes"][axis])
            scale = np.float32(out) / np.float32(size) if size else np.float32(1)
        else:
            scale = np.float32(v["scales"][axis])
            out = math.floor(np.float32(size) * scale)
        coordinates = (_coordinate(j, scale, size, out, v["coordinates"]) for j in range(out))
        nearest = [_ROUND[v["nearest"]](float(at)) for at in coordinates]
        x = np.take(x, np.array([min(max(i, 0), size - 1) for i in nearest], np.int64), axis)
    return [x]


def _coordinate(j: int, scale: np.float32, size: int, out: int, mode: str) -> np.float32:
    """Where in the input result index j lies."""
    if mode == "asymmetric":
        return np.float32(j) / scale
    if mode == "half_pixel":
        return (np.float32(j) + np.float32(0.5)) / scale - np.float32(0.5)
    if out == 1:
        return np.float32(0)
    return np.float32(j) * np.float32(size - 1) / np.float32(out - 1)


KERNELS: Mapping[str, Kernel] = {
    nn.DepthToSpaceOp.name: _depth_to_space,
    nn.SpaceToDepthOp.name: _space_to_depth,
    nn.Im2colOp.name: _im2col,
    nn.ResizeNearestOp.name: _resize_nearest,
}

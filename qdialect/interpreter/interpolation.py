"""The kernel of bilinear resize: coordinates in f32, as ONNX Runtime computes them.

Without quantized types in the type of the operand (f16 and bf16 in f32, rounded once);
with them exact and stored once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import floor

import numpy as np
from xdsl.ir import Operation

from qdialect.interpreter.contraction import factor
from qdialect.interpreter.quantize import is_quantized, plain, properties, stored, widened
from qdialect.interpreter.real import Real
from qdialect.interpreter.values import Array, Evaluation, Kernel
from qdialect.ir import ops as nn


def _resize_linear(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> list[Array]:
    """Each element is a mean of four, weighted by how near they are."""
    x = operands[0]
    low, high, down = _along(op, x, 2)
    left, right, across = _along(op, x, 3)
    down = down[:, None]
    if not is_quantized(op):
        wide = widened(x)
        down, across = down.astype(wide.dtype), across.astype(wide.dtype)
        y = wide[:, :, low] * (1 - down) + wide[:, :, high] * down
        y = y[..., left] * (1 - across) + y[..., right] * across
        return plain(op, y, evaluation)
    steps, scales = factor(op, 0, x, (2, 3))
    corners = [
        Real.floats(steps[:, :, rows][..., columns]) * Real.floats(a) * Real.floats(b)
        for rows, a in ((low, 1 - down), (high, down))
        for columns, b in ((left, 1 - across), (right, across))
    ]
    total = corners[0] + corners[1] + corners[2] + corners[3]
    return stored(op, total * Real.floats(scales), evaluation)


def _along(op: Operation, x: Array, dim: int) -> tuple[Array, Array, Array]:
    """Per result index along `dim` the elements before and after it, and how far it is
    past the first."""
    v, size = properties(op), x.shape[dim]
    if v.get("sizes") is not None:
        out = int(v["sizes"][dim])
        scale = np.float32(out) / np.float32(max(size, 1))
    else:
        scale = np.float32(v["scales"][dim])
        out = floor(np.float32(size) * scale)
    places = [_coordinate(j, scale, size, out, v["coordinates"]) for j in range(out)]
    inside = [min(max(float(at), 0.0), size - 1.0) for at in places]
    first = np.array([floor(at) for at in inside], np.int64)
    rest = np.array(inside) - first
    return first, np.minimum(first + 1, size - 1), rest


def _coordinate(j: int, scale: np.float32, size: int, out: int, mode: str) -> np.float32:
    """Where in the input result index j lies."""
    if mode == "asymmetric":
        return np.float32(j) / scale
    if mode == "align_corners":
        if out == 1:
            return np.float32(0)
        return np.float32(j) * np.float32(size - 1) / np.float32(out - 1)
    if mode == "pytorch_half_pixel" and out == 1:
        return np.float32(0)
    return (np.float32(j) + np.float32(0.5)) / scale - np.float32(0.5)


KERNELS: Mapping[str, Kernel] = {nn.ResizeLinearOp.name: _resize_linear}

"""Kernels of pooling.

Max pool takes maxima of floats or stored integers; a window of nothing but
padding gives -infinity, or the lowest integer of the storage. Average pools
without quantized types sum in the type of the operand (f16 and bf16 in f32,
rounded once); with them the mean is exact and stored once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

import numpy as np
from xdsl.ir import Operation

from qdialect.dialects import nn
from qdialect.dialects.quant import quant_element
from qdialect.interpreter.codes import is_coded, ordered, unordered
from qdialect.interpreter.contraction import factor
from qdialect.interpreter.elementwise import plain, properties, stored, widened
from qdialect.interpreter.quantize import is_quantized
from qdialect.interpreter.real import Real, total
from qdialect.interpreter.values import Array, Evaluation, Kernel
from qdialect.interpreter.windows import windows


def _windows(op: Operation, x: Array, fill: float) -> Array:
    """The op's windows [N, C, kernel H, kernel W, out H, out W] over x."""
    v = properties(op)
    return windows(x, v["kernel"], v["strides"], v["pads"], v["dilations"], fill, v["ceil_mode"])


def _max_pool2d(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> list[Array]:
    """Largest element of each window inside the input."""
    x = operands[0]
    element = quant_element(op.operands[0].type)
    if element is not None:
        storage = element.qparams.storage
        lowest = -1 if is_coded(storage) else storage.min
        largest = _windows(op, ordered(x, storage), lowest).max(axis=(2, 3))
        return [unordered(largest, storage, x.dtype)]
    lowest = -np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min
    return [_windows(op, x, lowest).max(axis=(2, 3))]


def _avg_pool2d(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> list[Array]:
    """Mean over the elements inside the input, or inside the padded input; 0 of none."""
    x = operands[0]
    if not is_quantized(op):
        view = _windows(op, widened(x), 0)
        counts = np.maximum(_counts(op, x.shape[2:], view.shape[4:]), 1)
        return plain(op, view.sum(axis=(2, 3)) / counts.astype(view.dtype), evaluation)
    steps, scales = factor(op, 0, x, (2, 3))
    columns = np.moveaxis(_windows(op, steps, 0), (2, 3), (-2, -1))
    counts = np.maximum(_counts(op, x.shape[2:], columns.shape[2:4]), 1)
    sums = total(columns.reshape(*columns.shape[:4], -1))
    return stored(op, sums * Real.floats(scales) / Real.integers(counts), evaluation)


def _counts(op: Operation, size: Sequence[int], out: Sequence[int]) -> Array:
    """Number of elements each window averages over, [out H, out W]."""
    v = properties(op)
    names = ("kernel", "strides", "pads", "dilations")
    kernel, strides, pads, dilations = (cast("tuple[int, ...]", v[name]) for name in names)
    counts: list[Array] = []
    for d in range(2):
        # Positions in the padded input.
        places = np.arange(out[d])[:, None] * strides[d] + np.arange(kernel[d]) * dilations[d]
        low, high = pads[d], pads[d] + size[d]
        if v["count_include_pad"]:
            low, high = 0, high + pads[d + 2]
        counts.append(np.count_nonzero((places >= low) & (places < high), axis=1))
    return np.outer(*counts)


def _global_avg_pool2d(
    op: Operation, operands: Sequence[Array], evaluation: Evaluation
) -> list[Array]:
    """Mean over H and W."""
    x = operands[0]
    if not is_quantized(op):
        return plain(op, widened(x).mean(axis=(2, 3), keepdims=True), evaluation)
    steps, scales = factor(op, 0, x, (2, 3))
    sums = total(steps.reshape(*x.shape[:2], 1, 1, -1))
    count = Real.integers(np.array(x.shape[2] * x.shape[3]))
    return stored(op, sums * Real.floats(scales) / count, evaluation)


KERNELS: Mapping[str, Kernel] = {
    nn.MaxPool2DOp.name: _max_pool2d,
    nn.AvgPool2DOp.name: _avg_pool2d,
    nn.GlobalAvgPool2DOp.name: _global_avg_pool2d,
}

"""Kernels of pooling.

Max pool takes maxima of floats or stored integers; a window of nothing but
padding gives -infinity, or the lowest integer within the storage bounds. Average pools
without quantized types sum in the type of the operand (f16 and bf16 in f32,
rounded once); with them the mean is exact and stored once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

import numpy as np
from xdsl.ir import Operation

from qdialect.interpreter.codes import is_coded, ordered, unordered
from qdialect.interpreter.contraction import factor
from qdialect.interpreter.quantize import is_quantized, plain, properties, stored, widened
from qdialect.interpreter.real import Real, total
from qdialect.interpreter.values import Array, Evaluation, Kernel
from qdialect.interpreter.windows import windows
from qdialect.ir import ops as nn
from qdialect.ir.quant import quant_element


def _windows(op: Operation, x: Array, fill: float) -> Array:
    """The op's windows [N, C, kernel..., out...] over x."""
    v = properties(op)
    return windows(x, v["kernel"], v["strides"], v["pads"], v["dilations"], fill, v["ceil_mode"])


def max_pool(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> list[Array]:
    """Largest element of each window inside the input."""
    x = operands[0]
    taps = tuple(range(2, x.ndim))
    element = quant_element(op.operands[0].type)
    if element is not None:
        storage = element.qparams.storage
        # Below every code, also those outside narrowed bounds: padding is never chosen.
        padding, lowest = (
            (-1, -1) if is_coded(storage) else (storage.full_range[0] - 1, storage.min)
        )
        numbers = ordered(x, storage).astype(np.int64)
        largest = _windows(op, numbers, padding).max(axis=taps)
        largest = np.where(largest == padding, lowest, largest)
        return [unordered(largest, storage, x.dtype).astype(x.dtype)]
    lowest = -np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min
    return [_windows(op, x, lowest).max(axis=taps)]


def _avg_pool(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> list[Array]:
    """Mean over the elements inside the input, or inside the padded input; 0 of none."""
    x = operands[0]
    spatial = tuple(range(2, x.ndim))
    if not is_quantized(op):
        view = _windows(op, widened(x), 0)
        counts = np.maximum(window_counts(op, x.shape[2:], view.shape[x.ndim :]), 1)
        return plain(op, view.sum(axis=spatial) / counts.astype(view.dtype), evaluation)
    steps, scales = factor(op, 0, x, spatial)
    view = _windows(op, steps, 0)
    out = view.shape[x.ndim :]
    counts = np.maximum(window_counts(op, x.shape[2:], out), 1)
    columns = np.moveaxis(view, spatial, range(-len(spatial), 0))
    sums = total(columns.reshape(*x.shape[:2], *out, -1))
    return stored(op, sums * Real.floats(scales) / Real.integers(counts), evaluation)


def window_counts(op: Operation, size: Sequence[int], out: Sequence[int]) -> Array:
    """Number of elements each window averages over, [out...]."""
    v = properties(op)
    names = ("kernel", "strides", "pads", "dilations")
    kernel, strides, pads, dilations = (cast("tuple[int, ...]", v[name]) for name in names)
    counts: Array = np.array(1)
    for d in range(len(size)):
        # Positions in the padded input.
        places = np.arange(out[d])[:, None] * strides[d] + np.arange(kernel[d]) * dilations[d]
        low, high = pads[d], pads[d] + size[d]
        if v["count_include_pad"]:
            low, high = 0, high + pads[d + len(size)]
        inside = np.count_nonzero((places >= low) & (places < high), axis=1)
        counts = np.multiply.outer(counts, inside)
    return counts


def _global_avg_pool(
    op: Operation, operands: Sequence[Array], evaluation: Evaluation
) -> list[Array]:
    """Mean over the spatial dimensions."""
    x = operands[0]
    spatial = tuple(range(2, x.ndim))
    if not is_quantized(op):
        return plain(op, widened(x).mean(axis=spatial, keepdims=True), evaluation)
    steps, scales = factor(op, 0, x, spatial)
    sums = total(steps.reshape(*x.shape[:2], *(1 for _ in spatial), -1))
    count = Real.integers(np.array(int(np.prod(x.shape[2:]))))
    return stored(op, sums * Real.floats(scales) / count, evaluation)


KERNELS: Mapping[str, Kernel] = {
    **{kind.name: max_pool for kind in nn.MAX_POOLS},
    **{kind.name: _avg_pool for kind in nn.AVERAGE_POOLS},
    **{kind.name: _global_avg_pool for kind in nn.GLOBAL_AVERAGE_POOLS},
}

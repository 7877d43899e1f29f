"""Kernels of ops that quantize their input as they run.

As ONNX defines DynamicQuantizeLinear, in f32: the range of x, with 0 inside, has 255
steps; the zero point is the nearest code to real 0 (ties to even), and so are codes.
Integer sums are exact; their product with the scales is rounded twice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from xdsl.ir import Operation

from qdialect.interpreter.quantize import field, offsets, properties
from qdialect.interpreter.values import Array, Evaluation, Kernel
from qdialect.interpreter.windows import windows
from qdialect.ir import ops as nn
from qdialect.ir.quant import quant_element

Singles = NDArray[np.float32]


def _grid(x: Singles) -> tuple[NDArray[np.uint8], np.float32, np.uint8]:
    """Codes, scale and zero point."""
    low = np.minimum(x.min(initial=np.float32(0)), np.float32(0))
    high = np.maximum(x.max(initial=np.float32(0)), np.float32(0))
    scale = np.float32(1) if low == high else (high - low) / np.float32(255)
    zero = np.uint8(np.clip(np.rint(np.float32(0) - low / scale), 0, 255))
    steps = np.rint(x / scale).astype(np.float64) + zero
    codes = np.where(np.isnan(steps), 0, np.clip(steps, 0, 255))
    return codes.astype(np.uint8), scale, zero


def _quantize(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> list[Array]:
    codes, scale, zero = _grid(operands[0].astype(np.float32))
    stored_scale = evaluation.as_float(np.asarray(scale), op.results[1].type)
    return [codes, stored_scale, np.asarray(zero)]


def _steps(op: Operation, operands: Sequence[Array]) -> tuple[Array, Array, Singles, np.float32]:
    """What is summed: input and weight less their zero points, and the scales."""
    codes, scale, zero = _grid(operands[0].astype(np.float32))
    element = quant_element(op.operands[1].type)
    assert element is not None
    weight = offsets(operands[1], element.qparams).astype(np.int64)
    scales = field(element.qparams, operands[1].shape)[0].astype(np.float32)
    return codes.astype(np.int64) - int(zero), weight, scales, scale


def _matmul(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> list[Array]:
    x, w, scales, scale = _steps(op, operands)
    row = scales.reshape(-1) if scales.size > 1 else scales.reshape(())
    y = (x @ w).astype(np.float32) * (scale * row)
    return [evaluation.as_float(np.asarray(y), op.results[0].type)]


def _convolution(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> list[Array]:
    x, w, scales, scale = _steps(op, operands)
    v = properties(op)
    groups, kernel = v["groups"], w.shape[2:]
    rank = len(kernel)
    view = windows(x, kernel, v["strides"], v["pads"], v["dilations"], 0)
    n, out = view.shape[0], view.shape[2 + rank :]
    depth = view.shape[1] // groups * int(np.prod(kernel))
    columns = view.reshape(n, groups, depth, int(np.prod(out)))
    sums = w.reshape(groups, w.shape[0] // groups, depth) @ columns
    channels = scales.reshape(-1, *(1,) * rank) if scales.size > 1 else scales.reshape(())
    y = sums.reshape(n, w.shape[0], *out).astype(np.float32) * (scale * channels)
    return [evaluation.as_float(y, op.results[0].type)]


KERNELS: Mapping[str, Kernel] = {
    nn.DynamicQuantizeOp.name: _quantize,
    nn.DynamicMatMulOp.name: _matmul,
    **{kind.name: _convolution for kind in nn.DYNAMIC_CONVOLUTIONS},
}

"""Kernels of batch, layer and local response normalization, and softmax."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from xdsl.ir import Operation

from qdialect.interpreter.quantize import is_quantized, load, plain, properties, stored, widened
from qdialect.interpreter.real import Real
from qdialect.interpreter.values import Array, Evaluation, Kernel
from qdialect.ir import ops as nn


def _batch_norm(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> list[Array]:
    """(x - mean) / sqrt(variance + epsilon) * scale + bias, statistics along dimension 1.

    With quantized types: exact, ties included (a square root is decided to 256
    bits, and exactly where it is rational); `epsilon` is the double it is written as.
    """
    x, epsilon = operands[0], properties(op)["epsilon"]
    shape = (1, -1) + (1,) * (x.ndim - 2)
    if not is_quantized(op):
        scale, bias, mean, variance = (widened(v).reshape(shape) for v in operands[1:])
        x = widened(x)
        y = (x - mean) / np.sqrt(variance + x.dtype.type(epsilon)) * scale + bias
        return plain(op, y, evaluation)
    scale, bias, mean, variance = (Real.floats(v.reshape(shape)) for v in operands[1:])
    slope = scale / (variance + Real.floats(epsilon)).sqrt()
    return stored(op, (load(x, op.operands[0].type) - mean) * slope + bias, evaluation)


def _layer_norm(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> list[Array]:
    """(x - mean) / sqrt(variance + epsilon) * scale + bias, a mean of 0 for `rms_norm`; in float64
    with quantized types."""
    plains = [np.asarray(widened(v)) for v in operands[1:]]
    if is_quantized(op):
        x = load(operands[0], op.operands[0].type).approx
        real = _standardized(op, x, [v.astype(np.float64) for v in plains])
        return stored(op, Real.floats(real), evaluation)
    return plain(op, _standardized(op, widened(operands[0]), plains), evaluation)


def _standardized(op: Operation, x: Array, plains: Sequence[Array]) -> Array:
    v = properties(op)
    axes = tuple(range(v["axis"] % x.ndim, x.ndim))
    layer = op.name == nn.LayerNormOp.name
    centered = x - x.mean(axis=axes, keepdims=True, dtype=x.dtype) if layer else x
    variance = (centered * centered).mean(axis=axes, keepdims=True, dtype=x.dtype)
    y = centered / np.sqrt(variance + x.dtype.type(v["epsilon"])) * plains[0]
    return y + plains[1] if len(plains) > 1 else y


def _softmax(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> list[Array]:
    """exp(x - max) / sum(exp(x - max)) along `axis`; in float64 with quantized types."""
    axis = properties(op)["axis"]
    if is_quantized(op):
        real = _normalized(load(operands[0], op.operands[0].type).approx, axis)
        return stored(op, Real.floats(real), evaluation)
    return plain(op, _normalized(widened(operands[0]), axis), evaluation)


def _normalized(x: Array, axis: int) -> Array:
    e = np.exp(x - x.max(axis=axis, keepdims=True, initial=-np.inf))
    return e / e.sum(axis=axis, keepdims=True)


def _lrn(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> list[Array]:
    """x / (bias + alpha / size * sum of squares)^beta; in float64 with quantized types."""
    if is_quantized(op):
        real = _responses(op, load(operands[0], op.operands[0].type).approx)
        return stored(op, Real.floats(real), evaluation)
    return plain(op, _responses(op, widened(operands[0])), evaluation)


def _responses(op: Operation, x: Array) -> Array:
    v, kind = properties(op), x.dtype.type
    before = (v["size"] - 1) // 2
    widths = [(0, 0)] * x.ndim
    widths[1] = (before, v["size"] - 1 - before)
    padded = np.pad(x * x, widths)
    windows = np.lib.stride_tricks.sliding_window_view(padded, v["size"], axis=1)
    scaled = kind(v["bias"]) + kind(v["alpha"] / v["size"]) * windows.sum(axis=-1, dtype=x.dtype)
    return x * scaled ** kind(-v["beta"])


KERNELS: Mapping[str, Kernel] = {
    nn.BatchNormOp.name: _batch_norm,
    nn.LayerNormOp.name: _layer_norm,
    nn.LrnOp.name: _lrn,
    nn.RmsNormOp.name: _layer_norm,
    nn.SoftmaxOp.name: _softmax,
}

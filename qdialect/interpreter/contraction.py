"""Kernels of convolution, fully connected and matrix product.

Each is a (batched) matrix product: convolution of the windows of its input with
the weight. Without quantized types it runs in the type of the operands (f16 and
bf16 in f32, rounded once), in BLAS order. With them the sum is exact:

    y = s_x * s_w * sum_k (q_x - z_x) * (q_w - z_w) + bias

stored once with the declared rounding. Padding is real 0. Scales may vary along
the summed dimensions only where (q - z) * s is exact in float64.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from xdsl.ir import Operation

from qdialect.errors import UnsupportedError
from qdialect.interpreter.codes import is_coded
from qdialect.interpreter.quantize import (
    field,
    is_quantized,
    load,
    offsets,
    plain,
    properties,
    stored,
    widened,
)
from qdialect.interpreter.real import Doubles, Real, matrix_product
from qdialect.interpreter.values import Array, Evaluation, Kernel, place
from qdialect.interpreter.windows import stretched, windows
from qdialect.ir import ops as nn
from qdialect.ir.quant import quant_element

_SINGLE = 2.0**29
"""Integers below this times a float32 are exact in float64."""


def factor(
    op: Operation, number: int, value: Array, summed: Sequence[int]
) -> tuple[Doubles, Doubles]:
    """Operand `number` as an exact float64 array times a scale that does not vary
    along the dimensions `summed` (and has extent 1 there)."""
    element = quant_element(op.operands[number].type)
    if element is None:
        return value.astype(np.float64), np.ones((1,) * value.ndim)
    steps = offsets(value, element.qparams).astype(np.float64)
    scales = field(element.qparams, value.shape)[0]
    if all(scales.shape[d] == 1 for d in summed):
        return steps, scales
    if is_coded(element.qparams.storage):
        wide = bool(np.any(steps != steps.astype(np.float32)))
    else:
        wide = np.abs(steps).max(initial=0) >= _SINGLE
    if np.any(scales != scales.astype(np.float32)) or wide:
        raise UnsupportedError(
            f"'{op.name}' cannot sum exactly over a dimension along which operand #{number} "
            "has 64-bit scales, 32-bit storage or a table of doubles",
            where=place(op),
        )
    return steps * scales, np.ones((1,) * value.ndim)


Contracted = tuple[Array, Array, tuple[int, ...]]
"""Rows [groups, out / groups, depth], columns [N, groups, depth, out...], extents of out."""


def conv_matrices(op: Operation, x: Array, w: Array) -> Contracted:
    """Rows of the weight, and windows of x as columns."""
    v = properties(op)
    groups, kernel = v["groups"], w.shape[2:]
    rows = w.reshape(groups, w.shape[0] // groups, -1)
    view = windows(x, kernel, v["strides"], v["pads"], v["dilations"], 0)
    return rows, *_columns(view, groups, len(kernel))


def transposed_matrices(op: Operation, x: Array, w: Array) -> Contracted:
    """Mirrored rows of the weight, and windows of x with zeros between its elements."""
    v = properties(op)
    groups, kernel = v["groups"], w.shape[2:]
    ones = (1,) * len(kernel)
    mirrored = np.flip(w, tuple(range(2, w.ndim))).reshape(
        groups, w.shape[0] // groups, w.shape[1], -1
    )
    rows = mirrored.swapaxes(1, 2).reshape(groups, w.shape[1], -1)
    wide = stretched(x, kernel, v["strides"], v["pads"], v["dilations"], v["output_padding"])
    view = windows(wide, kernel, ones, (0, 0) * len(kernel), v["dilations"], 0)
    return rows, *_columns(view, groups, len(kernel))


def _columns(view: Array, groups: int, rank: int) -> tuple[Array, tuple[int, ...]]:
    n, channels, out = view.shape[0], view.shape[1], view.shape[2 + rank :]
    depth = channels // groups * int(np.prod(view.shape[2 : 2 + rank]))
    return view.reshape(n, groups, depth, int(np.prod(out))), out


def _convolution(
    op: Operation, operands: Sequence[Array], evaluation: Evaluation, transposed: bool = False
) -> list[Array]:
    x, w = operands[:2]
    matrices = transposed_matrices if transposed else conv_matrices
    ones = (1,) * (x.ndim - 2)
    if not is_quantized(op):
        rows, columns, out = matrices(op, widened(x), widened(w))
        y = (rows @ columns).reshape(x.shape[0], rows.shape[0] * rows.shape[1], *out)
        return plain(op, _plus_bias(y, operands, (1, -1, *ones)), evaluation)
    spatial = range(2, x.ndim)
    depthwise = properties(op)["groups"] == w.shape[0]
    summed = (1, *spatial) if not transposed else spatial if depthwise else (0, *spatial)
    steps, x_scale = factor(op, 0, x, (1, *spatial))
    weights, w_scale = factor(op, 1, w, summed)
    rows, columns, out = matrices(op, steps, weights)
    groups, per_group = rows.shape[:2]
    y = matrix_product(rows, columns).reshape((x.shape[0], groups * per_group, *out))
    if transposed:
        w_scale = np.broadcast_to(w_scale.reshape(w_scale.shape[:2]), (groups, per_group))
    scales = Real.floats(x_scale) * Real.floats(w_scale.reshape(1, -1, *ones))
    return stored(op, _plus_real_bias(y * scales, op, operands, (1, -1, *ones)), evaluation)


def _conv_transpose(
    op: Operation, operands: Sequence[Array], evaluation: Evaluation
) -> list[Array]:
    return _convolution(op, operands, evaluation, transposed=True)


def _fully_connected(
    op: Operation, operands: Sequence[Array], evaluation: Evaluation
) -> list[Array]:
    x, w = operands[:2]
    if not is_quantized(op):
        y = widened(x) @ widened(w).T
        return plain(op, _plus_bias(y, operands, (1, -1)), evaluation)
    rows, x_scale = factor(op, 0, x, (1,))
    columns, w_scale = factor(op, 1, w, (1,))
    y = matrix_product(rows, columns.T) * (Real.floats(x_scale) * Real.floats(w_scale.T))
    return stored(op, _plus_real_bias(y, op, operands, (1, -1)), evaluation)


def _matmul(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> list[Array]:
    a, b = operands
    if not is_quantized(op):
        return plain(op, widened(a) @ widened(b), evaluation)
    rows, a_scale = (_matrix(v, 0) for v in factor(op, 0, a, (a.ndim - 1,)))
    columns, b_scale = (_matrix(v, -1) for v in factor(op, 1, b, (max(b.ndim - 2, 0),)))
    y = matrix_product(rows, columns) * (Real.floats(a_scale) * Real.floats(b_scale))
    shape = list(y.shape)
    if b.ndim == 1:
        del shape[-1]
    if a.ndim == 1:
        del shape[-1 if b.ndim == 1 else -2]
    return stored(op, y.reshape(shape), evaluation)


def _matrix(value: Doubles, axis: int) -> Doubles:
    """A vector as a matrix with a unit dimension at `axis`; a matrix itself."""
    return np.expand_dims(value, axis) if value.ndim == 1 else value


def _plus_bias(y: Array, operands: Sequence[Array], shape: tuple[int, ...]) -> Array:
    return y + widened(operands[2]).reshape(shape) if len(operands) > 2 else y


def _plus_real_bias(
    y: Real, op: Operation, operands: Sequence[Array], shape: tuple[int, ...]
) -> Real:
    """y plus the bias with its own declared scale, or its float value."""
    if len(operands) == 2:
        return y
    bias = load(operands[2], op.operands[2].type)
    return y + bias.reshape(tuple(bias.shape[0] if d == -1 else d for d in shape))


KERNELS: Mapping[str, Kernel] = {
    **{kind.name: _convolution for kind in nn.CONVOLUTIONS},
    **{kind.name: _conv_transpose for kind in nn.TRANSPOSED},
    nn.FullyConnectedOp.name: _fully_connected,
    nn.MatMulOp.name: _matmul,
}

"""Fully connected layers and matrix products."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
from xdsl.ir import Operation, SSAValue

from qdialect.ir.behaviors.shapes import DYNAMIC, shape_of
from qdialect.plugins.common.lowering.errors import Unlowerable
from qdialect.plugins.common.lowering.laid_out import LaidOut, identity_order, matrix_shapes
from qdialect.plugins.tflite.lowering.codes import ACTIVATION
from qdialect.plugins.tflite.lowering.contraction import Product
from qdialect.plugins.tflite.lowering.emitter import Emitter


def fully_connected(e: Emitter, op: Operation, operands: Sequence[LaidOut]) -> LaidOut:
    """`nn.fully_connected`: `FULLY_CONNECTED`."""
    product = Product(e, op, operands, 0)
    x, weight = product.x, product.weight
    value, weight = _rows_of(e, x, weight)
    out = connected(e, product, value, e.value_of(weight), weight.shape[0], product.shape)
    return product.finished(out, identity_order(2))


def connected(
    e: Emitter,
    product: Product,
    value: SSAValue,
    weight: SSAValue,
    outputs: int,
    shape: Sequence[int],
) -> SSAValue:
    """`FULLY_CONNECTED` along the last dimension of `value`."""
    return e.node(
        "FULLY_CONNECTED",
        [value, weight, product.bias_value(outputs)],
        shape,
        product.element,
        **{ACTIVATION: "NONE"},
        weights_format="DEFAULT",
        keep_num_dims=len(shape) > 2,
        asymmetric_quantize_inputs=product.is_dynamic,
    )


def _rows_of(e: Emitter, x: LaidOut, weight: LaidOut) -> tuple[SSAValue, LaidOut]:
    """The rows that a layer takes. Where these are what was [N, C, H, W], laid out with channels
    last, the columns of a constant weight are permuted, and nothing is transposed."""
    value = e.value_of(x)
    before = e.flattened.get(value)
    if before is None or weight.array is None or before.value is None:
        return value, weight
    if before.order[0] != 0 or before.shape[0] != x.shape[0]:
        return value, weight
    inner = [d - 1 for d in before.order[1:]]
    columns = weight.array.reshape(-1, *before.shape[1:])
    array = columns.transpose(0, *(d + 1 for d in inner)).reshape(weight.shape)
    weight = LaidOut(weight.shape, weight.order, weight.params, None, np.ascontiguousarray(array))
    return e.reshaped(before.value, x.shape), weight


def matmul(e: Emitter, op: Operation, operands: Sequence[LaidOut]) -> LaidOut:
    """`nn.matmul`: `FULLY_CONNECTED` by a constant matrix, else `BATCH_MATMUL`."""
    rhs = operands[1]
    constant = rhs.is_constant and rhs.rank == 2
    product = Product(e, op, operands, 1 if constant else None)
    x, weight, shape = product.x, product.weight, product.shape
    order = identity_order(len(shape))
    if constant:
        assert weight.array is not None
        value = e.value_of(x)
        if x.rank == 1:
            value = e.reshaped(value, (1, *x.shape))
        outputs = weight.shape[1]
        rows = (*shape_of(value)[:-1], outputs)
        out = connected(e, product, value, e.value_of(weight, (1, 0)), outputs, rows)
        return product.finished(e.reshaped(out, shape), order)
    left, right = matrix_shapes(x.shape, weight.shape)
    rank = max(len(left), len(right), 2)
    batch = np.broadcast_shapes(
        *(tuple(1 if n == DYNAMIC else n for n in part[:-2]) for part in (left, right))
    )
    extents = (*shape[: len(shape) - _kept(x, weight)], left[-2], right[-1])
    if prod(batch) == 0 or len(extents) != rank:
        raise Unlowerable("shape", "its batch dimensions are not known")
    a, adj_a = _matrix(e, x, left)
    b, adj_b = _matrix(e, weight, right)
    out = e.node(
        "BATCH_MATMUL",
        [a, b],
        extents,
        product.element,
        adj_x=adj_a,
        adj_y=adj_b,
        asymmetric_quantize_inputs=False,
    )
    return product.finished(e.reshaped(out, shape), order)


def _kept(x: LaidOut, weight: LaidOut) -> int:
    """How many of the last dimensions of a product are rows and columns."""
    return (x.rank > 1) + (weight.rank > 1)


def _matrix(e: Emitter, x: LaidOut, shape: Sequence[int]) -> tuple[SSAValue, bool]:
    """A stack of matrices, and whether they are to be transposed: if that is how they lie."""
    if x.rank > 1 and x.array is None:
        swapped = (*range(x.rank - 2), x.rank - 1, x.rank - 2)
        if x.order == swapped:
            return e.value_of(x, swapped), True
    return e.reshaped(e.value_of(x), shape), False

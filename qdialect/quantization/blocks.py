"""Weights in codes, and nothing else: the state `weights-only` of an op.

    y = x @ dequantize(codes)

The product stays float, so an op needs no range in a profile to be in this state. Scales are for
every N numbers along the dimension that is summed, or for each column: those that differ inside of
a sum cannot be taken out of it, so there is no sum of integers. That is what people do to large
products whose weights do not fit the cache, in four bits or in eight; runtimes have kernels for it
that round the input as they see fit (ONNX Runtime: to bytes, per row and block).

For example

    %1 = nn.matmul %x, %w : (tensor<4x64xf32>, tensor<64x8xf32>) -> tensor<4x8xf32>

becomes

    %c = nn.constant ... : tensor<64x8x!quant.uniform<i8:f32:{0:64, 1:1}, ...>>
    %w = quant.dcast %c : ... to tensor<64x8xf32>
    %1 = nn.matmul %x, %w : (tensor<4x64xf32>, tensor<64x8xf32>) -> tensor<4x8xf32>
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.ir import Attribute, Operation, SSAValue

from qdialect import ops as nn
from qdialect.behaviors import Behavior
from qdialect.numerics.float_text import round_to_format
from qdialect.numerics.weights import (
    positive_codes,
    quantized,
    symmetric_scales,
    zero_of,
)
from qdialect.qparams import QParams, Storage
from qdialect.quant import DCastOp, element_type, with_element
from qdialect.quantization.products import replace_product
from qdialect.quantization.values import Values, codes_behind, float_value, real_array
from qdialect.rewrite import Refusal

if TYPE_CHECKING:
    from numpy.typing import NDArray

WEIGHTS_ONLY = "weights-only"
"""The code of an op that is not quantized by ranges: only its weights are codes."""
_SIZES = (256, 128, 64, 32, 16)
"""Blocks that kernels have, the fastest first (see docs/howto/quantize.md)."""
_NARROW = (32, 16)
"""For codes of less than a byte, which lose too much in large blocks."""


def weights_refusal(values: Values, op: Operation, behavior: Behavior) -> Refusal | None:
    """Why only the weights of an op cannot be codes; None: they can. No codes are chosen yet."""
    acc, target = behavior.accumulator, values.ctx.target
    if acc is None or not isinstance(op, nn.MatMulOp | nn.FullyConnectedOp):
        return Refusal("weights-kind", "it is no product with a matrix")
    if not target.floats:
        return Refusal("target", f"'{target.name}' has no float products")
    weight = op.operands[acc.rhs]
    array = real_array(weight, values.ctx.blobs)
    if array is None or array.ndim != 2 or not float_value(op.operands[acc.lhs]):
        return Refusal("weights-kind", "it multiplies no value with a constant matrix")
    if codes_behind(weight) is not None:
        return Refusal("weights-kind", "its weights are codes already")
    if not array.size or not np.isfinite(array).all():
        return Refusal("weights-kind", "it has no weights, or they are not finite")
    depth, block = array.shape[1 - acc.rhs_axis(op)], values.recipe.block
    if block and (depth % block or not target.per_block):
        return Refusal("weights-kind", f"'{target.name}' has no blocks of {block} in {depth}")
    return None


def write_weights(values: Values, op: Operation, behavior: Behavior) -> None:
    """Put an op that is not refused into this state: weights in codes, in blocks as the recipe
    says or in the largest that fit, else with a scale per column; a bias is added behind."""
    acc, recipe, target = behavior.accumulator, values.recipe, values.ctx.target
    assert acc is not None
    weight = op.operands[acc.rhs]
    array, axis = real_array(weight, values.ctx.blobs), acc.rhs_axis(op)
    assert array is not None
    storage, expressed = Storage.of(recipe.weights), str(element_type(weight.type))
    size, depth = recipe.block, array.shape[1 - axis]
    if not size and target.per_block and recipe.per_channel:
        sizes = _SIZES if storage.width >= 8 else _NARROW
        size = next((n for n in sizes if depth % n == 0), 0)
    if size:
        params, codes = in_blocks(array, 1 - axis, size, storage, expressed)
    else:
        columns = axis if recipe.per_channel and target.per_axis else None
        params, codes = in_columns(array, columns, storage, expressed)
    element = element_type(weight.type)

    def make(x: SSAValue, codes: SSAValue, kind: Attribute) -> Sequence[Operation]:
        real = DCastOp(codes, with_element(codes.type, element))
        return [real, nn.MatMulOp(x, real.result, result_types=[kind])]

    replace_product(op, acc, codes, params, make, values.ctx.blobs)


def in_columns(
    array: NDArray[np.float64], axis: int | None, storage: Storage, expressed: str
) -> tuple[QParams, NDArray[Any]]:
    """A matrix with a scale of least squared error for each index of `axis`, or for all of it."""
    turned = array.reshape(1, -1) if axis is None else np.moveaxis(array, axis, 0)
    found, offsets = _rounded(turned, storage, expressed)
    codes = offsets.reshape(array.shape) if axis is None else np.moveaxis(offsets, 0, axis)
    zero = zero_of(storage)
    if axis is None:
        params = QParams.per_tensor(storage, found[0], zero, expressed)
    else:
        params = QParams.per_axis(storage, axis, found, [zero] * len(found), expressed)
    return params, _stored(codes + zero, storage)


def _rounded(
    rows: NDArray[np.float64], storage: Storage, expressed: str
) -> tuple[list[float], NDArray[np.int64]]:
    """The scale of each row, and the offsets of its codes from their zero point."""
    positive = positive_codes(storage)
    found = symmetric_scales(rows, positive, search=True)
    scales = [round_to_format(float(scale) or 1.0, expressed) for scale in found]
    return scales, quantized(rows, np.array(scales), positive)


def _stored(codes: NDArray[np.int64], storage: Storage) -> NDArray[Any]:
    width = max(8, storage.width)
    return codes.astype(np.dtype(f"{'i' if storage.signed else 'u'}{width // 8}"))


def in_blocks(
    array: NDArray[np.float64],
    axis: int,
    size: int,
    storage: Storage,
    expressed: str,
) -> tuple[QParams, NDArray[Any]]:
    """A matrix with a scale of least squared error for every `size` numbers along `axis`."""
    turned = np.moveaxis(array, axis, 1)
    count = turned.shape[1] // size
    rows = turned.reshape(-1, size)
    scales, offsets = _rounded(rows, storage, expressed)
    zero = zero_of(storage)
    codes = np.moveaxis(offsets.reshape(turned.shape), 1, axis) + zero
    grid = np.moveaxis(np.array(scales).reshape(turned.shape[0], count), 1, axis)
    blocks = [(dimension, size if dimension == axis else 1) for dimension in range(2)]
    params = QParams.blockwise(
        storage, blocks, grid.shape, grid.ravel().tolist(), [zero] * grid.size, expressed
    )
    return params, _stored(codes, storage)

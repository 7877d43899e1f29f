"""Weights in codes, and nothing else: the state `weights-only` of an op.

    y = x @ dequantize(codes)

The product stays float, so an op needs no range in a profile to be in this state. Scales are for
every N numbers along the dimension that is summed, or for each column: those that differ inside of
a sum cannot be taken out of it, so there is no sum of integers. That is what people do to large
products whose weights do not fit the cache, in four bits or in eight; runtimes have kernels for it.
A product of weights of eight bits is written as one that may round its input (ONNX Runtime: to
bytes, per row and block), one of fewer as one that does not (`onnx.n_bits`).

Codes are of least squared error (`algebra.weight_blocks`), or, where there are moments of what
the weights are multiplied with, of least error of the product (`BlockRounding`).

For example

    %1 = nn.matmul %x, %w : (tensor<4x64xf32>, tensor<64x8xf32>) -> tensor<4x8xf32>

becomes

    %c = nn.constant ... : tensor<64x8x!quant.uniform<i8:f32:{0:64, 1:1}, ...>>
    %w = quant.dcast %c : ... to tensor<64x8xf32>
    %1 = nn.matmul %x, %w {onnx.n_bits = 4 : i64} : (...) -> tensor<4x8xf32>
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.dialects.builtin import IntegerAttr, i64
from xdsl.ir import Attribute, Operation, SSAValue

from qdialect.algebra.qparams import QParams
from qdialect.algebra.qparams.parameters import Layout
from qdialect.algebra.weight_blocks import fit_blocks
from qdialect.algebra.weight_rounding import Grid, best_damping, damped, descend
from qdialect.ir import ops as nn
from qdialect.ir.behaviors import Behavior
from qdialect.ir.quant import DCastOp, element_type, with_element
from qdialect.plugins.onnx.dialect import AS_WRITTEN, N_BITS
from qdialect.quantizer.block_formats import (
    MICROSCALED,
    MICROSCALED_BLOCK,
    ONLY_IN_BLOCKS,
    BlockFormat,
    block_format,
)
from qdialect.quantizer.products import replace_product
from qdialect.quantizer.values import Values, codes_behind, float_value, real_array
from qdialect.rewrite import Refusal

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qdialect.quantizer.recipe import Recipe
    from qdialect.targets.base import Target

    Array = NDArray[np.float64]

WEIGHTS_ONLY = "weights-only"
"""The code of an op that is not quantized by ranges: only its weights are codes."""
_SIZES = (256, 128, 64, 32, 16)
"""Blocks that kernels have, the fastest first (see docs/howto/quantize.md)."""
_NARROW = (32, 16)
"""For codes of less than a byte, which lose too much in large blocks."""
_TRIED = 64
"""Rows at most that tell how much to damp moments."""
_IN_BYTES = 4
"""The accuracy level of MatMulNBits that rounds the input to bytes, by row and block, and adds up
integers. It is said, since ONNX Runtime (1.32) takes a MatMul of two dequantized operands for a
product of integers, also where the scales of one are of blocks, and then fails."""

Coded = tuple[QParams, "NDArray[Any]"]
"""A weight: qparams, and codes as a constant has them."""


def format_refusal(name: str, target: Target) -> str | None:
    """Why a target has no product of floats with weights of a format (`nf4`), or None."""
    if not target.floats:
        return f"'{target.name}' has no float products"
    if name in ONLY_IN_BLOCKS and not target.per_block:
        return f"'{target.name}' has no products of weights in blocks"
    return target.refuses_weights(name)


def weights_refusal(values: Values, op: Operation, behavior: Behavior) -> Refusal | None:
    """Why only the weights of an op cannot be codes; None: they can. No codes are chosen yet."""
    acc, target = behavior.accumulator, values.ctx.target
    if acc is None or not isinstance(op, nn.MatMulOp | nn.FullyConnectedOp):
        return Refusal("weights-kind", "it is no product with a matrix")
    weight, name = op.operands[acc.rhs], values.recipe.weights
    if reason := format_refusal(name, target):
        return Refusal("target", reason)
    array = real_array(weight, values.ctx.blobs)
    if array is None or array.ndim != 2 or not float_value(op.operands[acc.lhs]):
        return Refusal("weights-kind", "it multiplies no value with a constant matrix")
    if codes_behind(weight) is not None:
        return Refusal("weights-kind", "its weights are codes already")
    if not array.size or not np.isfinite(array).all():
        return Refusal("weights-kind", "it has no weights, or they are not finite")
    depth, block = array.shape[1 - acc.rhs_axis(op)], values.recipe.block
    if name in MICROSCALED:
        block = MICROSCALED_BLOCK
    if block and (depth % block or not target.per_block):
        return Refusal("weights-kind", f"'{target.name}' has no blocks of {block} in {depth}")
    if name in ONLY_IN_BLOCKS and not block_size(values.recipe, target, depth):
        return Refusal("weights-kind", f"no blocks of 32 or 16 fill a column of {depth}")
    return None


def write_weights(
    values: Values, op: Operation, behavior: Behavior, coded: Coded | None = None
) -> None:
    """Put an op that is not refused into this state: weights in codes, in those that are given or
    else of least squared error; a bias is added behind."""
    acc, recipe = behavior.accumulator, values.recipe
    assert acc is not None
    params, codes = coded or coded_weight(values, op, behavior)
    element = element_type(op.operands[acc.rhs].type)

    def make(x: SSAValue, codes: SSAValue, kind: Attribute) -> Sequence[Operation]:
        real = DCastOp(codes, with_element(codes.type, element))
        product = nn.MatMulOp(x, real.result, result_types=[kind])
        few = params.storage.width < 8 or recipe.weights in MICROSCALED
        if few or recipe.scale_type != "f32":
            product.attributes[N_BITS] = IntegerAttr(AS_WRITTEN, i64)
        elif params.layout is Layout.BLOCK:
            product.attributes[N_BITS] = IntegerAttr(_IN_BYTES, i64)
        return [real, product]

    replace_product(op, acc, codes, params, make, values.ctx.blobs)


def coded_weight(
    values: Values, op: Operation, behavior: Behavior, hessians: Sequence[Array] = ()
) -> Coded:
    """The weight of an op that is not refused, in blocks as the recipe says or in the largest that
    fit, else with a scale per column; `hessians` [K, K] are of what its columns are multiplied
    with, E[x x^T], by the samples or by each half of them."""
    acc, recipe, target = behavior.accumulator, values.recipe, values.ctx.target
    assert acc is not None
    weight = op.operands[acc.rhs]
    array, axis = real_array(weight, values.ctx.blobs), acc.rhs_axis(op)
    assert array is not None
    expressed = str(element_type(weight.type))
    chosen = block_format(recipe.weights, _scale_type(recipe.scale_type, expressed))
    if chosen.storage.spelling in target.symmetric or not target.per_axis_zero_points:
        chosen = chosen.symmetric()
    if size := block_size(recipe, target, array.shape[1 - axis]):
        return in_blocks(array, 1 - axis, size, chosen, expressed, hessians)
    columns = axis if recipe.per_channel and target.per_axis else None
    return in_columns(array, columns, chosen, expressed, hessians)


def _scale_type(asked: str, expressed: str) -> str:
    """The type of scales: no finer than what they express."""
    return "f16" if (asked, expressed) == ("f32", "f16") else asked


def block_size(recipe: Recipe, target: Target, depth: int) -> int:
    """How many numbers of a column of so many have a scale; 0: all of them."""
    if recipe.weights in MICROSCALED:
        return 0 if depth % MICROSCALED_BLOCK else MICROSCALED_BLOCK
    if recipe.block or not (target.per_block and recipe.per_channel):
        return recipe.block
    narrow = block_format(recipe.weights).storage.width < 8
    return next((n for n in (_NARROW if narrow else _SIZES) if depth % n == 0), 0)


def in_columns(
    array: Array,
    axis: int | None,
    chosen: BlockFormat,
    expressed: str,
    hessians: Sequence[Array] = (),
) -> Coded:
    """An array of any rank with a scale for each index of `axis`, or for all of it; see
    `in_blocks`."""
    if axis is None:
        chosen = chosen.symmetric()
        grid, codes = _chosen(array.reshape(1, -1), array.size, chosen, ())
        params = QParams.per_tensor(chosen.storage, *_pairs(grid)[0], expressed)
        return params, chosen.stored(codes.reshape(array.shape))
    turned = np.moveaxis(array, axis, 0)
    rows = turned.reshape(len(turned), -1)
    grid, codes = _chosen(rows, rows.shape[1], chosen, hessians)
    scales, zeros = zip(*_pairs(grid), strict=True)
    params = QParams.per_axis(chosen.storage, axis, scales, zeros, expressed)
    return params, chosen.stored(np.moveaxis(codes.reshape(turned.shape), 0, axis))


def in_blocks(
    array: Array,
    axis: int,
    size: int,
    chosen: BlockFormat,
    expressed: str,
    hessians: Sequence[Array] = (),
) -> Coded:
    """A matrix with a scale for every `size` numbers along `axis`: of least squared error, or of
    least error of a product with operands of second moments `hessians`, of all samples or of each
    half of them."""
    rows = np.moveaxis(array, axis, 1)
    grid, codes = _chosen(rows, size, chosen, hessians)
    shape = (rows.shape[0], rows.shape[1] // size)
    pairs = np.array(_pairs(grid)).reshape(*shape, 2)
    pairs = np.moveaxis(pairs, 1, axis)
    blocks = [(dimension, size if dimension == axis else 1) for dimension in range(2)]
    scales, zeros = pairs[..., 0].ravel().tolist(), pairs[..., 1].ravel().astype(int).tolist()
    params = QParams.blockwise(chosen.storage, blocks, pairs.shape[:2], scales, zeros, expressed)
    return params, chosen.stored(np.moveaxis(codes, 1, axis))


def _chosen(
    rows: Array, size: int, chosen: BlockFormat, hessians: Sequence[Array]
) -> tuple[Grid, NDArray[np.int64]]:
    """The grid of the blocks of `size` in rows, one after the other, and the codes of the rows."""
    count = rows.shape[1] // size
    hessian: Array | None = np.mean(hessians, axis=0) if hessians else None
    importance = None
    if hessian is not None:
        diagonal = np.diagonal(damped(hessian)).reshape(count, size)
        importance = np.tile(diagonal, (len(rows), 1))
    grid = fit_blocks(rows.reshape(-1, size), chosen.codes, importance)
    steps, zeros = (_spread(each, count, size, len(rows)) for each in (grid.steps, grid.zeros))
    whole = replace(grid, steps=steps, zeros=zeros)
    if hessian is None:
        return grid, whole.codes(rows)
    fraction = 0.01
    if len(hessians) == 2:
        some = slice(None, None, -(-len(rows) // _TRIED))
        part = replace(whole, steps=steps[some], zeros=zeros[some])
        fraction = best_damping(rows[some], part, (hessians[0], hessians[1]))
    hessian = damped(hessian, fraction)
    return grid, descend(rows, whole, hessian)


def _spread(column: Array | float, count: int, size: int, rows: int) -> Array:
    listed = np.broadcast_to(column, (rows * count, 1)).reshape(rows, count)
    return np.repeat(np.asarray(listed, np.float64), size, axis=1)


def _pairs(grid: Grid) -> list[tuple[float, int]]:
    steps = grid.steps.reshape(-1).tolist()
    zeros = np.broadcast_to(grid.zeros, grid.steps.shape).reshape(-1).tolist()
    return [(step, int(zero)) for step, zero in zip(steps, zeros, strict=True)]

"""Products that quantize their input as they run: the state `dynamic` of an op.

    y = float(sum (q - z) * q_w) * (s * s_w) + b        q, s, z = dynamic_quantize(x)

Only the weights are chosen here, so an op needs no range in a profile to be in this state, and
what is beside it stays float.

For example

    %8 = nn.fully_connected %x, %w, %b {nn.key = "fc"} : (!f, !fw, !fb) -> !f

becomes

    %0 = nn.constant dense<[[1, -2], [3, 4]]> : tensor<2x2xi8> : !w
    %1 = nn.dynamic_matmul %x, %0 {nn.key = "fc/matmul"} : (!f, !w) -> !f
    %8 = nn.add %1, %b {nn.key = "fc"} : (!f, !fb) -> !f
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from xdsl.dialects.builtin import UnitAttr, f32
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.utils.test_value import create_ssa_value

from qdialect.algebra.qparams import QParams, Storage
from qdialect.algebra.sums import SUMS, Span
from qdialect.algebra.weight_rounding import Grid
from qdialect.algebra.weights import Choice, Sums, choose_weights, positive_codes, zero_of
from qdialect.analysis.accumulators import signed_shift
from qdialect.ir import ops as nn
from qdialect.ir.behaviors import Accumulator, Behavior
from qdialect.ir.ops import constant_array, constant_of, make_constant, shape_of
from qdialect.ir.ops.base import ranked
from qdialect.ir.ops.keys import KEY
from qdialect.ir.ops.recurrent import RecurrentOp
from qdialect.ir.ops.shapes import DYNAMIC as UNKNOWN
from qdialect.ir.quant import DCastOp, UniformType, element_type, quant_element
from qdialect.plugins.onnx.dialect import FUSED
from qdialect.quantizer.products import replace_product
from qdialect.quantizer.values import (
    Values,
    codes_behind,
    float_value,
    offsets_of,
    real_array,
)
from qdialect.rewrite import Refusal

if TYPE_CHECKING:
    from typing import Any

    from numpy.typing import NDArray

DYNAMIC = "dynamic"
"""The code of an op that is not quantized by ranges: it quantizes its input as it runs."""
_PRODUCTS = (nn.MatMulOp, nn.FullyConnectedOp)
"""Convolutions are none: ONNX Runtime takes 3 to 10 times as long for them as on floats."""
_BYTES = {"i8": np.int8, "u8": np.uint8}
#: codes of the input: any of 256, around any zero point
_INPUT = Span(-255, 255, 255)
_LARGEST_SUM = 1 << 31


def dynamic_refusal(values: Values, op: Operation, behavior: Behavior) -> Refusal | None:
    """Why an op cannot quantize its input as it runs; None: it can. No codes are chosen yet."""
    if isinstance(op, RecurrentOp):
        return _weights_refusal(values) or layer_refusal(values, op)
    acc, target = behavior.accumulator, values.ctx.target
    if not isinstance(op, _PRODUCTS) or acc is None:
        return Refusal("dynamic-kind", "no op quantizes the input of such a one as it runs")
    if nn.DynamicMatMulOp.name not in target.kernels:
        return Refusal("target", f"'{target.name}' quantizes no input of a product as it runs")
    if (refusal := _weights_refusal(values)) is not None:
        return refusal
    x, result = op.operands[acc.lhs], op.results[0]
    array = real_array(op.operands[acc.rhs], values.ctx.blobs)
    if array is None or not float_value(x):
        return Refusal("dynamic-weights", "it multiplies with no constant weights")
    if element_type(x.type) != f32 or element_type(result.type) != f32:
        return Refusal("dynamic-kind", f"it is on {element_type(x.type)}, not f32")
    if array.ndim != 2 or len(shape_of(x)) < 2:
        return Refusal("dynamic-weights", "its weights are no matrix, or its input is a vector")
    if not array.size or not np.isfinite(array).all():
        return Refusal("dynamic-weights", "it has no weights, or they are not finite")
    depth = acc.depth(op)
    if depth == UNKNOWN or depth * 255 * 255 >= _LARGEST_SUM:
        return Refusal("dynamic-weights", f"a sum of {depth} products may leave 32 bits")
    axis, storage = acc.rhs_axis(op), values.recipe.integer_weights
    count = array.shape[axis] if values.recipe.per_channel else 1
    asked = _asked((depth, array.shape[axis]), _qparams(storage, 1, [1.0] * count))
    reason = target.refuses(asked, asked.operand_types, asked.result_types)
    return None if reason is None else Refusal("target", reason)


def _weights_refusal(values: Values) -> Refusal | None:
    recipe = values.recipe
    if recipe.integer_weights.spelling in _BYTES:
        return None
    return Refusal("dynamic-weights", f"its weights would be {recipe.weights}, no bytes")


def write_dynamic(values: Values, op: Operation, behavior: Behavior) -> None:
    """Put an op that is not refused into this state: the product and, where it has one, its bias
    added in f32.

    Weights that are codes of bytes keep them; others are chosen as the recipe says: per channel
    or per tensor, by least squared error or by their largest number."""
    if isinstance(op, RecurrentOp):
        storage = values.recipe.integer_weights
        write_layer(values, op, _sums(values, _qparams(storage, 1, [1.0])))
        return
    acc = behavior.accumulator
    assert acc is not None
    codes, params = _existing_codes(values, op, acc) or _codes(values, op, acc)

    def make(x: SSAValue, weight: SSAValue, kind: Attribute) -> Sequence[Operation]:
        return [nn.DynamicMatMulOp(x, weight, result_types=[kind])]

    replace_product(op, acc, codes, params, make, values.ctx.blobs)


def _asked(shape: tuple[int, int], params: QParams) -> nn.DynamicMatMulOp:
    """An op to ask a target about, on values that nothing computes, with such weights [K, N]."""
    x = create_ssa_value(ranked(f32, (1, shape[0])))
    weight = create_ssa_value(ranked(UniformType(params), shape))
    return nn.DynamicMatMulOp(x, weight, result_types=[ranked(f32, (1, shape[1]))])


def _existing_codes(
    values: Values, op: Operation, acc: Accumulator
) -> tuple[NDArray[Any], QParams] | None:
    """The codes that a weight has already, where the op takes such."""
    constant = codes_behind(op.operands[acc.rhs])
    element = None if constant is None else quant_element(constant.result.type)
    if constant is None or element is None:
        return None
    params = element.qparams
    if params.storage.spelling not in _BYTES or params.expressed != "f32":
        return None
    if not (params.is_per_tensor or params.axis == acc.rhs_axis(op)):
        return None
    codes = constant_array(constant, values.ctx.blobs)
    rows = np.moveaxis(offsets_of(codes, params), acc.rhs_axis(op), 0).astype(np.int64)
    sums, scales = _sums(values, params), params.scale_array().reshape(-1)
    beyond = sums.excess(rows.reshape(len(rows), -1), scales, signed_shift(params))
    return None if (beyond > 1).any() else (codes, params)


def _codes(values: Values, op: Operation, acc: Accumulator) -> tuple[NDArray[Any], QParams]:
    """Weights as the recipe chooses them."""
    recipe, axis = values.recipe, acc.rhs_axis(op)
    array, storage = (
        real_array(op.operands[acc.rhs], values.ctx.blobs),
        recipe.integer_weights,
    )
    assert array is not None
    moved = np.moveaxis(array, axis, 0)
    sums = _sums(values, _qparams(storage, 1, [1.0]))
    choice = Choice(storage, search=recipe.weight_ranges == "mse", per_row=recipe.per_channel)
    found = choose_weights(moved.reshape(len(moved), -1), sums, choice)
    grid = Grid(np.array(found.scales)[:, None], -positive_codes(storage), positive_codes(storage))
    offsets = values.round_rows(op, moved.reshape(len(moved), -1), grid)
    fits = sums.excess(offsets, grid.steps[:, 0]) <= 1
    offsets = np.where(fits[:, None], offsets, found.codes)
    codes = np.moveaxis((offsets + zero_of(storage)).reshape(moved.shape), 0, axis)
    return codes.astype(_BYTES[storage.spelling]), _qparams(storage, axis, found.scales)


def _sums(values: Values, params: QParams) -> Sums:
    storage = params.storage
    asked = _asked((1, 1), QParams.per_tensor(storage, 1.0, zero_of(storage), "f32"))
    kind = values.ctx.target.sums(asked, [None, params], [None])
    return Sums(1.0, _INPUT, kind=kind or SUMS)


def _qparams(storage: Storage, axis: int, scales: Sequence[float]) -> QParams:
    """Symmetric qparams of weights: one scale, or one for each index of `axis`."""
    zero = zero_of(storage)
    if len(scales) == 1:
        return QParams.per_tensor(storage, scales[0], zero, "f32")
    return QParams.per_axis(storage, axis, scales, [zero] * len(scales), "f32")


# Recurrent layers that quantize their input as they run: weights in codes, all else float.
#
#     y = lstm(x, dequantize(w), dequantize(r), b)
#
# A runtime that has such a layer (ONNX Runtime's DynamicQuantizeLSTM) rounds the input, and the
# hidden state of each step, to bytes on the grid of its range; in which parts, is its own choice,
# so the layer stands for the one on floats, and what it is off by is measured.
#
# For example
#
#     %0 = nn.lstm %x, %w, %r, %b {nn.key = "l"} : (..., tensor<1x8x3xf32>, ...) -> !f
#
# becomes
#
#     %1 = nn.constant ... : tensor<1x8x3x!quant.uniform<i8:f32:{0:1, 1:1, 2:3}, {...}>>
#     %2 = quant.dcast %1 : ... to tensor<1x8x3xf32>
#     %3 = nn.constant ... : tensor<1x8x2x!quant.uniform<i8:f32:{0:1, 1:1, 2:2}, {...}>>
#     %4 = quant.dcast %3 : ... to tensor<1x8x2xf32>
#     %0 = nn.lstm %x, %2, %4, %b {nn.key = "l", onnx.fused} : (...) -> !f

WEIGHTS = (1, 2)
"""The operands of a layer that are weights: of the input and of the hidden state."""


def layer_refusal(values: Values, op: RecurrentOp) -> Refusal | None:
    """Why a layer cannot quantize its input as it runs; None: it can."""
    target = values.ctx.target
    if op.name not in target.dynamic_layers:
        return Refusal("target", f"'{target.name}' quantizes no input of '{op.name}' as it runs")
    if element_type(op.input.type) != f32 or not float_value(op.input):
        return Refusal("dynamic-kind", "its input is no f32")
    for number in WEIGHTS:
        array = real_array(op.operands[number], values.ctx.blobs)
        if array is None or constant_of(op.operands[number]) is None:
            return Refusal("dynamic-weights", "its weights are no constants of floats")
        if not array.size or not np.isfinite(array).all():
            return Refusal("dynamic-weights", "it has no weights, or they are not finite")
    return None


def write_layer(values: Values, op: RecurrentOp, input_codes: Sums) -> None:
    """Put a layer that is not refused into this state; `input_codes` is what it multiplies with
    and adds up in."""
    block, recipe = op.parent, values.recipe
    assert block is not None
    storage = recipe.integer_weights
    choice = Choice(storage, search=recipe.weight_ranges == "mse", per_row=True)
    for number in WEIGHTS:
        weight = op.operands[number]
        array, old = real_array(weight, values.ctx.blobs), constant_of(weight)
        assert array is not None and old is not None
        directions, rows, depth = array.shape
        count = rows if recipe.per_channel else 1
        found = choose_weights(array.reshape(directions * count, -1), input_codes, choice)
        zero = zero_of(storage)
        params = QParams.blockwise(
            storage,
            [(0, 1), (1, rows // count), (2, depth)],
            [directions, count, 1],
            found.scales,
            [zero] * (directions * count),
        )
        codes = (found.codes + zero).reshape(array.shape)
        codes = codes.astype(np.int8 if storage.signed else np.uint8)
        made = make_constant(codes, UniformType(params), values.ctx.blobs)
        if KEY in old.attributes:
            made.attributes[KEY] = old.attributes[KEY]
        real = DCastOp(made.result, weight.type)
        made.location = real.location = op.location
        block.insert_ops_before([made, real], op)
        op.operands[number] = real.result
    op.attributes[FUSED] = UnitAttr()

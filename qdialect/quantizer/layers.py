"""Recurrent layers that quantize their input as they run: weights in codes, all else float.

    y = lstm(x, dequantize(w), dequantize(r), b)

A runtime that has such a layer (ONNX Runtime's DynamicQuantizeLSTM) rounds the input, and the
hidden state of each step, to bytes on the grid of its range; in which parts, is its own choice,
so the layer stands for the one on floats, and what it is off by is measured.

For example

    %0 = nn.lstm %x, %w, %r, %b {nn.key = "l"} : (..., tensor<1x8x3xf32>, ...) -> !f

becomes

    %1 = nn.constant ... : tensor<1x8x3x!quant.uniform<i8:f32:{0:1, 1:1, 2:3}, {...}>>
    %2 = quant.dcast %1 : ... to tensor<1x8x3xf32>
    %3 = nn.constant ... : tensor<1x8x2x!quant.uniform<i8:f32:{0:1, 1:1, 2:2}, {...}>>
    %4 = quant.dcast %3 : ... to tensor<1x8x2xf32>
    %0 = nn.lstm %x, %2, %4, %b {nn.key = "l", onnx.fused} : (...) -> !f
"""

from __future__ import annotations

import numpy as np
from xdsl.dialects.builtin import UnitAttr, f32

from qdialect.algebra.qparams import QParams
from qdialect.algebra.weights import Choice, Sums, choose_weights, zero_of
from qdialect.ir.ops import constant_of, make_constant
from qdialect.ir.ops.keys import KEY
from qdialect.ir.ops.recurrent import RecurrentOp
from qdialect.ir.quant import DCastOp, UniformType, element_type
from qdialect.plugins.onnx.dialect import FUSED
from qdialect.quantizer.values import Values, float_value, real_array
from qdialect.rewrite import Refusal

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

"""Weights in codes that are dequantized where they are read: floats in a quarter of the bytes.

    %y = nn.conv2d %x, %w

becomes

    %1 = quant.dcast %codes
    %y = nn.conv2d %x, %1

Each output channel has a scale of its own, of least squared error. A runtime that dequantizes
constants when it loads a model runs it as fast as the float model.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from xdsl.ir import Operation, SSAValue

from qdialect.ir.ops import constant_of, make_constant
from qdialect.ir.ops.keys import KEY
from qdialect.ir.quant import DCastOp, UniformType, element_type
from qdialect.quantizer.block_formats import block_format
from qdialect.quantizer.blocks import WEIGHTS_ONLY, in_columns
from qdialect.quantizer.coverage import Coverage, Left
from qdialect.quantizer.selection import FASTER_FLOAT
from qdialect.quantizer.values import real_array
from qdialect.rewrite.remarks import key_text

if TYPE_CHECKING:
    from xdsl.dialects.func import FuncOp

    from qdialect.ir.context import QContext
    from qdialect.quantizer.recipe import Recipe

_FEWEST = 256
"""Weights that are worth a dequantize."""
STORED = WEIGHTS_ONLY, "it is faster on floats, with its weights stored as codes"


def store_weights(function: FuncOp, ctx: QContext, recipe: Recipe, coverage: Coverage) -> Coverage:
    """Put the weights of products that a plan left on floats in codes, in place; those of which
    that was done are left with the code `weights-only`."""
    made: dict[tuple[SSAValue, int], SSAValue] = {}
    stored: set[str] = set()
    floats = {each.key for each in coverage.left if each.code == FASTER_FLOAT}
    for op in list(function.body.block.ops):
        found = _weight(op, ctx) if (key := key_text(op)) in floats else None
        if found is None:
            continue
        weight, axis, index = found
        if (weight, axis) not in made:
            made[weight, axis] = _dequantized(weight, axis, ctx, recipe)
        op.operands[index] = made[weight, axis]
        stored.add(key)
    left = [Left(x.op, x.key, *STORED) if x.key in stored else x for x in coverage.left]
    return replace(coverage, left=left)


def _weight(op: Operation, ctx: QContext) -> tuple[SSAValue, int, int] | None:
    """The constant that an op multiplies with, the dimension of its output channels, and which
    operand it is; None where it has none that is worth it, or others need it in floats."""
    behavior = ctx.behaviors.get(op)
    acc = None if behavior is None else behavior.accumulator
    weight = None if acc is None else op.operands[acc.rhs]
    if acc is None or weight is None or constant_of(weight) is None:
        return None
    shared = any(use.index != acc.rhs or use.operation.name != op.name for use in weight.uses)
    if shared or str(element_type(weight.type)) != "f32":
        return None
    array = real_array(weight, ctx.blobs)
    is_worth = array is not None and array.size >= _FEWEST and np.isfinite(array).all()
    return (weight, acc.rhs_axis(op), acc.rhs) if is_worth else None


def _dequantized(weight: SSAValue, axis: int, ctx: QContext, recipe: Recipe) -> SSAValue:
    """A dequantize of the codes of a constant, in front of it."""
    constant, array = constant_of(weight), real_array(weight, ctx.blobs)
    assert constant is not None and constant.parent is not None and array is not None
    chosen = block_format(recipe.integer_weights.spelling).symmetric()
    params, codes = in_columns(array, axis, chosen, str(element_type(weight.type)))
    keys = {k: v for k, v in constant.attributes.items() if k == KEY}
    codes = np.ascontiguousarray(codes)
    stored = make_constant(codes, UniformType(params), ctx.blobs, keys)
    real = DCastOp(stored.result, weight.type)
    constant.parent.insert_ops_before([stored, real], constant)
    return real.result

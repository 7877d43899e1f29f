"""Tables of which rows are picked (embeddings) in codes: of a byte, with a scale for each row, or
of 4 bits, in blocks of a row.

    gather(t, i) = gather(q, i) * gather(s, i)        t[r] = q[r] * s[r]

A tensor's type has one scale for what is picked at run time, so the codes are on scale 1 and the
scales are a table of their own; a quarter of the size, and nothing is dequantized but what is
picked.

For example

    %2 = nn.gather %t, %i axis 0 {nn.key = "words"} : (tensor<500x64xf32>, tensor<1x8xi64>) -> !f

becomes

    %q = nn.constant ... : tensor<500x64x!quant.uniform<i8:f32, 1.0>>
    %s = nn.constant ... : tensor<500x1xf32>
    %0 = nn.gather %q, %i axis 0 : (...) -> tensor<1x8x64x!quant.uniform<i8:f32, 1.0>>
    %1 = quant.dcast %0 : ... to tensor<1x8x64xf32>
    %3 = nn.gather %s, %i axis 0 : (...) -> tensor<1x8x1xf32>
    %2 = nn.mul %1, %3 {nn.key = "words"} : (tensor<1x8x64xf32>, tensor<1x8x1xf32>) -> !f

In 4 bits (`Recipe.tables`) scales are for 32 numbers of a row, and codes and scales are one
constant, since a kernel exists that picks from both:

    %q = nn.constant ... : tensor<500x64x!quant.uniform<u4:f32:{0:1, 1:32}, ...>>
    %t = quant.dcast %q : ... to tensor<500x64xf32>
    %2 = nn.gather %t, %i axis 0 {nn.key = "words"} : (tensor<500x64xf32>, tensor<1x8xi64>) -> !f
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

import numpy as np
from xdsl.dialects.builtin import f32
from xdsl.ir import Operation

from qdialect.algebra.qparams import QParams
from qdialect.ir import ops as nn
from qdialect.ir.dialects.interface import OUTPUTS
from qdialect.ir.ops import constant_array, constant_of, make_constant, shape_of
from qdialect.ir.ops.keys import KEY
from qdialect.ir.ops.shapes import normalize_axis
from qdialect.ir.quant import DCastOp, UniformType, element_type, with_element
from qdialect.quantizer.block_formats import block_format
from qdialect.quantizer.blocks import in_blocks
from qdialect.quantizer.selection import Selection
from qdialect.quantizer.values import Values, users
from qdialect.rewrite import Refusal

if TYPE_CHECKING:
    from numpy.typing import NDArray

TABLE = "table"
"""The code of an op whose table is codes."""
_FEWEST = 4096
"""Elements of a table that is worth it."""
_SHORTEST = 16
"""Elements of a row beside which a scale is little."""
_BLOCK = 32
"""Numbers of a row that have a scale, where codes have 4 bits."""
_LARGEST = 127
_CODES = QParams.per_tensor("i8", 1.0, 0, "f32")


def find_tables(selection: Selection) -> None:
    """Note which ops that stay float have a table that becomes codes."""
    for op, why in list(selection.left.items()):
        if why.code != "kept" and table_refusal(selection, op) is None:
            selection.left[op] = Refusal(TABLE, "its table is codes, with a scale for each row")


def table_refusal(selection: Selection, op: Operation) -> Refusal | None:
    """Why the table of an op does not become codes; None: it does. No codes are chosen yet."""
    target = selection.values.ctx.target
    if not isinstance(op, nn.GatherOp) or element_type(op.result.type) != f32:
        return Refusal("no-table", "it picks no rows of floats")
    table, shape = constant_of(op.input), shape_of(op.input)
    if table is None or constant_of(op.indices) is not None:
        return Refusal("no-table", "it picks no rows of a constant at run time")
    if not (target.floats and target.tables):
        return Refusal("target", f"'{target.name}' multiplies no rows with scales of their own")
    rows = shape[_axis(op)]
    if prod(shape) < _FEWEST or prod(shape) < rows * _SHORTEST:
        return Refusal("small-table", f"{rows} rows of {prod(shape)} elements are not worth it")
    for user in users(op.input):
        if not isinstance(user, nn.GatherOp) or _axis(user) != _axis(op):
            return Refusal("no-table", f"a '{user.name}' takes the table too")
    if any(user in selection.ops for user in users(op.result)):
        return Refusal("no-table", "what takes the rows takes codes on one scale")
    if not np.isfinite(constant_array(table, selection.values.ctx.blobs)).all():
        return Refusal("no-table", "the table is not finite")
    return None


def write_table(values: Values, op: Operation) -> None:
    """Put codes and scales in place of the table of an op that is not refused."""
    if _in_blocks(values, op):
        _write_blocks(values, op)
    else:
        _write_rows(values, op)


def _in_blocks(values: Values, op: Operation) -> bool:
    """Whether the recipe asks for blocks, and they fill the rows of a matrix."""
    assert isinstance(op, nn.GatherOp)
    shape = shape_of(op.input)
    asked = values.recipe.tables != "i8" and values.ctx.target.per_block
    return asked and len(shape) == 2 and _axis(op) == 0 and shape[1] % _BLOCK == 0


def _write_blocks(values: Values, op: Operation) -> None:
    """Codes in blocks of a row, dequantized in front of the op."""
    table, block, store = constant_of(op.operands[0]), op.parent, values.ctx.blobs
    assert table is not None and block is not None
    array = constant_array(table, store).astype(np.float64)
    recipe = values.recipe
    chosen = block_format(recipe.tables, recipe.scale_type)
    params, codes = in_blocks(array, 1, _BLOCK, chosen, "f32")
    stored = make_constant(codes, UniformType(params), store)
    if KEY in table.attributes:
        stored.attributes[KEY] = table.attributes[KEY]
    real = DCastOp(stored.result, table.result.type)
    stored.location = real.location = op.location
    block.insert_ops_before([stored, real], op)
    op.operands[0] = real.result


def _write_rows(values: Values, op: Operation) -> None:
    """Codes of a byte, and a table of the scales of rows."""
    table, block, store = constant_of(op.operands[0]), op.parent, values.ctx.blobs
    assert table is not None and block is not None and isinstance(op, nn.GatherOp)
    axis = _axis(op)
    array: NDArray[np.float32] = constant_array(table, store)
    others = tuple(d for d in range(array.ndim) if d != axis)
    scales = np.abs(array).max(axis=others, keepdims=True) / np.float32(_LARGEST)
    scales = np.where(scales >= np.finfo(np.float32).tiny, scales, np.float32(1))
    codes = np.clip(np.rint(array / scales), -_LARGEST, _LARGEST).astype(np.int8)
    stored = make_constant(codes, UniformType(_CODES), store)
    steps = make_constant(scales.astype(np.float32), f32, store)
    if KEY in table.attributes:
        stored.attributes[KEY] = table.attributes[KEY]
    result, indices = op.result, op.indices
    picked = nn.GatherOp(
        stored.result,
        indices,
        axis=axis,
        result_types=[with_element(result.type, UniformType(_CODES))],
    )
    real = DCastOp(picked.result, result.type)
    step = nn.GatherOp(steps.result, indices, axis=axis)
    new = nn.MulOp(real.result, step.result, result_types=[result.type])
    new.attributes.update({k: op.attributes[k] for k in (KEY, OUTPUTS) if k in op.attributes})
    added = [stored, picked, real, steps, step, new]
    for each in added:
        each.location = op.location
    block.insert_ops_before(added, op)
    result.replace_all_uses_with(new.result)
    block.erase_op(op)


def _axis(op: nn.GatherOp) -> int:
    return normalize_axis(op.values["axis"], len(shape_of(op.input)))

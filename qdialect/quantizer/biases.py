"""What biases are lessened by: `Grids.shifts`, or what was measured (`bias_correction`)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from xdsl.ir import Operation

from qdialect.algebra.sums import Span
from qdialect.algebra.weights import Sums
from qdialect.ir import ops as nn
from qdialect.ir.behaviors import Accumulator
from qdialect.ir.ops import make_constant
from qdialect.ir.quant import element_type
from qdialect.quantizer.grids import (
    Constant,
    Grids,
    bias_codes,
    bias_qparams,
    bias_storage,
    sum_type,
)
from qdialect.quantizer.selection import Selection
from qdialect.quantizer.values import offsets_of, only_user, real_array

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]


def correct_known(selection: Selection, grids: Grids) -> None:
    """Correct the biases of ops of which is known by how much."""
    for op, shift in grids.shifts.items():
        behavior = selection.values.ctx.behaviors.get(op)
        assert behavior is not None and behavior.accumulator is not None
        if op in grids.only_weights:
            _lessen_floats(op, shift, selection)
        else:
            lessen_bias(op, behavior.accumulator, shift, selection, grids)


def is_lessened(op: Operation, selection: Selection) -> bool:
    """Whether something makes up for the rounding of the weights of a product that alone are codes:
    floats that are added to its channels."""
    return selection.values.recipe.correct_bias and _added(op, selection) is not None


def _added(op: Operation, selection: Selection) -> tuple[Operation, int, Array] | None:
    """The constant floats that are added to the channels of a float product, and whose operand
    they are: its own, or of the one sum behind it, if that stays float."""
    values = selection.values
    behavior = values.ctx.behaviors.get(op)
    acc = None if behavior is None else behavior.accumulator
    if acc is None:
        return None
    if acc.bias is not None:
        place, index = op, acc.bias
    else:
        place = only_user(op.results[0])
        if not isinstance(place, nn.AddOp) or place in selection.ops:
            return None
        index = 1 - list(place.operands).index(op.results[0])
    bias = (
        real_array(place.operands[index], values.ctx.blobs) if index < len(place.operands) else None
    )
    channels = nn.shape_of(op.results[0])[acc.result_axis(op)]
    if bias is None or bias.size != channels or bias.shape[-1:] != (channels,):
        return None
    return place, index, bias


def _lessen_floats(op: Operation, shift: Array, selection: Selection) -> None:
    """Take the shift from what is added to a product of floats."""
    found = _added(op, selection)
    assert found is not None
    place, index, bias = found
    store = selection.values.ctx.blobs
    made = make_constant(
        (bias - shift.reshape(bias.shape)).astype(np.float32),
        element_type(place.operands[index].type),
        store,
    )
    made.location = place.location
    assert place.parent is not None
    place.parent.insert_op_before(made, place)
    place.operands[index] = made.result


def lessen_bias(
    op: Operation, acc: Accumulator, shift: Array, selection: Selection, grids: Grids
) -> None:
    """Take the shift from the bias of an op, as far as its sums still fit. One that is missing is
    made, unless all of it would be 0."""
    assert acc.bias is not None
    weights = grids.constants[op, acc.rhs]
    runtime = grids.operand(op, acc.lhs)
    assert runtime is not None
    ctx = selection.values.ctx
    if acc.bias < len(op.operands):
        bias = real_array(op.operands[acc.bias], ctx.blobs)
        assert bias is not None
    else:
        bias = np.zeros(len(shift))
    stored = bias_storage(op, acc, ctx.target)
    params = bias_qparams(op, acc, runtime, weights.qparams.scale_list(), stored)
    rows = np.moveaxis(offsets_of(weights.codes, weights.qparams), acc.rhs_axis(op), 0)
    rows = rows.reshape(len(rows), -1).astype(np.int64)
    kind = replace(sum_type(op, grids, ctx.target), pair_bits=None)
    most = min(stored.max, -stored.min)
    sums = Sums(runtime.scale, Span.of(runtime), bias - shift, kind, bias_most=most)
    # Groups share rows: a row fits with the bias of each.
    fits = sums.excess(rows, weights.qparams.scale_array().reshape(-1)) <= 1
    fits = np.tile(fits, len(shift) // len(rows))
    corrected = np.where(fits, bias - shift, bias)
    codes = bias_codes(corrected, params)
    if acc.bias == len(op.operands):
        if not codes.any():
            return
        element = element_type(op.results[0].type)
        made = make_constant(np.zeros(len(shift), np.float32), element, ctx.blobs)
        made.location = op.location
        block = op.parent
        assert block is not None
        block.insert_op_before(made, op)
        op.operands = [*op.operands, made.result]
    grids.constants[op, acc.bias] = Constant(codes, params)

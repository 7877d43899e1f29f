"""What biases are lessened by: `Grids.shifts`, or what was measured (`bias_correction`)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from xdsl.ir import Operation

from qdialect.behaviors import Accumulator
from qdialect.numerics.sums import Span
from qdialect.numerics.weights import Sums
from qdialect.ops import make_constant
from qdialect.quant import element_type
from qdialect.quantization.grids import (
    Constant,
    Grids,
    bias_codes,
    bias_qparams,
    bias_storage,
    sum_type,
)
from qdialect.quantization.selection import Selection
from qdialect.quantization.values import offsets_of, real_array

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qdialect.weights import BlobStore

    Array = NDArray[np.float64]


def correct_known(selection: Selection, grids: Grids) -> None:
    """Correct the biases of ops of which is known by how much."""
    for op, shift in grids.shifts.items():
        behavior = selection.values.ctx.behaviors.get(op)
        assert behavior is not None and behavior.accumulator is not None
        if op in grids.only_weights:
            _lessen_floats(op, behavior.accumulator, shift, selection.values.ctx.blobs)
        else:
            lessen_bias(op, behavior.accumulator, shift, selection, grids)


def _lessen_floats(op: Operation, acc: Accumulator, shift: Array, store: BlobStore) -> None:
    """Take the shift from the bias of a product of floats, which has one."""
    assert acc.bias is not None
    old = op.operands[acc.bias]
    bias = real_array(old, store)
    assert bias is not None and op.parent is not None
    made = make_constant((bias - shift).astype(np.float32), element_type(old.type), store)
    made.location = op.location
    op.parent.insert_op_before(made, op)
    op.operands[acc.bias] = made.result


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

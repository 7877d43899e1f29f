"""Bias correction: what rounded weights do to the mean of a result goes into the bias.

With W' the weights that the codes name, a contraction makes an error of

    (W' - W) x,   of mean (W' - W) E[x] for each channel,

which is not zero where the x are not (behind a relu) or the products few (depthwise).  It
is measured: the float model gets a second contraction beside each, of the same operand with
W' - W, run on some samples.  The bias is lessened by its mean.  Padding, groups and strides
need no care of their own.  Ops of which it was found along with the weights (`Grids.shifts`)
are left to `correct_known`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from qdialect.behaviors import Accumulator
from qdialect.context import QContext
from qdialect.numerics.sums import Span
from qdialect.numerics.weights import Sums
from qdialect.ops import ReduceMeanOp, make_constant, shape_of
from qdialect.profile.engines import open_engine
from qdialect.profile.instrument import Instrumented, Observed
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
from qdialect.reference import Interpreter

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]
    Arrays = Mapping[str, NDArray[Any]]


@dataclass
class BiasCorrection:
    """Measures and corrects, with the samples and the engine to measure with."""

    samples: Sequence[Arrays]
    engine: str
    #: what was measured, by the number of the op and its weights' error
    _known: dict[tuple[int, bytes], Array] = field(
        default_factory=dict["tuple[int, bytes]", "Array"]
    )

    def __call__(self, selection: Selection, grids: Grids) -> None:
        """Correct the biases in `grids`; ops without a bias get one."""
        found = self._errors(selection, grids)
        if not found:
            return
        for op, shift in self._shifts(selection, found).items():
            _correct(op, found[op][0], shift, selection, grids)

    def _errors(
        self, selection: Selection, grids: Grids
    ) -> dict[Operation, tuple[Accumulator, Array]]:
        """W' - W of every contraction that may have a bias."""
        found: dict[Operation, tuple[Accumulator, Array]] = {}
        for op, behavior in selection.ops.items():
            acc = behavior.accumulator
            if acc is None or acc.bias is None or (op, acc.rhs) not in grids.constants:
                continue
            if op in grids.shifts:
                continue
            if acc.bias < len(op.operands) and (op, acc.bias) not in grids.constants:
                continue
            real = real_array(op.operands[acc.rhs], selection.values.ctx.blobs)
            assert real is not None
            error = grids.constants[op, acc.rhs].real() - real
            if error.any():
                found[op] = acc, error
        return found

    def _shifts(
        self, selection: Selection, found: Mapping[Operation, tuple[Accumulator, Array]]
    ) -> dict[Operation, Array]:
        """The mean of (W' - W) x by channel."""
        numbers = {op: number for number, op in enumerate(selection.values.block.ops)}
        names = {op: (numbers[op], sha256(found[op][1].tobytes()).digest()) for op in found}
        missing = [op for op in found if names[op] not in self._known]
        if missing:
            measured = self._measured(selection, {op: found[op] for op in missing}, numbers)
            self._known.update((names[op], shift) for op, shift in measured.items())
        return {op: self._known[names[op]] for op in found}

    def _measured(
        self,
        selection: Selection,
        found: Mapping[Operation, tuple[Accumulator, Array]],
        numbers: Mapping[Operation, int],
    ) -> dict[Operation, Array]:
        ctx = selection.values.ctx
        module = selection.values.function.parent_op()
        assert isinstance(module, ModuleOp)
        clone = module.clone()
        function = Interpreter(ctx, clone).function()
        plan = Instrumented(clone, function)
        cloned = list(function.body.block.ops)
        for op, (acc, error) in found.items():
            value = _beside(cloned[numbers[op]], acc, error, ctx)
            plan.observed.append(Observed((str(numbers[op]),), value))
        engine = open_engine(self.engine, plan, ctx)
        ops = {str(numbers[op]): op for op in found}
        sums: dict[Operation, Array] = {}
        for sample in self.samples:
            for (key,), array in engine.run(sample):
                mean = array.astype(np.float64).reshape(-1)
                sums[ops[key]] = sums[ops[key]] + mean if ops[key] in sums else mean
        # Data that overflows inside says nothing of a mean.
        return {
            op: np.where(np.isfinite(total), total / len(self.samples), 0.0)
            for op, total in sums.items()
        }


def correct_known(selection: Selection, grids: Grids) -> None:
    """Correct the biases of ops of which is known by how much."""
    for op, shift in grids.shifts.items():
        acc = selection.ops[op].accumulator
        assert acc is not None
        _correct(op, acc, shift, selection, grids)


def _beside(op: Operation, acc: Accumulator, error: Array, ctx: QContext) -> SSAValue:
    """The mean by channel of the op without bias and with other weights."""
    constant = make_constant(
        error.astype(np.float32), element_type(op.operands[acc.rhs].type), ctx.blobs
    )
    operands = [v for n, v in enumerate(op.operands) if n != acc.bias]
    operands[acc.rhs] = constant.result
    made = type(op).create(
        operands=operands,
        result_types=[result.type for result in op.results],
        properties=dict(op.properties),
    )
    block = op.parent
    assert block is not None
    axes = [n for n in range(len(shape_of(made.results[0]))) if n != acc.result_axis(op)]
    mean = ReduceMeanOp(made.results[0], axes=axes)
    block.insert_ops_after([constant, made, mean], op)
    return mean.results[0]


def _correct(
    op: Operation, acc: Accumulator, shift: Array, selection: Selection, grids: Grids
) -> None:
    """Take the shift from the bias of an op, as far as its sums still fit."""
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
    if acc.bias == len(op.operands):
        element = element_type(op.results[0].type)
        made = make_constant(np.zeros(len(shift), np.float32), element, ctx.blobs)
        made.location = op.location
        block = op.parent
        assert block is not None
        block.insert_op_before(made, op)
        op.operands = [*op.operands, made.result]
    grids.constants[op, acc.bias] = Constant(bias_codes(corrected, params), params)

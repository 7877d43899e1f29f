"""Weights whose codes are to be chosen again: constants that contractions multiply with.

Ops that multiply with the same numbers in the same codes get one rounding. A row whose sums would
not fit what the target adds up in keeps the codes it has. Weights of float products, which alone
are codes (`blocks`), are among them where their codes are chosen before they are written: these
may be any of the storage, around the zero point of each block.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.ir import Operation, SSAValue

from qdialect.algebra.qparams import QParams
from qdialect.algebra.sums import Span
from qdialect.algebra.weight_rounding import Grid
from qdialect.algebra.weights import Sums, positive_codes
from qdialect.analysis.accumulators import signed_shift
from qdialect.ir.behaviors import Accumulator
from qdialect.quantizer.biases import is_lessened
from qdialect.quantizer.grids import Constant, Grids, bias_storage, sum_type
from qdialect.quantizer.hessians import array_of, measurable, rows_of
from qdialect.quantizer.selection import Selection
from qdialect.quantizer.values import offsets_of, real_array, reals_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]
    Codes = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class SharedWeights:
    """Ops that multiply with the same weights (`real`) in the same codes, whether their means are
    corrected, and whether the weights alone are codes."""

    constant: Constant
    real: Array
    centered: bool
    alone: bool = False
    ops: list[Operation] = field(default_factory=list[Operation])

    def rows(self) -> tuple[Array, Grid]:
        """The rows [groups, outputs, K], and the grid that they are rounded to: of offsets from
        zero points, or of codes where the weights alone are codes."""
        op, params = self.ops[0], self.constant.qparams
        rows = rows_of(op, self.real)
        # What a step is worth for each weight is what codes one above their zero name.
        steps = rows_of(op, reals_of(self._zeros() + 1, params))
        assert rows is not None and steps is not None
        if self.alone:
            zeros = rows_of(op, self._zeros())
            assert zeros is not None
            storage = params.storage
            return rows, Grid(steps, storage.min, storage.max, zeros.astype(np.float64))
        positive = positive_codes(params.storage)
        return rows, Grid(steps, -positive, positive)

    def codes(self, offsets: Codes) -> NDArray[Any]:
        """What stands for rows on their grid as codes of the constant."""
        codes = array_of(self.ops[0], offsets)
        codes = codes if self.alone else codes + self._zeros()
        return codes.astype(self.constant.codes.dtype)

    def offsets(self) -> NDArray[np.int64]:
        """The codes that it has, less their zero points."""
        return offsets_of(self.constant.codes, self.constant.qparams).astype(np.int64)

    def _zeros(self) -> NDArray[np.int64]:
        codes = self.constant.codes
        return (codes - offsets_of(codes, self.constant.qparams)).astype(np.int64)


def shared_weights(selection: Selection, grids: Grids) -> list[SharedWeights]:
    """What is to be rounded: codes of constant weights that are not exact."""
    groups: dict[tuple[SSAValue, QParams, tuple[int, ...]], SharedWeights] = {}
    recipe, blobs = selection.values.recipe, selection.values.ctx.blobs
    for op, behavior in selection.ops.items():
        acc = behavior.accumulator
        constant = None if acc is None else grids.constants.get((op, acc.rhs))
        if acc is None or constant is None or not measurable(op):
            continue
        real = real_array(op.operands[acc.rhs], blobs)
        if real is None or not np.any(constant.real() - real):
            continue
        rows = rows_of(op, real)
        assert rows is not None
        key = op.operands[acc.rhs], constant.qparams, rows.shape
        corrected = recipe.correct_bias and acc.bias is not None
        made = SharedWeights(constant, real, corrected)
        groups.setdefault(key, made).ops.append(op)
    for op, (params, codes) in grids.only_weights.items():
        constant, weight = Constant(codes, params), op.operands[accumulator_of(op, selection).rhs]
        real = real_array(weight, blobs)
        if params.storage.is_float or params.storage.quantile or real is None:
            continue
        if not measurable(op):
            continue
        made = SharedWeights(constant, real, is_lessened(op, selection), alone=True)
        groups.setdefault((weight, params, real.shape), made).ops.append(op)
    # Several ops take other means: no one knows what their biases would make up for.
    return [
        replace(each, centered=False) if each.alone and len(each.ops) > 1 else each
        for each in groups.values()
    ]


def write_codes(each: SharedWeights, offsets: Codes, selection: Selection, grids: Grids) -> None:
    """Put codes in place of those in `grids`, but for rows whose sums do not fit in some op."""
    before = each.constant
    made = Constant(each.codes(offsets), before.qparams)
    if each.alone:
        for op in each.ops:
            grids.only_weights[op] = made.qparams, made.codes
        return
    fits = np.array([rows_fit(op, made, selection, grids) for op in each.ops]).all(axis=0)
    axis = accumulator_of(each.ops[0], selection).rhs_axis(each.ops[0])
    shape = [-1 if d == axis else 1 for d in range(made.codes.ndim)]
    codes = np.where(fits.reshape(shape), made.codes, before.codes)
    for op in each.ops:
        acc = accumulator_of(op, selection)
        grids.constants[op, acc.rhs] = Constant(codes, before.qparams)


def current(each: SharedWeights, selection: Selection, grids: Grids) -> SharedWeights:
    """The same weights with the codes that are in `grids` now."""
    op = each.ops[0]
    if each.alone:
        params, codes = grids.only_weights[op]
        return replace(each, constant=Constant(codes, params))
    return replace(each, constant=grids.constants[op, accumulator_of(op, selection).rhs])


def write_shift(
    each: SharedWeights, means: tuple[Array, Array], selection: Selection, grids: Grids
) -> None:
    """Say by how much the bias of the one op of some weights is lessened: the mean of w' x' - w x,
    with E[x] and E[x'] [groups, K] as `means` and the codes that are in `grids`."""
    (op,) = each.ops
    rows = rows_of(op, each.real)
    alone = grids.only_weights.get(op)
    if alone is None:
        constant = grids.constants[op, accumulator_of(op, selection).rhs]
    else:
        constant = Constant(alone[1], alone[0])
    made = rows_of(op, constant.real())
    assert rows is not None and made is not None
    exact, mean_made = (mean[:, :, None] for mean in means)
    grids.shifts[op] = (made @ mean_made - rows @ exact).reshape(-1)


def rows_fit(
    op: Operation, weights: Constant, selection: Selection, grids: Grids
) -> NDArray[np.bool_]:
    """Which rows of weights, along the axis of channels, have sums that fit, with the bias."""
    acc, target = accumulator_of(op, selection), selection.values.ctx.target
    runtime, params = grids.operand(op, acc.lhs), weights.qparams
    assert runtime is not None
    bias = None
    if acc.bias is not None and acc.bias < len(op.operands):
        bias = real_array(op.operands[acc.bias], selection.values.ctx.blobs)
    stored = bias_storage(op, acc, target)
    kind, most = sum_type(op, grids, target), min(stored.max, -stored.min)
    sums = Sums(runtime.scale, Span.of(runtime), bias, kind, bias_most=most)
    rows = np.moveaxis(offsets_of(weights.codes, params), acc.rhs_axis(op), 0)
    rows = rows.reshape(len(rows), -1).astype(np.int64)
    excess = sums.excess(rows, params.scale_array().reshape(-1), signed_shift(params))
    return np.asarray(excess <= 1)


def accumulator_of(op: Operation, selection: Selection) -> Accumulator:
    """How a contraction adds up."""
    behavior = selection.values.ctx.behaviors.get(op)
    assert behavior is not None and behavior.accumulator is not None
    return behavior.accumulator

"""Weights of a block of ops that are rounded together, for what the block gives.

Errors of the weights of a layer may cancel behind the next, or be wiped out by a function between
them, which no loss of a layer alone can see.  So the function is cut into blocks (`cuts`), and of
one after the other, when its layers are rounded, the codes w' are chosen again for least

    sum over results of  E[ (f(x'; w') - z)^2 ] / E[ z^2 ]

with z what the float model has there, and x' what the quantized blocks above give, whose codes are
final (block reconstruction: Li et al., BRECQ, 2021). Biases stay as they were corrected for the
codes of the layers (`write_shift`). Who follows the slopes through a block is handed in (`Solver`).

A block is a function of its own, of the values that come from above and of its weights, with the
casts of the quantized model inside:

    func.func @block(%x: tensor<1x64x384xf32>, %w: tensor<384x384xf32>, ...) -> tensor<...>
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Operation, OpResult, Region, SSAValue
from xdsl.traits import ConstantLike

from qdialect.ir.context import QContext
from qdialect.ir.quant import DCastOp
from qdialect.quantizer.cuts import Stretch
from qdialect.quantizer.grids import Grids
from qdialect.quantizer.hessians import array_of, rows_of
from qdialect.quantizer.operands import ValueRun, float_values
from qdialect.quantizer.quantized_copy import quantized_copy
from qdialect.quantizer.selection import Selection
from qdialect.quantizer.shared_weights import SharedWeights, accumulator_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]
    Codes = NDArray[np.int64]
    Arrays = Mapping[str, NDArray[Any]]


@dataclass(frozen=True)
class SoftWeight:
    """A weight of a block, elementwise in its own shape: what it is, steps, zero points and the
    codes to start from, the least and the largest code."""

    real: Array
    steps: Array
    zeros: Array
    start: Codes
    low: int
    high: int

    def numbers(self, codes: Codes) -> Array:
        """What codes name."""
        return (codes - self.zeros) * self.steps


@dataclass(frozen=True)
class Problem:
    """A block: its function, of values from above and then of weights; for each sample what comes
    from above, and what is to come out."""

    function: FuncOp
    ctx: QContext
    weights: Sequence[SoftWeight]
    inputs: Sequence[Sequence[NDArray[Any]]]
    targets: Sequence[Sequence[NDArray[Any]]]


class Solver(Protocol):
    """Follows slopes."""

    def solved(self, problem: Problem) -> Sequence[Codes]:
        """Codes of each weight; those they start from, where nothing better is found or slopes
        cannot be followed through the block."""
        ...


def problem_of(
    selection: Selection,
    grids: Grids,
    stretch: Stretch,
    inside: Sequence[SharedWeights],
    floats: Sequence[SharedWeights],
    samples: Sequence[Arrays],
    engine: str,
) -> Problem:
    """The problem of a block with the weights `inside`, where those of `floats` are not coded."""
    uncoded = [*floats, *(each for each in inside if each.alone)]
    places = [(op, _place(op, selection)) for each in uncoded for op in each.ops]
    copy = quantized_copy(selection, grids, places)
    results = [
        copy.ops[value.owner].results[value.index]
        for value in stretch.results
        if isinstance(value, OpResult)
    ]
    taken = [[copy.ops[op].operands[_place(op, selection)] for op in each.ops] for each in inside]
    first = next(copy.ops[op] for op in stretch.ops if copy.ops[op].parent is not None)
    function, outside = _function(results, taken, first)
    made = ValueRun(copy.module, copy.ctx, dict(enumerate(outside)), engine)
    exact = float_values(selection.values, dict(enumerate(stretch.results)), engine)
    return Problem(
        function,
        copy.ctx,
        [_soft_weight(each) for each in inside],
        [_listed(made, sample) for sample in samples],
        [_listed(exact, sample) for sample in samples],
    )


def _listed(run: ValueRun[int], sample: Arrays) -> list[NDArray[Any]]:
    found = dict(run.of(sample))
    return [np.array(found[number]) for number in range(len(found))]


def _place(op: Operation, selection: Selection) -> int:
    return accumulator_of(op, selection).rhs


def _function(
    results: Sequence[SSAValue], weights: Sequence[Sequence[SSAValue]], first: Operation
) -> tuple[FuncOp, Sequence[SSAValue]]:
    """The function of values that makes `results`, from ops at `first` and behind it, of what ops
    above make and then of `weights`, each of which stands for several values; and these values
    from above."""
    block = first.parent
    assert block is not None
    order = {op: number for number, op in enumerate(block.ops)}
    needed: set[Operation] = set()
    outside: dict[SSAValue, None] = {}
    replaced = {value for each in weights for value in each}
    waiting = list(results)
    while waiting:
        value = waiting.pop()
        owner = value.owner
        if value in replaced or owner in needed:
            continue
        if isinstance(owner, Operation) and (order[owner] >= order[first] or _constant(owner)):
            needed.add(owner)
            waiting.extend(owner.operands)
        else:
            outside[value] = None
    taken = [*((value,) for value in outside), *weights]
    body = Block(arg_types=[values[0].type for values in taken])
    mapped: dict[SSAValue, SSAValue] = {}
    for values, arg in zip(taken, body.args, strict=True):
        mapped.update(dict.fromkeys(values, arg))
    for op in sorted(needed, key=lambda each: order[each]):
        body.add_op(op.clone(mapped))
    body.add_op(ReturnOp(*(mapped[value] for value in results)))
    kinds = [arg.type for arg in body.args], [value.type for value in results]
    return FuncOp("block", kinds, Region(body)), list(outside)


def _constant(op: Operation) -> bool:
    if isinstance(op, DCastOp):
        return isinstance(op.input.owner, Operation) and _constant(op.input.owner)
    return op.has_trait(ConstantLike)


def _soft_weight(each: SharedWeights) -> SoftWeight:
    rows, grid = each.rows()
    op, whole = each.ops[0], grid.whole(rows.shape)
    steps, zeros = (array_of(op, np.asarray(a)) for a in (whole.steps, whole.zeros))
    offsets = each.constant.codes.astype(np.int64)
    start = offsets if each.alone else each.offsets()
    return SoftWeight(each.real, steps, zeros, start, grid.low, grid.high)


def as_rows(each: SharedWeights, codes: Codes) -> Codes:
    """Codes in the shape of the weight as `WeightRounding` keeps them [groups, outputs, K]."""
    rows = rows_of(each.ops[0], codes)
    assert rows is not None
    return rows

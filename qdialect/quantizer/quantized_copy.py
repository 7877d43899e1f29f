"""A function as it will be quantized, to run before constants are chosen for good.

A selection and its grids are copied along with their module, and the copy is written: the casts
stand on its values and its constants are codes, but for weights that are not chosen yet. The
module that they are of stays as it is, so a step that chooses constants can see what the ops above
make of those that are chosen already.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from qdialect.interpreter import Interpreter
from qdialect.quantizer.biases import correct_known
from qdialect.quantizer.emission import emit
from qdialect.quantizer.grids import Grids
from qdialect.quantizer.selection import Selection
from qdialect.quantizer.values import Values

if TYPE_CHECKING:
    from qdialect.ir.context import QContext


@dataclass(frozen=True)
class QuantizedCopy:
    """A quantized module, its context, and the op in it of each op of the function."""

    module: ModuleOp
    ctx: QContext
    ops: Mapping[Operation, Operation]


def quantized_copy(
    selection: Selection,
    grids: Grids,
    floats: Collection[tuple[Operation, int]] = (),
) -> QuantizedCopy:
    """The function of a selection, quantized as `grids` says; constant operands in `floats` (an op
    and the number of the operand) stay as they are. Biases are corrected as far as is known."""
    values = selection.values
    module = values.function.parent_op()
    assert isinstance(module, ModuleOp)
    clone, ctx = module.clone(), values.ctx.clone()
    function = Interpreter(ctx, clone).function()
    ops = dict(zip(values.block.ops, function.body.block.ops, strict=True))
    mapped: dict[SSAValue, SSAValue] = {}
    mapped.update(zip(values.block.args, function.body.block.args, strict=True))
    for op, copy in ops.items():
        mapped.update(zip(op.results, copy.results, strict=True))
    known = {mapped[value]: found for value, found in values.known.items()}
    open_ops = {op for op, _ in floats if op not in selection.ops}
    copied = Selection(
        Values(function, ctx, values.profile, values.recipe, known),
        {ops[op]: behavior for op, behavior in selection.ops.items()},
        {ops[op]: why for op, why in selection.left.items() if op not in open_ops},
        {ops[op]: why for op, why in selection.not_so.items()},
    )
    written = _mapped(grids, ops, mapped, floats)
    correct_known(copied, written)
    emit(copied, written)
    return QuantizedCopy(clone, ctx, ops)


def _mapped(
    grids: Grids,
    ops: Mapping[Operation, Operation],
    values: Mapping[SSAValue, SSAValue],
    floats: Collection[tuple[Operation, int]],
) -> Grids:
    return Grids(
        {values[value]: params for value, params in grids.qparams.items()},
        dict.fromkeys(values[value] for value in grids.pairs),
        {
            (ops[op], index): constant
            for (op, index), constant in grids.constants.items()
            if (op, index) not in floats
        },
        {ops[op]: text for op, text in grids.reranged.items()},
        {(ops[op], index): params for (op, index), params in grids.uses.items()},
        {ops[op]: coded for op, coded in grids.only_weights.items()},
        {ops[op]: shift for op, shift in grids.shifts.items()},
        {ops[op]: params for op, params in grids.sums.items()},
    )


def stages(
    selection: Selection, groups: Sequence[Collection[Operation]], most: int
) -> list[tuple[list[int], list[int]]]:
    """The numbers of groups of ops in at most so many stages of about as many groups each, by the
    depth of the deepest of their ops: how many groups there are on the longest way down to it. So
    what is above a group of one op is in an earlier stage, or in the same; a stage has those that
    are below no other of it, and the others."""
    owner = {op: number for number, ops in enumerate(groups) for op in ops}
    depths: dict[Operation, int] = {}
    levels: dict[int, int] = {}
    for op in selection.values.block.ops:
        above = (v.owner for v in op.operands if isinstance(v.owner, Operation))
        depth = max((depths.get(each, 0) for each in above), default=0) + (op in owner)
        depths[op] = depth
        if op in owner:
            levels[owner[op]] = max(levels.get(owner[op], 0), depth)
    numbers: dict[int, list[int]] = {}
    for number in sorted(levels, key=lambda each: (levels[each], each)):
        numbers.setdefault(levels[number], []).append(number)
    found: dict[int, tuple[list[int], list[int]]] = {}
    before = 0
    for each in numbers.values():
        part = before * most // len(groups)
        if part in found:
            found[part][1].extend(each)
        else:
            found[part] = each, []
        before += len(each)
    return list(found.values())

"""Writes a plan into the module: casts on values, constants in codes, qparams of pieces."""

from __future__ import annotations

from typing import cast

from xdsl.ir import Operation, SSAValue

from qdialect.algebra.qparams import QParams
from qdialect.analysis.caches import reads_shape
from qdialect.ir.context import QContext
from qdialect.ir.ops import make_constant
from qdialect.ir.ops.component_qparams import hold_types
from qdialect.ir.ops.components import NoPiecesError
from qdialect.ir.ops.constants import constant_of
from qdialect.ir.ops.keys import KEY
from qdialect.ir.quant import DCastOp, QCastOp, UniformType, element_type, with_element
from qdialect.passes.lowering.lower_composites import PiecePlan, plan_pieces
from qdialect.passes.rule_pass import erase_new
from qdialect.quantizer.blocks import WEIGHTS_ONLY, write_weights
from qdialect.quantizer.dynamic import DYNAMIC, write_dynamic
from qdialect.quantizer.grids import Grids
from qdialect.quantizer.profile.nearest import qparams_inside
from qdialect.quantizer.profile.scheme import tensor_qparams
from qdialect.quantizer.selection import Selection
from qdialect.quantizer.tables import TABLE, write_table
from qdialect.quantizer.values import codes_behind, needed_range


def emit(selection: Selection, grids: Grids) -> None:
    """Every selected op between dequantize and quantize, as `grids` says."""
    floats = selection.float_results()
    for value in grids.pairs:
        if value not in floats:
            _pair(value, selection, grids)
    for op, params in grids.sums.items():
        _sum_pair(op, params)
    for (op, index), params in grids.uses.items():
        _use_pair(op, index, params)
    for op in selection.ops:
        if op.results[0] in floats and not selection.ops[op].commutes:
            _cast_in_front(op, grids)
    for (op, index), constant in grids.constants.items():
        element = UniformType(constant.qparams)
        old = constant_of(op.operands[index]) or codes_behind(op.operands[index])
        assert old is not None
        if old.result.type == with_element(old.result.type, element):
            continue  # it has these codes
        made = make_constant(constant.codes, element, selection.values.ctx.blobs)
        if KEY in old.attributes:
            made.attributes[KEY] = old.attributes[KEY]
        _before(op, made, old)
        cast = DCastOp(made.result, op.operands[index].type)
        _before(op, cast, old)
        op.operands[index] = cast.result
    for op, why in selection.left.items():
        behavior = selection.values.ctx.behaviors.get(op)
        if why.code == WEIGHTS_ONLY and behavior is not None:
            write_weights(selection.values, op, behavior, grids.only_weights.get(op))
        if why.code == DYNAMIC and behavior is not None:
            write_dynamic(selection.values, op, behavior)
        if why.code == TABLE:
            write_table(selection.values, op)
    for op in selection.ops:
        _components(op, selection, grids)


def cast_pair(
    value: SSAValue, params: QParams, at: Operation | None = None
) -> tuple[QCastOp, DCastOp]:
    """A quantize of a float value and the dequantize of that, with the location of an op."""
    codes = QCastOp(value, with_element(value.type, UniformType(params)))
    real = DCastOp(codes.result, value.type)
    if at is not None:
        codes.location = real.location = at.location
    return codes, real


def _pair(value: SSAValue, selection: Selection, grids: Grids) -> None:
    owner = value.owner
    made, cached = owner in selection.ops, value in selection.caches
    uses = [use for use in value.uses if made or use.operation in selection.ops]
    if cached:
        uses = [use for use in value.uses if not reads_shape(use.operation)]
    codes, real = cast_pair(value, grids.qparams[value])
    block = selection.values.block
    if isinstance(owner, Operation):
        codes.location = real.location = owner.location
        block.insert_ops_after([codes, real], owner)
    else:
        assert block.first_op is not None
        block.insert_ops_before([codes, real], block.first_op)
    for use in uses:
        use.operation.operands[use.index] = real.result


def _sum_pair(op: Operation, params: QParams) -> None:
    """Casts to the sums of a contraction and back, in front of all that takes its result."""
    (value,) = op.results
    uses = list(value.uses)
    codes, real = cast_pair(value, params, op)
    block = op.parent
    assert block is not None
    block.insert_ops_after([codes, real], op)
    for use in uses:
        use.operation.operands[use.index] = real.result


def _use_pair(op: Operation, index: int, params: QParams) -> None:
    value, block = op.operands[index], op.parent
    assert block is not None
    codes, real = cast_pair(value, params, op)
    block.insert_ops_before([codes, real], op)
    op.operands[index] = real.result


def _cast_in_front(op: Operation, grids: Grids) -> None:
    """Casts on operands that are moved codes: no op behind makes integer ops of those that move
    them. What is rounded once stays where it is."""
    for index, value in enumerate(op.operands):
        params = grids.operand(op, index)
        if params is not None and not isinstance(value.owner, DCastOp):
            _use_pair(op, index, params)


def _before(op: Operation, new: Operation, old: Operation) -> None:
    new.location = old.location
    block = op.parent
    assert block is not None
    block.insert_op_before(new, op)


def _components(op: Operation, selection: Selection, grids: Grids) -> None:
    """The qparams of the pieces that the op may be lowered to; its result has its own."""
    values = selection.values
    composite = values.ctx.components.get(op.name)
    if composite is None:
        return
    scheme = values.recipe.activation_scheme(str(element_type(op.results[0].type)))
    results = composite.result_roles(op)
    roles = [role for role in composite.roles_of(op) if role not in results]
    plans, pieces = _pieces(op, values.ctx)
    ops = {piece: None for plan in plans for piece in plan.ops}
    values.add_pieces(ops)
    found: dict[str, UniformType] = {}
    for role, value in pieces.items():
        if role not in results and values.range(value) is not None:
            chosen = needed_range(value, values, ops)
            qparams = qparams_inside(chosen, scheme, values.ctx.target.any_tensor)
            found[role] = UniformType(qparams or tensor_qparams(chosen, scheme)[0])
    erase_new([*ops])
    if composite.as_result and (own := grids.qparams.get(op.results[0])) is not None:
        found |= dict.fromkeys(composite.as_result & set(roles), UniformType(own))
    # One that is missing would be guessed by whoever lowers the op.
    if not roles or any(role not in found for role in roles):
        return
    if len(results) > 1:
        # Nobody may take some of the results, and a value that nobody takes is not quantized.
        for role, result in zip(results, op.results, strict=True):
            found[role] = UniformType(grids.qparams[result])
    hold_types(op, found)


def _pieces(op: Operation, ctx: QContext) -> tuple[list[PiecePlan], dict[str, SSAValue]]:
    """The pieces of an op and of these, in no block, and by role the first value of each."""
    composite = ctx.components.get(op.name)
    if composite is None or not composite.roles_of(op):
        return [], {}
    try:
        plan = plan_pieces(op, composite, ctx, composite.keys_of(op))
    except NoPiecesError:
        return [], {}
    plans, found = [plan], {role: values[0] for role, values in plan.values.items()}
    for role, value in [*found.items()]:
        if role in composite.inner:
            more, inner = _pieces(cast("Operation", value.owner), ctx)
            plans += more
            found |= {f"{role}/{name}": each for name, each in inner.items() if name != "result"}
    return plans, found

"""Make functions and their blocks pass stored integers in place of quantized types.

Signatures of definitions and declarations, calls, returns, and the arguments of every block of a
function body with the branches to them get the storage type; `quant.scast` converts between the
two. No bit changes. Upstream's pass of this name refuses functions of several blocks.

For example

    func.func @caller(%x: tensor<4x!q>) -> tensor<4x!q> {
      %0 = call @caller(%x) : (tensor<4x!q>) -> tensor<4x!q>
      return %0 : tensor<4x!q>
    }

becomes

    func.func @caller(%x: tensor<4xi8>) -> tensor<4xi8> {
      %1 = quant.scast %x : tensor<4xi8> to tensor<4x!q>
      %2 = quant.scast %1 : tensor<4x!q> to tensor<4xi8>
      %0 = call @caller(%2) : (tensor<4xi8>) -> tensor<4xi8>
      %3 = quant.scast %0 : tensor<4xi8> to tensor<4x!q>
      %4 = quant.scast %3 : tensor<4x!q> to tensor<4xi8>
      return %4 : tensor<4xi8>
    }
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import FunctionType, IntegerType, ModuleOp
from xdsl.dialects.func import CallOp, FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.passes import ModulePass

from qdialect.errors import UnsupportedError
from qdialect.ir.context import session
from qdialect.ir.ops.locations import op_where
from qdialect.ir.quant import (
    AnyType,
    CalibratedType,
    SCastOp,
    UniformType,
    element_type,
    with_element,
)
from qdialect.rewrite.error_bounds import ErrorBounds
from qdialect.rewrite.rewriter import set_type


def stored_type(type: Attribute, op: Operation) -> Attribute:
    """`type` with its stored integers in place of quantized elements.

    Raises UnsupportedError (`no-storage`) when there is no such integer type.
    """
    element = element_type(type)
    if isinstance(element, UniformType | AnyType):
        storage = element.data.storage
        if not storage.is_float and storage.quantile is None:
            return with_element(type, IntegerType(storage.width))
    elif not isinstance(element, CalibratedType):
        return type
    raise UnsupportedError(
        f"'{op.name}' op {element} has no integer storage type",
        where=op_where(op),
        code="no-storage",
    )


@dataclass(frozen=True)
class StripFuncQuantTypes(ModulePass):
    """Quantized types out of signatures, calls and blocks; see the module."""

    name = "strip-func-quant-types"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Run the pass on a module, in place."""
        ops, bounds = list(op.walk()), session(ctx).error_bounds
        for inner in ops:
            if isinstance(inner, FuncOp):
                _strip_signature(inner)
                for block in inner.body.blocks:
                    _strip_arguments(block, inner, bounds)
        for inner in ops:
            if isinstance(inner, ReturnOp | CallOp) or inner.successors:
                _strip_operands(inner)
            if isinstance(inner, CallOp):
                _strip_results(inner, bounds)


def _strip_signature(func: FuncOp) -> None:
    kinds = func.function_type
    inputs, outputs = (
        [stored_type(kind, func) for kind in side.data] for side in (kinds.inputs, kinds.outputs)
    )
    func.properties["function_type"] = FunctionType.from_lists(inputs, outputs)


def _strip_arguments(block: Block, func: FuncOp, bounds: ErrorBounds) -> None:
    casts = [cast for arg in block.args if (cast := _restored(arg, func, bounds))]
    if casts:
        first = block.first_op
        assert first is not None
        # As upstream does: the cast of the last argument first.
        block.insert_ops_before(casts[::-1], first)


def _strip_results(call: CallOp, bounds: ErrorBounds) -> None:
    casts = [cast for result in call.results if (cast := _restored(result, call, bounds))]
    if casts and call.parent is not None:
        call.parent.insert_ops_after(casts, call)


def _restored(value: SSAValue, op: Operation, bounds: ErrorBounds) -> SCastOp | None:
    """Make `value` hold stored integers; the cast back, which takes over its uses and changes."""
    old = value.type
    new = stored_type(old, op)
    if new == old:
        return None
    set_type(value, new)
    cast = SCastOp(value, old)
    cast.location = op.location
    bounds.add(cast.result, bounds.changes.pop(value, ()))
    uses = [use for use in value.uses if use.operation is not cast]
    for use in uses:
        use.operation.operands[use.index] = cast.result
    return cast


def _strip_operands(op: Operation) -> None:
    """Store the quantized operands of a return, a call or a branch."""
    operands = list(op.operands)
    for index, value in enumerate(operands):
        kind = stored_type(value.type, op)
        if kind != value.type:
            cast = SCastOp(value, kind)
            cast.location = op.location
            assert op.parent is not None
            # As upstream does: behind what defines the value, if that is in the block.
            owner = value.owner
            if isinstance(owner, Operation) and owner.parent is op.parent:
                op.parent.insert_op_after(cast, owner)
            else:
                op.parent.insert_op_before(cast, op)
            operands[index] = cast.result
    if operands != list(op.operands):
        op.operands = operands

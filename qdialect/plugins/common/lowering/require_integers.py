"""Refuse floats, and say of each op why it has no integers.

For a processor without floats. The pass changes nothing: it lists, in one error, every op that
computes floats, with what `lower-float-regions` or a table said of it, and every op on codes that
has no exact integer form in the dialect, with the reason that the ranges of its values give:

    error: 2 ops cannot become TOSA integers
    note: 'nn.softmax': ... (node 'attn/softmax')
    note: 'nn.conv2d': overflow: a sum of products may leave 32 bits (node 'conv1')

Casts at the interface, of arguments and results, are the caller's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from xdsl.context import Context
from xdsl.dialects.builtin import AnyFloat, ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import BlockArgument, Operation
from xdsl.passes import ModulePass

from qdialect.ir.context import QContext, session
from qdialect.ir.ops import ConstantOp
from qdialect.ir.quant import DCastOp, QCastOp, element_type
from qdialect.plugins.common.exports import exports
from qdialect.plugins.common.lowering.conversion import Refused, refusal_of, refusals
from qdialect.plugins.common.lowering.errors import Unlowerable
from qdialect.rewrite.remarks import location_text


@dataclass(frozen=True)
class RequireIntegers(ModulePass):
    """Refuse what is not computed in integers; see the module."""

    name = "require-integers"

    to: Literal["tosa", "linalg", "quant", "iree", "stablehlo", "tflite", "tflite-bounded"] = "tosa"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Look at a module; UnsupportedError that lists everything."""
        qctx = session(ctx)
        dialect = exports()[self.to].dialect()
        found = {r.op: r for r in refusals(qctx, op, dialect)}
        for inner in op.walk():
            if inner not in found and (error := _float_refusal(qctx, inner)) is not None:
                found[inner] = Refused(inner, error)
        if found:
            order = {inner: n for n, inner in enumerate(op.walk())}
            refused = sorted(found.values(), key=lambda r: order[r.op])
            raise refusal_of(refused, f"{dialect.name} integers", dialect.code)


def _float_refusal(ctx: QContext, op: Operation) -> Unlowerable | None:
    """Why `op` is refused, if it makes floats or takes them."""
    if isinstance(op, ConstantOp | FuncOp | ReturnOp | ModuleOp):
        return None
    values = (*op.operands, *op.results)
    if not any(isinstance(element_type(value.type), AnyFloat) for value in values):
        return None
    if isinstance(op, QCastOp) and isinstance(op.input, BlockArgument):
        return None
    if isinstance(op, DCastOp) and all(isinstance(u.operation, ReturnOp) for u in op.result.uses):
        return None
    if isinstance(op, QCastOp | DCastOp):
        return Unlowerable("float", "it is between codes and floats that are computed with")
    place = location_text(op.location)
    said = [
        remark.reason
        for remark in ctx.remarks.remarks
        if remark.kind == "refused" and remark.op == op.name and remark.location == place
    ]
    reason = f"it computes floats: {said[-1]}" if said and said[-1] else "it computes floats"
    return Unlowerable("float", reason, "quantize it (qopt quantize)")

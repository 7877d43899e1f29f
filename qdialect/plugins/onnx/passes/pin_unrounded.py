"""Pin ops on floats that ONNX Runtime computes in a wider type than they have.

It has kernels of f16 for few ops.  The others it computes in f32, and where two of these meet, it
drops the rounding to f16 in between (`InsertCastTransformer`, whatever its optimizations).  So the
bits of an op depend on all ops that it is connected to by f16 values, and a rewrite of one of them
changes others.  For

    %0 = quant.dcast %x : !q to tensor<4xf16>
    %1 = nn.relu %0 : (tensor<4xf16>) -> tensor<4xf16>
    %2 = onnx.node "Cast" (%1) attributes {to = 1 : i64} : (tensor<4xf16>) -> tensor<4xf32>

becomes

    %0 = quant.dcast %x {nn.pinned} : !q to tensor<4xf16>
    %1 = nn.relu %0 {nn.pinned} : (tensor<4xf16>) -> tensor<4xf16>
    %2 = onnx.node "Cast" (%1) attributes {to = 1 : i64} {nn.pinned} : (tensor<4xf16>)
         -> tensor<4xf32>

The runtime dequantizes into f32, but into f16 without the relu.  A pinned op (`nn.pinned`) is
neither replaced nor erased.  Ops that are connected are pinned together, unless no rounding shows:
movements and choices by order of dequantized codes that f16 holds, or whose rounded and unrounded
values become the same codes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, cast

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, UnitAttr
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.traits import IsTerminator

from qdialect.algebra.arithmetic import UNROUNDED, Arithmetic, table
from qdialect.algebra.float_path import dequantize_codes
from qdialect.algebra.requantize import QuantGrid, codes_of, quant_grids
from qdialect.algebra.rounding import Rounding
from qdialect.analysis.codes import is_integer, qparams_of
from qdialect.analysis.index import every_op
from qdialect.ir.context import QContext, session
from qdialect.ir.ops import ConstantOp
from qdialect.ir.ops.base import PINNED
from qdialect.ir.quant import DCastOp, QCastOp, arithmetic_of, cast_rounding, element_type
from qdialect.rewrite.remarks import Remark

_FEW = 8
"""Bits of codes that are all tried."""
_TYPES = (*UNROUNDED, "f32")
"""What floats are rounded to, or not."""


@dataclass(frozen=True)
class PinUnrounded(ModulePass):
    """Ops keep their bits where a runtime computes in a wider type; see the module."""

    name = "pin-unrounded"
    counts_changes: ClassVar[bool] = True
    idempotent: ClassVar[bool] = True
    keeps_analyses: ClassVar[bool] = True

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Run the pass on a module, in place."""
        qctx, seen, pinned = session(ctx), set[Operation](), 0
        if arithmetic_of(op) is Arithmetic.REAL:
            return
        for each in every_op(op):
            if each in seen or not _narrow(each) or each.has_trait(IsTerminator):
                continue
            connected = _connected(each)
            seen |= connected
            if _shows(qctx, connected):
                for other in connected:
                    other.attributes[PINNED] = UnitAttr()
                pinned += len(connected)
        if pinned:
            reason = f"{pinned} ops on f16 stay: ONNX Runtime rounds between some of them only"
            qctx.remarks.add(Remark("note", self.name, self.name, "", op.name, "", reason=reason))


def _narrow(op: Operation) -> list[SSAValue]:
    return [
        value
        for value in (*op.operands, *op.results)
        if element_type(value.type).name in UNROUNDED
        and isinstance(value.owner, Operation)
        and not isinstance(value.owner, ConstantOp)
    ]


def _connected(op: Operation) -> set[Operation]:
    found, pending = {op}, [op]
    while pending:
        for value in _narrow(pending.pop()):
            around = [cast("Operation", value.owner), *(use.operation for use in value.uses)]
            new = [each for each in around if each not in found]
            new = [each for each in new if not each.has_trait(IsTerminator)]
            found.update(new)
            pending += new
    return found


def _shows(session: QContext, connected: set[Operation]) -> bool:
    """Whether what these ops give depends on where floats between them are rounded."""
    sources, targets, leaves = list[QuantGrid](), list[tuple[QuantGrid, Rounding]](), False
    for op in connected:
        params = qparams_of(op.operands[0] if isinstance(op, DCastOp) else op.results[0])
        if isinstance(op, QCastOp) and params is not None and is_integer(params):
            targets += [(grid, cast_rounding(op)) for grid in quant_grids(params)]
            continue
        narrow = [element_type(value.type).name in UNROUNDED for value in op.results]
        ends = (u.operation.has_trait(IsTerminator) for v in op.results for u in v.uses)
        leaves = leaves or not all(narrow) or any(ends)
        if isinstance(op, DCastOp) and params is not None and is_integer(params):
            if params.storage.width > _FEW:
                return True
            sources += quant_grids(params)
        elif any(narrow):
            behavior = session.behaviors.get(op)
            if behavior is None or not behavior.commutes:
                return True
    floats, f32 = _TYPES
    if all(
        np.array_equal(
            dequantize_codes(codes_of(a), a, floats), dequantize_codes(codes_of(a), a, f32)
        )
        for a in sources
    ):
        return False
    return leaves or any(
        not np.array_equal(table(a, b, rounding, floats), table(a, b, rounding, f32))
        for a in sources
        for b, rounding in targets
    )

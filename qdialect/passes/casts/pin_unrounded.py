"""Pin ops on floats that ONNX Runtime computes in a wider type than they have.

It has kernels of f16 for few ops.  The others it computes in f32, and where two of these meet, it
drops the rounding to f16 in between (`InsertCastTransformer`, whatever its optimizations).  So the
bits of an op depend on all ops that it is connected to by f16 values, and a rewrite of one of them
changes others.  For

    %0 = quant.dcast %x : !q to tensor<4xf16>
    %1 = nn.relu %0 : (tensor<4xf16>) -> tensor<4xf16>
    %2 = onnx.node "Cast" (%1) attributes {to = 1 : i64} : (tensor<4xf16>) -> tensor<4xf32>

the runtime dequantizes into f32, but into f16 without the relu.  A pinned op (`nn.pinned`) is
neither replaced nor erased.  Ops that are connected are pinned together, unless none of them
rounds: movements, choices by order, and dequantizes whose products f16 holds.
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

from qdialect.analysis.codes import is_integer, qparams_of
from qdialect.analysis.index import every_op
from qdialect.context import QContext, session
from qdialect.numerics.arithmetic import UNROUNDED, Arithmetic
from qdialect.numerics.float_path import stored
from qdialect.ops import ConstantOp
from qdialect.ops.base import PINNED
from qdialect.quant import DCastOp, arithmetic_of, element_type
from qdialect.rewrite.remarks import Remark

_FEW = 8
"""Bits of codes that are all tried."""


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
            if any(_rounds(qctx, other) for other in connected):
                for other in connected:
                    other.attributes[PINNED] = UnitAttr()
                pinned += len(connected)
        if pinned:
            reason = f"{pinned} ops on f16 stay: ONNX Runtime rounds between some of them only"
            qctx.remarks.add(Remark("note", self.name, self.name, "", op.name, "", reason=reason))


def _narrow(op: Operation) -> list[SSAValue]:
    """The values of `op` that others are connected by."""
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


def _rounds(session: QContext, op: Operation) -> bool:
    """Whether a result of `op` may need more bits than it has."""
    if not any(element_type(value.type).name in UNROUNDED for value in op.results):
        return False
    if isinstance(op, DCastOp):
        params = qparams_of(op.input)
        if params is None or not is_integer(params) or params.storage.width > _FEW:
            return True
        codes = np.arange(params.storage.min, params.storage.max + 1, dtype=np.float32)
        offsets = codes - params.zero_point_array().reshape(-1, 1).astype(np.float32)
        reals = offsets * params.scale_array().reshape(-1, 1).astype(np.float32)
        return not np.array_equal(stored(reals, params.expressed), reals)
    behavior = session.behaviors.get(op)
    return not isinstance(op, ConstantOp) and (behavior is None or not behavior.commutes)

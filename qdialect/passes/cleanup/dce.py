"""Erase pure ops whose results are unused, in one backward sweep.

For example

    %0 = quant.dcast %x : !q to !f
    %1 = nn.relu %0 : (!f) -> !f
    func.return %x : !q

becomes

    func.return %x : !q
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from qdialect.analysis.index import every_op
from qdialect.ir.context import session
from qdialect.rewrite.rewriter import erase_op, is_dead


@dataclass(frozen=True)
class _Swept:
    """That nothing was dead in a module when the count of changes was that."""

    module: ModuleOp
    changes: int


@dataclass(frozen=True)
class Dce(ModulePass):
    """Dead code elimination; keeps anything with an effect, and of unknown effect
    if nothing is declared of it."""

    name = "dce"
    counts_changes: ClassVar[bool] = True
    idempotent: ClassVar[bool] = True
    keeps_analyses: ClassVar[bool] = True

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Run the pass on a module, in place."""
        qctx = session(ctx)
        swept = qctx.analyses.get(_Swept)
        if isinstance(swept, _Swept) and swept.module is op and swept.changes == qctx.changes:
            return
        # Users come after definitions, so one backward sweep sees every op after
        # all of its users are gone.
        for inner in reversed(list(every_op(op))):
            if is_dead(inner, qctx.behaviors):
                erase_op(inner, qctx)
                qctx.changes += 1
        if qctx.keeps_analyses:
            qctx.analyses[_Swept] = _Swept(op, qctx.changes)

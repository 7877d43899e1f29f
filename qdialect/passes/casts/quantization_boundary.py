"""List where integers become floats and back, as remarks; changes nothing.

The codes B1 to B7 of `analysis.boundary`, each with the pipeline that mends it, or why none does
(`boundary_fixes`, which tries them on a clone).
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from qdialect.ir.context import session
from qdialect.passes.casts.boundary_fixes import mended_boundaries


@dataclass(frozen=True)
class QuantizationBoundary(ModulePass):
    """Remarks for every boundary break; see the module."""

    name = "quantization-boundary"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Run the pass on a module, in place."""
        qctx = session(ctx)
        for finding in mended_boundaries(op, qctx):
            reason = f"{finding.message}; {finding.advice}"
            qctx.remarks.at(finding.op, "note", self.name, finding.code, reason)

"""What an upstream tool would change, reject or crash on, listed before it does.

Changes nothing.  Each finding of `preflight_findings` that applies to an op is a note
in the remark log, with the op's location, a code, the tools and what they do.

`tool` is one of them, or `all`.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from qdialect.context import session
from qdialect.errors import UsageError
from qdialect.passes.lowering.preflight_findings import FINDINGS, TOOLS
from qdialect.rewrite import Remark
from qdialect.rewrite.remarks import key_text, location_text


@dataclass(frozen=True)
class Preflight(ModulePass):
    """List what upstream tools get wrong in a module; see the module."""

    name = "preflight"

    tool: str = "all"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if self.tool not in (*TOOLS, "all"):
            raise UsageError(
                f"preflight: unknown tool '{self.tool}' ({', '.join(TOOLS)} or all)",
                code="bad-option",
            )
        qctx = session(ctx)
        qctx.analyses.clear()
        tools = TOOLS if self.tool == "all" else (self.tool,)
        wanted = [f for f in FINDINGS if any(tool in f.tools for tool in tools)]
        for inner in op.walk():
            for finding in wanted:
                for detail in finding.check(inner, qctx):
                    named = ", ".join(tool for tool in tools if tool in finding.tools)
                    where = f" ({detail})" if detail else ""
                    qctx.remarks.add(
                        Remark(
                            "note",
                            self.name,
                            finding.code,
                            location_text(inner.location),
                            inner.name,
                            key_text(inner),
                            code=finding.code,
                            reason=f"{named} {finding.effect}: {finding.message}{where}",
                        )
                    )

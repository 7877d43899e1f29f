"""Run a pass on the ops of a module that the anchors of a pipeline name.

    builtin.module(builtin.module(dce))   modules in the module
    builtin.module(func.func(dce))        functions of the module, and of no module in it

Passes take modules. Where an anchor is another op, each of its ops is moved to a module of its own,
with the attributes of the one around it, and back to its place afterwards: as in mlir-opt a pass on
functions sees one function at a time.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, UnregisteredOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.traits import IsolatedFromAbove

from qdialect.errors import UsageError
from qdialect.ir.context import session
from qdialect.pipeline.text import ANY


@dataclass(frozen=True)
class AnchoredPass(ModulePass):
    """`inner` on the ops that `anchors` lead to."""

    inner: ModulePass
    anchors: tuple[str, ...]

    name: ClassVar[str] = "anchored"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Run the pass on a module, in place."""
        found: list[Operation] = [op]
        for anchor in self.anchors[:-1]:
            found = [inner for each in found for inner in _inside(each, anchor)]
        analyses = session(ctx).analyses
        for parent in found:
            matching = _inside(parent, self.anchors[-1])
            modules = [inner for inner in matching if isinstance(inner, ModuleOp)]
            others = [inner for inner in matching if not isinstance(inner, ModuleOp)]
            for module in modules:
                analyses.clear()
                self.inner.apply(ctx, module)
            for other in others:
                analyses.clear()
                self._apply_to(ctx, parent, other)
        analyses.clear()

    def _apply_to(self, ctx: Context, parent: Operation, op: Operation) -> None:
        if not _is_isolated(op):
            raise UsageError(
                f"no pass can run on '{_name(op)}': it may use values from around it",
                code="bad-pipeline",
            )
        if isinstance(parent, ModuleOp) and parent.body.block.first_op is parent.body.block.last_op:
            self.inner.apply(ctx, parent)
            return
        place = ModuleOp([])
        Rewriter.insert_op(place, InsertPoint.before(op))
        op.detach()
        apart = ModuleOp([op], dict(parent.attributes))
        apart.location = parent.location
        try:
            self.inner.apply(ctx, apart)
        finally:
            for new in list(apart.body.block.ops):
                new.detach()
                Rewriter.insert_op(new, InsertPoint.before(place))
            place.detach()
            place.erase()


def unanchored(instance: ModulePass) -> ModulePass:
    """The pass without its anchors."""
    return instance.inner if isinstance(instance, AnchoredPass) else instance


def _inside(op: Operation, anchor: str) -> list[Operation]:
    ops: Iterable[Operation] = (
        inner for region in op.regions for block in region.blocks for inner in block.ops
    )
    if anchor == ANY:
        return [inner for inner in ops if _is_isolated(inner)]
    return [inner for inner in ops if _name(inner) == anchor]


def _is_isolated(op: Operation) -> bool:
    return op.has_trait(IsolatedFromAbove, value_if_unregistered=False)


def _name(op: Operation) -> str:
    return op.op_name.data if isinstance(op, UnregisteredOp) else op.name

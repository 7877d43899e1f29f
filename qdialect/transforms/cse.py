"""Merge equal pure ops: one forward sweep of value numbering per block.

The survivor keeps its place and gathers the stable keys of what it absorbs, so a
profile entry of either name still finds it.

For example

    %0 = quant.qcast %x {nn.key = "a"} : !f to !q
    %1 = quant.qcast %x {nn.key = "b"} : !f to !q
    func.return %0, %1 : !q, !q

becomes

    %0 = quant.qcast %x {nn.key = ["a", "b"]} : !f to !q
    func.return %0, %0 : !q, !q
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.traits import is_side_effect_free

from qdialect.context import QContext, session
from qdialect.dialects.nn.component_keys import merge_keys


@dataclass(frozen=True)
class Cse(ModulePass):
    """Common subexpression elimination within blocks."""

    name = "cse"
    counts_changes: ClassVar[bool] = True
    idempotent: ClassVar[bool] = True

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        qctx = session(ctx)
        for inner in list(op.walk()):
            for region in inner.regions:
                for block in region.blocks:
                    qctx.changes += _merge(block, qctx)


def _merge(block: Block, session: QContext) -> int:
    """How many ops it merged into others."""
    survivor: dict[SSAValue, SSAValue] = {}
    known: dict[Hashable, Operation] = {}
    dead: list[Operation] = []
    for op in block.ops:
        if survivor and any(operand in survivor for operand in op.operands):
            op.operands = [survivor.get(operand, operand) for operand in op.operands]
        if op.regions or not op.results or not is_side_effect_free(op):
            continue
        identity = _identity(op)
        earlier = known.setdefault(identity, op)
        if earlier is op:
            continue
        for old, new in zip(op.results, earlier.results, strict=True):
            survivor[old] = new
            session.drift.carry(old, new)
            if new.name_hint is None:
                new.name_hint = old.name_hint
        merge_keys(earlier, op, session.components)
        dead.append(op)
    for op in reversed(dead):
        # Uses in nested regions or later blocks were not in the sweep.
        for old in op.results:
            if old.first_use is not None:
                old.replace_all_uses_with(survivor[old])
        op.detach()
        op.erase()
    return len(dead)


def _identity(op: Operation) -> Hashable:
    attributes = tuple((n, a) for n, a in sorted(op.attributes.items()) if not n.startswith("nn."))
    return (
        op.name,
        tuple(op.operands),
        tuple(sorted(op.properties.items())),
        attributes,
        tuple(result.type for result in op.results),
    )

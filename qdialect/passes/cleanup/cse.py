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

from qdialect.analysis.ranges import ranges
from qdialect.ir.context import QContext, session
from qdialect.ir.ops import ConstantOp
from qdialect.ir.ops.base import KERNEL, PINNED
from qdialect.ir.ops.component_keys import merge_keys
from qdialect.ir.ops.constants import BlobAttr
from qdialect.plugins.onnx.dialect import PARAMS
from qdialect.rewrite.effects import is_effect_free
from qdialect.rewrite.rewriter import erase_op


@dataclass(frozen=True)
class Cse(ModulePass):
    """Common subexpression elimination within blocks."""

    name = "cse"
    counts_changes: ClassVar[bool] = True
    idempotent: ClassVar[bool] = True
    keeps_analyses: ClassVar[bool] = True

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Run the pass on a module, in place."""
        qctx = session(ctx)
        pending: list[Operation] = [op]
        while pending:
            for region in pending.pop().regions:
                for block in region.blocks:
                    qctx.changes += _merge(block, qctx, pending)


def _merge(block: Block, session: QContext, nested: list[Operation]) -> int:
    """How many ops it merged into others; collects what holds further blocks."""
    #: by the id of a value, as its hash is slow
    survivor: dict[int, SSAValue] = {}
    #: by a key that is cheap to compute, the first op or, once there are several, all that
    #: differ
    known: dict[Hashable, Operation | dict[Hashable, Operation]] = {}
    equal: dict[Operation, list[Operation]] = {}
    dead: list[Operation] = []
    for op in block.ops:
        if survivor and not survivor.keys().isdisjoint(map(id, op.operands)):
            op.operands = [survivor.get(id(operand), operand) for operand in op.operands]
        if op.regions:
            nested.append(op)
        if op.regions or not op.results or PINNED in op.attributes or not is_effect_free(op):
            continue
        rough = _roughly(op)
        alike = known.setdefault(rough, op)
        if alike is op:
            continue
        if isinstance(alike, Operation):
            alike = known[rough] = {_identity(alike): alike}
        earlier = alike.setdefault(_identity(op), op)
        if earlier is op:
            continue
        for old, new in zip(op.results, earlier.results, strict=True):
            survivor[id(old)] = new
            session.error_bounds.merge(old, new)
            if new.name_hint is None:
                new.name_hint = old.name_hint
        if session.error_bounds.changes:
            ranges(session).forget(earlier)
        equal.setdefault(earlier, []).append(op)
        dead.append(op)
    for earlier, merged in equal.items():
        merge_keys(earlier, merged, session.components)
    for op in reversed(dead):
        # Uses in nested regions or later blocks were not in the sweep.
        for old in op.results:
            if old.first_use is not None:
                old.replace_all_uses_with(survivor[id(old)])
        erase_op(op, session)
    return len(dead)


def _roughly(op: Operation) -> Hashable:
    """A cheap key that ops which compute the same share."""
    if isinstance(op, ConstantOp):
        value = op.value
        return value.key.data if isinstance(value, BlobAttr) else value.data.data
    return (op.name, *map(id, op.operands)) if op.operands else _identity(op)


def _identity(op: Operation) -> Hashable:
    """The full key: ops with the same one, and the same operands, compute the same. Keys and
    names of tensors, which a file had, are no part of it."""
    attributes = tuple((n, a) for n, a in sorted(op.attributes.items()) if not _is_name(n))
    return (
        op.name,
        tuple(sorted(op.properties.items())),
        attributes,
        tuple(result.type for result in op.results),
    )


def _is_name(attribute: str) -> bool:
    return (attribute.startswith("nn.") and attribute != KERNEL) or attribute == PARAMS

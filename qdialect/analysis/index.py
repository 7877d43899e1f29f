"""The ops of a module by name, walked once as long as nothing changes."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from xdsl.ir import Operation, SSAValue

from qdialect.ir.context import QContext
from qdialect.ir.ops.base import PINNED, kernels_of


@dataclass(frozen=True)
class _Index:
    module: Operation
    #: `QContext.changes` as it was
    changes: int
    count: int
    #: by name, the ops and their places in program order
    ops: dict[str, list[tuple[int, Operation]]]
    #: whether an op names whose kernel it is
    marked: bool


def every_op(top: Operation) -> Iterator[Operation]:
    """`top` and all ops in it, in program order, as `top.walk()` gives them, which takes a
    generator for each op. Neither may be changed meanwhile."""
    pending = [top]
    while pending:
        op = pending.pop()
        yield op
        if op.regions:
            inner = [each for region in op.regions for block in region.blocks for each in block.ops]
            pending += reversed(inner)


def captured_values(op: Operation) -> list[SSAValue]:
    """The values that ops in the regions of `op` use and that are made outside of it."""
    inner = [each for each in every_op(op) if each is not op]
    made: set[SSAValue] = {value for each in inner for value in each.results}
    for each in (op, *inner):
        made.update(v for region in each.regions for block in region.blocks for v in block.args)
    used = dict.fromkeys(value for each in inner for value in each.operands)
    return [value for value in used if value not in made]


def ops_named(
    session: QContext, module: Operation, names: Collection[str]
) -> tuple[list[Operation], int]:
    """The ops in `module` that have one of `names`, in program order, and how many ops there
    are in all."""
    found = _index(session, module)
    lists = [found.ops[name] for name in names if name in found.ops]
    if len(lists) == 1:
        return [op for _, op in lists[0]], found.count
    chosen = sorted((place for each in lists for place in each), key=lambda place: place[0])
    return [op for _, op in chosen], found.count


def has_marked_ops(session: QContext, module: Operation) -> bool:
    """Whether an op in `module` names whose kernel it is (`nn.kernel`), or is pinned."""
    return _index(session, module).marked


def _index(session: QContext, module: Operation) -> _Index:
    found = session.analyses.get(_Index)
    if (
        not isinstance(found, _Index)
        or found.module is not module
        or found.changes != session.changes
    ):
        found = _indexed(session, module)
        if session.keeps_analyses:
            session.analyses[_Index] = found
    return found


def _indexed(session: QContext, module: Operation) -> _Index:
    ops: dict[str, list[tuple[int, Operation]]] = {}
    count, marked = 0, False
    for op in every_op(module):
        marked = marked or kernels_of(op) is not None or PINNED in op.attributes
        ops.setdefault(op.name, []).append((count, op))
        count += 1
    return _Index(module, session.changes, count, ops, marked)

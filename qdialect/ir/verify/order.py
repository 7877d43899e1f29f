"""Values are defined before they are used, and isolated ops use no values from around them.

Dominance is as upstream has it: in a block, program order; between blocks of a region, those
that every path from the entry goes through. In blocks that are never reached any value may be
used. In graphs (the regions of modules and of ops nobody knows, where they have one block)
order means nothing.

    %0 = arith.addi %1, %x : i32      operand #0 does not dominate this use
    %1 = arith.addi %x, %x : i32      note: operand #0 is defined here
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from xdsl.dialects.builtin import UnregisteredOp
from xdsl.ir import Block, BlockArgument, Operation, OpResult, Region, SSAValue
from xdsl.traits import IsolatedFromAbove

from qdialect.errors import InputError
from qdialect.ir.verify.reports import invalid, note


def order_errors(top: Operation) -> Iterator[InputError]:
    """The first use in `top` of a value that is not visible there; isolated ops in `top` were
    looked at before."""
    #: values by identity, as their own hash is slow
    visible: set[int] = set()
    #: ops and blocks still to visit and, after what sees them, the values to forget
    pending: list[_Step] = []
    _enter(top, visible, pending)
    while pending:
        entry = pending.pop()
        if isinstance(entry, list):
            visible.difference_update(entry)
            continue
        if isinstance(entry, _Defined):
            visible.update(entry.results)
            continue
        if isinstance(entry, _Scope):
            entry.enter(visible, pending)
            continue
        for operand in entry._operands:  # pyright: ignore[reportPrivateUsage]
            if id(operand) not in visible:
                yield _misuse(top, entry, operand)
                return
        if entry.regions and not is_isolated(type(entry)):
            # Its own results are not visible inside of it, but in a graph, where they are already.
            pending.append(_Defined([id(result) for result in entry.results]))
            _enter(entry, visible, pending)
            continue
        for result in entry.results:
            visible.add(id(result))


@cache
def is_isolated(kind: type[Operation]) -> bool:
    """Whether ops of a class see no values from around them."""
    return kind.has_trait(IsolatedFromAbove, value_if_unregistered=False)


_GRAPHS = frozenset(("builtin.module", "gpu.module", "ml_program.subgraph"))
"""Ops whose regions are graphs."""


class _Defined(NamedTuple):
    """The results of an op, visible once what is in it was visited."""

    results: Sequence[int]


@dataclass
class _Scope:
    """A block that was not visited yet."""

    block: Block
    tree: Mapping[Block, Sequence[Block]]
    """The blocks that each one dominates."""
    is_graph: bool = False
    """Whether its ops may use results of later ones."""

    def enter(self, visible: set[int], pending: list[_Step]) -> None:
        """Go on with the ops of the block, then with the blocks it dominates."""
        ops = list(self.block.ops)
        arguments = list(map(id, self.block.args))
        results = [id(result) for op in ops for result in op.results]
        visible.update((*arguments, *results) if self.is_graph else arguments)
        pending.append(arguments + results)
        pending.extend(_Scope(inner, self.tree) for inner in reversed(self.tree[self.block]))
        pending.extend(reversed(ops))


_Step = Operation | _Scope | _Defined | list[int]


def _enter(op: Operation, visible: set[int], pending: list[_Step]) -> None:
    for region in reversed(op.regions):
        first = region.first_block
        if first is None:
            continue
        if first is region.last_block:
            pending.append(_Scope(first, {first: ()}, _is_graph(op)))
            continue
        from qdialect.ir.verify.dominance import dominator_tree

        tree = dominator_tree(region)
        pending.append(_Scope(first, tree))
        dead = [block for block in region.blocks if block not in tree]
        if dead:
            _enter_unreachable(region, dead, visible, pending)


def _enter_unreachable(
    region: Region, dead: Sequence[Block], visible: set[int], pending: list[_Step]
) -> None:
    """Visit what is in the ops of blocks that are never reached, which may use any value of
    the region."""
    inner = [op for block in dead for op in block.ops if op.regions]
    inner = [op for op in inner if not is_isolated(type(op))]
    if not inner:
        return
    known = [id(argument) for block in region.blocks for argument in block.args]
    known += [id(r) for block in region.blocks for op in block.ops for r in op.results]
    pending.append(known)
    for op in reversed(inner):
        _enter(op, visible, pending)
    pending.append(_Defined(known))


def _is_graph(op: Operation) -> bool:
    return isinstance(op, UnregisteredOp) or op.name in _GRAPHS


def _misuse(top: Operation, op: Operation, operand: SSAValue) -> InputError:
    block = operand.block if isinstance(operand, BlockArgument) else _definer(operand).parent
    index = list(map(id, op.operands)).index(id(operand))
    if block is None or not _is_inside(block, top):
        notes = (note(top, "no value from outside of this op may be used in it"),)
        return invalid(op, f"operand #{index} is defined outside the region", notes=notes)
    definer = block.parent_op() if isinstance(operand, BlockArgument) else _definer(operand)
    assert definer is not None
    notes = (note(definer, f"operand #{index} is defined here"),)
    return invalid(op, f"operand #{index} does not dominate this use", notes=notes)


def _definer(value: SSAValue) -> Operation:
    assert isinstance(value, OpResult)
    return value.op


def _is_inside(block: Block, top: Operation) -> bool:
    parent = block.parent_op()
    while parent is not None and parent is not top:
        parent = parent.parent_op()
    return parent is top

"""What must hold of regions and blocks, whatever the ops in them are.

^bb0:
  "test.op"()[^bb1] : () -> ()   only the last op of a block may have successors
  %0 = arith.constant 1 : i32    and it must be a terminator
"""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.dialects.builtin import UnregisteredOp
from xdsl.ir import Block, Operation, Region
from xdsl.traits import IsTerminator, NoTerminator

from qdialect.errors import InputError
from qdialect.ir.verify.reports import invalid, invalid_place


def region_errors(op: Operation) -> Iterator[InputError]:
    """The errors in the blocks of the regions of `op`, found before the ops in them are looked
    at."""
    for region in op.regions:
        first = region.first_block
        if first is None or _is_one_good_block(op, region, first):
            continue
        if any(_is_branched_to(first, block) for block in region.blocks):
            yield invalid_place(op, "entry block of region may not have predecessors")
            return
        for block in region.blocks:
            last = block.last_op
            if last is None and not _needs_no_terminator(op, region):
                yield invalid_place(op, "empty block: expect at least a terminator")
                return


def successor_error(op: Operation) -> InputError | None:
    """The error of an op with successors that is not the last in its block."""
    if op.parent is None or op.parent.last_op is op:
        return None
    return invalid(op, "has successors, but does not end its block")


def terminator_errors(op: Operation) -> Iterator[InputError]:
    """The errors at the ends of the blocks in `op`, of which the ops are right."""
    for region in op.regions:
        alone = _needs_no_terminator(op, region)
        for block in region.blocks:
            last = block.last_op
            if last is None:
                continue
            if any(successor.parent is not region for successor in last.successors):
                yield invalid(last, "branching to block of a different region")
                return
            if not alone and not _may_terminate(last):
                yield invalid(last, "ends its block, but is no terminator")
                return


def _is_one_good_block(op: Operation, region: Region, first: Block) -> bool:
    """Whether the region is one block that nothing is wrong with, as nearly all are."""
    last = first.last_op
    if first is not region.last_block or (last is not None and last.successors):
        return False
    return last is not None or _needs_no_terminator(op, region)


def _needs_no_terminator(op: Operation, region: Region) -> bool:
    one = region.first_block is region.last_block
    return one and (isinstance(op, UnregisteredOp) or op.has_trait(NoTerminator))


def _may_terminate(op: Operation) -> bool:
    return isinstance(op, UnregisteredOp) or op.has_trait(IsTerminator)


def _is_branched_to(target: Block, block: Block) -> bool:
    last = block.last_op
    return last is not None and target in last.successors

"""Which blocks of a region dominate which: those that every path from its entry goes through.

The immediate dominators are found by the algorithm of Cooper, Harvey and Kennedy ("A simple,
fast dominance algorithm"), in few sweeps over the blocks.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Block, Region


def dominator_tree(region: Region) -> dict[Block, list[Block]]:
    """Each block that can be reached, the entry first, with the blocks it dominates and no
    block between them."""
    order = _reverse_postorder(region)
    number = {block: index for index, block in enumerate(order)}
    before: list[list[int]] = [[] for _ in order]
    for index, block in enumerate(order):
        for successor in _successors(block):
            before[number[successor]].append(index)
    above = _immediate_dominators(before)
    tree: dict[Block, list[Block]] = {block: [] for block in order}
    for index, block in enumerate(order[1:], 1):
        tree[order[above[index]]].append(block)
    return tree


def _successors(block: Block) -> Sequence[Block]:
    return block.last_op.successors if block.last_op is not None else ()


def _reverse_postorder(region: Region) -> list[Block]:
    entry = region.first_block
    if entry is None:
        return []
    seen, done = {entry}, list[Block]()
    pending = [(entry, iter(_successors(entry)))]
    while pending:
        block, successors = pending[-1]
        for successor in successors:
            if successor not in seen:
                seen.add(successor)
                pending.append((successor, iter(_successors(successor))))
                break
        else:
            done.append(block)
            pending.pop()
    return done[::-1]


def _immediate_dominators(before: Sequence[Sequence[int]]) -> list[int]:
    """By numbers in reverse postorder, from the predecessors; the entry, 0, has itself."""
    above = [0] + [-1] * (len(before) - 1)
    changed = True
    while changed:
        changed = False
        for block in range(1, len(before)):
            known = [b for b in before[block] if above[b] >= 0]
            common = known[0]
            for other in known[1:]:
                while common != other:
                    while other > common:
                        other = above[other]
                    while common > other:
                        common = above[common]
            if above[block] != common:
                above[block], changed = common, True
    return above

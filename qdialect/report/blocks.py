"""What repeats in a graph, so that a long one can be read as a few blocks.

A graph in topological order is cut where only one value passes on. The pieces between cuts
are compared by what their ops are, and runs of the same pieces, or of the same few pieces in
the same order, are one block that repeats.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

_LONGEST = 24
"""Pieces in the longest pattern that is looked for."""
_SHORTEST = 6
"""Nodes of a block from which on the page says that it repeats."""


@dataclass(frozen=True)
class Block:
    """Nodes `start` to `end` (exclusive): a pattern of `(end - start) / repeats` nodes."""

    start: int
    end: int
    repeats: int


def cut(count: int, edges: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Pieces of the nodes 0 to `count` that only one node's results connect: after each, no
    edge leads on but those from its last node. Edges lead from lower to higher numbers."""
    reach = list(range(count))
    for source, use in edges:
        reach[source] = max(reach[source], use)
    pieces: list[tuple[int, int]] = []
    start = furthest = 0
    for node in range(count):
        if furthest <= node:
            pieces.append((start, node + 1))
            start = node + 1
        furthest = max(furthest, reach[node])
    if start < count:
        pieces.append((start, count))
    return pieces


def repeating(labels: Sequence[str], pieces: Sequence[tuple[int, int]]) -> list[Block]:
    """Blocks of `pieces`, in order: from each on the pattern that covers most, repeated."""
    signs = [tuple(labels[a:b]) for a, b in pieces]
    blocks: list[Block] = []
    at = 0
    while at < len(pieces):
        length, repeats = _best(signs, at)
        end = at + length * repeats
        blocks.append(Block(pieces[at][0], pieces[end - 1][1], repeats))
        at = end
    return _joined(blocks)


def _best(signs: Sequence[tuple[str, ...]], at: int) -> tuple[int, int]:
    best = (1, 1)
    for length in range(1, min(_LONGEST, (len(signs) - at) // 2) + 1):
        repeats = 1
        first = signs[at : at + length]
        while signs[at + repeats * length : at + (repeats + 1) * length] == first:
            repeats += 1
        if repeats > 1 and length * repeats > best[0] * best[1]:
            best = (length, repeats)
    return best


def _joined(blocks: Sequence[Block]) -> list[Block]:
    """Neighbours that do not repeat, or are too short for it to matter, as one, up to the length
    of a long pattern."""
    joined: list[Block] = []
    for block in blocks:
        if block.end - block.start < _SHORTEST:
            block = Block(block.start, block.end, 1)
        last = joined[-1] if joined else None
        if (
            last is not None
            and last.repeats == block.repeats == 1
            and block.end - last.start <= _LONGEST
        ):
            joined[-1] = Block(last.start, block.end, 1)
        else:
            joined.append(block)
    return joined

"""Where a function is cut into blocks of several contractions whose weights are rounded together.

A value is *open* if it depends on a weight that is to be rounded. Behind each op some open values
are live: they are made before it, and used after it. A cut is where few are: between layers of
a chain one, around the branches of a residual sum one, inside of a branch two. Cuts are found from
these numbers, op after op: a block ends where the fewest are live among the places that give it at
least one weight and at most `MOST`, and at the last of several such places.

For example, for the ops

    %1 = conv %x, %w1    live: %1
    %2 = relu %1         live: %2
    %3 = conv %2, %w2    live: %2, %3
    %4 = add %2, %3      live: %4

the block ends behind the last: all values that the ops below take go through %4.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from xdsl.dialects.func import ReturnOp
from xdsl.ir import Block, Operation, SSAValue

from qdialect.quantizer.profile.instrument import is_float

MOST = 6
"""Weights of a block, unless an op has more."""


@dataclass(frozen=True)
class Stretch:
    """Ops of a block, the groups by their numbers whose last op is in it, those with all ops in it,
    and the open values of floats that it makes for what is below and for the caller."""

    ops: Sequence[Operation]
    groups: Sequence[int]
    whole: Sequence[int]
    results: Sequence[SSAValue]


def stretches(
    block: Block, groups: Sequence[Collection[Operation]], most: int = MOST
) -> list[Stretch]:
    """The blocks of a function that have the last op of a group, in order."""
    ops = [op for op in block.ops if not isinstance(op, ReturnOp)]
    owner = {op: number for number, each in enumerate(groups) for op in each}
    place = {op: n for n, op in enumerate(ops)}
    last: dict[SSAValue, int] = {}
    returned: set[SSAValue] = set()
    opened: set[SSAValue] = set()
    for n, op in enumerate(ops):
        if op in owner or not opened.isdisjoint(op.operands):
            opened.update(op.results)
        for value in op.results:
            users = [use.operation for use in value.uses]
            last[value] = max((place[user] for user in users if user in place), default=n)
            if any(user not in place for user in users):
                returned.add(value)
    live = [0] * len(ops)
    for value in opened:
        assert isinstance(value.owner, Operation)
        for n in range(place[value.owner], last[value]):
            live[n] += 1
    found: list[Stretch] = []
    start = 0
    while start < len(ops):
        end = _end(ops, owner, live, start, most)
        part = ops[start : end + 1]
        inside = sorted({owner[op] for op in part if op in owner})
        last_here = [n for n in inside if all(place[op] <= end for op in groups[n])]
        whole = [n for n in last_here if all(place[op] >= start for op in groups[n])]
        made = [value for op in part for value in op.results if value in opened]
        outgoing = [value for value in made if last[value] > end or value in returned]
        results = [value for value in outgoing if is_float(value.type)]
        found.append(Stretch(part, last_here, whole, results))
        start = end + 1
    return [each for each in found if each.groups]


def _end(
    ops: Sequence[Operation],
    owner: dict[Operation, int],
    live: Sequence[int],
    start: int,
    most: int,
) -> int:
    """The last op of the block that starts at an op."""
    best, inside = -1, set[int]()
    for n in range(start, len(ops)):
        if ops[n] in owner:
            inside.add(owner[ops[n]])
        if len(inside) > most and best >= 0:
            return best
        if inside and (best < 0 or live[n] <= live[best]):
            best = n
    return len(ops) - 1 if best < 0 else best

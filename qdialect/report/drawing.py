"""A graph as the page draws it: ops by number, groups of them, and where their parts go."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import ceil, sqrt
from typing import Any

from qdialect.report.blocks import cut, repeating
from qdialect.report.graph import CASTS, Graph, identity
from qdialect.report.layout import place

CATEGORIES = (*CASTS, "integer", "float", "mixed", "unknown", "interface")

Json = dict[str, Any]


@dataclass
class Texts:
    """Strings by number, each written once."""

    numbers: dict[str, int] = field(default_factory=dict[str, int])

    def __call__(self, text: str) -> int:
        return self.numbers.setdefault(text, len(self.numbers))


def drawn(title: str, graph: Graph, texts: Texts) -> Json:
    """One side of the page."""
    edges = sorted(set(graph.edges))
    labels = [node.label for node in graph.nodes]
    tree = grouped([node.name for node in graph.nodes], labels, edges)
    nodes = [
        [
            texts(node.name),
            texts(node.label),
            CATEGORIES.index(node.category),
            [texts(name) for name in identity(node.keys, node.location)],
            texts(node.location),
            [texts(text) for text in node.operands],
            [texts(text) for text in node.results],
            [[texts(name), texts(value)] for name, value in node.attributes],
            node.price if node.price is None else round(node.price, 1),
        ]
        for node in graph.nodes
    ]
    listed = arranged(tree, edges)
    numbers = {id(each.group): number for number, each in enumerate(listed)}
    return {
        "title": title,
        "nodes": nodes,
        "edges": edges,
        "groups": [_group(each, numbers, labels, texts) for each in listed],
    }


def _group(
    each: Arranged, numbers: dict[int, int], labels: Sequence[str], texts: Texts
) -> list[Any]:
    """A group in a list; groups among its parts are their numbers below zero."""
    group = each.group
    parts = [part if isinstance(part, int) else -numbers[id(part)] for part in group.parts]
    placed = place(len(parts), sorted(each.edges))
    return [
        group.start,
        group.end,
        texts(_title(group)),
        texts(_name(labels[group.start : group.end])),
        each.inside,
        parts,
        [round(x) for x, _ in placed.parts],
        [row for _, row in placed.parts],
        [
            [*edge, *(round(v) for p in bent for v in p)]
            for edge, bent in placed.bends.items()
            if bent
        ],
    ]


def _title(group: Group) -> str:
    if group.repeats > 1:
        return f"{group.repeats} × {group.size // group.repeats} ops"
    return f"{group.size} ops"


def _name(labels: Sequence[str]) -> str:
    """What names have in common up to a separator; else the first and the last of them."""
    named = [label for label in labels if label]
    first, last = min(named, default=""), max(named, default="")
    pairs = enumerate(zip(first, last, strict=False))
    common = first[: next((n for n, (a, b) in pairs if a != b), len(first))]
    cut = max(common.rfind(mark) for mark in "/.")
    if len(named) > 1 and cut > 0:
        return common[:cut]
    return " … ".join(dict.fromkeys((named[0], named[-1]))) if named else ""


# A graph as a tree of groups, so that thousands of ops open as a few boxes.
#
# A group is a run of ops in program order, so what leads from group to group never goes back.
# It is divided where the graph itself is: between pieces that only one value connects (a
# residual block), and by what repeats (`blocks`); else by the names of the ops (what `layer3/`
# has in common); else into runs of the same length. No group has more than `MOST` parts.

MOST = 48
"""Parts of a group; and ops of one that is not divided."""
_FEW = 4
"""Ops that need no group of their own."""
_LEVELS = 12
"""Of names: how deep they are looked at."""


@dataclass
class Group:
    """Ops `start` to `end` (exclusive) by number; `parts` are groups and numbers of ops, in
    order. `repeats`: how often the ops of its first part follow each other."""

    start: int
    end: int
    parts: list[Group | int] = field(default_factory=list["Group | int"])
    repeats: int = 1

    @property
    def size(self) -> int:
        """How many ops it has."""
        return self.end - self.start


Interval = tuple[int, int, int]
"""Start, end (exclusive), and how often a pattern fills it."""


def grouped(labels: Sequence[str], names: Sequence[str], edges: Sequence[tuple[int, int]]) -> Group:
    """The tree of ops 0 to `len(labels)`: what each op is, what it is called, what reads what."""
    return _Grouping(labels, names, sorted(edges)).group(0, len(labels))


class _Grouping:
    def __init__(
        self, labels: Sequence[str], names: Sequence[str], edges: Sequence[tuple[int, int]]
    ) -> None:
        self.labels = labels
        self.paths = [tuple(name.split("/" if "/" in name else ".")[:-1]) for name in names]
        self.users: list[list[int]] = [[] for _ in labels]
        for source, use in edges:
            self.users[source].append(use)

    def group(self, start: int, end: int, repeats: int = 1, depth: int = 0) -> Group:
        """The group of a run, divided as far as it has to be."""
        made = Group(start, end, repeats=repeats)
        if repeats > 1:
            length = (end - start) // repeats
            runs = [(at, at + length, 1) for at in range(start, end, length)]
            made.parts = self._parts(runs, depth, same=True)
            return made
        if end - start <= MOST:
            made.parts = list(range(start, end))
        else:
            made.parts = self._parts(*self._divided(start, end, depth))
        return made

    def _parts(self, runs: Sequence[Interval], depth: int, same: bool = False) -> list[Group | int]:
        """A group for each run, and groups of those where they are many; `same`: of the same
        ops."""
        parts: list[Group | int] = []
        few = 2 if same else _FEW
        for a, b, times in runs:
            parts += range(a, b) if b - a < few else [self.group(a, b, times, depth)]
        while len(parts) > MOST:
            each = ceil(sqrt(len(parts))) if len(parts) <= MOST * MOST else MOST
            parts = [_joined(parts[at : at + each], same) for at in range(0, len(parts), each)]
        return parts

    def _divided(self, start: int, end: int, depth: int) -> tuple[list[Interval], int]:
        """Two runs or more, and how deep in the names what is inside is divided."""
        head: list[Interval] = []
        tail: list[Interval] = []
        whole = start, end
        while True:
            blocks = self._blocks(start, end)
            large = [n for n, run in enumerate(blocks) if _is_most(run, start, end)]
            if not large:
                return [*head, *blocks, *tail], depth
            if len(blocks) == 1:
                break
            # An input or a mask that is read everywhere, and all the rest: look into that.
            head += blocks[: large[0]]
            tail = [*blocks[large[0] + 1 :], *tail]
            start, end, _ = blocks[large[0]]
            if len(head) + len(tail) > MOST // 2:
                head, tail, (start, end) = [], [], whole
                break
        if end - start <= MOST:
            return [*head, (start, end, 1), *tail], depth
        for level in range(depth, _LEVELS):
            runs = self._named(start, end, level)
            if 1 < len(runs) <= (end - start) // 2:
                return [*head, *runs, *tail], level + 1
        each = max(2, ceil((end - start) / MOST))
        even = [(at, min(at + each, end), 1) for at in range(start, end, each)]
        return [*head, *even, *tail], _LEVELS

    def _blocks(self, start: int, end: int) -> list[Interval]:
        """What repeats between the places where only one value passes."""
        own = range(start, end)
        inner = [(a - start, b - start) for a in own for b in self.users[a] if b < end]
        found = repeating(self.labels[start:end], cut(end - start, inner))
        return [(start + b.start, start + b.end, b.repeats) for b in found]

    def _named(self, start: int, end: int, level: int) -> list[Interval]:
        """Runs of ops whose names begin alike; what has no such name is of the run before."""
        runs: list[Interval] = []
        last: tuple[str, ...] | None = None
        for at in range(start, end):
            path = self.paths[at][: level + 1]
            if not runs or (path and path != last):
                runs.append((at, at + 1, 1))
            else:
                runs[-1] = (runs[-1][0], at + 1, 1)
            last = path or last
        return runs


def _is_most(run: Interval, start: int, end: int) -> bool:
    """Whether a run is nearly all of another, and no repetition."""
    return run[2] == 1 and run[1] - run[0] > 0.9 * (end - start)


def _joined(parts: Sequence[Group | int], same: bool) -> Group:
    """Neighbours as one group; `same`: they are or hold the same."""
    first, last = parts[0], parts[-1]
    start = first if isinstance(first, int) else first.start
    end = last + 1 if isinstance(last, int) else last.end
    repeats = sum(1 if isinstance(part, int) else part.repeats for part in parts) if same else 1
    return Group(start, end, list(parts), repeats)


@dataclass
class Arranged:
    """A group of a tree in a list: `inside` is the number of the group it is in, `edges` lead
    from part to part. Number 0 is all, and a group stands before what is in it."""

    group: Group
    inside: int
    part: int
    depth: int
    edges: set[tuple[int, int]] = field(default_factory=set["tuple[int, int]"])


def arranged(root: Group, edges: Sequence[tuple[int, int]]) -> list[Arranged]:
    """The groups of a tree; every edge is in the innermost group that has both ends."""
    found = [Arranged(root, -1, 0, 0)]
    place_of: dict[int, tuple[int, int]] = {}
    number = 0
    while number < len(found):
        here = found[number]
        for index, part in enumerate(here.group.parts):
            if isinstance(part, int):
                place_of[part] = number, index
            else:
                found.append(Arranged(part, number, index, here.depth + 1))
        number += 1
    for source, use in edges:
        (a, i), (b, j) = place_of[source], place_of[use]
        while a != b:
            if found[a].depth >= found[b].depth:
                a, i = found[a].inside, found[a].part
            else:
                b, j = found[b].inside, found[b].part
        if i != j:
            found[a].edges.add((i, j))
    return found

"""A graph as the page draws it: ops by number, groups of them, and where their parts go."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from qdialect.report.graph import CASTS, Graph, identity
from qdialect.report.groups import Arranged, Group, arranged, grouped
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

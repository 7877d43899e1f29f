"""Where nodes of a graph go on a page: layers from top to bottom, few crossings.

By `fast-sugiyama`, the layout library of the extra `report`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from qdialect.errors import UsageError

COLUMN, ROW = 176.0, 62.0
"""Distance between the centres of neighbours in a layer, and between layers."""
_MANY = 40_000
"""Places that edges may bend at, all together, before they are drawn straight."""

Point = tuple[float, float]


@dataclass(frozen=True)
class Placed:
    """Centres of nodes, and the points an edge goes through between its ends, where it bends."""

    nodes: list[Point]
    bends: dict[tuple[int, int], list[Point]]
    width: float
    height: float


def require_layout() -> None:
    """UsageError (`missing-extra`) with what to install, where the library is not."""
    if find_spec("fast_sugiyama") is not None:
        return
    if sys.version_info < (3, 11):
        raise UsageError(
            "the report needs Python 3.11 or newer: its layout library has no older one",
            code="missing-extra",
        )
    raise UsageError(
        "the report needs a layout library that is not installed",
        code="missing-extra",
        notes=('pip install "qdialect[report]"',),
    )


def place(count: int, edges: Sequence[tuple[int, int]]) -> Placed:
    """Centres for nodes 0 to `count`; parts that are not connected stand side by side."""
    unique = sorted(set(edges))
    spans = sum(use - source for source, use in unique)
    library: Any = import_module("fast_sugiyama")
    parts: list[Any] = (
        library.from_edges(
            unique, vertex_spacing=COLUMN, dummy_vertices=spans < _MANY, dummy_size=0.6 * COLUMN
        )
        if unique
        else []
    )
    nodes: dict[int, Point] = {}
    bends: dict[tuple[int, int], list[Point]] = {}
    left = height = 0.0
    for positions, _, _, chain in parts:
        top = max(y for _, (_, y) in positions)
        shift = left - min(x for _, (x, _) in positions)
        at = {node: (x + shift, (top - y) / COLUMN * ROW) for node, (x, y) in positions}
        nodes |= {node: point for node, point in at.items() if node < count}
        bends |= _bends(chain or (), at, count)
        left = max(x for x, _ in at.values()) + COLUMN
        height = max(height, *(y for _, y in at.values()))
    for node in range(count):
        if node not in nodes:
            nodes[node] = (left, 0.0)
            left += COLUMN
    return Placed([nodes[n] for n in range(count)], bends, max(left - COLUMN, 0.0), height)


def _bends(
    chain: Sequence[tuple[int, int]], at: dict[int, Point], count: int
) -> dict[tuple[int, int], list[Point]]:
    """The library's chains of helper nodes, by the edge that each stands for."""
    follows = {source: use for source, use in chain if source >= count}
    found: dict[tuple[int, int], list[Point]] = {}
    for source, use in chain:
        if source >= count or use < count:
            continue
        points: list[Point] = []
        node = use
        while node >= count:
            points.append(at[node])
            node = follows[node]
        found[source, node] = points
    return found

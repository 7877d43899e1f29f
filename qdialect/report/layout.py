"""Where the parts of a graph go on a page: layers from top to bottom, few crossings.

By `fast-sugiyama`; on Python 3.10, for which there is none, by `grandalf`. Both are in the
extra `report`. No graph here has more parts than a group (`groups.MOST`) or a small model, so
that either is quick.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from qdialect.errors import UsageError

COLUMN = 176.0
"""Distance between the centres of neighbours in a layer."""

Point = tuple[float, int]
"""How far to the right, and in which layer."""
Edges = Sequence[tuple[int, int]]
Bends = dict[tuple[int, int], list[Point]]


@dataclass(frozen=True)
class Placed:
    """Centres of parts, and the points an edge goes through between its ends, layer by layer."""

    parts: list[Point]
    bends: Bends


@dataclass(frozen=True)
class _Piece:
    """Parts that are connected, and how their edges bend."""

    at: dict[int, Point]
    bends: Bends


def require_layout() -> None:
    """UsageError (`missing-extra`) with what to install, where there is no library."""
    if find_spec("fast_sugiyama") is None and find_spec("grandalf") is None:
        raise UsageError(
            "the report needs a layout library that is not installed",
            code="missing-extra",
            notes=('pip install "qdialect[report]"',),
        )


def place(count: int, edges: Edges) -> Placed:
    """Places for parts 0 to `count`; those that are not connected stand side by side."""
    unique = sorted(set(edges))
    by = _by_sugiyama if find_spec("fast_sugiyama") is not None else _by_grandalf
    parts: dict[int, Point] = {}
    bends: Bends = {}
    left = 0.0
    for piece in by(unique) if unique else ():
        points = [*piece.at.values(), *(p for bent in piece.bends.values() for p in bent)]
        shift = left - min(x for x, _ in points)
        parts |= {part: (x + shift, row) for part, (x, row) in piece.at.items()}
        bends |= {edge: [(x + shift, r) for x, r in bent] for edge, bent in piece.bends.items()}
        left += max(x for x, _ in points) - min(x for x, _ in points) + COLUMN
    for part in range(count):
        if part not in parts:
            parts[part] = (left, 0)
            left += COLUMN
    return Placed([parts[n] for n in range(count)], bends)


def _by_sugiyama(edges: Edges) -> list[_Piece]:
    library: Any = import_module("fast_sugiyama")
    found = library.from_edges(
        edges, vertex_spacing=COLUMN, dummy_vertices=True, dummy_size=0.6 * COLUMN
    )
    count = 1 + max(max(edge) for edge in edges)
    pieces: list[_Piece] = []
    for positions, _, _, chain in found:
        top = max(y for _, (_, y) in positions)
        at = {part: (x, round((top - y) / COLUMN)) for part, (x, y) in positions}
        own = {part: point for part, point in at.items() if part < count}
        pieces.append(_Piece(own, _bends(chain or (), at, count)))
    return pieces


def _bends(chain: Edges, at: dict[int, Point], count: int) -> Bends:
    """The library's chains of helper parts, by the edge that each stands for."""
    follows = {source: use for source, use in chain if source >= count}
    found: Bends = {}
    for source, use in chain:
        if source >= count or use < count:
            continue
        points: list[Point] = []
        part = use
        while part >= count:
            points.append(at[part])
            part = follows[part]
        found[source, part] = points
    return found


class _Box:
    """What `grandalf` wants to know of a part, and where it puts it."""

    w, h = 0.85 * COLUMN, 40.0
    xy = (0.0, 0.0)


def _by_grandalf(edges: Edges) -> list[_Piece]:
    graphs: Any = import_module("grandalf.graphs")
    layouts: Any = import_module("grandalf.layouts")
    vertices = {n: graphs.Vertex(n) for n in sorted({n for edge in edges for n in edge})}
    for vertex in vertices.values():
        vertex.view = _Box()
    lines = [graphs.Edge(vertices[a], vertices[b]) for a, b in edges]
    pieces: list[_Piece] = []
    for core in graphs.Graph(list(vertices.values()), lines).C:
        drawn = layouts.SugiyamaLayout(core)
        drawn.xspace = 0.15 * COLUMN
        drawn.init_all()
        drawn.draw(2)
        at = {v.data: (v.view.xy[0], drawn.grx[v].rank) for v in core.sV}
        bends: Bends = {}
        for edge, chain in drawn.ctrls.items():
            ends = edge.v[0].data, edge.v[1].data
            inner = [r for r in sorted(chain) if at[ends[0]][1] < r < at[ends[1]][1]]
            bends[ends] = [(chain[r].view.xy[0], r) for r in inner]
        pieces.append(_Piece(at, bends))
    return pieces

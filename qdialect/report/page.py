"""The report as one HTML file: data as JSON, and the script and style that show it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from importlib.resources import files
from math import isfinite
from typing import TYPE_CHECKING, Any

from qdialect.analysis.boundary import CODES
from qdialect.report.blocks import cut, repeating
from qdialect.report.casts import follow, history
from qdialect.report.graph import CASTS, Graph, Node, graph_of, identity
from qdialect.report.layout import place, require_layout
from qdialect.rewrite.remarks import OutputBound, Remark

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from qdialect.context import QContext

CATEGORIES = (*CASTS, "integer", "float", "mixed", "unknown", "interface")
_COLLAPSED = 300
"""Ops from which on a graph is first shown as its blocks."""

Json = dict[str, Any]


@dataclass(frozen=True)
class LayerError:
    """How far a value of the result is from the one it was; None where it is not known."""

    key: str
    type: str
    sqnr_db: float
    max_abs: float
    max_steps: float | None
    clipped: float | None


@dataclass
class Contents:
    """What a report tells. `problem` says why there are no `layers`."""

    title: str
    subtitle: str
    before: tuple[ModuleOp, QContext]
    after: tuple[ModuleOp, QContext] | None = None
    layers: Sequence[LayerError] = ()
    measured: str = ""
    problem: str = ""


@dataclass
class _Texts:
    """Strings by number, each written once."""

    numbers: dict[str, int] = field(default_factory=dict[str, int])

    def __call__(self, text: str) -> int:
        return self.numbers.setdefault(text, len(self.numbers))


def report_page(contents: Contents) -> str:
    """The page; UsageError (`missing-extra`) without the layout library."""
    require_layout()
    style, script, page = (
        files("qdialect.report").joinpath(name).read_text(encoding="utf-8")
        for name in ("page.css", "page.js", "page.html")
    )
    data = json.dumps(_data(contents), separators=(",", ":"), ensure_ascii=False)
    # Nothing in a name may end the element it is written in.
    data = data.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
    for mark, text in (
        ("@TITLE@", escape(contents.title)),
        ("@STYLE@", style),
        ("@SCRIPT@", script),
        ("@DATA@", data),
    ):
        page = page.replace(mark, text)
    return page


def _data(contents: Contents) -> Json:
    texts = _Texts()
    sides = [("before", graph_of(*contents.before))]
    remarks: list[Remark] = []
    bounds: list[OutputBound] = []
    if contents.after is not None:
        sides.append(("after", graph_of(*contents.after)))
        remarks = contents.after[1].remarks.remarks
        bounds = contents.after[1].remarks.outputs
    else:
        sides = [("model", sides[0][1])]
    told = history(remarks)
    collapsed = any(len(graph.nodes) > _COLLAPSED for _, graph in sides)
    tables = [_boundary_table(sides)]
    if contents.after is not None:
        tables = [
            _casts_table(sides[0][1], sides[1][1], remarks, told),
            *tables,
            _error_table(contents),
        ]
    tables.append(_cost_table(sides))
    if contents.after is not None:
        tables += [_refused_table(remarks), _bounds_table(bounds)]
    return {
        "subtitle": contents.subtitle,
        "categories": CATEGORIES,
        "summary": _summary(sides, remarks),
        "graphs": [_drawn(title, graph, texts, collapsed) for title, graph in sides],
        "remarks": [[texts(t) for t in _told(r)] for r in remarks] or None,
        "history": told,
        "findings": _findings(sides),
        "tables": tables,
        "text": list(texts.numbers),
    }


def _told(remark: Remark) -> tuple[str, ...]:
    r = remark
    place = (r.kind, r.pass_name, r.rule, r.location)
    return (*place, r.op, r.key, r.contract, r.code, r.reason)


def _drawn(title: str, graph: Graph, texts: _Texts, collapsed: bool) -> Json:
    edges = sorted(set(graph.edges))
    placed = place(len(graph.nodes), edges)
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
            round(x),
            round(y),
        ]
        for node, (x, y) in zip(graph.nodes, placed.nodes, strict=True)
    ]
    lines: list[list[Any]] = []
    for edge in edges:
        bends = [round(v) for point in placed.bends.get(edge, ()) for v in point]
        lines.append([*edge, bends] if bends else [*edge])
    blocks = repeating([node.name for node in graph.nodes], cut(len(graph.nodes), edges))
    return {
        "title": title,
        "nodes": nodes,
        "edges": lines,
        "blocks": [(block.start, block.end, block.repeats) for block in blocks],
        "collapsed": collapsed,
    }


def _summary(sides: Sequence[tuple[str, Graph]], remarks: Sequence[Remark]) -> Json:
    counts = [Counter(n.category for n in (*g.nodes, *g.hidden)) for _, g in sides]
    rows: list[list[Any]] = [
        [name, *(count[name] for count in counts)]
        for name in CATEGORIES
        if name != "interface" and any(count[name] for count in counts)
    ]
    rows.append(["all", *(sum(c.values()) - c["interface"] for c in counts)])
    rows.append(["of them on constants", *(len(g.hidden) for _, g in sides)])
    rows.append(["boundary findings", *(len(g.findings) for _, g in sides)])
    kinds = Counter(remark.kind for remark in remarks)
    note = "Ops by what they compute on; casts and rescales apart."
    if len(sides) > 1:
        note += f" {kinds['fired']} rewrites fired, {kinds['refused']} were refused."
    return {"note": note, "columns": ["ops", *(title for title, _ in sides)], "rows": rows}


def _cell(label: str, names: Sequence[str]) -> list[Any]:
    """A cell that leads to an op of the graph."""
    return [label, list(names)]


def _casts_table(
    before: Graph, after: Graph, remarks: Sequence[Remark], told: dict[str, list[int]]
) -> Json:
    rows = [
        [_cell(move.key, move.names), move.before, move.after, move.fate, move.rewrite]
        for move in follow(before, after, remarks, told)
    ]
    return {
        "id": "casts",
        "title": "Casts and rescales",
        "note": "Every quantize, dequantize and rescale: where it was and where it went.",
        "caption": "Casts and rescales, before and after",
        "columns": [
            ("name", "op"),
            ("before", "text"),
            ("after", "text"),
            ("what became of it", "text"),
            ("last rewrite there", "text"),
        ],
        "rows": rows,
        "empty": "There is none.",
    }


def _findings(sides: Sequence[tuple[str, Graph]]) -> list[Json]:
    return [
        {
            "side": title,
            "code": finding.code,
            "message": finding.message,
            "fix": finding.fix,
            "names": _names(graph, number),
        }
        for title, graph in sides
        for number, finding in graph.findings
    ]


def _names(graph: Graph, number: int) -> tuple[str, ...]:
    if number < 0:
        return ()
    node = graph.nodes[number]
    return identity(node.keys, node.location)


def _boundary_table(sides: Sequence[tuple[str, Graph]]) -> Json:
    rows: list[list[Any]] = []
    for title, graph in sides:
        for number, finding in graph.findings:
            node = graph.nodes[number] if number >= 0 else None
            label = finding.op.name if node is None else f"{node.name} {node.label}"
            rows.append(
                [
                    title,
                    finding.code,
                    CODES[finding.code],
                    _cell(label, _names(graph, number)),
                    finding.message,
                    finding.fix,
                    finding.flops,
                    finding.bytes,
                ]
            )
    return {
        "id": "boundaries",
        "title": "Boundaries",
        "note": "Where integers turn into floats and back, and the pass that mends it.",
        "caption": "Boundary findings",
        "columns": [
            ("side", "text"),
            ("code", "text"),
            ("kind", "text"),
            ("op", "op"),
            ("what", "text"),
            ("fix-it", "text"),
            ("float ops", "number"),
            ("bytes", "number"),
        ],
        "rows": rows,
        "empty": "Nothing breaks the integers.",
    }


def _error_table(contents: Contents) -> Json:
    rows: list[list[Any]] = [
        [
            _cell(layer.key, (layer.key.partition("#")[0],)),
            layer.type if len(layer.type) <= 100 else f"{layer.type[:97]}...",
            layer.sqnr_db if isfinite(layer.sqnr_db) else None,
            layer.max_abs,
            layer.max_steps,
            None if layer.clipped is None else f"{layer.clipped:.3%}",
        ]
        for layer in contents.layers
    ]
    return {
        "id": "error",
        "title": "Error per layer",
        "note": "After against before, value by value. Exact: the same numbers. Clipped: the "
        "share of codes at either end of their range, where values may have been cut off.",
        "caption": contents.measured,
        "columns": [
            ("value", "op"),
            ("type", "text"),
            ("SQNR, dB", "number"),
            ("largest difference", "number"),
            ("steps", "number"),
            ("clipped", "number"),
        ],
        "meter": 2,
        "rows": rows,
        "problem": contents.problem,
        "empty": "Nothing was compared.",
    }


def _cost_table(sides: Sequence[tuple[str, Graph]]) -> Json:
    kinds = sorted({node.name for _, graph in sides for node in graph.nodes})
    rows: list[list[Any]] = []
    for kind in kinds:
        row: list[Any] = [kind]
        for _, graph in sides:
            same = [node for node in graph.nodes if node.name == kind]
            row += [len(same), _total(same)]
        if kind not in ("input", "output"):
            rows.append(row)
    rows.append(
        [
            "all that has a price",
            *(v for _, g in sides for v in (_priced(g.nodes), _total(g.nodes))),
        ]
    )
    columns: list[tuple[str, str]] = [("op", "text")]
    for title, _ in sides:
        columns += [(f"{title}, ops", "number"), (f"{title}, price", "number")]
    return {
        "id": "cost",
        "title": "Cost",
        "note": "By the prices of the target: one is what an element of a rescale costs. "
        "Ops without a price, such as contractions on floats, are counted only, so totals of "
        "two sides compare only where both have prices for the same ops.",
        "caption": "Cost by kind of op",
        "columns": columns,
        "rows": rows,
        "empty": "",
    }


def _total(nodes: Sequence[Node]) -> float | None:
    prices = [node.price for node in nodes if node.price is not None]
    return round(sum(prices), 1) if prices else None


def _priced(nodes: Sequence[Node]) -> int:
    return sum(node.price is not None for node in nodes)


def _refused_table(remarks: Sequence[Remark]) -> Json:
    groups: dict[tuple[str, ...], list[Remark]] = {}
    for remark in remarks:
        if remark.kind == "refused":
            group = (remark.pass_name, remark.rule, remark.op, remark.code, remark.reason)
            groups.setdefault(group, []).append(remark)
    ordered = sorted(groups.items(), key=lambda item: -len(item[1]))
    rows: list[list[Any]] = []
    for (pass_name, rule, op, code, reason), found in ordered:
        first = found[0]
        keys = tuple(first.key.split(",")) if first.key else ()
        cell = _cell(keys[-1] if keys else first.location, identity(keys, first.location))
        rows.append([len(found), pass_name, rule, op, code, reason, cell])
    return {
        "id": "refused",
        "title": "Refused",
        "note": "Rewrites that were looked at and not done, by the condition that failed.",
        "caption": "What was refused and why",
        "columns": [
            ("times", "number"),
            ("pass", "text"),
            ("rule", "text"),
            ("at", "text"),
            ("code", "text"),
            ("reason", "text"),
            ("first", "op"),
        ],
        "rows": rows,
        "empty": "Nothing was refused.",
    }


def _bounds_table(bounds: Sequence[OutputBound]) -> Json:
    rows: list[list[Any]] = [
        [
            f"@{bound.function} result #{bound.result}",
            bound.contract,
            bound.steps if isfinite(bound.steps) else "no bound",
            len(bound.causes),
            ", ".join(bound.blocked),
        ]
        for bound in bounds
    ]
    return {
        "id": "bounds",
        "title": "Bounds of the outputs",
        "note": "How far each output may be from what it was, by the contracts of the rewrites.",
        "caption": "Bounds",
        "columns": [
            ("output", "text"),
            ("contract", "text"),
            ("steps, at most", "number"),
            ("rewrites", "number"),
            ("no bound through", "text"),
        ],
        "rows": rows,
        "empty": "No output was bounded.",
    }

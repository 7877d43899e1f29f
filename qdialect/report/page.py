"""The report as one HTML file: data as JSON, and the script and style that show it."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from html import escape
from importlib.resources import files
from math import isfinite
from typing import TYPE_CHECKING, Any

from qdialect.errors import printable
from qdialect.quantizer.quality import db_text
from qdialect.report.casts import history
from qdialect.report.drawing import CATEGORIES, Json, Texts, drawn
from qdialect.report.graph import Graph, graph_of
from qdialect.report.histograms import Histogram
from qdialect.report.layout import require_layout
from qdialect.report.plain import finite
from qdialect.report.tables import (
    FrontPoint,
    LayerError,
    boundary_table,
    bounds_table,
    casts_table,
    cost_table,
    effort_table,
    error_table,
    executed_table,
    findings,
    front_table,
    not_taken_table,
    outputs_table,
    ranges_table,
    refused_table,
    total_price,
)
from qdialect.rewrite.remarks import OutputBound, Remark

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from qdialect.ir.context import QContext
    from qdialect.quantizer.quality import Quality


@dataclass
class Contents:
    """What a report shows. `quantized`: the first was a float model. `measured` and `ranged` say
    on what `layers` and `histograms` are, and `problem` why there are no `layers`."""

    title: str
    subtitle: str
    before: tuple[ModuleOp, QContext]
    after: tuple[ModuleOp, QContext] | None = None
    layers: Sequence[LayerError] = ()
    histograms: Sequence[Histogram] = ()
    measured: str = ""
    ranged: str = ""
    quantized: bool = False
    problem: str = ""
    #: ops that the target refuses: key, location, name, why, what would make it legal (None: no
    #: target was asked)
    not_taken: Sequence[tuple[str, str, str, str, str]] | None = None
    #: of a quantized model: how far its outputs are from the float model's, on what, and why not
    quality: Quality | None = None
    judged: str = ""
    not_judged: str = ""
    #: both models as they are executed, under a heading, and in what
    executed: Sequence[Sequence[str]] = ()
    where: str = ""
    #: what was tried for its accuracy, under a heading, and on the way to it
    steps: Sequence[Sequence[str]] = ()
    front: Sequence[FrontPoint] = ()


def report_page(contents: Contents) -> str:
    """The page; UsageError (`missing-extra`) without the layout library."""
    require_layout()
    style, page, *scripts = (
        files("qdialect.report").joinpath(name).read_text(encoding="utf-8")
        for name in ("page.css", "page.html", "page.base.js", "page.graph.js", "page.js")
    )
    data = json.dumps(
        finite(_data(contents)), separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )
    # Nothing in a name may end the element it is written in.
    data = data.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
    parts = {
        "TITLE": escape(printable(contents.title)),
        "STYLE": style,
        "SCRIPT": "\n".join(scripts),
        "DATA": data,
    }
    # All at once: what is put in is not looked through for marks.
    return re.sub(f"@({'|'.join(parts)})@", lambda found: parts[found[1]], page)


def _data(contents: Contents) -> Json:
    texts = Texts()
    sides = [("before", graph_of(*contents.before))]
    remarks: list[Remark] = []
    bounds: list[OutputBound] = []
    if contents.after is not None:
        sides.append(("after", graph_of(*contents.after)))
        remarks = contents.after[1].remarks.remarks
        bounds = contents.after[1].remarks.outputs
    else:
        sides = [("model", sides[0][1])]
    by_key = history(remarks)
    tables = [boundary_table(sides)]
    if contents.after is not None:
        tables = [
            *_measured_tables(contents),
            casts_table(sides[0][1], sides[1][1], remarks, by_key),
            *tables,
            error_table(contents.layers, contents.measured, contents.problem),
            ranges_table(contents.histograms, contents.ranged),
        ]
    tables.append(cost_table(sides))
    if contents.not_taken is not None:
        tables.append(not_taken_table(contents.not_taken))
    if contents.after is not None:
        tables += [refused_table(remarks), bounds_table(bounds)]
    return {
        "subtitle": contents.subtitle,
        "categories": CATEGORIES,
        "summary": _summary(sides, remarks, bounds, contents),
        "graphs": [drawn(title, graph, texts) for title, graph in sides],
        "remarks": [[texts(t) for t in _fields(r)] for r in remarks] or None,
        "history": by_key,
        "findings": findings(sides),
        "histograms": [_shown(histogram) for histogram in contents.histograms],
        "tables": tables,
        "text": list(texts.numbers),
    }


def _measured_tables(contents: Contents) -> list[Json]:
    """What people look for first; none where nothing was measured."""
    tables: list[Json] = []
    if contents.quality is not None or contents.not_judged:
        tables.append(outputs_table(contents.quality, contents.judged, contents.not_judged))
    if contents.executed:
        tables.append(executed_table(contents.executed, contents.where))
    if contents.steps:
        tables.append(effort_table(contents.steps))
    if contents.front:
        tables.append(front_table(contents.front))
    return tables


def _shown(histogram: Histogram) -> Json:
    row = asdict(histogram)
    row["outside"] = f"{histogram.below:.3%} below, {histogram.above:.3%} above"
    row["names"] = [histogram.key.partition("#")[0]]
    return row


def _fields(remark: Remark) -> tuple[str, ...]:
    r = remark
    place = (r.kind, r.pass_name, r.rule, r.location)
    return (*place, r.op, r.key, r.contract, r.code, r.reason)


def _summary(
    sides: Sequence[tuple[str, Graph]],
    remarks: Sequence[Remark],
    bounds: Sequence[OutputBound],
    contents: Contents,
) -> Json:
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
    columns = ["ops", *(title for title, _ in sides)]
    return {
        "note": note,
        "tiles": _tiles(sides, bounds, contents),
        "columns": columns,
        "rows": rows,
    }


def _tiles(
    sides: Sequence[tuple[str, Graph]], bounds: Sequence[OutputBound], contents: Contents
) -> list[tuple[str, str, str]]:
    """What one wants to know first: a name, a value, and what there is to say of it."""
    running = [sum(n.category != "interface" for n in g.nodes) for _, g in sides]
    prices = [total_price(g.nodes) for _, g in sides]
    tiles = _measured_tiles(contents)
    tiles.append(("ops that run", " → ".join(f"{n:,}" for n in running), "without constants"))
    if all(prices):
        shown = " → ".join(f"{price[0]:,.0f}" for price in prices if price)
        without = max(price[1] for price in prices if price)
        more = f", {without} ops without one" if without else ""
        tiles.append(("price", shown, f"in elements rescaled{more}"))
    tiles.append(
        ("boundaries", " → ".join(f"{len(g.findings):,}" for _, g in sides), "integers to floats")
    )
    if bounds:
        classes = dict.fromkeys(bound.contract for bound in bounds)
        name, against = "outputs", "what they were"
        if contents.quantized:
            name, against = "what rewrites changed", "what the casts say"
        tiles.append((name, ", ".join(classes), f"at most so far from {against}"))
    if contents.layers and contents.quality is None:
        last = contents.layers[-1]
        shown = f"{last.sqnr_db:.1f} dB" if isfinite(last.sqnr_db) else "exact"
        tiles.append(("SQNR at the end", shown, f"of {last.key}, as measured"))
    return tiles


def _measured_tiles(contents: Contents) -> list[tuple[str, str, str]]:
    """The loss of the worst part, latency and size."""
    tiles: list[tuple[str, str, str]] = []
    worst = None if contents.quality is None else contents.quality.worst
    if worst is not None:
        note = f"of {worst.part}"
        if worst.worst_channel is not None and isfinite(worst.worst_channel_db):
            note += f", channel {worst.worst_channel}: {db_text(worst.worst_channel_db)}"
        tiles.append(("SQNR of the worst output", db_text(worst.sqnr_db), note))
    for name, one, other, ratio in contents.executed[1:3]:
        if ratio:
            tiles.append((name, f"{one} → {other}", f"{ratio} of the float model"))
    return tiles

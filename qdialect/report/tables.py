"""The tables of the page: captions, columns with what their cells are, and rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import inf, isfinite
from typing import TYPE_CHECKING, Any

from qdialect.analysis.boundary import CODES
from qdialect.report.casts import follow
from qdialect.report.drawing import Json
from qdialect.report.graph import Graph, Node, identity
from qdialect.rewrite.remarks import OutputBound, Remark

if TYPE_CHECKING:
    from qdialect.quantizer.quality import Quality
    from qdialect.report.histograms import Histogram


@dataclass(frozen=True)
class FrontPoint:
    """A candidate that was tried: latency in milliseconds and over that of the float model, SQNR
    of its worst part (infinite: no noise), and the metric, if there is one."""

    name: str
    milliseconds: float
    ratio: float
    sqnr_db: float
    metric: float | None = None
    on_front: bool = False
    chosen: bool = False


@dataclass(frozen=True)
class LayerError:
    """How far a value of the second model is from the one of the same key in the first.

    `sqnr_db` over all samples; `max_steps` in steps of the second's codes, and `clipped` the
    share of them at an end of their range (the most over samples), None for floats.
    `worst_channel` is the one of least SQNR, None where it has no channels, or all are negligible
    (`quantizer.quality`); `dead` are channels that are one number in the second and were not.
    `alone_db` is the SQNR where all that is read is what the first model has, as the second
    writes it: what is lost there and not before. None where that was not asked for.
    """

    key: str
    type: str
    sqnr_db: float
    max_abs: float
    max_steps: float | None
    clipped: float | None = None
    worst_channel: int | None = None
    worst_channel_db: float | None = None
    dead: Sequence[int] = ()
    alone_db: float | None = None


def _cell(label: str, names: Sequence[str]) -> list[Any]:
    return [label, list(names)]


def casts_table(
    before: Graph, after: Graph, remarks: Sequence[Remark], by_key: dict[str, list[int]]
) -> Json:
    """Every quantize, dequantize and rescale: where it was and where it went."""
    rows = [
        [_cell(move.key, move.names), move.before, move.after, move.fate, move.rewrite]
        for move in follow(before, after, remarks, by_key)
    ]
    return {
        "id": "casts",
        "title": "Casts and rescales",
        "note": "Every quantize, dequantize and rescale: where it was and where it went. Not "
        "needed: what read it takes codes now, or is gone.",
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


def findings(sides: Sequence[tuple[str, Graph]]) -> list[Json]:
    """Quantization boundaries of all graphs, for marks at their ops."""
    return [
        {
            "side": title,
            "code": finding.code,
            "message": finding.message,
            "fix": finding.fix or finding.advice,
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


def outputs_table(quality: Quality | None, measured: str, problem: str) -> Json:
    """How far each part of the outputs is from the float model's."""
    rows: list[list[Any]] = []
    for one in quality.parts if quality is not None else ():
        channel = one.worst_channel
        has_channel = channel is not None and one.worst_channel_db != inf
        dead = "all of it" if one.is_dead else ", ".join(map(str, one.dead))
        rows.append(
            [
                _cell(str(one.part), (one.part.key,) if one.part.key else ()),
                _db(one.sqnr_db),
                _db(one.mean_db),
                str(channel) if has_channel else "",
                _db(one.worst_channel_db) if has_channel else "",
                "" if one.agreement is None else f"{one.agreement:.2%}",
                dead,
            ]
        )
    return {
        "id": "outputs",
        "title": "Outputs",
        "note": "How far each part of the outputs is from the float model's: an output that is a "
        "concat of different things is judged piece by piece. SQNR is over all samples together; "
        "the mean is of each sample's own. The worst channel is the one with the least SQNR, of "
        "those whose signal is above a hundredth of the part's. Same winner: how often the "
        "largest channel is the same. Dead: what varies in the float model and is one number now.",
        "caption": measured,
        "columns": [
            ("part", "op"),
            ("SQNR, dB", "meter"),
            ("mean of samples, dB", "meter"),
            ("worst channel", "text"),
            ("its SQNR, dB", "meter"),
            ("same winner", "text"),
            ("dead", "text"),
        ],
        "rows": rows,
        "problem": problem,
        "empty": "Nothing was judged.",
    }


def _db(value: float) -> float | str | None:
    """A number; None where both models give the same; a text where there is none."""
    if isfinite(value):
        return value
    return None if value > 0 else "no number" if value < 0 else ""


def executed_table(rows: Sequence[Sequence[str]], where: str) -> Json:
    """Latency, size and nodes of both models, as they are executed."""
    return {
        "id": "executed",
        "title": "As executed",
        "note": "What it takes to run the float model and this one on this machine: median of "
        "processor time on one thread, both in turns. A runtime fuses and inserts nodes, so what "
        "it executes is not what a file says.",
        "caption": where,
        "columns": [(name, "text") for name in rows[0]] if rows else [],
        "rows": [list(row) for row in rows[1:]],
        "empty": "Nothing was executed.",
    }


def effort_table(rows: Sequence[Sequence[str]]) -> Json:
    """What `--effort` tried, with a heading."""
    return {
        "id": "effort",
        "title": "What was tried for accuracy",
        "note": "Rewrites of the float model that leave its function, and roundings of weights. "
        "The gain is on samples that none of them has seen; each step is on those kept before it.",
        "caption": "Steps",
        "columns": [(name or "what", "text") for name in rows[0]],
        "rows": [list(row) for row in rows[1:]],
        "empty": "Nothing was tried.",
    }


def front_table(points: Sequence[FrontPoint]) -> Json:
    """What was tried, by latency and loss, as a table and as points of a plot."""
    rows = [
        [
            point.name + (" (written)" if point.chosen else ""),
            f"{point.milliseconds:.3g} ms",
            f"{point.ratio:.2f}",
            None if point.sqnr_db == inf else point.sqnr_db if isfinite(point.sqnr_db) else "none",
            "" if point.metric is None else f"{point.metric:.4g}",
            "yes" if point.on_front else "",
        ]
        for point in points
    ]
    return {
        "id": "front",
        "title": "Latency against loss",
        "note": "What was tried: how long it takes, as a share of the float model, and how far the "
        "worst part of its outputs is from the float model's. On the front is what nothing is "
        "better than in both.",
        "caption": "Candidates",
        "columns": [
            ("candidate", "text"),
            ("latency", "text"),
            ("of float", "text"),
            ("SQNR, dB", "meter"),
            ("metric", "text"),
            ("on the front", "text"),
        ],
        "rows": rows,
        "plot": [asdict(point) for point in points],
        "empty": "Nothing was tried.",
    }


def boundary_table(sides: Sequence[tuple[str, Graph]]) -> Json:
    """Quantization boundaries: what, where, what they cost and how to mend them."""
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
                    finding.fix or finding.advice,
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


def error_table(layers: Sequence[LayerError], measured: str, problem: str) -> Json:
    """How far each value is from the one of the same key, on what was measured."""
    rows: list[list[Any]] = [
        [
            _cell(layer.key, (layer.key.partition("#")[0],)),
            layer.type if len(layer.type) <= 100 else f"{layer.type[:97]}...",
            layer.sqnr_db if isfinite(layer.sqnr_db) else None,
            layer.worst_channel,
            layer.worst_channel_db,
            layer.max_abs,
            layer.max_steps,
            None if layer.clipped is None else f"{layer.clipped:.3%}",
            len(layer.dead) or None,
        ]
        for layer in layers
    ]
    return {
        "id": "error",
        "title": "Error per layer",
        "note": "After against before, value by value; where a value is codes now, against what "
        "it was once quantized, too. Exact: the same numbers. Clipped: the share of codes at an "
        "end of their range that is not the zero point, where values may have been cut off. Dead: "
        "channels that vary before and are one number after.",
        "caption": measured,
        "columns": [
            ("value", "op"),
            ("type", "text"),
            ("SQNR, dB", "meter"),
            ("worst channel", "number"),
            ("its dB", "number"),
            ("largest difference", "number"),
            ("steps", "number"),
            ("clipped", "number"),
            ("dead channels", "number"),
        ],
        "rows": rows,
        "problem": problem,
        "empty": "Nothing was compared.",
    }


def ranges_table(histograms: Sequence[Histogram], source: str) -> Json:
    """In the order of the ops."""
    rows: list[list[Any]] = []
    for number, h in enumerate(histograms):
        cell = _cell(h.key, (h.key.partition("#")[0],))
        ends = (h.minimum, h.maximum, h.low, h.high)
        used = (min(h.maximum, h.high) - max(h.minimum, h.low)) / ((h.high - h.low) or 1.0)
        rows.append([cell, h.storage, number, *ends, 100 * h.below, 100 * h.above, 100 * used])
    return {
        "id": "ranges",
        "title": "Ranges",
        "note": "How the numbers of each quantized value are distributed, and the range that its "
        "codes hold (shaded). Heights are logarithmic. Below and above: the share of the data "
        "that is clipped at either end; where a range begins at zero, what is below is what a relu "
        "takes away. Used: how much of the range the data spans.",
        "caption": f"Ranges, on {source}" if source else "Ranges",
        "columns": [
            ("value", "op"),
            ("codes", "text"),
            ("data and range", "histogram"),
            ("least", "number"),
            ("largest", "number"),
            ("from", "number"),
            ("to", "number"),
            ("below, %", "number"),
            ("above, %", "number"),
            ("used, %", "number"),
        ],
        "rows": rows,
        "empty": "No value with a range was seen.",
    }


def cost_table(sides: Sequence[tuple[str, Graph]]) -> Json:
    """Ops by kind, with their prices in the target's units."""
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
        "note": "By the prices of the target: one is what an element of a rescale costs. Ops "
        "without a price are counted only, so totals of two sides compare where both have prices "
        "for all. Prices are of ops alone: what a runtime makes of several together is not in "
        "them.",
        "caption": "Cost by kind of op",
        "columns": columns,
        "rows": rows,
        "empty": "",
    }


def total_price(nodes: Sequence[Node]) -> tuple[float, int] | None:
    """What all ops cost, and how many of them have no price; None where none has one."""
    running = [node for node in nodes if node.category != "interface"]
    total = _total(running)
    return None if total is None else (total, len(running) - _priced(running))


def _total(nodes: Sequence[Node]) -> float | None:
    prices = [node.price for node in nodes if node.price is not None]
    return round(sum(prices), 1) if prices else None


def _priced(nodes: Sequence[Node]) -> int:
    return sum(node.price is not None for node in nodes)


def not_taken_table(refused: Sequence[tuple[str, str, str, str, str]]) -> Json:
    """Ops that the target refuses, and what would make them legal."""
    rows: list[list[Any]] = []
    for key, location, op, reason, legal in refused:
        keys = tuple(key.split(",")) if key else ()
        cell = _cell(keys[-1] if keys else location or op, identity(keys, location))
        rows.append([cell, op, reason, legal])
    return {
        "id": "target",
        "title": "Target",
        "note": "Ops that the target does not run. What would make one legal was tried: passes on "
        "a copy of the model, then other codes.",
        "caption": "Ops that the target refuses",
        "columns": [
            ("name", "op"),
            ("op", "text"),
            ("refused as", "text"),
            ("what would make it legal", "text"),
        ],
        "rows": rows,
        "empty": "It takes every op.",
    }


def refused_table(remarks: Sequence[Remark]) -> Json:
    """Rewrites that were refused, by the condition that failed."""
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


def bounds_table(bounds: Sequence[OutputBound]) -> Json:
    """What each output may differ by, in quantization steps."""
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
        "note": "How far each output may be from what the model that was optimized gave (a float "
        "one: with its casts), by the contracts of the rewrites.",
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

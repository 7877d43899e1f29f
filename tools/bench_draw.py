"""Pictures of a benchmark: how time grows with the size of a graph, and how ratios went."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from bench_history import Entry
from bench_rows import Absent, Row

COLOURS = ("#4477aa", "#cc6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#999933", "#888888")
"""Told apart by the colour-blind."""

Line = tuple[str, list[tuple[float, float]], str]
"""Name, points, style."""


def _pyplot() -> Any:
    try:
        import matplotlib
    except ImportError:
        raise Absent("no matplotlib: pip install 'qdialect[bench]'") from None
    matplotlib.use("Agg")
    from matplotlib import pyplot

    return pyplot


def optimizing(rows: Sequence[Row], style: str) -> list[Line]:
    """µs per op of the pipeline over the size, a line for each kind of graph."""
    points: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for row in rows:
        if row.section == "passes" and row.name == "optimize" and row.value.runs:
            points[row.case].append((row.ops, 1e6 * row.value.median / row.ops))
    return [(case, sorted(found), style) for case, found in points.items()]


def reading(rows: Sequence[Row]) -> list[Line]:
    """µs per op of text and module files, ours and, dashed, stock xDSL's."""
    lines: list[Line] = []
    chosen = [row for row in rows if row.section == "text" and row.unit == "s" and row.value.runs]
    case = chosen[0].case if chosen else ""
    for name in ("parse", "read .qmod", "print", "write .qmod", "verify"):
        found = [row for row in chosen if (row.case, row.name) == (case, name)]
        ours = [(float(row.ops), 1e6 * row.value.median / row.ops) for row in found]
        theirs = [
            (float(row.ops), 1e6 * row.value.median / row.ops / row.ratios["stock xDSL"].median)
            for row in found
            if "stock xDSL" in row.ratios and not name.endswith("qmod")
        ]
        lines.append((f"{name} ({case})", ours, "-"))
        lines.append(("", theirs, ":"))
    return lines


def growth(rows: Sequence[Row], before: Sequence[Row], path: Path) -> None:
    """Two panels, logarithmic both ways: flat is linear."""
    pyplot = _pyplot()
    figure, panels = pyplot.subplots(1, 2, figsize=(11, 4.6), layout="constrained", sharey=True)
    _lines(panels[0], [*optimizing(rows, "-"), *optimizing(before, ":")])
    panels[0].set_title("optimizing pipeline" + (" (dotted: before)" if before else ""))
    panels[0].set_ylabel("µs per op")
    _lines(panels[1], reading(rows))
    panels[1].set_title("text and module files (dotted: stock xDSL)")
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def _lines(axes: Any, lines: Sequence[Line]) -> None:
    names = list(dict.fromkeys(name for name, _, _ in lines if name))
    last = ""
    for name, points, style in lines:
        last = name or last
        if not points:
            continue
        colour = COLOURS[names.index(last) % len(COLOURS)]
        label = name if name not in axes.get_legend_handles_labels()[1] else None
        xs, ys = zip(*points, strict=True)
        axes.plot(xs, ys, style, color=colour, label=label, marker=".", linewidth=1.4)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("ops")
    axes.grid(alpha=0.3, which="both")
    if axes.get_legend_handles_labels()[1]:
        axes.legend(fontsize=8)


def courses(entries: Sequence[Entry]) -> dict[str, list[float]]:
    """By section and baseline, how ratios went, as multiples of the first run: the geometric
    mean over what two runs in a row have both measured, one after the other."""
    groups = sorted({_group(key) for entry in entries for key in entry.ratios})
    found: dict[str, list[float]] = {group: [1.0] for group in groups}
    for then, now in pairwise(entries):
        for group, course in found.items():
            logs = [
                math.log(now.ratios[key].median / ratio.median)
                for key, ratio in then.ratios.items()
                if _group(key) == group
                and key in now.ratios
                and ratio.median > 0
                and now.ratios[key].median > 0
            ]
            course.append(course[-1] * math.exp(sum(logs) / len(logs)) if logs else course[-1])
    return found


def _group(key: str) -> str:
    return f"{key.partition('/')[0]} / {key.rpartition(' / ')[2]}"


def history(entries: Sequence[Entry], path: Path) -> None:
    """How the ratios went, run by run, on one kind of machine."""
    pyplot = _pyplot()
    figure, axes = pyplot.subplots(figsize=(8, 4), layout="constrained")
    for index, (group, course) in enumerate(courses(entries).items()):
        colour = COLOURS[index % len(COLOURS)]
        style = ("-", "--")[index // len(COLOURS) % 2]
        axes.plot(range(len(course)), course, style, marker=".", color=colour, label=group)
    axes.set_xticks(range(len(entries)), [entry.commit for entry in entries], rotation=30)
    axes.set_yscale("log")
    axes.set_ylabel("ratio, as a multiple of the first run")
    axes.grid(alpha=0.3, which="both")
    figure.legend(loc="outside right center", fontsize=8)
    figure.savefig(path, dpi=110)
    pyplot.close(figure)

"""The page on speed: what was wanted and what is, before and now, produced by the command."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import bench_draw
import document
from bench_history import Entry
from bench_page import amount, grown
from bench_rows import Row, growth
from progress import table


class Goal(NamedTuple):
    """What rows are wanted to be below."""

    text: str
    section: str
    names: tuple[str, ...]
    baseline: str
    most: float
    size: int = 0
    """Only graphs of this size; 0: any."""
    apart: bool = False
    """`most` is milliseconds above the baseline, not a multiple."""


GOALS = (
    Goal(
        "`qopt-opt --help`, `--version`, `--list-passes` within 30 ms of bare Python",
        "startup",
        ("qopt-opt --help", "qopt-opt --version", "qopt-opt --list-passes"),
        "bare Python",
        30,
        apart=True,
    ),
    Goal(
        "a tiny file within 1.1x of importing xDSL's core",
        "startup",
        ("qopt-opt tiny.mlir",),
        "xDSL core",
        1.1,
    ),
    Goal(
        "text of 100 000 ops read in a quarter of stock xDSL's time",
        "text",
        ("parse", "parse generic"),
        "stock xDSL",
        0.25,
        100_000,
    ),
    Goal(
        "text of 100 000 ops printed in a quarter of stock xDSL's time",
        "text",
        ("print", "print generic"),
        "stock xDSL",
        0.25,
        100_000,
    ),
    Goal(
        "module files read in a twentieth of the time of stock xDSL's text",
        "text",
        ("read .qmod",),
        "stock xDSL",
        0.05,
        100_000,
    ),
    Goal(
        "the pipeline on 100 000 ops below 4x stock xDSL's verifier",
        "passes",
        ("optimize",),
        "stock verify",
        4,
        100_000,
    ),
    Goal(
        "real models optimized within 3x of ONNX Runtime's optimizer",
        "models",
        ("optimize",),
        "ONNX Runtime's optimizer",
        3,
    ),
)
LINEAR = 1.1
"""The largest exponent of what grows with its ops."""


class Run(NamedTuple):
    """Figures, and what was said of the runs that they are of."""

    rows: Sequence[Row]
    told: Sequence[Mapping[str, Any]]


def _figure(goal: Goal, row: Row) -> float:
    ratio = row.ratios[goal.baseline].median
    return 1e3 * row.value.median * (1 - 1 / ratio) if goal.apart else ratio


def _of_goal(goal: Goal, rows: Sequence[Row]) -> list[float]:
    return [
        _figure(goal, row)
        for row in rows
        if row.section == goal.section
        and row.name in goal.names
        and goal.baseline in row.ratios
        and (not goal.size or row.size == goal.size)
    ]


def goals(rows: Sequence[Row], before: Sequence[Row]) -> str:
    """Best and worst of what each goal is about."""

    def span(goal: Goal, found: Sequence[float]) -> str:
        if not found:
            return "not measured"
        unit = " ms" if goal.apart else "x"
        low, high = min(found), max(found)
        return f"{low:.3g}{unit}" if len(found) == 1 else f"{low:.3g} to {high:.3g}{unit}"

    lines: list[tuple[str, ...]] = []
    for goal in GOALS:
        now = _of_goal(goal, rows)
        met = sum(each <= goal.most for each in now)
        verdict = "" if not now else "yes" if met == len(now) else f"{met} of {len(now)}"
        lines.append((goal.text, span(goal, _of_goal(goal, before)), span(goal, now), verdict))
    was, found = (
        list(
            growth(
                row for row in some if (row.section, row.name) == ("passes", "optimize")
            ).values()
        )
        for some in (before, rows)
    )
    if found:
        flat = sum(value <= LINEAR for value in found)
        lines.append(
            (
                f"the pipeline grows linearly (exponent at most {LINEAR})",
                f"{min(was):.2f} to {max(was):.2f}" if was else "not measured",
                f"{min(found):.2f} to {max(found):.2f}",
                "yes" if flat == len(found) else f"{flat} of {len(found)}",
            )
        )
    return table(("wanted", "before", "now", "met"), lines)


def _then_now(row: Row, baseline: str, before: Mapping[str, Row]) -> str:
    then = before.get(row.key)
    now = row.ratios.get(baseline)
    old = then.ratios.get(baseline) if then else None
    if now is None:
        return f"{amount(row)}" if row.value.runs else "given up"
    text = f"{now.median:.3g}"
    if old is not None:
        return f"{old.median:.3g} → {text}"
    return f"given up → {text}" if then is not None else text


def matrix(rows: Sequence[Row], baseline: str, before: Mapping[str, Row]) -> str:
    """Names down, cases across."""
    chosen = [row for row in rows if baseline in row.ratios]
    places = list(dict.fromkeys((row.case, row.size) for row in chosen))
    at = {(row.name, row.case, row.size): row for row in chosen}
    sizes = {size for _, size in places}
    header = [case if len(sizes) == 1 else f"{case}, {size}" for case, size in places]
    lines = [
        (
            name,
            *(
                _then_now(at[name, case, size], baseline, before)
                if (name, case, size) in at
                else ""
                for case, size in places
            ),
        )
        for name in dict.fromkeys(row.name for row in chosen)
    ]
    return table((f"x {baseline}", *header), lines)


def whole(rows: Sequence[Row], before: Mapping[str, Row]) -> str:
    """The pipeline: time and memory of each graph."""
    memory = {(row.case, row.size): row for row in rows if row.name == "optimize, memory"}
    lines: list[tuple[str, ...]] = []
    for row in rows:
        if row.name != "optimize":
            continue
        then, more = before.get(row.key), memory.get((row.case, row.size))
        times = amount(row) if then is None else f"{amount(then)} → {amount(row)}"
        beside = amount(more) if more else ""
        if more and "the module" in more.ratios:
            beside += f", {more.ratios['the module'].median:.2g}x"
        place = f"{row.case}, {row.ops}"
        lines.append((place, times, _then_now(row, "stock verify", before), beside))
    return table(("graph, ops", "time", "x stock verify", "memory, x the module"), lines)


def commands(rows: Sequence[Row], before: Mapping[str, Row]) -> str:
    """Start-up: milliseconds, and above bare Python."""

    def both(row: Row, text: Callable[[Row], str]) -> str:
        then = before.get(row.key)
        return text(row) if then is None else f"{text(then)} → {text(row)}"

    lines = [
        (
            row.name,
            both(row, amount),
            both(row, lambda each: each.note),
            _then_now(row, "xDSL core", before) if "xDSL core" in row.ratios else "",
        )
        for row in rows
    ]
    return table(("command", "processor time", "above bare Python", "x xDSL core"), lines)


def models(rows: Sequence[Row], before: Mapping[str, Row]) -> str:
    """Real models: our steps, multiples of others, what is left."""
    cases = list(dict.fromkeys(row.case for row in rows))
    at = {(row.case, row.name): row for row in rows}
    others = list(
        dict.fromkeys(
            name for row in rows if row.name == "from file to file" for name in row.ratios
        )
    )
    lines: list[tuple[str, ...]] = []
    for case in cases:
        steps = (at[case, name] for name in ("load", "optimize", "save"))
        whole = at[case, "from file to file"]
        lines.append(
            (
                case,
                " + ".join(f"{1e3 * row.value.median:.0f}" for row in steps) + " ms",
                _then_now(at[case, "optimize"], others[0], before),
                *(
                    _then_now(whole, name, before) if name in whole.ratios else ""
                    for name in others
                ),
                amount(at[case, "memory"]),
            )
        )
    header = (
        "model",
        "load, optimize, save",
        f"optimize x {others[0]}",
        *(f"file to file x {name}" for name in others),
        "memory",
    )
    left = "\n".join(f"- {case}: {at[case, 'from file to file'].note}" for case in cases)
    return f"{table(header, lines)}\n\nNodes / Q and DQ between ops that each leaves:\n\n{left}"


def profile(rows: Sequence[Row]) -> str:
    """Shares of owners and functions, by what was optimized."""
    parts: list[str] = []
    for case in dict.fromkeys(row.case for row in rows):
        found = [row for row in rows if row.case == case]
        lines = [
            (row.name, f"{100 * next(iter(row.ratios.values())).median:.1f} %") for row in found
        ]
        parts.append(table((case, "share"), lines))
    return "\n\n".join(parts)


def _told(title: str, run: Run) -> Iterator[str]:
    """A line for each commit that was measured, and on what."""
    sections: dict[str, set[str]] = {}
    for told in run.told:
        found = {row["section"] for row in told.get("rows", ())}
        sections.setdefault(told["commit"], set()).update(found)
    last = {told["commit"]: told for told in run.told}
    for commit, told in last.items():
        machine = ", ".join(str(value) for value in told["machine"].values())
        versions = ", ".join(f"{name} {version}" for name, version in told["versions"].items())
        what = f" ({', '.join(sorted(sections[commit]))})" if len(last) > 1 else ""
        yield f"- {title}{what}: commit {commit}, {told['when']} UTC; {machine}; {versions}"


def _parts(now: Run, before: Run) -> Iterator[str]:
    known: Mapping[str, Row] = {row.key: row for row in before.rows}

    def of(section: str) -> list[Row]:
        return [row for row in now.rows if row.section == section]

    yield "\n".join((*_told("before", before), *_told("now", now)))
    yield "## What was wanted\n\n" + goals(now.rows, before.rows)
    if found := of("startup"):
        yield "## Start-up\n\n" + commands(found, known)
    if found := of("text"):
        yield "## Text and module files"
        for baseline in dict.fromkeys(name for row in found for name in row.ratios):
            yield matrix(found, baseline, known)
    if found := [row for row in of("passes") if row.watched]:
        yield "## The optimizing pipeline\n\n" + whole(found, known)
        largest = max(row.size for row in found)
        each = [row for row in found if row.size == largest and row.unit == "s"]
        yield f"Each pass, all its positions together, on graphs of {largest} ops:"
        yield matrix(each, "stock verify", known)
    if found := of("table"):
        largest = max(row.size for row in found)
        yield f"## Every pass alone\n\nOn fresh graphs of {largest} ops:"
        yield matrix([row for row in found if row.size == largest], "stock verify", known)
    if found := of("models"):
        yield "## Real models\n\n" + models(found, known)
    if exponents := grown(now.rows):
        yield "## Growth\n\nTime grows as ops to the power of:\n\n" + exponents
    if found := of("profile"):
        yield "## Where the time goes\n\n" + profile(found)


def write(page: Path, now: Run, before: Run, entries: Sequence[Entry]) -> None:
    """The page and its pictures, which are beside it."""
    pictures = [page.with_name(f"{page.stem}-{name}.png") for name in ("growth", "history")]
    bench_draw.growth(now.rows, before.rows, pictures[0])
    if len(entries) > 1:
        bench_draw.history(entries, pictures[1])
    said = ("time for each op over the size of the graph", "how ratios went, run by run")
    shown = [
        f"![{text}]({path.name})"
        for text, path in zip(said, pictures, strict=True)
        if path.exists()
    ]
    document.put(page, "bench", "\n\n".join((*shown, *_parts(now, before))))

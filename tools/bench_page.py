"""What a benchmark's figures look like: tables of rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from bench_rows import Row, Spread, growth
from progress import table


def amount(row: Row) -> str:
    """The figure itself: for each op where it is of ops, else as a whole."""
    value = row.value.median
    if not row.value.runs:
        return f"more than {value:.0f} s"
    if row.unit == "bytes":
        return f"{value / 1024 / row.ops:.2f} KB/op" if row.ops else f"{value / 2**20:.1f} MB"
    return f"{1e6 * value / row.ops:.2f} µs/op" if row.ops else f"{1e3 * value:.1f} ms"


def multiple(ratio: Spread | None) -> str:
    """A ratio and its quartiles."""
    if ratio is None:
        return ""
    text = f"{ratio.median:.3g}"
    return text if ratio.runs == 1 else f"{text} ({ratio.low:.3g} to {ratio.high:.3g})"


def baselines(rows: Iterable[Row]) -> list[str]:
    return list(dict.fromkeys(name for row in rows for name in row.ratios))


def by_case(rows: Iterable[Row]) -> dict[tuple[str, str, int], list[Row]]:
    """Rows by section, case and size."""
    found: dict[tuple[str, str, int], list[Row]] = {}
    for row in rows:
        found.setdefault((row.section, row.case, row.size), []).append(row)
    return found


def full(rows: Sequence[Row]) -> str:
    """Every figure, a table for each case."""
    parts: list[str] = []
    for (section, case, size), found in by_case(rows).items():
        names = baselines(found)
        title = f"{section}: {case}" + (f", {found[0].ops} ops" if size else "")
        header = (title, "", *(f"x {name}" for name in names), "runs", "")
        lines = [
            (
                row.name,
                amount(row),
                *(multiple(row.ratios.get(name)) for name in names),
                str(row.value.runs),
                row.note,
            )
            for row in found
        ]
        parts.append(table(header, lines))
    return "\n\n".join(parts)


def grown(rows: Sequence[Row]) -> str:
    """Growth exponents, a column for each case."""
    found = growth(row for row in rows if row.watched)
    split = {tuple(key.split("/", 2)): value for key, value in found.items()}
    parts: list[str] = []
    for section in dict.fromkeys(key[0] for key in split):
        cases = list(dict.fromkeys(key[1] for key in split if key[0] == section))
        names = list(dict.fromkeys(key[2] for key in split if key[0] == section))
        lines = [
            (name, *(_exponent(split.get((section, case, name))) for case in cases))
            for name in names
        ]
        parts.append(table((section, *cases), lines))
    return "\n\n".join(parts)


def _exponent(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"

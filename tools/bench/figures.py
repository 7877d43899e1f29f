"""Figures of a benchmark as tables and as JSON, and what became worse between two runs.

Only runs on the same kind of machine are compared, and only ratios: to what was measured in the
same rounds. Seconds of another day say little.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

import qdialect
from tests.support.tables import table
from tools.bench.rows import Row, Spread, growth

VERSION = 1
TOLERANCE = 0.1
"""Relative change that is never a regression."""
OURS = ("our text", "the module", "the file")
"""Baselines that are our own, or no cost: what is compared with them is no better or worse."""
PACKAGES = ("xdsl", "numpy", "onnx", "onnxruntime", "protobuf")


# -- of a run ---------------------------------------------------------------------------------


def machine() -> dict[str, str | int]:
    """What kind of machine this is; runs on other kinds are not compared."""
    name = platform.processor()
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        name = next(line.partition(":")[2].strip() for line in lines if "model name" in line)
    except (OSError, StopIteration):
        pass
    version = ".".join(platform.python_version_tuple()[:2])
    return {
        "system": f"{platform.system()} {platform.machine()}",
        "processor": name,
        "processors": os.cpu_count() or 1,
        "python": f"{platform.python_implementation()} {version}",
    }


def versions() -> dict[str, str]:
    """What is installed."""
    found = {"qdialect": qdialect.__version__, "python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def commit() -> str:
    """The commit of the package that is measured, and "+" if files were changed since."""
    folder = Path(qdialect.__file__).parent

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(folder), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    try:
        changed = git("status", "--porcelain", "--untracked-files=no", "--", str(folder))
        return git("rev-parse", "--short=10", "HEAD") + ("+" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def write(path: Path, rows: Sequence[Row]) -> None:
    """All figures so far: a long run that ends early has them."""
    figures = {
        "version": VERSION,
        "commit": commit(),
        "when": time.strftime("%Y-%m-%d %H:%M", time.gmtime()),
        "machine": machine(),
        "versions": versions(),
        "rows": [asdict(row) for row in rows],
    }
    path.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


def load(path: Path) -> dict[str, Any]:
    """The figures of an earlier run as they were written, `rows` as `Row`s."""
    found = json.loads(path.read_text(encoding="utf-8"))
    if found.get("version") != VERSION:
        raise SystemExit(f"{path}: not figures of this benchmark (version {VERSION})")
    for row in found["rows"]:
        row["value"] = Spread(**row["value"])
        row["ratios"] = {name: Spread(**ratio) for name, ratio in row["ratios"].items()}
    found["rows"] = [Row(**row) for row in found["rows"]]
    return found


# -- two runs ---------------------------------------------------------------------------------


class Change(NamedTuple):
    """A ratio then and now."""

    key: str
    then: Spread
    now: Spread

    @property
    def factor(self) -> float:
        """Now over then."""
        return self.now.median / self.then.median if self.then.median else 1.0

    @property
    def margin(self) -> float:
        """Relative change that is within the noise: half of both spreads, and a bit."""
        apart = sum(
            (each.high - each.low) / 2 / each.median
            for each in (self.then, self.now)
            if each.median
        )
        return max(apart, TOLERANCE)

    @property
    def worse(self) -> bool:
        """Whether it takes longer now, beyond the noise."""
        return self.factor > 1 + self.margin

    @property
    def better(self) -> bool:
        """Whether it takes less now, beyond the noise."""
        return self.factor < 1 / (1 + self.margin)

    def __str__(self) -> str:
        return f"{self.key}: {self.then.median:.3g} → {self.now.median:.3g} ({self.factor:.2f}x)"


def compared(rows: Iterable[Row]) -> dict[str, Spread]:
    """The ratios that runs are compared by: not those to costs of our own."""
    return {
        f"{row.key} / {baseline}": ratio
        for row in rows
        if row.watched
        for baseline, ratio in row.ratios.items()
        if baseline not in OURS
    }


def changes(then: Iterable[Row], now: Iterable[Row]) -> Iterator[Change]:
    """What both have measured."""
    known = compared(then)
    for key, ratio in compared(now).items():
        if key in known:
            yield Change(key, known[key], ratio)


def report_changes(rows: Sequence[Row], path: Path) -> bool:
    """Print what became worse and better since the run of a file; whether something became
    worse."""
    then = load(path)
    if then["machine"] != machine():
        print(f"nothing to compare with: {path} is of another kind of machine")
        return False
    found = list(changes(then["rows"], rows))
    worse = [change for change in found if change.worse]
    better = [change for change in found if change.better]
    print(f"against {then['commit']} of {then['when']}: {len(found)} ratios")
    for title, some in (("worse", worse), ("better", better)):
        print(f"{title}: {len(some) or 'none'}")
        for change in sorted(some, key=lambda change: change.factor, reverse=title == "worse"):
            print(f"  {change}")
    return bool(worse)


# -- tables -----------------------------------------------------------------------------------


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


def tables(rows: Iterable[Row]) -> str:
    """Every figure, a table for each case."""
    cases: dict[tuple[str, str, int], list[Row]] = {}
    for row in rows:
        cases.setdefault((row.section, row.case, row.size), []).append(row)
    parts: list[str] = []
    for (section, case, size), found in cases.items():
        names = list(dict.fromkeys(name for row in found for name in row.ratios))
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


def growth_tables(rows: Sequence[Row]) -> str:
    """Exponents with which time grows in the number of ops, a column for each case."""
    found = growth(row for row in rows if row.watched and row.unit == "s")
    split = {tuple(key.split("/", 2)): value for key, value in found.items()}
    parts: list[str] = []
    for section in dict.fromkeys(key[0] for key in split):
        cases = list(dict.fromkeys(key[1] for key in split if key[0] == section))
        names = list(dict.fromkeys(key[2] for key in split if key[0] == section))
        exponents = [[split.get((section, case, name)) for case in cases] for name in names]
        lines = [
            (name, *("" if value is None else f"{value:.2f}" for value in row))
            for name, row in zip(names, exponents, strict=True)
        ]
        parts.append(table((section, *cases), lines))
    return "\n\n".join(parts)


def page(rows: Sequence[Row]) -> str:
    """All tables, and what they are of, as part of a page."""
    libraries = [f"{name} {version}" for name, version in versions().items()]
    of = f"Commit {commit()}; {', '.join(map(str, machine().values()))}; {', '.join(libraries)}."
    watched = [row for row in rows if row.watched]
    parts = [of, tables(watched)]
    if exponents := growth_tables(rows):
        parts += ["Time grows as ops to the power of:", exponents]
    return "\n\n".join(parts)

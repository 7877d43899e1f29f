"""The history of a benchmark: ratios of earlier runs, and what became worse since.

A history is a file of one JSON object per line, the oldest first: commit, time, kind of
machine, versions, and the ratios by key. Times are not kept: they say little a year later.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

import qdialect
from bench_rows import Row, Spread, growth

TOLERANCE = 0.1
"""Relative change that is never a regression."""
TOLD = ("commit", "when", "machine", "versions")
"""What is said of a run, beside its figures."""
OURS = ("our text", "the module", "the file")
"""Baselines that are our own, or no cost: what is compared with them is no better or worse."""
PACKAGES = ("xdsl", "numpy", "onnx", "onnxruntime", "protobuf")


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
    """What was installed."""
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


@dataclass(frozen=True)
class Entry:
    """One run in a history."""

    commit: str
    when: str
    machine: Mapping[str, Any]
    versions: Mapping[str, str]
    ratios: Mapping[str, Spread]
    growth: Mapping[str, float] = field(default_factory=dict[str, float])

    @staticmethod
    def of(rows: Sequence[Row]) -> Entry:
        ratios = {
            f"{row.key} / {baseline}": ratio
            for row in rows
            if row.watched
            for baseline, ratio in row.ratios.items()
            if baseline not in OURS
        }
        grown = growth(row for row in rows if row.watched and row.unit == "s")
        when = time.strftime("%Y-%m-%d %H:%M", time.gmtime())
        return Entry(commit(), when, machine(), versions(), ratios, grown)

    def alike(self, other: Entry) -> bool:
        """Whether both are of the same kind of machine."""
        return self.machine == other.machine

    def line(self) -> str:
        held = asdict(self)
        held["ratios"] = {
            key: [float(f"{x:.4g}") for x in (r.median, r.low, r.high)] + [r.runs]
            for key, r in self.ratios.items()
        }
        held["growth"] = {key: round(value, 3) for key, value in self.growth.items()}
        return json.dumps(held)

    @staticmethod
    def read(line: str) -> Entry:
        held = json.loads(line)
        held["ratios"] = {key: Spread(*values) for key, values in held["ratios"].items()}
        return Entry(**held)


def read(path: Path) -> list[Entry]:
    """All runs of a history, the oldest first."""
    if not path.exists():
        return []
    entries: list[Entry] = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        try:
            entries.append(Entry.read(line))
        except (ValueError, TypeError, KeyError) as error:
            raise SystemExit(f"{path}:{number}: not a run of a history: {error}") from None
    return entries


def append(path: Path, entry: Entry) -> None:
    """Add a run; one of the same commit and the same kind of machine makes way for it."""
    kept = [e for e in read(path) if (e.commit, e.machine) != (entry.commit, entry.machine)]
    text = "".join(each.line() + "\n" for each in (*kept, entry))
    path.write_text(text, encoding="utf-8")


@dataclass(frozen=True)
class Change:
    """A ratio then and now."""

    key: str
    then: Spread
    now: Spread

    @property
    def factor(self) -> float:
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
        return self.factor > 1 + self.margin

    @property
    def better(self) -> bool:
        return self.factor < 1 / (1 + self.margin)

    def __str__(self) -> str:
        return f"{self.key}: {self.then.median:.3g} → {self.now.median:.3g} ({self.factor:.2f}x)"


def last_alike(entries: Iterable[Entry], now: Entry) -> Entry | None:
    """The last run of another commit on the same kind of machine."""
    alike = (e for e in entries if e.alike(now) and e.commit != now.commit)
    return max(alike, key=lambda entry: entry.when, default=None)


def changes(then: Entry, now: Entry) -> Iterator[Change]:
    """What both have measured."""
    for key, ratio in now.ratios.items():
        if key in then.ratios:
            yield Change(key, then.ratios[key], ratio)

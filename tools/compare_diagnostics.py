"""Compares what `qopt-opt` and mlir-opt 22 say about invalid inputs: message, line and column.

Each file is split at `// -----`. Of each piece the errors are compared, then all notes with
them. Prints the pieces that differ (`--show`) and the shares that agree.

    python -m tools.compare_diagnostics tests/verify/invalid/*.pieces --show

`--record` writes what mlir-opt says to `FILE.expected`, which the tests compare ours with.
"""

from __future__ import annotations

import argparse
import io
import re
import subprocess
import sys
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import NamedTuple

from qdialect.engines.tools import command

FLAGS = ("--split-input-file", "--allow-unregistered-dialect")
_HEAD = re.compile(r"(?:[^:\n]*):(\d+):(\d+): (error|warning|note|remark): (.*)")
_NO_PLACE = re.compile(r"(?:[^:\n]*: )?(error|warning|note|remark): (.*)")


class Said(NamedTuple):
    """One diagnostic: its place in the file (0:0 without one), kind and whole text."""

    line: int
    column: int
    kind: str
    text: str

    def __str__(self) -> str:
        return f"{self.line}:{self.column}: {self.kind}: {self.text}"


def said_by_upstream(path: Path) -> list[Said]:
    """What mlir-opt says about the pieces of a file."""
    done = subprocess.run(
        [command("mlir-opt", "mlir"), *FLAGS, str(path), "-o", "/dev/null"],
        capture_output=True,
        text=True,
        check=False,
    )
    return diagnostics(done.stderr)


def said_by_us(path: Path) -> list[Said]:
    """What `qopt-opt` says about the pieces of a file."""
    from qdialect.cli.opt import main

    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        main([*FLAGS, str(path)])
    return diagnostics(err.getvalue())


def diagnostics(text: str) -> list[Said]:
    """The diagnostics in what a tool wrote to standard error, without the lines it quotes."""
    found: list[Said] = []
    lines: list[str] = []

    def finish() -> None:
        if len(lines) > 1 and re.fullmatch(r"\s*\^", lines[-1]):
            del lines[-2:]
        if found and lines:
            said = found[-1]
            found[-1] = said._replace(text="\n".join((said.text, *lines)))
        lines.clear()

    for line in text.splitlines():
        placed = _HEAD.fullmatch(line)
        bare = None if placed else _NO_PLACE.fullmatch(line)
        if placed:
            finish()
            row, column, kind, message = placed.groups()
            found.append(Said(int(row), int(column), kind, message))
        elif bare:
            finish()
            found.append(Said(0, 0, *bare.groups()))
        else:
            lines.append(line)
    finish()
    return found


def by_piece(path: Path, said: Sequence[Said]) -> list[list[Said]]:
    """The diagnostics of each piece; those without a place belong to that of the one before."""
    text = path.read_text(encoding="utf-8")
    starts = [n for n, line in enumerate(text.split("\n"), 1) if line.startswith("// -----")]
    pieces: list[list[Said]] = [[] for _ in range(len(starts) + 1)]
    piece = 0
    for entry in said:
        if entry.kind != "note" and entry.line:
            piece = sum(start < entry.line for start in starts)
        pieces[piece].append(entry)
    return pieces


def expected(path: Path) -> list[Said]:
    """What was recorded of mlir-opt for a file."""
    recorded = path.with_suffix(".expected").read_text(encoding="utf-8")
    found: list[Said] = []
    for line in recorded.splitlines():
        place, kind, text = line.split(": ", 2)
        row, column = map(int, place.split(":"))
        found.append(Said(row, column, kind, text.replace("\\n", "\n")))
    return found


def record(path: Path, said: Sequence[Said]) -> None:
    """Keep what mlir-opt said."""
    lines = [str(entry).replace("\n", "\\n") for entry in said]
    path.with_suffix(".expected").write_text("".join(f"{x}\n" for x in lines), encoding="utf-8")


def errors(said: Sequence[Said]) -> list[Said]:
    """Without notes."""
    return [entry for entry in said if entry.kind != "note"]


def main(argv: Sequence[str] | None = None) -> int:
    """Compare on the files named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--show", action="store_true", help="print the pieces that differ")
    parser.add_argument("--record", action="store_true", help="write FILE.expected")
    args = parser.parse_args(argv)
    names = ("pieces", "rejected", "messages", "lines", "columns", "all")
    counts: dict[str, int] = dict.fromkeys(names, 0)
    for path in args.files:
        theirs = said_by_upstream(path)
        if args.record:
            record(path, theirs)
        ours = said_by_us(path)
        for number, (a, b) in enumerate(
            zip(by_piece(path, theirs), by_piece(path, ours), strict=True), 1
        ):
            x, y = errors(a), errors(b)
            same = {
                "pieces": True,
                "rejected": bool(x) == bool(y),
                "messages": [e.text for e in x] == [e.text for e in y],
                "lines": [e.line for e in x] == [e.line for e in y],
                "columns": [e[:2] for e in x] == [e[:2] for e in y],
                "all": a == b,
            }
            for name, holds in same.items():
                counts[name] += holds
            if args.show and not same["all"]:
                print(f"--- {path.name} piece {number}")
                print("\n".join(f"  - {entry}" for entry in a))
                print("\n".join(f"  + {entry}" for entry in b))
    total = counts["pieces"]
    for name, count in counts.items():
        print(f"{name:9} {count:4} {100 * count / max(total, 1):5.1f} %")
    return 0


if __name__ == "__main__":
    sys.exit(main())

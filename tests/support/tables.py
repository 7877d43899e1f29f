"""What programs print: steps and how long they took, tables, and tables put into pages."""

from __future__ import annotations

import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def step(text: str) -> Generator[None]:
    """Say on standard error how long a step of the work took; on a terminal, that it goes on."""
    start = time.perf_counter()
    if sys.stderr.isatty():
        from rich.console import Console

        with Console(stderr=True).status(text):
            yield
    else:
        yield
    print(f"  {text}  {time.perf_counter() - start:.1f} s", file=sys.stderr, flush=True)


def table(header: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """A table that reads well as it is and as Markdown: text left, figures right."""
    lines = [header, *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]

    def row(cells: tuple[str, ...]) -> str:
        first, *others = zip(cells, widths, strict=True)
        aligned = [first[0].ljust(first[1]), *(text.rjust(width) for text, width in others)]
        return f"| {' | '.join(aligned)} |"

    dashes = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
    return "\n".join([row(header), f"| {' | '.join(dashes)} |", *map(row, rows)])


def put(path: Path, name: str, text: str) -> None:
    """Put a text between its two marks in a document."""
    begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
    document = path.read_text(encoding="utf-8")
    if begin not in document or end not in document:
        raise SystemExit(f"{path}: no place for the table ({begin} to {end})")
    before, rest = document.split(begin, 1)
    after = rest.split(end, 1)[1]
    path.write_text(f"{before}{begin}\n\n{text}\n\n{end}{after}", encoding="utf-8")

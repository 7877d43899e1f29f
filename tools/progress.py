"""Progress on a terminal, plain lines elsewhere; always on standard error."""

from __future__ import annotations

import sys
import time
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def step(text: str) -> Generator[None]:
    """Announce a step of the work, and how long it took when it is done."""
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

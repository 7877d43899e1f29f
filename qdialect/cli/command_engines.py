"""`qopt engines`."""

from __future__ import annotations

from qdialect.cli.flags import Arguments, write
from qdialect.cli.terminal import OK, table
from qdialect.engines.installed import engines


def run(args: Arguments) -> int:
    """The command; returns the exit code."""
    rows = [("engine", "state")]
    for engine in engines():
        missing = engine.missing()
        rows.append((engine.name, f"missing: {missing}" if missing else "ready"))
    write(table(rows))
    return OK

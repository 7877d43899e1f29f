"""`qopt engines`."""

from __future__ import annotations

from qdialect.cli.flags import Arguments, write
from qdialect.cli.terminal import OK, table
from qdialect.engines.installed import how_to_install, missing
from qdialect.engines.table import ENGINES


def run(args: Arguments) -> int:
    """The command; returns the exit code."""
    rows = [("engine", "what it is", "state")]
    for name, entry in ENGINES.items():
        absent = missing(name)
        state = f"needs {absent}: {how_to_install(name)}" if absent else "ready"
        rows.append((name, entry.summary, state))
    write(table(rows))
    return OK

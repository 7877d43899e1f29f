"""`qopt engines`."""

from __future__ import annotations

import sys
from typing import Any

from qdialect.cli.flags import Arguments, write, write_json
from qdialect.cli.terminal import OK, table
from qdialect.engines.installed import how_to_install, missing
from qdialect.engines.table import ENGINES


def run(args: Arguments) -> int:
    """The command; returns the exit code."""
    rows = [("engine", "what it is", "state")]
    told: list[dict[str, Any]] = []
    for name, entry in ENGINES.items():
        absent = missing(name)
        install = how_to_install(name) if absent else None
        state = f"needs {absent}: {install}" if absent else "ready"
        rows.append((name, entry.summary, state))
        told.append(
            {
                "name": name,
                "summary": entry.summary,
                "ready": not absent,
                "missing": absent,
                "install": install,
            }
        )
    if args.switch("json"):
        write_json({"version": 1, "engines": told})
    else:
        write(table(rows, stream=sys.stdout, heading=True))
    return OK

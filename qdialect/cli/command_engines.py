"""`qopt engines` and `qopt engines install`."""

from __future__ import annotations

import sys
from typing import Any

from qdialect.cli.flags import Arguments, write, write_json
from qdialect.cli.terminal import OK, say, table
from qdialect.engines.installed import how_to_install, install, missing
from qdialect.engines.table import ENGINES, PACKAGES
from qdialect.errors import UsageError, did_you_mean


def run(args: Arguments) -> int:
    """The command; returns the exit code."""
    rows = [("engine", "what it is", "state")]
    entries: list[dict[str, Any]] = []
    for name, entry in ENGINES.items():
        absent = missing(name)
        how = how_to_install(name) if absent else None
        state = f"needs {absent}: {how}" if absent else "ready"
        rows.append((name, entry.summary, state))
        entries.append(
            {
                "name": name,
                "summary": entry.summary,
                "ready": not absent,
                "missing": absent,
                "install": how,
            }
        )
    if args.switch("json"):
        write_json({"version": 1, "engines": entries})
    else:
        write(table(rows, stream=sys.stdout, heading=True))
    return OK


def run_install(args: Arguments) -> int:
    """`qopt engines install`; returns the exit code."""
    (name,) = args.positional
    known = (*PACKAGES, *ENGINES, "all")
    if name not in known and (hint := did_you_mean(name, known)):
        raise UsageError(f"nothing to install for '{name}'{hint}", code="unknown-engine")
    names = list(PACKAGES) if name == "all" else [name]
    for each in names:
        install(each, say)
    if args.switch("json"):
        write_json({"version": 1, "installed": names})
    return OK

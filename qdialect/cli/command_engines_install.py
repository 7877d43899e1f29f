"""`qopt engines install`."""

from __future__ import annotations

import sys

from qdialect.cli.flags import Arguments, write_json
from qdialect.cli.terminal import OK
from qdialect.engines.installed import install
from qdialect.engines.table import ENGINES, PACKAGES
from qdialect.errors import UsageError, did_you_mean


def run(args: Arguments) -> int:
    """The command; returns the exit code."""
    (name,) = args.positional
    known = (*PACKAGES, *ENGINES, "all")
    if name not in known and (hint := did_you_mean(name, known)):
        raise UsageError(f"nothing to install for '{name}'{hint}", code="unknown-engine")
    wanted = list(PACKAGES) if name == "all" else [name]
    for each in wanted:
        install(each, lambda text: print(text, file=sys.stderr))
    if args.switch("json"):
        write_json({"version": 1, "installed": wanted})
    return OK

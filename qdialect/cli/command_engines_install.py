"""`qopt engines install`."""

from __future__ import annotations

import sys

from qdialect.cli.flags import Arguments
from qdialect.cli.terminal import OK
from qdialect.engines.installed import install
from qdialect.engines.table import PACKAGES


def run(args: Arguments) -> int:
    """The command; returns the exit code."""
    (name,) = args.positional
    for each in PACKAGES if name == "all" else (name,):
        install(each, lambda text: print(text, file=sys.stderr))
    return OK

"""`qopt completion`."""

from __future__ import annotations

from qdialect.cli import opt, translate
from qdialect.cli.completion import SHELLS, script
from qdialect.cli.flags import Arguments, write
from qdialect.cli.qopt import COMMANDS
from qdialect.cli.terminal import OK
from qdialect.errors import UsageError, did_you_mean
from qdialect.passes import PASSES
from qdialect.targets.installed import list_targets


def run(args: Arguments) -> int:
    """The command; returns the exit code."""
    (shell,) = args.positional
    if shell not in SHELLS:
        hint = did_you_mean(shell, SHELLS)
        raise UsageError(f"completion is for {', '.join(SHELLS)}, not '{shell}'{hint}")
    programs = {
        "qopt": list(COMMANDS.values()),
        "qopt-opt": [opt.COMMAND],
        "qopt-translate": [translate.COMMAND],
    }
    targets = " ".join(sorted(list_targets()))
    values = {
        "target": targets,
        "show-target": targets,
        "pass-pipeline": " ".join(sorted(PASSES)),
        "fail-on": "B1 B2 B3 B4 B5 B6 B7",
    }
    write(script(shell, programs, values))
    return OK

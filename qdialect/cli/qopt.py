"""`qopt`: commands for people with a model; `.onnx` and `.mlir` are accepted everywhere.

This file answers `--help`; each command's work is in its own file, imported when it runs.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module

from qdialect.cli.flags import parse, run_with_plugins, write
from qdialect.cli.opt import version_line
from qdialect.cli.terminal import OK, guarded, indented, table
from qdialect.errors import UsageError, did_you_mean


def main(argv: Sequence[str] | None = None) -> int:
    """The console script."""
    return guarded(_run, argv)


def _run(argv: Sequence[str]) -> int:
    name = argv[0] if argv else "--help"
    if name in ("-h", "--help", "help"):
        write(_overview())
        return OK
    if name in ("-v", "--version"):
        write(version_line("qopt"))
        return OK
    from qdialect.cli.commands import COMMANDS  # it has the engines of all plug-ins

    rest = argv[1:]
    if rest and f"{name} {rest[0]}" in COMMANDS:
        name, rest = f"{name} {rest[0]}", rest[1:]
    if name not in COMMANDS:
        hint = did_you_mean(name, COMMANDS)
        raise UsageError(f"unknown command '{name}'{hint}", notes=("see qopt --help",))
    command = COMMANDS[name]
    args = parse(command, rest)
    if args.switch("help"):
        write(command.help())
        return OK
    module, _, action = name.replace("-", "_").partition(" ")
    function = f"run_{action}" if action else "run"
    run = getattr(import_module(f"qdialect.cli.command_{module}"), function)
    return run_with_plugins(run, args)


def _overview() -> str:
    from qdialect.cli.commands import COMMANDS

    rows = [
        (" ".join((c.name, *c.arguments)), c.summary.replace("\n", " ")) for c in COMMANDS.values()
    ]
    return (
        "usage: qopt COMMAND ...\n\n"
        "Models, .onnx or .mlir: quantize, optimize, inspect, run, compare, calibrate.\n\n"
        f"{indented(table(rows, stream=sys.stdout))}\n"
        "qopt COMMAND --help tells the flags of a command.\n"
        "Exit codes: 0 done, 1 wrong input or failed check, 2 wrong command line, 70 our bug.\n"
    )


if __name__ == "__main__":
    sys.exit(main())

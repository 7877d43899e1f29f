"""`qopt completion`: what makes a shell complete our commands, by shtab.

The words are written into the script, so that the shell needs no Python while one types. Names
of passes and targets are those that are installed when the script is made.
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from qdialect.cli import opt, translate
from qdialect.cli.commands import COMMANDS
from qdialect.cli.flags import Arguments, Command, write
from qdialect.cli.terminal import OK
from qdialect.errors import UsageError, did_you_mean
from qdialect.passes import PASSES
from qdialect.targets.installed import list_targets

SHELLS = ("bash", "zsh", "fish")

Values = Mapping[str, Sequence[str]]
"""The words that a flag takes, by the flag's name."""


def run(args: Arguments) -> int:
    """The command; returns the exit code."""
    (shell,) = args.positional
    if shell not in SHELLS:
        hint = did_you_mean(shell, SHELLS)
        raise UsageError(f"completion is for {', '.join(SHELLS)}, not '{shell}'{hint}")
    try:
        import shtab
    except ImportError:
        raise UsageError(
            "completion needs shtab",
            code="missing-package",
            notes=(f"{Path(sys.executable).name} -m pip install 'qdialect[completion]'",),
        ) from None
    targets = sorted(list_targets())
    values: Values = {
        "target": targets,
        "show-target": targets,
        "pass-pipeline": sorted(PASSES),
        "fail-on": [f"B{number}" for number in range(1, 8)],
    }
    parsers = [_qopt(values), *(_parser(c, values) for c in (opt.COMMAND, translate.COMMAND))]
    write("\n".join(shtab.complete(parser, shell) for parser in parsers))
    return OK


def _qopt(values: Values) -> ArgumentParser:
    """All commands of `qopt`; a command of two words is one in that of the first."""
    root = ArgumentParser("qopt", add_help=False)
    commands = root.add_subparsers()
    for name, command in COMMANDS.items():
        if " " in name:
            continue
        inner = {n.partition(" ")[2]: c for n, c in COMMANDS.items() if n.startswith(f"{name} ")}
        parser = commands.add_parser(name, help=_line(command), add_help=False)
        if inner:
            actions = parser.add_subparsers()
            for action, one in inner.items():
                _fill(actions.add_parser(action, help=_line(one), add_help=False), one, values)
        _fill(parser, command, values)
    return root


def _line(command: Command) -> str:
    return " ".join(command.summary.split())


def _parser(command: Command, values: Values) -> ArgumentParser:
    parser = ArgumentParser(command.name, add_help=False)
    _fill(parser, command, values)
    return parser


def _fill(parser: ArgumentParser, command: Command, values: Values) -> None:
    """Add the arguments and flags of a command, for completion only."""
    from shtab import FILE

    for name in command.arguments:
        nargs = "+" if name.endswith("...") else "?"
        argument = parser.add_argument(name.strip("[.]").lower(), nargs=nargs)
        argument.complete = FILE  # pyright: ignore[reportAttributeAccessIssue]
    for flag in command.flags:
        takes: dict[str, Any] = {"action": "store_true"}
        if flag.kind == "value":
            takes = {"choices": flag.choices or values.get(flag.name)}
        action = parser.add_argument(*flag.spellings(), help=flag.help, **takes)
        if flag.kind == "value" and not action.choices:
            action.complete = FILE  # pyright: ignore[reportAttributeAccessIssue]

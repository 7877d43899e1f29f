"""A program with subcommands, each a module of its own that is imported when it is called."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import NamedTuple


class Subcommand(NamedTuple):
    """Where a subcommand is and what it does; its `main` takes the arguments after its name."""

    module: str
    summary: str


def usage(program: str, summary: str, commands: Mapping[str, Subcommand]) -> str:
    """What a program says of itself: a line for each subcommand."""
    width = max(map(len, commands))
    lines = [f"  {name:{width}}  {command.summary}" for name, command in commands.items()]
    return "\n".join([f"usage: python -m {program} COMMAND ...", "", summary, "", *lines])


def run(
    program: str,
    summary: str,
    commands: Mapping[str, Subcommand],
    arguments: Sequence[str] | None = None,
) -> int:
    """Calls the subcommand that the arguments name: its exit code, 2 if there is none."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    if not given or given[0] not in commands:
        help_asked = bool(given) and given[0] in ("-h", "--help")
        print(usage(program, summary, commands), file=sys.stdout if help_asked else sys.stderr)
        return 0 if help_asked else 2
    name, *rest = given
    sys.argv[0] = f"python -m {program} {name}"  # what argparse calls the program
    return import_module(commands[name].module).main(rest) or 0

"""The flags of a command as a table, and the parser of command lines that goes by it.

Flags are spelled as mlir-opt spells them: one or two dashes are the same for long flags, a
switch may be followed by `=true` or `=false`, and a value that may be left out follows `=`.
argparse has none of these, so that each argument would have to be rewritten before it sees it;
it also takes 8 ms of the 40 of `--help` (2 to import, 6 for 45 flags). Only completion builds its
parsers (`cli.completion`). Errors are UsageErrors that say what was meant.

A flag is declared by `switch`, `value` or `optional`, with all its names in one string, the
canonical one first: `value("o output-file", "OUT", "where to write the result")`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from qdialect.cli.terminal import indented, table
from qdialect.errors import UsageError, did_you_mean

_BOOLEANS = {"true": True, "1": True, "false": False, "0": False}


class Flag(NamedTuple):
    """A flag: its names without dashes, and what it takes.

    A `switch` takes nothing, or `=true` / `=false`; a `value` needs a value; an
    `optional` has one only after `=`.
    """

    names: tuple[str, ...]
    kind: Literal["switch", "value", "optional"]
    help: str
    metavar: str = ""
    default: bool = False
    choices: tuple[str, ...] = ()
    writes: bool = False
    """Whether its value is a file to write."""

    @property
    def name(self) -> str:
        """The canonical name."""
        return self.names[0]

    def spellings(self) -> list[str]:
        """The flag as one types it, by each of its names."""
        return [("-" if len(name) == 1 else "--") + name for name in self.names]

    def usage(self) -> str:
        """The flag as the help shows it."""
        shown = ", ".join(self.spellings())
        if self.kind == "value":
            return f"{shown}{'=' if len(self.names[-1]) > 1 else ' '}{self.metavar}"
        return f"{shown}[={self.metavar}]" if self.kind == "optional" else shown

    def description(self) -> str:
        """What it does, and the values it takes."""
        return f"{self.help}: {', '.join(self.choices)}" if self.choices else self.help


def switch(names: str, help: str, *, default: bool = False) -> Flag:
    """A flag without a value."""
    return Flag(tuple(names.split()), "switch", help, default=default)


def value(
    names: str, metavar: str, help: str, *, choices: Sequence[str] = (), writes: bool = False
) -> Flag:
    """A flag with a value."""
    return Flag(tuple(names.split()), "value", help, metavar, False, tuple(choices), writes)


def optional(names: str, metavar: str, help: str, *, writes: bool = False) -> Flag:
    """A flag whose value may be left out."""
    return Flag(tuple(names.split()), "optional", help, metavar, writes=writes)


class Command(NamedTuple):
    """A command line: its flags and how many positional arguments it takes."""

    name: str
    summary: str
    flags: tuple[Flag, ...]
    arguments: tuple[str, ...] = ()
    """Names of the positional arguments; `[X]` may be left out, `X...` is repeated."""
    notes: str = ""
    takes_passes: bool = False
    """Whether `--PASS` and `--PASS='option=value'` name passes to run, as in mlir-opt."""

    def usage(self) -> str:
        """The line that a wrong command line is answered with."""
        return f"usage: {self.name} {' '.join((*self.arguments, '[flags]'))}"

    def help(self) -> str:
        """The text of `--help`."""
        rows = [(flag.usage(), flag.description()) for flag in self.flags]
        flags = indented(table(rows, stream=sys.stdout))
        notes = f"\n{self.notes}\n" if self.notes else ""
        return f"{self.usage()}\n\n{self.summary}\n\nflags:\n{flags}{notes}"


class Arguments:
    """The parsed command line; flags by canonical name."""

    def __init__(self, command: Command) -> None:
        self.command = command
        self.flags: dict[str, list[bool | str]] = {}
        self.positional: list[str] = []
        self.passes: list[str] = []
        """What `--PASS` flags name, in their order, each as text of a pipeline."""

    def switch(self, name: str) -> bool:
        """Whether a switch is on."""
        return self.last(name) is True

    def text(self, name: str) -> str | None:
        """The last value given to a flag."""
        value = self.last(name)
        return value if isinstance(value, str) else None

    def texts(self, name: str) -> list[str]:
        """All values given to a flag."""
        return [value for value in self.flags.get(name, []) if isinstance(value, str)]

    def has(self, name: str) -> bool:
        """Whether the command line has a flag, with or without a value."""
        return name in self.flags

    def last(self, name: str) -> bool | str:
        """The last value of a flag, else its default."""
        found = self.flags.get(name)
        if found:
            return found[-1]
        return next(flag.default for flag in self.command.flags if flag.name == name)

    def extents(self, name: str) -> dict[str, int]:
        """The values of a repeatable flag as numbers by name: NAME=N, N at least 1."""
        found: dict[str, int] = {}
        for text in self.texts(name):
            symbol, equals, number = text.rpartition("=")
            if not equals or not symbol or not number.isdecimal() or int(number) < 1:
                raise UsageError(f"--{name} takes NAME=N with N at least 1, not '{text}'")
            found[symbol] = int(number)
        return found

    def integer(self, name: str, default: int, minimum: int = 0) -> int:
        """A flag's value as an integer of at least `minimum`."""
        value = self.text(name)
        if value is None:
            return default
        if not value.isdecimal() or int(value) < minimum:
            raise UsageError(f"--{name} takes an integer of at least {minimum}, not '{value}'")
        return int(value)

    def number(self, name: str, default: float) -> float:
        """A flag's value as a number."""
        value = self.text(name)
        try:
            return default if value is None else float(value)
        except ValueError:
            raise UsageError(f"--{name} takes a number, not '{value}'") from None


VERIFY_NUMERICS = optional(
    "verify-numerics",
    "N",
    "after each pass compare before and after on N random inputs (default 1); a difference "
    "that no contract allows is traced to one rewrite, and a reduced program written",
)
NUMERICS_INPUTS = value(
    "numerics-inputs", "X.npz", "--verify-numerics also on these inputs, by name"
)


def parse(command: Command, argv: Sequence[str]) -> Arguments:
    """Read a command line; UsageError when it is wrong."""
    by_name = {name: flag for flag in command.flags for name in flag.names}
    result = Arguments(command)
    pending = list(reversed(argv))
    named: list[tuple[str, str]] = []
    while pending:
        argument = pending.pop()
        if argument == "--":
            result.positional.extend(reversed(pending))
            break
        if not argument.startswith("-") or argument == "-":
            result.positional.append(argument)
            continue
        name, equals, value = argument.lstrip("-").partition("=")
        flag = by_name.get(name)
        if flag is None:
            if not command.takes_passes:
                raise _unknown(command, by_name, argument, name)
            result.passes.append(f"{name}{{{value}}}" if equals else name)
            named.append((argument, name))
            continue
        result.flags.setdefault(flag.name, []).append(
            _value(flag, argument, value if equals else None, pending)
        )
    for argument, name in named:
        if not _is_pass(name, result.texts("load-plugin")):
            raise _unknown(command, by_name, argument, name)
    if not result.has("help"):
        _check_count(command, result.positional)
        _check_written(result)
    return result


def _check_written(args: Arguments) -> None:
    """UsageError if a file to write is one of those to read."""
    written = [flag.name for flag in args.command.flags if flag.writes]
    if not written or args.switch(FORCE.name):
        return
    read = [*args.positional, *(t for n in args.flags if n not in written for t in args.texts(n))]
    for name in (text for flag in written for text in args.texts(flag)):
        if any(_are_one_file(name, source) for source in read):
            raise UsageError(
                f"'{name}' is read as well, and would be replaced: name another file to write, "
                f"or use --{FORCE.name}"
            )


def _are_one_file(one: str, other: str) -> bool:
    try:
        return os.path.isfile(one) and os.path.samefile(one, other)
    except (OSError, ValueError):
        return False


def _value(flag: Flag, argument: str, value: str | None, pending: list[str]) -> bool | str:
    shown = argument.partition("=")[0]
    if flag.kind == "switch":
        if value is not None and value.lower() not in _BOOLEANS:
            raise UsageError(f"{shown} takes no value, or true or false, not '{value}'")
        return True if value is None else _BOOLEANS[value.lower()]
    if value is None:
        if flag.kind == "optional":
            return True
        if not pending:
            raise UsageError(f"{shown} needs a value ({flag.metavar})")
        value = pending.pop()
    if flag.choices and value not in flag.choices:
        hint = did_you_mean(value, flag.choices)
        raise UsageError(f"{shown} is one of {', '.join(flag.choices)}, not '{value}'{hint}")
    return value


def _unknown(command: Command, by_name: Mapping[str, Flag], argument: str, name: str) -> UsageError:
    from qdialect.passes import PASSES

    shown = argument.partition("=")[0]
    hint = did_you_mean(name, [*by_name, *(PASSES if command.takes_passes else ())], "--")
    return UsageError(f"unknown flag '{shown}'{hint}", notes=(f"see {command.name} --help",))


def _is_pass(name: str, plugins: Sequence[str]) -> bool:
    from qdialect.passes import PASSES

    if name in PASSES:
        return True
    from qdialect.pipeline.plugins import Plugins

    return Plugins(plugins).registry().knows(name)


def _check_count(command: Command, positional: Sequence[str]) -> None:
    required = [name for name in command.arguments if not name.startswith("[")]
    if len(positional) < len(required):
        raise UsageError(f"{required[len(positional)]} is missing", notes=(command.usage(),))
    repeated = any(name.endswith("...") for name in command.arguments)
    if len(positional) > len(command.arguments) and not repeated:
        extra = positional[len(command.arguments)]
        raise UsageError(f"unexpected argument '{extra}'", notes=(command.usage(),))


QUANT_TEXT = value(
    "quant-text",
    "VERSION",
    "MLIR release that quant types are spelled for (default: v22, or v24 for what v22 lacks)",
    choices=("v22", "v24"),
)
EMIT_BYTECODE = switch("emit-bytecode", "write MLIR bytecode, as with a FILE.mlirbc")
BYTECODE_VERSION = value(
    "emit-bytecode-version",
    "N",
    "version of the bytecode to write (default: 4, or 6 where 4 would lose properties)",
    choices=tuple(map(str, range(7))),
)
OUTPUT = value("o output-file", "FILE", "write to FILE instead of standard output", writes=True)
DIMS = (
    value("dim", "NAME=N", "a symbolic extent of the inputs is this number; repeatable"),
    value(
        "typical-dim",
        "NAME=N",
        "price a symbolic extent as this number (default: 1 in a first dimension, 128 in others); "
        "repeatable",
    ),
)
REPORT = value("report", "R.html", "write a page to look at, one file for any browser", writes=True)
LOAD_PLUGIN = value("load-plugin", "MODULE", "import MODULE: dialects, passes, behaviors")
FORCE = switch("force", "let the result replace a file that is read")
JSON = switch("json", "what is said, as JSON on standard output")
HELP = switch("help h", "show this help and exit")
VERSION = switch("version v", "show the version and exit")


def run_with_plugins(run: Callable[[Arguments], int], args: Arguments) -> int:
    """The exit code of `run`, all of whose sessions have the plug-ins that `args` name."""
    names = args.texts(LOAD_PLUGIN.name)
    if not names:
        return run(args)
    from qdialect.pipeline.plugins import loaded

    with loaded(names):
        return run(args)


def write(text: str) -> None:
    """Text to standard output."""
    sys.stdout.write(text)


def are_weights_inline(args: Arguments) -> bool:
    """Whether weights go into the text: as the flag says, else in text for other tools, which know
    no store of ours."""
    if args.has("inline-weights"):
        return args.switch("inline-weights")
    return args.switch("mlir-print-op-generic") or args.has("quant-text")


def is_bytecode_requested(args: Arguments) -> bool:
    """Whether flags ask for bytecode, by their name or by that of the file."""
    from qdialect.plugins.mlir.bytecode.layout import SUFFIX

    return args.switch("emit-bytecode") or (args.text("o") or "").endswith(SUFFIX)


def bytecode_version(args: Arguments) -> int | None:
    """The version of bytecode that flags ask for."""
    return args.integer("emit-bytecode-version", 0) if args.has("emit-bytecode-version") else None


def write_binary(pieces: Iterable[bytes | memoryview]) -> None:
    """Bytes to standard output; UsageError where that is a terminal."""
    if sys.stdout.isatty():
        raise UsageError("bytecode is binary: give -o FILE")
    sys.stdout.buffer.writelines(pieces)


def write_json(data: Any) -> None:
    """Plain data to standard output; what is no number, or has no end, is null."""
    import json

    from qdialect.report.plain import finite

    write(json.dumps(finite(data), indent=1, allow_nan=False) + "\n")

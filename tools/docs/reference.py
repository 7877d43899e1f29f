"""The reference pages, made from the definitions: dialects, passes, targets, commands.

`pages` makes `dialects.md`, `passes.md`, `targets.md` and `commands.md`. Nothing is written by
hand, so that nothing can be left out: `tests/tools/test_docs_site.py` compares them with the
tables.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Sequence
from importlib import import_module
from typing import Any

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Attribute, Operation
from xdsl.irdl import IRDLOperation

from qdialect.cli import opt, translate
from qdialect.cli.commands import COMMANDS
from qdialect.cli.flags import Command
from qdialect.ir.behaviors import BehaviorRegistry
from qdialect.ir.behaviors.describe import described
from qdialect.ir.context import new_context
from qdialect.ir.dialects import load
from qdialect.passes import PASSES
from qdialect.plugins.mlir.lsp import main as language_server
from qdialect.targets.describe import description
from qdialect.targets.installed import get_target, list_targets
from tools.docs import pass_examples

DIALECTS = ("nn", "quant")
"""The dialects whose ops are described; others are exchange formats."""


def pages() -> dict[str, str]:
    """All pages by file name."""
    return {
        "dialects.md": dialects_page(),
        "passes.md": passes_page(),
        "targets.md": targets_page(),
        "commands.md": commands_page(),
    }


# -- dialects ----------------------------------------------------------------------


def ops_of(name: str) -> list[type[IRDLOperation]]:
    """The ops of a dialect of ours, by name."""
    found: list[type[IRDLOperation]] = []
    for op in load(name)().operations:
        if issubclass(op, IRDLOperation):
            found.append(op)
    return sorted(found, key=lambda op: op.name)


def dialects_page() -> str:
    registry = new_context().behaviors
    lines = ["# Dialects", "", "Made from the definitions of the ops.", ""]
    for name in DIALECTS:
        ops = ops_of(name)
        lines += [f"## The dialect `{name}`", "", f"{len(ops)} ops.", ""]
        for op in ops:
            lines += _op(op, registry)
    return "\n".join(lines)


def _op(op: type[IRDLOperation], registry: BehaviorRegistry) -> list[str]:
    definition: Any = op.get_irdl_definition()
    lines = [f"### `{op.name}`", "", *_prose(op), ""]
    values = [("operand", n, d) for n, d in definition.operands]
    values += [("result", n, d) for n, d in definition.results]
    rows = [(kind, f"`{name}`", _count(d)) for kind, name, d in values]
    rows += [("property", f"`{name}`", _property(d)) for name, d in definition.properties.items()]
    if rows:
        lines += [*_table(("", "name", "what"), rows), ""]
    behavior = registry.named(op.name)
    if behavior is None:
        lines += ["No declared behavior: passes that ask for one leave it alone.", ""]
    else:
        lines += [*_table(("behavior", ""), described(behavior)), ""]
    return lines


def _count(definition: Any) -> str:
    name = type(definition).__name__
    return "any number" if name.startswith("Var") else "optional" if "Opt" in name else "one"


def _property(definition: Any) -> str:
    name = _attribute_name(definition.constr)
    default = definition.default_value
    if default is not None:
        return f"{name}, default `{_spelled(default)}`"
    return f"{name}, optional" if type(definition).__name__.startswith("Opt") else name


def _attribute_name(constraint: Any) -> str:
    """The kind of attribute a constraint asks for."""
    for field in ("base_attr", "attr"):
        found = getattr(constraint, field, None)
        if isinstance(found, type) and issubclass(found, Attribute):
            return found.__name__
        if isinstance(found, Attribute):
            return f"`{found}`"
    inner = getattr(constraint, "constraint", None) or getattr(constraint, "constr", None)
    if inner is not None:
        return _attribute_name(inner)
    several: Iterable[Any] = getattr(constraint, "attr_constrs", ())
    return " or ".join(map(_attribute_name, several)) or "attribute"


def _spelled(value: Attribute) -> str:
    return f'"{value.data}"' if isinstance(value, StringAttr) else str(value)


def _prose(thing: type[Operation]) -> list[str]:
    text = inspect.getdoc(thing) if "__doc__" in vars(thing) else None
    return [line.replace("<", "&lt;") for line in (text or "").splitlines()]


# -- passes ----------------------------------------------------------------------


def passes_page() -> str:
    lines = [
        "# Passes",
        "",
        "Options, and what its file says; the IR before and after is from its lit test.",
        "",
    ]
    for entry in sorted(PASSES.values(), key=lambda entry: entry.name):
        module = import_module(entry.where.partition(":")[0])
        lines += [f"## `{entry.name}`", "", f"{_plain(entry.summary)}", ""]
        if entry.options:
            rows = [
                (f"`{name}`", kind, f"`{default}`" if default else "", _plain(what))
                for name, kind, default, what in entry.options
            ]
            lines += [*_table(("option", "type", "default", "what"), rows), ""]
        documentation = module.__doc__ or ""
        lines += _docstring(documentation)
        if not pass_examples.IN_DOCSTRING.search(documentation):
            lines += pass_examples.example(entry.name)
    return "\n".join(lines)


def _docstring(text: str) -> list[str]:
    """A docstring as Markdown: paragraphs, and what is indented as IR or as a formula."""
    lines: list[str] = []
    for part in re.split(r"\n{2,}(?=\S)|(?<=\S)\n\n(?= {4})", inspect.cleandoc(text)):
        if part.startswith("    "):
            language = "mlir" if re.search(r"^    (%\w+ = |func\.)", part, re.M) else "text"
            lines += [f"```{language}", *inspect.cleandoc(part).splitlines(), "```", ""]
        elif part.startswith("|"):
            lines += [*part.splitlines(), ""]
        else:
            lines += [_prose_of(part), ""]
    return lines


def _prose_of(text: str) -> str:
    """Text that Markdown shows as it is, but for what is in backticks."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(part if part.startswith("`") else _plain(part) for part in parts)


# -- targets ----------------------------------------------------------------------


def targets_page() -> str:
    lines = ["# Targets", ""]
    for name in sorted(list_targets()):
        target = get_target(name)
        lines += [f"## `{name}`", "", _plain(target.summary), ""]
        rows = [(_plain(what), _plain(how)) for what, how in description(target)]
        lines += [*_table(("what", "how"), rows), ""]
    return "\n".join(lines)


# -- commands ----------------------------------------------------------------------


def commands() -> list[Command]:
    """Every command of ours."""
    return [*COMMANDS.values(), opt.COMMAND, translate.COMMAND, language_server.COMMAND]


def commands_page() -> str:
    lines = ["# Commands", "", "Long flags take one or two dashes.", ""]
    for command in commands():
        lines += [
            f"## `{command.name}`",
            "",
            _plain(" ".join(command.summary.split())),
            "",
            "```text",
            command.usage(),
            "```",
            "",
        ]
        rows = [
            (
                f"`{flag.usage()}`",
                _plain(flag.help) + (f": {', '.join(flag.choices)}" if flag.choices else ""),
            )
            for flag in command.flags
        ]
        lines += [*_table(("flag", "what"), rows), ""]
        if command.notes:
            lines += [_plain(command.notes), ""]
    return "\n".join(lines)


# -- text ----------------------------------------------------------------------


def _plain(text: str) -> str:
    """Text that Markdown shows as it is."""
    for mark in "\\*_<[":
        text = text.replace(mark, f"\\{mark}")
    return text


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    lines = [f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}"]
    return lines + [
        f"| {' | '.join(cell.replace('|', '&#124;') for cell in row)} |" for row in rows
    ]

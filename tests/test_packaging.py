"""The package is what its metadata and its pages say: version, commands, passes, size."""

from __future__ import annotations

import dataclasses
import inspect
import re
import shlex
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

import pytest

import qdialect
from qdialect.cli.commands import COMMANDS
from qdialect.passes import PASSES, PassEntry, load

ROOT = Path(__file__).parents[1]

ENTRY_POINT_GROUPS = ("console_scripts", "pygments.lexers", "xdsl.universe", "qdialect.targets")


def our_entry_points() -> list[metadata.EntryPoint]:
    found = metadata.distribution("qdialect").entry_points
    return [point for point in found if point.group in ENTRY_POINT_GROUPS]


def test_one_version() -> None:
    assert metadata.version("qdialect") == qdialect.__version__


def test_every_group_is_announced() -> None:
    assert {point.group for point in our_entry_points()} == set(ENTRY_POINT_GROUPS)


@pytest.mark.parametrize("point", our_entry_points(), ids=lambda point: point.name)
def test_entry_point_loads(point: metadata.EntryPoint) -> None:
    assert point.load() is not None


def spelled(default: Any) -> str:
    """A default value as the table spells it."""
    return str(default).lower() if isinstance(default, bool) else str(default)


def annotated(hint: Any) -> str:
    """The type of an option as the table spells it: the values of a choice, or a type."""
    if get_origin(hint) is Literal:
        return "|".join(get_args(hint))
    return inspect.formatannotation(hint)


@pytest.mark.parametrize("entry", PASSES.values(), ids=lambda entry: entry.name)
def test_pass_is_what_the_table_says(entry: PassEntry) -> None:
    implementation = load(entry.name)()
    hints = get_type_hints(implementation)
    declared = {name: (kind, default) for name, kind, default, _ in entry.options}
    actual = {
        field.name: (annotated(hints[field.name]), spelled(field.default))
        for field in dataclasses.fields(implementation)
    }
    assert implementation.name == entry.name
    assert actual == declared


@pytest.mark.parametrize("entry", PASSES.values(), ids=lambda entry: entry.name)
def test_pass_is_documented(entry: PassEntry) -> None:
    assert entry.summary
    assert inspect.getdoc(load(entry.name)())


def pages() -> list[Path]:
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def console_lines() -> list[tuple[str, str]]:
    """(page, command) of every `$ ...` line of our own commands."""
    lines = [
        (page.name, found.group(1))
        for page in pages()
        for found in re.finditer(r"^\$ (qopt.*?)(?:\s+#.*)?$", page.read_text("utf-8"), re.M)
    ]
    return list(dict.fromkeys(lines))


def help_of(command: list[str]) -> str:
    """The help of a command; `qopt` has one for each word, or two, that may follow it."""
    name, words = command[0], command[1:2] if command[0] == "qopt" else []
    if " ".join(command[1:3]) in COMMANDS:
        words = command[1:3]
    program = Path(sys.executable).with_name(name)
    done = subprocess.run(
        [program, *words, "--help"], capture_output=True, text=True, check=True, timeout=60
    )
    return done.stdout


@pytest.mark.parametrize(("page", "line"), console_lines())
def test_flags_in_the_pages_exist(page: str, line: str) -> None:
    command = shlex.split(line)
    known = set(re.findall(r"(?<!\w)--?[a-z][\w-]*", help_of(command)))
    known |= {f"--{name}" for name in PASSES}  # as in mlir-opt, which `--list-passes` names
    used = {word.partition("=")[0] for word in command[1:] if word.startswith("-")}
    assert used <= known, page


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8"))
    assert [link for link in links if not (page.parent / link).exists()] == []

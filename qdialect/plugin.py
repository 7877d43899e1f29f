"""What a format brings: a declaration that names its code and imports none of it.

A package declares its plug-in under the entry-point group `qdialect.plugins`, as ours do:

    tosa = "qdialect.plugins.tosa:PLUGIN"

Code is named as `module:attribute` and imported when it is first used.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

from qdialect.errors import QError, culprit

GROUP = "qdialect.plugins"


@dataclass(frozen=True)
class Engine:
    """What runs models or programs: `made_by` is `module:class`. An engine with an `environment` is
    made of commands, that `qopt engines install` puts there; one with an `extra` is a package of
    this Python."""

    summary: str
    made_by: str
    environment: str = ""
    extra: str = ""


@dataclass(frozen=True, kw_only=True)
class Plugin:
    """One format."""

    name: str
    dialects: Mapping[str, str] = field(default_factory=dict[str, str])
    """By the name of the dialect, its `xdsl.ir.Dialect`."""
    kernels: Sequence[str] = ()
    """Tables of how the interpreter runs ops of its dialects, by the name of the op."""
    kept: Mapping[str, str] = field(default_factory=dict[str, str])
    """By the name of an op that stands for one that is kept as a file had it, the kernel that runs
    it in an engine of the format."""
    engines: Mapping[str, Engine] = field(default_factory=dict[str, Engine])
    environments: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """What `qopt engines install` installs, each in an environment of its own (pins clash)."""
    imports: Mapping[str, str] = field(default_factory=dict[str, str])
    """By the name of a dialect, the passes after which a module in it is in `nn` and `quant`."""
    exports: str = ""
    """A sequence of `qdialect.plugins.common.exports.Export`: what a network can be written in."""
    prices: Mapping[str, Path] = field(default_factory=dict[str, Path])
    """By the name of a target, the file with its measured prices."""


def named(where: str) -> Any:
    """What `module:attribute` names."""
    module, _, attribute = where.partition(":")
    return getattr(import_module(module), attribute)


def plugins() -> tuple[Plugin, ...]:
    """The declared plug-ins by name, without those that cannot be loaded."""
    return declared()[0]


def check_plugins() -> None:
    """QError (`bad-plugin`) that names a declared plug-in that cannot be loaded."""
    for error in declared()[1]:
        raise error


@cache
def declared() -> tuple[tuple[Plugin, ...], tuple[QError, ...]]:
    """The plug-ins of this process, and why others are none; read once."""
    found, errors = list[Plugin](), list[QError]()
    for name, where in entries(GROUP):
        try:
            if ":" in where:  # the others are modules with UNIVERSE or register
                found.append(_plugin(name, where))
        except QError as error:
            errors.append(error)
    return tuple(found), tuple(errors)


def _plugin(name: str, where: str) -> Plugin:
    try:
        found = named(where)
    except (Exception, SystemExit) as error:
        raise QError(
            f"plug-in '{name}' ({where}) cannot be loaded: {culprit(error)}", code="bad-plugin"
        ) from error
    if not isinstance(found, Plugin):
        raise QError(f"plug-in '{name}': '{where}' is no qdialect Plugin", code="bad-plugin")
    return found


def entries(group: str) -> list[tuple[str, str]]:
    """Name and value of the entry points of a group, sorted. They are read from the files of the
    packages, since `importlib.metadata` takes 10 ms to import and to search."""
    found: dict[str, str] = {}
    try:
        for name, value in _in_files(group):
            found.setdefault(name, value)
    except NotADirectoryError:
        from importlib.metadata import entry_points

        found = {point.name: point.value for point in entry_points(group=group)}
    return sorted(found.items())


def _in_files(group: str) -> Iterator[tuple[str, str]]:
    """NotADirectoryError where packages may be in an archive, or where else a finder knows."""
    if any(hasattr(f, "find_distributions") and f is not PathFinder for f in sys.meta_path):
        raise NotADirectoryError
    for place in dict.fromkeys(sys.path):
        try:
            names = os.listdir(place or ".")
        except NotADirectoryError:
            raise
        except OSError:
            continue
        if place.endswith(".egg"):
            raise NotADirectoryError(place)
        for name in names:
            if name.endswith((".dist-info", ".egg-info")):
                yield from _of_package(os.path.join(place, name, "entry_points.txt"), group)


def _of_package(path: str, group: str) -> Iterator[tuple[str, str]]:
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except OSError:
        return
    _, header, rest = text.partition(f"[{group}]")
    for line in rest.partition("\n[")[0].splitlines() if header else ():
        name, equals, value = line.partition("=")
        if equals and not name.lstrip().startswith(("#", ";")):
            yield name.strip(), value.partition("[")[0].strip()

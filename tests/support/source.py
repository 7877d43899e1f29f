"""The package's own source as data: imports, circles of imports, docstrings, names, lines.

Everything is read from the source and nothing is imported, so an import inside a function or
under `TYPE_CHECKING` is seen as well as one at the top of a file.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "qdialect"


class Import(NamedTuple):
    """One imported module: by whom, on which line, and when it is imported."""

    importer: str
    line: int
    target: str
    lazy: bool
    """Inside a function or under `TYPE_CHECKING`."""
    for_types: bool
    """Under `TYPE_CHECKING`."""

    def __str__(self) -> str:
        return f"{self.importer}, line {self.line}, imports {self.target}"


class Definition(NamedTuple):
    """A function, method or class of the package that has a public name."""

    module: str
    name: str
    """With the classes around it: `Pass.apply`."""
    line: int
    documented: bool
    overrides: bool
    """A method of a class that has bases: the base's docstring may be the one to read."""


def module_name(path: Path) -> str:
    """`qdialect.ir.ops.base` for its file, `qdialect.ir.ops` for that of the package."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def part_of(module: str) -> str:
    """The first folder or file below the package, `ir` for `qdialect.ir.ops.base`; a plug-in is a
    part of its own, `plugins.tosa`."""
    pieces = module.split(".")[1:]
    return ".".join(pieces[: 2 if pieces[0] == "plugins" else 1]) if pieces else "__init__"


@cache
def trees() -> Mapping[str, ast.Module]:
    """The syntax tree of every module of the package, by its name; templates are data."""
    return {
        module_name(path): ast.parse(path.read_text(encoding="utf-8"), str(path))
        for path in sorted(PACKAGE.rglob("*.py"))
        if PACKAGE / "templates" not in path.parents
    }


def is_type_checking(node: ast.AST) -> bool:
    """Whether a statement is `if TYPE_CHECKING:`."""
    return isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")


def _is_module(name: str) -> bool:
    base = ROOT / Path(*name.split("."))
    return base.with_suffix(".py").is_file() or base.is_dir()


def _targets(node: ast.Import | ast.ImportFrom) -> Iterator[str]:
    """The modules one statement imports: `from a import b` is `a.b` where that is a module."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
        return
    assert node.module is not None, "relative import"
    for alias in node.names:
        submodule = f"{node.module}.{alias.name}"
        local = node.module.partition(".")[0] == "qdialect"
        yield submodule if local and _is_module(submodule) else node.module


def _imports(node: ast.AST, importer: str, lazy: bool, for_types: bool) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import | ast.ImportFrom):
            for target in _targets(child):
                yield Import(importer, child.lineno, target, lazy, for_types)
        else:
            types = for_types or is_type_checking(child)
            deferred = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)
            yield from _imports(child, importer, lazy or deferred or types, types)


@cache
def all_imports() -> tuple[Import, ...]:
    """Every import of every module of the package."""
    return tuple(i for name, tree in trees().items() for i in _imports(tree, name, False, False))


def import_graph() -> dict[str, set[str]]:
    """The modules of the package that each imports, whenever it does."""
    graph: dict[str, set[str]] = {name: set() for name in trees()}
    for found in all_imports():
        if found.target in graph and found.target != found.importer:
            graph[found.importer].add(found.target)
    return graph


def circles(graph: Mapping[str, Iterable[str]]) -> list[list[str]]:
    """The groups of nodes of which each reaches every other, the largest first (Tarjan 1972)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(node: str) -> None:
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in sorted(graph[node]):
            if other not in index:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], index[other])
        if low[node] == index[node]:
            at = stack.index(node)
            if len(stack) - at > 1:
                found.append(sorted(stack[at:]))
            del stack[at:]

    for node in sorted(graph):
        if node not in index:
            visit(node)
    return sorted(found, key=lambda group: (-len(group), group))


def _definitions(node: ast.AST, module: str, around: str, bases: bool) -> Iterator[Definition]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            if child.name.startswith("_") or "overload" in map(ast.unparse, child.decorator_list):
                continue
            name = f"{around}{child.name}"
            documented = ast.get_docstring(child) is not None
            yield Definition(module, name, child.lineno, documented, bases)
            if isinstance(child, ast.ClassDef):
                yield from _definitions(child, module, f"{name}.", bool(child.bases))
        elif isinstance(child, ast.If | ast.Try):
            yield from _definitions(child, module, around, bases)


def public_definitions() -> Iterator[Definition]:
    """Public functions and classes, and the public methods of public classes."""
    for name, tree in trees().items():
        yield from _definitions(tree, name, "", False)


def inherits_docstring(found: Definition) -> bool:
    """Whether a method overrides one that has a docstring: `help` shows that one. Imports it."""
    owner, _, method = found.name.rpartition(".")
    if not found.overrides:
        return False
    kind: object = import_module(found.module)
    for name in owner.split("."):
        kind = getattr(kind, name)
    assert isinstance(kind, type)
    bases = (vars(base).get(method) for base in kind.__mro__[1:] if base is not object)
    return any(getattr(member, "__doc__", None) for member in bases)


def promised() -> set[str]:
    """The documented methods of protocols: a class that has them repeats no docstring."""
    return {
        method.name
        for tree in trees().values()
        for kind in ast.walk(tree)
        if isinstance(kind, ast.ClassDef) and "Protocol" in map(ast.unparse, kind.bases)
        for method in kind.body
        if isinstance(method, ast.FunctionDef) and ast.get_docstring(method)
    }


def without_docstring() -> dict[str, list[str]]:
    """Of each room, the places of the public definitions without a docstring."""
    found: dict[str, list[str]] = {}
    protocols = promised()
    for one in public_definitions():
        owner, _, name = one.name.rpartition(".")
        inherits = inherits_docstring(one) or bool(owner and name in protocols)
        if not one.documented and not inherits:
            place = f"{one.module}:{one.line} {one.name}"
            found.setdefault(part_of(one.module), []).append(place)
    return found


def single_callers() -> list[str]:
    """Functions of modules whose name the package mentions once apart from the definition.

    Names are compared without their module, so a name that two modules define is left out:
    the list is for reading, and shorter than the truth.
    """
    defined: dict[str, list[str]] = {}
    mentioned: Counter[str] = Counter()
    for module, tree in trees().items():
        for child in tree.body:
            if isinstance(child, ast.FunctionDef):
                defined.setdefault(child.name, []).append(f"{module}.{child.name}")
        for node in ast.walk(tree):
            if isinstance(node, ast.Name):
                mentioned[node.id] += 1
            elif isinstance(node, ast.Attribute):
                mentioned[node.attr] += 1
    return sorted(
        places[0] for name, places in defined.items() if len(places) == 1 and mentioned[name] == 1
    )


def lines_by_folder() -> dict[str, tuple[int, int]]:
    """(files, lines) of Python: each room of the package, then tools, tests and the lit tests."""
    found: dict[str, tuple[int, int]] = {}
    for top, pattern in (("qdialect", "*.py"), ("tools", "*.py"), ("tests", "*.py")):
        for path in sorted((ROOT / top).rglob(pattern)):
            parts = path.relative_to(ROOT).parts
            key = "/".join(parts[:2]) if top == "qdialect" else top
            files, lines = found.get(key, (0, 0))
            found[key] = files + 1, lines + path.read_bytes().count(b"\n")
    return found

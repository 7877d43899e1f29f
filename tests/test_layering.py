"""Imports go one way.

Every import statement of the package is read from the source, those inside functions
and under `TYPE_CHECKING` included, and held against one table: what each part of the
package may import. A part may always import itself.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

import pytest

PACKAGE = Path(__file__).parents[1] / "qdialect"

_BASE = frozenset({"errors", "qparams", "numerics", "weights", "behaviors"})
_IR = _BASE | {"dialects", "quant", "ops", "verify", "context"}

MAY_IMPORT: dict[str, frozenset[str]] = {
    "errors": frozenset(),
    "qparams": frozenset({"errors"}),
    "numerics": frozenset({"errors", "qparams"}),
    "placement": frozenset(),
    "weights": frozenset({"errors", "qparams", "numerics"}),
    "behaviors": frozenset({"errors", "qparams"}),
    "dialects": frozenset({"errors"}),
    "quant": frozenset({"errors", "qparams", "numerics", "dialects"}),
    "ops": _BASE | {"dialects", "quant"},
    "verify": _BASE | {"dialects", "quant", "ops"},
    "targets": frozenset({"errors", "qparams", "numerics", "behaviors", "quant", "ops"}),
    "context": _BASE | {"dialects", "quant", "ops", "verify"},
    "reference": frozenset({"errors", "weights", "dialects", "quant", "ops", "verify", "context"}),
    "analysis": _IR | {"targets"},
    "rewrite": _IR | {"targets", "analysis"},
    "passes": _IR | {"targets", "analysis", "rewrite", "placement"},
    "lowerings": _IR | {"targets", "analysis", "rewrite", "passes"},
    "formats": _IR | {"targets"},
    "engines": _IR | {"reference", "formats"},
    "pipeline": _IR | {"targets", "analysis", "rewrite", "passes"},
    "profile": _IR | {"targets", "analysis", "reference", "formats"},
    "validation": _IR
    | {"targets", "analysis", "rewrite", "passes", "pipeline", "reference", "engines"},
    "report": _IR | {"targets", "analysis", "rewrite", "profile"},
    "syntax": frozenset(),
    "quantization": _IR | {"targets", "analysis", "rewrite", "reference", "profile"},
}
MAY_IMPORT["workflows"] = frozenset(MAY_IMPORT) - {"syntax"}
MAY_IMPORT["api"] = MAY_IMPORT["workflows"] | {"workflows"}
MAY_IMPORT["cli"] = MAY_IMPORT["api"] | {"api"}
"""What a part may import, wherever in a file the import stands."""

MODULES: dict[str, frozenset[str]] = {
    "qparams": frozenset({"qdialect.numerics.float_text"}),
    "reference": frozenset({"qdialect.qparams", "qdialect.numerics.rounding"}),
    "workflows": frozenset({"qdialect"}),
    "cli": frozenset({"qdialect"}),
}
"""Single modules a part may import besides. The package itself has the version. Float formats
are a leaf, and scales are held in one. The interpreter checks the numerics, so of them it uses
only the definition of rounding."""

LEAVES = ("qdialect.numerics.float_text", "qdialect.numerics.rounding")
"""Modules that import nothing of ours."""

ONLY_LAZILY: dict[str, frozenset[str]] = {
    "context": frozenset(
        {
            "qdialect.reference.values",
            "qdialect.lowerings.emitter",
            "qdialect.rewrite.error_bounds",
            "qdialect.rewrite.remarks",
            "qdialect.targets",
        }
    ),
}
"""Modules a part may import inside a function or for type checking only: a session makes
its default target and its remark log when somebody asks for them."""

MAY_IMPORT_ALL = frozenset({"universe", "__init__", "__main__"})

MODEL_LIBRARIES = frozenset({"onnx", "onnxruntime"})
MAY_USE_MODEL_LIBRARIES = ("qdialect.formats.onnx.read", "qdialect.formats.onnx.write")


class Import(NamedTuple):
    """One imported module: by whom, on which line, and whether at import time."""

    importer: str
    line: int
    target: str
    lazy: bool

    def __str__(self) -> str:
        return f"{self.importer}, line {self.line}, imports {self.target}"


def module_name(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def is_module(name: str) -> bool:
    base = PACKAGE.parent / Path(*name.split("."))
    return base.with_suffix(".py").is_file() or base.is_dir()


def targets_of(node: ast.Import | ast.ImportFrom) -> Iterator[str]:
    """The modules one statement imports: `from a import b` is `a.b` where that is a module."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
        return
    assert node.module is not None, "relative import"
    for alias in node.names:
        submodule = f"{node.module}.{alias.name}"
        ours = node.module.partition(".")[0] == "qdialect"
        yield submodule if ours and is_module(submodule) else node.module


def is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")


def imports_in(node: ast.AST, importer: str, lazy: bool = False) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import | ast.ImportFrom):
            for target in targets_of(child):
                yield Import(importer, child.lineno, target, lazy)
        else:
            deferred = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)
            yield from imports_in(child, importer, lazy or deferred or is_type_checking(child))


def all_imports() -> list[Import]:
    return [
        found
        for path in sorted(PACKAGE.rglob("*.py"))
        for found in imports_in(ast.parse(path.read_text(encoding="utf-8")), module_name(path))
    ]


def part_of(module: str) -> str:
    pieces = module.split(".")
    return pieces[1] if len(pieces) > 1 else "__init__"


def inside(module: str, packages: frozenset[str] | tuple[str, ...]) -> bool:
    return any(module == package or module.startswith(f"{package}.") for package in packages)


def allowed(found: Import) -> bool:
    source, target = part_of(found.importer), part_of(found.target)
    if source == target or source in MAY_IMPORT_ALL:
        return True
    return (
        target in MAY_IMPORT[source]
        or found.target in MODULES.get(source, ())
        or (found.lazy and inside(found.target, ONLY_LAZILY.get(source, frozenset())))
    )


IMPORTS = all_imports()


def test_every_part_has_a_rule() -> None:
    parts = {part_of(module_name(path)) for path in PACKAGE.rglob("*.py")}
    assert parts <= MAY_IMPORT.keys() | MAY_IMPORT_ALL


def test_the_table_has_no_cycle() -> None:
    settled: set[str] = set()
    while ready := {p for p, uses in MAY_IMPORT.items() if p not in settled and uses <= settled}:
        settled |= ready
    assert settled == MAY_IMPORT.keys()


@pytest.mark.parametrize("part", sorted(MAY_IMPORT.keys() | MAY_IMPORT_ALL))
def test_import_direction(part: str) -> None:
    ours = (i for i in IMPORTS if part_of(i.importer) == part and inside(i.target, ("qdialect",)))
    assert [str(found) for found in ours if not allowed(found)] == []


@pytest.mark.parametrize("leaf", LEAVES)
def test_leaves_import_nothing_of_ours(leaf: str) -> None:
    ours = (i for i in IMPORTS if i.importer == leaf and inside(i.target, ("qdialect",)))
    assert [str(found) for found in ours] == []


def test_model_libraries_stay_at_the_edge() -> None:
    wrong = [
        str(found)
        for found in IMPORTS
        if found.target.partition(".")[0] in MODEL_LIBRARIES
        and not inside(found.importer, MAY_USE_MODEL_LIBRARIES)
    ]
    assert wrong == []


@pytest.mark.parametrize("part", ["errors", "qparams", "numerics", "placement", "weights"])
def test_what_has_no_ir_does_not_import_xdsl(part: str) -> None:
    wrong = [
        str(found)
        for found in IMPORTS
        if part_of(found.importer) == part and found.target.partition(".")[0] == "xdsl"
    ]
    assert wrong == []


def cheap_modules() -> list[str]:
    """The package itself and the modules of the commands."""
    points = metadata.distribution("qdialect").entry_points.select(group="console_scripts")
    return ["qdialect", *sorted(point.module for point in points)]


@pytest.mark.parametrize("module", cheap_modules())
def test_help_does_not_wait_for_numpy(module: str) -> None:
    heavy = {"numpy", *MODEL_LIBRARIES}
    code = f"import sys, {module}; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "[]"

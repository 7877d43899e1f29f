"""Imports go one way.

Every import statement of the package is read from the source, those inside functions
and under `TYPE_CHECKING` included, and held against one table: what each part of the
package may import. A part may always import itself.
"""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from importlib import metadata

import pytest

from tests.support.source import Import, all_imports, circles, import_graph, part_of, trees

_BASE = frozenset({"errors", "qparams", "numerics", "weights", "behaviors"})
_IR = _BASE | {"dialects", "quant", "ops", "upstream", "verify", "context"}

MAY_IMPORT: dict[str, frozenset[str]] = {
    "children": frozenset(),
    "errors": frozenset(),
    "deprecation": frozenset(),
    "packages": frozenset({"errors"}),
    "qparams": frozenset({"errors"}),
    "numerics": frozenset({"errors", "qparams"}),
    "placement": frozenset(),
    "weights": frozenset({"errors", "qparams", "numerics"}),
    "behaviors": frozenset({"errors", "qparams"}),
    "dialects": frozenset({"errors"}),
    "quant": frozenset({"errors", "qparams", "numerics", "dialects"}),
    "ops": _BASE | {"dialects", "quant"},
    "upstream": frozenset({"errors", "dialects", "quant"}),
    "verify": _BASE | {"dialects", "quant", "ops", "upstream"},
    "targets": frozenset({"errors", "qparams", "numerics", "behaviors", "quant", "ops"}),
    "context": _BASE | {"dialects", "quant", "ops", "upstream", "verify"},
    "reference": frozenset(
        {"errors", "weights", "dialects", "quant", "ops", "upstream", "verify", "context"}
    ),
    "analysis": _IR | {"targets"},
    "rewrite": _IR | {"targets", "analysis"},
    "passes": _IR | {"targets", "analysis", "rewrite", "placement"},
    "lowerings": _IR | {"targets", "analysis", "rewrite", "passes"},
    "raising": _IR | {"targets", "analysis", "rewrite", "lowerings"},
    "formats": _IR | {"packages", "targets"},
    "engines": _IR | {"children", "reference", "formats"},
    "pipeline": _IR | {"targets", "analysis", "rewrite", "passes"},
    "profile": _IR | {"targets", "analysis", "reference", "formats"},
    "validation": _IR
    | {"targets", "analysis", "rewrite", "passes", "pipeline", "reference", "engines"},
    "report": _IR | {"targets", "analysis", "rewrite", "passes", "profile", "quantization"},
    "syntax": frozenset(),
    "quantization": _IR
    | {"targets", "analysis", "rewrite", "passes", "pipeline", "placement", "reference", "profile"},
}
MAY_IMPORT["workflows"] = frozenset(MAY_IMPORT) - {"syntax"}
MAY_IMPORT["api"] = MAY_IMPORT["workflows"] | {"workflows"}
MAY_IMPORT["cli"] = MAY_IMPORT["api"] | {"api"}
MAY_IMPORT["torch_backend"] = MAY_IMPORT["api"] | {"api"}
MAY_IMPORT["lsp"] = MAY_IMPORT["cli"] | {"cli"}
MAY_IMPORT["testing"] = MAY_IMPORT["cli"] | {"cli"}
"""What a part may import, wherever in a file the import stands."""

MODULES: dict[str, frozenset[str]] = {
    "formats": frozenset({"qdialect.engines.child", "qdialect.engines.model_child"}),
    "qparams": frozenset({"qdialect.algebra.float_text"}),
    "reference": frozenset({"qdialect.algebra.qparams", "qdialect.algebra.rounding"}),
    "workflows": frozenset({"qdialect"}),
    "cli": frozenset({"qdialect"}),
    "lsp": frozenset({"qdialect"}),
}
"""Single modules a part may import besides. The package itself has the version. Float formats
are a leaf, and scales are held in one. The interpreter checks the numerics, so of them it uses
only the definition of rounding. ONNX Runtime runs in the process that other engines run in."""

LEAVES = ("qdialect.algebra.float_text", "qdialect.algebra.rounding")
"""Modules that import nothing of ours."""

ONLY_LAZILY: dict[str, frozenset[str]] = {
    "context": frozenset(
        {
            "qdialect.interpreter.values",
            "qdialect.rewrite.error_bounds",
            "qdialect.rewrite.remarks",
            "qdialect.targets",
        }
    ),
}
"""Modules a part may import inside a function or for type checking only: a session makes
its default target and its remark log when somebody asks for them."""

MAY_IMPORT_ALL = frozenset({"universe", "__init__", "__main__"})

IN_CIRCLES: dict[str, int] = {"ops": 2}
"""How many files of a room may be in circles of imports: those that are left to undo. Imports
inside functions and under `TYPE_CHECKING` count."""

MODEL_LIBRARIES = frozenset({"onnx", "onnxruntime"})
MAY_USE_MODEL_LIBRARIES = ("qdialect.plugins.onnx.read", "qdialect.plugins.onnx.write")


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
    parts = {part_of(name) for name in trees()}
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


def files_in_circles() -> Counter[str]:
    """Of each room, how many files reach themselves through what they import."""
    return Counter(part_of(name) for group in circles(import_graph()) for name in group)


def test_files_do_not_import_each_other_in_circles() -> None:
    groups = [" ".join(group) for group in circles(import_graph())]
    more = {room: n for room, n in files_in_circles().items() if n > IN_CIRCLES.get(room, 0)}
    assert more == {}, "\n".join(groups)


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

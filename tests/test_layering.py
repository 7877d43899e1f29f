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

_BASE = frozenset({"errors", "plugin", "algebra"})
_RULES = _BASE | {"ir", "targets", "analysis", "rewrite", "passes"}

MAY_IMPORT: dict[str, frozenset[str]] = {
    "children": frozenset(),
    "errors": frozenset(),
    "deprecation": frozenset(),
    "packages": frozenset({"errors"}),
    "plugin": frozenset({"errors"}),
    "algebra": frozenset({"errors"}),
    "placement": frozenset(),
    "ir": _BASE,
    "targets": _BASE | {"ir"},
    "interpreter": frozenset({"errors", "plugin", "ir"}),
    "analysis": _BASE | {"ir", "targets"},
    "rewrite": _BASE | {"ir", "targets", "analysis"},
    "passes": _RULES - {"passes"} | {"placement"},
    "pipeline": _RULES,
    "engines": _BASE | {"children", "ir", "interpreter"},
    "quantizer": _RULES | {"placement", "pipeline", "interpreter"},
    "report": _RULES | {"quantizer"},
}
MAY_IMPORT["workflows"] = frozenset(MAY_IMPORT)
MAY_IMPORT["api"] = MAY_IMPORT["workflows"] | {"workflows"}
MAY_IMPORT["cli"] = MAY_IMPORT["api"] | {"api"}
MAY_IMPORT["testing"] = MAY_IMPORT["cli"] | {"cli"}
MAY_IMPORT["plugins"] = frozenset()
MAY_IMPORT["plugins.common"] = _RULES | {"interpreter"}
for _format in ("linalg", "mlir", "onnx", "stablehlo", "tflite", "torch", "tosa"):
    MAY_IMPORT[f"plugins.{_format}"] = MAY_IMPORT["cli"] | {"plugins.common"}
MAY_IMPORT["plugins.mlir"] |= {"cli"}
"""What a part may import, wherever in a file the import stands. No part of the core imports a
plug-in, and no plug-in another one."""

LEFT: dict[tuple[str, str], int] = {
    ("api", "plugins.torch"): 3,
    ("cli", "plugins.mlir"): 38,
    ("cli", "plugins.onnx"): 6,
    ("cli", "plugins.tflite"): 7,
    ("engines", "plugins.common"): 4,
    ("interpreter", "plugins.onnx"): 2,
    ("interpreter", "plugins.tflite"): 1,
    ("interpreter", "plugins.tosa"): 3,
    ("ir", "plugins.mlir"): 3,
    ("passes", "plugins.mlir"): 3,
    ("passes", "plugins.onnx"): 1,
    ("plugins.common", "plugins.mlir"): 3,
    ("plugins.common", "plugins.onnx"): 1,
    ("plugins.linalg", "plugins.mlir"): 3,
    ("plugins.linalg", "plugins.stablehlo"): 1,
    ("plugins.linalg", "plugins.tosa"): 8,
    ("plugins.mlir", "plugins.stablehlo"): 9,
    ("plugins.onnx", "plugins.torch"): 1,
    ("plugins.stablehlo", "plugins.mlir"): 2,
    ("plugins.stablehlo", "plugins.tosa"): 1,
    ("plugins.tflite", "plugins.mlir"): 1,
    ("plugins.tflite", "plugins.onnx"): 16,
    ("plugins.torch", "plugins.onnx"): 11,
    ("plugins.tosa", "plugins.mlir"): 2,
    ("quantizer", "plugins.onnx"): 8,
    ("targets", "plugins.onnx"): 1,
    ("workflows", "plugins.common"): 10,
    ("workflows", "plugins.mlir"): 8,
    ("workflows", "plugins.onnx"): 66,
    ("workflows", "plugins.tflite"): 43,
    ("workflows", "plugins.torch"): 8,
}
"""How many imports are left that the table does not allow. These numbers go down only."""

MODULES: dict[str, frozenset[str]] = {
    "interpreter": frozenset({"qdialect.algebra.qparams", "qdialect.algebra.rounding"}),
    "workflows": frozenset({"qdialect"}),
    "cli": frozenset({"qdialect"}),
    "plugins.mlir": frozenset({"qdialect"}),
}
"""Single modules a part may import besides. The package itself has the version. The interpreter
checks the algebra, so of it it uses only the definitions of qparams and of rounding."""

KERNELS = ("qdialect.algebra", "qdialect.analysis", "qdialect.rewrite", "qdialect.passes")
"""What the kernels of a plug-in may not import, but for `MODULES["interpreter"]`."""

LEAVES = ("qdialect.algebra.float_text", "qdialect.algebra.rounding")
"""Modules that import nothing of ours."""

ONLY_LAZILY: dict[str, frozenset[str]] = {
    "ir": frozenset(
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

IN_CIRCLES: dict[str, int] = {"ir": 2}
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


def test_import_direction() -> None:
    ours = [i for i in IMPORTS if inside(i.target, ("qdialect",)) and not allowed(i)]
    found = Counter((part_of(i.importer), part_of(i.target)) for i in ours)
    wrong = [str(i) for i in ours if (part_of(i.importer), part_of(i.target)) not in LEFT]
    assert wrong == []
    assert dict(found) == LEFT


def test_kernels_use_nothing_that_they_judge() -> None:
    wrong = [
        str(found)
        for found in IMPORTS
        if ".interpreter." in found.importer
        and inside(found.target, KERNELS)
        and not inside(found.target, MODULES["interpreter"])
    ]
    assert wrong == []


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


@pytest.mark.parametrize("part", ["errors", "plugin", "algebra", "placement"])
def test_what_has_no_ir_does_not_import_xdsl(part: str) -> None:
    wrong = [
        str(found)
        for found in IMPORTS
        if part_of(found.importer) == part and found.target.partition(".")[0] == "xdsl"
    ]
    assert wrong == []


def test_the_version_needs_no_plug_in() -> None:
    code = (
        "import sys; from qdialect.cli.qopt import main; main(['--version']); print(*sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert "qdialect.cli.qopt" in done.stdout
    assert "qdialect.plugins" not in done.stdout


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

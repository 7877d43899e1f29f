"""Imports go one way.

Every import statement of the package is read from the source, those inside functions
and under `TYPE_CHECKING` included, and held against one table: what modules of each role
may import. A role may always import itself.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from importlib import metadata

import pytest

from tests.support.source import Import, all_imports, circles, import_graph, part_of, trees

ROLES = (
    (r"plugins\.\w+$", "declarations"),
    (r"plugins\.\w+\.(interpreter|lowering|raising|passes|lsp|syntax|upstream)\b", r"\1"),
    (r"plugins\.\w+\.(dialect|iree_linalg_ext|enumerations|unranked|protobuf)\b", "dialects"),
    (r"plugins\.\w+\.numerics\b", "algebra"),
    (r"plugins\.\w+\.target", "targets"),
    (r"plugins\.(\w+\.engine(_node)?|common\.(tools|program))\b", "engines"),
    (r"plugins\.\w+\.exports?\b", "lowering"),
    (r"plugins\.(tflite\.(check|race|files)|torch\.(blocks|values))\b", "workflows"),
    (r"plugins\.onnx\.(bodies|alone|extents)\b", "workflows"),
    (r"plugins\.torch\.backend\b", "torch_backend"),
    (r"plugins\.", "formats"),
    (r"(ir|plugins)$", "declarations"),
    (r"algebra\.qparams\b", "qparams"),
    (r"ir\.(\w+)", r"\1"),
    (r"quantizer\.profile\b", "profile"),
    (r"workflows\.validation\b", "validation"),
    (r"(\w+)", r"\1"),
)
"""What a module is for, by its name; the first that fits. A plug-in has modules of many roles."""

_BASE = frozenset({"errors", "plugin", "qparams", "algebra", "weights", "behaviors"})
_IR = _BASE | {"dialects", "quant", "ops", "upstream", "verify", "context"}

MAY_IMPORT: dict[str, frozenset[str]] = {
    "children": frozenset(),
    "errors": frozenset(),
    "deprecation": frozenset(),
    "packages": frozenset({"errors"}),
    "plugin": frozenset({"errors"}),
    "declarations": frozenset({"plugin"}),
    "qparams": frozenset({"errors"}),
    "algebra": frozenset({"errors", "qparams"}),
    "placement": frozenset(),
    "weights": frozenset({"errors", "qparams", "algebra"}),
    "behaviors": frozenset({"errors", "qparams"}),
    "dialects": frozenset({"errors", "plugin"}),
    "quant": frozenset({"errors", "qparams", "algebra", "dialects"}),
    "ops": _BASE | {"dialects", "quant"},
    "upstream": frozenset({"errors", "dialects", "quant"}),
    "verify": _BASE | {"dialects", "quant", "ops", "upstream"},
    "targets": _BASE - {"weights"} | {"quant", "ops"},
    "context": _BASE | {"dialects", "quant", "ops", "upstream", "verify"},
    "interpreter": frozenset(
        {
            *("errors", "plugin", "weights", "dialects", "quant", "ops", "upstream", "verify"),
            "context",
        }
    ),
    "analysis": _IR | {"targets"},
    "rewrite": _IR | {"targets", "analysis"},
    "passes": _IR | {"targets", "analysis", "rewrite", "placement"},
    "lowering": _IR | {"targets", "analysis", "rewrite", "passes"},
    "raising": _IR | {"targets", "analysis", "rewrite", "lowering"},
    "formats": _IR | {"packages", "targets"},
    "engines": _IR | {"children", "interpreter", "formats"},
    "pipeline": _IR | {"targets", "analysis", "rewrite", "passes"},
    "profile": _IR | {"targets", "analysis", "interpreter", "formats"},
    "validation": _IR
    | {"targets", "analysis", "rewrite", "passes", "pipeline", "interpreter", "engines"},
    "report": _IR | {"targets", "analysis", "rewrite", "passes", "profile", "quantizer"},
    "syntax": frozenset(),
    "quantizer": _IR
    | {"targets", "analysis", "rewrite", "passes", "pipeline", "placement"}
    | {"interpreter", "profile"},
}
MAY_IMPORT["workflows"] = frozenset(MAY_IMPORT) - {"syntax"}
MAY_IMPORT["api"] = MAY_IMPORT["workflows"] | {"workflows"}
MAY_IMPORT["cli"] = MAY_IMPORT["api"] | {"api"}
MAY_IMPORT["torch_backend"] = MAY_IMPORT["api"] | {"api"}
MAY_IMPORT["lsp"] = MAY_IMPORT["cli"] | {"cli"}
MAY_IMPORT["testing"] = MAY_IMPORT["cli"] | {"cli"}
"""What the modules of a role may import, wherever in a file the import stands."""

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
"""How many imports are left from the core into a plug-in, and from one plug-in into another one
that is not `common`. These numbers go down only."""

MODULES: dict[str, frozenset[str]] = {
    "formats": frozenset({"qdialect.engines.child", "qdialect.engines.model_child"}),
    "qparams": frozenset({"qdialect.algebra.float_text"}),
    "interpreter": frozenset({"qdialect.algebra.qparams", "qdialect.algebra.rounding"}),
    "workflows": frozenset({"qdialect"}),
    "cli": frozenset({"qdialect"}),
    "lsp": frozenset({"qdialect"}),
}
"""Single modules a role may import besides. The package itself has the version. Float formats
are a leaf, and scales are held in one. The interpreter checks the algebra, so of it it uses
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
"""Modules a role may import inside a function or for type checking only: a session makes
its default target and its remark log when somebody asks for them."""

MAY_IMPORT_ALL = frozenset({"universe", "__init__", "__main__"})

IN_CIRCLES: dict[str, int] = {"ops": 2}
"""How many files of a role may be in circles of imports: those that are left to undo. Imports
inside functions and under `TYPE_CHECKING` count."""

MODEL_LIBRARIES = frozenset({"onnx", "onnxruntime"})
MAY_USE_MODEL_LIBRARIES = ("qdialect.plugins.onnx.read", "qdialect.plugins.onnx.write")


def inside(module: str, packages: frozenset[str] | tuple[str, ...]) -> bool:
    return any(module == package or module.startswith(f"{package}.") for package in packages)


def role_of(module: str) -> str:
    name = module.partition(".")[2]
    if not name:
        return "__init__"
    return next(m.expand(role) for form, role in ROLES if (m := re.match(form, name)))


def allowed(found: Import) -> bool:
    source, target = role_of(found.importer), role_of(found.target)
    if source == target or source in MAY_IMPORT_ALL:
        return True
    return (
        target in MAY_IMPORT[source]
        or found.target in MODULES.get(source, ())
        or (found.lazy and inside(found.target, ONLY_LAZILY.get(source, frozenset())))
    )


def between_plug_ins(found: Import) -> bool:
    """Whether an import goes into a plug-in from outside of it."""
    source, target = part_of(found.importer), part_of(found.target)
    common = target == "plugins.common" and source.startswith("plugins")
    return source != target and target.startswith("plugins.") and not common


IMPORTS = all_imports()


def test_every_role_has_a_rule() -> None:
    roles = {role_of(name) for name in trees()} - {"plugins"}
    assert roles <= MAY_IMPORT.keys() | MAY_IMPORT_ALL


def test_the_table_has_no_cycle() -> None:
    settled: set[str] = set()
    while ready := {p for p, uses in MAY_IMPORT.items() if p not in settled and uses <= settled}:
        settled |= ready
    assert settled == MAY_IMPORT.keys()


@pytest.mark.parametrize("role", sorted(MAY_IMPORT.keys() | MAY_IMPORT_ALL))
def test_import_direction(role: str) -> None:
    ours = (i for i in IMPORTS if role_of(i.importer) == role and inside(i.target, ("qdialect",)))
    assert [str(found) for found in ours if not allowed(found)] == []


def test_no_more_imports_go_into_plug_ins() -> None:
    found = [i for i in IMPORTS if inside(i.target, ("qdialect",)) and between_plug_ins(i)]
    wrong = [str(i) for i in found if (part_of(i.importer), part_of(i.target)) not in LEFT]
    assert wrong == []
    assert Counter((part_of(i.importer), part_of(i.target)) for i in found) == LEFT


def files_in_circles() -> Counter[str]:
    """Of each role, how many files reach themselves through what they import."""
    return Counter(role_of(name) for group in circles(import_graph()) for name in group)


def test_files_do_not_import_each_other_in_circles() -> None:
    groups = [" ".join(group) for group in circles(import_graph())]
    more = {role: n for role, n in files_in_circles().items() if n > IN_CIRCLES.get(role, 0)}
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


@pytest.mark.parametrize("role", ["errors", "plugin", "qparams", "algebra", "placement", "weights"])
def test_what_has_no_ir_does_not_import_xdsl(role: str) -> None:
    wrong = [
        str(found)
        for found in IMPORTS
        if role_of(found.importer) == role and found.target.partition(".")[0] == "xdsl"
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

"""Make the tables of upstream's ops from their definitions.

    python -m tools.upstream_tables --mlir PATH/mlir/include [--stablehlo PATH] [--only DIALECT]

`--mlir` is the folder with `mlir/Dialect/*/IR/*.td` of the release, `--stablehlo` a checkout of
StableHLO.  Needs `llvm-tblgen`.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from tools.upstream_tables.constraints import Constraints
from tools.upstream_tables.records import Records
from tools.upstream_tables.rows import Override, Rows, read_bodies

CONSTRAINTS = Path(__file__).parents[2] / "qdialect/plugins/mlir/upstream/constraints"
TABLES = Path(__file__).parents[2] / "qdialect/plugins/mlir/upstream/tables"
HANDWRITTEN = Path(__file__).parent / "handwritten.txt"

INPUT_LANGUAGES = frozenset(("tosa", "stablehlo", "chlo"))
"""The dialects whose attributes are verified, too."""

#: beside definitions: C++ that MLIR generates for linalg's named ops
BODIES = "LinalgNamedStructuredOps.yamlgen.cpp.inc"

MLIR = {
    "builtin": ("mlir/IR/BuiltinOps.td",),
    "arith": ("mlir/Dialect/Arith/IR/ArithOps.td",),
    "bufferization": ("mlir/Dialect/Bufferization/IR/BufferizationOps.td",),
    "cf": ("mlir/Dialect/ControlFlow/IR/ControlFlowOps.td",),
    "complex": ("mlir/Dialect/Complex/IR/ComplexOps.td",),
    "func": ("mlir/Dialect/Func/IR/FuncOps.td",),
    "index": ("mlir/Dialect/Index/IR/IndexOps.td",),
    "linalg": (
        "mlir/Dialect/Linalg/IR/LinalgOps.td",
        "mlir/Dialect/Linalg/IR/LinalgStructuredOps.td",
        "mlir/Dialect/Linalg/IR/LinalgRelayoutOps.td",
    ),
    "math": ("mlir/Dialect/Math/IR/MathOps.td",),
    "memref": ("mlir/Dialect/MemRef/IR/MemRefOps.td",),
    "ml_program": ("mlir/Dialect/MLProgram/IR/MLProgramOps.td",),
    "quant": ("mlir/Dialect/Quant/IR/QuantOps.td",),
    "scf": ("mlir/Dialect/SCF/IR/SCFOps.td",),
    "shape": ("mlir/Dialect/Shape/IR/ShapeOps.td",),
    "tensor": ("mlir/Dialect/Tensor/IR/TensorOps.td",),
    "tosa": (
        "mlir/Dialect/Tosa/IR/TosaOps.td",
        "mlir/Dialect/Tosa/IR/TosaUtilOps.td",
    ),
    "ub": ("mlir/Dialect/UB/IR/UBOps.td",),
}
STABLEHLO = {
    "stablehlo": ("stablehlo/dialect/StablehloOps.td",),
    "chlo": ("stablehlo/dialect/ChloOps.td",),
    "check": ("stablehlo/tests/CheckOps.td",),
    "interpreter": ("stablehlo/reference/InterpreterOps.td",),
}


def read_overrides(text: str) -> dict[str, Override]:
    """The rows of a table, by the full names of their ops."""
    made: dict[str, Override] = {}
    for part in ("\n" + text).split("\nop ")[1:]:
        name, *lines = [line for line in part.split("\n") if line and not line.startswith("#")]
        made[name.strip()] = Override(dict(map(_line, lines)))
    return made


def _line(line: str) -> tuple[str, str]:
    key, _, rest = line.partition(" ")
    return (f"property {rest.split()[0]}", line) if key == "property" else (key, rest)


def table(files: list[Path], include: list[Path], overrides: Mapping[str, Override]) -> str:
    """The text of the table of the ops in `files`."""
    tblgen = shutil.which("llvm-tblgen")
    if tblgen is None:
        raise SystemExit("llvm-tblgen is not on the PATH")
    rows: dict[str, str] = {}
    enums: dict[str, str] = {}
    for file in files:
        generated = file.parent / BODIES
        bodies = read_bodies(generated.read_text()) if generated.exists() else {}
        maker = Rows(Records(file, include, tblgen), overrides, bodies)
        for op in maker.records.of_class("Op"):
            rows.setdefault(op["opName"], maker.row(op))
        enums.update(maker.enums)
    parts = [*(enums[name] for name in sorted(enums)), *(rows[name] for name in sorted(rows))]
    return "\n".join(parts) + "\n"


def constraints(files: list[Path], include: list[Path], *, attributes: bool) -> str:
    """The text of the table of what the types in the ops in `files` must be."""
    tblgen = shutil.which("llvm-tblgen")
    if tblgen is None:
        raise SystemExit("llvm-tblgen is not on the PATH")
    made = Constraints(attributes)
    for file in files:
        made.add(Records(file, include, tblgen))
    return made.text()


def main(arguments: list[str] | None = None) -> int:
    """The command; exit code 0."""
    parser = argparse.ArgumentParser("python -m tools.upstream_tables", description=__doc__)
    parser.add_argument("--mlir", type=Path, help="the folder `include` of MLIR")
    parser.add_argument("--stablehlo", type=Path, help="a checkout of StableHLO")
    parser.add_argument("--only", help="one dialect")
    args = parser.parse_args(arguments)
    overrides = read_overrides(HANDWRITTEN.read_text())
    sources: list[tuple[Mapping[str, tuple[str, ...]], Path, list[Path]]]
    sources = [(MLIR, args.mlir, [args.mlir])]
    if args.stablehlo:
        sources.append((STABLEHLO, args.stablehlo, [args.stablehlo, args.mlir]))
    CONSTRAINTS.mkdir(parents=True, exist_ok=True)
    TABLES.mkdir(parents=True, exist_ok=True)
    for dialects, root, include in sources:
        for dialect, files in dialects.items():
            if args.only in (None, dialect):
                demanded = constraints(
                    [root / file for file in files],
                    include,
                    attributes=dialect in INPUT_LANGUAGES,
                )
                (CONSTRAINTS / f"{dialect}.txt").write_text(demanded)
                text = table([root / file for file in files], include, overrides)
                (TABLES / f"{dialect}.txt").write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())

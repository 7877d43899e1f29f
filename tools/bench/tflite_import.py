"""Each .tflite file of a folder read as `nn` and `quant`, and run against LiteRT.

For each file: its ops, how many stay `tflite.node` (`pseudo_*` left out), how many transposes are
in its function besides those at its boundary, and what differs from LiteRT in the interpreter on
the same random inputs: codes by engine, and the largest difference of floats in the largest of
them. An engine that refuses the file, or a file that nothing here runs, is told. A second table
sums it up by what the files compute with.

    python -m tools.bench tflite-import FOLDER [--engines xnn,opt,ref] [--only PATTERN]
"""

# pyright: basic, reportMissingImports=false
from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np

from tests.support.tables import table

_CASTS = ("quant.qcast", "quant.dcast", "quant.rescale", "quant.scast")
ENGINES = ("xnn", "opt", "ref")


def read(data: bytes, engine: str) -> tuple[Any, Any]:
    """The raised module of a file, cleaned up, and its session."""
    from qdialect.pipeline.plugins import Plugins
    from qdialect.plugins.tflite.file.read import read_bytes
    from qdialect.plugins.tflite.file.to_module import read_module
    from qdialect.plugins.tflite.raising.convert import Engine, RaiseTflite

    ctx = Plugins().session(allow_unregistered=True)
    module = read_module(read_bytes(data), ctx)
    RaiseTflite(cast(Engine, f"litert-{engine}")).apply(ctx, module)
    module.verify()
    return module, ctx


def inputs_of(module: Any, rng: np.random.Generator) -> list[Any]:
    """Random inputs of the main function; extents that are not known are 1."""
    from qdialect.ir.quant import quant_element

    main = next(op for op in module.ops if op.name == "func.func")
    found: list[Any] = []
    for kind in main.function_type.inputs.data:
        shape = [max(extent, 1) for extent in kind.get_shape()]
        element = quant_element(kind)
        if element is not None:
            storage = element.qparams.storage
            dtype = np.dtype({"i8": "i1", "u8": "u1", "i16": "i2"}[storage.spelling])
            found.append(rng.integers(storage.min, storage.max + 1, shape).astype(dtype))
        elif str(kind.element_type) == "f32":
            found.append(rng.standard_normal(shape).astype(np.float32))
        else:
            dtype = {"i32": np.int32, "i64": np.int64, "i1": np.bool_, "ui8": np.uint8}
            found.append(rng.integers(0, 2, shape).astype(dtype[str(kind.element_type)]))
    return found


def inner_transposes(module: Any) -> int:
    """Transposes of the main function that neither read an argument nor give a result, but for
    casts in between."""
    main = next(op for op in module.ops if op.name == "func.func")
    count = 0
    for op in main.body.walk():
        if op.name != "nn.transpose" or not op.results[0].uses:
            continue
        given, made = op.operands[0], op.results[0]
        while getattr(given.owner, "name", "") in _CASTS:
            given = given.owner.operands[0]
        while made.has_one_use() and made.first_use.operation.name in _CASTS:
            made = made.first_use.operation.results[0]
        at_end = all(use.operation.name == "func.return" for use in made.uses)
        count += not (at_end or given in main.body.block.args)
    return count


def kept(module: Any) -> int:
    """Ops of the file that stay."""
    nodes = (op for op in module.walk() if op.name == "tflite.node")
    return sum(not node.op.data.startswith("pseudo_") for node in nodes)


def compared(data: bytes, engine: str) -> tuple[str, Any]:
    """What differs from LiteRT, as text, and the raised module."""
    from qdialect.errors import QError
    from qdialect.interpreter import Interpreter
    from qdialect.interpreter.kernels import KEPT_NODES
    from tests.support.tflite_models import LitertError, run_litert

    module, ctx = read(data, engine)
    inputs = inputs_of(module, np.random.default_rng(0))
    try:
        expected = run_litert(data, inputs, engine)
    except LitertError:
        return "refused", module
    try:
        found = Interpreter(ctx, module, functions=KEPT_NODES).run(inputs)
    except QError:
        return "not run", module
    differing, size, worst = 0, 0, 0.0
    for want, got in zip(map(np.asarray, expected), map(np.asarray, found), strict=True):
        if want.dtype.kind == "f":
            scale = max(float(np.abs(want).max(initial=0)), 1e-9)
            worst = max(worst, float(np.abs(want - got).max(initial=0)) / scale)
        else:
            differing, size = differing + int((want != got).sum()), size + want.size
    parts = [f"{differing} of {size}"] if size else []
    return ", ".join([*parts, *([f"{worst:.0e}"] if worst or not size else [])]), module


def kind_of(module: Any) -> str:
    """What a raised network computes with."""
    from qdialect.ir.quant import quant_element

    names, widths = set[str](), set[int]()
    for op in module.walk():
        names.add(op.name)
        if op.name == "nn.constant":
            continue
        for value in op.results:
            element = quant_element(value.type)
            if element is not None and element.qparams.storage.width < 32:
                widths.add(element.qparams.storage.width)
    if widths:
        return f"codes of {max(widths)} bits"
    if any(name.startswith("nn.dynamic") for name in names):
        return "codes of its own range"
    return "floats, codes as weights" if "quant.dcast" in names else "floats"


def summary(rows: Sequence[tuple[str, ...]], engines: Sequence[str]) -> str:
    """One row for each kind of files: those that ran, differing codes, the worst floats."""
    groups: dict[str, list[tuple[str, ...]]] = {}
    for row in rows:
        groups.setdefault(row[-1], []).append(row)
    lines: list[tuple[str, ...]] = []
    for kind, found in groups.items():
        counts = [sum(int(row[column] or 0) for row in found) for column in (1, 2, 3)]
        cells: list[str] = []
        for column in range(4, 4 + len(engines)):
            texts = [row[column] for row in found]
            codes = [(int(m[1]), int(m[2])) for t in texts if (m := re.match(r"(\d+) of (\d+)", t))]
            floats = [float(m[1]) for t in texts if (m := re.search(r"(\d+e[+-]\d+)", t))]
            ran = sum(any(c.isdigit() for c in text) for text in texts)
            parts = [f"{sum(c[0] for c in codes)} of {sum(c[1] for c in codes)}"] if codes else []
            parts += [f"{max(floats):.0e}"] if floats else []
            cells.append(f"{', '.join(parts)} ({ran} ran)")
        lines.append((kind, str(len(found)), *map(str, counts), *cells))
    header = ("files that compute with", "files", "ops", "kept", "transposes", *engines)
    return table(header, lines)


def rows_of(files: Sequence[Path], engines: Sequence[str]) -> list[tuple[str, ...]]:
    """A row for each file."""
    rows: list[tuple[str, ...]] = []
    for file in files:
        print(file.name, file=sys.stderr, flush=True)
        data = file.read_bytes()
        cells: list[str] = []
        module: Any = None
        try:
            from qdialect.plugins.tflite.file.read import read_bytes

            ops = sum(len(graph.operators) for graph in read_bytes(data).subgraphs)
            for engine in engines:
                found, module = compared(data, engine)
                cells.append(found)
        except Exception as error:  # a table of what works tells what does not
            rows.append((file.name, "", "", "", *[type(error).__name__] * len(engines), "unread"))
            continue
        counts = (str(ops), str(kept(module)), str(inner_transposes(module)))
        rows.append((file.name, *counts, *cells, kind_of(module)))
    return rows


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="tflite-import", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--engines", default=",".join(ENGINES))
    parser.add_argument("--only", default="", help="a pattern in the names of files")
    given = parser.parse_args(arguments)
    engines = given.engines.split(",")
    files = sorted(f for f in given.folder.glob("*.tflite") if re.search(given.only, f.name))
    header = ("file", "ops", "kept", "transposes", *(f"differing, {e}" for e in engines))
    rows = rows_of(files, engines)
    print(table(header, [row[:-1] for row in rows]), "", summary(rows, engines), sep="\n")
    return 0

"""Whole networks, lowered and run in engines that others wrote: equal codes, and how near floats?

    python -m tools.bench engines MODEL.onnx ... [--paths tosa linalg] [--engines iree]
    python -m tools.bench engines --models ocr-cls --configs float s8s8     # of the corpus

Each model is exported on each path, with codes at the interface where it has them; what the
interpreter gives before is compared with what every engine gives after, on random inputs (those of
a model that takes codes have ends of their storage in them). A row says how many codes of all
outputs differ and by how much, how far floats are off the interpreter's and, of a model that is
an ONNX file in floats, off those of ONNX Runtime, relative to the largest magnitude of each
output; or why a path refuses the model, or what an engine said.
`--document docs/reference/engine-networks.md` puts the table there; `--known` adds rows of
earlier runs. The exit code is 1 if a code differs on a path that is exact.
"""

# pyright: basic
from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np
from numpy.typing import NDArray

import qdialect as qd
from qdialect.engines.installed import engine_named
from qdialect.errors import QError
from qdialect.interpreter import Interpreter, random_inputs
from qdialect.interpreter.kernels import KEPT_NODES
from qdialect.plugins.common.program import Program
from qdialect.workflows.lower import converted_model, integer_model, ready_model
from tests.support.tables import put

Array = NDArray[Any]

READS = {
    "tosa": ("tosa-reference", "mlir-runner", "iree"),
    "linalg": ("mlir-runner", "iree"),
    "stablehlo": ("iree",),
}
"""The paths, and which engines read what they give."""
EXACT = ("tosa", "linalg")
"""Those that promise the same bits; readers of the other one compute in floats."""


@dataclass
class Row:
    """A model on a path; in an engine, unless the path refused it. `why` says what was refused
    or failed."""

    model: str
    path: str
    engine: str
    elements: int = 0
    differing: int = 0
    largest: int = 0
    seconds: float = 0.0
    why: str = ""
    floats: int = 0
    relative: float = 0.0
    runtime: float | None = None

    @property
    def result(self) -> str:
        """In a word."""
        if self.why:
            return "failed" if self.engine else "refused"
        if self.differing:
            return "differs"
        return "equal" if self.elements else "floats"


def rows(
    file: Path, name: str, paths: Sequence[str], engines: Sequence[str], samples: int
) -> Iterator[Row]:
    """One model everywhere."""
    for path in paths:
        try:
            given = ready_model(integer_model(qd.load(file), to=path), path)
            lowered = converted_model(given, path)
            program = Program.of(lowered.module, lowered.ctx)
        except QError as error:
            yield Row(name, path, "", why=_said(error))
            continue
        interpreter = Interpreter(given.ctx, given.module, functions=KEPT_NODES)
        function = interpreter.function()
        drawn = [random_inputs(function, seed, boundary=seed % 2 == 1) for seed in range(samples)]
        drawn = [[_whole(name, x) for x in inputs] for inputs in drawn]
        expected = [interpreter.run(inputs) for inputs in drawn]
        by_runtime = _by_runtime(file, function, drawn)
        for engine in (e for e in READS[path] if e in engines):
            yield _compared(Row(name, path, engine), program, drawn, expected, by_runtime)


def _whole(name: str, array: Array) -> Array:
    """Plain integers as numbers that all networks of the corpus take: bytes."""
    return array % 256 if array.dtype.kind == "i" and array.dtype.itemsize > 2 else array


def _by_runtime(
    file: Path, function: Any, drawn: Sequence[Sequence[Array]]
) -> list[list[Array]] | None:
    """What ONNX Runtime gives, of a model whose arguments are as in the file."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    if file.suffix != ".onnx":
        return None
    session = onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
    kinds = {"tensor(float)": "f4", "tensor(int64)": "i8", "tensor(int32)": "i4"}
    names = [port.name for port in session.get_inputs()]
    expected = [kinds.get(port.type) for port in session.get_inputs()]
    if len(names) != len(drawn[0]) or any(
        kind is None or array.dtype != kind for kind, array in zip(expected, drawn[0], strict=True)
    ):
        return None
    runs = (session.run(None, dict(zip(names, inputs, strict=True))) for inputs in drawn)
    return [[np.asarray(array) for array in arrays] for arrays in runs]


def _compared(
    row: Row,
    program: Program,
    drawn: Sequence[Sequence[Array]],
    expected: Sequence[Sequence[Array]],
    by_runtime: Sequence[Sequence[Array]] | None,
) -> Row:
    runner, began = engine_named(row.engine), monotonic()
    if absent := runner.missing():
        row.why = f"not installed: {absent}"
        return row
    try:
        found = runner.run(program, drawn)
    except QError as error:
        row.why = _said(error)
        return row
    row.seconds = round(monotonic() - began, 1)
    for sample, (mine, theirs) in enumerate(zip(expected, found, strict=True)):
        for index, (one, other) in enumerate(zip(mine, theirs, strict=True)):
            codes = other.reshape(one.shape)
            if one.dtype.kind == "f":
                row.floats += one.size
                row.relative = max(row.relative, _relative(one, codes))
                if by_runtime is not None:
                    off = _relative(by_runtime[sample][index].reshape(one.shape), codes)
                    row.runtime = max(row.runtime or 0.0, off)
                continue
            codes = codes.view(one.dtype) if codes.dtype.itemsize == one.dtype.itemsize else codes
            apart = np.abs(one.astype(np.float64) - codes.astype(np.float64))
            row.elements += one.size
            row.differing += int(np.count_nonzero(apart))
            row.largest = max(row.largest, int(np.ceil(apart.max(initial=0))))
    return row


def _relative(expected: Array, found: Array) -> float:
    """The largest difference over the largest magnitude; infinite where one is no number."""
    expected, found = (a.astype(np.float64) for a in (expected, found))
    if not (np.isfinite(expected) == np.isfinite(found)).all():
        return float("inf")
    finite = np.isfinite(expected)
    largest = np.abs(expected[finite]).max(initial=0.0)
    return float(np.abs(expected - found)[finite].max(initial=0.0) / (largest or 1.0))


def _said(error: QError) -> str:
    """An error in a line, with the nearest form."""
    nearest = [note for note in error.notes if note.startswith("nearest form")]
    where = str(error.where).rpartition(": ")[2] if error.where else ""
    said = [where, error.message, *nearest] if where else [error.message, *nearest]
    return "; ".join(said).replace("\n", " ")[:240]


def table(found: Sequence[Row]) -> str:
    """Rows as Markdown."""
    lines = [
        "| model | path | engine | result | codes | differing | by up to | floats | off by "
        "| off ONNX Runtime by | why |",
        "|---|---|---|---|--:|--:|--:|--:|--:|--:|---|",
    ]
    for row in found:
        counts: list[object] = [""] * 6
        if not row.why:
            near = "" if row.runtime is None else f"{row.runtime:.1e}"
            off = f"{row.relative:.1e}" if row.floats else ""
            codes = [row.elements, row.differing, row.largest] if row.elements else [""] * 3
            counts = [*codes, row.floats or "", off, near if row.floats else ""]
        why = row.why.replace("|", "\\|")
        cells = [row.model, row.path, row.engine, row.result, *counts, why]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


def _files(options: argparse.Namespace) -> list[tuple[str, Path]]:
    files = [(path.stem, path) for path in options.files]
    if options.models:
        from tools.bench import corpus

        names = (*corpus.SOURCES, *corpus.HELD_OUT)
        unknown = [m for m in options.models if m not in names]
        if unknown:
            raise SystemExit(f"no model {unknown[0]} in the corpus ({', '.join(names)})")
        for name in options.models:
            for config in options.configs:
                source = corpus.source_named(name)
                if config == "float":
                    path = corpus.float_model(source)
                else:
                    path = corpus.quantized_model(source, corpus.CONFIGS[config])
                files.append((f"{name} {config}", path))
    return files


def main(arguments: Sequence[str] | None = None) -> int:
    """The table."""
    engines = sorted({engine for reading in READS.values() for engine in reading})
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE", help="ONNX or MLIR")
    parser.add_argument("--models", nargs="+", default=[], help="of the corpus")
    parser.add_argument(
        "--configs", nargs="+", default=["s8s8"], help="theirs, or float (default: s8s8)"
    )
    parser.add_argument("--paths", nargs="+", choices=READS, default=list(EXACT))
    parser.add_argument("--engines", nargs="+", choices=engines, default=engines)
    parser.add_argument("--samples", type=int, default=2, help="random inputs (default: 2)")
    parser.add_argument("--json", type=Path, help="write the figures there too")
    parser.add_argument("--known", type=Path, nargs="*", default=[], help="figures to add rows of")
    parser.add_argument("--document", type=Path, help="put the table there, between its marks")
    options = parser.parse_args(arguments)
    found = [Row(**row) for path in options.known for row in json.loads(path.read_text())]
    for name, path in _files(options):
        for row in rows(path, name, options.paths, options.engines, options.samples):
            found.append(row)
            place = f"{row.model}, {row.path}, {row.engine or 'no engine'}"
            print(f"{place}: {row.result} {row.why}", file=sys.stderr, flush=True)
            if options.json is not None:
                text = json.dumps([asdict(each) for each in found], indent=1)
                options.json.write_text(text + "\n")
    print(table(found))
    if options.document is not None:
        put(options.document, "engine_networks", table(found))
    return int(any(row.differing and row.path in EXACT for row in found))


if __name__ == "__main__":
    sys.exit(main())

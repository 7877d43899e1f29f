"""Whole networks, lowered and run in engines that others wrote, bit for bit?

    python -m tools.bench engines MODEL.onnx ... [--paths tosa linalg] [--engines iree]
    python -m tools.bench engines --models ocr-cls --configs s8s8     # of the corpus

Each model is made an integer network and lowered on each path; what the interpreter gives before
is compared with what every engine gives after, on the codes of random inputs. A row says how many
elements of all outputs differ, or why a path refuses the model, or what an engine said.
`--document docs/reference/engine-networks.md` puts the table there; `--known` adds rows of
earlier runs. The exit code is 1 if a number differs on a path that is exact.
"""

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
from qdialect.engines.program import Program
from qdialect.errors import QError
from qdialect.reference import Interpreter, random_inputs
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

    @property
    def result(self) -> str:
        """In a word."""
        if self.why:
            return "failed" if self.engine else "refused"
        return "differs" if self.differing else "equal"


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
        interpreter = Interpreter(given.ctx, given.module)
        function = interpreter.function()
        drawn = [random_inputs(function, seed, boundary=seed % 2 == 1) for seed in range(samples)]
        expected = [interpreter.run(inputs) for inputs in drawn]
        for engine in (e for e in READS[path] if e in engines):
            yield _compared(Row(name, path, engine), program, drawn, expected)


def _compared(
    row: Row, program: Program, drawn: Sequence[list[Array]], expected: Sequence[Sequence[Array]]
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
    for mine, theirs in zip(expected, found, strict=True):
        for one, other in zip(mine, theirs, strict=True):
            codes = other.reshape(one.shape)
            codes = codes.view(one.dtype) if codes.dtype.itemsize == one.dtype.itemsize else codes
            apart = np.abs(one.astype(np.float64) - codes.astype(np.float64))
            row.elements += one.size
            row.differing += int(np.count_nonzero(apart))
            row.largest = max(row.largest, int(np.ceil(apart.max(initial=0))))
    return row


def _said(error: QError) -> str:
    """An error in a line, with the nearest form."""
    nearest = [note for note in error.notes if note.startswith("nearest form")]
    where = str(error.where).rpartition(": ")[2] if error.where else ""
    said = [where, error.message, *nearest] if where else [error.message, *nearest]
    return "; ".join(said).replace("\n", " ")[:240]


def table(found: Sequence[Row]) -> str:
    """Rows as Markdown."""
    lines = [
        "| model | path | engine | result | elements | differing | by up to | why |",
        "|---|---|---|---|--:|--:|--:|---|",
    ]
    for row in found:
        counts = ["", "", ""] if row.why else [row.elements, row.differing, row.largest]
        why = row.why.replace("|", "\\|")
        cells = [row.model, row.path, row.engine, row.result, *counts, why]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


def _files(options: argparse.Namespace) -> list[tuple[str, Path]]:
    files = [(path.stem, path) for path in options.files]
    if options.models:
        from tools.bench import corpus

        unknown = [m for m in options.models if m not in corpus.SOURCES]
        if unknown:
            raise SystemExit(f"no model {unknown[0]} in the corpus ({', '.join(corpus.SOURCES)})")
        for name in options.models:
            for config in options.configs:
                path = corpus.quantized_model(corpus.SOURCES[name], corpus.CONFIGS[config])
                files.append((f"{name} {config}", path))
    return files


def main(arguments: Sequence[str] | None = None) -> int:
    """The table."""
    engines = sorted({engine for reading in READS.values() for engine in reading})
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE", help="ONNX or MLIR")
    parser.add_argument("--models", nargs="+", default=[], help="of the corpus")
    parser.add_argument("--configs", nargs="+", default=["s8s8"], help="theirs (default: s8s8)")
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

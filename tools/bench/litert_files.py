"""Files that others' converters made, optimized by ours: the same function, fewer ops, less time?

Of each .tflite (and .circle) file, by the command line as a user has it: `qopt optimize` to
.tflite and to .onnx.  The results run on the same random inputs as the file (all codes, floats in
[0, 1]), in LiteRT with XNNPACK and in ONNX Runtime, one thread; elements of outputs that are not
the same bits are counted (the ONNX file's with the runtime's optimizations off).  "Read" says
whether the interpreter, on what is read from the file, gives LiteRT's bits.  Ratios are medians
over turns, to the file as it was.

    python -m tools.bench litert-files FOLDER --json files.json
"""

# pyright: basic, reportMissingImports=false
from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tests.support.tables import put, step, table
from tools.bench.litert_index import ORIGINS
from tools.bench.litert_peers import File, as_tflite, count
from tools.bench.litert_run import Job, Ran, differing, known_json, run_jobs

CODES = {"int8", "uint8", "int16"}


@dataclass
class Same:
    """Elements of outputs, and how many are other bits; `why` says why nothing was compared."""

    elements: int = 0
    differing: int = 0
    largest: float = 0.0
    why: str = ""

    def __str__(self) -> str:
        if self.why:
            return self.why.replace("|", "/").replace("\n", " ")[:70]
        if not self.differing:
            return "equal"
        return f"{100 * self.differing / self.elements:.3g} %, {self.largest:.2g}"


@dataclass
class Row:
    """One file."""

    name: str
    origin: str = ""
    quantized: bool = False
    read: Same = field(default_factory=Same)
    tflite: Same = field(default_factory=Same)
    onnx: Same = field(default_factory=Same)
    before: File = field(default_factory=File)
    after: File = field(default_factory=File)
    milliseconds: float = math.nan
    ratio: float = math.nan
    low: float = math.nan
    high: float = math.nan
    onnx_ratio: float = math.nan
    seconds: float = math.nan
    """That `qopt optimize` took."""
    said: list[str] = field(default_factory=list)
    """Remarks of the command."""


def random_inputs(path: Path, samples: int, seed: int = 0) -> list[list[np.ndarray]]:
    """Inputs of a file: codes over their whole range, floats in [0, 1], other integers small."""
    from ai_edge_litert import schema_py_generated as schema

    content = bytearray(path.read_bytes())
    content[4:8] = b"TFL3"
    model: Any = schema.ModelT.InitFromPackedBuf(content, 0)
    graph, random = model.subgraphs[0], np.random.default_rng(seed)
    kinds = {v: k.lower() for k, v in vars(schema.TensorType).items() if isinstance(v, int)}
    found = []
    for _ in range(samples):
        row = []
        for index in graph.inputs:
            tensor = graph.tensors[index]
            shape = tuple(map(int, tensor.shape)) if tensor.shape is not None else ()
            kind = kinds[tensor.type]
            if kind in CODES:
                ends = np.iinfo(kind)
                row.append(random.integers(ends.min, ends.max + 1, shape).astype(kind))
            elif kind == "bool":
                row.append(random.random(shape) < 0.5)
            elif kind.startswith(("int", "uint")):
                row.append(random.integers(0, 16, shape).astype(kind))
            else:
                row.append(random.uniform(0, 1, shape).astype(kind))
        found.append(row)
    return found


def interpreted(path: Path, samples: Sequence[Sequence[np.ndarray]]) -> list[list[np.ndarray]]:
    """What the interpreter answers, on the file as it is read for XNNPACK."""
    import qdialect as qd
    from qdialect.interpreter.machine import argument_names

    model = qd.load(path)
    names = argument_names(model.function())
    found = []
    for sample in samples:
        answers = qd.run(model, dict(zip(names, sample, strict=True)), engine="numpy")
        found.append([np.asarray(value) for value in answers.values()])
    return found


def same(one: Ran, other: Ran) -> Same:
    """Stored elements of two runs."""
    if one.why or other.why:
        return Same(why=one.why or other.why)
    return Same(*differing(one.codes, other.codes))


def optimized(source: Path, target: Path, limit: float) -> tuple[str, float, list[str]]:
    """Why there is no result, seconds, and what was said."""
    command = [sys.executable, "-m", "qdialect.cli.qopt", "optimize", str(source), "-o"]
    start = time.perf_counter()
    try:
        done = subprocess.run(
            [*command, str(target), "--race=0"],
            capture_output=True,
            text=True,
            timeout=limit,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"no end in {limit:.0f} s", limit, []
    seconds = time.perf_counter() - start
    said = [line for line in (done.stderr + done.stdout).splitlines() if line.strip()]
    if done.returncode or not target.exists():
        errors = [line for line in said if "rror" in line] or said[-1:] or ["nothing said"]
        traceback = "TRACEBACK " if any(x.startswith("Traceback") for x in said) else ""
        return traceback + errors[-1 if traceback else 0][-200:], seconds, said
    return "", seconds, said


def row(path: Path, options: argparse.Namespace, folder: Path) -> Row:
    """One file."""
    found = Row(path.name, known_json(path.parent / ORIGINS).get(path.name, ""))
    source = path
    if path.suffix == ".circle":  # what LiteRT takes
        source = folder / f"{path.stem}.tflite"
        source.write_bytes(as_tflite(path.read_bytes()))
    count(path, found.before)
    found.quantized = _is_quantized(path)
    samples = random_inputs(path, options.samples)
    tflite, onnx = folder / "after.tflite", folder / "after.onnx"
    why, found.seconds, found.said = optimized(path, tflite, options.limit)
    onnx_why = optimized(path, onnx, options.limit)[0]
    jobs = [Job("before", source)]
    jobs += [] if why else [Job("after", tflite)]
    if not onnx_why:
        jobs += [Job("onnx", onnx, "onnxruntime"), Job("plain", onnx, "onnxruntime-plain")]
    ran = run_jobs(jobs, samples, seconds=options.seconds)
    before = ran["before"]
    found.tflite = Same(why=why) if why else same(before, ran["after"])
    found.onnx = Same(why=onnx_why) if onnx_why else same(before, ran["plain"])
    if not why:
        count(tflite, found.after)
        after = ran["after"]
        found.ratio, found.low, found.high = after.ratio, after.low, after.high
    if not onnx_why:
        found.onnx_ratio = ran["onnx"].ratio
    found.milliseconds = before.milliseconds
    try:
        ours = interpreted(path, samples[: options.interpreted])
        expected = before.codes[: options.interpreted]
        found.read = Same(why=before.why) if before.why else Same(*differing(expected, ours))
    except Exception as error:  # whatever is in the way is what the table is for
        found.read = Same(why=f"{type(error).__name__}: {error}")
    return found


def _is_quantized(path: Path) -> bool:
    from tools.bench.litert_index import entry

    kinds = entry(path).types
    return any(k.split()[0] in (*CODES, "int4") and "plain" not in k for k in kinds)


HEADER = (
    "file",
    "read = LiteRT",
    ".tflite = LiteRT",
    ".onnx = LiteRT",
    "ops",
    "Q/DQ",
    "transposes",
    "ms",
    "time / before",
    ".onnx / before",
    "s",
)


def cells(found: Row) -> tuple[str, ...]:
    """A line of the table."""

    def both(name: str) -> str:
        ends = str(getattr(found.before, name))
        return ends if found.tflite.why else f"{ends} → {getattr(found.after, name)}"

    def shown(value: float, spread: str = "") -> str:
        return "" if math.isnan(value) else f"{value:.2f}{spread}"

    return (
        found.name,
        str(found.read),
        str(found.tflite),
        str(found.onnx),
        both("ops"),
        both("casts"),
        both("transposes"),
        f"{found.milliseconds:.3g}",
        shown(found.ratio, "!" if found.low > 1 else ""),
        shown(found.onnx_ratio),
        shown(found.seconds),
    )


def summary(rows: Sequence[Row]) -> str:
    """How many of them are read, written, equal and faster."""
    lines = []
    for quantized in (True, False):
        chosen = [r for r in rows if r.quantized == quantized]
        if not chosen:
            continue
        kind = "quantized" if quantized else "float"
        equal = {
            name: sum(not s.why and not s.differing for s in (getattr(r, name) for r in chosen))
            for name in ("read", "tflite", "onnx")
        }
        made = {
            name: sum(not getattr(r, name).why for r in chosen)
            for name in ("read", "tflite", "onnx")
        }
        ratios = [r.ratio for r in chosen if r.ratio > 0]
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else math.nan
        ends = [
            f"{sum(getattr(r.before, n) for r in chosen if not r.tflite.why)} → "
            f"{sum(getattr(r.after, n) for r in chosen if not r.tflite.why)}"
            for n in ("ops", "casts", "transposes")
        ]
        lines.append(
            f"- {kind}: {len(chosen)} files. Read and equal to LiteRT in the interpreter: "
            f"{equal['read']} of {made['read']}; .tflite written {made['tflite']}, equal "
            f"{equal['tflite']}; .onnx written {made['onnx']}, equal {equal['onnx']}. Ops "
            f"{ends[0]}, QUANTIZE/DEQUANTIZE {ends[1]}, TRANSPOSE {ends[2]}. Time of ours to "
            f"theirs, geometric mean of {len(ratios)}: {mean:.2f}"
        )
    return "\n".join(lines)


def read_figures(path: Path) -> list[Row]:
    """The rows of an earlier run."""
    sides = {"read": Same, "tflite": Same, "onnx": Same, "before": File, "after": File}
    return [
        Row(**r | {name: kind(**r[name]) for name, kind in sides.items()})
        for r in json.loads(path.read_text())
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """The table; 1 if a file that is written answers otherwise."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", type=Path, nargs="+", help="files, or folders of them")
    parser.add_argument("--samples", type=int, default=4)
    parser.add_argument("--interpreted", type=int, default=2, help="samples for the interpreter")
    parser.add_argument("--seconds", type=float, default=3.0, help="of timing for each file")
    parser.add_argument("--limit", type=float, default=300.0, help="seconds for one command")
    parser.add_argument("--json", type=Path, help="write the figures there too")
    parser.add_argument("--known", type=Path, nargs="*", default=[], help="figures to add rows of")
    parser.add_argument("--document", type=Path, help="put the table there, between marks")
    options = parser.parse_args(arguments)
    rows = [r for path in options.known if path.exists() for r in read_figures(path)]
    done = {r.name for r in rows}
    paths = [
        p
        for given in options.files
        for p in (sorted(given.iterdir()) if given.is_dir() else [given])
        if p.suffix in (".tflite", ".circle") and p.name not in done
    ]
    for path in paths:
        with step(path.name), tempfile.TemporaryDirectory() as temporary:
            try:
                rows.append(row(path, options, Path(temporary)))
            except Exception as error:  # one file; the others go on
                print(f"{path.name}: {type(error).__name__}: {error}", file=sys.stderr)
                continue
        print(" | ".join(cells(rows[-1])), file=sys.stderr, flush=True)
        if options.json is not None:
            options.json.write_text(json.dumps([asdict(r) for r in rows], indent=1) + "\n")
    text = f"{summary(rows)}\n\n{table(HEADER, [cells(r) for r in rows])}"
    print(text)
    if options.document is not None:
        put(options.document, "litert_files", text)
    wrong = [r.name for r in rows if r.tflite.differing]
    if wrong:
        print(f"other bits: {', '.join(wrong)}", file=sys.stderr)
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())

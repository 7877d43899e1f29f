"""Quantized ONNX networks in LiteRT: the same codes as the ONNX file, and how long they run.

Each network of the corpus, in each configuration of ONNX Runtime's quantizer, becomes a .tflite
file and a faster ONNX file, both by `qopt optimize`.  The input file and both results run on the
same samples, on one thread: in LiteRT with XNNPACK, and in ONNX Runtime with its optimizations.
Elements of outputs that are not the same code (by the scale of the last dequantize; floats that
differ by less than 10⁻⁴ of a step are the same) are counted against three references: our
interpreter, ONNX Runtime with its optimizations off (the nodes as they are written) and on.
Ratios are medians over turns of processor time, to the input file in ONNX Runtime.

    python -m tools.bench litert-onnx --models ocr-cls --configs u8s8 --json litert-onnx.json
"""

# pyright: basic, reportMissingImports=false
from __future__ import annotations

import argparse
import json
import math
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np
import onnx

from tests.support.tables import put, step, table
from tools.bench import corpus, unseen
from tools.bench.litert_files import interpreted as answers_of
from tools.bench.litert_files import optimized
from tools.bench.litert_peers import File, count
from tools.bench.litert_run import Job, Ran, run_jobs
from tools.bench.measure import agreement, count_ops, output_steps

SEED = 100
CONFIGS = ("s8s8", "u8s8", "u8s8_pc", "s8s8_pc", "u8u8")
UNSEEN = ("ddddocr", "ddddocr-det", "encoder-small", "decoder-small", "llama-small")
NEAR = 1e-4


@dataclass
class Codes:
    """Elements of outputs, those of another code, and the largest difference in steps."""

    elements: int = 0
    differing: int = 0
    steps: float = 0.0
    why: str = ""

    def __str__(self) -> str:
        if self.why:
            return self.why.replace("|", "/")[:60]
        if not self.differing:
            return "0"
        return f"{100 * self.differing / self.elements:.2g} %, {self.steps:.3g}"


@dataclass
class Row:
    """One network in one configuration; `files` by name: `input`, `ours` (ONNX) and `tflite`."""

    model: str
    config: str
    why: str = ""
    milliseconds: float = math.nan
    ours: float = math.nan
    """Of our ONNX file, over the input's."""
    litert: float = math.nan
    low: float = math.nan
    high: float = math.nan
    interpreter: Codes = field(default_factory=Codes)
    plain: Codes = field(default_factory=Codes)
    executed: Codes = field(default_factory=Codes)
    ort: Codes = field(default_factory=Codes)
    """ONNX Runtime with its optimizations against itself without: what it changes by itself."""
    nodes: int = 0
    file: File = field(default_factory=File)
    seconds: float = math.nan


def codes(expected: Ran, got: Ran, steps: Sequence[float | None]) -> Codes:
    """How many codes differ."""
    if expected.why or got.why:
        return Codes(why=expected.why or got.why)
    ends = [
        [np.stack(column) for column in zip(*run.outputs, strict=True)] for run in (expected, got)
    ]
    if [a.shape for a in ends[0]] != [a.shape for a in ends[1]]:
        return Codes(why=f"shapes {[a.shape for a in ends[1]]}")
    found = agreement(ends[0], ends[1], steps)
    return Codes(found.elements, found.differing, found.max_steps)


def interpreted(path: Path, samples: Sequence[Sequence[np.ndarray]]) -> Ran:
    """What our interpreter answers of an ONNX file."""
    try:
        return Ran(answers_of(path, samples))
    except Exception as error:  # told in the table
        return Ran(why=f"{type(error).__name__}: {error}"[:160])


def row(name: str, config: str, options: argparse.Namespace, folder: Path) -> Row:
    """One network."""
    found = Row(name, config)
    source = unseen.unseen(name)
    try:
        path = corpus.quantized_model(source, corpus.CONFIGS[config], options.calibration)
    except Exception as error:  # of the runtime's quantizer
        found.why = f"not quantized: {str(error).splitlines()[0][:120]}"
        return found
    model = onnx.load(path)
    steps, found.nodes = output_steps(model), count_ops(model).nodes
    feeds = source.samples(options.samples, SEED)
    order = [port.name for port in model.graph.input]
    samples = [[sample[port] for port in order if port in sample] for sample in feeds]
    tflite, ours = folder / f"{name}.{config}.tflite", folder / f"{name}.{config}.onnx"
    why, found.seconds, _ = optimized(path, tflite, options.limit)
    ours_why = optimized(path, ours, options.limit)[0]
    jobs = [Job("input", path, "onnxruntime"), Job("plain", path, "onnxruntime-plain")]
    jobs += [] if ours_why else [Job("ours", ours, "onnxruntime")]
    jobs += [] if why else [Job("tflite", tflite)]
    shapes = []
    if not why:
        first = run_jobs(jobs[:1], samples[:1])["input"]
        shapes = [value.shape for value in first.outputs[0]] if first.outputs else []
    ran = run_jobs(jobs, samples, seconds=options.seconds, shapes=shapes)
    executed, plain = ran["input"], ran["plain"]
    found.why = executed.why or why
    found.milliseconds = executed.milliseconds
    found.ort = codes(plain, executed, steps)
    if not ours_why:
        found.ours = ran["ours"].ratio
    if not why:
        got = ran["tflite"]
        found.why = found.why or got.why
        found.litert, found.low, found.high = got.ratio, got.low, got.high
        found.executed, found.plain = codes(executed, got, steps), codes(plain, got, steps)
        count(tflite, found.file)
        few = samples[: options.interpreted]
        if few:
            short = Ran(got.outputs[: len(few)], why=got.why)
            found.interpreter = codes(interpreted(path, few), short, steps)
    return found


HEADER = (
    "network, configuration",
    "ONNX Runtime ms",
    "ours .onnx",
    ".tflite in LiteRT",
    "over the best ONNX",
    "codes: interpreter",
    "as written",
    "as executed",
    "executed, as written",
    "nodes → ops",
    "Q/DQ",
    "transposes",
    "float results",
)


def best(found: Row) -> float:
    """LiteRT's time over that of the fastest ONNX file, ours or the input."""
    return found.litert / min(1.0, found.ours if found.ours > 0 else 1.0)


def cells(found: Row) -> tuple[str, ...]:
    """A line of the table."""
    name = f"{found.model} {found.config}"

    def shown(value: float) -> str:
        return "" if math.isnan(value) else f"{value:.2f}"

    head = (name, f"{found.milliseconds:.3g}", shown(found.ours))
    if found.why:
        return (*head, f"none: {found.why[:70]}".replace("|", "/"), *[""] * 9)
    mark = "!" if best(found) > 1 else ""
    file = found.file
    return (
        *head,
        shown(found.litert),
        shown(best(found)) + mark,
        str(found.interpreter),
        str(found.plain),
        str(found.executed),
        str(found.ort),
        f"{found.nodes} → {file.ops}",
        str(file.casts),
        str(file.transposes),
        str(file.floats),
    )


def summary(rows: Sequence[Row]) -> str:
    """The goals."""
    made = [r for r in rows if not r.why]
    ratios = [best(r) for r in made if r.litert > 0]
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else math.nan
    source = [r.litert for r in made if r.litert > 0]
    over = math.exp(sum(map(math.log, source)) / len(source)) if source else math.nan
    slower = ", ".join(f"{r.model} {r.config} {best(r):.2f}" for r in made if best(r) > 1)
    counts = [
        f"{label} {sum(not getattr(r, key).why and not getattr(r, key).differing for r in made)}"
        for key, label in (
            ("interpreter", "our interpreter"),
            ("plain", "the file as written"),
            ("executed", "the file as executed"),
        )
    ]
    return "\n".join(
        (
            f"- written: {len(made)} of {len(rows)}",
            f"- every code equal to that of: {', '.join(counts)} (of {len(made)})",
            f"- time in LiteRT over ONNX Runtime's best (ours included), geometric mean: "
            f"{mean:.2f} (goal 0.70); over the input file's: {over:.2f}",
            f"- slower than the best ONNX file: {slower or 'none'}",
        )
    )


def read_figures(path: Path) -> list[Row]:
    """The rows of an earlier run."""
    sides = ("interpreter", "plain", "executed", "ort")
    return [
        Row(**r | {name: Codes(**r[name]) for name in sides} | {"file": File(**r["file"])})
        for r in json.loads(path.read_text())
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """The table."""
    names = [*corpus.SOURCES, *corpus.HELD_OUT, *UNSEEN]
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", nargs="+", choices=names, default=names)
    parser.add_argument("--configs", nargs="+", choices=corpus.CONFIGS, default=list(CONFIGS))
    parser.add_argument("--calibration", type=int, default=16, help="samples (default: 16)")
    parser.add_argument("--samples", type=int, default=4, help="to run on")
    parser.add_argument("--interpreted", type=int, default=1, help="samples for the interpreter")
    parser.add_argument("--seconds", type=float, default=5.0, help="of timing for each network")
    parser.add_argument("--limit", type=float, default=600.0, help="seconds for one command")
    parser.add_argument("--keep", type=Path, help="keep the files there")
    parser.add_argument("--json", type=Path, help="write the figures there too")
    parser.add_argument("--known", type=Path, nargs="*", default=[], help="figures to add rows of")
    parser.add_argument("--document", type=Path, help="put the table there, between marks")
    options = parser.parse_args(arguments)
    rows = [r for path in options.known if path.exists() for r in read_figures(path)]
    done = {(r.model, r.config) for r in rows}
    for name in options.models:
        for config in options.configs:
            if (name, config) in done:
                continue
            with step(f"{name} {config}"), tempfile.TemporaryDirectory() as temporary:
                folder = options.keep or Path(temporary)
                folder.mkdir(parents=True, exist_ok=True)
                try:
                    rows.append(row(name, config, options, folder))
                except Exception as error:  # one network; the others go on
                    print(f"{name} {config}: {type(error).__name__}: {error}", file=sys.stderr)
                    continue
            print(" | ".join(cells(rows[-1])), file=sys.stderr, flush=True)
            if options.json is not None:
                options.json.write_text(json.dumps([asdict(r) for r in rows], indent=1) + "\n")
    text = f"{summary(rows)}\n\n{table(HEADER, [cells(r) for r in rows])}"
    print(text)
    if options.document is not None:
        put(options.document, "litert_onnx", text)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Our quantizer against those of others: the same float networks, samples and runtime.

Each network is quantized by each tool with its defaults (`quantizers.py`), calibrated on the same
samples.  All files and the float one are then run in turns in one process, with the runtime's
optimizations, on one thread: a ratio is the median over turns of processor time, against the float
file in the same turn.  How near a file is to the float one is told on other samples, where it is
worst: the least SQNR of the parts of outputs.  A part is what a last `Concat` puts beside other
things, a whole output where there is none.  Beside it, the share of places where the same number is
largest along the last axis, or the mean cosine of the last output.

    python -m tools.bench quantize --models minilm-dynamic --keep FOLDER --json quantize.json
"""

# pyright: basic
from __future__ import annotations

import argparse
import json
import math
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np
import onnx

from qdialect.formats.onnx.write.executed import optimized_engine
from qdialect.workflows.race import race
from tests.support.tables import put, step, table
from tools.bench import corpus, measure
from tools.bench.quantizers import QUANTIZERS
from tools.bench.unseen import NAMES, float_model, unseen

TEST_SEED = 1000
"""Added to the seed of the calibration samples."""
FLOAT = "float"


@dataclass(frozen=True)
class File:
    """What one tool wrote: its time over the float file's (median and quartiles), megabytes, dB of
    the worst part and which that is, dB over everything, agreement, seconds that the tool took;
    or why there is none."""

    ratio: float = math.nan
    low: float = math.nan
    high: float = math.nan
    megabytes: float = math.nan
    worst: float = math.nan
    part: str = ""
    sqnr: float = math.nan
    agreement: float | None = None
    seconds: float = 0.0
    failed: str = ""


@dataclass(frozen=True)
class Row:
    """One network: milliseconds and megabytes of the float file, and what each tool made of it."""

    model: str
    judge: str
    milliseconds: float
    megabytes: float
    tests: int
    files: Mapping[str, File] = field(default_factory=dict)


@dataclass(frozen=True)
class Part:
    """Some of one output: its number, and from where to where along which axis (None: all)."""

    output: int
    name: str
    axis: int | None = None
    start: int = 0
    end: int = 0

    def of(self, outputs: measure.Outputs) -> np.ndarray:
        array = outputs[self.output]
        if self.axis is None:
            return array
        # The first axis counts samples.
        return np.take(array, range(self.start, self.end), axis=self.axis + 1)


def parts(path: Path, feeds: Mapping[str, np.ndarray]) -> list[Part]:
    """The parts of the outputs of a float network; `feeds` is one sample, for extents."""
    model = onnx.load(path)
    made_by = {name: node for node in model.graph.node for name in node.output}
    found: list[Part] = []
    for number, output in enumerate(value.name for value in model.graph.output):
        node, order = made_by.get(output), None
        while node is not None and node.op_type in ("Identity", "Transpose"):
            if node.op_type == "Transpose":
                perm = next((list(a.ints) for a in node.attribute if a.name == "perm"), None)
                if perm is None or order is not None:
                    break
                order = perm
            node = made_by.get(node.input[0])
        if node is None or node.op_type != "Concat":
            found.append(Part(number, output))
            continue
        shapes = _shapes(model, list(node.input), feeds)
        axis = node.attribute[0].i % len(shapes[0])
        start = 0
        for shape in shapes:
            end = start + shape[axis]
            place = axis if order is None else order.index(axis)
            found.append(Part(number, f"{output}[{start}:{end}]", place, start, end))
            start = end
    return found


def _shapes(
    model: onnx.ModelProto, names: Sequence[str], feeds: Mapping[str, np.ndarray]
) -> list[tuple[int, ...]]:
    """The shapes that values have when the model runs on a sample."""
    probe = onnx.ModelProto()
    probe.CopyFrom(model)
    constants = {t.name: tuple(t.dims) for t in model.graph.initializer}
    asked = list(dict.fromkeys(name for name in names if name not in constants))
    del probe.graph.output[:]
    probe.graph.output.extend(onnx.ValueInfoProto(name=name) for name in asked)
    with tempfile.TemporaryDirectory() as folder:
        onnx.save(probe, Path(folder) / "probe.onnx")
        results = measure.session(Path(folder) / "probe.onnx").run(None, dict(feeds))
    shapes = constants | {n: np.asarray(r).shape for n, r in zip(asked, results, strict=True)}
    return [shapes[name] for name in names]


def decibels(expected: np.ndarray, got: np.ndarray) -> float:
    """Signal to quantization noise in dB; what is not finite is all noise."""
    return measure.sqnr([expected], [got]) if np.isfinite(got).all() else -math.inf


def agreement(judge: str, expected: measure.Outputs, got: measure.Outputs) -> float | None:
    """Of the last output, by `Source.judge`."""
    a, b = expected[-1].astype(np.float64), got[-1].astype(np.float64)
    if judge == "cosine":
        a, b = (x.reshape(-1, x.shape[-1]) for x in (a, b))
        norms = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
        return float(np.mean((a * b).sum(1) / np.maximum(norms, 1e-30)))
    if judge == "winners" and a.shape[-1] > 1:
        return float((a.argmax(-1) == b.argmax(-1)).mean())
    return None


def quantized(
    source: corpus.Source, tools: Sequence[str], options: argparse.Namespace, folder: Path
) -> Iterator[tuple[str, Path | str, float]]:
    """Tool, the file that it wrote or why none, and its seconds; what is in the folder is used."""
    calibration = source.samples(options.calibration, options.seed)
    for tool in tools:
        target = folder / f"{source.name}.{tool.replace(' ', '-')}.onnx"
        said = target.with_suffix(".json")
        if tool in options.again or not said.exists():
            target.unlink(missing_ok=True)
            start, failed = time.perf_counter(), ""
            try:
                with step(f"{source.name}: {tool}"):
                    QUANTIZERS[tool](source, float_model(source), calibration, target)
            except Exception as error:
                failed = (str(error).splitlines() or [repr(error)])[0][:160]
            seconds = time.perf_counter() - start
            said.write_text(json.dumps({"failed": failed, "seconds": seconds}))
        known = json.loads(said.read_text())
        yield tool, known["failed"] or target, known["seconds"]


def row(source: corpus.Source, tools: Sequence[str], options: argparse.Namespace) -> Row:
    """One network with each tool."""
    path = float_model(source)
    files: dict[str, File] = {}
    engines, paths, seconds = {FLOAT: optimized_engine(path)[0]}, {}, {}
    tests = source.samples(options.tests, TEST_SEED + options.seed)
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        for tool, found, taken in quantized(source, tools, options, folder):
            try:
                if isinstance(found, str):
                    raise RuntimeError(found)
                engines[tool] = optimized_engine(found)[0]
                engines[tool].run(tests[0])
                paths[tool], seconds[tool] = found, taken
            except Exception as error:  # what a tool wrote may not run
                engines.pop(tool, None)
                files[tool] = File(failed=str(error).splitlines()[0][:160], seconds=taken)
        size = {tool: found.stat().st_size / 1e6 for tool, found in paths.items()}
    laps = race(engines, tests[0], options.seconds).laps
    expected = measure.run_all(engines[FLOAT].session, tests)
    pieces = parts(path, tests[0])
    for tool in paths:
        got, lap = measure.run_all(engines[tool].session, tests), laps[tool]
        each = {p.name: decibels(p.of(expected), p.of(got)) for p in pieces}
        part = min(each, key=lambda name: each[name])
        all_of_it = min(decibels(a, b) for a, b in zip(expected, got, strict=True))
        files[tool] = File(
            lap.ratio,
            lap.low,
            lap.high,
            size[tool],
            each[part],
            part,
            all_of_it,
            agreement(source.judge, expected, got),
            seconds[tool],
        )
    milliseconds, megabytes = laps[FLOAT].milliseconds, path.stat().st_size / 1e6
    ordered = {tool: files[tool] for tool in tools}
    return Row(source.name, source.judge, milliseconds, megabytes, len(tests), ordered)


def tables(rows: Sequence[Row]) -> str:
    """Latency, size, loss: a line for each network and tool."""
    header = ("network", "tool", "time / float", "MB", "worst dB", "of", "agreement", "s")
    lines: list[tuple[str, ...]] = []
    for row in rows:
        shown = f"{row.milliseconds:.2f} ms"
        lines.append((row.model, FLOAT, shown, f"{row.megabytes:.1f}", "", "", "", ""))
        lines += [("", tool, *_cells(file)) for tool, file in row.files.items()]
    return table(header, lines)


def _cells(file: File) -> tuple[str, ...]:
    if file.failed:
        return "fails", "", "", file.failed.replace("|", "/")[:60], "", f"{file.seconds:.0f}"
    spread = f"{file.ratio:.2f} ± {(file.high - file.low) / 2:.2f}{'!' if file.low > 1 else ''}"
    agreed = "" if file.agreement is None else f"{file.agreement:.3f}"
    size, db = f"{file.megabytes:.1f}", f"{file.worst:.1f}"
    return spread, size, db, file.part, agreed, f"{file.seconds:.0f}"


def behind(row: Row, tool: str = "ours") -> list[str]:
    """In what the file of one tool is worse than the float file, or than another tool's that is
    no worse in the rest, beyond noise."""
    mine = row.files.get(tool)
    if mine is None or mine.failed:
        return [f"{row.model}: {'not made' if mine is None else mine.failed}"]
    found: list[str] = []
    if mine.low > 1:
        found.append(f"{row.model}: slower than float, {mine.ratio:.2f}")
    for name, other in row.files.items():
        if name == tool or other.failed:
            continue
        if other.high < mine.low:
            found.append(f"{row.model}: slower than {name}, {mine.ratio:.2f} to {other.ratio:.2f}")
        if other.worst > mine.worst + 0.5 and other.low <= mine.high:
            found.append(
                f"{row.model}: {mine.worst:.1f} dB, {name} {other.worst:.1f} dB, no slower"
            )
        if other.megabytes < 0.95 * mine.megabytes:
            found.append(f"{row.model}: {mine.megabytes:.1f} MB, {name} {other.megabytes:.1f} MB")
    return found


def read_figures(path: Path) -> list[Row]:
    """The rows of an earlier run."""
    found = json.loads(path.read_text(encoding="utf-8"))
    return [Row(**r | {"files": {t: File(**f) for t, f in r["files"].items()}}) for r in found]


def main(arguments: Sequence[str] | None = None) -> int:
    """The table, and in what ours is behind; 1 if it is."""
    names = [*NAMES, *corpus.SOURCES, *corpus.HELD_OUT]
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", nargs="+", choices=names, default=names)
    parser.add_argument("--tools", nargs="+", choices=QUANTIZERS, default=list(QUANTIZERS))
    parser.add_argument("--calibration", type=int, default=64, help="samples to calibrate on")
    parser.add_argument("--tests", type=int, default=64, help="other samples to compare on")
    parser.add_argument("--seed", type=int, default=1, help="of both kinds of samples")
    parser.add_argument("--seconds", type=float, default=10.0, help="of timing for each network")
    parser.add_argument("--keep", type=Path, help="keep the files there, and use those that are")
    parser.add_argument("--again", nargs="*", default=[], help="tools whose files are made anew")
    parser.add_argument("--json", type=Path, help="write the figures there too")
    parser.add_argument("--known", type=Path, nargs="*", default=[], help="figures to add rows of")
    parser.add_argument("--document", type=Path, help="put the table there, between its marks")
    options = parser.parse_args(arguments)
    rows = [row for path in options.known if path.exists() for row in read_figures(path)]
    known = {row.model for row in rows}
    for name in (name for name in options.models if name not in known):
        with step(name):
            rows.append(row(unseen(name), options.tools, options))
        print(tables(rows[-1:]).split("\n", 2)[2], file=sys.stderr, flush=True)
        if options.json is not None:
            options.json.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")
    late = [line for row in rows for line in behind(row)]
    text = tables(rows) + "\n\nBehind:\n\n" + "\n".join(f"- {line}" for line in late or ["nothing"])
    print(text)
    if options.document is not None:
        put(options.document, "bench_quantize", text)
    return int(bool(late))


if __name__ == "__main__":
    sys.exit(main())

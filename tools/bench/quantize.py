"""Our quantizer against those of others: the same float networks, samples and runtime.

Each network is quantized by each tool with its defaults (`quantizers.py`), calibrated on the same
samples.  All files and the float one are then run in turns in one process, with the runtime's
optimizations, on one thread: a ratio is the median over turns of processor time, against the float
file in the same turn.  How near a file is to the float one is told on other samples, where it is
worst: the least SQNR of the parts of outputs and of their channels, as `qopt quantize` tells them.
Beside it, the metric of its task (`qdialect.workflows.metrics_of_tasks`): 1 is what the float
network gets.

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

import qdialect as qd
from qdialect.errors import InputError
from qdialect.formats.onnx.write.executed import optimized_engine
from qdialect.quantization.output_parts import parts_of
from qdialect.quantization.quality import Judge
from qdialect.workflows.metrics_of_tasks import TASKS, Task
from qdialect.workflows.race import race
from tests.support.tables import put, step, table
from tools.bench import corpus
from tools.bench.quantizers import QUANTIZERS
from tools.bench.unseen import NAMES, float_model, unseen

TEST_SEED = 1000
"""Added to the seed of the calibration samples."""
FLOAT = "float"
Answers = Sequence[Mapping[str, np.ndarray]]


@dataclass(frozen=True)
class File:
    """What one tool wrote: its time over the float file's (median and quartiles), megabytes, dB of
    the worst part and which that is, dB of the worst channel, how many channels are dead,
    the metric of the network's task, seconds that the tool took; or why there is none."""

    ratio: float = math.nan
    low: float = math.nan
    high: float = math.nan
    megabytes: float = math.nan
    worst: float = math.nan
    part: str = ""
    channel: float | None = None
    dead: int = 0
    metric: float | None = None
    seconds: float = 0.0
    failed: str = ""


@dataclass(frozen=True)
class Row:
    """One network: milliseconds and megabytes of the float file, and what each tool made of it."""

    model: str
    task: str
    milliseconds: float
    megabytes: float
    tests: int
    files: Mapping[str, File] = field(default_factory=dict)


def judge_of(path: Path, expected: Answers) -> Judge:
    """What judges outputs by what a float network answers, part by part."""
    model = qd.load(path)
    return Judge(parts_of(model.module, model.ctx), expected)


def task_of(name: str, feeds: Answers, expected: Answers) -> Task | None:
    """The metric of a network's task on these samples; None where it has nothing to compare."""
    try:
        return TASKS[name](feeds, expected)
    except InputError:
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
    expected = [engines[FLOAT].run(feeds) for feeds in tests]
    judge, task = judge_of(path, expected), task_of(source.task, tests, expected)
    for tool in paths:
        got, lap = [engines[tool].run(feeds) for feeds in tests], laps[tool]
        found = judge.judge(got)
        worst = min(found.parts, key=lambda part: part.sqnr_db)
        channels = [db for part in found.parts for db in part.channels if db is not None]
        files[tool] = File(
            lap.ratio,
            lap.low,
            lap.high,
            size[tool],
            worst.sqnr_db,
            str(worst.part),
            min(channels, default=None),
            len(found.dead),
            None if task is None else task.judge(got),
            seconds[tool],
        )
    milliseconds, megabytes = laps[FLOAT].milliseconds, path.stat().st_size / 1e6
    ordered = {tool: files[tool] for tool in tools}
    return Row(
        source.name, source.task if task else "", milliseconds, megabytes, len(tests), ordered
    )


def tables(rows: Sequence[Row]) -> str:
    """Latency, size, loss: a line for each network and tool."""
    header = (
        "network",
        "tool",
        "time / float",
        "MB",
        "dB of the worst part",
        "which",
        "worst channel",
        "dead",
        "metric",
        "s",
    )
    lines: list[tuple[str, ...]] = []
    for row in rows:
        shown = f"{row.milliseconds:.2f} ms"
        lines.append((row.model, FLOAT, shown, f"{row.megabytes:.3g}", *[""] * 4, row.task, ""))
        lines += [("", tool, *_cells(file)) for tool, file in row.files.items()]
    return table(header, lines)


def _cells(file: File) -> tuple[str, ...]:
    if file.failed:
        said = file.failed.replace("|", "/")[:60]
        return "fails", "", "", said, "", "", "", f"{file.seconds:.0f}"
    spread = f"{file.ratio:.2f} ± {(file.high - file.low) / 2:.2f}{'!' if file.low > 1 else ''}"
    metric = "" if file.metric is None else f"{file.metric:.3f}"
    channel = "" if file.channel is None else f"{file.channel:.1f}"
    loss = f"{file.worst:.1f}", file.part, channel, str(file.dead or "")
    return spread, f"{file.megabytes:.3g}", *loss, metric, f"{file.seconds:.0f}"


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
            found.append(f"{row.model}: {mine.megabytes:.3g} MB, {name} {other.megabytes:.3g} MB")
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

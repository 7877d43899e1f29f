"""Our quantizer against those of others: the same float networks, samples and runtime.

Each network is quantized by each tool with its defaults (`quantizers.py`), calibrated on the same
samples: made ones, or with `--data real` photographs and sentences, those that are judged on of
other pictures and documents (`real_samples.py`).  All files and the float one are then run in turns
in one process, with the runtime's optimizations, on one thread: a ratio is the median over turns of
processor time, against the float file in the same turn.  How near a file is to the float one is
told on other samples, where it is worst: the least SQNR of the parts of outputs and of their
channels, as `qopt quantize` tells them.  Beside it, the metric of its task
(`qdialect.workflows.metrics_of_tasks`): 1 is what the float network gets.  `ours as good` is asked
for the decibels of the best file of others, however slow that is.

    python -m tools.bench quantize --models minilm-dynamic --keep FOLDER --json quantize.json
"""

# pyright: basic
from __future__ import annotations

import argparse
import hashlib
import json
import math
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import numpy as np

import qdialect as qd
from qdialect.errors import InputError
from qdialect.plugins.onnx.write.executed import optimized_engine
from qdialect.quantizer.output_parts import parts_of
from qdialect.quantizer.quality import Judge
from qdialect.workflows.metrics_of_tasks import TASKS, Task
from qdialect.workflows.race import race
from tests.support.tables import put, step, table
from tools.bench import corpus
from tools.bench.quantizers import ANSWERERS, QUANTIZERS, WEIGHTS4, ours
from tools.bench.real_samples import CALIBRATION, TESTS, real
from tools.bench.samples import Feeds
from tools.bench.unseen import NAMES, float_model, unseen

TEST_SEED = 1000
"""Added to the seed of the calibration samples."""
FLOAT = "float"
AS_GOOD = "ours as good"
MARGIN = 0.5
"""So many decibels more are asked for: what few samples promise others do not quite have."""
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


@dataclass(frozen=True)
class Data:
    """Samples to calibrate on and others to judge on, and what tells them from other samples."""

    calibration: Sequence[Feeds]
    tests: Sequence[Feeds]

    @classmethod
    def of(cls, source: corpus.Source, options: argparse.Namespace) -> Data:
        """Those that the options ask for."""
        first, second = source.samples, source.samples
        if options.data == "real":
            first, second = (real(source, part) for part in (CALIBRATION, TESTS))
        later = TEST_SEED + options.seed
        return cls(first(options.calibration, options.seed), second(options.tests, later))

    def digest(self, path: Path, *, tests: bool) -> str:
        """Of a float file and samples."""
        found = hashlib.sha256(path.read_bytes())
        for feeds in (*self.calibration, *(self.tests if tests else ())):
            for name, array in sorted(feeds.items()):
                found.update(name.encode() + array.tobytes())
        return found.hexdigest()[:16]


def quantized(
    source: corpus.Source,
    tools: Sequence[str],
    options: argparse.Namespace,
    data: Data,
    folder: Path,
    made: Mapping[str, File],
) -> Iterator[tuple[str, Path | str, float]]:
    """Tool, the file that it wrote or why none, and its seconds; a file that is in the folder is
    used if it is of the same float file and samples. `made` are those of the tools before."""
    path = float_model(source)
    for tool in tools:
        answers, flags = tool in ANSWERERS, _flags(tool, made)
        stem = f"{source.name}.{tool.replace(' ', '-')}"
        target = folder / f"{stem}{'.npz' if answers else '.onnx'}"
        said = folder / f"{stem}.json"
        digest = data.digest(path, tests=answers) + " ".join(flags)
        known = json.loads(said.read_text()) if said.exists() else {}
        if tool in options.again or known.get("digest") != digest:
            if options.only_kept:
                continue
            target.unlink(missing_ok=True)
            start, failed = time.perf_counter(), ""
            try:
                with step(f"{source.name}: {tool}"):
                    if answers:
                        ANSWERERS[tool](source, path, data.calibration, data.tests, target)
                    else:
                        make = ours(*flags) if tool == AS_GOOD else QUANTIZERS[tool]
                        make(source, path, data.calibration, target)
            except Exception as error:
                failed = (str(error).splitlines() or [repr(error)])[0][:160]
            seconds = time.perf_counter() - start
            known = {"failed": failed, "seconds": seconds, "digest": digest}
            said.write_text(json.dumps(known))
        yield tool, known["failed"] or target, known["seconds"]


def _flags(tool: str, made: Mapping[str, File]) -> Sequence[str]:
    """What a tool is told that depends on what others made."""
    if tool != AS_GOOD:
        return ()
    others = [file.worst for name, file in made.items() if name not in OURS and not file.failed]
    if not others:
        raise RuntimeError(f"'{AS_GOOD}' takes the tools of others before it")
    budget = f"sqnr>={max(others) + MARGIN:.1f}"
    return "--budget", budget, "--best-effort", "--effort", "1"


def row(source: corpus.Source, tools: Sequence[str], options: argparse.Namespace) -> Row:
    """One network with each tool."""
    path, data = float_model(source), Data.of(source, options)
    tests = data.tests
    files: dict[str, File] = {}
    engines = {FLOAT: optimized_engine(path)[0]}
    expected = [engines[FLOAT].run(feeds) for feeds in tests]
    judge, task = judge_of(path, expected), task_of(source.task, tests, expected)
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        for tool, found, taken in quantized(source, tools, options, data, folder, files):
            try:
                if isinstance(found, str):
                    raise RuntimeError(found)
                if tool in ANSWERERS:
                    answers, megabytes = _answered(found, expected)
                else:
                    engines[tool] = optimized_engine(found)[0]
                    answers = [engines[tool].run(feeds) for feeds in tests]
                    megabytes = found.stat().st_size / 1e6
                files[tool] = _judged(judge, task, answers, megabytes, taken)
            except Exception as error:  # what a tool wrote may not run
                engines.pop(tool, None)
                files[tool] = File(failed=str(error).splitlines()[0][:160], seconds=taken)
    milliseconds = math.nan
    if options.seconds:
        laps = race(engines, dict.fromkeys(engines, tests[0]), options.seconds).laps
        milliseconds = laps[FLOAT].milliseconds
        for tool in files.keys() & laps.keys():
            lap = laps[tool]
            files[tool] = replace(files[tool], ratio=lap.ratio, low=lap.low, high=lap.high)
    size = path.stat().st_size / 1e6
    return Row(source.name, source.task if task else "", milliseconds, size, len(tests), files)


def _judged(judge: Judge, task: Task | None, got: Answers, megabytes: float, taken: float) -> File:
    """What one tool wrote, by its answers to the tests; its time is not known yet."""
    found = judge.judge(got)
    worst = min(found.parts, key=lambda part: part.sqnr_db)
    channels = [db for part in found.parts for db in part.channels if db is not None]
    return File(
        megabytes=megabytes,
        worst=worst.sqnr_db,
        part=str(worst.part),
        channel=min(channels, default=None),
        dead=len(found.dead),
        metric=None if task is None else task.judge(got),
        seconds=taken,
    )


def _answered(path: Path, expected: Answers) -> tuple[Answers, float]:
    """What a tool answered to the tests, and the megabytes of what it made (NaN: not said)."""
    with np.load(path) as stored:
        arrays = {name: stored[name] for name in expected[0]}
        size = float(stored["bytes"]) / 1e6 or math.nan
    rows = [{name: array[i] for name, array in arrays.items()} for i in range(len(expected))]
    for name, array in rows[0].items():
        if array.shape != expected[0][name].shape:
            raise RuntimeError(f"{name} has the shape {array.shape}")
    return rows, size


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
        shown = "" if math.isnan(row.milliseconds) else f"{row.milliseconds:.2f} ms"
        lines.append((row.model, FLOAT, shown, f"{row.megabytes:.3g}", *[""] * 4, row.task, ""))
        lines += [("", tool, *_cells(file)) for tool, file in row.files.items()]
    return table(header, lines)


def _cells(file: File) -> tuple[str, ...]:
    if file.failed:
        said = file.failed.replace("|", "/")[:60]
        return "fails", "", "", said, "", "", "", f"{file.seconds:.0f}"
    spread = f"{file.ratio:.2f} ± {(file.high - file.low) / 2:.2f}{'!' if file.low > 1 else ''}"
    spread = "" if math.isnan(file.ratio) else spread
    metric = "" if file.metric is None else f"{file.metric:.3f}"
    channel = "" if file.channel is None else f"{file.channel:.1f}"
    loss = f"{file.worst:.1f}", file.part, channel, str(file.dead or "")
    size = "" if math.isnan(file.megabytes) else f"{file.megabytes:.3g}"
    return spread, size, *loss, metric, f"{file.seconds:.0f}"


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


MEASURES: Mapping[str, tuple[Callable[[File], float | None], float]] = {
    "worst part": (lambda file: file.worst, 0.3),
    "worst channel": (lambda file: file.channel, 0.3),
    "metric": (lambda file: file.metric, 0.005),
}
"""What files are ranked by, and how much of it is no difference."""
OURS = ("before", "ours", "ours 1", "ours 2", AS_GOOD, "ours u4", "ours u4, tables")


def place(row: Row, tool: str, measure: str, *, as_fast: bool = False) -> tuple[int, int] | None:
    """The place of a tool of ours among those of others, and the place of the last: 1 if none is
    better, by more than what is no difference.  `as_fast`: among those that are no slower than it,
    beyond the quartiles, or of which no time is known.  None where it made nothing to compare, or
    the float file."""
    figure, tie = MEASURES[measure]
    mine = row.files.get(tool)
    if mine is None or mine.failed or figure(mine) is None or mine.worst == math.inf:
        return None
    rivals = [
        figure(file)
        for name, file in row.files.items()
        if name not in OURS and not file.failed and not (as_fast and file.low > mine.high)
    ]
    own, values = figure(mine), [value for value in rivals if value is not None]
    assert own is not None
    better = sum(value > own + tie for value in values)
    as_good = sum(abs(value - own) <= tie for value in values)
    return (1 + better, 1 + len(values) - as_good) if values else None


def matched(row: Row, measure: str) -> bool | None:
    """Whether for each file of others one of ours is as good and no slower, beyond the quartiles;
    None where ours made nothing to compare."""
    figure, tie = MEASURES[measure]
    known = [(name, file) for name, file in row.files.items() if not file.failed]
    mine = [file for name, file in known if name in OURS and file.worst != math.inf]
    pairs = [(file, value) for file in mine if (value := figure(file)) is not None]
    rivals = [file for name, file in known if name not in OURS]
    asked = [(file, value) for file in rivals if (value := figure(file)) is not None]
    if not pairs or not asked:
        return None
    return all(
        any(own >= value - tie and not file.low > rival.high for file, own in pairs)
        for rival, value in asked
    )


def ranks(rows: Sequence[Row]) -> str:
    """For each tool of ours and each measure: in how many networks none is better, and where all
    others are; and in how many each file of others is matched by one of ours."""
    header = ("", "by", "first or equal", "of those no slower", "last in")
    lines: list[tuple[str, ...]] = []
    for tool in OURS:
        for measure in MEASURES:
            found = [(row, place(row, tool, measure)) for row in rows]
            known = [(row, each) for row, each in found if each is not None]
            if not known:
                continue
            fast = [place(row, tool, measure, as_fast=True) for row, _ in known]
            firsts = (
                sum(each[0] == 1 for _, each in known),
                sum(e is None or e[0] == 1 for e in fast),
            )
            shares = (_share(n, len(known)) for n in firsts)
            last = [row.model for row, each in known if each[0] == each[1] > 1]
            lines.append((tool, measure, *shares, ", ".join(last) or "none"))
    for measure in MEASURES:
        whether = [each for row in rows if (each := matched(row, measure)) is not None]
        if whether:
            share = _share(sum(whether), len(whether))
            lines.append(("each matched by one of ours", measure, share, share, ""))
    return table(header, lines)


def _share(count: int, of: int) -> str:
    return f"{count} of {of} ({100 * count / of:.0f} %)"


def summary(rows: Sequence[Row]) -> str:
    """A line for each network: each of ours, the best of others, metrics, and the time of the best
    of others beside ours as good, of float time."""
    tools = [t for t in OURS if any(t in row.files for row in rows)]
    header = ("network", *tools, "best of others", "which", "metric", "best metric of others")
    header += ("time as good", "of best") if AS_GOOD in tools else ()
    lines: list[tuple[str, ...]] = []
    for row in rows:
        good = {name: file for name, file in row.files.items() if not file.failed}
        peers = {name: file for name, file in good.items() if name not in OURS}
        mine = [f"{good[t].worst:.1f}" if t in good else "" for t in tools]
        first = max(peers, key=lambda name: peers[name].worst, default=None)
        metrics = [good[t].metric for t in tools if t in good]
        theirs = [file.metric for file in peers.values() if file.metric is not None]
        own = " / ".join("" if m is None else f"{m:.3f}" for m in metrics)
        best = (f"{peers[first].worst:.1f}", first) if first else ("", "")
        line = [row.model, *mine, *best, own, f"{max(theirs):.3f}" if theirs else ""]
        if AS_GOOD in tools:
            compared = good.get(AS_GOOD), peers.get(first or "")
            ratios = [math.nan if file is None else file.ratio for file in compared]
            line += ["" if math.isnan(ratio) else f"{ratio:.2f}" for ratio in ratios]
        lines.append(tuple(line))
    return table(header, lines)


def read_figures(path: Path) -> list[Row]:
    """The rows of an earlier run."""
    found = json.loads(path.read_text(encoding="utf-8"))
    return [Row(**r | {"files": {t: File(**f) for t, f in r["files"].items()}}) for r in found]


def main(arguments: Sequence[str] | None = None) -> int:
    """The table, and in what ours is behind; 1 if it is."""
    names = [*NAMES, *corpus.SOURCES, *corpus.HELD_OUT]
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", nargs="+", choices=names, default=names)
    known_tools = [*QUANTIZERS, *ANSWERERS, AS_GOOD]
    parser.add_argument("--tools", nargs="+", choices=known_tools, help="all but for 4 bits")
    parser.add_argument("--weights4", action="store_true", help="tools for weights of 4 bits")
    parser.add_argument("--calibration", type=int, default=64, help="samples to calibrate on")
    parser.add_argument("--tests", type=int, default=64, help="other samples to compare on")
    parser.add_argument("--seed", type=int, default=1, help="of both kinds of samples")
    parser.add_argument("--seconds", type=float, default=10.0, help="of timing (0: none)")
    parser.add_argument("--data", choices=("made", "real"), default="made")
    parser.add_argument("--keep", type=Path, help="keep the files there, and use those that are")
    parser.add_argument("--only-kept", action="store_true", help="make no files")
    parser.add_argument("--again", nargs="*", default=[], help="tools whose files are made anew")
    parser.add_argument("--json", type=Path, help="write the figures there too")
    parser.add_argument("--known", type=Path, nargs="*", default=[], help="figures to add rows of")
    parser.add_argument("--document", type=Path, help="put the table there, between its marks")
    options = parser.parse_args(arguments)
    if options.tools is None:
        options.tools = [t for t in known_tools if (t in WEIGHTS4) == options.weights4]
    rows = [row for path in options.known if path.exists() for row in read_figures(path)]
    known = {row.model for row in rows}
    for name in (name for name in options.models if name not in known):
        with step(name):
            rows.append(row(unseen(name), options.tools, options))
        print(tables(rows[-1:]).split("\n", 2)[2], file=sys.stderr, flush=True)
        if options.json is not None:
            options.json.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")
    late = [line for row in rows for line in behind(row)]
    text = "\n\n".join((summary(rows), ranks(rows), tables(rows)))
    text += "\n\nBehind:\n\n" + "\n".join(f"- {line}" for line in late or ["nothing"])
    print(text)
    if options.document is not None:
        ending = "_real" * (options.data == "real") + "_w4" * options.weights4
        put(options.document, f"bench_quantize{ending}", text)
    return int(bool(late))


if __name__ == "__main__":
    sys.exit(main())

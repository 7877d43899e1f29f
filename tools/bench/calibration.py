"""Calibration against ONNX Runtime's calibrators: samples per second and peak memory.

The same float networks and samples, one thread each. Rates are compared in one process, in
turns, by processor time, which leaves out what the machine does for others; opening the model
is not part of them, writing the statistics is. Peak memory is that of a process which does
nothing else. Ours gathers the whole profile (bins, extremes by sample, pieces of composite
ops); theirs gathers two numbers a value (MinMax) or a histogram (Entropy).
"""

# pyright: basic
from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort

import qdialect as qd
from qdialect.quantizer.profile.collector import Collector
from qdialect.quantizer.profile.engines import open_engine
from qdialect.quantizer.profile.file import profile_text
from qdialect.quantizer.profile.instrument import instrument, leave_derived
from qdialect.quantizer.profile.record import Settings
from qdialect.workflows.calibrate import new_profile
from tests.support.tables import step
from tools.bench import corpus

OURS = "qdialect"
THEIRS = ("MinMax", "Entropy")
Feeds = dict[str, np.ndarray]


@dataclass(frozen=True)
class Row:
    """One network: samples per second of processor time, megabytes, and our profile."""

    model: str
    nodes: int
    keys: int
    kilobytes: float
    rates: dict[str, float]
    megabytes: dict[str, float]

    @property
    def ratio(self) -> float:
        """How many times as fast as MinMax."""
        return self.rates[OURS] / self.rates["MinMax"]


def ours(path: Path) -> Callable[[Sequence[Feeds]], str]:
    """Calibration with this package: the text of the profile of some samples."""
    model = qd.load(path)
    start = new_profile(model, Settings("onnxruntime"))
    plan = instrument(model.module, model.ctx)
    leave_derived(plan, model.ctx, False)
    engine = open_engine("onnxruntime", plan, model.ctx)

    def run(samples: Sequence[Feeds]) -> str:
        collector = Collector(start, plan.derived())
        for index, sample in enumerate(samples):
            collector.add(index, engine.run(sample))
        return profile_text(collector.profile())

    return run


def theirs(path: Path, method: str, folder: Path) -> Callable[[Sequence[Feeds]], str]:
    """Calibration with ONNX Runtime's calibrator of that name."""
    from onnxruntime.quantization import calibrate

    original = ort.SessionOptions

    class OneThread:
        def __new__(cls) -> ort.SessionOptions:
            options = original()
            options.intra_op_num_threads = options.inter_op_num_threads = 1
            options.log_severity_level = 3
            return options

    calibrate.onnxruntime.SessionOptions = OneThread
    augmented = folder / f"{method}.onnx"
    calibrator = calibrate.create_calibrator(
        path,
        None,
        augmented_model_path=str(augmented),
        calibrate_method=calibrate.CalibrationMethod[method],
    )
    calibrate.onnxruntime.SessionOptions = original

    class Reader(calibrate.CalibrationDataReader):
        def __init__(self, samples: Sequence[Feeds]) -> None:
            self.samples = iter(samples)

        def get_next(self) -> Feeds | None:
            return next(self.samples, None)

    def run(samples: Sequence[Feeds]) -> str:
        calibrator.collect_data(Reader(samples))
        found = calibrator.compute_data()
        calibrator.clear_collected_data()
        return str(len(found.data))

    return run


def opened(what: str, path: Path, folder: Path) -> Callable[[Sequence[Feeds]], str]:
    return ours(path) if what == OURS else theirs(path, what, folder)


def measure(source: corpus.Source, methods: Sequence[str], count: int, rounds: int) -> Row:
    """The network with each of `methods`, in turns."""
    path = corpus.float_model(source)
    samples = source.samples(count, 1)
    names = [OURS, *methods]
    seconds: dict[str, list[float]] = {name: [] for name in names}
    text = ""
    with tempfile.TemporaryDirectory() as folder:
        running = {name: opened(name, path, Path(folder)) for name in names}
        for round_ in range(rounds + 1):
            for name, run in running.items():
                began = time.process_time()
                result = run(samples if round_ else samples[:1])
                if round_:
                    seconds[name].append(time.process_time() - began)
                text = result if name == OURS else text
    return Row(
        source.name,
        len(onnx.load(path, load_external_data=False).graph.node),
        len(json.loads(text)["entries"]),
        len(text) / 1e3,
        {name: count / statistics.median(found) for name, found in seconds.items()},
        {name: peak(source.name, name, count) for name in names},
    )


def peak(model: str, what: str, count: int) -> float:
    """The most memory a process that calibrates holds, in MB."""
    command = [
        sys.executable,
        "-m",
        "tools.bench",
        "calibration",
        "--models",
        model,
        "--alone",
        what,
    ]
    found = subprocess.run([*command, "--samples", str(count)], capture_output=True, check=True)
    return float(found.stdout.split()[-1])


def alone(model: str, what: str, count: int) -> None:
    """Calibrate once and print this process's peak memory in MB."""
    source = corpus.SOURCES[model]
    path = corpus.float_model(source)
    samples = source.samples(count, 1)
    with tempfile.TemporaryDirectory() as folder:
        opened(what, path, Path(folder))(samples)
    print(peak_memory())


def peak_memory() -> float:
    """Of this process alone, in MB: what `getrusage` says includes the process it came from."""
    status = Path("/proc/self/status")
    if not status.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    lines = status.read_text().splitlines()
    return next(int(line.split()[1]) / 1e3 for line in lines if line.startswith("VmHWM"))


def table(rows: Sequence[Row], methods: Sequence[str]) -> str:
    """Rows as Markdown."""
    names = [OURS, *methods]
    heads = ["model", "nodes", "keys", "kB", *(f"{n} 1/s" for n in names)]
    heads += [f"x {n}" for n in methods] + [f"{n} MB" for n in names]
    lines = [f"| {' | '.join(heads)} |", "|---" + "|--:" * (len(heads) - 1) + "|"]
    for row in rows:
        cells = [row.model, str(row.nodes), str(row.keys), f"{row.kilobytes:.0f}"]
        cells += [f"{row.rates[n]:.1f}" for n in names]
        cells += [f"{row.rates[OURS] / row.rates[n]:.2f}" for n in methods]
        cells += [f"{row.megabytes[n]:.0f}" for n in names]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """The table, and the median of the ratios to MinMax."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", nargs="+", choices=corpus.SOURCES, default=list(corpus.SOURCES))
    parser.add_argument("--methods", nargs="*", choices=THEIRS, default=["MinMax"])
    parser.add_argument("--samples", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path, help="write the figures there too")
    parser.add_argument("--alone", choices=(OURS, *THEIRS), help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.alone:
        alone(options.models[0], options.alone, options.samples)
        return 0
    methods = list(dict.fromkeys(("MinMax", *options.methods)))
    rows: list[Row] = []
    for name in options.models:
        with step(name):
            rows.append(measure(corpus.SOURCES[name], methods, options.samples, options.rounds))
    print(table(rows, methods))
    ratios = [row.ratio for row in rows]
    print(f"\ntimes MinMax, median: {statistics.median(ratios):.2f}")
    if options.json is not None:
        options.json.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

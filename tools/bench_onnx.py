"""`bench.py onnx`: every network of the corpus, in every configuration, run by ONNX Runtime.

Three files are timed in turns: the float network, the quantized one (the runtime alone),
and what `qopt optimize` makes of it; the runtime optimizes all three as much as it can.
Counts are of what the runtime then runs. "Same" compares ours with the quantized file, both
as they are written (QDQ form, runtime optimizations off); SQNR is against the float network.

    python tools/bench.py onnx --models ocr-cls wake-word --json onnx.json --plot onnx.png
"""

# pyright: basic
from __future__ import annotations

import argparse
import json
import math
import platform
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import onnx
import onnxruntime as ort
from onnxruntime.quantization import QuantFormat

import corpus
import document
import qdialect as qd
from measure import count_ops, latency, run_all, session, sqnr
from progress import step, table
from qdialect.cli.race import cheapest_form
from samples import Feeds

EVALUATION_SEED = 2
GOALS = {"s8": 0.50, "u8": 0.80}
"""Geometric means to reach, by the first part of a configuration's name."""


@dataclass(frozen=True)
class Sides:
    """One figure of the runtime alone and of ours."""

    alone: float
    ours: float

    @property
    def ratio(self) -> float:
        return self.ours / self.alone if self.alone else 1.0


@dataclass(frozen=True)
class Row:
    """One network in one configuration; times in milliseconds (`optimize` in seconds)."""

    model: str
    config: str
    float_latency: float
    latency: Sides
    spread: float
    """Relative half width of the middle half of the runs, the noisier side."""
    creation: Sides
    conversions: Sides
    """Q and DQ that are run and touch neither an input nor an output of the graph."""
    float_ops: Sides
    nodes: int
    optimize: float
    runtime_optimizer: float
    """What creating a session takes longer because the runtime optimizes, in seconds."""
    same: float
    """Share of output elements that are equal."""
    sqnr_written: float
    sqnr: Sides

    @property
    def ratio(self) -> float:
        return self.latency.ratio


def interior_conversions(model: onnx.ModelProto) -> int:
    """Q and DQ between ops, not at the interface, nor of weights."""
    graph = model.graph
    outside = {v.name for v in graph.input} | {t.name for t in graph.initializer}
    results = {v.name for v in graph.output}
    return sum(
        node.op_type in ("QuantizeLinear", "DequantizeLinear")
        and node.input[0] not in outside
        and not results & set(node.output)
        for node in graph.node
    )


def created(path: Path, optimized: bool, repeat: int) -> float:
    """The shortest time to make a session, in milliseconds of processor time."""
    best = math.inf
    for _ in range(repeat):
        start = time.process_time()
        session(path, optimized=optimized)
        best = min(best, time.process_time() - start)
    return 1e3 * best


def what_runs(path: Path) -> tuple[int, int]:
    """Interior conversions and float ops that are left when the runtime is done."""
    with tempfile.TemporaryDirectory() as folder:
        saved = Path(folder) / "run.onnx"
        session(path, save=saved)
        model = onnx.load(saved)
    return interior_conversions(model), count_ops(model).float_ops


def optimized(source: Path, target: Path, form: str | None) -> float:
    """Load, optimize and save; seconds of processor time."""
    start = time.process_time()
    model = qd.optimize(qd.load(source), target="onnxruntime")
    chosen = cheapest_form(model.module, qd.get_target("onnxruntime")) if form is None else form
    qd.save(model, target, form="qoperator" if chosen == "qoperator" else "qdq")
    return time.process_time() - start


def rounds_for(
    sessions: Mapping[str, ort.InferenceSession], feeds: Feeds, seconds: float
) -> tuple[int, int]:
    """How many rounds of all fit into `seconds`, and how many of them warm up."""
    start = time.perf_counter()
    for each in sessions.values():
        each.run(None, dict(feeds))
        each.run(None, dict(feeds))
    one = (time.perf_counter() - start) / 2
    rounds = int(min(max(seconds / one, 7), 1000))
    return rounds, max(2, rounds // 10)


def measured(
    source: corpus.Source, config: corpus.Config, options: argparse.Namespace, folder: Path
) -> Row:
    """Everything about one file."""
    exact = corpus.float_model(source)
    alone = corpus.quantized_model(source, config, options.calibration)
    ours, written = folder / "ours.onnx", folder / "qdq.onnx"
    seconds = min(optimized(alone, ours, options.form) for _ in range(options.repeat))
    optimized(alone, written, "qdq")
    samples = source.samples(options.samples, EVALUATION_SEED)
    paths = {"float": exact, "alone": alone, "ours": ours}
    sessions = {name: session(path) for name, path in paths.items()}
    rounds, warm_up = rounds_for(sessions, samples[0], options.seconds)
    timing = latency(sessions, samples, rounds=rounds, warm_up=warm_up)
    wanted = run_all(sessions["float"], samples)
    # Integer kernels round in their own way: what is held against is what they mean.
    plain = folder / "plain.onnx"
    kernels = config.form is QuantFormat.QOperator
    if kernels:
        qd.save(qd.load(alone), plain, form="qdq")
    reference = run_all(session(plain if kernels else alone, optimized=False), samples)
    as_written = run_all(session(written, optimized=False), samples)
    equal = sum(int((a == b).sum()) for a, b in zip(reference, as_written, strict=True))
    counts = {name: what_runs(paths[name]) for name in ("alone", "ours")}
    makes = {name: created(paths[name], True, options.repeat) for name in ("alone", "ours")}
    unoptimized = created(alone, False, options.repeat)
    quality = {name: sqnr(wanted, run_all(sessions[name], samples)) for name in ("alone", "ours")}
    return Row(
        source.name,
        config.name,
        timing["float"].processor,
        Sides(timing["alone"].processor, timing["ours"].processor),
        max(
            (timing[name].high - timing[name].low) / 2 / timing[name].median
            for name in ("alone", "ours")
        ),
        Sides(makes["alone"], makes["ours"]),
        Sides(counts["alone"][0], counts["ours"][0]),
        Sides(counts["alone"][1], counts["ours"][1]),
        len(onnx.load(alone).graph.node),
        seconds,
        max(makes["alone"] - unoptimized, 0.0) / 1e3,
        equal / sum(array.size for array in reference),
        sqnr(wanted, reference),
        Sides(quality["alone"], quality["ours"]),
    )


def geometric_mean(ratios: Sequence[float]) -> float:
    return math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else math.nan


HEADER = (
    "network, configuration",
    "float ms",
    "alone ms",
    "ours ms",
    "ours / alone",
    "session ms",
    "interior Q/DQ",
    "float ops",
    "same",
    "SQNR dB written, alone, ours",
    "optimize s",
    "x runtime's",
)


def cells(row: Row) -> tuple[str, ...]:
    """A line of the table."""

    def both(sides: Sides, digits: int = 0) -> str:
        return f"{sides.alone:.{digits}f} → {sides.ours:.{digits}f}"

    slower = row.optimize / row.runtime_optimizer if row.runtime_optimizer else math.inf
    quality = (row.sqnr_written, row.sqnr.alone, row.sqnr.ours)
    return (
        f"{row.model} {row.config}",
        f"{row.float_latency:.2f}",
        f"{row.latency.alone:.2f}",
        f"{row.latency.ours:.2f}",
        f"{row.ratio:.2f}{'!' if row.ratio > 1 else ''}",
        both(row.creation),
        both(row.conversions),
        both(row.float_ops),
        f"{100 * row.same:.4g} %",
        ", ".join(f"{value:.1f}" for value in quality),
        f"{row.optimize:.2f}",
        f"{slower:.0f}",
    )


def summary(rows: Sequence[Row]) -> Iterator[str]:
    """The goals, and what misses them."""
    for kind, goal in GOALS.items():
        ratios = [row.ratio for row in rows if row.config.startswith(kind)]
        if ratios:
            yield f"{kind} activations: geometric mean {geometric_mean(ratios):.2f} (goal {goal})"
    slower = [f"{r.model} {r.config} {r.ratio:.2f}" for r in rows if r.ratio > 1]
    yield f"slower than the runtime alone: {', '.join(slower) or 'none'}"
    differing = [f"{r.model} {r.config}" for r in rows if r.same < 1]
    yield f"not the same bits as written: {', '.join(differing) or 'none'}"
    worse = [f"{r.model} {r.config}" for r in rows if r.sqnr.ours < r.sqnr_written - 0.2]
    yield f"more than 0.2 dB further from float than as written: {', '.join(worse) or 'none'}"


def plot(rows: Sequence[Row], path: Path) -> None:
    """Latency against the runtime alone, one bar per file."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    ordered = sorted(rows, key=lambda row: row.ratio, reverse=True)
    colours = {"s8": "#4477aa", "u8": "#cc6677"}
    figure, axes = pyplot.subplots(figsize=(8, 1 + 0.22 * len(ordered)), layout="constrained")
    axes.barh(
        [f"{row.model} {row.config}" for row in ordered],
        [row.ratio for row in ordered],
        color=[colours.get(row.config[:2], "#888888") for row in ordered],
    )
    axes.axvline(1.0, color="black", linewidth=1)
    axes.set_xlabel("latency, ours / ONNX Runtime alone (less is faster)")
    axes.margins(y=0.01)
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


def read_figures(path: Path) -> list[Row]:
    """The rows of an earlier run."""
    found = json.loads(path.read_text(encoding="utf-8"))["rows"]
    rows: list[Row] = []
    for row in found:
        del row["ratio"]
        values: dict[str, Any] = {
            n: Sides(**v) if isinstance(v, dict) else v for n, v in row.items()
        }
        rows.append(Row(**values))
    return rows


def write_figures(path: Path, rows: Sequence[Row]) -> None:
    """All figures so far: a long run that ends early has them."""
    versions = {
        "python": platform.python_version(),
        "onnxruntime": ort.__version__,
        "qdialect": qd.__version__,
    }
    figures = {"version": 1, **versions, "rows": [asdict(r) | {"ratio": r.ratio} for r in rows]}
    path.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 1 if something is slower than the runtime alone by more than its noise, or
    is not the same function."""
    parser = argparse.ArgumentParser(prog="bench.py onnx", description=__doc__)
    parser.add_argument("--models", nargs="+", choices=corpus.SOURCES, default=list(corpus.SOURCES))
    parser.add_argument(
        "--configs", nargs="+", choices=corpus.CONFIGS, default=list(corpus.CONFIGS)
    )
    parser.add_argument("--form", choices=("qdq", "qoperator"), help="default: the one that pays")
    parser.add_argument("--calibration", type=int, default=64, help="samples (default: 64)")
    parser.add_argument("--samples", type=int, default=8, help="to run on (default: 8)")
    parser.add_argument("--seconds", type=float, default=5.0, help="of timing for each file")
    parser.add_argument("--repeat", type=int, default=3, help="runs of what is not latency")
    parser.add_argument("--json", type=Path, help="write the figures to this file as well")
    parser.add_argument("--known", type=Path, nargs="*", default=[], help="figures to add rows of")
    parser.add_argument("--document", type=Path, help="put the table there, between its marks")
    parser.add_argument("--plot", type=Path, help="draw the ratios (needs matplotlib)")
    options = parser.parse_args(arguments)
    rows = [row for path in options.known for row in read_figures(path)]
    done = {(row.model, row.config) for row in rows}
    for name in options.models:
        for config in options.configs:
            if (name, config) in done:
                continue
            source, chosen = corpus.SOURCES[name], corpus.CONFIGS[config]
            with step(f"{name} {config}"), tempfile.TemporaryDirectory() as folder:
                try:
                    path = corpus.quantized_model(source, chosen, options.calibration)
                    run_all(session(path, optimized=False), source.samples(1, EVALUATION_SEED))
                except Exception as error:  # what the runtime's own quantizer wrote
                    told = str(error).splitlines()[0][:120]
                    print(
                        f"{name} {config}: the runtime does not run it as written: {told}",
                        file=sys.stderr,
                    )
                    continue
                rows.append(measured(source, chosen, options, Path(folder)))
            if options.json:
                write_figures(options.json, rows)
    text = table(HEADER, [cells(row) for row in rows]) + "\n\n"
    text += "\n".join(f"- {line}" for line in summary(rows))
    print(text)
    if options.document:
        document.put(options.document, "bench_onnx", text)
    if options.plot:
        plot(rows, options.plot)
    failed = any(row.ratio > 1 + row.spread or row.same < 1 for row in rows)
    return 1 if failed else 0

"""Networks in every configuration, as ONNX Runtime executes them.

Files are run in turns, each with all of the runtime's optimizations: the float network, the
quantized one (the runtime alone), and what `qopt optimize` makes of it at `exact` and at `ties`,
in both forms.  Ratios are medians over turns, against the runtime alone in the same turn.  What
the runtime executes is read from the graph that it saves.  "Same" compares ours at `exact` with
the quantized file, both as they are written (runtime optimizations off); SQNR is against the
float network.  `HELD OUT` networks are those no rewrite was made on.

    python -m tools.bench onnx --models ocr-cls wake-word --json onnx.json
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

import onnxruntime as ort
from onnxruntime.quantization import QuantFormat

import qdialect as qd
from qdialect.plugins.onnx.write.engine import OrtEngine
from qdialect.plugins.onnx.write.executed import optimized_engine
from qdialect.workflows.race import cheapest_form, race
from tests.support.tables import put, step, table
from tools.bench import corpus
from tools.bench.measure import run_all, session, sqnr

EVALUATION_SEED = 2
GOALS = {("s8", "exact"): 0.42, ("u8", "exact"): 0.85, ("u8", "ties"): 0.75}
"""Geometric means to reach on networks that are held out, by the first part of a configuration's
name and the level."""
LEVELS = ("exact", "ties")
FORMS = ("qdq", "qoperator")
SLACK_DB = 0.2


@dataclass(frozen=True)
class Runs:
    """One file: milliseconds, its time over that of the runtime alone (median and quartiles),
    how many nodes are executed, float ones by kind and casts of them, and dB from float."""

    ms: float
    ratio: float
    low: float
    high: float
    nodes: int
    floats: str
    float_nodes: int
    casts: int
    sqnr: float


@dataclass(frozen=True)
class Row:
    """One network in one configuration."""

    model: str
    config: str
    held_out: bool
    runs: Mapping[str, Runs]
    """By `float`, `alone`, and level and form (`exact qdq`)."""
    preferred: str
    """The form that prices choose at `exact`."""
    optimize: float
    """Seconds of processor time to load, optimize and save at `exact`."""
    same: float
    """Share of output elements that are equal."""
    sqnr_written: float

    def best(self, level: str) -> Runs:
        """What is written: QDQ form at `exact`, else the faster one."""
        if level == "exact":
            return self.runs["exact qdq"]
        return min((self.runs[f"{level} {form}"] for form in FORMS), key=lambda runs: runs.ratio)


def written(source: Path, numerics: str, folder: Path) -> tuple[dict[str, Path], str, float]:
    """Both forms at a level, the form that is cheaper by prices, and seconds for one of them."""
    start = time.process_time()
    model = qd.optimize(qd.load(source), target="onnxruntime", numerics=numerics)
    paths = {f"{numerics} {form}": folder / f"{numerics}-{form}.onnx" for form in FORMS}
    qd.save(model, paths[f"{numerics} qdq"], form="qdq")
    seconds = time.process_time() - start
    qd.save(model, paths[f"{numerics} qoperator"], form="qoperator")
    return paths, cheapest_form(model.module, qd.get_target("onnxruntime")), seconds


def measured(
    source: corpus.Source, config: corpus.Config, options: argparse.Namespace, folder: Path
) -> Row:
    """Everything about one file."""
    alone = corpus.quantized_model(source, config, options.calibration)
    paths, preferred, seconds = written(alone, "exact", folder)
    paths |= written(alone, "ties", folder)[0]
    paths = {"alone": alone, "float": corpus.float_model(source), **paths}
    engines, counts = {}, {}
    for name, path in paths.items():
        engines[name], counts[name] = optimized_engine(path)
    samples = source.samples(options.samples, EVALUATION_SEED)
    laps = race(engines, dict.fromkeys(engines, samples[0]), options.seconds).laps
    expected = run_all(session(paths["float"]), samples)
    # Integer kernels round in their own way: the outputs are compared with what they mean.
    plain, kernels = folder / "plain.onnx", config.form is QuantFormat.QOperator
    if kernels:
        qd.save(qd.load(alone), plain, form="qdq")
    reference = run_all(session(plain if kernels else alone, optimized=False), samples)
    ours = run_all(session(paths["exact qdq"], optimized=False), samples)
    equal = sum(int((a == b).sum()) for a, b in zip(reference, ours, strict=True))

    def runs(name: str) -> Runs:
        lap, count = laps[name], counts[name]
        quality = sqnr(expected, run_all(session(paths[name]), samples))
        sides = lap.milliseconds, lap.ratio, lap.low, lap.high
        return Runs(*sides, count.nodes, count.kinds(), count.float_nodes, count.casts, quality)

    return Row(
        source.name,
        config.name,
        source.name in corpus.HELD_OUT,
        {name: runs(name) for name in paths},
        preferred,
        seconds,
        equal / sum(array.size for array in reference),
        sqnr(expected, reference),
    )


def geometric_mean(ratios: Sequence[float]) -> float:
    return math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else math.nan


HEADER = (
    "network, configuration",
    "float ms",
    "alone ms",
    "float / alone",
    "exact: QDQ, QOperator / alone",
    "ties / alone",
    "race",
    "executed: nodes",
    "casts",
    "float nodes",
    "float nodes of ours",
    "same",
    "SQNR dB written, alone, exact, ties",
    "optimize s",
)


def cells(row: Row) -> tuple[str, ...]:
    """A line of the table."""
    alone, exact, ties = row.runs["alone"], row.best("exact"), row.best("ties")
    pair = [row.runs[f"exact {form}"] for form in FORMS]
    shown = [f"{run.ratio:.2f}" + ("!" if run.low > 1 else "") for run in pair]
    spread = max(run.high - run.low for run in pair) / 2
    quality = row.sqnr_written, alone.sqnr, exact.sqnr, ties.sqnr

    def both(field: str) -> str:
        return f"{getattr(alone, field)} → {getattr(exact, field)}"

    return (
        f"{row.model} {row.config}",
        f"{row.runs['float'].ms:.2f}",
        f"{alone.ms:.2f}",
        f"{row.runs['float'].ratio:.2f}",
        f"{', '.join(shown)} ± {spread:.2f}",
        f"{ties.ratio:.2f}",
        "input" if exact.ratio > 1 else "ours",
        both("nodes"),
        both("casts"),
        both("float_nodes"),
        exact.floats,
        f"{100 * row.same:.4g} %",
        ", ".join(f"{value:.1f}" for value in quality),
        f"{row.optimize:.2f}",
    )


def summary(rows: Sequence[Row]) -> Iterator[str]:
    """The goals, and what misses them."""
    for unseen, where in ((True, "held out"), (False, "of the corpus")):
        for (kind, level), goal in GOALS.items():
            chosen = [r for r in rows if r.held_out == unseen and r.config.startswith(kind)]
            if chosen:
                mean = geometric_mean([row.best(level).ratio for row in chosen])
                note = f" (goal {goal})" if unseen else ""
                yield f"{where}, {kind} activations at `{level}`: geometric mean {mean:.2f}{note}"
    slower = [f"{r.model} {r.config} {r.best('exact').ratio:.2f}" for r in rows if _is_slower(r)]
    yield f"slower than the runtime alone, beyond the quartiles: {', '.join(slower) or 'none'}"
    floats = [
        f"{r.model} {r.config}" for r in rows if r.runs["float"].ratio < r.best("exact").ratio
    ]
    yield f"the float network is faster: {', '.join(floats) or 'none'}"
    differing = [f"{r.model} {r.config}" for r in rows if r.same < 1]
    yield f"not the same bits as written: {', '.join(differing) or 'none'}"
    worse = [
        f"{r.model} {r.config} {level}"
        for r in rows
        for level in LEVELS
        if r.best(level).sqnr < min(r.sqnr_written, r.runs["alone"].sqnr) - SLACK_DB
    ]
    said = ", ".join(worse) or "none"
    yield f"more than {SLACK_DB} dB further from float than the input, executed or written: {said}"


def _is_slower(row: Row) -> bool:
    return row.best("exact").low > 1


def read_figures(path: Path) -> list[Row]:
    """The rows of an earlier run."""
    found = json.loads(path.read_text(encoding="utf-8"))["rows"]
    return [Row(**row | {"runs": {n: Runs(**v) for n, v in row["runs"].items()}}) for row in found]


def write_figures(path: Path, rows: Sequence[Row]) -> None:
    """All figures so far: a long run that ends early has them."""
    versions = {
        "python": platform.python_version(),
        "onnxruntime": ort.__version__,
        "qdialect": qd.__version__,
    }
    figures = {"version": 2, **versions, "rows": [asdict(r) for r in rows]}
    path.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 1 if something is slower than the runtime alone by more than its noise, or
    is not the same function."""
    names = [*corpus.SOURCES, *corpus.HELD_OUT]
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", nargs="+", choices=names, default=names)
    parser.add_argument(
        "--configs", nargs="+", choices=corpus.CONFIGS, default=list(corpus.CONFIGS)
    )
    parser.add_argument("--calibration", type=int, default=16, help="samples (default: 16)")
    parser.add_argument("--samples", type=int, default=8, help="to run on (default: 8)")
    parser.add_argument("--seconds", type=float, default=5.0, help="of timing for each file")
    parser.add_argument("--json", type=Path, help="write the figures to this file as well")
    parser.add_argument("--known", type=Path, nargs="*", default=[], help="figures to add rows of")
    parser.add_argument("--document", type=Path, help="put the table there, between its marks")
    options = parser.parse_args(arguments)
    rows = [row for path in options.known if path.exists() for row in read_figures(path)]
    done = {(row.model, row.config) for row in rows}
    for name in options.models:
        for config in options.configs:
            if (name, config) in done:
                continue
            source, chosen = corpus.source_named(name), corpus.CONFIGS[config]
            with step(f"{name} {config}"), tempfile.TemporaryDirectory() as folder:
                try:
                    path = corpus.quantized_model(source, chosen, options.calibration)
                    for optimize in (False, True):
                        OrtEngine(path, optimize).run(source.samples(1, EVALUATION_SEED)[0])
                except Exception as error:  # what the runtime's own quantizer wrote
                    reason = str(error).splitlines()[0][:120]
                    print(
                        f"{name} {config}: the runtime does not run it: {reason}", file=sys.stderr
                    )
                    continue
                rows.append(measured(source, chosen, options, Path(folder)))
            if options.json:
                write_figures(options.json, rows)
    text = table(HEADER, [cells(row) for row in rows]) + "\n\n"
    text += "\n".join(f"- {line}" for line in summary(rows))
    print(text)
    if options.document:
        put(options.document, "bench_onnx", text)
    return 1 if any(_is_slower(row) or row.same < 1 for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())

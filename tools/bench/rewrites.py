"""What each rewrite of the float model is worth: networks quantized with none, each alone, and all.

Each network is rewritten, calibrated anew and quantized by the rules, without a race; what is
judged is the file as ONNX Runtime executes it, on samples that no range is of: the dB of the worst
part of the outputs and of its worst channel.  Beside it, how far the rewritten float model is from
the one it was: the largest difference of an output over the largest number in it.

    python -m tools.bench rewrites --models pp-lcnet minilm-dynamic --json rewrites.json
"""

# pyright: basic
from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

import qdialect as qd
from qdialect.formats.onnx.write.executed import optimized_engine
from qdialect.quantization.float_rewrites.base import FloatRewrite, Rewritten
from qdialect.quantization.float_rewrites.statistics import measured
from qdialect.quantization.float_rewrites.table import rewrites
from qdialect.quantization.output_parts import parts_of
from qdialect.quantization.preparation import prepare
from qdialect.quantization.quality import Judge
from qdialect.quantization.recipe import Recipe
from qdialect.targets.installed import get_target
from qdialect.workflows.model import Model
from qdialect.workflows.quantize import Quantization
from qdialect.workflows.run import open_engine
from tests.support.tables import step, table
from tools.bench import corpus
from tools.bench.quantizers import write_samples
from tools.bench.unseen import NAMES, float_model, unseen

NONE, ALL = "none", "all"
TEST_SEED = 1000
"""Added to the seed of the calibration samples."""


@dataclass(frozen=True)
class Line:
    """One network with one set of rewrites."""

    model: str
    rewrite: str
    worst: float
    channel: float | None
    foretold: float
    groups: int
    channels: int
    difference: float
    seconds: float


def line(
    name: str,
    model: Model,
    chosen: Sequence[FloatRewrite],
    label: str,
    samples: Sequence[Mapping[str, np.ndarray]],
    tests: Sequence[Mapping[str, np.ndarray]],
    judge: Judge,
    folder: Path,
    options: argparse.Namespace,
) -> Line | None:
    """The network with some rewrites; None where they find nothing to do."""
    start, changed = time.perf_counter(), Model(model.module.clone(), model.ctx.clone())
    target, done = get_target(options.target), list[Rewritten]()
    recipe = replace(Recipe.of_target(target), keep_float=frozenset(options.keep_float))
    for rewrite in chosen:
        found = measured(changed.module, changed.ctx, samples, "onnxruntime")
        if (made := rewrite(changed.module, changed.ctx, found, recipe)) is not None:
            done.append(made)
            recipe = replace(recipe, keep_float=recipe.keep_float | made.keep_float)
    if chosen and not done:
        return None
    data = write_samples([dict(each) for each in samples], folder / "samples.npz")
    work = Quantization(changed, recipe, target, data=data)
    written, seconds = work.run().model, time.perf_counter() - start
    qd.save(written, folder / "quantized.onnx")
    engine = optimized_engine(folder / "quantized.onnx")[0]
    quality = judge.judge([engine.run(feeds) for feeds in tests])
    channels = [db for part in quality.parts for db in part.channels if db is not None]
    return Line(
        name,
        label,
        min(part.sqnr_db for part in quality.parts),
        min(channels, default=None),
        sum(each.gain for each in done),
        sum(each.groups for each in done),
        sum(each.channels for each in done),
        _difference(changed, tests, judge),
        seconds,
    )


def _difference(model: Model, tests: Sequence[Mapping[str, np.ndarray]], judge: Judge) -> float:
    """The largest of what a float model says otherwise, over the largest that is expected."""
    engine, found = open_engine(model, "onnxruntime"), 0.0
    for feeds, expected in zip(tests, judge.expected, strict=True):
        for output, array in engine(feeds).items():
            if array.dtype.kind == "f" and array.size:
                most = float(np.abs(expected[output]).max()) or 1.0
                found = max(found, float(np.abs(array - expected[output]).max()) / most)
    return found


def lines(name: str, options: argparse.Namespace) -> list[Line]:
    """One network with each set."""
    source = unseen(name)
    path = float_model(source)
    samples = source.samples(options.calibration, options.seed)
    tests = source.samples(options.tests, TEST_SEED + options.seed)
    model = qd.load(path)
    prepared = Model(model.module.clone(), model.ctx.clone())
    prepared.ctx.target = get_target(options.target)
    prepare(prepared.module, prepared.ctx, frozenset())
    engine = open_engine(model, "onnxruntime")
    judge = Judge(parts_of(model.module, model.ctx), [engine(feeds) for feeds in tests])
    every = list(rewrites(2))
    sets = {NONE: [], **{each.name: [each] for each in every}, ALL: every}
    made: list[Line] = []
    with tempfile.TemporaryDirectory() as folder:
        for label in options.only or sets:
            found = line(
                name,
                prepared,
                sets[label],
                label,
                samples,
                tests,
                judge,
                Path(folder),
                options,
            )
            if found is not None:
                made.append(found)
                print(tables([found]).split("\n")[-1], file=sys.stderr, flush=True)
    return made


def tables(found: Sequence[Line]) -> str:
    """A line for each network and set of rewrites."""
    header = (
        "network",
        "rewrites",
        "dB of the worst part",
        "worst channel",
        "foretold dB",
        "groups",
        "channels",
        "float difference",
        "s",
    )
    return table(
        header,
        [
            (
                each.model,
                each.rewrite,
                f"{each.worst:.2f}",
                "" if each.channel is None else f"{each.channel:.2f}",
                f"{each.foretold:.2f}",
                str(each.groups),
                str(each.channels),
                f"{each.difference:.1e}",
                f"{each.seconds:.0f}",
            )
            for each in found
        ],
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """The table."""
    names = [*NAMES, *corpus.SOURCES, *corpus.HELD_OUT]
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", nargs="+", choices=names, required=True)
    parser.add_argument("--only", nargs="*", help="these rewrites alone")
    parser.add_argument("--target", default="onnxruntime")
    parser.add_argument("--keep-float", nargs="*", default=[], help="keys of ops left float")
    parser.add_argument("--calibration", type=int, default=32, help="samples to calibrate on")
    parser.add_argument("--tests", type=int, default=16, help="other samples to compare on")
    parser.add_argument("--seed", type=int, default=1, help="of both kinds of samples")
    parser.add_argument("--json", type=Path, help="write the figures there too")
    options = parser.parse_args(arguments)
    found: list[Line] = []
    for name in options.models:
        with step(name):
            found += lines(name, options)
        if options.json is not None:
            options.json.write_text(json.dumps([asdict(each) for each in found], indent=1) + "\n")
    print(tables(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())

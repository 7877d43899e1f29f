"""What each way of rounding weights is worth: networks quantized with each, on the same ranges.

Each network is calibrated on real inputs where there are any (`real_samples`), its weights are
rounded by the same samples, and what is judged is the QDQ model that comes of it, in ONNX Runtime
without its own optimizations, on inputs of other pictures and documents: the dB of the worst part
of the outputs, of its worst channel, and the mean over parts.

    python -m tools.bench roundings --models resnet18 minilm-l3 --weights i4 i8
"""

# pyright: basic
from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import fmean

import qdialect as qd
from qdialect.quantization.apply_profile import apply_profile
from qdialect.quantization.bias_correction import BiasCorrection
from qdialect.quantization.output_parts import parts_of
from qdialect.quantization.preparation import prepare
from qdialect.quantization.quality import Judge
from qdialect.quantization.recipe import Recipe
from qdialect.quantization.weight_rounding import METHODS, WeightRounding
from qdialect.targets.installed import get_target
from qdialect.workflows.model import Model
from qdialect.workflows.run import open_engine
from tests.support.tables import step, table
from tools.bench import corpus
from tools.bench.quantizers import write_samples
from tools.bench.real_samples import CALIBRATION, TESTS, real
from tools.bench.unseen import NAMES, float_model, unseen

NEAREST = "nearest"


@dataclass(frozen=True)
class Line:
    """One network with one method."""

    model: str
    weights: str
    method: str
    worst: float
    channel: float | None
    mean: float
    seconds: float


def lines(name: str, options: argparse.Namespace) -> list[Line]:
    """One network with each method."""
    source = unseen(name)
    samples = real(source, CALIBRATION)(options.calibration, options.seed)
    tests = real(source, TESTS)(options.tests, options.seed)
    model, target = qd.load(float_model(source)), get_target(options.target)
    prepared = Model(model.module.clone(), model.ctx.clone())
    prepared.ctx.target = target
    prepare(prepared.module, prepared.ctx, frozenset())
    engine = open_engine(model, "onnxruntime")
    judge = Judge(parts_of(model.module, model.ctx), [engine(feeds) for feeds in tests])
    with tempfile.TemporaryDirectory() as folder:
        data = write_samples([dict(each) for each in samples], Path(folder) / "samples.npz")
        profile = qd.calibrate(prepared, data)
    made: list[Line] = []
    for weights in options.weights:
        recipe = replace(
            Recipe.of_target(target), weights=weights, keep_float=frozenset(options.keep_float)
        )
        correct = BiasCorrection(samples[:16], "onnxruntime")
        for method in options.methods:
            began = time.perf_counter()
            rounding = None
            if method != NEAREST:
                rounding = WeightRounding(samples, "onnxruntime", method)
            copy = Model(prepared.module.clone(), prepared.ctx.clone())
            apply_profile(
                copy.module, copy.ctx, profile, recipe, rounding=rounding, correct=correct
            )
            seconds = time.perf_counter() - began
            run = open_engine(copy, "onnxruntime")
            quality = judge.judge([run(feeds) for feeds in tests])
            channels = [db for part in quality.parts for db in part.channels if db is not None]
            worst = [part.sqnr_db for part in quality.parts]
            lowest = min(channels, default=None)
            made.append(Line(name, weights, method, min(worst), lowest, fmean(worst), seconds))
            print(tables(made[-1:]).split("\n")[-1], file=sys.stderr, flush=True)
    return made


def tables(found: Sequence[Line]) -> str:
    """A line for each network and method."""
    header = (
        "network",
        "weights",
        "rounding",
        "dB of the worst part",
        "worst channel",
        "mean",
        "s",
    )
    return table(
        header,
        [
            (
                each.model,
                each.weights,
                each.method,
                f"{each.worst:.2f}",
                "" if each.channel is None else f"{each.channel:.2f}",
                f"{each.mean:.2f}",
                f"{each.seconds:.0f}",
            )
            for each in found
        ],
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """The table."""
    names = [*NAMES, *corpus.SOURCES, *corpus.HELD_OUT]
    ways = [NEAREST, *METHODS]
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", nargs="+", choices=names, required=True)
    parser.add_argument("--methods", nargs="+", choices=ways, default=ways)
    parser.add_argument("--weights", nargs="+", default=["i4"])
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

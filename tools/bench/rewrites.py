"""What each step towards accuracy is worth: networks quantized with none, with each alone, and
with what `--effort` makes of all.

A step is a rewrite of the float model, a rounding of weights, or the correction of biases.  Each
network is prepared, rewritten, calibrated anew and quantized by the rules, without a race; what is
judged is the file as ONNX Runtime executes it, on samples that nothing was made or tried on: the
dB of the worst part of the outputs and of its worst channel.  Samples are real where there are
real ones (`real_samples.py`: those judged on are of other pictures and documents), and each seed
draws others of both.  Beside it, how far the rewritten float model is from the one it was: the
largest difference of an output over the largest number in it, and the bounds of it on the sample
that has it (`float_rewrites/float_bounds.py`).

Lines that the file of figures has already are not measured again; other weights take another file.

    python -m tools.bench rewrites --models pp-lcnet minilm-l3 --seeds 1 2 3 --json rewrites.json
"""

# pyright: basic
from __future__ import annotations

import argparse
import json
import math
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import fmean, stdev

import numpy as np

import qdialect as qd
from qdialect.errors import QError
from qdialect.plugins.onnx.write.executed import optimized_engine
from qdialect.quantizer.apply_profile import Correct
from qdialect.quantizer.bias_correction import BiasCorrection
from qdialect.quantizer.block_rounding import BlockRounding, gains
from qdialect.quantizer.float_rewrites.base import AnyRewrite
from qdialect.quantizer.float_rewrites.float_bounds import (
    NoBoundError,
    Program,
    float_bounds,
    worst,
)
from qdialect.quantizer.float_rewrites.statistics import measured
from qdialect.quantizer.float_rewrites.table import rewrites
from qdialect.quantizer.output_parts import parts_of
from qdialect.quantizer.preparation import prepare
from qdialect.quantizer.profile.record import Settings
from qdialect.quantizer.quality import Judge
from qdialect.quantizer.recipe import Recipe
from qdialect.quantizer.weight_rounding import METHODS, Method
from qdialect.targets.installed import get_target
from qdialect.workflows.calibrate import calibrate, new_profile, open_data
from qdialect.workflows.candidates import RULES, Builder
from qdialect.workflows.effort import Step
from qdialect.workflows.model import Model
from qdialect.workflows.quantize import Quantization, rounding_by
from qdialect.workflows.run import open_engine
from tests.support.tables import put, step, table
from tools.bench import corpus
from tools.bench.quantize import Data
from tools.bench.quantizers import write_samples
from tools.bench.unseen import NAMES, float_model, unseen

Arrays = Mapping[str, np.ndarray]

NONE, BIASES = "none", "bias correction"
EFFORTS = {f"effort {level}": level for level in (0, 1, 2)}
ENGINE = "onnxruntime"


@dataclass(frozen=True)
class Way:
    """What is done to a network before or while it is quantized."""

    rewrite: AnyRewrite | None = None
    rounding: Method | None = None
    correct: bool = False


WAYS: Mapping[str, Way] = {
    NONE: Way(),
    **{each.name: Way(each) for each in rewrites(2)},
    **{method: Way(rounding=method) for method in METHODS},
    BIASES: Way(correct=True),
}


@dataclass(frozen=True)
class Line:
    """One network with one way and one seed: dB of the worst part over all samples, of its worst
    channel, and the mean over samples of the dB of a part, of the worst; None where there was
    nothing to do or it failed, and `said` why. `foretold` is the gain by the model of the loss,
    `kept` the steps that an effort kept, with their gain on trial."""

    model: str
    seed: int
    way: str
    worst: float | None = None
    channel: float | None = None
    mean: float | None = None
    foretold: float | None = None
    done: str = ""
    difference: float | None = None
    bound: float | None = None
    likely: float | None = None
    strict: float | None = None
    kept: str = ""
    seconds: float = 0.0
    said: str = ""


@dataclass
class Bench:
    """One network with one seed."""

    name: str
    seed: int
    options: argparse.Namespace
    folder: Path

    def __post_init__(self) -> None:
        source = unseen(self.name)
        settings = argparse.Namespace(**{**vars(self.options), "seed": self.seed})
        data = Data.of(source, settings)
        self.samples, self.tests = list(data.calibration), list(data.tests)
        self.data = write_samples(self.samples, self.folder / "samples.npz")
        self.model = qd.load(float_model(source))
        self.target = get_target(self.options.target)
        keep = frozenset(self.options.keep_float)
        recipe = Recipe.of_target(self.target)
        self.recipe = replace(
            recipe,
            keep_float=keep,
            weights=self.options.weights,
            block=self.options.block,
            per_channel=not self.options.per_tensor,
        )
        engine = open_engine(self.model, ENGINE)
        parts = parts_of(self.model.module, self.model.ctx)
        self.judge = Judge(parts, [engine(feeds) for feeds in self.tests])

    def line(self, label: str) -> Line:
        """What comes of one way."""
        start, line = time.perf_counter(), Line(self.name, self.seed, label)
        try:
            if label in EFFORTS:
                line = self._by_effort(line, EFFORTS[label])
            else:
                line = self._by_way(line, WAYS[label])
        except QError as error:
            line = replace(line, said=error.message)
        return replace(line, seconds=round(time.perf_counter() - start, 1))

    def _by_effort(self, line: Line, level: int) -> Line:
        work = Quantization(
            self.model, self.recipe, self.target, data=self.data, search=True, effort=level
        )
        made = work.run()
        kept = (_said(each) for each in made.steps if each.kept)
        return self._judged(replace(line, kept=", ".join(kept)), made.model)

    def _by_way(self, line: Line, way: Way) -> Line:
        prepared, recipe = Model(self.model.module.clone(), self.model.ctx.clone()), self.recipe
        prepared.ctx.target = self.target
        prepare(prepared.module, prepared.ctx, recipe.keep_float)
        if way.rewrite is not None:
            found = measured(prepared.module, prepared.ctx, self.samples, ENGINE)
            before = prepared.module.clone(), prepared.ctx.clone()
            done = way.rewrite(prepared.module, prepared.ctx, found, recipe)
            if done is None:
                return replace(line, said="nothing to gain")
            recipe = replace(recipe, keep_float=recipe.keep_float | done.keep_float)
            difference, sample = self._difference(prepared)
            line = replace(
                line,
                foretold=round(done.gain, 3),
                done=str(done),
                difference=difference,
                **self._bounds(before, prepared, sample),
            )
        data = open_data(self.model, self.data, whole=False)
        start = new_profile(prepared, Settings(ENGINE))
        builder = Builder(
            prepared,
            calibrate(prepared, data, start, range(len(data))),
            recipe,
            self.target,
            "ties",
            rounding=self._rounding(way, recipe),
            correct=BiasCorrection(self.samples[:16], ENGINE) if way.correct else None,
        )
        return self._judged(line, builder.quantized(RULES).model)

    def _rounding(self, way: Way, recipe: Recipe) -> Correct | None:
        """What the command does with weights of few bits anyway, and then what is asked for."""
        first = BlockRounding(self.samples, ENGINE) if gains(recipe) else None
        if way.rounding is None:
            return first
        return rounding_by(way.rounding, self.samples, ENGINE, first)

    def _judged(self, line: Line, written: Model) -> Line:
        path = self.folder / "quantized.onnx"
        path.unlink(missing_ok=True)
        qd.save(written, path)
        engine = optimized_engine(path)[0]
        quality = self.judge.judge([engine.run(feeds) for feeds in self.tests])
        figures = (
            quality.worst_db,
            quality.worst_channel_db,
            min(part.mean_db for part in quality.parts if part.is_real),
        )
        worst, channel, mean = (round(db, 3) if math.isfinite(db) else None for db in figures)
        return replace(line, worst=worst, channel=channel, mean=mean)

    def _bounds(self, before: Program, model: Model, sample: Arrays) -> dict[str, float | None]:
        """The bounds of what a rewritten model says otherwise, over the largest number of the
        output of which most may be lost; none where there are none."""
        try:
            found = worst(float_bounds(before, (model.module, model.ctx), sample)).as_json()
        except NoBoundError as error:
            print(f"{self.name}: no bound: {error}", file=sys.stderr)
            return {}
        return {
            "bound": found["first_order"], "likely": found["likely"], "strict": found["strict"],
        }  # fmt: skip

    def _difference(self, model: Model) -> tuple[float, Arrays]:
        """The largest of what a float model says otherwise, over the largest that is expected, and
        on which sample."""
        engine, found, where = open_engine(model, ENGINE), 0.0, self.tests[0]
        for feeds, expected in zip(self.tests, self.judge.expected, strict=True):
            for output, array in engine(feeds).items():
                if array.dtype.kind == "f" and array.size:
                    most = float(np.abs(expected[output]).max()) or 1.0
                    apart = float(np.abs(array - expected[output]).max()) / most
                    if apart > found:
                        found, where = apart, feeds
        return found, where


def _said(each: Step) -> str:
    return each.name if each.gain is None else f"{each.name} {each.gain:+.1f}"


def spread(values: Sequence[float]) -> str:
    """The mean of figures, and their standard deviation where there are several."""
    if not values:
        return ""
    text = f"{fmean(values):.1f}"
    return f"{text} ± {stdev(values):.1f}" if len(values) > 1 else text


def tables(found: Sequence[Line]) -> str:
    """The ablation: a line for each network, a column for each way: dB of the worst part, mean
    and deviation over seeds, and of its worst channel."""
    ways = [way for way in (*WAYS, *EFFORTS) if any(line.way == way for line in found)]
    rows: list[tuple[str, ...]] = []
    for name in dict.fromkeys(line.model for line in found):
        cells = [name]
        for way in ways:
            lines = [line for line in found if (line.model, line.way) == (name, way)]
            worst = [line.worst for line in lines if line.worst is not None]
            channel = [line.channel for line in lines if line.channel is not None]
            some = next((line.said for line in lines if line.said), "")
            empty = "-" if some == "nothing to gain" else "fails" if some else ""
            cells.append(
                f"{spread(worst)} ({fmean(channel or [math.nan]):.1f})" if worst else empty
            )
        rows.append(tuple(cells))
    found_tables = (table(("network", *ways), rows), differences(found), agreement(found))
    return "\n\n".join(each for each in found_tables if each)


def differences(found: Sequence[Line]) -> str:
    """How far rewritten float models are from what they were, and at most, over all seeds: a line
    for each network and rewrite."""
    rows: list[tuple[str, ...]] = []
    for name, way in dict.fromkeys((line.model, line.way) for line in found):
        lines = [line for line in found if (line.model, line.way) == (name, way)]
        cells = [
            max((each for each in figures if each is not None), default=None)
            for figures in zip(
                *((line.difference, line.likely, line.bound, line.strict) for line in lines),
                strict=True,
            )
        ]
        if cells[0] is not None:
            rows.append((name, way, *("-" if each is None else f"{each:.0e}" for each in cells)))
    heading = ("network", "rewrite", "floats differ by", "likely at most", "at most", "strictly")
    return table(heading, rows) if rows else ""


def agreement(found: Iterable[Line]) -> str:
    """How far what rewrites foretell and what is measured (the mean over samples) go together, over
    all lines of rewrites alone: the correlation, and how many lost."""
    lines = list(found)
    none = {(line.model, line.seed): line.mean for line in lines if line.way == NONE}
    pairs: list[tuple[float, float]] = []
    for line in lines:
        base = none.get((line.model, line.seed))
        if line.foretold is not None and line.mean is not None and base is not None:
            pairs.append((line.foretold, line.mean - base))
    if len(pairs) < 3:
        return ""
    foretold, gained = np.array(pairs).T
    first, second = (np.argsort(np.argsort(each)) for each in (foretold, gained))
    worse = int((gained < -0.5).sum())
    return (
        f"Foretold and measured gains of {len(pairs)} lines: correlation "
        f"{np.corrcoef(foretold, gained)[0, 1]:.2f}, of ranks "
        f"{np.corrcoef(first, second)[0, 1]:.2f}; {worse} lost more than half a decibel."
    )


def read_lines(path: Path) -> list[Line]:
    """The lines of an earlier run."""
    return [Line(**each) for each in json.loads(path.read_text(encoding="utf-8"))]


def main(arguments: Sequence[str] | None = None) -> int:
    """The table."""
    names = [*NAMES, *corpus.SOURCES, *corpus.HELD_OUT]
    every = [*WAYS, *EFFORTS]
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", nargs="+", choices=names, default=[])
    parser.add_argument("--ways", nargs="+", choices=every, default=every, help="these alone")
    parser.add_argument("--target", default="onnxruntime")
    parser.add_argument("--weights", default="i8", help="what weights are stored as")
    parser.add_argument("--block", type=int, default=0, help="weights alone, so many to a scale")
    parser.add_argument("--per-tensor", action="store_true", help="one scale for all of a weight")
    parser.add_argument("--keep-float", nargs="*", default=[], help="keys of ops left float")
    parser.add_argument("--data", choices=("made", "real"), default="real")
    parser.add_argument("--calibration", type=int, default=32, help="samples to calibrate on")
    parser.add_argument("--tests", type=int, default=32, help="other samples to compare on")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1], help="of both kinds")
    parser.add_argument("--json", type=Path, help="add the figures to those that are there")
    parser.add_argument("--document", type=Path, help="put the table there, between its marks")
    options = parser.parse_args(arguments)
    found = read_lines(options.json) if options.json is not None and options.json.exists() else []
    known = {(line.model, line.seed, line.way) for line in found}
    for seed in options.seeds:
        for name in options.models:
            missing = [way for way in options.ways if (name, seed, way) not in known]
            if not missing:
                continue
            with step(f"{name}, seed {seed}"), tempfile.TemporaryDirectory() as folder:
                bench = Bench(name, seed, options, Path(folder))
                for way in missing:
                    found.append(bench.line(way))
                    print(json.dumps(asdict(found[-1])), file=sys.stderr, flush=True)
                    if options.json is not None:
                        text = json.dumps([asdict(line) for line in found], indent=1)
                        options.json.write_text(f"{text}\n", encoding="utf-8")
    text = tables(found)
    print(text)
    if options.document is not None:
        put(options.document, "bench_rewrites", text)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""What head room of ranges costs on samples of the kind that they are of, and gains on others.

Each network is quantized twice, with ranges that end where those of the calibration samples do and
with head room for samples to come, at 8 and at 16 bits, by rules.  Both are
judged on samples of two kinds, by the worst part of the outputs: other cuts of the photographs,
faces, sentences and files that were calibrated on, and photographs, faces, sentences and files of
other sources (`real_samples.py`); for networks of sound, other melodies and voices that are higher,
louder and shorter.  Figures are means over seeds, which the samples are drawn by.

    python -m tools.bench head-room --models alexa faces-rnet
"""

# pyright: basic
from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any
from unittest.mock import patch

import numpy as np

import qdialect as qd
from qdialect.quantizer.output_parts import parts_of
from qdialect.quantizer.quality import Judge
from qdialect.quantizer.recipe import Recipe
from qdialect.workflows.model import resolved_target
from qdialect.workflows.quantize import Quantization
from qdialect.workflows.run import open_engine
from tests.support.tables import step, table
from tools.bench import samples
from tools.bench.corpus import Source
from tools.bench.real_samples import CALIBRATION, TESTS, real
from tools.bench.samples import Feeds
from tools.bench.unseen import float_model, unseen

HEARD = ("wake-word", "alexa", "marvin")
SMALL = ("faces-rnet", "faces-onet", *HEARD, "ocr-cls", "mtcnn-onet")
"""Fast ones, judged on more samples and seeds: what few numbers come to varies."""
LARGE = ("squeezenet", "shufflenet", "magika", "minilm-l3", "nudenet", "mobilenetv2", "fcpe")


def other_voices(random: np.random.Generator, seconds: float = 2.0, rate: int = 16_000):
    """Higher, louder and shorter than those of `samples.sound`."""
    time = np.arange(int(seconds * rate)) / rate
    signal = random.normal(0.0, 200.0, len(time))
    for _ in range(random.integers(3, 9)):
        start, length = random.uniform(0, seconds), random.uniform(0.05, 0.4)
        pitch = random.uniform(250, 900) * (1 + random.uniform(-0.5, 0.5) * time)
        phase = 2 * np.pi * np.cumsum(pitch) / rate
        voices = sum(np.sin(k * phase) / k for k in range(1, int(random.integers(2, 8))))
        signal += random.uniform(1000, 12000) * np.exp(-(((time - start) / length) ** 2)) * voices
    return np.clip(signal, -32768, 32767).astype(np.float32)


def another_kind(source: Source, count: int, seed: int) -> list[Feeds]:
    """Samples of another kind than those that are calibrated on."""
    if source.name in HEARD:
        with patch.object(samples, "sound", other_voices):
            return source.samples(count, seed)
    if source.name == "fcpe":  # it takes logarithms
        return [{"x": each["x"] + np.float32(1)} for each in source.samples(count, seed)]
    return real(source, TESTS)(count, seed)


def worst_parts(source: Source, seed: int, options: argparse.Namespace) -> list[list[float]]:
    """By width, dB on the old kind without head room and with it, and on the new kind."""
    model, target = qd.load(float_model(source)), resolved_target("onnxruntime")
    calibration = real(source, CALIBRATION)
    tests = options.tests * (4 if source.name in SMALL else 1)
    kinds = calibration(tests, 1000 + seed), another_kind(source, tests, 1000 + seed)
    floats = open_engine(model, "onnxruntime")
    judges = [Judge(parts_of(model.module, model.ctx), map(floats, kind)) for kind in kinds]
    found: list[list[float]] = []
    with tempfile.TemporaryDirectory() as folder:
        path, feeds = Path(folder) / "data.npz", calibration(options.calibration, seed)
        arrays: Any = {name: np.concatenate([f[name] for f in feeds]) for name in feeds[0]}
        np.savez(path, **arrays)
        profile = None if options.trials else qd.calibrate(model, path)
        for bits in options.bits:
            recipe = replace(Recipe.of_target(target), activations=f"u{bits}")
            runs = []
            for chosen in (replace(recipe, unseen=0), recipe):
                work = Quantization(model, chosen, target, data=path, profile=profile)
                work.search = options.trials
                runs.append(open_engine(work.run().model, "onnxruntime"))
            pairs = zip(judges, kinds, strict=True)
            found.append([j.judge(map(run, kind)).worst_db for j, kind in pairs for run in runs])
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a line for each network and width."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", nargs="+", default=[*SMALL, *LARGE])
    parser.add_argument("--calibration", type=int, default=32)
    parser.add_argument("--bits", nargs="+", type=int, default=[8, 16])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--tests", type=int, default=16, help="samples of a kind (default: 16)")
    parser.add_argument("--trials", action="store_true", help="let data choose ranges, too")
    options = parser.parse_args(arguments)
    header = ("network", "bits", "old kind", "with head room", "new kind", "with head room")
    lines: list[tuple[str, ...]] = []
    for name in options.models:
        seeds = range(1, 1 + (options.seeds if name in SMALL else 1))
        with step(name):
            runs = [worst_parts(unseen(name), seed, options) for seed in seeds]
        for bits, figures in zip(options.bits, zip(*runs, strict=True), strict=True):
            mean = (fmean(column) for column in zip(*figures, strict=True))
            lines.append((name, str(bits), *(f"{db:.1f}" for db in mean)))
            print(" | ".join(lines[-1]), flush=True)
    print(table(header, lines))


if __name__ == "__main__":
    main()

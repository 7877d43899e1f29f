"""Our quantizer against ONNX Runtime's: the same float networks, data and bit widths.

Both calibrate on the same samples, with their default settings; ONNX Runtime's also per
channel. What is compared is how near the quantized network is to the float one on other
samples (signal to quantization noise over all outputs, in dB), run as it is written.

A network whose outputs are nearly the same whatever it sees has a high figure and tells
little, so what varies is compared too: the noise against the deviation of the outputs from
their mean.  And where one class wins nearly always, to agree on it tells little as well: its
share is beside the agreement.
"""

# pyright: basic
from __future__ import annotations

import argparse
import json
import math
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

import qdialect as qd
from tests.support.tables import put, step
from tools.bench import corpus, measure

TEST_SEED = 1000
"""Added to the seed of the calibration samples."""
CONFIGS = ("u8s8", "u8s8_pc")
"""Of ONNX Runtime: its default, per tensor, and per channel."""


@dataclass(frozen=True)
class Row:
    """One network against one configuration of ONNX Runtime; agreement of the winning
    class with the float network where there is one."""

    model: str
    config: str
    ours: float
    theirs: float | None
    gain: float | None
    ours_top1: float | None
    theirs_top1: float | None
    seconds: float
    #: of what varies between samples
    ours_varying: float | None = None
    theirs_varying: float | None = None
    #: the share of samples that the most frequent class of the float network wins
    usual: float | None = None
    tests: int = 0


def quantize(
    source: corpus.Source, calibration: int, seed: int, folder: Path
) -> tuple[Path, float]:
    """Our quantized network with default settings, and how long it took."""
    model = qd.load(corpus.float_model(source))
    feeds = source.samples(calibration, seed)
    data = folder / "calibration.npz"
    np.savez(
        data,
        allow_pickle=False,
        **{name: np.stack([feed[name] for feed in feeds]) for name in feeds[0]},
    )
    began = time.perf_counter()
    quantized = qd.quantize(model, data)
    seconds = time.perf_counter() - began
    path = folder / "ours.onnx"
    qd.save(quantized.model, path)
    return path, seconds


def rows(
    source: corpus.Source, configs: Sequence[str], calibration: int, tests: int, seed: int = 1
) -> list[Row]:
    """The network against each configuration."""
    feeds = source.samples(tests, TEST_SEED + seed)

    def outputs(path: Path) -> measure.Outputs:
        return measure.run_all(measure.session(path, optimized=False), feeds)

    reference = outputs(corpus.float_model(source))
    with tempfile.TemporaryDirectory() as folder:
        path, seconds = quantize(source, calibration, seed, Path(folder))
        ours = outputs(path)
    found: list[Row] = []
    for config in configs:
        try:
            chosen = corpus.CONFIGS[config]
            theirs = outputs(corpus.quantized_model(source, chosen, calibration, seed))
        except Exception as error:  # what its tool wrote may not run
            print(f"{source.name} {config}: {str(error).splitlines()[0][:120]}", file=sys.stderr)
            theirs = None
        found.append(_row(source.name, config, reference, ours, theirs, seconds))
    return found


def _row(
    model: str,
    config: str,
    reference: measure.Outputs,
    ours: measure.Outputs,
    theirs: measure.Outputs | None,
    seconds: float,
) -> Row:
    own = measure.sqnr(reference, ours)
    other = None if theirs is None else measure.sqnr(reference, theirs)
    classes = len(reference) == 1 and reference[0][0].ndim <= 4 and _is_classes(reference[0])
    return Row(
        model,
        config,
        own,
        other,
        None if other is None else own - other,
        _agreement(reference, ours) if classes else None,
        _agreement(reference, theirs) if classes and theirs is not None else None,
        seconds,
        _varying(reference, ours),
        None if theirs is None else _varying(reference, theirs),
        _usual(reference) if classes else None,
        len(reference[0]),
    )


def _varying(reference: measure.Outputs, outputs: measure.Outputs) -> float:
    """SQNR in dB of the deviation from the mean over samples, over all float outputs."""
    signal = noise = 0.0
    for a, b in zip(reference, outputs, strict=True):
        if a.dtype.kind == "f":
            real, other = (array.astype(np.float64) for array in (a, b))
            signal += float(np.square(real - real.mean(axis=0)).sum())
            noise += float(np.square(real - other - (real - other).mean(axis=0)).sum())
    return 10 * math.log10(signal / noise) if signal and noise else math.inf


def _usual(reference: measure.Outputs) -> float:
    counts = np.bincount(measure.top1(reference[0]).reshape(-1))
    return float(counts.max() / counts.sum())


def _is_classes(output: np.ndarray) -> bool:
    """One number per class and sample."""
    return output.size // len(output) == max(output.shape[1:])


def _agreement(reference: measure.Outputs, outputs: measure.Outputs) -> float:
    return float((measure.top1(reference[0]) == measure.top1(outputs[0])).mean())


def table(found: Sequence[Row]) -> str:
    """Rows as Markdown; bold is what is higher in theirs."""
    lines = ["| model | tests | against | ours | theirs | varying: ours | theirs "]
    lines[0] += "| agreement: ours | theirs | usual class | s |"
    lines.append("|---|--:|---|" + "--:|" * 8)
    for row in found:
        cells = [row.model, str(row.tests), row.config]
        cells += _pair(_number(row.ours), _number(row.theirs), row.ours, row.theirs)
        theirs = "" if row.theirs_varying is None else _number(row.theirs_varying)
        ours = "" if row.ours_varying is None else _number(row.ours_varying)
        cells += _pair(ours, theirs, row.ours_varying, row.theirs_varying)
        cells += _pair(
            _share(row.ours_top1), _share(row.theirs_top1), row.ours_top1, row.theirs_top1
        )
        cells += [_share(row.usual), f"{row.seconds:.0f}"]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _pair(ours: str, theirs: str, number: float | None, other: float | None) -> list[str]:
    above = number is not None and other is not None and other > number
    return [ours, f"**{theirs}**" if above else theirs]


def _number(value: float | None) -> str:
    return "does not run" if value is None else f"{value:.1f}"


def _share(value: float | None) -> str:
    return "" if value is None else f"{100 * value:.0f} %"


def main(arguments: Sequence[str] | None = None) -> int:
    """The table; 1 if a network is nearer to the float one in theirs than in ours."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", nargs="+", choices=corpus.SOURCES, default=list(corpus.SOURCES))
    parser.add_argument("--configs", nargs="+", choices=corpus.CONFIGS, default=list(CONFIGS))
    parser.add_argument("--calibration", type=int, default=64, help="samples to calibrate on")
    parser.add_argument("--tests", type=int, default=64, help="other samples to compare on")
    parser.add_argument("--seed", type=int, default=1, help="of both kinds of samples")
    parser.add_argument("--json", type=Path, help="write the figures there too")
    parser.add_argument("--known", type=Path, nargs="*", default=[], help="figures to add rows of")
    parser.add_argument("--document", type=Path, help="put the table there, between its marks")
    options = parser.parse_args(arguments)
    found = [Row(**row) for path in options.known for row in json.loads(path.read_text())]
    known = {row.model for row in found}
    for name in (name for name in options.models if name not in known):
        with step(name):
            found += rows(
                corpus.SOURCES[name],
                options.configs,
                options.calibration,
                options.tests,
                options.seed,
            )
        print(table(found[-len(options.configs) :]).split("\n", 2)[2], file=sys.stderr)
        if options.json is not None:
            options.json.write_text(json.dumps([asdict(row) for row in found], indent=1) + "\n")
    print(table(found))
    if options.document is not None:
        put(options.document, "measure_quantize", table(found))
    return int(any(row.gain is not None and row.gain <= 0 for row in found))


if __name__ == "__main__":
    sys.exit(main())

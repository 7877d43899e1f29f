"""What the targets of others take of networks: quantized for each, how many ops are on codes.

A network is calibrated once and quantized for each target from that profile, inside what the target
takes (`qopt quantize --target`); then every op is taken, refused or on floats (`qopt inspect
--target`). Seconds are those of quantizing, optimization for the target included.
"""

# pyright: basic
from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np

import qdialect as qd
from qdialect.quantizer.coverage import Coverage
from qdialect.quantizer.profile.record import Profile
from qdialect.quantizer.recipe import Recipe
from qdialect.targets.installed import get_target
from qdialect.workflows.taken import ON_FLOATS, Reason, Taken
from tests.support.tables import put, step
from tools.bench import corpus

TARGETS = (
    *("tflite-int8", "cmsis-nn", "xnnpack", "ethos-u55", "ethos-u85", "tensorrt"),
    *("qnn-htp", "openvino-cpu", "x86-without-vnni"),
)
"""All of the zoo; the Ethos-U65 takes what the U55 takes."""
REASONS = 4


@dataclass(frozen=True)
class Row:
    """One network for one target; an `error` is why there is no quantized network."""

    model: str
    target: str
    taken: int = 0
    total: int = 0
    seconds: float = 0.0
    reasons: list[Reason] = field(default_factory=list)
    error: str = ""


def profile_of(source: corpus.Source, model: qd.Model, calibration: int, seed: int) -> Profile:
    """What the values of the float network are."""
    feeds = source.samples(calibration, seed)
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "calibration.npz"
        arrays = {name: np.stack([feed[name] for feed in feeds]) for name in feeds[0]}
        np.savez(data, allow_pickle=False, **arrays)
        return qd.calibrate(model, data, engine="onnxruntime")


def row(name: str, model: qd.Model, profile: Profile, target: str) -> Row:
    """The network quantized for a target, and what that takes of it."""
    runs_on = get_target(target)
    began = time.perf_counter()
    try:
        recipe = Recipe.of_target(runs_on)
        quantized = qd.quantize(model, profile=profile, recipe=recipe, target=runs_on)
    except qd.QError as error:
        return Row(name, target, error=error.message)
    seconds = time.perf_counter() - began
    taken = qd.inspect(quantized.model, target=runs_on).taken
    assert taken is not None
    reasons = [r for r in taken.reasons if r.reason != ON_FLOATS]
    reasons += _left_float(taken, quantized.coverage)
    return Row(name, target, taken.taken, taken.total, seconds, reasons)


def _left_float(taken: Taken, coverage: Coverage) -> list[Reason]:
    """Why ops that kernels might take are on floats: what the quantizer said of ops of their
    kind, as far as that goes."""
    said = Counter((left.op, left.reason) for left in coverage.left)
    found: list[Reason] = []
    for reason in taken.reasons:
        rest = reason.count if reason.reason == ON_FLOATS else 0
        for (op, why), count in said.items():
            if op == reason.op and (some := min(count, rest)):
                found.append(Reason(op, f"{ON_FLOATS}: {why}", some, reason.example))
                rest -= some
        if rest:
            found.append(Reason(reason.op, ON_FLOATS, rest, reason.example))
    return found


def tables(found: Sequence[Row]) -> str:
    """The share of ops that are taken, and seconds, by target and network; then why not."""
    models = list(dict.fromkeys(row.model for row in found))
    targets = list(dict.fromkeys(row.target for row in found))
    cells = {(row.target, row.model): row for row in found}
    lines = [f"| target | {' | '.join(models)} |", "|---|" + "--:|" * len(models)]
    for target in targets:
        shown = [_cell(cells.get((target, model))) for model in models]
        lines.append(f"| `{target}` | {' | '.join(shown)} |")
    lines += ["", "| target | ops | op | why it is not taken |", "|---|--:|---|---|"]
    for target in targets:
        counts: Counter[tuple[str, str]] = Counter()
        for row in found:
            if row.target == target:
                counts.update({(r.op, r.reason): r.count for r in row.reasons})
        for (op, reason), count in counts.most_common(REASONS):
            text = reason.replace("|", "\\|")
            lines.append(f"| `{target}` | {count} | `{op}` | {text} |")
    errors = [row for row in found if row.error]
    lines += [f"\n`{row.model}` for `{row.target}`: {row.error}" for row in errors]
    return "\n".join(lines)


def _cell(row: Row | None) -> str:
    if row is None or row.error:
        return "" if row is None else "error"
    share = f"{100 * row.taken / row.total:.0f} %" if row.total else "–"
    return f"{share} of {row.total}, {row.seconds:.0f} s"


def main(arguments: Sequence[str] | None = None) -> int:
    """The tables; 1 if a network could not be quantized for a target."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", nargs="+", choices=corpus.SOURCES, default=list(corpus.SOURCES))
    parser.add_argument("--targets", nargs="+", default=list(TARGETS))
    parser.add_argument("--calibration", type=int, default=8, help="samples to calibrate on")
    parser.add_argument("--seed", type=int, default=1, help="of the samples")
    parser.add_argument("--json", type=Path, help="write the figures there, and go on from them")
    parser.add_argument("--document", type=Path, help="put the tables there, between their marks")
    options = parser.parse_args(arguments)
    found = [] if options.json is None or not options.json.exists() else _read(options.json)
    known = {(row.model, row.target) for row in found}
    for name in options.models:
        requested = [target for target in options.targets if (name, target) not in known]
        if not requested:
            continue
        source = corpus.SOURCES[name]
        with step(f"{name}: calibrate"):
            model = qd.load(corpus.float_model(source))
            profile = profile_of(source, model, options.calibration, options.seed)
        for target in requested:
            with step(f"{name}: {target}"):
                found.append(row(name, model, profile, target))
            if options.json is not None:
                options.json.write_text(json.dumps([asdict(r) for r in found], indent=1) + "\n")
    print(tables(found))
    if options.document is not None:
        put(options.document, "targets", tables(found))
    return int(any(row.error for row in found))


def _read(path: Path) -> list[Row]:
    rows = json.loads(path.read_text(encoding="utf-8"))
    return [Row(**{**row, "reasons": [Reason(**r) for r in row["reasons"]]}) for row in rows]


if __name__ == "__main__":
    sys.exit(main())

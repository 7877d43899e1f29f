"""`qopt optimize` on random ONNX models (`random_models`): the same function, bit for bit.

For each model, with ONNX Runtime as the judge (its own rewrites off):

    runs        the runtime takes the model (else the model counts as refused)
    imported    our interpreter computes the same, up to roundings
    returned    import and export alone change no bit
    optimized   `optimize` at exact changes no bit
    twice       optimizing what was optimized changes nothing

A failure is reduced: outputs and nodes are dropped, nodes give way to their inputs, values
become inputs, as long as it fails in the same way.

    python tools/fuzz_models.py --minutes 10 --keep failures/
    python tools/fuzz_models.py --try failures/optimized-17.onnx
"""

# pyright: basic
from __future__ import annotations

import argparse
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import onnx

import qdialect as qd
from qdialect.errors import QError
from qdialect.formats.onnx.write import OrtEngine, export_model
from random_models import random_feeds, random_model
from reduce_model import reduced

CHECKS = ("imported", "returned", "optimized", "twice")
LEAST_DB = 10.0
"""Our interpreter and the runtime may round a tie to either side; a wrong scale, zero point,
channel or order leaves less than this."""
SUMS = 1e-5
"""Of the largest number: what another order of a sum of floats may change."""
SAMPLES = 2
Outputs = list[np.ndarray]


class Failed(Exception):
    """A check does not hold: which, and how."""

    def __init__(self, check: str, told: str) -> None:
        super().__init__(told)
        self.check = check


class OtherSums(Failed):
    """Floats differ by no more than the order of sums makes them."""


class Refused(Exception):
    """The runtime does not take the model."""


@dataclass
class Tally:
    """What a run did."""

    models: int = 0
    refused: int = 0
    compared: int = 0
    seconds: float = 0.0
    ops: Counter[str] = field(default_factory=Counter)
    fired: Counter[str] = field(default_factory=Counter)
    #: models of which the runtime sums floats in another order: it has other kernels for
    #: weights that are constants than for weights that are computed
    other_sums: int = 0
    failures: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        rate = 60 * self.models / max(self.seconds, 1e-9)
        return (
            f"{self.models} models, {rate:.0f} per minute, of {len(self.ops)} kinds of ops; "
            f"{self.refused} the runtime refuses, {self.other_sums} it sums in another order; "
            f"{self.compared} outputs compared; "
            f"{len(self.fired)} rules fired {self.fired.total()} times; "
            f"{len(self.failures)} failures"
        )


def run(data: bytes, feeds: Sequence[dict[str, np.ndarray]], names: Sequence[str]) -> list[Outputs]:
    """All outputs by the runtime as the file is written."""
    engine = OrtEngine(data, optimize=False)
    found = [engine.run(given) for given in feeds]
    return [[np.asarray(result[name]) for name in names] for result in found]


def check_model(
    model: onnx.ModelProto,
    folder: Path,
    checks: Sequence[str] = CHECKS,
    tally: Tally | None = None,
) -> None:
    """Raises Failed; Refused where the runtime takes no such model."""
    path = folder / "m.onnx"
    data = model.SerializeToString()
    path.write_bytes(data)
    feeds = [random_feeds(model, seed) for seed in range(SAMPLES)]
    names = [output.name for output in model.graph.output]
    try:
        onnx.checker.check_model(model)
        wanted = run(data, feeds, names)
    except (QError, onnx.checker.ValidationError) as error:
        raise Refused(str(error)) from None
    given = qd.load(path)
    if "imported" in checks:
        for inputs, expected in zip(feeds, wanted, strict=True):
            _near(expected, list(qd.run(given, inputs).values()), names)
    if "returned" in checks:
        _equal("returned", wanted, export_model(given.module, given.ctx), feeds, names)
    if "optimized" in checks or "twice" in checks:
        better = qd.optimize(given)
        if tally is not None:
            tally.fired.update(better.ctx.remarks.fired())
        made = export_model(better.module, better.ctx)
        if "optimized" in checks:
            try:
                _equal("optimized", wanted, made, feeds, names)
            except OtherSums:
                if not _same(given, better, feeds):
                    raise
                if tally is not None:
                    tally.other_sums += 1
        if "twice" in checks:
            _twice(better)
    if tally is not None:
        tally.compared += len(names) * len(feeds) * len(checks)


def _equal(
    check: str,
    wanted: Sequence[Outputs],
    made: onnx.ModelProto,
    feeds: Sequence[dict[str, np.ndarray]],
    names: Sequence[str],
) -> None:
    try:
        found = run(made.SerializeToString(), feeds, names)
    except (QError, KeyError) as error:
        raise Failed(check, f"the result does not run: {str(error)[:200]}") from None
    for one, other in zip(wanted, found, strict=True):
        for a, b, name in zip(one, other, names, strict=True):
            if a.shape != b.shape or a.dtype != b.dtype:
                raise Failed(check, f"'{name}' is {b.dtype}{list(b.shape)}")
            if not np.array_equal(a, b, equal_nan=True):
                apart = int((a != b).sum())
                near = np.allclose(a, b, rtol=0, atol=SUMS * np.abs(a).max(), equal_nan=True)
                kind = OtherSums if near else Failed
                raise kind(check, f"'{name}' differs in {apart} of {a.size} numbers")


def _same(before: qd.Model, after: qd.Model, feeds: Sequence[dict[str, np.ndarray]]) -> bool:
    """Whether our interpreter, which sums in one order, finds the same bits."""
    for given in feeds:
        one, other = (list(qd.run(model, given).values()) for model in (before, after))
        for a, b in zip(one, other, strict=True):
            if not np.array_equal(a, b, equal_nan=True):
                return False
    return True


def _near(wanted: Outputs, found: Outputs, names: Sequence[str]) -> None:
    for a, b, name in zip(wanted, found, names, strict=True):
        if a.shape != b.shape:
            raise Failed("imported", f"'{name}' has shape {list(b.shape)}, not {list(a.shape)}")
        a, b = a.astype(np.float64), b.astype(np.float64)
        if not np.array_equal(np.isfinite(a), np.isfinite(b)):
            raise Failed("imported", f"'{name}' is infinite or no number in other places")
        sound = np.isfinite(a)
        noise = float(((a - b)[sound] ** 2).sum())
        if noise > float((a[sound] ** 2).sum()) * 10 ** (-LEAST_DB / 10) + 1e-6 * a.size:
            raise Failed("imported", f"'{name}' is up to {np.abs(a - b)[sound].max():g} off")


def _twice(better: qd.Model) -> None:
    again = qd.optimize(better)
    if str(again) != str(better):
        fired = dict(again.ctx.remarks.fired())
        raise Failed("twice", f"a second run changes it; fired {fired}")


# -- running ------------------------------------------------------------------------------


def failure(
    model: onnx.ModelProto,
    folder: Path,
    checks: Sequence[str] = CHECKS,
    tally: Tally | None = None,
) -> tuple[str, str] | None:
    """The kind of what is wrong and the words, if anything is."""
    try:
        check_model(model, folder, checks, tally)
    except Refused:
        if tally is not None:
            tally.refused += 1
    except Failed as error:
        return error.check, str(error)
    except QError as error:
        return f"QError {error.code}", str(error)
    except Exception as error:
        frame = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{Path(frame.filename).name}:{frame.lineno}"
        return f"{type(error).__name__} at {place}", str(error).strip()[:200]
    return None


def fuzz(
    seeds: Iterator[int], ops: int, until: float = float("inf"), keep: Path | None = None
) -> Tally:
    """Check the models of seeds until the time is over."""
    tally, began = Tally(), time.monotonic()
    with tempfile.TemporaryDirectory(prefix="fuzz") as name:
        folder = Path(name)
        for seed in seeds:
            model = random_model(seed, ops)
            tally.models += 1
            tally.ops.update({node.op_type for node in model.graph.node})
            found = failure(model, folder, CHECKS, tally)
            if found is not None:
                tally.failures.append(f"seed {seed}: {found[0]}: {found[1]}")
                print(tally.failures[-1], file=sys.stderr, flush=True)
                if keep is not None:
                    _keep(model, found[0], seed, folder, keep)
            tally.seconds = time.monotonic() - began
            if time.monotonic() > until:
                break
    return tally


def _keep(model: onnx.ModelProto, kind: str, seed: int, folder: Path, keep: Path) -> None:
    keep.mkdir(parents=True, exist_ok=True)
    checks = (kind,) if kind in CHECKS else CHECKS

    def fails(candidate: onnx.ModelProto) -> bool:
        found = failure(candidate, folder, checks)
        return found is not None and found[0] == kind

    small = reduced(model, fails)
    stem = "".join(c if c.isalnum() else "-" for c in kind)[:40]
    onnx.save(small, keep / f"{stem}-{seed}.onnx")
    (keep / f"{stem}-{seed}.txt").write_text(onnx.printer.to_text(small))


def main(arguments: Sequence[str] | None = None) -> int:
    """What was run and what failed; 1 if anything did."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=100, help="how many models")
    parser.add_argument("--minutes", type=float, help="as many as fit instead")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--ops", type=int, default=14)
    parser.add_argument("--keep", type=Path, help="folder for reduced models")
    parser.add_argument("--try", dest="given", type=Path, nargs="+", help="only check these")
    options = parser.parse_args(arguments)
    if options.given:
        return _try(options.given)
    until = time.monotonic() + 60 * options.minutes if options.minutes else float("inf")
    last = sys.maxsize if options.minutes else options.first + options.seeds
    tally = fuzz(iter(range(options.first, last)), options.ops, until, options.keep)
    print(tally)
    return int(bool(tally.failures))


def _try(paths: Sequence[Path]) -> int:
    bad = 0
    with tempfile.TemporaryDirectory(prefix="fuzz") as folder:
        for path in paths:
            found = failure(onnx.load(path), Path(folder))
            print(f"{path}: {': '.join(found) if found else 'sound'}")
            bad |= found is not None
    return bad


if __name__ == "__main__":
    sys.exit(main())

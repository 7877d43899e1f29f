"""What products added in pairs in i16 cost, as x86 adds them before VNNI: simulated.

A float network is quantized for sums that hold everything, for the pairs (weights of channels that
may saturate are fitted), and with weights of 7 bits, which never saturate; a network that another
tool quantized is optimized, and then
fitted by `fit-sums`. Each is run with exact sums
and with pairs that saturate (neighboring products of raw codes, in the order of the weights), and
compared with the float network: signal to quantization noise over all outputs, in dB.
"""

# pyright: basic
from __future__ import annotations

import argparse
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

import qdialect as qd
from qdialect.algebra.sums import SumType
from qdialect.analysis.accumulators import products_of
from qdialect.analysis.index import every_op
from qdialect.interpreter import Interpreter, argument_names
from qdialect.ir.quant.arithmetic import ARITHMETIC_KEY
from qdialect.quantizer.recipe import Recipe
from qdialect.targets.base import Target
from qdialect.targets.installed import get_target
from qdialect.targets.kernels import Kernel
from tests.support.narrow_sums import narrow_kernels
from tests.support.tables import step, table
from tools.bench import corpus, measure
from tools.bench.quantize import TEST_SEED

PAIRS = SumType.parse("i32 pairs=i16")


def targets() -> Mapping[str, Target]:
    """x86 before VNNI, as it would be with sums that hold everything, and with 7 bits."""
    target = get_target("x86-without-vnni")

    def changed(way: str, row: Kernel) -> Kernel:
        if row.sums != str(PAIRS):
            return row
        operands = row.operands
        if way == "weights of 7 bits":
            operands = tuple(text.replace("i8 per", "i8<-64:64> per") for text in operands)
        return replace(row, operands=operands, sums="i32")

    def of(way: str) -> Target:
        rows = {
            name: tuple(changed(way, row) for row in kernels)
            for name, kernels in target.kernels.items()
        }
        return replace(target, kernels=rows)

    return {
        "any sums": of("any sums"),
        "fitted": target,
        "weights of 7 bits": of("weights of 7 bits"),
    }


def outputs(model: qd.Model, feeds: Sequence[corpus.Feeds], functions=None) -> measure.Outputs:
    """The outputs of the interpreter, quantized ops in integers."""
    module = model.module.clone()
    module.attributes.pop(ARITHMETIC_KEY, None)
    machine = Interpreter(model.ctx, module, functions=functions)
    names = argument_names(machine.function())
    runs = [machine.run([feed[name] for name in names]) for feed in feeds]
    return [np.stack(each) for each in zip(*runs, strict=True)]


def unfit_channels(model: qd.Model) -> tuple[int, int, int, int]:
    """Ops and channels whose pairs may saturate, each with how many there are."""
    ctx = model.ctx.clone()
    ctx.target = get_target("x86-without-vnni")
    found = [p for op in every_op(model.module) if (p := products_of(ctx, op)) is not None]
    known = [p for p in found if p.kind == PAIRS]
    channels = sum(int((p.beyond > 1).sum()) for p in known)
    ops = sum(not p.fits for p in known)
    return ops, len(known), channels, sum(len(p.beyond) for p in known)


def measured(
    model: qd.Model, reference: measure.Outputs, feeds: Sequence[corpus.Feeds]
) -> tuple[str, ...]:
    """Ops and channels that may saturate, sums that do, dB exactly and with pairs."""
    ops, every, channels, of = unfit_channels(model)
    exact = measure.sqnr(reference, outputs(model, feeds))
    wrong = Counter[str]()
    narrow = outputs(model, feeds, narrow_kernels(PAIRS, wrong))
    saturated = measure.sqnr(reference, narrow)
    counts = f"{ops} of {every}", f"{channels} of {of}", f"{wrong.total():,}"
    return (*counts, f"{exact:.2f}", f"{saturated:.2f}")


def rows(name: str, calibration: int, tests: int) -> list[tuple[str, ...]]:
    """One network in all ways."""
    source = corpus.source_named(name)
    model = qd.load(corpus.float_model(source))
    feeds = source.samples(tests, TEST_SEED + 1)
    reference = outputs(model, feeds)
    samples = source.samples(calibration, 1)
    found: list[tuple[str, ...]] = []
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "data.npz"
        np.savez(
            data,
            allow_pickle=False,
            **{key: np.stack([feed[key] for feed in samples]) for key in samples[0]},
        )
        for way, target in targets().items():
            with step(f"{name} {way}"):
                done = qd.quantize(model, data, target=target, recipe=Recipe.of_target(target))
                found.append((name, way, *measured(done.model, reference, feeds)))
    path = corpus.quantized_model(source, corpus.CONFIGS["u8s8_pc"], calibration)
    with step(f"{name} u8s8_pc"):
        optimized = qd.optimize(qd.load(path), target=targets()["any sums"])
        found.append((name, "another's", *measured(optimized, reference, feeds)))
        optimized.ctx.target = targets()["fitted"]
        fitted = qd.run_passes(optimized, "fit-sums{numerics=relaxed}")
        found.append((name, "another's, fitted", *measured(fitted, reference, feeds)))
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", nargs="+", default=["ocr-cls", "wake-word", "squeezenet"])
    parser.add_argument("--calibration", type=int, default=16, help="samples (default: 16)")
    parser.add_argument("--tests", type=int, default=4, help="samples (default: 4)")
    options = parser.parse_args(arguments)
    heading = ("model", "weights", "ops", "channels", "sums that saturate", "exact", "in pairs")
    found = (rows(name, options.calibration, options.tests) for name in options.models)
    print(table(heading, [row for each in found for row in each]))


if __name__ == "__main__":
    main()

"""Measure what ops cost in ONNX Runtime or LiteRT on this machine, for `qopt optimize --prices`.

python -m tools.bench prices -o here.json
qopt optimize model.onnx -o faster.onnx --prices here.json
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from qdialect.cli.terminal import progress
from qdialect.ir.weights import save_text
from tests.support.price_files import table_text
from tools.bench.litert_prices import LitertBenchmark
from tools.bench.price_benchmark import Benchmark

_ROUNDS_PER_TURN = 6
"""Rounds of ONNX Runtime's benchmark take as long as a turn of LiteRT's."""


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns the exit code."""
    parser = argparse.ArgumentParser(prog="tools.bench prices", description=__doc__)
    parser.add_argument("-o", "--output-file", type=Path, required=True, help="the table (.json)")
    parser.add_argument(
        "--engine",
        choices=("onnxruntime", "litert"),
        default="onnxruntime",
        help="what is measured",
    )
    parser.add_argument("--rounds", type=int, default=100, help="how often each op is timed")
    options = parser.parse_args(arguments)
    if options.engine == "litert":
        benchmark = LitertBenchmark(max(options.rounds // _ROUNDS_PER_TURN, 1))
    else:
        benchmark = Benchmark(max(options.rounds, 1))
    prices = benchmark.measure(_watch)
    save_text(options.output_file, table_text(prices))
    units = ", ".join(f"{each.unit_ns:.2g} of {each.elements}" for each in prices.sizes)
    print(f"{options.output_file}: prices of {prices.target} {prices.runtime} on {prices.cpu}")
    print(f"a rescale takes, in ns per element: {units}")
    return 0


def _watch(items: Sequence[Any], what: str) -> Iterable[Any]:
    return progress(items, len(items), f"measuring {what}")

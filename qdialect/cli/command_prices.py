"""`qopt prices`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from qdialect.cli.files import writable
from qdialect.cli.flags import Arguments, write
from qdialect.cli.terminal import OK, progress, say
from qdialect.engines.installed import require
from qdialect.errors import UsageError
from qdialect.targets.installed import get_target
from qdialect.targets.price_table import PriceTable
from qdialect.weights import save_text

_TARGETS = {"onnxruntime": "onnxruntime", "litert": "litert", "litert-xnn": "litert"}
"""Targets of engines."""


def run(args: Arguments) -> int:
    """The command; returns the exit code."""
    output = args.text("o")
    if output is None:
        raise UsageError("where to write the prices is missing: -o FILE.json")
    path = writable(output, (".json",))
    target = get_target(args.text("target") or _TARGETS[args.text("engine") or "onnxruntime"])
    rounds = args.integer("rounds", 100, minimum=1)
    if target.name == "litert":
        return _litert(path, rounds, args)
    if target.name != "onnxruntime":
        raise UsageError(f"there is no benchmark for target '{target.name}'", code="no-prices")

    require("onnxruntime")
    from qdialect.context import new_context
    from qdialect.formats.mlir.read import read_module
    from qdialect.formats.onnx.write.price_benchmark import Benchmark

    prices = Benchmark(read_module, new_context, rounds).measure(_watch)
    return _said(prices, path, "ONNX Runtime", args)


def _litert(path: Path, rounds: int, args: Arguments) -> int:
    """Measure the kernels that LiteRT runs by default."""
    require("litert-xnn")
    from qdialect.workflows.litert_prices import LitertBenchmark

    prices = LitertBenchmark(max(rounds // 6, 1)).measure(_watch)
    return _said(prices, path, "LiteRT", args)


def _watch(items: Sequence[Any], what: str) -> Iterable[Any]:
    return progress(items, len(items), f"measuring {what}")


def _said(prices: PriceTable, path: Path, runtime: str, args: Arguments) -> int:
    save_text(path, prices.to_json())
    if args.switch("json"):
        write(prices.to_json())
    units = ", ".join(f"{each.unit_ns:.2g} of {each.elements}" for each in prices.sizes)
    say(f"{path}: prices of {runtime} {prices.runtime} on {prices.cpu}")
    say(f"a rescale takes, in ns per element: {units}")
    say(f"use them with qopt optimize --prices={path}", "note")
    return OK

"""`qopt prices`."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import Any

from qdialect.cli.files import writable
from qdialect.cli.flags import Arguments, write
from qdialect.cli.terminal import OK, progress
from qdialect.engines.installed import require
from qdialect.errors import UsageError
from qdialect.targets.installed import get_target
from qdialect.weights import save_text


def run(args: Arguments) -> int:
    """The command; returns the exit code."""
    output = args.text("o")
    if output is None:
        raise UsageError("where to write the prices is missing: -o FILE.json")
    path = writable(output, (".json",))
    target = get_target(args.text("target") or "onnxruntime")
    if target.name != "onnxruntime":
        raise UsageError(f"there is no benchmark for target '{target.name}'", code="no-prices")
    rounds = args.integer("rounds", 100, minimum=1)

    require("onnxruntime")
    from qdialect.context import new_context
    from qdialect.formats.mlir.read import read_module
    from qdialect.formats.onnx.write.price_benchmark import Benchmark

    def watch(items: Sequence[Any], what: str) -> Iterable[Any]:
        return progress(items, len(items), f"measuring {what}")

    prices = Benchmark(read_module, new_context, rounds).measure(watch)
    save_text(path, prices.to_json())
    if args.switch("json"):
        write(prices.to_json())
    units = ", ".join(f"{each.unit_ns:.2g} of {each.elements}" for each in prices.sizes)
    print(
        f"{path}: prices of ONNX Runtime {prices.runtime} on {prices.cpu}\n"
        f"a rescale takes, in ns per element: {units}\n"
        f"note: use them with qopt optimize --prices={path}",
        file=sys.stderr,
    )
    return OK

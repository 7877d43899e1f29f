"""`qopt diff`."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from dataclasses import asdict

from qdialect import api
from qdialect.cli.execution import OutputDifference, compare_models
from qdialect.cli.files import load_arrays
from qdialect.cli.flags import Arguments, write
from qdialect.cli.inspection import type_text
from qdialect.cli.terminal import OK, WRONG_INPUT, paint, progress, table


def run(args: Arguments) -> int:
    """The command; returns the exit code."""
    samples = args.integer("samples", 4, minimum=1)
    limit = args.number("max-steps", 0.0)
    source = args.text("input")
    inputs = None if source is None else load_arrays(source)
    a, b = (api.load(name) for name in args.positional)

    def watch(numbers: Iterable[int]) -> Iterable[int]:
        return progress(numbers, samples if inputs is None else 1, "comparing")

    found = compare_models(
        a,
        b,
        inputs,
        samples=samples,
        engine=args.text("engine") or "numpy",
        optimize=args.switch("runtime-optimizations"),
        watch=watch,
    )
    close = all(output.max_steps <= limit for output in found)
    if args.switch("json"):
        write(json.dumps({"version": 1, "outputs": [asdict(f) for f in found]}, indent=1) + "\n")
    else:
        write(_table(found))
        if not close:
            verdict = paint("different", "error", sys.stderr)
            print(f"{verdict}: more than {limit:g} steps apart", file=sys.stderr)
    return OK if close else WRONG_INPUT


def _table(found: list[OutputDifference]) -> str:
    rows = [("output", "type", "max", "unit", "max abs", "differing", "SQNR")]
    rows += [
        (
            output.name,
            type_text(output.type),
            f"{output.max_steps:.4g}",
            output.unit,
            f"{output.max_abs:.4g}",
            f"{output.share_differing:.4%}",
            f"{output.sqnr_db:.1f} dB",
        )
        for output in found
    ]
    return table(rows, dict.fromkeys((2, 4, 5, 6), True))

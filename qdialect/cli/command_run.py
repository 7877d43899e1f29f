"""`qopt run`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from qdialect import api
from qdialect.api import Model
from qdialect.cli.command_diff import difference_table, report_first_apart
from qdialect.cli.files import load_arrays, save_arrays, writable
from qdialect.cli.flags import Arguments, write_json
from qdialect.cli.terminal import OK, WRONG_INPUT
from qdialect.errors import UsageError
from qdialect.workflows.compare import Inputs, compare_models
from qdialect.workflows.run import open_engine


def run(args: Arguments) -> int:
    """The command; returns the exit code."""
    source, output = args.text("input"), args.text("output")
    if source is None or output is None:
        missing = "--input X.npz" if source is None else "--output Y.npz"
        raise UsageError(f"{missing} is missing")
    path = writable(output, (".npz",))
    inputs = load_arrays(source)
    model = api.load(args.positional[0], as_written=True)
    optimize = args.switch("runtime-optimizations")
    engines = args.texts("engine") or ["numpy"]
    outputs = open_engine(model, engines[0], optimize=optimize)(inputs)
    save_arrays(path, outputs)
    compared: list[dict[str, Any]] = []
    code = _compare(model, inputs, engines, optimize, compared)
    if args.switch("json"):
        shown = [
            {"name": name, "type": str(array.dtype), "shape": list(array.shape)}
            for name, array in outputs.items()
        ]
        summary = {
            "engine": engines[0],
            "output": str(path),
            "outputs": shown,
            "compared": compared,
        }
        write_json({"version": 1, **summary})
    return code


def _compare(
    model: Model,
    inputs: Inputs,
    engines: Sequence[str],
    optimize: bool,
    results: list[dict[str, Any]],
) -> int:
    """The outputs of all engines but the first, said and added to `results`."""
    code = OK
    for other in engines[1:]:
        found = compare_models(
            model,
            model,
            inputs,
            samples=1,
            engine=engines[0],
            other_engine=other,
            optimize=optimize,
        )
        results.append({"engine": other, "outputs": [asdict(output) for output in found]})
        sys.stderr.write(f"{engines[0]} and {other}:\n{difference_table(found)}")
        if any(output.share_differing for output in found):
            report_first_apart(model, engines[0], other, inputs)
            code = WRONG_INPUT
    return code

"""`qopt diff`."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from qdialect import api
from qdialect.cli.files import load_arrays
from qdialect.cli.flags import Arguments, write, write_json
from qdialect.cli.terminal import OK, WRONG_INPUT, paint, progress, say, table
from qdialect.errors import QError, UsageError
from qdialect.workflows.compare import (
    Inputs,
    OutputDifference,
    Outputs,
    compare_models,
    difference_rows,
)
from qdialect.workflows.inputs import drawn_inputs

if TYPE_CHECKING:
    from qdialect.report.tables import LayerError


def run(args: Arguments) -> int:
    """The command; returns the exit code."""
    samples = args.integer("samples", 4, minimum=1)
    limit = args.number("max-steps", 0.0)
    source = args.text("input")
    engines = args.texts("engine") or ["numpy"]
    if len(engines) > 2:
        raise UsageError("two models run in at most two engines")
    if len(args.positional) == 1 and len(engines) == 1:
        raise UsageError("B is missing, or a second --engine")
    data = args.text("data")
    for name in ("data", "alone", "worst"):
        if args.has(name) and not args.switch("layers"):
            raise UsageError(f"--{name} is for --layers")
    if data is not None and source is not None:
        raise UsageError("--data and --input both say what the inputs are")
    inputs = None if source is None else load_arrays(source)
    a, *others = (api.load(name, as_written=True) for name in args.positional)
    b = others[0] if others else a
    if args.switch("layers"):
        several = _samples(a, b, data, samples) if inputs is None else [inputs]
        return _layers(args, a, b, engines, several)

    def watch(pairs: Iterable[Outputs]) -> Iterable[Outputs]:
        return progress(pairs, samples if inputs is None else 1, "comparing")

    found = compare_models(
        a,
        b,
        inputs,
        samples=samples,
        engine=engines[0],
        other_engine=engines[-1],
        optimize=args.switch("runtime-optimizations"),
        watch=watch,
    )
    close = all(output.max_steps <= limit for output in found)
    if args.switch("json"):
        write_json({"version": 1, "outputs": [asdict(f) for f in found]})
    else:
        write(difference_table(found))
        if not close:
            verdict = paint("different", "error", sys.stderr)
            sys.stderr.write(f"{verdict}: more than {limit:g} steps apart\n")
            if inputs is None:
                far = f"on {samples} random inputs, which may be far from real ones: -i X.npz"
                say(far, "note")
            if a is b:
                one = drawn_inputs(a, 1)[0] if inputs is None else inputs
                report_first_apart(a, engines[0], engines[-1], one)
    return OK if close else WRONG_INPUT


def difference_table(found: list[OutputDifference]) -> str:
    """How far outputs are apart, for people."""
    right: dict[int, bool] = dict.fromkeys((2, 4, 5, 6), True)
    return table(difference_rows(found), right, stream=sys.stdout, heading=True)


def report_first_apart(model: api.Model, engine: str, other: str, inputs: Inputs) -> None:
    """Say where a model in two engines parts first; nothing where that cannot be found."""
    from qdialect.workflows.compare_values import first_apart, keyed_values

    try:
        found = first_apart(keyed_values(model, engine, inputs), keyed_values(model, other, inputs))
    except QError as error:
        say(f"values inside could not be compared: {error.message}", "note")
        return
    if found is None:
        say("no value inside, by key and in one scale, differs", "note")
    else:
        key, steps = found
        say(f"they part at '{key}', by up to {steps:g} steps", "note")


def _samples(a: api.Model, b: api.Model, data: str | None, count: int) -> Sequence[Inputs]:
    from qdialect.workflows.calibrate import open_data

    if data is None:
        return drawn_inputs(a, count, beside=[b])
    opened = open_data(a, Path(data), whole=False)
    return list(opened.read(range(min(count, len(opened)))))


def _layers(
    args: Arguments, a: api.Model, b: api.Model, engines: Sequence[str], samples: Sequence[Inputs]
) -> int:
    from qdialect.plugins.onnx.alone import Alone
    from qdialect.workflows.compare_values import (
        Compared,
        compare_layers,
        keyed_values,
        worst_layers,
    )

    alone = Alone(b, engines[-1]) if args.switch("alone") else None
    worst = args.integer("worst", 0, minimum=1)

    def pairs() -> Iterator[Compared]:
        for inputs in samples:
            one, other = (
                keyed_values(m, e, inputs) for m, e in ((a, engines[0]), (b, engines[-1]))
            )
            yield one, other, () if alone is None else alone.values(one, other, inputs)

    found = compare_layers(progress(pairs(), len(samples), "comparing"))
    if worst:
        found = worst_layers(found, worst)
    if args.switch("json"):
        write_json({"version": 1, "layers": [asdict(f) for f in found]})
    else:
        write(_layer_table(found))
    return OK


def _layer_table(found: Sequence[LayerError]) -> str:
    from qdialect.workflows.compare_values import layer_rows

    rows = layer_rows(found)
    right: dict[int, bool] = dict.fromkeys(range(2, len(rows[0])), True)
    return table(rows, right, stream=sys.stdout, heading=True)

"""`qopt optimize`."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

from qdialect import api
from qdialect.api import Model
from qdialect.cli.files import load_arrays, load_model, remarks_output, report_output, writable
from qdialect.cli.flags import Arguments, write_json
from qdialect.cli.forms import cheapest_form, keep_model, timed
from qdialect.cli.inspection import Inspection
from qdialect.cli.instrumentation import Progress
from qdialect.cli.reproducer import Reproducer, numerics_check
from qdialect.cli.terminal import OK, OUR_BUG, report, table
from qdialect.errors import PassFailure, UsageError
from qdialect.passes.manager import Instrumentation
from qdialect.targets.base import Target
from qdialect.targets.installed import get_target
from qdialect.targets.price_table import read_prices
from qdialect.transforms.pipelines import optimize_pipeline

SAMPLES = 2
"""On how many random inputs the result is compared, unless said: one of numbers anywhere,
one with many at boundaries."""


def run(args: Arguments) -> int:
    """The command; returns the exit code."""
    output = args.text("o")
    if output is None:
        raise UsageError("where to write the result is missing: -o OUT")
    source = Path(args.positional[0])
    if not source.is_dir():
        for flag in ("jobs", "no-cache"):
            if args.given(flag):
                raise UsageError(f"--{flag} is for a folder of models")
        return _optimize(args, output)
    from qdialect.cli.optimize_folder import Folder

    get_target(args.text("target") or "onnxruntime")
    return Folder(args, source, Path(output)).run()


def _optimize(args: Arguments, output: str) -> int:
    path = writable(output, (".onnx", ".mlir", ".qmod"))
    target = get_target(args.text("target") or "onnxruntime")
    if (prices := args.text("prices")) is not None:
        target = target.with_prices(read_prices(Path(prices), target.name))
    if args.switch("time") and path.suffix != ".onnx":
        raise UsageError("--time is for an .onnx result")
    page = report_output(args.text("report"))
    numerics = api.check_numerics(args.text("numerics") or "exact")
    pipeline = args.text("pass-pipeline")
    if pipeline is None:
        pipeline = optimize_pipeline(target, numerics)

    began = time.perf_counter()
    model = load_model(args, args.positional[0])
    imported = time.perf_counter()
    reproducer = Reproducer(model.ctx, None, verify_each=True)
    watchers: list[Instrumentation] = [reproducer, Progress()]
    if args.given("verify-numerics"):
        watchers.append(numerics_check(args))
    try:
        optimized = api.run_passes(
            model, pipeline, target=target, verify_each=False, instrumentation=watchers
        )
    except PassFailure as error:
        report(error)
        print(f"note: reproducer written to {reproducer.written}", file=sys.stderr)
        return OUR_BUG
    transformed = time.perf_counter()
    form, said = _decide(args, model, optimized, target, path)
    compared = time.perf_counter()
    if form is None:
        keep_model(model, path)
    else:
        api.save(optimized, path, form=form, inline_weights=args.switch("inline-weights"))
    exported = time.perf_counter()
    if args.given("remarks"):
        remarks_output([optimized.ctx], args.text("remarks"))
    if page is not None:
        from qdialect.cli.reporting import write_comparison

        inputs = args.text("input")
        given = [] if inputs is None else [load_arrays(inputs)]
        write_comparison(page, model, optimized, target, given)
    if args.switch("json"):
        write_json(_as_json(model, optimized, path, form, said))
    elif not args.switch("quiet"):
        sys.stderr.write(_summary(model, optimized, Path(args.positional[0]), path))
        sys.stderr.write("".join(f"{line}\n" for line in said))
    if args.switch("timing"):
        rows = [
            ("import", imported - began),
            ("passes", transformed - imported),
            ("check", compared - transformed),
            ("export", exported - compared),
        ]
        shown = [(name, f"{seconds:.3f} s") for name, seconds in rows]
        sys.stderr.write(table(shown, {1: True}))
    return OK


def _decide(
    args: Arguments, model: Model, optimized: Model, target: Target, path: Path
) -> tuple[api.Form | None, list[str]]:
    """The form to write (None: the original), and what was timed and checked for it."""
    wanted, inputs = args.text("form"), args.text("input")
    given = None if inputs is None else load_arrays(inputs)
    form: api.Form | None = "qoperator" if wanted == "qoperator" else "qdq"
    if wanted in (None, "auto"):
        form = cheapest_form(optimized.module, target)
    said: list[str] = []
    if args.switch("time"):
        timing = timed(model, optimized, preferred=form, inputs=given)
        form = timing.chosen
        said.append(str(timing))
    samples = args.integer("check", SAMPLES)
    if samples and form is not None:
        written = form if path.suffix == ".onnx" else None
        said.append(str(api.check(model, optimized, samples, inputs=given, form=written)))
    return form, said


def _as_json(
    before: Model, after: Model, path: Path, form: api.Form | None, said: list[str]
) -> dict[str, Any]:
    """The summary as plain data; `form` is null where the original was written."""
    counts = _counts(api.inspect(before), api.inspect(after))
    log = after.ctx.remarks
    return {
        "version": 1,
        "output": str(path),
        "form": form,
        "before": {label: first for label, first, _ in counts},
        "after": {label: second for label, _, second in counts},
        "fired": log.fired(),
        "refused": log.refused(),
        "outputs": [bound.as_json() for bound in log.outputs],
        "notes": said,
    }


def _summary(before: Model, after: Model, source: Path, path: Path) -> str:
    a, b = api.inspect(before), api.inspect(after)
    log = after.ctx.remarks
    fired, refused = sum(log.fired().values()), sum(log.refused().values())
    rows = [("", "before", "after")]
    rows += [(label, str(x), str(y)) for label, x, y in _counts(a, b)]
    more = "" if not refused else f"; qopt explain {source} tells why"
    return (
        f"{source} -> {path}\n"
        f"{table(rows, {1: True, 2: True}, stream=sys.stderr, heading=True)}"
        f"{fired} rewrites fired, {refused} were refused{more}\n"
    )


def _counts(a: Inspection, b: Inspection) -> list[tuple[str, int, int]]:
    return [
        ("ops", a.total, b.total),
        ("quantize", a.quantize, b.quantize),
        ("dequantize", a.dequantize, b.dequantize),
        ("rescale", a.rescales, b.rescales),
        ("quantized ops", a.quantized, b.quantized),
        ("mixed ops", a.mixed, b.mixed),
        ("float ops", a.float, b.float),
        ("unknown ops", sum(u.count for u in a.unknown), sum(u.count for u in b.unknown)),
    ]

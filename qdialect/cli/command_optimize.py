"""`qopt optimize`, of a model or of a folder of models."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from qdialect import api
from qdialect.cli.files import load_arrays, remarks_output, report_output, writable
from qdialect.cli.flags import Arguments, write_json
from qdialect.cli.instrumentation import Progress
from qdialect.cli.reproducer import Reproducer, numerics_check
from qdialect.cli.terminal import OK, WRONG_INPUT, duration, line, progress, say, table
from qdialect.errors import UsageError
from qdialect.ir.context import QContext
from qdialect.ir.weights import save_text
from qdialect.pipeline.manager import Instrumentation
from qdialect.plugins.tflite.files import TARGETS, ExecutedTflite
from qdialect.rewrite.remarks import key_text
from qdialect.targets.base import Target
from qdialect.targets.installed import get_target
from qdialect.targets.price_table import NO_DOT_PRODUCTS, read_prices, shipped_prices
from qdialect.workflows.model import SAVED, load
from qdialect.workflows.optimize_file import FileOptimization
from qdialect.workflows.optimize_folder import FolderOptimization, Outcome
from qdialect.workflows.race import FLOAT, INPUT, SECONDS, Candidate, Choice, signal_to_noise
from qdialect.workflows.target_report import left_over, refused_ops, unfit_sums

SAMPLES = 2
"""On how many random inputs the result is compared, unless said: one of numbers anywhere,
one with many at boundaries."""
RACE = "QOPT_RACE"
"""The environment variable that says how long to race where `--race` does not."""
_SECONDS = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(ms|s)?$")
_FILES = ("input", "numerics-inputs", "prices")
"""Flags that name files which a result depends on."""
_FOR_FOLDERS = ("o", "jobs", "no-cache", "json")
"""Flags of a folder that the processes of its models do not get."""


def run(args: Arguments) -> int:
    """The command; returns the exit code."""
    output = args.text("o")
    if output is None:
        raise UsageError("where to write the result is missing: -o OUT")
    source = Path(args.positional[0])
    if source.is_dir():
        return _run_folder(args, source, Path(output))
    for flag in ("jobs", "no-cache"):
        if args.has(flag):
            raise UsageError(f"--{flag} is for a folder of models")
    return _run_file(args, source, output)


def race_seconds(text: str | None) -> float:
    """`3s`, `500ms` or `3` (seconds); the environment or the default where nothing is said."""
    text = text if text is not None else os.environ.get(RACE) or str(SECONDS)
    found = _SECONDS.match(text)
    if found is None:
        raise UsageError(f"a race takes a time (3s, 500ms; 0: no race), not '{text}'")
    return float(found[1]) / (1000 if found[2] == "ms" else 1)


# -- a folder -----------------------------------------------------------------------------


def _run_folder(args: Arguments, source: Path, output: Path) -> int:
    get_target(args.text("target") or "onnxruntime")
    work = FolderOptimization(
        source,
        output,
        "qdialect.cli.qopt",
        ["optimize", *_flags(args)],
        [Path(name) for flag in _FILES for name in args.texts(flag)],
        args.integer("jobs", 0, minimum=1) or None,
        not args.switch("no-cache"),
    )
    began = time.monotonic()
    outcomes = work.run(lambda futures, total: progress(futures, total, "models"))
    _report_folder(args, outcomes, time.monotonic() - began)
    return WRONG_INPUT if any(outcome.code != OK for outcome in outcomes) else OK


def _flags(args: Arguments) -> list[str]:
    """The flags of the command line, for the process of a model."""
    flags: list[str] = []
    for name, values in args.flags.items():
        if name in _FOR_FOLDERS:
            continue
        for value in values:
            if value is True:
                flags.append(f"--{name}")
            elif name == "remarks":
                raise UsageError("--remarks=FILE is for one model")
            else:
                flags.append(f"--{name}={'false' if value is False else value}")
    return flags


def _report_folder(args: Arguments, outcomes: Sequence[Outcome], seconds: float) -> None:
    quiet = args.switch("quiet")
    if args.switch("json"):
        write_json([asdict(outcome) for outcome in outcomes])
    for outcome in outcomes:
        messages = outcome.messages.strip()
        if outcome.code != OK:
            messages = messages or f"error: exit code {outcome.code}"
            say(f"{outcome.name}: failed")
        elif args.has("remarks") and not outcome.cached:
            say(f"{outcome.name}: done")
        elif not quiet and not outcome.cached:
            say(f"{outcome.name}: done in {duration(outcome.seconds)}")
            messages = ""
        else:
            continue
        sys.stderr.writelines(map(line, messages.splitlines()))
    failed = sum(outcome.code != OK for outcome in outcomes)
    cached = sum(outcome.cached for outcome in outcomes)
    if not quiet or failed:
        sys.stderr.write(
            f"{len(outcomes)} models in {duration(seconds)}: "
            f"{len(outcomes) - failed - cached} optimized, {cached} as they were, "
            f"{failed} failed\n"
        )


# -- a model ------------------------------------------------------------------------------


def _run_file(args: Arguments, source: Path, output: str) -> int:
    path = writable(output, SAVED)
    target = priced_target(args, path)
    page = report_output(args.text("report"))
    form, float_file, inputs = args.text("form"), args.text("float"), args.text("input")
    level = args.text("numerics")
    reproducers: list[Reproducer] = []

    def watchers(ctx: QContext) -> Sequence[Instrumentation]:
        reproducers.append(Reproducer(ctx, None, verify_each=True))
        checks = [numerics_check(args)] if args.has("verify-numerics") else []
        return [reproducers[-1], Progress(), *checks]

    work = FileOptimization(
        source,
        path,
        target,
        None if level is None else api.check_numerics(level),
        args.text("pass-pipeline"),
        None if form in (None, "auto") else "qoperator" if form == "qoperator" else "qdq",
        args.integer("check", SAMPLES),
        None if inputs is None else load_arrays(inputs),
        race_seconds(args.text("race")),
        None if float_file is None else Path(float_file),
        args.switch("inline-weights"),
        args.switch("keep-refused"),
        args.extents("dim"),
        args.extents("typical-dim"),
        kernels_asked(args, source, path),
        watchers,
    )
    if float_file is not None and not work.is_onnx:
        raise UsageError("--float is for an .onnx result")
    work.run()
    written = [str(one.written) for one in reproducers if one.written is not None]
    work.notes[:0] = [f"what crashed is shown again by {name}" for name in written[:1]]

    if args.has("remarks") and work.result is not None:
        remarks_output([work.result.model.ctx], args.text("remarks"))
    if page is not None and work.model is not None and work.result is not None:
        from qdialect.workflows.report import comparison_page

        samples = [] if work.inputs is None else [work.inputs]
        after = work.result.model if work.is_ours else load(work.path)
        save_text(page, comparison_page(work.model, after, target, samples))
    if args.switch("json"):
        write_json(_as_json(work))
    elif not args.switch("quiet"):
        sys.stderr.write(_summary(work, args.switch("details")))
    elif work.dropped:
        sys.stderr.writelines(map(line, work.dropped))
    if args.switch("timing"):
        shown = [(name, f"{seconds:.3f} s") for name, seconds in work.times]
        sys.stderr.write(table(shown, {1: True}))
    return WRONG_INPUT if work.dropped and args.switch("strict") else OK


def kernels_asked(args: Arguments, *files: Path) -> str | None:
    """What `--kernels` says; UsageError where none of the files is for LiteRT."""
    kernels = args.text("kernels")
    if kernels is not None and not any(file.suffix in TARGETS for file in files):
        raise UsageError("--kernels is for .tflite and .circle files")
    return kernels


def priced_target(args: Arguments, path: Path | None = None) -> Target:
    """The target that is asked for, or that of the result's suffix, with the prices that are."""
    usual = "onnxruntime" if path is None else TARGETS.get(path.suffix, "onnxruntime")
    target = get_target(args.text("target") or usual)
    if (prices := args.text("prices")) is not None:
        without = prices == NO_DOT_PRODUCTS
        table = shipped_prices("onnxruntime") if without else read_prices(Path(prices), target.name)
        target = target.with_prices(table.without_dot_products() if without else table)
    return target


def _as_json(work: FileOptimization) -> dict[str, Any]:
    """The summary as plain data; `form` is null where the original was written."""
    counts = _counts(work)
    shown: dict[str, Any] = {
        "version": 2,
        "output": str(work.path),
        "form": work.form_written(),
        "before": {label: first for label, first, _ in counts},
        "after": {label: second for label, _, second in counts},
        "dropped": [{"what": one.what, "why": one.why} for one in work.dropped],
        "notes": [*_checked(work), *work.notes],
    }
    if work.result is not None and work.is_ours:
        log = work.result.model.ctx.remarks
        shown |= {
            "fired": log.fired(),
            "refused": log.refused(),
            "outputs": [bound.as_json() for bound in log.outputs],
            "target_refuses": [
                {"op": op.name, "key": key_text(op), "reason": reason}
                for op, reason in refused_ops(
                    work.result.model.module, work.result.model.ctx
                ).items()
            ],
            "sums": unfit_sums(work.result.model.module, work.result.model.ctx),
        }
    if (choice := work.choice) is not None:
        shown["executed"] = {c.name: c.executed.as_json() for c in choice.candidates}
        shown["written"] = choice.chosen.name
        shown["race"] = {name: lap.as_json() for name, lap in choice.race.laps.items()}
        shown["by_default"] = {name: one.as_json() for name, one in choice.by_default().items()}
    return shown


def _summary(work: FileOptimization, details: bool) -> str:
    lines = [line(f"{work.source} -> {work.path}")]
    if work.choice is not None:
        lines += _executed(work.choice)
    if work.model is not None and work.result is not None and work.is_ours:
        if work.choice is None or details:
            rows = [("", "before", "after")]
            rows += [(label, str(x), str(y)) for label, x, y in _counts(work)]
            lines.append(table(rows, {1: True, 2: True}, stream=sys.stderr, heading=True))
        log = work.result.model.ctx.remarks
        fired, refused = sum(log.fired().values()), sum(log.refused().values())
        more = "" if not refused else f"; qopt explain {work.source} tells why"
        lines.append(line(f"{fired} rewrites fired, {refused} were refused{more}"))
        left = left_over(work.result.model.module, work.result.model.ctx)
        sums = unfit_sums(work.result.model.module, work.result.model.ctx)
        lines += map(line, filter(None, (left, sums)))
    lines += map(line, (*_checked(work), *work.dropped, *work.notes))
    if work.result is None:
        lines.append("the original is what was written\n")
    lap = None if work.choice is None else work.choice.race.laps.get(work.choice.chosen.name)
    if lap is not None and lap.low > 1:
        lines.append(f"warning: {work.path} takes {lap.ratio:.2f} times as long as the input\n")
    return "".join(lines)


def _checked(work: FileOptimization) -> list[str]:
    if work.result is None or not work.samples or not work.is_ours:
        return []
    first, *more = work.result.checked.lines
    return [first, *(f"  {line}" for line in more)]


def _executed(choice: Choice) -> list[str]:
    """What the runtime runs of the input and of what is written, and how long it takes."""
    columns = [c for c in (choice.named(INPUT), choice.chosen) if c is not None]
    if choice.chosen.name == INPUT:
        columns = columns[:1]
    of_litert = [c.executed for c in columns if isinstance(c.executed, ExecutedTflite)]
    runtime = "LiteRT" if of_litert else "ONNX Runtime"
    rows = [(f"what {runtime} executes", *(_title(c) for c in columns))]
    rows.append(("nodes", *(str(c.executed.nodes) for c in columns)))
    if any(one.delegated is not None for one in of_litert):
        taken = [_some(one.delegated) for one in of_litert]
        rows.append(("  that XNNPACK takes", *taken))
    rows.append(("  with a float result", *(str(c.executed.float_nodes) for c in columns)))
    rows.append(("  quantize, dequantize", *(str(c.executed.casts) for c in columns)))
    laps = choice.race.laps
    if laps:
        rows.append(("ms a run", *(f"{laps[c.name].milliseconds:.3g}" for c in columns)))
    right = dict.fromkeys(range(1, len(columns) + 1), True)
    lines = [table(rows, right, stream=sys.stderr, heading=True)]
    if choice.chosen.executed.floats:
        lines.append(line(f"float nodes that are left: {choice.chosen.executed.kinds()}"))
    if laps:
        lines.append(line(choice.race))
    if choice.chosen.name not in (INPUT, FLOAT) and (apart := choice.by_default()):
        count, other = len(choice.expected), apart.get("input", "")
        text = f"as {runtime} executes it by default, on {count} inputs, it {apart['written']}"
        lines.append(line(f"{text}{other and f'; the input {other}'}"))
    if choice.chosen.name == FLOAT:
        lines.append("the float model is faster than what integers make: it is written\n")
        given = choice.named(INPUT)
        if given is not None and given.answers:
            db = signal_to_noise(given.answers, choice.chosen.answers)
            count = len(given.answers)
            lines.append(line(f"on {count} inputs it is {db:.1f} dB from what the input gives"))
    elif choice.chosen.name == INPUT:
        why = "nothing is faster than" if len(laps) > 1 else "nothing may take the place of"
        what = "that" if isinstance(choice.chosen.model, Path) else "its translation"
        lines.append(f"{why} the input, so {what} is what is written\n")
    return lines


def _some(count: int | None) -> str:
    return "?" if count is None else str(count)


def _title(candidate: Candidate) -> str:
    return "input" if candidate.name == INPUT else f"written ({candidate.name})"


def _counts(work: FileOptimization) -> list[tuple[str, int, int]]:
    """Label, count before, count after; none where the original is the result."""
    if work.model is None or work.result is None or not work.is_ours:
        return []
    from qdialect.workflows.inspect import count_module

    both = (work.model, work.result.model)
    before, after = (count_module(m.module, m.ctx).counts for m in both)
    pairs = zip(before, after, strict=True)
    return [(label, first, second) for (label, first), (_, second) in pairs]

"""`qopt quantize`: a float model and data or a profile to a quantized model."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, cast

from qdialect import api
from qdialect.algebra.rounding import Rounding
from qdialect.cli.command_optimize import priced_target, race_seconds
from qdialect.cli.files import load_model, remarks_output, report_output, writable
from qdialect.cli.flags import Arguments, write_json
from qdialect.cli.terminal import OK, interrupted, line, progress, say, table
from qdialect.errors import UsageError
from qdialect.ir.weights import save_text
from qdialect.quantizer.block_formats import ONLY_IN_BLOCKS
from qdialect.quantizer.blocks import format_refusal
from qdialect.quantizer.profile.engines import EngineName
from qdialect.quantizer.profile.file import load_profile
from qdialect.quantizer.profile.ranges import Method
from qdialect.quantizer.profile.scheme import Symmetry
from qdialect.quantizer.quality import db_text
from qdialect.quantizer.recipe import Recipe
from qdialect.targets.base import Target
from qdialect.workflows.budget import Budget, parse_budget
from qdialect.workflows.budgeted import Answer, Request, front_points, write_front
from qdialect.workflows.calibrate import Interrupted
from qdialect.workflows.candidates import FLOAT, Raced
from qdialect.workflows.effort_steps import step_rows
from qdialect.workflows.loadable import loader
from qdialect.workflows.model import SAVED, save_or_copy
from qdialect.workflows.quality import Measured, costliest, measure
from qdialect.workflows.quantize import LEAST, Quantization, Quantized
from qdialect.workflows.race import SECONDS

_TIME = re.compile(r"(\d+(?:\.\d+)?)(s|m|h|)$", re.ASCII)
_SECONDS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}


def run(args: Arguments) -> int:
    """The command; returns the exit code."""
    output = args.text("o")
    if output is None:
        raise UsageError("where to write the result is missing: -o OUT")
    path = writable(output, SAVED)
    profile_path = args.text("profile")
    source = args.text("data")
    searched = (args.text("keep-float") or "").startswith("auto=")
    if source is not None and profile_path is not None and not searched:
        raise UsageError("give --data DIR|NPZ or --profile P.json, one of them")
    if args.switch("profile-of-another-model") and profile_path is None:
        raise UsageError("--profile-of-another-model takes --profile P.json")
    page = report_output(args.text("report"))
    effort, seconds = _effort(args)
    request = _request(args)
    folder = _front_folder(args.text("front"))
    keys, sensitive = _float_ops(args)
    target = priced_target(args, path)
    recipe = _recipe(args, keys, target)
    if source is None and profile_path is None and not (searched or recipe.needs_no_ranges):
        raise UsageError(
            "give --data DIR|NPZ or --profile P.json, one of them; none is needed for "
            "--weights-only, --block, --dynamic and weights that are in blocks only"
        )
    level = args.text("numerics")
    if path.suffix == ".onnx" and level != "exact":
        _check_rounding(target)
    numerics = None if level is None else api.check_numerics(level)
    model = load_model(args, args.positional[0])
    profile = None
    if profile_path is not None:
        profile = load_profile(Path(profile_path))
    form = "qoperator" if args.text("form") == "qoperator" else "qdq"
    work = Quantization(
        model,
        recipe,
        target,
        numerics,
        data=None if source is None else Path(source),
        profile=profile,
        profile_path=None if profile_path is None else Path(profile_path),
        another_model=args.switch("profile-of-another-model"),
        engine=cast("EngineName | None", args.text("engine")),
        whole_files=args.switch("whole-files"),
        require_all=args.switch("require-all"),
        search=(args.text("calibration") or "auto") == "auto",
        seconds=_seconds(args, request) if _races(path, target) else 0.0,
        form=form,
        by_prices=args.has("prices"),
        or_float=args.switch("allow-float"),
        effort=effort,
        effort_seconds=seconds,
        state=None if (state := args.text("state")) is None else Path(state),
        workers=args.text("workers"),
        request=request,
        estimate=args.text("losses") == "estimated",
        watch=partial(progress, label="running the float model"),
    )
    try:
        result = work.run(sensitive)
    except Interrupted:
        say("interrupted; nothing was written")
        return interrupted()
    measured = measure(model, result.model, work.judged_samples(), target, form, result.raced)
    if not args.switch("allow-dead"):
        measured.refuse_dead()
    if not args.switch("best-effort") and measured.samples is not None:
        first, in_runtime = measured.samples.inputs[0], target.name == "onnxruntime"
        measured.refuse_lossy(
            _least_db(request), lambda: costliest(model, result.model, first, in_runtime)
        )
    inline = args.switch("inline-weights")
    written = measured.written if path.suffix == ".onnx" else None
    load = loader(path, model.source)
    save_or_copy(result.model, path, form=form, inline_weights=inline, written=written, load=load)
    measured.weigh(model.source, path)
    if folder is not None and result.answer is not None:
        write_front(folder, result.answer, form, inline=inline, source=model.source)
    if args.has("remarks"):
        remarks_output([result.model.ctx], args.text("remarks"))
    if page is not None:
        from qdialect.workflows.report import comparison_page

        samples = work.some_samples()
        answer, raced = result.answer, result.raced
        steps = step_rows(result.steps) if result.steps else ()
        front = front_points(answer, raced.chosen.name) if answer and raced else ()
        text = comparison_page(
            model, result.model, target, samples, result.profile, measured, front, steps
        )
        save_text(page, text)
    warnings = work.unfit_data()
    if args.switch("json"):
        write_json({**_as_json(result, measured, path), "warnings": warnings})
    elif not args.switch("quiet"):
        sys.stderr.write(_summary(result, sensitive))
        sys.stderr.write(measured_text(measured))
        for warning in warnings:
            say(warning, "warning")
        say(f"{args.positional[0]} -> {path}")
    return OK


def _request(args: Arguments) -> Request | None:
    """What is asked for besides speed."""
    texts, name, front = args.texts("budget"), args.text("metric"), args.text("front")
    budgets = [parse_budget(text) for text in texts]
    if name is None and any(budget.what == "metric" for budget in budgets):
        raise UsageError("a budget of the metric takes one: --metric", code="bad-budget")
    if not budgets and name is None and front is None:
        return None
    if args.text("data") is None:
        raise UsageError("--metric, --budget and --front take --data", code="missing-data")
    return Request(budgets, name, front is not None, args.switch("best-effort"))


def _least_db(request: Request | None) -> float:
    """What each part of the outputs has to keep, in dB: what a budget asks; `LEAST` where none is
    of accuracy."""
    budgets: Sequence[Budget] = () if request is None else request.budgets
    exact = [budget for budget in budgets if budget.what != "latency"]
    asked = exact or [parse_budget(LEAST)]
    return max((budget.limit for budget in asked if budget.what == "sqnr"), default=-math.inf)


def _seconds(args: Arguments, request: Request | None) -> float:
    """How long candidates are timed. What is asked for takes time, whatever the environment says
    of races that nobody asked for."""
    text = args.text("time")
    seconds = race_seconds(text)
    return SECONDS if request is not None and text is None and not seconds else seconds


def _effort(args: Arguments) -> tuple[int, float | None]:
    """The level of effort, and for how many seconds (None: the usual ones); UsageError."""
    level, text = int(args.text("effort") or "0"), args.text("effort-time")
    if level and args.text("data") is None:
        raise UsageError("--effort takes --data", code="missing-data")
    if text is None:
        return level, None
    if not level:
        raise UsageError("--effort-time takes --effort 1 or 2")
    found = _TIME.match(text)
    if found is None:
        raise UsageError(f"--effort-time takes a time (90s, 5m, 1h), not '{text}'")
    return level, float(found[1]) * _SECONDS[found[2]]


def _front_folder(text: str | None) -> Path | None:
    """The folder that is written to; UsageError for one that has a file's name."""
    if text is None:
        return None
    if Path(text).exists() and not Path(text).is_dir():
        raise UsageError(f"--front takes a folder, and '{text}' is a file")
    return Path(text)


def _races(path: Path, target: Target) -> bool:
    if path.suffix != ".onnx" or target.name != "onnxruntime":
        return False
    from qdialect.plugins.onnx.write.kernels import installed_runtime

    return installed_runtime() is not None


def _check_rounding(target: Target) -> None:
    """Say at once what writing would say in the end."""
    rounding = target.rounding(Rounding.HALF_EVEN)
    if rounding is not Rounding.HALF_EVEN:
        raise UsageError(
            f"'{target.name}' rounds {rounding.value}, and ONNX half even: write .mlir, or round "
            "as ONNX does with --numerics exact"
        )


def _float_ops(args: Arguments) -> tuple[frozenset[str], int]:
    """The keys to leave float, and how many more by sensitivity."""
    keys: set[str] = set()
    sensitive = 0
    for text in args.texts("keep-float"):
        name, equals, number = text.partition("=")
        if name == "auto" and equals:
            if not number.isdecimal() or not int(number):
                raise UsageError(f"--keep-float=auto=N takes a number above 0, not '{number}'")
            sensitive = int(number)
        else:
            keys.update(key for key in text.split(",") if key)
    return frozenset(keys), sensitive


def _recipe(args: Arguments, keys: frozenset[str], target: Target) -> Recipe:
    if args.switch("per-tensor") and args.switch("per-channel"):
        raise UsageError("--per-tensor and --per-channel exclude each other")
    usual = Recipe.of_target(target)
    try:
        return Recipe(
            activations=args.text("activations") or usual.activations,
            weights=_weights(args, target),
            scheme=cast("Symmetry", args.text("scheme") or "asymmetric"),
            per_channel=not args.switch("per-tensor"),
            calibration=_method(args),
            percentile=_number(args, "percentile", 99.99),
            max_steps=_number(args, "max-steps", usual.max_steps),
            correct_bias=not args.switch("no-bias-correction"),
            block=_block(args, target),
            scale_type=args.text("scale-type") or "f32",
            tables=args.text("tables") or "i8",
            dynamic=_names(args, "dynamic"),
            weights_only=_names(args, "weights-only"),
            caches=args.switch("caches"),
            lower=usual.lower or args.switch("lower"),
            keep_float=keys,
        )
    except ValueError as error:
        raise UsageError(str(error)) from None


def _names(args: Arguments, flag: str) -> frozenset[str]:
    return frozenset(name for name in (args.text(flag) or "").split(",") if name)


def _block(args: Arguments, target: Target) -> int:
    text = args.text("block")
    if text is None:
        return 0
    if not text.isdecimal() or int(text) < 2:
        raise UsageError(f"--block takes a number above 1, not '{text}'")
    if not (target.floats and target.per_block):
        raise UsageError(f"--block: '{target.name}' has no products of weights in blocks")
    return int(text)


def _weights(args: Arguments, target: Target) -> str:
    name = args.text("weights") or "i8"
    if name not in ONLY_IN_BLOCKS:
        return name
    if reason := format_refusal(name, target):
        raise UsageError(f"--weights {name}: {reason}")
    return name


def _method(args: Arguments) -> Method:
    """How to choose ranges; by `auto` without data, the whole ranges."""
    text = args.text("calibration") or "auto"
    return cast("Method", "minmax" if text == "auto" else text)


def _number(args: Arguments, name: str, default: float) -> float:
    value = args.number(name, default)
    if not value > 0 or (name == "percentile" and value > 100):
        raise UsageError(f"--{name} is out of range: {args.text(name)}")
    return value


def _as_json(result: Quantized, measured: Measured, path: Path) -> dict[str, Any]:
    """The summary as plain data."""
    coverage, matching = result.coverage, result.matching
    return {
        "version": 1,
        "output": str(path),
        "float_ops": coverage.total,
        "quantized": dict(coverage.quantized),
        "left_float": [asdict(left) for left in coverage.left],
        "stale": list(coverage.stale),
        "profile_matches": None if matching is None else len(matching.profile.entries),
        "profile_unmatched": [asdict(each) for each in matching.unmatched] if matching else [],
        "trials": [
            {
                "calibration": trial.recipe.calibration,
                "percentile": trial.recipe.percentile,
                "unseen": trial.recipe.unseen,
                "weight_ranges": trial.recipe.weight_ranges,
                "correct_bias": trial.recipe.correct_bias,
                "sqnr_db": trial.sqnr,
            }
            for trial in result.trials
        ],
        "sensitivity": [{**asdict(entry), "sqnr_db": entry.sqnr} for entry in result.ranking],
        "effort": [step.as_json() for step in result.steps],
        "candidates": None if result.raced is None else result.raced.as_json(),
        "asked": None if result.answer is None else result.answer.as_json(),
        "measured": measured.as_json(),
        "caches": [cache.as_json() for cache in result.caches()],
    }


def _summary(result: Quantized, sensitive: int) -> str:
    matched = [] if result.matching is None else result.matching.summary()
    text = "".join(map(line, (*matched, *result.coverage.summary())))
    if caches := result.caches():
        rows = [("cache", "returned as", "type", "scale", "zero point")]
        for cache in caches:
            grid = cache.qparams
            texts = grid.storage.spelling, f"{grid.scale:.9g}", str(grid.zero_point)
            rows.append((cache.input, cache.output, *texts))
        text += table(rows, {3: True, 4: True})
    if result.trials:
        rows = [("ranges of values", "of weights", "biases", "score")]
        for trial in result.trials:
            name = trial.recipe.calibration
            if name == "percentile":
                name += f" {trial.recipe.percentile:g}"
            name += "" if trial.recipe.unseen else ", no head room"
            biases = "corrected" if trial.recipe.correct_bias else "as they are"
            rows.append((name, trial.recipe.weight_ranges, biases, f"{trial.sqnr:.1f} dB"))
        text += f"{table(rows, {3: True})}the first was used: no other is better beyond doubt\n"
    if result.steps:
        text += table(step_rows(result.steps), {1: True, 3: True})
    if result.raced is not None:
        text += _race_summary(result.raced, result.answer)
    text += result.unraced
    if result.ranking:
        rows = [("quantized alone", "SQNR")]
        rows += [(entry.key, f"{entry.sqnr:.1f} dB") for entry in result.ranking[: sensitive + 5]]
        text += table(rows, {1: True})
    return text


_WHY = "* is written: noise counts as if it took time, and a plan by times has to win clearly"


def _race_summary(raced: Raced, answer: Answer | None) -> str:
    heading = ("candidate", "time", "of float", "worst part", "executed nodes")
    more = () if answer is None else ("metric", "front") if answer.takes else ("front",)
    rows: list[tuple[str, ...]] = [(*heading, *more)]
    for name, lap in raced.race.laps.items():
        mark = " *" if name == raced.chosen.name else ""
        rows.append(
            (
                name + mark,
                f"{lap.milliseconds:.3g} ms",
                f"{lap.ratio:.2f}",
                "" if name == FLOAT else db_text(raced.tried[name].quality.worst_db),
                str(raced.tried[name].executed.nodes),
                *_asked_cells(name, answer),
            )
        )
    said = "" if answer is not None else line(_WHY)
    if answer is not None and answer.takes:
        said += line(f"the metric takes {answer.takes}")
    if answer is not None and answer.unmet:
        said += line(f"nothing meets {', '.join(answer.unmet)}: the nearest was taken")
    notes = "".join(map(line, raced.notes))
    right: dict[int, bool] = dict.fromkeys(range(1, 5), True)
    right[5] = answer is not None and answer.takes is not None
    return table(rows, right) + said + notes


def _asked_cells(name: str, answer: Answer | None) -> tuple[str, ...]:
    if answer is None:
        return ()
    metric = answer.outcomes[name].metric
    front = "yes" if name in answer.front else ""
    return (front,) if metric is None else (f"{metric:.4g}", front)


# What was measured of a quantized model, as a table on a terminal.

MOST_PARTS = 12
"""So many parts of outputs are shown."""


def measured_text(found: Measured) -> str:
    """Latency, size and nodes beside those of the float model, and the loss of each part."""
    text = ""
    if rows := found.rows():
        text += table(rows, dict.fromkeys((1, 2, 3), True), stream=sys.stderr, heading=True)
    if found.quality is not None:
        text += line(f"loss in {found.where}, on {found.samples}")
        right: dict[int, bool] = dict.fromkeys(range(1, 5), True)
        text += table(found.quality.rows(MOST_PARTS), right, stream=sys.stderr, heading=True)
        left_out = len(found.quality.parts) - MOST_PARTS
        if left_out > 0:
            text += f"and {left_out} parts of outputs that lose less; --json has all\n"
    if found.problem:
        text += line(f"not measured: {found.problem}")
    return text

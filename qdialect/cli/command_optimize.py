"""`qopt optimize`."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from qdialect import api
from qdialect.api import Model
from qdialect.cli.candidates import FLOAT, INPUT, Candidate, Choice, Selection, unrounded
from qdialect.cli.files import load_arrays, load_model, remarks_output, report_output, writable
from qdialect.cli.flags import Arguments, write_json
from qdialect.cli.instrumentation import Progress
from qdialect.cli.judge import Judge
from qdialect.cli.optimization import EVERYTHING, Dropped, Optimization, Optimized
from qdialect.cli.race import SECONDS, cheapest_form
from qdialect.cli.reproducer import Reproducer, numerics_check
from qdialect.cli.terminal import OK, WRONG_INPUT, crash_report, table
from qdialect.context import QContext
from qdialect.errors import InputError, QError, UsageError, Where, culprit, foreign_frame
from qdialect.passes.pipelines import BY_PRICE, optimize_pipeline
from qdialect.pipeline.manager import Instrumentation
from qdialect.targets.base import Target
from qdialect.targets.installed import get_target
from qdialect.targets.price_table import read_prices

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    Arrays = Mapping[str, NDArray[Any]]

T = TypeVar("T")

FEWER = "qdq, fewer rewrites"
SAMPLES = 2
"""On how many random inputs the result is compared, unless said: one of numbers anywhere,
one with many at boundaries."""
_THEIRS = ("bad-plugin", "numerics", "bad-input", "bad-float")
"""Errors that are the caller's to mend."""
RACE = "QOPT_RACE"
"""The environment variable that says how long to race where `--race` does not."""
_SECONDS = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(ms|s)?$")


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
        return _Run(args, source, output).run()
    from qdialect.cli.optimize_folder import Folder

    get_target(args.text("target") or "onnxruntime")
    return Folder(args, source, Path(output)).run()


def race_seconds(text: str | None) -> float:
    """`3s`, `500ms` or `3` (seconds); the environment or the default where nothing is said."""
    text = text if text is not None else os.environ.get(RACE) or str(SECONDS)
    found = _SECONDS.match(text)
    if found is None:
        raise UsageError(f"--race takes a time (3s, 500ms; 0: no race), not '{text}'")
    return float(found[1]) / (1000 if found[2] == "ms" else 1)


@dataclass
class _Run:
    """One model: what is done, what was found out, and what is said of it."""

    args: Arguments
    source: Path
    output: str
    notes: list[str] = field(default_factory=list[str])
    #: what was left out, and why; with `--strict` anything here makes the exit code 1
    dropped: list[Dropped] = field(default_factory=list[Dropped])
    times: list[tuple[str, float]] = field(default_factory=list[tuple[str, float]])
    reproducers: list[Reproducer] = field(default_factory=list[Reproducer])

    def __post_init__(self) -> None:
        args = self.args
        self.path = writable(self.output, (".onnx", ".mlir", ".qmod"))
        self.is_onnx = self.path.suffix == ".onnx"
        self.target = self._target()
        self.page = report_output(args.text("report"))
        self.numerics = api.check_numerics(args.text("numerics") or "exact")
        self.seconds = race_seconds(args.text("race"))
        self.samples = args.integer("check", SAMPLES)
        wanted = args.text("form")
        self.form: api.Form | None = "qoperator" if wanted == "qoperator" else "qdq"
        if wanted in (None, "auto"):
            self.form = None
        self.float_file = None if args.text("float") is None else Path(str(args.text("float")))
        if self.float_file is not None and not self.is_onnx:
            raise UsageError("--float is for an .onnx result")

    def _target(self) -> Target:
        target = get_target(self.args.text("target") or "onnxruntime")
        if (prices := self.args.text("prices")) is not None:
            target = target.with_prices(read_prices(Path(prices), target.name))
        return target

    @cached_property
    def given(self) -> Arrays | None:
        inputs = self.args.text("input")
        return None if inputs is None else load_arrays(inputs)

    def run(self) -> int:
        pipeline = self.args.text("pass-pipeline")
        if pipeline is None:
            pipeline = optimize_pipeline(self.target, self.numerics)
        began = time.perf_counter()
        model = self._load()
        began = self._took("import", began)
        result = choice = judge = None
        if model is not None:
            work = Optimization(model, pipeline, self.target, self._watchers)
            judge = Judge(model, self.samples, self.given)
            result = self._or_original(lambda: work.checked(judge, self.is_onnx, self.samples))
            self.dropped += work.dropped
            written = [str(one.written) for one in self.reproducers if one.written is not None]
            self.notes += [f"what crashed is shown again by {name}" for name in written[:1]]
            began = self._took("passes and check", began)
        if model is not None and result is not None and judge is not None:
            forms = self._forms(result.model)
            results: dict[str, Optimized] = {str(form): result for form in forms}
            if self._races and self.times[-1][1] < self.seconds:
                self._add_fewer(results, model, pipeline, judge)
            choice = self._or_original(lambda: self._choice(results, judge))
            if any(one.what == EVERYTHING for one in self.dropped):
                result = None
            elif choice is not None:
                result = results.get(choice.chosen.name, result)
            began = self._took("candidates", began)
        self._write(model, result, choice)
        self._took("export", began)
        self._say(model, result, choice)
        return WRONG_INPUT if self.dropped and self.args.switch("strict") else OK

    def _took(self, name: str, began: float) -> float:
        now = time.perf_counter()
        self.times.append((name, now - began))
        return now

    # -- the result -------------------------------------------------------------------

    def _load(self) -> Model | None:
        """The model; None where we cannot read what the runtime runs."""
        try:
            return load_model(self.args, str(self.source))
        except UsageError:
            raise
        except Exception as error:
            if isinstance(error, QError) and error.code == "too-large":
                raise  # for the runtime, too
            if foreign_frame(error) is not None or not self._can_keep(error):
                raise
            self._drop("the whole model, which could not be read", error)
            return None

    def _can_keep(self, error: Exception) -> bool:
        """Whether the original can be the result: a model that the runtime loads, where the
        failure is ours, and one that it runs, where we say that the model is wrong."""
        from qdialect.formats.onnx.write.engine import loads, runs
        from qdialect.formats.onnx.write.kernels import installed_runtime

        is_model = self.is_onnx and self.source.suffix == ".onnx"
        if not is_model or installed_runtime() is None:
            return False
        ours = not isinstance(error, InputError)
        return loads(self.source) if ours else runs(self.source, self.given)

    def _drop(self, what: str, error: Exception) -> None:
        if isinstance(error, QError):
            place = f"{Where(node=error.where.node)}: " if error.where and error.where.node else ""
            why = f"{place}{error.message}"
        else:
            details = crash_report(error)
            why = f"{culprit(error)} (a defect of qdialect; details are in {details})"
        self.dropped.append(Dropped(what, why))

    def _watchers(self, ctx: QContext) -> Sequence[Instrumentation]:
        self.reproducers.append(Reproducer(ctx, None, verify_each=True))
        watchers: list[Instrumentation] = [self.reproducers[-1], Progress()]
        if self.args.given("verify-numerics"):
            watchers.append(numerics_check(self.args))
        return watchers

    def _or_original(self, work: Callable[[], T]) -> T | None:
        """What `work` gives; None where it fails on a model that the runtime runs, so that the
        original is what can be written."""
        try:
            return work()
        except Exception as error:
            code = error.code if isinstance(error, QError) else ""
            if isinstance(error, UsageError) or code in _THEIRS:
                raise
            if foreign_frame(error) is not None or not self._can_keep(error):
                raise
            self._drop(EVERYTHING, error)
            return None

    @property
    def _races(self) -> bool:
        """Whether the fastest file is looked for, not only the form that was asked for."""
        return self.seconds > 0 and self.form is None and self.target.name == "onnxruntime"

    def _add_fewer(
        self, results: dict[str, Optimized], model: Model, pipeline: str, judge: Judge
    ) -> None:
        """What comes of the pipeline without passes that only prices speak for."""
        work = Optimization(model, pipeline, self.target, self._watchers, without=BY_PRICE)
        fewer = self._or_original(lambda: work.checked(judge, self.is_onnx, self.samples))
        first = next(iter(results.values()))
        if fewer is not None and str(fewer.model) != str(first.model):
            results[FEWER] = fewer

    def _choice(self, results: Mapping[str, Optimized], judge: Judge) -> Choice | None:
        """Which file to write, by what the runtime makes of each; None where no runtime is
        asked: the form is chosen by prices."""
        from qdialect.formats.onnx.write import write_model
        from qdialect.formats.onnx.write.kernels import installed_runtime

        if not self.is_onnx or installed_runtime() is None or not (self.samples or self._races):
            return None
        same = judge.same_interface(next(iter(results.values())).model)
        samples = judge.executed_samples() if same else []
        source = self.source if same and self.source.suffix == ".onnx" else None
        compared = source is not None and bool(samples) and self.float_file is None
        floats = unrounded(self.source, samples) if compared else None
        selection = Selection(source, samples, floats, self.notes)
        if self.float_file is not None:
            selection.add_float(self.float_file)
        names = list(results) if self._races else list(results)[:1]
        for name in names:
            result = results[name]
            form: api.Form = "qoperator" if name == "qoperator" else "qdq"
            written = result.written if form == "qdq" else None
            if written is None:
                written = write_model(result.model.module, result.model.ctx, form=form)
            selection.add(name, written, form)
        inputs = samples[0][0] if samples else None
        seconds = self.seconds if self._races or self.float_file is not None else 0.0
        return selection.choose(names, seconds, inputs)

    def _forms(self, model: Model) -> list[api.Form]:
        """The forms that may be written, what is likely cheaper first.  Integer kernels round
        ties in another way than the casts and floats of the input, so not at `exact`."""
        if self.form is not None:
            return [self.form]
        if self.numerics == "exact" or self.target.name != "onnxruntime":
            return ["qdq"]
        first = cheapest_form(model.module, self.target)
        return [first, "qoperator" if first == "qdq" else "qdq"]

    def _write(self, model: Model | None, result: Optimized | None, choice: Choice | None) -> None:
        from qdialect.formats.onnx.write import copy_model, keeps_weights_beside, save_model

        inline = self.args.switch("inline-weights")
        if result is None:
            if self.is_onnx and self.source.suffix == ".onnx":
                copy_model(self.source, self.path)
            else:
                assert model is not None
                api.save(model, self.path)
        else:
            form = self._forms(result.model)[0]
            made = result.written if form == "qdq" else None
            if choice is not None:
                made = choice.chosen.model
            if made is None:
                api.save(result.model, self.path, form=form, inline_weights=inline)
            elif isinstance(made, Path):
                copy_model(made, self.path)
            else:
                beside = keeps_weights_beside(result.model.module) and not inline
                save_model(made, self.path, weights_beside=beside)

    # -- what is said -----------------------------------------------------------------

    def _say(self, model: Model | None, result: Optimized | None, choice: Choice | None) -> None:
        args = self.args
        if args.given("remarks") and result is not None:
            remarks_output([result.model.ctx], args.text("remarks"))
        if self.page is not None and model is not None and result is not None:
            from qdialect.cli.reporting import write_comparison

            given = [] if self.given is None else [self.given]
            write_comparison(self.page, model, result.model, self.target, given)
        if args.switch("json"):
            write_json(self._as_json(model, result, choice))
        elif not args.switch("quiet"):
            sys.stderr.write(self._summary(model, result, choice))
        elif self.dropped:
            sys.stderr.write("".join(f"{one}\n" for one in self.dropped))
        if args.switch("timing"):
            shown = [(name, f"{seconds:.3f} s") for name, seconds in self.times]
            sys.stderr.write(table(shown, {1: True}))

    def _as_json(
        self, model: Model | None, result: Optimized | None, choice: Choice | None
    ) -> dict[str, Any]:
        """The summary as plain data; `form` is null where the original was written."""
        counts = [] if model is None or result is None else _counts(model, result.model)
        form: str | None = None
        if result is not None:
            form = choice.chosen.form if choice else self._forms(result.model)[0]
        made: dict[str, Any] = {
            "version": 2,
            "output": str(self.path),
            "form": form if self.is_onnx else None,
            "before": {label: first for label, first, _ in counts},
            "after": {label: second for label, _, second in counts},
            "dropped": [{"what": one.what, "why": one.why} for one in self.dropped],
            "notes": [*self._checked(result), *self.notes],
        }
        if result is not None:
            log = result.model.ctx.remarks
            made |= {
                "fired": log.fired(),
                "refused": log.refused(),
                "outputs": [bound.as_json() for bound in log.outputs],
            }
        if choice is not None:
            made["executed"] = {c.name: c.executed.as_json() for c in choice.candidates}
            made["written"] = choice.chosen.name
            made["race"] = {name: lap.as_json() for name, lap in choice.race.laps.items()}
        return made

    def _summary(self, model: Model | None, result: Optimized | None, choice: Choice | None) -> str:
        lines = [f"{self.source} -> {self.path}\n"]
        if choice is not None:
            lines += self._executed(choice)
        if model is not None and result is not None:
            if choice is None or self.args.switch("details"):
                rows = [("", "before", "after")]
                rows += [(label, str(x), str(y)) for label, x, y in _counts(model, result.model)]
                lines.append(table(rows, {1: True, 2: True}, stream=sys.stderr, heading=True))
            log = result.model.ctx.remarks
            fired, refused = sum(log.fired().values()), sum(log.refused().values())
            more = "" if not refused else f"; qopt explain {self.source} tells why"
            lines.append(f"{fired} rewrites fired, {refused} were refused{more}\n")
        lines += [f"{line}\n" for line in self._checked(result)]
        lines += [f"{line}\n" for line in (*self.dropped, *self.notes)]
        if result is None:
            lines.append("the original is what was written\n")
        return "".join(lines)

    def _checked(self, result: Optimized | None) -> list[str]:
        return [] if result is None or not self.samples else [str(result.checked)]

    def _executed(self, choice: Choice) -> list[str]:
        """What the runtime runs of the input and of what is written, and how long it takes."""
        columns = [c for c in (choice.named(INPUT), choice.chosen) if c is not None]
        if choice.chosen.name == INPUT:
            columns = columns[:1]
        rows = [("what ONNX Runtime executes", *(_title(c) for c in columns))]
        rows.append(("nodes", *(str(c.executed.nodes) for c in columns)))
        rows.append(("  with a float result", *(str(c.executed.float_nodes) for c in columns)))
        rows.append(("  quantize, dequantize", *(str(c.executed.casts) for c in columns)))
        laps = choice.race.laps
        if laps:
            rows.append(("ms a run", *(f"{laps[c.name].milliseconds:.3g}" for c in columns)))
        right = dict.fromkeys(range(1, len(columns) + 1), True)
        lines = [table(rows, right, stream=sys.stderr, heading=True)]
        if choice.chosen.executed.floats:
            lines.append(f"float nodes that are left: {choice.chosen.executed.kinds()}\n")
        if laps:
            lines.append(f"{choice.race}\n")
        if choice.chosen.name == FLOAT:
            lines.append("the float model is faster than what integers make: it is written\n")
        elif choice.chosen.name == INPUT:
            why = "nothing is faster than" if len(laps) > 1 else "nothing may take the place of"
            lines.append(f"{why} the input, so that is what is written\n")
        return lines


def _title(candidate: Candidate) -> str:
    return "input" if candidate.name == INPUT else f"written ({candidate.name})"


def _counts(before: Model, after: Model) -> list[tuple[str, int, int]]:
    pairs = zip(api.inspect(before).counts, api.inspect(after).counts, strict=True)
    return [(label, first, second) for (label, first), (_, second) in pairs]

"""Optimizing a model file: `qopt optimize` without its printing.

The result is never worse than the original. A rewrite that fails is left out; where we cannot
read a model that ONNX Runtime runs, or no file that we make may take its place, the original is
what is written, and `dropped` says why. In another format its translation is written then, without
rewrites, if that gives what the original gives; else nothing is.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from qdialect.algebra.contract import EXACT, level_named
from qdialect.errors import (
    InputError,
    QError,
    UnsupportedError,
    UsageError,
    Where,
    crash_report,
    culprit,
    foreign_frame,
)
from qdialect.ir.ops.base import kernels_of
from qdialect.passes.casts.divide_by_scale import ReciprocalToQuotient, multiplies
from qdialect.passes.pipelines import BY_PRICE, optimize_pipeline
from qdialect.plugins.onnx.passes.release_kernels import contract
from qdialect.plugins.tflite.files import (
    KERNELS,
    WrittenTflite,
    checked_kernels,
    litert_installed,
    name_kernels,
    refused_by_litert,
    said,
    save_tflite,
)
from qdialect.plugins.tflite.files import SUFFIXES as TFLITE
from qdialect.plugins.tflite.target_requirements import refusal
from qdialect.quantizer.regrid import Regrid
from qdialect.rewrite.remarks import key_text
from qdialect.workflows.check import Judge
from qdialect.workflows.loadable import NOT_LOADED, loader
from qdialect.workflows.model import Model, copy_file, load, run_passes, save
from qdialect.workflows.optimize import EVERYTHING, Dropped, Optimization, Optimized
from qdialect.workflows.race import FLOAT, INPUT, Choice, Selection, cheapest_form, unrounded
from qdialect.workflows.tabulate import with_tables
from qdialect.workflows.taken import AS_KERNELS_RUN, taken_of
from qdialect.workflows.target_report import refused_ops
from qdialect.workflows.written import form_of, write_as

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qdialect.plugins.onnx.write.written import Written
    from qdialect.plugins.tflite.dialect import TfliteNodeOp
    from qdialect.targets.base import Target
    from qdialect.workflows.model import Form
    from qdialect.workflows.optimize import Watchers
    from qdialect.workflows.written import FileForm

    Arrays = Mapping[str, NDArray[Any]]

T = TypeVar("T")

FEWER = "qdq, fewer rewrites"
"""The candidate without the passes that only prices speak for."""
FEWER_IN_LITERT = "tflite, fewer rewrites"
"""The same of a TFLite file."""
KEPT = "qdq, roundings kept"
"""The candidate of the level below `relaxed`, which drops no rounding or clip of the model."""
SOME_ON_FLOATS = "qdq, some ops on floats"
"""The candidate with ops on floats that are faster so, at `relaxed`."""
_MOST_OPS = 2000
"""Models of more ops have no candidate with fewer rewrites: that takes the passes again."""
_PATIENCE = 5
"""Nor have those for which these and the check took so many times as long as the race does."""
_SHOWN = 8
"""Of the ops that have no form in ONNX, or that a target refuses for one reason."""
_USER_ERRORS = ("bad-plugin", "numerics", "bad-input", "bad-float")
"""Codes of errors that the user has to mend, so that the original does not stand in."""


def _drops(result: Optimized) -> bool:
    """Whether an output depends on a rounding or a clip that is gone."""
    return any(bound.contract == "relaxed" for bound in result.model.ctx.remarks.outputs)


@dataclass
class FileOptimization:
    """One model file and how to optimize it; `run` fills the fields below `result`."""

    source: Path
    path: Path
    target: Target
    numerics: str | None = None
    """The weakest contract that may fire; None: `exact`, but that quantizes that multiply by a
    reciprocal divide where the target does, which is `ties`."""
    pipeline: str | None = None
    """Passes in place of the usual ones."""
    form: Form | None = None
    """How an ONNX result writes quantized ops; None: what costs less."""
    samples: int = 0
    """On how many random inputs the result is compared with the original."""
    inputs: Arrays | None = None
    """What it is compared on instead, and where ranges come from that the model does not state."""
    seconds: float = 0.0
    """How long candidates race; 0: prices choose."""
    float_file: Path | None = None
    """The float model, which takes part in the race."""
    inline_weights: bool = False
    keep_refused: bool = False
    """Whether a result is written that a target without floats does not run."""
    dims: Mapping[str, int] = field(default_factory=dict[str, int])
    typical_dims: Mapping[str, int] = field(default_factory=dict[str, int])
    kernels: str | None = None
    """Whose arithmetic a TFLite or Circle file has that is read or written."""
    watchers: Watchers = lambda ctx: ()

    #: the model as it was read; None where we cannot read it
    model: Model | None = None
    #: the model that was written; None where the original was
    result: Optimized | None = None
    #: which file was written; None where no runtime was asked
    choice: Choice | None = None
    notes: list[str] = field(default_factory=list[str])
    #: what was left out, and why
    dropped: list[Dropped] = field(default_factory=list[Dropped])
    #: what took how many seconds
    times: list[tuple[str, float]] = field(default_factory=list[tuple[str, float]])

    @property
    def is_onnx(self) -> bool:
        """Whether the result is an ONNX model."""
        return self.path.suffix == ".onnx"

    @property
    def is_tflite(self) -> bool:
        """Whether the result is a TFLite or Circle file."""
        return self.path.suffix in TFLITE

    @property
    def written_form(self) -> FileForm | None:
        """How the result that is judged is written; None: MLIR."""
        return form_of(self.path)

    @property
    def level(self) -> str:
        """The weakest contract that rewrites may have but those of reciprocals."""
        return self.numerics or "exact"

    def run(self) -> None:
        """Read, optimize, check, choose and write."""
        began = time.perf_counter()
        self.model = model = self._load()
        began = self._took("import", began)
        if model is not None:
            self._refuse_source(model)
            self.notes += model.corrections
            model.ctx.samples = () if self.inputs is None else (self.inputs,)
            pipeline = self.pipeline
            if pipeline is None:
                pipeline = optimize_pipeline(self.target, self.level, self.numerics or "ties")
            if self._leaves_litert:
                model = with_tables(model)
                self._refuse_kernels(model)
                pipeline = f"release-kernels{{numerics={self.numerics or 'bounded'}}},{pipeline}"
            work = Optimization(model, pipeline, self.target, self.watchers)
            judge = Judge(model, self.samples, self.inputs)
            result = self._or_original(lambda: work.checked(judge, self.written_form))
            self.dropped += work.dropped
            began = self._took("passes and check", began)
            if result is not None:
                self._choose(model, result, pipeline, judge)
                if self.result is not None and not self.is_tflite:
                    self.notes += reciprocals(self.result.model)
                    self.notes += quantized_again(self.result.model)
                began = self._took("candidates", began)
            if self.result is None and not self._may_copy:
                self.result, self.choice = self._translated(model, judge), None
        self._refuse_target()
        try:
            self._write()
        except InputError as error:
            if error.code != NOT_LOADED or self.result is None or not self._may_copy:
                raise
            self._drop(EVERYTHING, error)
            self.result = self.choice = None
            self._write()
        self._took("export", began)

    @property
    def _leaves_litert(self) -> bool:
        return self.source.suffix in TFLITE and self.is_onnx

    def _refuse_source(self, model: Model) -> None:
        """InputError for an op of a TFLite file that LiteRT refuses: the model runs nowhere."""
        kernels = checked_kernels(self.kernels)
        for op in model.module.walk() if self.source.suffix in TFLITE else ():
            reason = refusal(op, kernels)
            if reason is None:
                continue
            others = [name for name in KERNELS if refusal(op, name) is None]
            raise InputError(
                f"LiteRT ({kernels}) refuses {cast('TfliteNodeOp', op).op.data}: {reason}",
                where=Where(str(self.source), node=key_text(op)),
                code="refused-by-litert",
                notes=tuple(f"--kernels {name} takes it" for name in others),
            )

    def _refuse_target(self) -> None:
        """UnsupportedError for ops that a target without floats refuses: nothing runs them."""
        target, model = self.target, self.result.model if self.result else self.model
        if target.floats or model is None or self.keep_refused:
            return
        if self.result is None:
            model = run_passes(model, AS_KERNELS_RUN, target=target, verify_each=False)
        left = refused_ops(model.module, model.ctx)
        if left:
            alike: dict[tuple[str, str], list[str]] = {}
            for op, reason in left.items():
                alike.setdefault((op.name, reason), []).append(key_text(op))
            notes = [
                f"'{name}' ({', '.join(keys[:_SHOWN])}"
                f"{f' and {len(keys) - _SHOWN} more' if len(keys) > _SHOWN else ''}): {reason}"
                for (name, reason), keys in alike.items()
            ]
            notes += map(str, self.dropped)
            if self.dropped and self.inputs is None:
                notes.append("--input compares on data of yours, and no random inputs")
            if self.level != "relaxed":
                notes.append("--numerics relaxed lets the model be quantized again for the target")
            raise UnsupportedError(
                f"'{target.name}' has no floats, and refuses {len(left)} ops of the result "
                "(--keep-refused writes it nevertheless)",
                code="refused-by-target",
                notes=tuple(notes),
            )

    def _refuse_kernels(self, model: Model) -> None:
        """UnsupportedError where ops have no form in ONNX under the level that was asked for."""
        level = level_named(self.numerics or "bounded")
        left: dict[str, str] = {}
        for op in model.module.walk():
            if kernels_of(op) is not None and (found := contract(op)).level > level:
                left.setdefault(f"'{op.name}' ({key_text(op)})", f"would be {found}: {found.note}")
        if left:
            raise UnsupportedError(
                f"{len(left)} ops have no form in ONNX that gives the codes of LiteRT's kernels "
                f"at {level}; --numerics bounded lets them round as ONNX does",
                code="kernels",
                notes=tuple(f"{op}: {why}" for op, why in list(left.items())[:_SHOWN]),
            )

    @property
    def is_ours(self) -> bool:
        """Whether what was written is a result of the passes, not the input or the float model."""
        if self.result is None:
            return False
        return self.choice is None or self.choice.chosen.name not in (INPUT, FLOAT)

    def form_written(self) -> Form | None:
        """The form of the ONNX model that was written; None where the original was, or MLIR."""
        if self.result is None or not self.is_onnx:
            return None
        return self.choice.chosen.form if self.choice else self._forms(self.result.model)[0]

    def _took(self, name: str, began: float) -> float:
        now = time.perf_counter()
        self.times.append((name, now - began))
        return now

    # -- failures ---------------------------------------------------------------------

    def _load(self) -> Model | None:
        """The model; None where we cannot read what the runtime runs."""
        kernels = checked_kernels(self.kernels)
        try:
            model = load(
                self.source, dims=self.dims, typical_dims=self.typical_dims, kernels=kernels
            )
            if self.is_tflite:
                name_kernels(model.module, kernels)
            if self.is_tflite or self.source.suffix in TFLITE:
                file = self.source if self.source.suffix in TFLITE else self.path
                self.notes.append(f"{file.name} is {said(kernels)}")
            return model
        except UsageError:
            raise
        except Exception as error:
            if isinstance(error, QError) and error.code == "too-large":
                raise  # for the runtime, too
            if foreign_frame(error) is not None or not self._can_keep(error):
                raise self._untranslated(error) from None
            self._drop("the whole model, which could not be read", error)
            return None

    @property
    def _may_copy(self) -> bool:
        means = self.model is None or self.model.source is not None
        return means and self.source.suffix == self.path.suffix in (".onnx", *TFLITE)

    def _can_keep(self, error: Exception) -> bool:
        """Whether the original can be the result: a model that the runtime loads, where the
        failure is ours, and one that it runs, where we say that the model is wrong. One that is
        not copied is translated, if it was read."""
        from qdialect.plugins.onnx.write.engine import loads, runs
        from qdialect.plugins.onnx.write.kernels import installed_runtime

        if not self._may_copy:
            return self.model is not None
        if self.is_tflite:
            return self._can_copy_tflite(error)
        if installed_runtime() is None:
            return False
        ours = not isinstance(error, InputError)
        return loads(self.source) if ours else runs(self.source, self.inputs)

    def _can_copy_tflite(self, error: Exception) -> bool:
        """The same of a TFLite or Circle file: LiteRT loads it, or the failure is ours where that
        cannot be asked."""
        if self.source.suffix == ".circle" or not litert_installed():
            return not isinstance(error, InputError)
        return refused_by_litert(self.source, checked_kernels(self.kernels)) is None

    def _drop(self, what: str, error: Exception) -> None:
        if isinstance(error, QError):
            place = f"{Where(node=error.where.node)}: " if error.where and error.where.node else ""
            why = f"{place}{error.message}"
        else:
            why = _defect(error)
        self.dropped.append(Dropped(what, why))

    def _or_original(self, work: Callable[[], T]) -> T | None:
        """What `work` gives; None where it fails on a model that the runtime runs, so that the
        original is what can be written."""
        try:
            return work()
        except Exception as error:
            code = error.code if isinstance(error, QError) else ""
            if isinstance(error, UsageError) or code in _USER_ERRORS:
                raise
            if foreign_frame(error) is not None or not self._can_keep(error):
                raise
            self._drop(EVERYTHING, error)
            return None

    def _translated(self, model: Model, judge: Judge) -> Optimized:
        """The model in the format of the result, without rewrites; QError where it has no form
        there, or gives something else than the source file."""
        passes = ""
        if self._leaves_litert:
            passes = f"release-kernels{{numerics={self.numerics or 'bounded'}}}"
        try:
            after = run_passes(model, passes, target=self.target, verify_each=False)
            written = None if self.written_form is None else write_as(after, self.written_form)
            return Optimized(after, written, judge.sound(after, written, self.written_form))
        except Exception as error:
            raise self._untranslated(error) from None

    def _untranslated(self, error: Exception) -> Exception:
        """The error of a model that cannot be written in another format: of a defect of ours the
        one line that says so, where the model in its own format would be copied."""
        if self._may_copy or isinstance(error, QError) or foreign_frame(error) is not None:
            return error
        return QError(
            f"cannot be written as {self.path.suffix}: {_defect(error)}",
            where=Where(str(self.source)),
            code="not-translated",
        )

    # -- which file -------------------------------------------------------------------

    def _choose(self, model: Model, first: Optimized, pipeline: str, judge: Judge) -> None:
        """Set `choice` and `result`, of all forms, of the pipeline without passes that only prices
        speak for, and of what `relaxed` allows besides."""
        results: dict[str, Optimized] = {str(form): first for form in self._forms(first.model)}
        if self.is_tflite:
            results = {TFLITE[self.path.suffix]: first}
        is_small = sum(1 for _ in model.module.walk()) <= _MOST_OPS
        if self._races and is_small and self.times[-1][1] < _PATIENCE * self.seconds:
            work = Optimization(model, pipeline, self.target, self.watchers, without=BY_PRICE)
            fewer = self._or_original(lambda: work.checked(judge, self.written_form))
            if fewer is not None and str(fewer.model) != str(first.model):
                results[FEWER_IN_LITERT if self.is_tflite else FEWER] = fewer
        if self._may_keep(first):
            lower = optimize_pipeline(self.target, "bounded")
            less = Optimization(model, lower, self.target, self.watchers)
            kept = self._or_original(lambda: less.checked(judge, self.written_form))
            if kept is not None:
                results[KEPT] = kept
        if self._races and self.level == "relaxed" and not self.is_tflite:
            mixed = self._or_original(lambda: self._some_on_floats(model, first, pipeline, judge))
            if mixed is not None:
                results[SOME_ON_FLOATS] = mixed
        self.choice = self._or_original(lambda: self._choice(results, judge))
        if any(one.what == EVERYTHING for one in self.dropped):
            return
        self.result = first
        if self.choice is not None:
            self.result = results.get(self.choice.chosen.name, first)
            chosen = self.choice.chosen
            if chosen.form == "qoperator" and not isinstance(chosen.model, Path):
                checked = judge.check(first.model, chosen.model, chosen.form)
                self.result = replace(first, checked=checked)

    def _some_on_floats(
        self, model: Model, first: Optimized, pipeline: str, judge: Judge
    ) -> Optimized | None:
        """The result with those ops on floats that are faster so, checked against the model with
        them on floats; None where there are none."""
        from qdialect.workflows.ops_on_floats import with_ops_on_floats

        samples = self._samples(judge) if judge.same_interface(first.model) else []
        if not samples:
            return None
        try:
            found = with_ops_on_floats(
                model, first.model, self.target, samples[0][0], self.seconds / 2
            )
        except InputError as error:
            self.notes.append(f"{SOME_ON_FLOATS} is no candidate: {error.message}")
            return None
        if found is None:
            return None
        self.notes.append(f"{found.count} of {found.of} quantized ops are faster on floats")
        work = Optimization(found.model, pipeline, self.target, self.watchers)
        return work.checked(Judge(found.model, self.samples, self.inputs), self.written_form)

    def _samples(self, judge: Judge) -> list[tuple[Arrays, list[NDArray[Any]]]]:
        """What candidates run on: in the ranges of the model, where its clips may be gone."""
        return judge.executed_samples(in_range=self.level in ("saturation", "relaxed"))

    def _may_keep(self, first: Optimized) -> bool:
        """Whether the level below `relaxed` may give what is written instead: what drops clips may
        be further from the float model than the input."""
        usual = self.pipeline is None and self.form != "qoperator"
        is_run = self.is_onnx and self.target.name == "onnxruntime"
        return self.level == "relaxed" and usual and is_run and _drops(first)

    @property
    def _races(self) -> bool:
        """Whether the fastest file is looked for, not only the form that was asked for."""
        if self.is_tflite:
            return self.seconds > 0 and litert_installed() and self.path.suffix == ".tflite"
        return self.seconds > 0 and self.form is None and self.target.name == "onnxruntime"

    def _choice(self, results: Mapping[str, Optimized], judge: Judge) -> Choice | None:
        """Which file to write, by what the runtime makes of each; None where no runtime is
        asked: the form is chosen by prices."""
        from qdialect.plugins.onnx.write import write_model
        from qdialect.plugins.onnx.write.kernels import installed_runtime

        if self.is_tflite:
            return self._choice_in_litert(results, judge)
        if not self.is_onnx or installed_runtime() is None or not (self.samples or self._races):
            return None
        same = judge.same_interface(next(iter(results.values())).model)
        samples = self._samples(judge) if same else []
        judge.release()
        source = self._executable() if same and self.source.suffix == ".onnx" else None
        compared = source is not None and bool(samples) and self.float_file is None
        floats = unrounded(source, samples) if compared and source is not None else None
        selection = Selection(source, samples, floats, self.inputs is not None, self.notes)
        if self.float_file is not None:
            selection.add_float(self.float_file)
        names = list(results)
        if not self._races:
            names = [name for name in names if name in (names[0], KEPT)]
        for name in names:
            result = results[name]
            form: Form = "qoperator" if name == "qoperator" else "qdq"
            written = result.written if form == "qdq" else None
            assert not isinstance(written, WrittenTflite)
            if written is None:
                written = write_model(result.model.module, result.model.ctx, form=form)
            selection.add(name, written, form)
        inputs = samples[0][0] if samples else None
        seconds = self.seconds if self._races or self.float_file is not None else 0.0
        return selection.choose(names, seconds, inputs)

    def _choice_in_litert(self, results: Mapping[str, Optimized], judge: Judge) -> Choice | None:
        """The same of TFLite files; InputError where LiteRT loads none that could be written."""
        from qdialect.interpreter import argument_names
        from qdialect.plugins.onnx.write.kernels import installed_runtime
        from qdialect.plugins.tflite.race import LitertSelection

        if not litert_installed():
            return None
        kernels = checked_kernels(self.kernels)
        selection = LitertSelection(kernels, argument_names(judge.function), self.notes)
        same = judge.same_interface(next(iter(results.values())).model)
        if self.source.suffix == ".tflite" and same:
            selection.add_input(self.source)
        elif self.source.suffix == ".onnx" and same and self._races and installed_runtime():
            selection.add_onnx(self.source)
        for name, result in results.items():
            if isinstance(result.written, WrittenTflite):
                selection.add(name, result.written)
        inputs = judge.drawn() if self._races and same else None
        choice = selection.choose(self.seconds if self._races else 0.0, inputs)
        if choice is None:
            raise UnsupportedError(
                f"LiteRT loads nothing that could be written: {'; '.join(self.notes[-2:])}"
            )
        return choice

    def _executable(self) -> Written | Path:
        """The input: its file, or what it says in ops that the runtime has."""
        from qdialect.plugins.onnx.write import write_model

        model = self.model
        if model is None or model.source is not None:
            return self.source
        return write_model(model.module, model.ctx)

    def _forms(self, model: Model) -> list[Form]:
        """The forms that may be written, what is likely cheaper first.  Integer kernels round
        ties in another way than the casts and floats of the input, so not at `exact`."""
        if self.form is not None or self.is_tflite:
            return [self.form or "qdq"]
        if self.level == "exact" or self.target.name != "onnxruntime":
            return ["qdq"]
        first = cheapest_form(model.module, self.target)
        return [first, "qoperator" if first == "qdq" else "qdq"]

    def _write(self) -> None:
        load = loader(self.path, self.source, kernels=self.kernels, notes=self.notes)
        form: Form = "qdq"
        if self.result is None:
            file = self.source
        elif self.choice is not None:
            file = self.choice.chosen.model
        else:
            form = self._forms(self.result.model)[0]
            file = self.result.written if form == "qdq" else None
        if isinstance(file, Path):
            copy_file(file, self.path, load)
        elif isinstance(file, WrittenTflite):
            save_tflite(file, self.path, load)
        else:
            assert self.result is not None
            save(
                self.result.model,
                self.path,
                form=form,
                inline_weights=self.inline_weights,
                written=file,
                load=load,
            )


def _defect(error: Exception) -> str:
    """An error of ours in one line, and where all of it is."""
    return f"{culprit(error)} (a defect of qdialect; details are in {crash_report(error)})"


def quantized_again(model: Model) -> list[str]:
    """How much the target runs of a model that was quantized again for it."""
    if not model.ctx.remarks.fired().get(Regrid.name):
        return []
    target = model.ctx.target
    taken = taken_of(model.module, model.ctx, target)
    text = f"quantized again for '{target.name}', which runs {taken.taken} of {taken.total} ops"
    return [f"{text} on codes"]


def reciprocals(model: Model) -> list[str]:
    """What became of quantizes that multiply by reciprocals, in an optimized model."""
    kept = sum(multiplies(op) for op in model.module.walk())
    divided = sum(
        r.rule == ReciprocalToQuotient.name and r.kind == "fired" and r.contract != str(EXACT)
        for r in model.ctx.remarks.remarks
    )
    notes: list[str] = []
    if divided:
        notes.append(
            f"{divided} quantizes divide by their scales, as kernels do, where the model "
            "multiplies by rounded reciprocals: codes next to ties may be the other one "
            "(--numerics exact keeps the products)"
        )
    if kept:
        notes.append(
            f"{kept} quantizes multiply by rounded reciprocals, as the model does and integer "
            "kernels do not (--numerics ties lets them divide)"
        )
    return notes

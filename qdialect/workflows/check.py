"""Compares an optimized model with the original, before it is written.

Both run on the same inputs, and each output must be as close as the rewrites that fired
say (`rewrite.summary`): the same bits where all were exact, at most so many steps where
they add up to that.  Where no bound is stated that says anything, as at the end of a deep
network, the noise that the difference is must be small beside the output (`LEAST_DB`).

What is judged is what is written.  Where all rewrites are exact and ONNX Runtime is installed,
it runs the original file and the result, both with its optimizations off: that is what the
nodes of a file mean.  A QOperator result, and a TFLite file of a model that was none, is judged
by the casts and float ops that its integer kernels stand for, since these round ties in another
way; how far the kernels are off is said.
Bounds of weaker rewrites are stated for exact arithmetic, so those the interpreter judges.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import inf, isfinite
from time import monotonic
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import AnyFloat, ModuleOp

from qdialect.analysis.cost import elements
from qdialect.context import QContext
from qdialect.errors import InputError, QError, Where
from qdialect.ops import ConstantOp
from qdialect.ops.locations import op_where
from qdialect.passes.casts.fold_interface import ROUNDING
from qdialect.quant import element_type, quant_element
from qdialect.reference import Difference, argument_names, output_names
from qdialect.reference.compare import compare
from qdialect.rewrite.kernel_marks import release_products
from qdialect.validation.divergence import Divergence, OutOfTime, first_divergence, interpreter
from qdialect.validation.translation import converted
from qdialect.workflows.in_litert import InLitert
from qdialect.workflows.inputs import draw, suitable
from qdialect.workflows.model import Model
from qdialect.workflows.tflite_files import WrittenTflite, kernels_named, litert_installed
from qdialect.workflows.written import read_again, write_as

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from xdsl.dialects.func import FuncOp

    from qdialect.formats.onnx.write import OrtEngine
    from qdialect.formats.onnx.write.written import Written
    from qdialect.rewrite.remarks import OutputBound
    from qdialect.workflows.written import FileForm

    Array = NDArray[Any]
    Arrays = Mapping[str, Array]
    Run = Callable[[Arrays], list[Array]]

MOST = 1 << 28
"""Elements of a value that are computed for a check."""
SECONDS = 20.0
"""After so long no further sample is begun."""
EXECUTED_SECONDS, EXECUTED_MOST, EXECUTED_ENOUGH = 0.5, 16, 4096
"""How long, how many samples and until how many numbers results are observed as executed."""
LEAST_DB = 10.0
"""Where no bound judges: the difference has at most a tenth of the power of the output.  Rewrites
that move single steps leave 20 to 50 dB in networks of any depth, as integer kernels do; a wrong
scale, zero point or channel leaves less than 5."""

FLOATS_DB = 100.0
"""What differs less is the same floats, summed in another order: a step of a code leaves less than
50 dB."""

_CLIPPING = ("saturation", "relaxed")
"""Classes of rewrites that may drop a clip."""
_USELESS = 1e9
"""A bound that is larger says nothing of a quantized model."""
_SLACK = 1 + 2.0**-20
"""Bounds are sums of floats."""
_DEFECT = "this is a defect of a pass or a plug-in"
_CLIPS = "check on inputs of the task, or ask for a level that keeps roundings and clips (bounded)"
IN_RUNTIME = "in ONNX Runtime with its optimizations off"
IN_REFERENCE = "in the reference interpreter"

_EQUAL = Difference(0.0, 0.0, 0.0, inf, None)
_OTHER = Difference(inf, inf, 1.0, -inf, ())

_REALS = (
    "compared in exact arithmetic, as contracts are stated: the original rounds floats on its way, "
    "so that as it runs a few codes fall on the other side of a tie"
)


@dataclass(frozen=True)
class OutputCheck:
    """One output: what its rewrites allow (a distance in steps, or in real units if
    `real`; infinite: no bound), and the largest difference that was seen."""

    name: str
    contract: str
    allowed: float
    real: bool
    found: Difference
    number: bool = True
    """Not an index or a condition."""
    is_float: bool = False
    """Not codes: a distance is in real units, never in steps."""
    least_db: float = LEAST_DB
    """What the difference must leave where no bound judges."""

    @property
    def distance(self) -> float:
        """The largest difference, in the unit of `allowed`."""
        return self.found.max_abs if self.real else self.found.max_steps

    @property
    def may_clip(self) -> bool:
        """Whether values that were clipped, or that now are, may be any distance off."""
        return self.contract in _CLIPPING

    @property
    def bounded(self) -> bool:
        """Whether a bound judges, not the power of the difference."""
        return self.allowed < _USELESS

    @property
    def holds(self) -> bool:
        """Whether the output is as close to the original as its rewrites allow."""
        if self.found.is_equal or not (self.bounded or self.number):
            return True
        if self.bounded:
            return self.distance <= self.allowed * _SLACK
        # A step is no defect where an output is hardly more than that.
        single = not self.real and self.distance <= 1
        return single or self.found.sqnr_db >= self.least_db

    def __str__(self) -> str:
        floats = self.real or self.is_float
        apart = self.found.max_abs if floats else self.found.max_steps
        unit = f" ({self.found.sqnr_db:.1f} dB)" if floats else " codes" if self.number else ""
        text = f"output '{self.name}' differs by up to {apart:.4g}{unit} "
        text += f"in {self.found.share_differing:.2%} of its elements"
        if self.bounded:
            allowed = (
                f"{self.allowed:.4g}{'' if self.real else ' steps'}" if self.allowed else "none"
            )
            return f"{text}; its rewrites ({self.contract}) allow {allowed}"
        kind = "useful " if isfinite(self.allowed) else ""
        if not self.number:
            return f"{text}; its rewrites ({self.contract}) state no {kind}bound, not judged"
        if self.may_clip and not self.holds:
            return (
                f"{text}; its rewrites ({self.contract}) state no {kind}bound: they drop clips "
                "that these inputs reach"
            )
        return (
            f"{text}; its rewrites ({self.contract}) state no {kind}bound, so it is judged by the "
            f"power of the difference: {self.found.sqnr_db:.1f} dB, at least {self.least_db:g} "
            "wanted"
        )


@dataclass(frozen=True)
class Checked:
    """What was compared; `reason` says why not all that was wanted, `wrong` which output is
    outside its contract, `failure` why the result does not run where the original does."""

    requested: int
    samples: int
    how: str
    outputs: Sequence[OutputCheck] = ()
    seconds: float = 0.0
    reason: str = ""
    notes: Sequence[str] = ()
    wrong: OutputCheck | None = None
    failure: QError | None = None

    def __str__(self) -> str:
        if not self.samples:
            return f"not checked: {self.reason}"
        of = f" of {self.requested}" if self.samples < self.requested else ""
        inputs = f"{self.samples}{of} {self.how}"
        same = sum(output.found.is_equal for output in self.outputs)
        lines = [
            f"compared with the original on {inputs}: {same} of {len(self.outputs)} outputs have "
            f"the same bits ({self.seconds:.1f} s{'; ' + self.reason if self.reason else ''})"
        ]
        lines += [str(output) for output in self.outputs if not output.found.is_equal]
        return "\n  ".join([*lines, *self.notes])


def check_optimized(
    before: Model,
    after: Model,
    samples: int,
    *,
    inputs: Arrays | None = None,
    form: FileForm | None = "qdq",
    seconds: float = SECONDS,
) -> Checked:
    """Compare on `samples` random inputs, or on `inputs`; `form` is that of the file that would
    be written (None: MLIR).

    InputError (`outside-contract`) where the optimized model is further off than its
    rewrites allow, or does not run where the original does.
    """
    judge = Judge(before, samples, inputs, seconds)
    written = None if form is None else write_as(after, form)
    checked = judge.check(after, written, form)
    if checked.failure is not None:
        raise checked.failure
    if checked.wrong is not None:
        raise judge.refusal(after, written, checked.wrong)
    return checked


@dataclass
class Judge:
    """Compares results with `before` on `requested` random inputs, or on `inputs`; what the
    original answers is computed once."""

    before: Model
    requested: int
    inputs: Arrays | None = None
    seconds: float = SECONDS
    #: inputs on which a result was wrong
    failing: Arrays | None = None
    _answers: dict[tuple[str, int], tuple[Arrays, list[Array]]] = field(
        default_factory=dict[tuple[str, int], "tuple[Arrays, list[Array]]"]
    )
    _options: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])

    def __post_init__(self) -> None:
        if self.inputs is not None:
            self.requested = 1

    @cached_property
    def function(self) -> FuncOp:
        """What runs; InputError where a module has several functions and none is the main one."""
        return self.before.function()

    @cached_property
    def original(self) -> OrtEngine:
        """The original file (or the model as it would be written) in the runtime, as it is."""
        from qdialect.formats.onnx.write import OrtEngine, write_model

        source: Any = self.before.source
        if source is None or source.suffix != ".onnx":
            source = write_model(self.before.module, self.before.ctx).whole()
        return OrtEngine(source, optimize=False)

    @property
    def is_from_litert(self) -> bool:
        """Whether the original is a file that LiteRT runs."""
        return self.before.source is not None and self.before.source.suffix == ".tflite"

    @cached_property
    def original_in_litert(self) -> InLitert:
        """The original file in LiteRT, by the kernels that it is read for."""
        assert self.before.source is not None
        return InLitert.of_file(self.before.source, kernels_named(self.before.module))

    def check(
        self, after: Model, written: Written | WrittenTflite | None, form: FileForm | None
    ) -> Checked:
        """What was compared, and what was wrong; `written` is what `after` is in `form`, None
        for MLIR text."""
        large = _too_large(self.before) or _too_large(after)
        if large is not None:
            return Checked(self.requested, 0, "", reason=large)
        try:
            comparison = Comparison(self, after, written, form)
        except QError as error:  # several functions, none of which is the main one
            return Checked(self.requested, 0, "", reason=error.message)
        return comparison.run()

    def is_wrong(self, ctx: QContext, module: ModuleOp, form: FileForm | None) -> bool:
        """Whether a module somewhere on the way is wrong on the inputs on which the result
        was, or does not run; one that cannot be written is not called so."""
        from qdialect.rewrite.summary import summarize

        ctx.remarks.outputs = summarize(ctx, module)
        again = Judge(self.before, self.requested, self.failing or self.inputs, self.seconds)
        for name in ("function", "original", "original_in_litert"):
            if name in self.__dict__:
                again.__dict__[name] = self.__dict__[name]
        try:
            written = None if form is None else write_as(Model(module, ctx), form)
        except QError:
            return False
        checked = again.check(Model(module, ctx), written, form)
        return checked.wrong is not None or checked.failure is not None

    def sample(
        self, how: str, number: int, reference: Run, *, in_range: bool = False
    ) -> tuple[Arrays, list[Array]]:
        """One input and what the original answers; `in_range`: none with values at boundaries,
        which are far beyond the ranges that values are quantized in."""
        index = 2 * number if in_range else number
        key = how, index
        if key not in self._answers:
            inputs = self.inputs
            if inputs is None:
                options = self.options(how, reference)
                inputs = draw(self.function, index, **options)
            self._answers[key] = inputs, reference(inputs)
        return self._answers[key]

    def options(self, how: str, reference: Run) -> dict[str, Any]:
        """How to draw inputs that the original gets through."""
        if how not in self._options:
            self._options[how] = suitable(self.function, reference)
        return self._options[how]

    def drawn(self) -> Arrays | None:
        """Inputs that the original is timed on; None where they cannot be drawn."""
        if self.inputs is not None:
            return self.inputs
        known = [inputs for inputs, _ in self._answers.values()]
        if known:
            return known[0]
        try:
            return draw(self.function, 0)
        except QError:
            return None

    def executed_samples(self, *, in_range: bool = False) -> list[tuple[Arrays, list[Array]]]:
        """Inputs (see `sample`), and what the original file answers in ONNX Runtime as it is
        written; none where it does not run.  More than those it is compared on, until they are
        enough to tell noise from chance or `EXECUTED_SECONDS` are over."""
        if _too_large(self.before) is not None:
            return []
        found: list[tuple[Arrays, list[Array]]] = []
        until = monotonic() + EXECUTED_SECONDS

        def answers(inputs: Arrays) -> list[Array]:
            if self.is_from_litert:
                return self.original_in_litert.run(inputs, argument_names(self.function))
            return list(self.original.run(inputs).values())

        if self.is_from_litert and not litert_installed():
            return []

        try:
            while len(found) < max(self.requested, 1) or (
                self.inputs is None
                and monotonic() < until
                and len(found) < EXECUTED_MOST
                and sum(getattr(y, "size", 0) for _, ys in found for y in ys) < EXECUTED_ENOUGH
            ):
                found.append(self.sample(IN_RUNTIME, len(found), answers, in_range=in_range))
        except QError:
            return found
        return found

    def same_interface(self, after: Model) -> bool:
        """Whether both take and give the same types."""
        return self.function.function_type == after.function().function_type

    def where(self, node: str | None = None) -> Where:
        """The original file, and a node in it."""
        source = self.before.source
        return Where(file=None if source is None else str(source), node=node)

    def refusal(
        self, after: Model, written: Written | WrittenTflite | None, wrong: OutputCheck
    ) -> InputError:
        """The error that says which output is wrong, and where that begins."""
        assert self.failing is not None
        form: FileForm | None = None if written is None else "qdq"
        if isinstance(written, WrittenTflite):
            form = written.file.kind
        comparison = Comparison(self, after, written, form)
        found = first_divergence(
            (self.before.ctx, self.before.module),
            comparison.meaning,
            (self.failing, comparison.converted_inputs(self.failing)),
            until=monotonic() + self.seconds,
        )
        unclear = wrong.may_clip and not wrong.bounded
        what = "far from the original" if unclear else "outside its contract"
        return InputError(
            f"the optimized model is {what}: {wrong}",
            where=self.where(None if found is None else found.key),
            code="outside-contract",
            notes=(_first(found), _CLIPS if unclear else _DEFECT),
        )


def _too_large(model: Model) -> str | None:
    """Which value is too large to be computed just for a check."""
    for op in model.module.walk():
        for value in () if isinstance(op, ConstantOp) else op.results:
            if (count := elements(value)) > MOST:
                return f"{op_where(op) or op.name} gives {count:.3g} elements"
    return None


def _first(found: Divergence | None) -> str:
    if found is None:
        return "no value that both models have differs in the reference interpreter"
    return (
        f"the first value that differs is that of '{found.key}', by up to "
        f"{found.difference.max_abs:.4g} ({found.difference.sqnr_db:.1f} dB)"
    )


class _Refused(Exception):
    """The result does not run where the original does."""

    def __init__(self, error: QError) -> None:
        super().__init__(error.message)
        self.error = error


@dataclass
class Comparison:
    """One result against the original."""

    judge: Judge
    after: Model
    written: Written | WrittenTflite | None
    form: FileForm | None
    notes: list[str] = field(default_factory=list[str])

    def __post_init__(self) -> None:
        self.began = monotonic()
        self.until = self.began + self.judge.seconds
        self.before = self.judge.before
        self.first = self.judge.function
        self.second = self.after.function()
        bounds = self.after.ctx.remarks.outputs
        function = self.second.sym_name.data
        self.bounds: dict[int, OutputBound] = {
            bound.result: bound for bound in bounds if bound.function == function
        }

    # -- the models as they run -----------------------------------------------------------

    @cached_property
    def meaning(self) -> tuple[QContext, ModuleOp]:
        """The module that is judged: what was written, read again."""
        if self.written is None:
            return self.after.ctx, self.after.module
        ctx, module = read_again(self.written, self.after.ctx)
        if self.sums_otherwise:
            release_products(module)
        return ctx, module

    @property
    def sums_otherwise(self) -> bool:
        """Whether the file is for a runtime whose float kernels take sums in another order than
        that of the original, so that of a deep network no bound says anything."""
        return isinstance(self.written, WrittenTflite) and not self.judge.is_from_litert

    @property
    def leaves_litert(self) -> bool:
        """Whether a file of LiteRT becomes one of another runtime, whose floats are summed in
        another order."""
        return self.judge.is_from_litert and not isinstance(self.written, WrittenTflite)

    @property
    def exact(self) -> bool:
        """Whether all rewrites that fired are exact."""
        return all(bound.contract == "exact" for bound in self.bounds.values())

    @property
    def drops_clips(self) -> bool:
        """Whether some rewrite that fired may drop a clip."""
        return any(bound.contract in _CLIPPING for bound in self.bounds.values())

    def engines(self) -> list[tuple[str, Callable[[], tuple[Run, Run]]]]:
        """What may judge, the preferred first."""
        from qdialect.formats.onnx.write.kernels import installed_runtime

        reference = (IN_REFERENCE, self.interpreted)
        fits = self.exact and self.written is not None and self.judge.same_interface(self.after)
        if isinstance(self.written, WrittenTflite):
            if not fits or not self.judge.is_from_litert or not litert_installed():
                return [reference]
            kernels = kernels_named(self.before.module)
            return [(f"in LiteRT ({kernels})", self.in_litert), reference]
        if not fits or installed_runtime() is None:
            return [reference]
        if self.judge.is_from_litert:
            if not litert_installed():
                return [reference]
            how = "in LiteRT, the result in ONNX Runtime with its optimizations off"
            return [(how, self.in_both_runtimes), reference]
        return [(IN_RUNTIME, self.in_runtime), reference]

    def interpreted(self) -> tuple[Run, Run]:
        """Both models in the reference interpreter; results have the types of the original."""
        reference = interpreter(self.before.ctx, self.before.module, until=self.until)
        other = interpreter(*self.meaning, until=self.until)
        old, new = self.first.function_type, self.second.function_type
        gives = list(zip(old.outputs.data, new.outputs.data, strict=True))

        def run(inputs: Arrays) -> list[Array]:
            results = other.run(self.converted_inputs(inputs))
            ctx = self.after.ctx
            return [converted(ctx, y, b, a) for y, (a, b) in zip(results, gives, strict=True)]

        return reference.run, run

    def converted_inputs(self, inputs: Arrays) -> dict[str, Array]:
        """Inputs of the original as those of the optimized model, which may take codes."""
        notes = self.second.arg_attrs or [None] * len(inputs)
        old, new = self.first.function_type.inputs, self.second.function_type.inputs
        pairs = zip(old.data, new.data, strict=True)
        names = zip(argument_names(self.first), argument_names(self.second), strict=True)
        return {
            other: converted(
                self.after.ctx,
                inputs[name],
                *types,
                rounding=note.data.get(ROUNDING) if note else None,
            )
            for (name, other), types, note in zip(names, pairs, notes, strict=True)
        }

    def in_runtime(self) -> tuple[Run, Run]:
        """Both models in ONNX Runtime with its optimizations off."""
        original = self.judge.original

        def reference(inputs: Arrays) -> list[Array]:
            for name in inputs:
                if name not in original.inputs:
                    known = ", ".join(original.inputs)
                    raise InputError(f"no input '{name}' (inputs: {known})", code="bad-input")
            return list(original.run(inputs).values())

        return reference, self.written_in_runtime()

    def written_in_runtime(self) -> Run:
        """What was written, in ONNX Runtime with its optimizations off."""
        from qdialect.formats.onnx.write import OrtEngine, write_model

        assert self.written is not None and not isinstance(self.written, WrittenTflite)
        judged = self.written
        if self.form != "qdq":
            judged = write_model(self.after.module, self.after.ctx)
        try:
            engine = OrtEngine(judged.whole(), optimize=False)
        except QError as error:
            raise _Refused(self.refused(error)) from None
        return lambda x: list(engine.run(x).values())

    def in_both_runtimes(self) -> tuple[Run, Run]:
        """The original in LiteRT, the result in ONNX Runtime as it is written."""
        original, names = self.judge.original_in_litert, argument_names(self.first)
        return lambda x: original.run(x, names), self.written_in_runtime()

    def in_litert(self) -> tuple[Run, Run]:
        """Both files in LiteRT, by the kernels that the original is read for."""
        assert isinstance(self.written, WrittenTflite)
        original, names = self.judge.original_in_litert, argument_names(self.first)
        try:
            engine = InLitert.of_written(self.written, self.second)
        except QError as error:
            raise _Refused(self.refused(error)) from None
        return lambda x: original.run(x, names), lambda x: engine.run(x, names)

    # -- running ----------------------------------------------------------------------------

    def run(self) -> Checked:
        """Compare in the first engine in which the original runs."""
        reasons: list[str] = []
        for how, build in self.engines():
            try:
                reference, other = build()
                if self.judge.inputs is None:
                    self.judge.options(how, reference)
            except OutOfTime:
                reasons.append(f"one run takes more than {self.judge.seconds:g} s {how}")
            except _Refused as refused:
                return self.failed(refused.error)
            except QError as error:
                reasons.append(error.message)
            else:
                self.notes += [f"not compared in another engine: {reason}" for reason in reasons]
                return self.compare(how, reference, other)
        hint = "" if self.judge.inputs is not None else "; --input gives inputs to check on"
        why = f"the original does not run on these inputs ({reasons[0]}){hint}"
        return Checked(self.judge.requested, 0, "", reason=why)

    def results(self, other: Run, inputs: Arrays) -> list[Array]:
        """The outputs of the optimized model; _Refused where it does not run."""
        try:
            return other(inputs)
        except QError as error:
            raise _Refused(self.refused(error)) from None

    def failed(self, error: QError) -> Checked:
        """The result of a check where the optimized model does not run."""
        return Checked(self.judge.requested, 0, "", failure=error)

    def compare(self, how: str, reference: Run, other: Run) -> Checked:
        """Compare on each sample until time is up; `how` names the engine."""
        worst = [_EQUAL] * len(output_names(self.first))
        done, reason = 0, ""
        requested = self.judge.requested
        wrong: OutputCheck | None = None
        for seed in range(requested):
            try:
                inputs, expected = self.judge.sample(
                    how, seed, reference, in_range=self.drops_clips
                )
                got = self.results(other, inputs)
            except OutOfTime:
                break
            except _Refused as refused:
                return self.failed(refused.error)
            except QError as error:
                if error.code == "bad-input":
                    raise
                reason = f"the original does not run on input {seed + 1}: {error.message}"
                break
            if done == 0:
                self.try_kernels(inputs, expected)
                try:
                    self.try_litert(how, inputs, expected)
                except _Refused as refused:
                    return self.failed(refused.error)
            found = self.differences(expected, got)
            wrong = next((output for output in self.judged(found) if not output.holds), None)
            if wrong is not None and not self.excused(reference, inputs, expected):
                allowed = None if how == IN_RUNTIME else self.in_reals(inputs)
                if allowed is None:
                    self.judge.failing = inputs
                    return Checked(requested, done, how, self.judged(found), wrong=wrong)
                found = allowed
            worst = [max(x, y, key=_size) for x, y in zip(worst, found, strict=True)]
            done += 1
            if monotonic() > self.until:
                break
        if done < requested and not reason:
            reason = f"time is up after {self.judge.seconds:g} s"
        kind = "given" if self.judge.inputs is not None else "random"
        what = f"{kind} input{'s' if requested > 1 else ''} {how}"
        spent = monotonic() - self.began
        return Checked(requested, done, what, self.judged(worst), spent, reason, self.notes)

    def try_kernels(self, inputs: Arrays, expected: Sequence[Array]) -> None:
        """Run the integer kernels themselves, if those are what is written."""
        from qdialect.formats.onnx.write import OrtEngine
        from qdialect.formats.onnx.write.kernels import installed_runtime

        if (
            self.form != "qoperator"
            or installed_runtime() is None
            or not self.judge.same_interface(self.after)
        ):
            return
        assert self.written is not None and not isinstance(self.written, WrittenTflite)
        try:
            got = list(OrtEngine(self.written.whole(), optimize=False).run(inputs).values())
        except QError:
            return  # said where the result is run as it is written
        found = self.differences(expected, got)
        if any(not difference.is_equal for difference in found):
            share = max(difference.share_differing for difference in found)
            least = min(difference.sqnr_db for difference in found)
            self.notes.append(
                "judged by the casts and float ops that its integer kernels stand for; as the "
                f"kernels round, up to {share:.2%} of an output's elements differ from the "
                f"original ({least:.1f} dB)"
            )

    def try_litert(self, how: str, inputs: Arrays, expected: Sequence[Array]) -> None:
        """Run a TFLite file in LiteRT, where only the interpreter judges it; _Refused where LiteRT
        does not run it."""
        if not isinstance(self.written, WrittenTflite) or how != IN_REFERENCE:
            return
        if not litert_installed() or not self.judge.same_interface(self.after):
            return
        try:
            engine = InLitert.of_written(self.written, self.second)
            got = engine.run(inputs, argument_names(self.first))
        except QError as error:
            raise _Refused(self.refused(error)) from None
        found = self.differences(expected, got)
        far = [one for one in found if one.max_steps > 1 and one.sqnr_db < LEAST_DB]
        if far:
            raise _Refused(
                InputError(
                    f"in LiteRT an output is at {far[0].sqnr_db:.1f} dB from the original",
                    where=self.judge.where(),
                    code="outside-contract",
                )
            )
        same = sum(difference.is_equal for difference in found)
        text = f"in LiteRT ({self.written.kernels}) {same} of {len(found)} outputs have the bits "
        text += "that the interpreter gives for the original"
        if same < len(found):
            text += f"; {_apart(found)}{self.by_default(inputs, expected)}"
        self.notes.append(text)

    def by_default(self, inputs: Arrays, expected: Sequence[Array]) -> str:
        """How far ONNX Runtime, as it executes the original by default, is from what the original
        says; nothing where it does not run it."""
        from qdialect.formats.onnx.write import OrtEngine
        from qdialect.formats.onnx.write.kernels import installed_runtime

        source = self.before.source
        if source is None or source.suffix != ".onnx" or installed_runtime() is None:
            return ""
        try:
            got = list(OrtEngine(source, optimize=True).run(inputs).values())
        except QError:
            return ""
        return f" (of ONNX Runtime by default: {_apart(self.differences(expected, got))})"

    def differences(self, expected: Sequence[Array], got: Sequence[Array]) -> list[Difference]:
        """How far each output is off: steps of its codes, and real units."""
        pairs = enumerate(zip(expected, got, strict=True))
        return [self.difference(index, a, b) for index, (a, b) in pairs]

    def difference(self, index: int, a: Array, b: Array) -> Difference:
        """How far output `index` is off; strings and the like are equal or not."""
        import numpy as np

        kind = self.first.function_type.outputs.data[index]
        if not hasattr(a, "dtype") or a.dtype.kind not in "fiub":
            return _EQUAL if bool(np.array_equal(a, b)) else _OTHER
        return _OTHER if a.shape != b.shape else compare(a, b, kind)

    def judged(self, worst: Sequence[Difference]) -> list[OutputCheck]:
        """The largest difference of each output, beside what its rewrites allow."""
        outputs: list[OutputCheck] = []
        for index, (name, found) in enumerate(zip(output_names(self.first), worst, strict=True)):
            bound = self.bounds.get(index)
            contract = bound.contract if bound is not None else "exact"
            real = bound is not None and not isfinite(bound.steps)
            allowed = 0.0 if bound is None else bound.real if real else bound.steps
            least = LEAST_DB
            if self.sums_otherwise:
                contract, allowed = ("ties" if contract == "exact" else contract), inf
            kind = self.first.function_type.outputs.data[index]
            is_float = quant_element(kind) is None and isinstance(element_type(kind), AnyFloat)
            number = is_float or quant_element(kind) is not None
            if is_float and contract == "exact" and self.leaves_litert:
                contract, allowed, least = "ties", inf, FLOATS_DB
            outputs.append(
                OutputCheck(name, contract, allowed, real, found, number, is_float, least)
            )
        return outputs

    # -- what went wrong --------------------------------------------------------------------

    def excused(self, reference: Run, inputs: Arrays, expected: Sequence[Array]) -> bool:
        """Whether the original does not answer the same twice."""
        if all(found.is_equal for found in self.differences(expected, reference(inputs))):
            return False
        self.notes.append("the original answers at random, so that is not judged")
        return True

    def in_reals(self, inputs: Arrays) -> list[Difference] | None:
        """The differences of codes that both compute in real numbers; None if its rewrites do
        not allow those either."""
        from qdialect.validation.translation import compared

        bounds = [self.bounds.get(index) for index in range(len(output_names(self.first)))]
        if self.written is not None or None in bounds:
            return None  # what is written computes floats, too
        arrays = [inputs[name] for name in argument_names(self.first)]
        known = [bound for bound in bounds if bound is not None]
        try:
            found = compared(
                self.after.ctx,
                self.before.module,
                self.after.module,
                self.second,
                known,
                [arrays],
            )
        except QError:
            return None
        worst = [one.worst for one in found]
        unbounded = [one for one in self.judged(worst) if not one.bounded and not one.holds]
        if any(one.is_wrong for one in found) or any(not o.may_clip for o in unbounded):
            return None
        if _REALS not in self.notes:
            self.notes.append(_REALS)
        return worst

    def refused(self, error: QError) -> InputError:
        """The error of a result that does not run where the original does."""
        return InputError(
            f"the optimized model does not run where the original does: {error.message}",
            where=error.where or self.judge.where(),
            code="outside-contract",
        )


def _apart(found: Sequence[Difference]) -> str:
    """How far the worst of several outputs is off."""
    share = max(difference.share_differing for difference in found)
    least = min(difference.sqnr_db for difference in found)
    return f"up to {share:.2%} of an output's elements differ ({least:.1f} dB)"


def _size(difference: Difference) -> tuple[bool, float, float]:
    return not difference.is_equal, difference.max_steps, difference.max_abs

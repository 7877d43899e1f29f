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

The interpreter runs the model as we read it. Where it judges, or another file than the source, the
source file runs once more in the engine of its format: ONNX Runtime, LiteRT, PyTorch op by op, or
the interpreter on ops as they were before they were raised. Both the model as we read it and the
result must be as close to that as the floats in the model let two engines be (`Judge.noise`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from math import inf, isfinite
from time import monotonic
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import AnyFloat, ModuleOp
from xdsl.ir import Operation, SSAValue

from qdialect.analysis.cost import elements
from qdialect.errors import InputError, QError, Where
from qdialect.interpreter import Difference, argument_names, output_names
from qdialect.interpreter.compare import compare
from qdialect.interpreter.narrow import as_laid_out
from qdialect.interpreter.values import runtime_dtype
from qdialect.ir.context import QContext
from qdialect.ir.ops import ConstantOp
from qdialect.ir.ops.locations import op_where
from qdialect.ir.quant import DCastOp, element_type, quant_element
from qdialect.passes.casts.fold_interface import ROUNDING
from qdialect.plugins.tflite.check import InLitert
from qdialect.plugins.tflite.files import WrittenTflite, kernels_named, litert_installed
from qdialect.rewrite.kernel_marks import release_products
from qdialect.workflows.inputs import draw, suitable
from qdialect.workflows.model import TFLITE, Model, load_kept
from qdialect.workflows.validation.divergence import (
    Divergence,
    OutOfTime,
    first_divergence,
    interpreter,
)
from qdialect.workflows.validation.translation import converted
from qdialect.workflows.written import read_again, write_as

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from xdsl.dialects.func import FuncOp

    from qdialect.plugins.onnx.write import OrtEngine
    from qdialect.plugins.onnx.write.written import Written
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

FLOATS_DB = 80.0
"""What differs less is the same floats, summed in another order or by another approximation of a
function: a step of a code leaves less than 50 dB."""

_CLIPPING = ("saturation", "relaxed")
"""Classes of rewrites that may drop a clip."""
_USELESS = 1e9
"""A bound that is larger says nothing of a quantized model."""
_SLACK = 1 + 2.0**-20
"""Bounds are sums of floats."""
_DEFECT = "this is a defect of qdialect or of a plug-in"
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
    beside: str = ""
    """What it is compared with, where that is not the model as we read it."""

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
        text = f"output '{self.name}' differs{self.beside} by up to {apart:.4g}{unit} "
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
        return "\n  ".join(self.lines)

    @property
    def lines(self) -> list[str]:
        """The lines of `str`: what was compared, then each output that differs, and notes."""
        if not self.samples:
            return [f"not checked: {self.reason}"]
        of = f" of {self.requested}" if self.samples < self.requested else ""
        inputs = f"{self.samples}{of} {self.how}"
        same = sum(output.found.is_equal for output in self.outputs)
        lines = [
            f"compared with the original on {inputs}: {same} of {len(self.outputs)} outputs have "
            f"the same bits ({self.seconds:.1f} s{'; ' + self.reason if self.reason else ''})"
        ]
        lines += [str(output) for output in self.outputs if not output.found.is_equal]
        return [*lines, *self.notes]


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
    written = None if form is None else write_as(after, form)
    return Judge(before, samples, inputs, seconds).sound(after, written, form)


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
        if self.inputs is not None and self.requested:
            self.requested = 1

    @cached_property
    def function(self) -> FuncOp:
        """What runs; InputError where a module has several functions and none is the main one."""
        return self.before.function()

    @cached_property
    def original(self) -> OrtEngine:
        """The original file (or the model as it would be written) in the runtime, as it is."""
        from qdialect.plugins.onnx.write import OrtEngine, write_model

        source: Any = self.before.source
        if source is None or source.suffix != ".onnx":
            source = write_model(self.before.module, self.before.ctx).whole()
        return OrtEngine(source, optimize=False, seconds=max(self.seconds, SECONDS))

    def release(self) -> None:
        """Let the runtime forget the original; it is loaded again if it is asked again."""
        self.__dict__.pop("original", None)

    @property
    def is_from_litert(self) -> bool:
        """Whether the original is a file that LiteRT runs."""
        return self.before.source is not None and self.before.source.suffix in TFLITE

    @cached_property
    def original_in_litert(self) -> InLitert:
        """The original file in LiteRT, by the kernels that it is read for."""
        assert self.before.source is not None
        return InLitert.of_file(self.before.source, kernels_named(self.before.module))

    @cached_property
    def kept(self) -> Model:
        """The source file with its ops as they are there; QError."""
        assert self.before.source is not None
        return load_kept(self.before.source, kernels_named(self.before.module))

    @cached_property
    def noise(self) -> float:
        """How much two engines must leave, in dB, that take sums and functions of the floats in
        the model in ways of their own; infinite: the same bits."""
        return _noise(self.before.module)

    def loaded(self) -> Run:
        """`run_original`, of what LiteRT or ONNX Runtime has loaded; QError."""
        assert self.original_in_litert if self.is_from_litert else self.original
        return self.run_original

    def run_original(self, inputs: Arrays) -> list[Array]:
        """What the original gives in LiteRT or ONNX Runtime; QError."""
        if self.is_from_litert:
            return self.original_in_litert.run(inputs, argument_names(self.function))
        for name in inputs:
            if name not in self.original.inputs:
                known = ", ".join(self.original.inputs)
                raise InputError(f"no input '{name}' (inputs: {known})", code="bad-input")
        return [as_laid_out(y) for y in self.original.run(inputs).values()]

    def run_kept(self, inputs: Arrays) -> list[Array]:
        """What the source file gives, op by op; QError, OutOfTime."""
        kept = interpreter(self.kept.ctx, self.kept.module, until=monotonic() + self.seconds)
        kinds, results = self.function.function_type.outputs, kept.run(self.inputs_of_kept(inputs))
        return [_bits(y, runtime_dtype(t)) for y, t in zip(results, kinds, strict=True)]

    def inputs_of_kept(self, inputs: Arrays) -> dict[str, Array]:
        """Inputs as the ops of the source file take them: codes may be integers there."""
        function, names = self.kept.function(), argument_names(self.function)
        arguments = zip(names, argument_names(function), function.function_type.inputs, strict=True)
        return {other: _bits(inputs[name], runtime_dtype(kind)) for name, other, kind in arguments}

    @property
    def source(self) -> tuple[str, Run] | None:
        """Where the source file runs, the engine of its format, and it there; None where there is
        no such file or no such engine, or where it is MLIR of which nothing was raised."""
        from qdialect.plugins.onnx.write.kernels import installed_runtime

        path = self.before.source
        if path is None:
            return None
        if path.suffix in TFLITE:
            where = _in_litert(kernels_named(self.before.module))
            return (where, self.run_original) if litert_installed() else None
        if path.suffix == ".onnx":
            return None if installed_runtime() is None else (IN_RUNTIME, self.run_original)
        if path.suffix == ".pt2":
            return "in PyTorch, op by op", self.run_kept
        with suppress(QError):  # which `run_kept` tells
            read, kept = ({op.name for op in m.module.walk()} for m in (self.before, self.kept))
            if read == kept:
                return None
        return IN_REFERENCE, self.run_kept

    def sound(
        self, after: Model, written: Written | WrittenTflite | None, form: FileForm | None
    ) -> Checked:
        """What was compared; InputError (`outside-contract`) where the result is wrong."""
        checked = self.check(after, written, form)
        if checked.failure is not None:
            raise checked.failure
        if checked.wrong is not None:
            raise self.refusal(after, written, checked.wrong)
        return checked

    def check(
        self, after: Model, written: Written | WrittenTflite | None, form: FileForm | None
    ) -> Checked:
        """What was compared, and what was wrong; `written` is what `after` is in `form`, None
        for MLIR text."""
        if not self.requested:
            return Checked(0, 0, "", reason="--check=0")
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
        for name in ("function", "original", "original_in_litert", "kept", "noise"):
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
            self._options[how] = suitable(self.before, reference)
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

        if self.is_from_litert and not litert_installed():
            return []

        in_runtime = partial(self.sample, IN_RUNTIME, reference=self.run_original)
        try:
            while len(found) < max(self.requested, 1) or (
                self.inputs is None
                and monotonic() < until
                and len(found) < EXECUTED_MOST
                and sum(getattr(y, "size", 0) for _, ys in found for y in ys) < EXECUTED_ENOUGH
            ):
                found.append(in_runtime(len(found), in_range=in_range))
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
        before, given, least = self.before, self.failing, inf
        if wrong.beside or self.is_from_litert:
            with suppress(QError):
                before, given = self.kept, self.inputs_of_kept(self.failing)
                least = self.noise if wrong.bounded else wrong.least_db
        found = first_divergence(
            (before.ctx, before.module),
            comparison.meaning,
            (given, comparison.converted_inputs(self.failing)),
            until=monotonic() + self.seconds,
            least_db=least,
        )
        unclear = wrong.may_clip and not wrong.bounded
        what = "far from the original" if unclear else "outside its contract"
        which = "what would be written" if wrong.beside else "the optimized model"
        return InputError(
            f"{which} is {what}: {wrong}",
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
    from qdialect.ir.dialects.kept import kind_of

    return (
        f"the first value that differs is that of {kind_of(found.op)} '{found.key}', by up to "
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
    def exact(self) -> bool:
        """Whether all rewrites that fired are exact."""
        return all(bound.contract == "exact" for bound in self.bounds.values())

    @property
    def drops_clips(self) -> bool:
        """Whether some rewrite that fired may drop a clip."""
        return any(bound.contract in _CLIPPING for bound in self.bounds.values())

    def engines(self) -> list[tuple[str, Callable[[], tuple[Run, Run]], str]]:
        """What may judge, the preferred first, and beside what the result is in another engine."""
        found = [(IN_REFERENCE, self.interpreted, "")]
        if (result := self.executed) is None:
            return found
        place, opened = result
        fits = self.exact and self.written is not None and self.judge.same_interface(self.after)
        if fits and isinstance(self.written, WrittenTflite) == self.judge.is_from_litert:
            if self.before.source and self.before.source.suffix not in (".onnx", *TFLITE):
                place += ", the original translated without rewrites"
            found.insert(0, (place, lambda: (self.judge.loaded(), opened()), ""))
        elif (source := self.judge.source) is not None:
            where, run = source
            # Where a rounding may go the other way, the interpreter sees more.
            index = 0 if fits and self.judge.noise > LEAST_DB else 1
            how = f"{where}, the result {place}"
            found.insert(index, (how, lambda: (run, self.across(opened())), _beside(where)))
        return found

    def interpreted(self) -> tuple[Run, Run]:
        """Both models in the reference interpreter; results have the types of the original."""
        reference = interpreter(self.before.ctx, self.before.module, until=self.until)
        return reference.run, self.across(interpreter(*self.meaning, until=self.until).run)

    def across(self, run: Run) -> Run:
        """The result on inputs of the original; what it gives has the types of the original."""
        old, new = self.first.function_type, self.second.function_type
        gives = list(zip(old.outputs.data, new.outputs.data, strict=True))

        def converting(inputs: Arrays) -> list[Array]:
            results = run(self.converted_inputs(inputs))
            ctx = self.after.ctx
            return [converted(ctx, y, b, a) for y, (a, b) in zip(results, gives, strict=True)]

        return converting

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

    def written_in_runtime(self) -> Run:
        """What was written, in ONNX Runtime with its optimizations off."""
        from qdialect.plugins.onnx.write import OrtEngine, write_model

        assert self.written is not None and not isinstance(self.written, WrittenTflite)
        judged = self.written
        if self.form != "qdq":
            judged = write_model(self.after.module, self.after.ctx)
        try:
            seconds = max(self.judge.seconds, SECONDS)
            engine = OrtEngine(judged.whole(), optimize=False, seconds=seconds)
        except QError as error:
            raise _Refused(self.refused(error)) from None
        return lambda x: [as_laid_out(y) for y in engine.run(x).values()]

    def written_in_litert(self) -> Run:
        """What was written, in LiteRT."""
        assert isinstance(self.written, WrittenTflite)
        try:
            engine = InLitert.of_written(self.written, self.second)
        except QError as error:
            raise _Refused(self.refused(error)) from None
        return lambda x: engine.run(x, argument_names(self.second))

    @property
    def executed(self) -> tuple[str, Callable[[], Run]] | None:
        """Where the result runs, the engine it is for, and what opens it there; None where that is
        not here."""
        from qdialect.plugins.onnx.write.kernels import installed_runtime

        if isinstance(self.written, WrittenTflite):
            where = _in_litert(self.written.kernels)
            return (where, self.written_in_litert) if litert_installed() else None
        if self.written is not None:
            is_here = installed_runtime() is not None
            how = IN_RUNTIME if self.form == "qdq" else f"{IN_RUNTIME}, as casts and float ops"
            return (how, self.written_in_runtime) if is_here else None
        return IN_REFERENCE, lambda: interpreter(*self.meaning, until=self.until).run

    # -- running ----------------------------------------------------------------------------

    def run(self) -> Checked:
        """Compare in the first engine in which the original runs."""
        reasons: list[str] = []
        for how, build, beside in self.engines():
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
                return self.compare(how, reference, other, beside)
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

    def compare(self, how: str, reference: Run, other: Run, beside: str) -> Checked:
        """Compare on each sample until time is up; `how` names the engine, or two where it is the
        result in another `beside` the source file."""
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
            found = self.differences(expected, got)
            outputs = self.judged(found, beside)
            wrong = next((output for output in outputs if not output.holds), None)
            if wrong is not None and not self.excused(reference, inputs, expected):
                allowed = None if beside else self.in_reals(inputs)
                if allowed is None:
                    self.judge.failing = inputs
                    return Checked(requested, done, how, outputs, wrong=wrong)
                found = allowed
            if done == 0:
                self.try_kernels(inputs, expected)
                try:
                    wrong = self.apart_from_source(reference, inputs, expected, got)
                except _Refused as refused:
                    return self.failed(refused.error)
                if wrong is not None:
                    self.judge.failing = inputs
                    return Checked(requested, done, how, outputs, wrong=wrong)
            worst = [max(x, y, key=_size) for x, y in zip(worst, found, strict=True)]
            done += 1
            if monotonic() > self.until:
                break
        if done < requested and not reason:
            reason = f"time is up after {self.judge.seconds:g} s"
        kind = "given" if self.judge.inputs is not None else "random"
        what = f"{kind} input{'s' if requested > 1 else ''} {how}"
        spent = monotonic() - self.began
        outputs = self.judged(worst, beside)
        return Checked(requested, done, what, outputs, spent, reason, self.notes)

    def try_kernels(self, inputs: Arrays, expected: Sequence[Array]) -> None:
        """Run the integer kernels themselves, if those are what is written."""
        from qdialect.plugins.onnx.write import OrtEngine
        from qdialect.plugins.onnx.write.kernels import installed_runtime

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

    def apart_from_source(
        self, reference: Run, inputs: Arrays, expected: Sequence[Array], got: Sequence[Array]
    ) -> OutputCheck | None:
        """The output of the model as we read it, which gives `expected`, or of the result, that is
        too far from what the source file gives; _Refused where the result does not run. `got` is
        what the judge of the rewrites has of the result, in the interpreter where that is MLIR."""
        source, executed = self.judge.source, self.executed
        if source is None or executed is None or source[1] == reference:
            return None
        (where, run), (place, opened) = source, executed
        try:
            answers = run(inputs)
        except (QError, OutOfTime) as error:
            why = error.message if isinstance(error, QError) else "it takes too long"
            self.notes.append(f"not compared with the source file {where}: {why}")
            return None
        if self.written is not None:
            got = self.results(self.across(opened()), inputs)
        beside = _beside(where)
        read = self.judged(self.differences(answers, expected), f", as read,{beside}", read=True)
        found = self.differences(answers, got)
        for output in (*read, *self.judged(found, beside)):
            if not output.holds and not self.excused(run, inputs, answers):
                return output
        same = sum(difference.is_equal for difference in found)
        text = f"{place} {same} of {len(found)} outputs have the bits of the source file {where}"
        self.notes.append(text + self.by_default(inputs, answers, found))
        return None

    def by_default(
        self, inputs: Arrays, answers: Sequence[Array], found: Sequence[Difference]
    ) -> str:
        """How far outputs are off, and how far ONNX Runtime, as it executes the original by
        default, is off that; nothing where none is, or it does not run the original."""
        from qdialect.plugins.onnx.write import OrtEngine

        source = self.before.source
        if all(difference.is_equal for difference in found):
            return ""
        if source is None or source.suffix != ".onnx":
            return f"; {_apart(found)}"
        try:
            got = list(OrtEngine(source, optimize=True).run(inputs).values())
        except QError:
            return f"; {_apart(found)}"
        own = _apart(self.differences(answers, got))
        return f"; {_apart(found)} (of ONNX Runtime by default: {own})"

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

    def judged(
        self,
        worst: Sequence[Difference],
        beside: str = "",
        *,
        read: bool = False,
    ) -> list[OutputCheck]:
        """The largest difference of each output, beside what its rewrites allow (none, of what is
        `read`), and what the floats of two engines do, where the source file is `beside` it."""
        outputs: list[OutputCheck] = []
        for index, (name, found) in enumerate(zip(output_names(self.first), worst, strict=True)):
            bound = None if read else self.bounds.get(index)
            contract = bound.contract if bound is not None else "exact"
            real = bound is not None and not isfinite(bound.steps)
            allowed = 0.0 if bound is None else bound.real if real else bound.steps
            kind = self.first.function_type.outputs.data[index]
            is_float = quant_element(kind) is None and isinstance(element_type(kind), AnyFloat)
            number = is_float or quant_element(kind) is not None
            output = OutputCheck(
                name, contract, allowed, real, found, number, is_float, LEAST_DB, beside
            )
            if beside and not output.holds:
                output = self.of_two_engines(output)
            elif self.sums_otherwise and not beside:
                output = replace(output, contract=_at_least_ties(contract), allowed=inf)
            outputs.append(output)
        return outputs

    def of_two_engines(self, output: OutputCheck) -> OutputCheck:
        """What an output is judged by whose bound, which is of exact arithmetic, does not hold in
        two engines."""
        exact, noise = output.contract == "exact", self.judge.noise
        if exact and noise > LEAST_DB and not (output.is_float and noise < inf):
            return output
        least = noise if exact else LEAST_DB
        contract = _at_least_ties(output.contract)
        return replace(output, contract=contract, allowed=inf, least_db=least)

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
        from qdialect.workflows.validation.translation import compared

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


def _at_least_ties(contract: str) -> str:
    """What rewrites are called whose result another engine computes."""
    return "ties" if contract == "exact" else contract


def _in_litert(kernels: str) -> str:
    return f"in LiteRT ({kernels})"


def _beside(place: str) -> str:
    """What a result is compared with, where that is the source file somewhere."""
    return f" from the source file {place}"


def _bits(array: Array, dtype: Any) -> Array:
    """Integers as those of another sign that have their bits; others as they are."""
    own = array.dtype
    integers = own.kind in "iu" and dtype.kind in "iu" and own.itemsize == dtype.itemsize
    return array.view(dtype) if integers else array


def _noise(module: ModuleOp) -> float:
    """See `Judge.noise`: what is computed in floats may be summed otherwise; where it is then
    rounded or compared, or an op may do so that is not known, a code may be the next one."""
    found = inf
    for op in module.walk():
        results = [element_type(value.type) for value in op.results]
        takes = any(_computed(value) is not None for value in op.operands)
        gives = any(isinstance(kind, AnyFloat) for kind in results)
        if not results or isinstance(op, ConstantOp) or not (takes or gives):
            continue
        rounds = op.name in _ROUND or not op.name.startswith(("nn.", "quant."))
        if takes and (rounds or any(str(kind) not in ("f32", "f64") for kind in results)):
            return LEAST_DB
        found = FLOATS_DB
    return found


_ROUND = frozenset({"nn.round", "nn.floor", "nn.ceil"})


def _computed(value: SSAValue) -> AnyFloat | None:
    kind, owner = element_type(value.type), value.owner
    is_read = not isinstance(owner, Operation) or isinstance(owner, ConstantOp | DCastOp)
    return kind if isinstance(kind, AnyFloat) and not is_read else None


def _apart(found: Sequence[Difference]) -> str:
    share = max(difference.share_differing for difference in found)
    least = min(difference.sqnr_db for difference in found)
    return f"up to {share:.2%} of an output's elements differ ({least:.1f} dB)"


def _size(difference: Difference) -> tuple[bool, float, float]:
    return not difference.is_equal, difference.max_steps, difference.max_abs

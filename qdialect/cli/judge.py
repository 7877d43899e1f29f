"""Holds an optimized model against the original, before it is written.

Both run on the same inputs, and each output must be as close as the rewrites that fired
say (`rewrite.summary`): the same bits where all were exact, at most so many steps where
they add up to that.  Where no bound is stated that says anything, as at the end of a deep
network, the noise that the difference is must be small beside the output (`LEAST_DB`).

What is judged is what is written.  Where all rewrites are exact and ONNX Runtime is installed,
it runs the original file and the result, both with its optimizations off: that is what the
nodes of a file mean.  A QOperator result is judged by the casts and float ops that its integer
kernels stand for, since these round ties in another way; how far the kernels are off is said.
Bounds of weaker rewrites are stated for exact arithmetic, so those the interpreter judges.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from time import monotonic
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import ModuleOp

from qdialect.analysis.cost import elements
from qdialect.cli.checked import Checked, OutputCheck
from qdialect.cli.comparison import IN_RUNTIME, Comparison
from qdialect.cli.execution import main_function
from qdialect.cli.samples import draw, suitable
from qdialect.context import QContext
from qdialect.errors import InputError, QError, Where
from qdialect.ops import ConstantOp
from qdialect.validation.divergence import Divergence, first_divergence
from qdialect.verify.verifier import op_where

if TYPE_CHECKING:
    from xdsl.dialects.func import FuncOp

    from qdialect.api import Form, Model
    from qdialect.cli.comparison import Array, Arrays, Run
    from qdialect.formats.onnx.write import OrtEngine
    from qdialect.formats.onnx.write.written import Written

MOST = 1 << 28
"""Elements of a value that are computed for a check."""
SECONDS = 20.0
"""After so long no further sample is begun."""
EXECUTED_SECONDS, EXECUTED_MOST, EXECUTED_ENOUGH = 0.5, 16, 4096
"""How long, how many samples and until how many numbers results are observed as executed."""


def check_optimized(
    before: Model,
    after: Model,
    samples: int,
    *,
    inputs: Arrays | None = None,
    form: Form | None = "qdq",
    seconds: float = SECONDS,
) -> Checked:
    """Compare on `samples` random inputs, or on `inputs`; `form` is that of the ONNX model
    that would be written (None: MLIR).

    InputError (`outside-contract`) where the optimized model is further off than its
    rewrites allow, or does not run where the original does.
    """
    from qdialect.formats.onnx.write import write_model

    judge = Judge(before, samples, inputs, seconds)
    written = None if form is None else write_model(after.module, after.ctx, form=form)
    checked = judge.check(after, written, form)
    if checked.failure is not None:
        raise checked.failure
    if checked.wrong is not None:
        raise judge.refusal(after, written, checked.wrong)
    return checked


@dataclass
class Judge:
    """Compares results with `before` on `wanted` random inputs, or on `inputs`; what the
    original answers is computed once."""

    before: Model
    wanted: int
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
            self.wanted = 1

    @cached_property
    def function(self) -> FuncOp:
        """What runs; InputError where a module has several functions and none is the main one."""
        return main_function(self.before)

    @cached_property
    def original(self) -> OrtEngine:
        """The original file (or the model as it would be written) in the runtime, as it is."""
        from qdialect.formats.onnx.write import OrtEngine, export_model

        source: Any = self.before.source
        if source is None or source.suffix != ".onnx":
            source = export_model(self.before.module, self.before.ctx)
        return OrtEngine(source, optimize=False)

    def check(self, after: Model, written: Written | None, form: Form | None) -> Checked:
        """What was compared, and what was wrong; `written` is what `after` is in `form`, None
        for MLIR text."""
        large = _too_large(self.before) or _too_large(after)
        if large is not None:
            return Checked(self.wanted, 0, "", reason=large)
        try:
            comparison = Comparison(self, after, written, form)
        except QError as error:  # several functions, none of which is the main one
            return Checked(self.wanted, 0, "", reason=error.message)
        return comparison.run()

    def is_wrong(self, ctx: QContext, module: ModuleOp, form: Form | None) -> bool:
        """Whether a module somewhere on the way is wrong on the inputs on which the result
        was, or does not run; one that cannot be written is not called so."""
        from qdialect.api import Model
        from qdialect.formats.onnx.write import write_model
        from qdialect.rewrite.summary import summarize

        ctx.remarks.outputs = summarize(ctx, module)
        again = Judge(self.before, self.wanted, self.failing or self.inputs, self.seconds)
        for name in ("function", "original"):
            if name in self.__dict__:
                again.__dict__[name] = self.__dict__[name]
        try:
            written = None if form is None else write_model(module, ctx)
        except QError:
            return False
        checked = again.check(Model(module, ctx), written, form)
        return checked.wrong is not None or checked.failure is not None

    def sample(self, how: str, index: int, reference: Run) -> tuple[Arrays, list[Array]]:
        """One input and what the original answers."""
        key = how, index
        if key not in self._answers:
            given = self.inputs
            if given is None:
                options = self.options(how, reference)
                given = draw(self.function, index, **options)
            self._answers[key] = given, reference(given)
        return self._answers[key]

    def options(self, how: str, reference: Run) -> dict[str, Any]:
        """How to draw inputs that the original gets through."""
        if how not in self._options:
            self._options[how] = suitable(self.function, reference)
        return self._options[how]

    def executed_samples(self) -> list[tuple[Arrays, list[Array]]]:
        """Inputs, and what the original file answers in ONNX Runtime as it is written; none
        where it does not run.  More than those it is compared on, until they are enough to
        tell noise from chance or `EXECUTED_SECONDS` are over."""
        if _too_large(self.before) is not None:
            return []
        found: list[tuple[Arrays, list[Array]]] = []
        until = monotonic() + EXECUTED_SECONDS

        def answers(inputs: Arrays) -> list[Array]:
            return list(self.original.run(inputs).values())

        try:
            while len(found) < max(self.wanted, 1) or (
                self.inputs is None
                and monotonic() < until
                and len(found) < EXECUTED_MOST
                and sum(getattr(y, "size", 0) for _, ys in found for y in ys) < EXECUTED_ENOUGH
            ):
                found.append(self.sample(IN_RUNTIME, len(found), answers))
        except QError:
            return found
        return found

    def same_interface(self, after: Model) -> bool:
        """Whether both take and give the same types."""
        return self.function.function_type == main_function(after).function_type

    def where(self, node: str | None = None) -> Where:
        source = self.before.source
        return Where(file=None if source is None else str(source), node=node)

    def refusal(self, after: Model, written: Written | None, wrong: OutputCheck) -> InputError:
        """The error that says which output is wrong, and where that begins."""
        assert self.failing is not None
        comparison = Comparison(self, after, written, None if written is None else "qdq")
        found = first_divergence(
            (self.before.ctx, self.before.module),
            comparison.meaning,
            (self.failing, comparison.given(self.failing)),
            until=monotonic() + self.seconds,
        )
        return InputError(
            f"the optimized model is outside its contract: {wrong}",
            where=self.where(None if found is None else found.key),
            code="outside-contract",
            notes=(_first(found), "this is a defect of a pass or a plug-in"),
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

"""`--check`: the optimized model against the original, before it is written.

Both run on the same inputs, and each output must be as close as the rewrites that fired
say (`rewrite.summary`): the same bits where all were exact, at most so many steps where
they add up to that.  Where no bound is stated that says anything, as at the end of a deep
network, the noise that the difference is must be small beside the output (`LEAST_DB`).

What is checked is what is written: the ONNX model, a QOperator one as its QDQ meaning, for
integer kernels meet ties in another way than floats.  Exact rewrites keep the bits of a
runtime that evaluates in floats too, so there ONNX Runtime (optimizations off) judges
where it is installed; bounds are stated for exact arithmetic, so those the interpreter
judges.
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
from qdialect.cli.checked import Checked, OutputCheck
from qdialect.cli.execution import main_function, open_engine
from qdialect.cli.samples import draw, suitable
from qdialect.context import QContext
from qdialect.dialects.nn import ConstantOp
from qdialect.dialects.quant import element_type, quant_element
from qdialect.dialects.verifier import op_where
from qdialect.engines.local import output_names
from qdialect.errors import InputError, QError, Where
from qdialect.interpreter import Difference, argument_names
from qdialect.interpreter.compare import compare
from qdialect.transforms.fold_interface import ROUNDING
from qdialect.validation.divergence import Divergence, OutOfTime, first_divergence, interpreter
from qdialect.validation.translation import converted

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qdialect.api import Form, Model
    from qdialect.rewrite.remarks import OutputBound

    Array = NDArray[Any]
    Arrays = Mapping[str, Array]
    Run = Callable[[Arrays], list[Array]]

MOST = 1 << 28
"""Elements of a value that are computed for a check."""
SECONDS = 20.0
"""After so long no further sample is begun."""

_EQUAL = Difference(0.0, 0.0, 0.0, inf, None)
_ORDER = (
    "both are the same bit for bit in the reference interpreter: ONNX Runtime sums floats in "
    "another order where a weight has become constant"
)

_REALS = (
    "judged in real numbers, which contracts are about: the original rounds floats on its way, "
    "so that as it runs a few codes fall on the other side of a tie"
)


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
    wanted = samples if inputs is None else 1
    large = _too_large(before) or _too_large(after)
    if large is not None:
        return Checked(wanted, 0, "", reason=large)
    try:
        check = _Check(before, after, wanted, inputs, form, seconds)
    except QError as error:  # several functions, none of which is the main one
        return Checked(wanted, 0, "", reason=error.message)
    return check.run()


def _too_large(model: Model) -> str | None:
    """Which value is too large to be computed just for a check."""
    for op in model.module.walk():
        for value in () if isinstance(op, ConstantOp) else op.results:
            if (count := elements(value)) > MOST:
                return f"{op_where(op) or op.name} gives {count:.3g} elements"
    return None


@dataclass
class _Check:
    before: Model
    after: Model
    wanted: int
    inputs: Arrays | None
    form: Form | None
    seconds: float
    notes: list[str] = field(default_factory=list[str])

    def __post_init__(self) -> None:
        self.began = monotonic()
        self.until = self.began + self.seconds
        self.first = main_function(self.before)
        self.second = main_function(self.after)
        bounds = self.after.ctx.remarks.outputs
        own = [b for b in bounds if b.function == self.second.sym_name.data]
        self.bounds: dict[int, OutputBound] = {bound.result: bound for bound in own}

    # -- the models as they run -----------------------------------------------------------

    @cached_property
    def written(self) -> Any:
        """The ONNX model as it would be written; None for MLIR."""
        from qdialect.backends.onnx import export_model

        if self.form is None:
            return None
        return export_model(self.after.module, self.after.ctx, form=self.form)

    @cached_property
    def meaning(self) -> tuple[QContext, ModuleOp]:
        """The module that is judged: what was written, read again."""
        from qdialect.frontends.onnx import import_model

        if self.written is None:
            return self.after.ctx, self.after.module
        ctx = self.after.ctx.clone()
        return ctx, import_model(self.written, ctx)

    @property
    def exact(self) -> bool:
        return all(bound.contract == "exact" for bound in self.bounds.values())

    @property
    def same_interface(self) -> bool:
        return self.first.function_type == self.second.function_type

    def engines(self) -> list[tuple[str, Callable[[], tuple[Run, Run]]]]:
        """What may judge, the preferred first."""
        from qdialect.backends.onnx.kernels import installed_runtime

        ours = ("in the reference interpreter", self.interpreted)
        fits = self.exact and self.form is not None and self.same_interface
        if not fits or installed_runtime() is None:
            return [ours]
        return [("in ONNX Runtime, its optimizations off", self.in_runtime), ours]

    def interpreted(self) -> tuple[Run, Run]:
        reference = interpreter(self.before.ctx, self.before.module, until=self.until)
        other = interpreter(*self.meaning, until=self.until)
        old, new = self.first.function_type, self.second.function_type
        gives = list(zip(old.outputs.data, new.outputs.data, strict=True))

        def run(inputs: Arrays) -> list[Array]:
            results = other.run(self.given(inputs))
            ctx = self.after.ctx
            return [converted(ctx, y, b, a) for y, (a, b) in zip(results, gives, strict=True)]

        return reference.run, run

    def given(self, inputs: Arrays) -> dict[str, Array]:
        """Inputs of the original as those of the optimized model, which may take codes."""
        notes = self.second.arg_attrs or [None] * len(inputs)
        old, new = self.first.function_type.inputs, self.second.function_type.inputs
        pairs = zip(old.data, new.data, strict=True)
        names = zip(argument_names(self.first), argument_names(self.second), strict=True)
        return {
            name: converted(
                self.after.ctx,
                inputs[own],
                *types,
                rounding=note.data.get(ROUNDING) if note else None,
            )
            for (own, name), types, note in zip(names, pairs, notes, strict=True)
        }

    def in_runtime(self) -> tuple[Run, Run]:
        from qdialect.backends.onnx import OrtEngine, export_model
        from qdialect.backends.onnx.engine import has_integer_kernels

        reference = open_engine(self.before, "onnxruntime")
        source = self.before.source
        if source is not None and source.suffix == ".onnx" and has_integer_kernels(source):
            meant = OrtEngine(export_model(self.before.module, self.before.ctx), optimize=False)
            reference = meant.run
        judged = self.written
        if self.form != "qdq":
            ctx, module = self.meaning
            judged = export_model(module, ctx)
        assert judged is not None
        try:
            engine = OrtEngine(judged, optimize=False)
        except QError as error:
            raise self.refused(error) from None
        return lambda x: list(reference(x).values()), lambda x: list(engine.run(x).values())

    def load_as_shipped(self) -> None:
        """Let the runtime optimize what is written, as it will: it fails on some graphs."""
        from qdialect.backends.onnx import OrtEngine
        from qdialect.backends.onnx.kernels import installed_runtime

        if self.form is None or installed_runtime() is None:
            return
        try:
            OrtEngine(self.written, optimize=True)
        except QError as error:
            try:
                open_engine(self.before, "onnxruntime", optimize=True)
            except QError:
                return
            raise self.refused(error) from None

    # -- running ----------------------------------------------------------------------------

    def run(self) -> Checked:
        reasons: list[str] = []
        _ = self.written  # what cannot be written is an error of its own
        self.load_as_shipped()
        for how, build in self.engines():
            try:
                reference, other = build()
                options = {} if self.inputs is not None else suitable(self.first, reference)
            except OutOfTime:
                reasons.append(f"one run takes more than {self.seconds:g} s {how}")
            except QError as error:
                if error.code == "outside-contract":
                    raise
                reasons.append(error.message)
            else:
                return self.compare(how, reference, other, options)
        hint = "" if self.inputs is not None else "; --input gives inputs to check on"
        why = f"the original does not run on these inputs ({reasons[0]}){hint}"
        return Checked(self.wanted, 0, "", reason=why)

    def compare(self, how: str, reference: Run, other: Run, options: dict[str, Any]) -> Checked:
        worst = [_EQUAL] * len(output_names(self.first))
        done, reason = 0, ""
        runtime = "ONNX Runtime" in how
        for seed in range(self.wanted):
            given = self.inputs if self.inputs is not None else draw(self.first, seed, **options)
            try:
                expected = reference(given)
                got = self.results(other, given)
            except OutOfTime:
                break
            if done == 0:
                self.try_kernels(given, expected)
            found = [
                self.difference(i, a, b) for i, (a, b) in enumerate(zip(expected, got, strict=True))
            ]
            wrong = next((output for output in self.judged(found) if not output.holds), None)
            if (
                wrong is not None
                and not self.excused(reference, given, expected)
                and not (runtime and self.same_in_reference(given))
            ):
                allowed = None if runtime else self.in_reals(given)
                if allowed is None:
                    raise self.refusal(wrong, given)
                found = allowed
            worst = [max(x, y, key=_size) for x, y in zip(worst, found, strict=True)]
            done += 1
            if monotonic() > self.until:
                break
        if done < self.wanted:
            reason = f"time is up after {self.seconds:g} s"
        kind = "given" if self.inputs is not None else "random"
        inputs = f"{kind} input{'s' if self.wanted > 1 else ''} {how}"
        spent = monotonic() - self.began
        return Checked(self.wanted, done, inputs, self.judged(worst), spent, reason, self.notes)

    def results(self, other: Run, given: Arrays) -> list[Array]:
        try:
            return other(given)
        except QError as error:
            raise self.refused(error) from None

    def try_kernels(self, given: Arrays, expected: Sequence[Array]) -> None:
        """Run the integer kernels themselves, if those are what is written."""
        from qdialect.backends.onnx import OrtEngine
        from qdialect.backends.onnx.kernels import installed_runtime

        if self.form != "qoperator" or installed_runtime() is None or not self.same_interface:
            return
        assert self.written is not None
        try:
            got = OrtEngine(self.written, optimize=False).run(given).values()
        except QError as error:
            raise self.refused(error) from None
        found = [
            self.difference(i, a, b) for i, (a, b) in enumerate(zip(expected, got, strict=True))
        ]
        if any(not difference.is_equal for difference in found):
            share = max(difference.share_differing for difference in found)
            least = min(difference.sqnr_db for difference in found)
            self.notes.append(
                "this is the meaning of the integer kernels; as ONNX Runtime rounds in them, up "
                f"to {share:.2%} of an output's elements differ ({least:.1f} dB)"
            )

    def difference(self, index: int, a: Array, b: Array) -> Difference:
        import numpy as np

        kind = self.first.function_type.outputs.data[index]
        if not hasattr(a, "dtype") or a.dtype.kind not in "fiub":
            same = bool(np.array_equal(a, b))
            return _EQUAL if same else Difference(inf, inf, 1.0, -inf, ())
        if a.shape != b.shape:
            return Difference(inf, inf, 1.0, -inf, ())
        return compare(a, b, kind)

    def judged(self, worst: Sequence[Difference]) -> list[OutputCheck]:
        outputs: list[OutputCheck] = []
        for index, (name, found) in enumerate(zip(output_names(self.first), worst, strict=True)):
            bound = self.bounds.get(index)
            contract = bound.contract if bound is not None else "exact"
            real = bound is not None and not isfinite(bound.steps)
            allowed = 0.0 if bound is None else bound.real if real else bound.steps
            kind = self.first.function_type.outputs.data[index]
            number = quant_element(kind) is not None or isinstance(element_type(kind), AnyFloat)
            outputs.append(OutputCheck(name, contract, allowed, real, found, number))
        return outputs

    # -- what went wrong --------------------------------------------------------------------

    def excused(self, reference: Run, given: Arrays, expected: Sequence[Array]) -> bool:
        """Whether the original does not answer the same twice."""
        again = reference(given)
        pairs = zip(expected, again, strict=True)
        if all(self.difference(i, a, b).is_equal for i, (a, b) in enumerate(pairs)):
            return False
        self.notes.append("the original answers at random, so that is not judged")
        return True

    def same_in_reference(self, given: Arrays) -> bool:
        """Whether the reference interpreter gives the same bits for both, so that the runtime
        only sums floats in another order (it does where a weight has become constant)."""
        reference, other = self.interpreted()
        try:
            pairs = zip(reference(given), other(given), strict=True)
            same = all(self.difference(i, a, b).is_equal for i, (a, b) in enumerate(pairs))
        except (QError, OutOfTime):
            return False
        if same and _ORDER not in self.notes:
            self.notes.append(_ORDER)
        return same

    def in_reals(self, given: Arrays) -> list[Difference] | None:
        """The differences of codes that both compute in real numbers; None if its rewrites do
        not allow those either."""
        from qdialect.validation.translation import compared

        bounds = [self.bounds.get(index) for index in range(len(output_names(self.first)))]
        if self.form is not None or None in bounds:
            return None  # what is written computes floats, too
        arrays = [given[name] for name in argument_names(self.first)]
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
        if any(one.is_wrong for one in found):
            return None
        if _REALS not in self.notes:
            self.notes.append(_REALS)
        return [one.worst for one in found]

    def refused(self, error: QError) -> InputError:
        return InputError(
            f"the optimized model does not run where the original does: {error.message}",
            where=error.where or self.where(),
            code="outside-contract",
        )

    def where(self, node: str | None = None) -> Where:
        source = self.before.source
        return Where(file=None if source is None else str(source), node=node)

    def refusal(self, wrong: OutputCheck, given: Arrays) -> InputError:
        until = monotonic() + self.seconds
        found = first_divergence(
            (self.before.ctx, self.before.module),
            self.meaning,
            (given, self.given(given)),
            until=until,
        )
        return InputError(
            f"the optimized model is outside its contract: {wrong}",
            where=self.where(None if found is None else found.key),
            code="outside-contract",
            notes=(_first(found), "nothing was written; this is a defect of a pass or a plug-in"),
        )


def _first(found: Divergence | None) -> str:
    if found is None:
        return "no value that both models have differs in the reference interpreter"
    by = f"{found.difference.max_steps:.4g} steps"
    return f"the first value that differs is that of '{found.key}', by up to {by}"


def _size(difference: Difference) -> tuple[bool, float, float]:
    return not difference.is_equal, difference.max_steps, difference.max_abs

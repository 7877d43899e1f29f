"""One result against the original: both run on the same inputs, and each output is compared."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import inf, isfinite
from time import monotonic
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import AnyFloat, ModuleOp

from qdialect.cli.checked import Checked, OutputCheck
from qdialect.cli.execution import main_function
from qdialect.context import QContext
from qdialect.engines.local import output_names
from qdialect.errors import InputError, QError
from qdialect.passes.casts.fold_interface import ROUNDING
from qdialect.quant import element_type, quant_element
from qdialect.reference import Difference, argument_names
from qdialect.reference.compare import compare
from qdialect.validation.divergence import OutOfTime, interpreter
from qdialect.validation.translation import converted

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qdialect.api import Form, Model
    from qdialect.cli.judge import Judge
    from qdialect.formats.onnx.write.written import Written
    from qdialect.rewrite.remarks import OutputBound

    Array = NDArray[Any]
    Arrays = Mapping[str, Array]
    Run = Callable[[Arrays], list[Array]]

IN_RUNTIME = "in ONNX Runtime with its optimizations off"
IN_REFERENCE = "in the reference interpreter"

_EQUAL = Difference(0.0, 0.0, 0.0, inf, None)
_OTHER = Difference(inf, inf, 1.0, -inf, ())

_REALS = (
    "judged in real numbers, which contracts are about: the original rounds floats on its way, "
    "so that as it runs a few codes fall on the other side of a tie"
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
    written: Written | None
    form: Form | None
    notes: list[str] = field(default_factory=list[str])

    def __post_init__(self) -> None:
        self.began = monotonic()
        self.until = self.began + self.judge.seconds
        self.before = self.judge.before
        self.first = self.judge.function
        self.second = main_function(self.after)
        bounds = self.after.ctx.remarks.outputs
        own = [b for b in bounds if b.function == self.second.sym_name.data]
        self.bounds: dict[int, OutputBound] = {bound.result: bound for bound in own}

    # -- the models as they run -----------------------------------------------------------

    @cached_property
    def meaning(self) -> tuple[QContext, ModuleOp]:
        """The module that is judged: what was written, read again."""
        from qdialect.formats.onnx.read import import_model

        if self.written is None:
            return self.after.ctx, self.after.module
        ctx = self.after.ctx.clone()
        return ctx, import_model(self.written.whole(), ctx)

    @property
    def exact(self) -> bool:
        return all(bound.contract == "exact" for bound in self.bounds.values())

    @property
    def same_interface(self) -> bool:
        return self.first.function_type == self.second.function_type

    def engines(self) -> list[tuple[str, Callable[[], tuple[Run, Run]]]]:
        """What may judge, the preferred first."""
        from qdialect.formats.onnx.write.kernels import installed_runtime

        ours = (IN_REFERENCE, self.interpreted)
        fits = self.exact and self.written is not None and self.same_interface
        if not fits or installed_runtime() is None:
            return [ours]
        return [(IN_RUNTIME, self.in_runtime), ours]

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
        from qdialect.formats.onnx.write import OrtEngine, write_model

        original = self.judge.original
        assert self.written is not None
        judged = self.written
        if self.form != "qdq":
            judged = write_model(self.after.module, self.after.ctx)
        try:
            engine = OrtEngine(judged.whole(), optimize=False)
        except QError as error:
            raise _Refused(self.refused(error)) from None

        def reference(inputs: Arrays) -> list[Array]:
            for name in inputs:
                if name not in original.inputs:
                    known = ", ".join(original.inputs)
                    raise InputError(f"no input '{name}' (inputs: {known})", code="bad-input")
            return list(original.run(inputs).values())

        return reference, lambda x: list(engine.run(x).values())

    # -- running ----------------------------------------------------------------------------

    def run(self) -> Checked:
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
                return self.compare(how, reference, other)
        hint = "" if self.judge.inputs is not None else "; --input gives inputs to check on"
        why = f"the original does not run on these inputs ({reasons[0]}){hint}"
        return Checked(self.judge.wanted, 0, "", reason=why)

    def results(self, other: Run, given: Arrays) -> list[Array]:
        try:
            return other(given)
        except QError as error:
            raise _Refused(self.refused(error)) from None

    def failed(self, error: QError) -> Checked:
        return Checked(self.judge.wanted, 0, "", failure=error)

    def compare(self, how: str, reference: Run, other: Run) -> Checked:
        worst = [_EQUAL] * len(output_names(self.first))
        done, reason = 0, ""
        wanted = self.judge.wanted
        wrong: OutputCheck | None = None
        for seed in range(wanted):
            try:
                given, expected = self.judge.sample(how, seed, reference)
                got = self.results(other, given)
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
                self.try_kernels(given, expected)
            found = self.differences(expected, got)
            wrong = next((output for output in self.judged(found) if not output.holds), None)
            if wrong is not None and not self.excused(reference, given, expected):
                allowed = None if how == IN_RUNTIME else self.in_reals(given)
                if allowed is None:
                    self.judge.failing = given
                    return Checked(wanted, done, how, self.judged(found), wrong=wrong)
                found = allowed
            worst = [max(x, y, key=_size) for x, y in zip(worst, found, strict=True)]
            done += 1
            if monotonic() > self.until:
                break
        if done < wanted and not reason:
            reason = f"time is up after {self.judge.seconds:g} s"
        kind = "given" if self.judge.inputs is not None else "random"
        inputs = f"{kind} input{'s' if wanted > 1 else ''} {how}"
        spent = monotonic() - self.began
        return Checked(wanted, done, inputs, self.judged(worst), spent, reason, self.notes)

    def try_kernels(self, given: Arrays, expected: Sequence[Array]) -> None:
        """Run the integer kernels themselves, if those are what is written."""
        from qdialect.formats.onnx.write import OrtEngine
        from qdialect.formats.onnx.write.kernels import installed_runtime

        if self.form != "qoperator" or installed_runtime() is None or not self.same_interface:
            return
        assert self.written is not None
        try:
            got = list(OrtEngine(self.written.whole(), optimize=False).run(given).values())
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

    def differences(self, expected: Sequence[Array], got: Sequence[Array]) -> list[Difference]:
        pairs = enumerate(zip(expected, got, strict=True))
        return [self.difference(index, a, b) for index, (a, b) in pairs]

    def difference(self, index: int, a: Array, b: Array) -> Difference:
        import numpy as np

        kind = self.first.function_type.outputs.data[index]
        if not hasattr(a, "dtype") or a.dtype.kind not in "fiub":
            return _EQUAL if bool(np.array_equal(a, b)) else _OTHER
        return _OTHER if a.shape != b.shape else compare(a, b, kind)

    def judged(self, worst: Sequence[Difference]) -> list[OutputCheck]:
        outputs: list[OutputCheck] = []
        for index, (name, found) in enumerate(zip(output_names(self.first), worst, strict=True)):
            bound = self.bounds.get(index)
            contract = bound.contract if bound is not None else "exact"
            real = bound is not None and not isfinite(bound.steps)
            allowed = 0.0 if bound is None else bound.real if real else bound.steps
            kind = self.first.function_type.outputs.data[index]
            is_float = quant_element(kind) is None and isinstance(element_type(kind), AnyFloat)
            number = is_float or quant_element(kind) is not None
            outputs.append(OutputCheck(name, contract, allowed, real, found, number, is_float))
        return outputs

    # -- what went wrong --------------------------------------------------------------------

    def excused(self, reference: Run, given: Arrays, expected: Sequence[Array]) -> bool:
        """Whether the original does not answer the same twice."""
        if all(found.is_equal for found in self.differences(expected, reference(given))):
            return False
        self.notes.append("the original answers at random, so that is not judged")
        return True

    def in_reals(self, given: Arrays) -> list[Difference] | None:
        """The differences of codes that both compute in real numbers; None if its rewrites do
        not allow those either."""
        from qdialect.validation.translation import compared

        bounds = [self.bounds.get(index) for index in range(len(output_names(self.first)))]
        if self.written is not None or None in bounds:
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
        worst = [one.worst for one in found]
        unbounded = [one for one in self.judged(worst) if not one.bounded and not one.holds]
        if any(one.is_wrong for one in found) or any(not o.may_clip for o in unbounded):
            return None
        if _REALS not in self.notes:
            self.notes.append(_REALS)
        return worst

    def refused(self, error: QError) -> InputError:
        return InputError(
            f"the optimized model does not run where the original does: {error.message}",
            where=error.where or self.judge.where(),
            code="outside-contract",
        )


def _size(difference: Difference) -> tuple[bool, float, float]:
    return not difference.is_equal, difference.max_steps, difference.max_abs

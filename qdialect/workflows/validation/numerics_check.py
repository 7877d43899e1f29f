"""`--verify-numerics`: run the program before and after each pass, and compare the results.

A difference larger than the contracts of the rewrites allow is an error. The error names the single
rewrite that makes it (`bisection`) and the first value that differs (`divergence`), and where a
reduced program is (`reducer`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import isfinite
from time import monotonic
from typing import Any

from numpy.typing import NDArray
from typing_extensions import override
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.passes import ModulePass

from qdialect.analysis.functions import is_private
from qdialect.errors import InputError, QError, UnsupportedError
from qdialect.interpreter import argument_names
from qdialect.ir.context import QContext
from qdialect.ir.ops.locations import op_where
from qdialect.pipeline.manager import Instrumentation, Passes
from qdialect.pipeline.text import PassSpec
from qdialect.rewrite.summary import summarize
from qdialect.workflows.validation.bisection import Culprit, first_wrong_rewrite
from qdialect.workflows.validation.divergence import first_divergence
from qdialect.workflows.validation.reducer import Reducer
from qdialect.workflows.validation.translation import Arrays, Compared, across, compared, drawn

Write = Callable[[ModuleOp, QContext, PassSpec, str], str]
"""Writes a reduced program with the pass and what went wrong; where to."""

SECONDS = 30.0
"""For the reduction of a program that went wrong, and for the search of the first value."""


class NumericsCheck(Instrumentation):
    """Compares every function on `samples` random inputs, half of them at boundaries, and on
    `inputs` of the function that has arguments of these names.

    `say` gets a line for each difference that is allowed and each function that was not compared;
    `write` stores the reduced program of a failure. Raises InputError (`numerics`) from
    `after_pass`.
    """

    def __init__(
        self,
        samples: int,
        *,
        inputs: Mapping[str, NDArray[Any]] | None = None,
        say: Callable[[str], None] = lambda text: None,
        write: Write | None = None,
    ) -> None:
        self._samples = samples
        self._user_inputs = inputs
        self._say = say
        self._write = write
        self._inputs: dict[str, Arrays] = {}
        self._next = 0

    @override
    def before_pipeline(self, ctx: QContext, passes: Passes, module: ModuleOp) -> None:
        """Find the functions that the user's inputs fit; InputError if there is none."""
        self._ctx = ctx
        self._passes = passes
        self._next = 0
        self._inputs = (
            {} if self._user_inputs is None else _inputs_by_function(module, self._user_inputs)
        )

    @override
    def before_pass(self, name: str, module: ModuleOp) -> None:
        """Copy the program."""
        self._before = module.clone()
        self._first_remark = len(self._ctx.remarks.remarks)
        self._spec, self._pass = self._passes[self._next]
        self._next += 1

    @override
    def after_pass(self, name: str, module: ModuleOp) -> None:
        """Compare every function with the copy; InputError (`numerics`) if one is wrong."""
        for function in _functions(module):
            symbol = function.sym_name.data
            if is_private(function):
                continue  # judged by what calls it
            try:
                found = self._compared(self._ctx, module, function, self._first_remark)
            except UnsupportedError as error:
                self._say(f"numerics of @{symbol} not compared after {name}: {error.message}")
                continue
            except QError as error:
                raise InputError(
                    f"@{symbol} cannot be run after pass '{name}': {error.message}",
                    where=error.where or op_where(function),
                    code="numerics",
                ) from None
            for one in found:
                if one.is_wrong:
                    raise self._error(function, one)
                if not one.worst.is_equal:
                    self._say(
                        f"pass '{name}' changed the results of @{symbol} by up to "
                        f"{one.worst.max_steps:g} steps (allowed: {one.allowed:g})"
                    )
            self._transfer(function)

    def _transfer(self, function: FuncOp) -> None:
        symbol = function.sym_name.data
        if symbol in self._inputs:
            types = _named(self._before, symbol).function_type.inputs.data
            self._inputs[symbol] = across(self._ctx, self._inputs[symbol], types, function)

    def _compared(
        self,
        ctx: QContext,
        module: ModuleOp,
        function: FuncOp,
        since: int = 0,
        inputs: Sequence[Arrays] | None = None,
    ) -> list[Compared]:
        symbol = function.sym_name.data
        bounds = [b for b in summarize(ctx, module, since) if b.function == symbol]
        if inputs is None:
            inputs = drawn(_named(self._before, symbol), self._samples)
            inputs += [self._inputs[symbol]] if symbol in self._inputs else []
        return compared(ctx, self._before, module, function, bounds, inputs)

    # -- what went wrong -----------------------------------------------------------

    def _error(self, function: FuncOp, found: Compared) -> InputError:
        symbol, name = function.sym_name.data, self._spec.name
        message = (
            f"pass '{name}' changed the results of @{symbol} by up to {found.worst.max_steps:g} "
            f"steps in {found.worst.share_differing:.2%} of the elements; "
            f"its rewrites allow {found.allowed:g}"
        )
        notes: list[str] = []
        culprit = self._culprit(symbol, found.inputs)
        if culprit is not None:
            done = culprit.rewrite
            place = f"{done.location}: " if done.location else ""
            key = f" ({done.key})" if done.key else ""
            notes.append(
                f"{place}rewrite {culprit.number} of {culprit.total} makes it: "
                f"{done.rule} on '{done.op}'{key}, said to be {done.contract}"
            )
            first = self._first_value(culprit, symbol, found.inputs)
            notes += [] if first is None else [first]
        notes.append(self._reduced(symbol, message))
        return InputError(
            message, where=op_where(function), code="numerics", notes=tuple(filter(None, notes))
        )

    def _culprit(self, symbol: str, inputs: Arrays) -> Culprit | None:
        def is_wrong(ctx: QContext, module: ModuleOp) -> bool:
            try:
                found = self._compared(ctx, module, _named(module, symbol), 0, [inputs])
            except QError:
                return False
            return any(one.is_wrong for one in found)

        return first_wrong_rewrite(self._ctx, self._before, self._pass, is_wrong)

    def _first_value(self, culprit: Culprit, symbol: str, inputs: Arrays) -> str | None:
        start = _named(self._before, symbol)
        types = start.function_type.inputs.data
        both = [_named(module, symbol) for module in (culprit.before, culprit.after)]
        named = [
            dict(zip(argument_names(f), across(self._ctx, inputs, types, f), strict=True))
            for f in both
        ]
        found = first_divergence(
            (culprit.ctx, culprit.before),
            (culprit.ctx, culprit.after),
            (named[0], named[1]),
            until=monotonic() + SECONDS,
            symbol=symbol,
        )
        if found is None or found.difference.first_index is None:
            return None
        steps, index = found.difference.max_steps, list(found.difference.first_index)
        by = f"{steps:g} steps" if isfinite(steps) else "an infinite distance"
        return f"the first value that differs is that of '{found.key}', at {index}, by up to {by}"

    def _reduced(self, symbol: str, message: str) -> str:
        if self._write is None:
            return ""
        instance, ctx = self._pass, self._ctx

        def fails(module: ModuleOp) -> bool:
            return is_broken(ctx, module, instance, symbol, max(self._samples, 2))

        reducer = Reducer(ctx, symbol, fails, SECONDS)
        small = reducer.reduce(self._before)
        return self._write(small, ctx, self._spec, message)


def is_broken(
    ctx: QContext, module: ModuleOp, instance: ModulePass, symbol: str, samples: int
) -> bool:
    """Whether a pass makes another function of a program than its rewrites allow, on random
    inputs.  QError where the program cannot be run."""
    session, after = ctx.clone(), module.clone()
    instance.apply(session, after)
    function = _named(after, symbol)
    bounds = [b for b in summarize(session, after) if b.function == symbol]
    inputs = drawn(_named(module, symbol), samples)
    return any(o.is_wrong for o in compared(session, module, after, function, bounds, inputs))


def _functions(module: ModuleOp) -> list[FuncOp]:
    return [op for op in module.ops if isinstance(op, FuncOp) and not op.is_declaration]


def _named(module: ModuleOp, symbol: str) -> FuncOp:
    return next(op for op in _functions(module) if op.sym_name.data == symbol)


def _inputs_by_function(module: ModuleOp, inputs: Mapping[str, NDArray[Any]]) -> dict[str, Arrays]:
    """`inputs` for each function that has arguments of these names; InputError if none has."""
    found: dict[str, Arrays] = {}
    for function in _functions(module):
        names = argument_names(function)
        if set(names) == set(inputs):
            found[function.sym_name.data] = [inputs[name] for name in names]
    if not found:
        takes = "; ".join(
            f"@{f.sym_name.data} takes {', '.join(argument_names(f)) or 'nothing'}"
            for f in _functions(module)
        )
        raise InputError(
            f"the given inputs ({', '.join(inputs) or 'none'}) are those of no function: {takes}",
            code="bad-input",
        )
    return found

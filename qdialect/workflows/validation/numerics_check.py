"""`--verify-numerics`: run the program before and after each pass, and compare the results.

A difference larger than the contracts of the rewrites allow is an error. The error names the single
rewrite that makes it (`bisection`) and the first value that differs (`divergence`), and where a
reduced program is (`reducer`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import isfinite
from time import monotonic
from typing import Any

from numpy.typing import NDArray
from typing_extensions import override
from xdsl.dialects.builtin import FunctionType, ModuleOp, TensorType
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.traits import ConstantLike

from qdialect.analysis.functions import is_private
from qdialect.errors import InputError, QError, UnsupportedError
from qdialect.interpreter import argument_names
from qdialect.ir.context import QContext
from qdialect.ir.ops.locations import op_where
from qdialect.ir.verify.verifier import verify_module
from qdialect.pipeline.manager import Instrumentation, Passes
from qdialect.pipeline.text import PassSpec
from qdialect.rewrite.rewriter import is_dead
from qdialect.rewrite.summary import summarize
from qdialect.workflows.validation.bisection import Culprit, first_wrong_rewrite
from qdialect.workflows.validation.divergence import first_divergence
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


# Reduce a program to a smaller one on which a fault still shows (delta debugging).
#
# The reducer tries three kinds of cuts and keeps each one after which the caller still sees the
# fault: return one result only; return a value inside the function instead, which drops everything
# below it; make the results of a range of ops arguments, which drops everything above them. Ranges
# are halved down to single ops.

Fails = Callable[[ModuleOp], bool]


class Reducer:
    """Makes one function of a module smaller while `fails` holds, for some seconds at most."""

    def __init__(self, ctx: QContext, symbol: str, fails: Fails, seconds: float = 30.0) -> None:
        self._ctx = ctx
        self._symbol = symbol
        self._fails = fails
        self._until = monotonic() + seconds
        #: how many programs were tried
        self.tried = 0

    def reduce(self, module: ModuleOp) -> ModuleOp:
        """The smallest program found, or `module` if nothing smaller fails; `module` is not
        changed."""
        best = self._cut(module, _without_others)
        size = -1
        while size != (size := _size(best)) and monotonic() < self._until:
            best = self._one_result(best)
            best = self._shallower(best)
            best = self._without_ops(best)
        return best

    def _cut(self, module: ModuleOp, cut: Callable[[FuncOp], bool]) -> ModuleOp:
        """The module after a cut (False: there is nothing to cut) if it still fails."""
        if monotonic() > self._until:
            return module
        candidate = module.clone()
        function = _function(candidate, self._symbol)
        if not cut(function):
            return module
        _clean(function, self._ctx)
        self.tried += 1
        try:
            verify_module(candidate, self._ctx.blobs, behaviors=self._ctx.behaviors)
            return candidate if self._fails(candidate) else module
        except (QError, ArithmeticError, ValueError):
            return module

    def _one_result(self, module: ModuleOp) -> ModuleOp:
        count = len(_return(_function(module, self._symbol)).operands)
        for index in range(count if count > 1 else 0):
            smaller = self._cut(
                module, lambda f, i=index: _return_only(f, [_return(f).operands[i]])
            )
            if smaller is not module:
                return smaller
        return module

    def _shallower(self, module: ModuleOp) -> ModuleOp:
        """Bisects for the first op whose results are wrong already."""
        low, high = 0, len(_ops(_function(module, self._symbol)))
        while low < high:
            middle = (low + high) // 2
            smaller = self._cut(module, lambda f, n=middle: _return_only(f, _results(_ops(f)[n])))
            if smaller is module:
                low = middle + 1
            else:
                module, high = smaller, min(middle, len(_ops(_function(smaller, self._symbol))) - 1)
                low = min(low, high)
                if high <= 0 or low == high:
                    break
        return module

    def _without_ops(self, module: ModuleOp) -> ModuleOp:
        count = len(_ops(_function(module, self._symbol)))
        length = max(count // 2, 1)
        while length:
            start = 0
            while start < len(_ops(_function(module, self._symbol))):
                smaller = self._cut(
                    module, lambda f, a=start, b=start + length: _make_arguments(_ops(f)[a:b], f)
                )
                start += length if smaller is module else 0
                module = smaller
                if monotonic() > self._until:
                    return module
            length //= 2
        return module


def _function(module: ModuleOp, symbol: str) -> FuncOp:
    return next(op for op in module.ops if isinstance(op, FuncOp) and op.sym_name.data == symbol)


def _return(function: FuncOp) -> ReturnOp:
    last = function.body.blocks[-1].last_op
    assert isinstance(last, ReturnOp)
    return last


def _ops(function: FuncOp) -> list[Operation]:
    """The ops of the function in order, but for its end and constants."""
    ops: Iterator[Operation] = iter(function.body.block.ops)
    return [
        op
        for op in ops
        if not isinstance(op, ReturnOp)
        and not op.has_trait(ConstantLike, value_if_unregistered=False)
    ]


def _size(module: ModuleOp) -> int:
    return sum(1 for _ in module.walk())


def _results(op: Operation) -> list[SSAValue]:
    return [value for value in op.results if isinstance(value.type, TensorType)]


def _without_others(function: FuncOp) -> bool:
    module = function.parent_op()
    assert isinstance(module, ModuleOp)
    others = [op for op in module.ops if op is not function]
    for op in others:
        op.detach()
        op.erase()
    return bool(others)


def _return_only(function: FuncOp, values: Sequence[SSAValue]) -> bool:
    last = _return(function)
    if not values or list(last.operands) == list(values):
        return False
    last.operands = list(values)
    function.res_attrs = None
    return True


def _make_arguments(ops: Sequence[Operation], function: FuncOp) -> bool:
    inside = set(ops)
    block = function.body.block
    names = function.arg_attrs
    changed = False
    for op in reversed(ops):
        if op.regions or any(not isinstance(value.type, TensorType) for value in op.results):
            continue
        for value in op.results:
            if any(use.operation not in inside for use in value.uses):
                argument = block.insert_arg(value.type, len(block.args))
                value.replace_all_uses_with(argument)
                changed = True
    if changed and names is not None:
        function.arg_attrs = None
    return changed


def _clean(function: FuncOp, ctx: QContext) -> None:
    """Erase dead ops and unused arguments; the type and attributes of what is left."""
    for op in reversed(list(function.body.block.ops)):
        if is_dead(op, ctx.behaviors):
            op.detach()
            op.erase()
    block = function.body.block
    used = [argument.first_use is not None for argument in block.args]
    if function.arg_attrs is not None:
        pairs = zip(function.arg_attrs, used, strict=True)
        function.arg_attrs = type(function.arg_attrs)([a for a, keep in pairs if keep])
    for argument in [a for a, keep in zip(block.args, used, strict=True) if not keep]:
        block.erase_arg(argument)
    outputs = [value.type for value in _return(function).operands]
    function.function_type = FunctionType.from_lists([a.type for a in block.args], outputs)
    attributes = ("sym_name", "function_type", "sym_visibility")
    for name in [name for name in function.attributes if name not in attributes]:
        del function.attributes[name]

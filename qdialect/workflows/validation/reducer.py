"""Reduce a program to a smaller one on which a fault still shows (delta debugging).

The reducer tries three kinds of cuts and keeps each one after which the caller still sees the
fault: return one result only; return a value inside the function instead, which drops everything
below it; make the results of a range of ops arguments, which drops everything above them. Ranges
are halved down to single ops.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from time import monotonic

from xdsl.dialects.builtin import FunctionType, ModuleOp, TensorType
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Operation, SSAValue
from xdsl.traits import ConstantLike

from qdialect.errors import QError
from qdialect.ir.context import QContext
from qdialect.ir.verify.verifier import verify_module
from qdialect.rewrite.rewriter import is_dead

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

"""StableHLO as `nn` and `quant`: the way back of `convert-nn-to-stablehlo`.

An op of StableHLO on quantized types dequantizes, computes, and quantizes once: that is what an op
of `nn` on the same types means. Ops on floats become those of `nn` on floats. Functions that are
called are raised where they are called. An op that has no exact counterpart stays as it is, and a
remark says why: such a module runs in the interpreter all the same.

StableHLO rounds to even after the zero point was added, `nn` before: where the zero point is odd
and there may be ties, the two differ in which way a tie rounds. Such an op stays under
`numerics=exact`, and is raised under `ties` and weaker contracts.

For example

    %0 = stablehlo.add %x, %y : (!x, !y) -> !z

becomes

    %0 = nn.add %x, %y : (!x, !y) -> !z
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, cast

from typing_extensions import override
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, SymbolRefAttr, TensorType
from xdsl.dialects.func import CallOp, FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.passes import ModulePass

from qdialect.algebra.contract import Numerics, level_named
from qdialect.errors import InputError
from qdialect.ir.context import QContext, session
from qdialect.ir.quant import quant_element
from qdialect.plugins.common.lowering.laid_out import identity_order
from qdialect.plugins.common.raising.errors import Unraisable
from qdialect.plugins.common.raising.raised import Conversion, Raised
from qdialect.plugins.stablehlo.raising import (
    contraction,
    elementwise,
    movement,
    quantized,
    reduction,
)
from qdialect.plugins.stablehlo.raising.constants import constant_result
from qdialect.plugins.stablehlo.raising.integer_form import integer_handlers
from qdialect.plugins.stablehlo.raising.raiser import Handler, Raiser


@cache
def handlers() -> Mapping[str, Handler]:
    """How each op of StableHLO is raised, by its full name."""
    found = {
        **contraction.HANDLERS,
        **elementwise.HANDLERS,
        **movement.HANDLERS,
        **quantized.HANDLERS,
        **reduction.HANDLERS,
    }
    return {**found, **integer_handlers(found)}


@dataclass(frozen=True)
class RaiseStablehlo(ModulePass):
    """All functions of a module that have ops of StableHLO; see the module."""

    name = "raise-stablehlo"

    numerics: str = "exact"
    """weakest contract class that may fire"""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Raise the functions in place; ops that cannot be raised stay, with a remark."""
        level, at = level_named(self.numerics), session(ctx)
        functions = {f.sym_name.data: f for f in op.ops if isinstance(f, FuncOp)}
        names = {called(inner) for inner in op.walk()}
        for name, function in functions.items():
            if function.is_declaration or not _has_stablehlo(function, functions):
                continue
            if name in names and _is_private(function):
                continue
            if len(function.body.blocks) != 1:
                reason = "it has branches between blocks"
                at.remarks.at(function, "refused", self.name, "control-flow", reason)
                continue
            _Function(at, function, functions, level).convert()
        _erase_unused(op, functions)


def _is_private(function: FuncOp) -> bool:
    visibility = function.sym_visibility
    return visibility is not None and visibility.data == "private"


def called(op: Operation) -> str | None:
    """The function that `op` runs: of a call, or the decomposition of a composite."""
    if isinstance(op, CallOp):
        return op.callee.string_value()
    name = op.properties.get("decomposition") if op.name == "stablehlo.composite" else None
    return name.string_value() if isinstance(name, SymbolRefAttr) else None


def is_ours(op: Operation) -> bool:
    """Whether an op belongs to StableHLO or CHLO."""
    return op.name.startswith(("stablehlo.", "chlo."))


def _has_stablehlo(function: FuncOp, functions: Mapping[str, FuncOp]) -> bool:
    """Whether a function, or one that it calls, has ops of StableHLO."""
    pending, seen = [function], {function.sym_name.data}
    while pending:
        for op in pending.pop().body.walk():
            if is_ours(op):
                return True
            name = called(op)
            if name is not None and name in functions and name not in seen:
                seen.add(name)
                pending.append(functions[name])
    return False


def _erase_unused(module: ModuleOp, functions: Mapping[str, FuncOp]) -> None:
    """Private functions that nothing names any more."""
    while True:
        named = {
            str(reference)
            for op in module.walk()
            for value in (*op.properties.values(), *op.attributes.values())
            for reference in (value, *_members(value))
            if type(reference).__name__ == "SymbolRefAttr"
        }
        unused = [
            f
            for name, f in functions.items()
            if f.parent is not None and _is_private(f) and not any(name in n for n in named)
        ]
        if not unused:
            return
        for function in unused:
            function.detach()
            function.erase()


def _members(value: Attribute) -> Sequence[Attribute]:
    data = getattr(value, "data", ())
    if not isinstance(data, tuple):
        return []
    return [m for m in cast("tuple[object, ...]", data) if isinstance(m, Attribute)]


class _Function(Conversion[Raiser]):
    """One function, with those that it calls in their place."""

    def __init__(
        self, at: QContext, function: FuncOp, functions: Mapping[str, FuncOp], numerics: Numerics
    ) -> None:
        super().__init__(RaiseStablehlo.name, function, Raiser(at, numerics))
        self.functions = functions
        self.active = [function.sym_name.data]

    def convert(self) -> None:
        """Build the new block and put it in place of the old one."""
        old = self.function.body.block
        block = self.begin(list(old.arg_types))
        self.end(block, [self.as_it_was(value) for value in self._body(old)])

    def _body(self, block: Block) -> Sequence[SSAValue]:
        """Raise the ops of a block; what it returns."""
        for op in block.ops:
            self.raiser.source = op
            if isinstance(op, ReturnOp):
                return op.operands
            name = called(op)
            if name is not None:
                self._call(op, name)
            else:
                self._convert(op)
        raise InputError(f"function '{self.active[-1]}' does not end in func.return")

    def _call(self, op: Operation, name: str) -> None:
        """A function that is called, raised in its place."""
        callee = self.functions.get(name)
        if (
            callee is None
            or name in self.active
            or len(callee.body.blocks) != 1
            or not _has_stablehlo(callee, self.functions)
        ):
            self.keep(op)
            return
        block = callee.body.block
        self.known.update(
            (inner, self.known[outer]) for inner, outer in zip(block.args, op.operands, strict=True)
        )
        self.active.append(name)
        returned = self._body(block)
        self.active.pop()
        self.known.update(
            (result, self.known[value]) for result, value in zip(op.results, returned, strict=True)
        )

    def _convert(self, op: Operation) -> None:
        if not is_ours(op):
            self.keep(op)
            return
        if self._computed(op):
            return
        ties = self.raiser.ties
        if not self.attempt(op, lambda: self._raised(op)):
            self.raiser.ties = ties

    def _raised(self, op: Operation) -> Sequence[Raised]:
        handler = handlers().get(op.name)
        if handler is None or len(op.results) != 1:
            raise Unraisable("no-counterpart", "nothing of ours computes the same")
        _require_static(op)
        return [handler(self.raiser, op, [self.known[value] for value in op.operands])]

    def _computed(self, op: Operation) -> bool:
        operands = [self.known[value] for value in op.operands]
        if len(op.results) != 1 or any(x.array is None for x in operands):
            return False
        kind = op.results[0].type
        if not isinstance(kind, TensorType) or op.regions:
            return False
        shape = tuple(cast("TensorType[Any]", kind).get_shape())
        if min(shape, default=0) < 0:
            return False
        arrays = [x.array for x in operands if x.array is not None]
        array = constant_result(op, arrays, shape, self.session)
        if array is None:
            return False
        element = cast("TensorType[Any]", kind).element_type
        self.known[op.results[0]] = Raised(identity_order(array.ndim), None, array, element)
        return True

    @override
    def check_type(self, op: Operation, raised: Raised, index: int) -> None:
        kind = cast("TensorType[Any]", op.results[index].type)
        element = quant_element(kind)
        if raised.value is None:
            return
        found = quant_element(raised.value.type)
        same = raised.kind == kind.element_type if element is None else found is not None
        if element is not None and found is not None:
            axis = element.qparams.axis
            expected = (
                element.qparams if axis is None else element.qparams.with_axis(raised.order[axis])
            )
            same = found.qparams == expected
        if not same:
            raise Unraisable("type", f"its result would have the type {raised.value.type}")

    @override
    def as_it_was(self, value: SSAValue) -> SSAValue:
        x = self.known[value]
        if x.value is not None and not isinstance(x.value.type, TensorType):
            return x.value
        return self.raiser.value(x, identity_order(x.rank))


def _require_static(op: Operation) -> None:
    """Unraisable (`dynamic-shape`) unless all extents are known."""
    for value in (*op.operands, *op.results):
        kind = value.type
        if not isinstance(kind, TensorType):
            raise Unraisable("type", f"it has a value of type {kind}")
        if any(n < 0 for n in cast("TensorType[Any]", kind).get_shape()):
            raise Unraisable("dynamic-shape", "an extent is not known")

"""TOSA as `nn` and `quant`, bit by bit: the way back of `convert-nn-to-tosa`.

Each op of TOSA becomes the op of `nn` that computes the same integers on quantized types
(`meanings`), or on floats the same function. Where it cannot, it stays as it is, on plain
integers, and a remark says why: such a module runs in the interpreter all the same.

Nothing is rounded here: a `tosa.rescale` becomes a `quant.rescale` with its multipliers and
shifts, and sums keep their 32 bits. `convert-rescale{form=real}` and `combine-rescale` then make
quantized ops of them where that is exact.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, cast

from typing_extensions import override
from xdsl.context import Context
from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    ModuleOp,
    TensorType,
    UnrankedTensorType,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.passes import ModulePass

from qdialect.ir.context import QContext, session
from qdialect.ir.ops.constants import element_name
from qdialect.ir.quant import UniformType, quant_element
from qdialect.ir.quant.arithmetic import ARITHMETIC_KEY
from qdialect.ir.weights import DTYPES
from qdialect.plugins.common.lowering.debug_attributes import (
    AXIS,
    INTERFACE,
    ORDER,
    SCALE,
    STORAGE,
    ZERO_POINT,
)
from qdialect.plugins.common.lowering.laid_out import identity_order
from qdialect.plugins.common.raising.errors import Unraisable
from qdialect.plugins.common.raising.raised import Conversion, Raised
from qdialect.plugins.tosa.raising import (
    casts,
    contraction,
    elementwise,
    movement,
    pooling,
    rescale,
    resize,
)
from qdialect.plugins.tosa.raising.facts import constant_of, name_of
from qdialect.plugins.tosa.raising.meanings import Meanings
from qdialect.plugins.tosa.raising.raiser import Handler, Raiser

_MARKS = (SCALE, ZERO_POINT, AXIS, ORDER, STORAGE)


@cache
def handlers() -> Mapping[str, Handler]:
    """How each op of TOSA is raised, by its name without the dialect."""
    return {
        **casts.HANDLERS,
        **contraction.HANDLERS,
        **elementwise.HANDLERS,
        **movement.HANDLERS,
        **pooling.HANDLERS,
        **rescale.HANDLERS,
        **resize.HANDLERS,
    }


@dataclass(frozen=True)
class RaiseTosa(ModulePass):
    """All functions of a module that have ops of TOSA; see the module.

    For example

        %0 = "tosa.rescale"(%x, %m, %k, %zi, %zo) : (...) -> tensor<4xi8>

    becomes

        %0 = quant.rescale %x rounding half_up multiplier [...] shift [...] : ...
    """

    name = "raise-tosa"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Raise the functions in place; ops that cannot be raised stay, with a remark."""
        if not any(inner.name.startswith(("nn.", "quant.")) for inner in op.walk()):
            # Of a model that was exported: its integers are computed as TOSA does now.
            op.attributes.pop(ARITHMETIC_KEY, None)
        for function in [f for f in op.ops if isinstance(f, FuncOp) and not f.is_declaration]:
            if not any(name_of(inner) for inner in function.body.walk()):
                continue
            if len(function.body.blocks) != 1:
                reason = "it has branches between blocks"
                remarks = session(ctx).remarks
                remarks.at(function, "refused", self.name, "control-flow", reason)
                continue
            _Function(session(ctx), function).convert()


class _Function(Conversion[Raiser]):
    """One function, raised beside the one that stands there."""

    def __init__(self, at: QContext, function: FuncOp) -> None:
        self.old = function.body.blocks[0]
        self.meanings = Meanings(at, function, self.old)
        super().__init__(RaiseTosa.name, function, Raiser(at, self.meanings))
        for op in self.meanings.disagreeing:
            self.refuse(op, "marks", "the scale stated of its result is not what it computes")

    def convert(self) -> None:
        """Build the new block and put it in place of the old one."""
        block = self.begin([self._argument(value) for value in self.old.args])
        results: list[SSAValue] = []
        for op in self.old.ops:
            self.raiser.source = op
            if isinstance(op, ReturnOp):
                results = [self._returned(value) for value in op.operands]
                continue
            self._convert(op)
        function, kind = self.function, self.end(block, results)
        function.arg_attrs = _unmarked(function.arg_attrs, kind.inputs.data)
        function.res_attrs = _unmarked(function.res_attrs, kind.outputs.data)

    def _argument(self, value: SSAValue) -> Attribute:
        stated = self.meanings.stated(value)
        if stated is not None:
            return _retyped(value.type, UniformType(stated))
        if self.meanings.is_quantized(value):
            return _retyped(value.type, UniformType(self.meanings.params(value)))
        return value.type

    def _returned(self, value: SSAValue) -> SSAValue:
        x = self.known[value]
        if x.array is not None:
            if self.meanings.is_quantized(value):
                return self.raiser.typed(x, self.meanings.params(value))
            return self.raiser.plain(x)
        turned = self.raiser.in_order(x, identity_order(x.rank))
        assert turned.value is not None
        return turned.value

    def _convert(self, op: Operation) -> None:
        name = name_of(op)
        if name == "const" or constant_of_arith(op):
            self._constant(op)
        elif name in ("", "const_shape"):
            self.keep(op)
        else:
            self.attempt(op, lambda: self._raised(op, name))

    def _raised(self, op: Operation, name: str) -> Sequence[Raised]:
        handler = handlers().get(name)
        if handler is None or len(op.results) != 1:
            raise Unraisable("no-counterpart", "nothing of ours computes the same")
        if any(isinstance(v.type, UnrankedTensorType) for v in (*op.operands, *op.results)):
            raise Unraisable("dynamic-shape", "a value has no rank")
        return [handler(self.raiser, op, [self.known[value] for value in op.operands])]

    def _constant(self, op: Operation) -> None:
        (value,) = op.results
        array = constant_of(value, self.session)
        kind = cast("TensorType[Any]", value.type)
        element = quant_element(kind)
        stored = kind.element_type if element is None else _stored_element(element)
        name = element_name(stored)
        known = array is not None and name in DTYPES and name[:2] not in ("bf", "f8")
        if not known:
            self.keep(op)
            return
        assert array is not None
        self.known[value] = Raised(identity_order(array.ndim), None, array, stored)

    @override
    def keep(self, op: Operation) -> Operation:
        """The op itself, on plain integers."""
        copy = super().keep(op)
        for name in _MARKS:
            copy.attributes.pop(name, None)
        return copy

    @override
    def as_it_was(self, value: SSAValue) -> SSAValue:
        x = self.known[value]
        if not _is_tensor(value.type):
            assert x.value is not None
            return x.value
        element = quant_element(value.type)
        if element is not None:
            return self.raiser.typed(x, element.qparams, identity_order(x.rank))
        if x.array is not None:
            return self.raiser.tosa_constant(x)
        return self.raiser.plain(x)


def constant_of_arith(op: Operation) -> bool:
    """Whether an op is a tensor constant of arith."""
    return op.name == "arith.constant" and _is_tensor(op.results[0].type)


def _is_tensor(kind: Attribute) -> bool:
    return isinstance(kind, TensorType)


def _stored_element(element: UniformType) -> Attribute:
    from qdialect.ir.quant import storage_type

    return storage_type(element.qparams)


def _retyped(kind: Attribute, element: Attribute) -> Attribute:
    return TensorType(element, list(cast("TensorType[Any]", kind).get_shape()))


def _unmarked(
    tables: ArrayAttr[DictionaryAttr] | None, kinds: Sequence[Attribute]
) -> ArrayAttr[DictionaryAttr] | None:
    """The attributes of arguments or results without marks that their types say now."""
    if tables is None:
        return None
    kept = [
        {
            name: value
            for name, value in table.data.items()
            if quant_element(kind) is None or name not in {INTERFACE + mark for mark in _MARKS}
        }
        for table, kind in zip(tables, kinds, strict=True)
    ]
    return ArrayAttr([DictionaryAttr(table) for table in kept]) if any(kept) else None

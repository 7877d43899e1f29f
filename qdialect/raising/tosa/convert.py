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

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp, TensorType
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import VerifyException

from qdialect.context import QContext, session
from qdialect.lowerings.debug_attributes import (
    AXIS,
    INTERFACE,
    MARKED_KEY,
    ORDER,
    SCALE,
    STORAGE,
    ZERO_POINT,
)
from qdialect.lowerings.laid_out import identity_order
from qdialect.ops import shape_of
from qdialect.ops.constants import element_name
from qdialect.quant import UniformType, quant_element
from qdialect.quant.arithmetic import ARITHMETIC_KEY
from qdialect.raising.errors import Unraisable
from qdialect.raising.raised import Raised, replace_body
from qdialect.raising.tosa import (
    casts,
    contraction,
    elementwise,
    movement,
    pooling,
    rescale,
    resize,
)
from qdialect.raising.tosa.facts import constant_of, name_of
from qdialect.raising.tosa.meanings import Meanings
from qdialect.raising.tosa.raiser import Handler, Raiser
from qdialect.rewrite.remarks import Remark, key_text, location_text
from qdialect.weights import DTYPES

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
                note(session(ctx), function, "control-flow", "it has branches between blocks")
                continue
            _Function(session(ctx), function).convert()


def note(session: QContext, op: Operation, code: str, reason: str) -> None:
    """A remark that `op` stays as it is."""
    session.remarks.add(
        Remark(
            "refused",
            RaiseTosa.name,
            RaiseTosa.name,
            location_text(op.location),
            f"tosa.{name_of(op)}" if name_of(op) else op.name,
            key_text(op),
            code=code,
            reason=reason,
        )
    )


class _Function:
    """One function, raised beside the one that stands there."""

    def __init__(self, session: QContext, function: FuncOp) -> None:
        self.session = session
        self.function = function
        self.old = function.body.blocks[0]
        self.meanings = Meanings(session, function, self.old)
        self.raiser = Raiser(session, self.meanings)
        self.known = self.raiser.known
        for op in self.meanings.disagreeing:
            note(session, op, "marks", "the scale stated of its result is not what it computes")

    def convert(self) -> None:
        """Build the new block and put it in place of the old one."""
        block = Block(arg_types=[self._argument(value) for value in self.old.args])
        for before, after in zip(self.old.args, block.args, strict=True):
            after.name_hint = before.name_hint
            rank = len(cast("Any", after.type).get_shape()) if _is_tensor(after.type) else 0
            self.known[before] = Raised(identity_order(rank), after)
        results: list[SSAValue] = []
        for op in self.old.ops:
            self.raiser.source = op
            if isinstance(op, ReturnOp):
                results = [self._returned(value) for value in op.operands]
                continue
            self._convert(op)
        block.add_ops([*self.raiser.operations, ReturnOp(*results)])
        self._commit(block, [value.type for value in results])

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
            return
        if name == "const_shape" or (not name and not op.operands and not op.results):
            self._keep(op)
            return
        handler = handlers().get(name)
        count = len(self.raiser.operations)
        try:
            if handler is None or len(op.results) != 1:
                raise Unraisable("no-counterpart", "nothing of ours computes the same")
            operands = [self.known[value] for value in op.operands]
            raised = handler(self.raiser, op, operands)
            self._check(op, raised, count)
        except (Unraisable, VerifyException) as error:  # VerifyException: `nn` refuses
            code = error.code if isinstance(error, Unraisable) else "invalid"
            self.raiser.forget(count)
            if name:
                note(self.session, op, code, str(error).partition("\n")[0])
            self._keep(op)
            return
        if raised.value is not None and raised.value.name_hint is None:
            raised.value.name_hint = op.results[0].name_hint
        self.known[op.results[0]] = raised

    def _check(self, op: Operation, raised: Raised, count: int) -> None:
        """Unraisable where one of the new ops (behind `count` others) is wrong, or the result
        is not what the op's type says."""
        self.raiser.check(count)
        shape = shape_of(op.results[0])
        fits = len(shape) == raised.rank and all(
            a == b or a < 0 or b < 0 for a, b in zip(shape, raised.shape, strict=True)
        )
        if not fits:
            raise Unraisable("shape", f"it would have the shape {raised.shape}, not {shape}")

    def _constant(self, op: Operation) -> None:
        (value,) = op.results
        array = constant_of(value, self.session)
        kind = cast("TensorType[Any]", value.type)
        element = quant_element(kind)
        stored = kind.element_type if element is None else _stored_element(element)
        name = element_name(stored)
        known = array is not None and name in DTYPES and name[:2] not in ("bf", "f8")
        if not known:
            self._keep(op)
            return
        assert array is not None
        self.known[value] = Raised(identity_order(array.ndim), None, array, stored)

    def _keep(self, op: Operation) -> None:
        """The op itself, on plain integers, as TOSA lays them out."""
        mapped: dict[SSAValue, SSAValue] = {}
        captured = [v for inner in op.walk() for v in inner.operands if v in self.known]
        for value in dict.fromkeys(captured):
            mapped[value] = self._as_it_was(value)
        copy = op.clone(mapped)
        for name in (*_MARKS, MARKED_KEY):
            if name != MARKED_KEY:
                copy.attributes.pop(name, None)
        self.raiser.append(copy)
        for before, after in zip(op.results, copy.results, strict=True):
            rank = len(shape_of(after)) if _is_tensor(after.type) else 0
            self.known[before] = Raised(identity_order(rank), after)

    def _as_it_was(self, value: SSAValue) -> SSAValue:
        """A value with the type that the op has for it."""
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

    def _commit(self, block: Block, results: Sequence[Attribute]) -> None:
        function, kind = self.function, replace_body(self.function, block, results)
        function.arg_attrs = _unmarked(function.arg_attrs, kind.inputs.data)
        function.res_attrs = _unmarked(function.res_attrs, kind.outputs.data)


def constant_of_arith(op: Operation) -> bool:
    """Whether an op is a tensor constant of arith."""
    return op.name == "arith.constant" and _is_tensor(op.results[0].type)


def _is_tensor(kind: Attribute) -> bool:
    return isinstance(kind, TensorType)


def _stored_element(element: UniformType) -> Attribute:
    from qdialect.quant import storage_type

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

"""Turning functions over `nn` and `quant` into another dialect, op by op.

Every value becomes its stored integers; every op operations that compute the same integers.
Nothing is rounded, moved or approximated here, and whatever has no exact counterpart is
refused, with the op and the nearest form that has one, before anything is changed. So the
interpreter's result on the module before is what every engine must give on the module after.

Operations carry, as attributes that any reader keeps or drops, what their integers mean:
`key`, `scale`, `zero_point`, `axis` and others (`qdialect.lowerings.debug_attributes`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, NoReturn

from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    FunctionType,
    IntegerType,
    ModuleOp,
    i64,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, SSAValue

from qdialect.analysis.codes import qparams_of
from qdialect.behaviors.shapes import shape_of
from qdialect.context import QContext
from qdialect.errors import UnsupportedError
from qdialect.lowerings.debug_attributes import INTERFACE, marks
from qdialect.lowerings.emitter import E, Lowering, type_of
from qdialect.lowerings.errors import Unlowerable
from qdialect.lowerings.laid_out import LaidOut, plain
from qdialect.ops import ConstantOp, constant_array
from qdialect.qparams import QParams
from qdialect.verify.verifier import op_where

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Typed(Generic[E]):
    """How functions keep quantized types: their codes from a value, and a value from codes."""

    stored: Callable[[E, SSAValue, QParams], SSAValue]
    typed: Callable[[E, SSAValue, QParams], SSAValue]


@dataclass(frozen=True)
class Dialect(Generic[E]):
    """What is lowered to: its name for people and in codes, how its operations are made, and
    the lowering of every op that it can express."""

    name: str
    code: str
    emitter: Callable[[QContext], E]
    lowerings: Mapping[str, Lowering[E]]
    kept: Sequence[str] = field(default=())
    """Prefixes of ops that stay as they are."""
    movement: Lowering[E] | None = None
    """How an op without one is lowered if it is declared as a movement."""
    index: IntegerType = i64
    """What is held in place of indices of 64 bits."""
    types: Typed[E] | None = None
    """Functions take and give quantized values, and not their codes."""


def convert_module(session: QContext, module: ModuleOp, to: Dialect[E]) -> None:
    """All functions of `module` in another dialect; UnsupportedError, and nothing done, at
    the first op it cannot express."""
    functions = [f for f in module.ops if isinstance(f, FuncOp) and not f.is_declaration]
    bodies = [_Function(session, function, to) for function in functions]
    for body in bodies:
        body.convert()
    # All could be converted: only now is anything changed.
    for body in bodies:
        body.commit()


class _Function(Generic[E]):
    """One function, converted beside the one that stands there."""

    def __init__(self, session: QContext, function: FuncOp, to: Dialect[E]) -> None:
        self.session = session
        self.function = function
        self.to = to
        self.block = Block()
        self.results: list[Attribute] = []
        self.takes = [qparams_of(value) for block in function.body.blocks for value in block.args]
        self.gives: list[QParams | None] = []

    def convert(self) -> None:
        """Build the new block; UnsupportedError at the first op that cannot be expressed."""
        regions = self.function.body.blocks
        if len(regions) != 1:
            self._refuse(self.function, Unlowerable("control-flow", "it has branches"))
        old = regions[0]
        kinds = [self._typed(self.function, a.type, f"argument {a.index}") for a in old.args]
        types = self.to.types
        self.block = Block(arg_types=kinds if types is None else [a.type for a in old.args])
        emitter, known = self.to.emitter(self.session), dict[SSAValue, LaidOut]()
        for before, after in zip(old.args, self.block.args, strict=True):
            shape, params = shape_of(before), qparams_of(before)
            after.name_hint = before.name_hint
            codes = after
            if types is not None and params is not None:
                codes = self._crossing(types.stored, emitter, after, params)
            known[before] = LaidOut(shape, plain(len(shape)), params, codes)
        last: list[SSAValue] = []
        for op in old.ops:
            emitter.source = op
            if isinstance(op, ReturnOp):
                last = [self._returned(emitter, op, value, known[value]) for value in op.operands]
                self.gives = [qparams_of(value) for value in op.operands]
                if types is not None:
                    last = [
                        codes
                        if params is None
                        else self._crossing(types.typed, emitter, codes, params)
                        for codes, params in zip(last, self.gives, strict=True)
                    ]
                continue
            held = self._lowered(emitter, op, [known[value] for value in op.operands])
            known.update(zip(op.results, held, strict=True))
        self.results = [value.type for value in last]
        self.block.add_ops([*emitter.constants, *emitter.operations, ReturnOp(*last)])

    def _crossing(
        self, cross: Callable[[E, SSAValue, QParams], SSAValue], e: E, x: SSAValue, params: QParams
    ) -> SSAValue:
        """What is typed outside of the function, inside of it, or the other way."""
        try:
            return cross(e, x, params)
        except Unlowerable as error:
            self._refuse(self.function, error)

    def _returned(self, e: E, op: Operation, value: SSAValue, held: LaidOut) -> SSAValue:
        try:
            return e.typed(held, value.type)
        except Unlowerable as error:
            self._refuse(op, error)

    def _lowered(self, e: E, op: Operation, operands: Sequence[LaidOut]) -> Sequence[LaidOut]:
        if isinstance(op, ConstantOp):
            array = constant_array(op, self.session.blobs)
            params = qparams_of(op.result)
            if params is None:
                array = self._short(op, array)
            return [LaidOut(array.shape, plain(array.ndim), params, None, array)]
        if op.name.startswith(tuple(self.to.kept)):
            return self._kept(e, op, operands)
        lowering = self._lowering(op)
        try:
            if lowering is None:
                raise Unlowerable(
                    "unknown-op", f"{self.to.name} has nothing for '{op.name}'", _hint(op)
                )
            for result in op.results:
                type_of(result.type, "its result", self.to.index)
            made = lowering(e, op, operands)
        except Unlowerable as error:
            self._refuse(op, error)
        return [made] if isinstance(made, LaidOut) else list(made)

    def _lowering(self, op: Operation) -> Lowering[E] | None:
        """What the session has for `op` (`QContext.lowerings`), else what the dialect has."""
        given = self.session.lowerings.get(self.to.code, {}).get(op.name)
        found = given or self.to.lowerings.get(op.name)
        if found is None and self.to.movement is not None:
            behavior = self.session.behaviors.get(op)
            moves = behavior is not None and behavior.movement is not None
            found = self.to.movement if moves else None
        return found

    def _short(self, op: Operation, array: NDArray[Any]) -> NDArray[Any]:
        """Integers of 64 bits as what is held in place of them."""
        import numpy as np

        width = self.to.index.width.data
        if array.dtype != np.int64 or width == 64:
            return array
        reach = 1 << (width - 1)
        if array.size and not -reach <= array.min() <= array.max() < reach:
            reason = f"{self.to.name} has integers of {width} bits, and they do not fit"
            self._refuse(op, Unlowerable("storage", reason))
        return array.astype(f"i{width // 8}")

    def _kept(self, e: E, op: Operation, operands: Sequence[LaidOut]) -> Sequence[LaidOut]:
        """An op of a dialect that stays, on the same values."""
        values = [e.typed(x, v.type) for x, v in zip(operands, op.operands, strict=True)]
        copy = op.clone(dict(zip(op.operands, values, strict=True)))
        e.append(copy)
        return [
            LaidOut(shape_of(new), plain(len(shape_of(new))), None, new) for new in copy.results
        ]

    def _typed(self, op: Operation, kind: Attribute, what: str) -> Attribute:
        try:
            return type_of(kind, what, self.to.index)
        except Unlowerable as error:
            self._refuse(op, error)

    def _refuse(self, op: Operation, error: Unlowerable) -> NoReturn:
        raise refusal(op, error, self.to.name, self.to.code)

    def commit(self) -> None:
        """Put the new block in place of the old one."""
        body = self.function.body
        old = body.blocks[0]
        for op in reversed(list(old.ops)):
            op.detach()
            op.erase(safe_erase=False)
        body.erase_block(old, safe_erase=False)
        body.add_block(self.block)
        kind = FunctionType.from_lists(list(self.block.arg_types), self.results)
        self.function.properties["function_type"] = kind
        if self.to.types is None:
            self.function.arg_attrs = _with_marks(self.function.arg_attrs, self.takes)
            self.function.res_attrs = _with_marks(self.function.res_attrs, self.gives)


def _with_marks(
    notes: ArrayAttr[DictionaryAttr] | None, params: Sequence[QParams | None]
) -> ArrayAttr[DictionaryAttr] | None:
    """The attributes of arguments or results, with what their integers mean."""
    found: list[dict[str, Attribute]] = [{} for _ in params]
    for mine, entry in zip(found, notes or (), strict=False):
        mine.update(entry.data)
    for mine, qparams in zip(found, params, strict=True):
        if qparams is not None:
            stated = marks(qparams, plain(0 if qparams.axis is None else qparams.axis + 1))
            mine.update({INTERFACE + name: value for name, value in stated.items()})
    return ArrayAttr([DictionaryAttr(mine) for mine in found]) if any(found) else None


def refusal(op: Operation, error: Unlowerable, name: str, code: str) -> UnsupportedError:
    """What a user is told."""
    notes = (f"nearest form: {error.instead}",) if error.instead else ()
    return UnsupportedError(
        f"'{op.name}' cannot become {name}: {error.reason}",
        where=op_where(op),
        code=f"{code}-{error.code}",
        notes=notes,
    )


def _hint(op: Operation) -> str:
    if op.name in ("quant.qcast", "quant.dcast"):
        return "integers at the interface (fold-interface), no float ops inside"
    if op.name.startswith("nn."):
        return "integer ops (form-tables, lower-composites)"
    return ""

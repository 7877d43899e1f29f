"""Turning functions over `nn` and `quant` into another dialect, op by op.

Every value becomes its stored integers; every op operations that compute the same integers.
Nothing is rounded, moved or approximated here, and whatever has no exact counterpart is
refused, with the op and the nearest form that has one, before anything is changed. So the
interpreter's result on the module before is what every engine must give on the module after.

Operations carry, as attributes that any reader keeps or drops, what their integers mean:
`key`, `scale`, `zero_point`, `axis` and others (`debug_attributes`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic

from xdsl.dialects.builtin import (
    ArrayAttr,
    BFloat16Type,
    DictionaryAttr,
    FunctionType,
    IntegerType,
    ModuleOp,
    TensorType,
    UnrealizedConversionCastOp,
    i64,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, SSAValue

from qdialect.algebra.qparams import QParams
from qdialect.analysis.codes import qparams_of
from qdialect.errors import UnsupportedError
from qdialect.ir.behaviors.shapes import shape_of
from qdialect.ir.context import QContext
from qdialect.ir.ops import ConstantOp, constant_array
from qdialect.ir.ops.locations import op_where
from qdialect.plugins.common.lowering.debug_attributes import INTERFACE, marks
from qdialect.plugins.common.lowering.emitter import E, Lowering, type_of
from qdialect.plugins.common.lowering.errors import Unlowerable
from qdialect.plugins.common.lowering.laid_out import LaidOut, identity_order
from qdialect.rewrite.replacements import Replacements

if TYPE_CHECKING:
    from numpy.typing import NDArray


_SHOWN_PLACES = 3


@dataclass(frozen=True)
class QuantizedInterface(Generic[E]):
    """How functions keep quantized types: codes from a quantized value, and back."""

    codes: Callable[[E, SSAValue, QParams], SSAValue]
    quantized: Callable[[E, SSAValue, QParams], SSAValue]


@dataclass(frozen=True)
class TargetDialect(Generic[E]):
    """The dialect that ops are lowered to: its name in messages and in error codes, its emitter,
    and the lowering of each op that it can express."""

    name: str
    code: str
    emitter: Callable[[QContext], E]
    lowerings: Mapping[str, Lowering[E]]
    unchanged: Sequence[str] = ()
    """Prefixes of the names of ops that stay as they are."""
    written: Sequence[str] = ()
    """Prefixes of the names of other ops that it has: a function of nothing else stays."""
    movement: Lowering[E] | None = None
    """How an op without one is lowered if it is declared as a movement."""
    index: IntegerType = i64
    """The type in place of i64."""
    types: QuantizedInterface[E] | None = None
    """Functions take and give quantized values, and not their codes."""
    dynamic: bool = False
    """Whether extents may be unknown."""


@dataclass(frozen=True)
class Refused:
    """An op (or function) that cannot be lowered, and why."""

    op: Operation
    error: Unlowerable


def convert_module(session: QContext, module: ModuleOp, to: TargetDialect[E]) -> None:
    """All functions of `module` in another dialect; UnsupportedError that lists every op it
    cannot express, and nothing done."""
    bodies = _converted(session, module, to)
    refused = [one for body in bodies for one in body.refused]
    if refused:
        raise refusal_of(refused, to.name, to.code)
    # All could be converted: only now is anything changed.
    for body in bodies:
        body.commit()


def refusals(session: QContext, module: ModuleOp, to: TargetDialect[E]) -> list[Refused]:
    """What `convert_module` would refuse; nothing is changed."""
    return [one for body in _converted(session, module, to) for one in body.refused]


def _converted(session: QContext, module: ModuleOp, to: TargetDialect[E]) -> list[_Function[E]]:
    functions = [f for f in module.ops if isinstance(f, FuncOp) and not _is_written(f, to)]
    bodies = [_Function(session, function, to) for function in functions]
    for body in bodies:
        body.convert()
    return bodies


def _is_written(function: FuncOp, to: TargetDialect[Any]) -> bool:
    """Whether a function has no body, or one that was lowered before."""
    blocks, own = function.body.blocks, (ReturnOp.name, *to.unchanged, *to.written)
    ops = [op.name for block in blocks for op in block.ops]
    typed = to.types is None and any(qparams_of(a) for block in blocks for a in block.args)
    return len(ops) != 1 and not typed and all(name.startswith(own) for name in ops)


class _Function(Generic[E]):
    """One function, converted beside the one that stands there."""

    def __init__(self, session: QContext, function: FuncOp, to: TargetDialect[E]) -> None:
        self.session = session
        self.function = function
        self.to = to
        self.block = Block()
        self.results: list[Attribute] = []
        self.argument_qparams = [
            qparams_of(value) for block in function.body.blocks for value in block.args
        ]
        self.result_qparams: list[QParams | None] = []
        self.last: list[SSAValue] = []
        self.refused: list[Refused] = []

    def convert(self) -> None:
        """Build the new block; what cannot be expressed is in `refused`."""
        regions = self.function.body.blocks
        if len(regions) != 1:
            self._refuse(self.function, Unlowerable("control-flow", "it has branches"))
            return
        old = regions[0]
        types = self.to.types
        kinds = [self._typed(self.function, a.type, f"argument {a.index}") for a in old.args]
        known_kinds = [kind or a.type for kind, a in zip(kinds, old.args, strict=True)]
        self.block = Block(arg_types=known_kinds if types is None else [a.type for a in old.args])
        emitter, known = self.to.emitter(self.session), dict[SSAValue, LaidOut]()
        for before, after, kind in zip(old.args, self.block.args, kinds, strict=True):
            after.name_hint = before.name_hint
            if kind is not None and (x := self._argument(emitter, before, after)) is not None:
                known[before] = x
        for op in old.ops:
            emitter.source = op
            if isinstance(op, ReturnOp):
                self.last = self._returned(emitter, op, known)
            elif all(value in known for value in op.operands):
                results = self._lowered(emitter, op, [known[value] for value in op.operands])
                known.update(zip(op.results, results, strict=False))
        if not self.refused:
            self.results = [value.type for value in self.last]
            self.block.add_ops([*emitter.constants, *emitter.operations, ReturnOp(*self.last)])

    def _argument(self, e: E, before: SSAValue, after: SSAValue) -> LaidOut | None:
        """An argument as ops take it: of a quantized type, the codes."""
        shape, params, types = shape_of(before), qparams_of(before), self.to.types
        if types is not None and params is not None:
            try:
                after = types.codes(e, after, params)
            except Unlowerable as error:
                self._refuse(self.function, error)
                return None
        return LaidOut(shape, identity_order(len(shape)), params, after)

    def _returned(self, e: E, op: Operation, known: Mapping[SSAValue, LaidOut]) -> list[SSAValue]:
        self.result_qparams = [qparams_of(value) for value in op.operands]
        found: list[SSAValue] = []
        try:
            for value, params in zip(op.operands, self.result_qparams, strict=True):
                if value not in known:
                    continue
                result = e.typed_value(known[value], value.type)
                if self.to.types is not None and params is not None:
                    result = self.to.types.quantized(e, result, params)
                found.append(result)
        except Unlowerable as error:
            self._refuse(op, error)
        return found

    def _lowered(self, e: E, op: Operation, operands: Sequence[LaidOut]) -> Sequence[LaidOut]:
        """The results of `op`; of one that is refused, values of their types if these can be
        said, so that what uses them is looked at too."""
        try:
            if isinstance(op, ConstantOp):
                return [self._constant(op)]
            if op.name.startswith(tuple(self.to.unchanged)):
                return self._unchanged(e, op, operands)
            lowering = self._lowering(op)
            if lowering is None:
                raise Unlowerable(
                    "unknown-op", f"{self.to.name} has nothing for '{op.name}'", self._hint(op)
                )
            for result in op.results:
                self._type_of(result.type, "its result")
            results = lowering(e, op, operands)
        except Unlowerable as error:
            self._refuse(op, error)
            return self._stand_ins(op)
        return [results] if isinstance(results, LaidOut) else list(results)

    def _constant(self, op: ConstantOp) -> LaidOut:
        array, params = constant_array(op, self.session.blobs), qparams_of(op.result)
        if params is None:
            if self._type_of(op.result.type, "it").element_type == BFloat16Type():
                raise Unlowerable("type", "it is of bf16", "f32 or f16")
            array = self._short(op, array)
        return LaidOut(array.shape, identity_order(array.ndim), params, None, array)

    def _stand_ins(self, op: Operation) -> list[LaidOut]:
        """Values that nothing computes, of the types of the results."""
        found: list[LaidOut] = []
        for result in op.results:
            try:
                kind = self._type_of(result.type, "its result")
            except Unlowerable:
                break
            cast = UnrealizedConversionCastOp.create(result_types=[kind])
            shape = shape_of(result)
            order = identity_order(len(shape))
            found.append(LaidOut(shape, order, qparams_of(result), cast.results[0]))
        return found

    def _hint(self, op: Operation) -> str:
        if op.name in ("quant.qcast", "quant.dcast"):
            return "integers at the interface (fold-interface), no float ops inside"
        if op.name.startswith("nn."):
            return "integer ops (form-tables, lower-composites)"
        return "its pieces (lower-composites)" if op.name in self.session.components else ""

    def _lowering(self, op: Operation) -> Lowering[E] | None:
        """What the session has for `op` (`QContext.lowerings`), else what the dialect has."""
        registered = self.session.lowerings.get(self.to.code, {}).get(op.name)
        lowering = registered or self.to.lowerings.get(op.name)
        if lowering is None and self.to.movement is not None:
            behavior = self.session.behaviors.get(op)
            moves = behavior is not None and behavior.movement is not None
            lowering = self.to.movement if moves else None
        return lowering

    def _short(self, op: Operation, array: NDArray[Any]) -> NDArray[Any]:
        """A constant with integers of `TargetDialect.index` in place of i64."""
        import numpy as np

        width = self.to.index.width.data
        if array.dtype != np.int64 or width == 64:
            return array
        reach = 1 << (width - 1)
        if array.size and not -reach <= array.min() <= array.max() < reach:
            reason = f"{self.to.name} has integers of {width} bits, and they do not fit"
            raise Unlowerable("storage", reason)
        return array.astype(f"i{width // 8}")

    def _unchanged(self, e: E, op: Operation, operands: Sequence[LaidOut]) -> Sequence[LaidOut]:
        """An op of a dialect that stays, on the same values."""
        values = [e.typed_value(x, v.type) for x, v in zip(operands, op.operands, strict=True)]
        copy = op.clone(dict(zip(op.operands, values, strict=True)))
        e.append(copy)
        typed = self.to.types is not None
        return [
            LaidOut(
                shape_of(new),
                identity_order(len(shape_of(new))),
                qparams_of(new) if typed else None,
                new,
            )
            for new in copy.results
        ]

    def _typed(self, op: Operation, kind: Attribute, what: str) -> Attribute | None:
        try:
            return self._type_of(kind, what)
        except Unlowerable as error:
            self._refuse(op, error)
            return None

    def _type_of(self, kind: Attribute, where: str) -> TensorType[Any]:
        return type_of(kind, where, self.to.index, dynamic=self.to.dynamic)

    def _refuse(self, op: Operation, error: Unlowerable) -> None:
        self.refused.append(Refused(op, error))

    def commit(self) -> None:
        """Put the new block in place of the old one."""
        body = self.function.body
        old = body.blocks[0]
        self._transfer_bounds(old)
        for op in reversed(list(old.ops)):
            self.session.error_bounds.forget(op)
            op.detach()
            op.erase(safe_erase=False)
        body.erase_block(old, safe_erase=False)
        body.add_block(self.block)
        kind = FunctionType.from_lists(list(self.block.arg_types), self.results)
        self.function.properties["function_type"] = kind
        if self.to.types is None:
            self.function.arg_attrs = _with_debug_attributes(
                self.function.arg_attrs, self.argument_qparams
            )
            self.function.res_attrs = _with_debug_attributes(
                self.function.res_attrs, self.result_qparams
            )

    def _transfer_bounds(self, old: Block) -> None:
        """Let the new results be off by what the old ones are."""
        replacements = Replacements(self.session)
        for op in self.block.ops:
            replacements.inserted(op)
        before, after = old.last_op, self.block.last_op
        assert before is not None and after is not None
        for value, new in zip(before.operands, after.operands, strict=True):
            replacements.replaced(value, new)


def _with_debug_attributes(
    attributes: ArrayAttr[DictionaryAttr] | None, params: Sequence[QParams | None]
) -> ArrayAttr[DictionaryAttr] | None:
    """The attributes of arguments or results, with what their integers mean."""
    tables: list[dict[str, Attribute]] = [{} for _ in params]
    for table, entry in zip(tables, attributes or (), strict=False):
        table.update(entry.data)
    for table, qparams in zip(tables, params, strict=True):
        if qparams is not None:
            debug = marks(qparams, identity_order(0 if qparams.axis is None else qparams.axis + 1))
            table.update({INTERFACE + name: value for name, value in debug.items()})
    return ArrayAttr([DictionaryAttr(table) for table in tables]) if any(tables) else None


def refusal(op: Operation, error: Unlowerable, name: str, code: str) -> UnsupportedError:
    """The error for `op`, which `name` (in messages) or `code` (in error codes) cannot express."""
    notes = (f"nearest form: {error.instead}",) if error.instead else ()
    return UnsupportedError(
        f"'{op.name}' cannot become {name}: {error.reason}",
        where=op_where(op),
        code=f"{code}-{error.code}",
        notes=notes,
    )


def refusal_of(refused: Sequence[Refused], name: str, code: str) -> UnsupportedError:
    """One error for all ops that are refused: each kind of op and reason once, with places."""
    first = refused[0]
    if len(refused) == 1:
        return refusal(first.op, first.error, name, code)
    groups: dict[tuple[str, str, str], list[Operation]] = {}
    for one in refused:
        kind = (one.op.name, one.error.reason, one.error.instead)
        groups.setdefault(kind, []).append(one.op)
    notes: list[str] = []
    for (op_name, reason, instead), ops in groups.items():
        places = [str(where) for op in ops[:_SHOWN_PLACES] if (where := op_where(op)) is not None]
        more = f" and {len(ops) - _SHOWN_PLACES} more" if len(ops) > _SHOWN_PLACES else ""
        at = f" ({', '.join(places)}{more})" if places else ""
        count = f"{len(ops)} of " if len(ops) > 1 else ""
        nearest = f"; nearest form: {instead}" if instead else ""
        notes.append(f"{count}'{op_name}': {reason}{at}{nearest}")
    codes = {one.error.code for one in refused}
    return UnsupportedError(
        f"{len(refused)} ops cannot become {name}",
        where=op_where(first.op),
        code=f"{code}-{codes.pop() if len(codes) == 1 else 'unsupported'}",
        notes=tuple(notes),
    )

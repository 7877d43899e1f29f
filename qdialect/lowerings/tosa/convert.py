"""`nn` and `quant` as TOSA, op by op and bit by bit.

Every value becomes its stored integers; every op the TOSA operations that compute the same
integers. Nothing is rounded, moved or approximated here: what rounds is a `quant.rescale` in
fixed-point form already, and whatever has no exact counterpart is refused, with the op and
the nearest form that has one, before anything is changed. So the interpreter's result on the
module before is what every engine must give on the module after.

`tosa` operations carry, as attributes that any reader keeps or drops, `key`, `scale`,
`zero_point` and `axis`: what their integers mean.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NoReturn

from xdsl.context import Context
from xdsl.dialects.builtin import FunctionType, ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.passes import ModulePass

from qdialect.analysis.codes import qparams_of
from qdialect.behaviors.shapes import shape_of
from qdialect.context import QContext, session
from qdialect.dialects.nn import ConstantOp, constant_array
from qdialect.dialects.verifier import op_where
from qdialect.errors import UnsupportedError
from qdialect.lowerings.errors import Unlowerable
from qdialect.lowerings.tosa.emitter import Emitter, type_of
from qdialect.lowerings.tosa.held import Held, plain
from qdialect.lowerings.tosa.table import lowerings


@dataclass(frozen=True)
class ConvertNnToTosa(ModulePass):
    """All functions of a module in TOSA; see the module."""

    name = "convert-nn-to-tosa"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        from qdialect.dialects.tosa import TOSA

        qctx = session(ctx)
        functions = [f for f in op.ops if isinstance(f, FuncOp)]
        bodies = [_Function(qctx, function) for function in functions]
        for body in bodies:
            body.convert()
        # All could be converted: only now is anything changed.
        for body in bodies:
            body.commit()
        if TOSA.name not in qctx.registered_dialect_names:
            qctx.load_dialect(TOSA)


class _Function:
    """One function, converted beside the one that stands there."""

    def __init__(self, session: QContext, function: FuncOp) -> None:
        self.session = session
        self.function = function
        self.block = Block()
        self.results: list[Attribute] = []

    def convert(self) -> None:
        """Build the new block; UnsupportedError at the first op that TOSA cannot express."""
        regions = self.function.body.blocks
        if len(regions) != 1:
            self._refuse(self.function, Unlowerable("control-flow", "it has branches"))
        old = regions[0]
        kinds = [self._typed(self.function, a.type, f"argument {a.index}") for a in old.args]
        self.block = Block(arg_types=kinds)
        emitter, known = Emitter(self.session), dict[SSAValue, Held]()
        for before, after in zip(old.args, self.block.args, strict=True):
            shape = shape_of(before)
            known[before] = Held(shape, plain(len(shape)), qparams_of(before), after)
            after.name_hint = before.name_hint
        last: list[SSAValue] = []
        for op in old.ops:
            emitter.source = op
            if isinstance(op, ReturnOp):
                last = [emitter.given(known[value]) for value in op.operands]
                continue
            held = self._lowered(emitter, op, [known[value] for value in op.operands])
            known.update(zip(op.results, held, strict=True))
        self.results = [value.type for value in last]
        self.block.add_ops([*emitter.constants, *emitter.operations, ReturnOp(*last)])

    def _lowered(self, e: Emitter, op: Operation, operands: Sequence[Held]) -> Sequence[Held]:
        if isinstance(op, ConstantOp):
            array = constant_array(op, self.session.blobs)
            return [Held(array.shape, plain(array.ndim), qparams_of(op.result), None, array)]
        lowering = lowerings().get(op.name)
        try:
            if lowering is None:
                raise Unlowerable("unknown-op", f"TOSA has nothing for '{op.name}'", _hint(op))
            for result in op.results:
                type_of(result.type, "its result")
            made = lowering(e, op, operands)
        except Unlowerable as error:
            self._refuse(op, error)
        return [made] if isinstance(made, Held) else list(made)

    def _typed(self, op: Operation, kind: Attribute, what: str) -> Attribute:
        try:
            return type_of(kind, what)
        except Unlowerable as error:
            self._refuse(op, error)

    def _refuse(self, op: Operation, error: Unlowerable) -> NoReturn:
        raise refusal(op, error)

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


def refusal(op: Operation, error: Unlowerable) -> UnsupportedError:
    """What a user is told."""
    notes = (f"nearest form: {error.instead}",) if error.instead else ()
    return UnsupportedError(
        f"'{op.name}' cannot become TOSA: {error.reason}",
        where=op_where(op),
        code=f"tosa-{error.code}",
        notes=notes,
    )


def _hint(op: Operation) -> str:
    if op.name in ("quant.qcast", "quant.dcast"):
        return "integers at the interface (fold-interface), no float ops inside"
    if op.name.startswith("nn."):
        return "integer ops (form-tables, lower-composites)"
    return ""


def supported() -> Iterable[str]:
    """Names of the ops with a lowering."""
    return lowerings()

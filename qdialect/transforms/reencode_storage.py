"""Re-encode 8-bit storage: activations one way, weights another, over a whole module.

    i8 code q, zero point z   <->   u8 code q + 128, zero point z + 128

names the same real numbers, so every value may change its encoding as long as
all its producers and users agree: exact. Constants are re-encoded per use (a
shared one is cloned); at the interface, and where an op cannot take the new
storage, a `quant.rescale` that only renumbers codes is left.

For example

    %0 = quant.qcast %x : !f to !q
    %1 = nn.relu %0 : (!q) -> !q
    %2 = quant.dcast %1 : !q to !f

becomes

    %0 = quant.qcast %x : !f to !u
    %1 = nn.relu %0 : (!u) -> !u
    %2 = quant.dcast %1 : !u to !f

The pass exists because targets have fast kernels for one encoding only: ONNX
Runtime on x64 wants u8 activations with i8 weights. With `cheapest` the target's prices of
contractions (`Target.encoding_price`) choose, against what renumbering costs at the interface.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass

from qdialect.analysis.codes import qparams_of
from qdialect.analysis.cost import elements
from qdialect.analysis.ranges import ranges
from qdialect.behaviors import Behavior
from qdialect.behaviors import Rule as PortRule
from qdialect.context import QContext, session
from qdialect.dialects.nn import ConstantOp, constant_array, constant_of, make_constant
from qdialect.dialects.nn.base import KEY
from qdialect.dialects.quant import DCastOp, QCastOp, RescaleOp, SCastOp, UniformType
from qdialect.errors import UsageError
from qdialect.numerics.contract import Contract, Numerics
from qdialect.numerics.rounding import Rounding
from qdialect.qparams import QParams, Storage
from qdialect.rewrite.driver import is_dead, set_type
from qdialect.rewrite.remarks import fired_remark
from qdialect.transforms.rule_pass import users, with_qparams

_ENCODINGS = ("i8", "u8", "keep")
_CHEAPEST = "cheapest"


def shifted(params: QParams, keyword: str) -> QParams | None:
    """`params` on the other signedness, or None if there is nothing to change."""
    storage = params.storage
    if storage.width != 8 or storage.is_float or storage.quantile is not None:
        return None
    target = Storage.of(keyword)
    if target.signed == storage.signed:
        return None
    return params.with_signedness(target.signed)


def only_read_again(op: Operation) -> bool:
    """Whether `op` casts codes to bits that are only cast back to the same storage."""
    if not isinstance(op, SCastOp):
        return False
    params = qparams_of(op.input)
    below = [
        qparams_of(user.results[0]) if isinstance(user, SCastOp) else None
        for user in users(op.result)
    ]
    return params is not None and all(
        read is not None and read.storage.signed == params.storage.signed for read in below
    )


@dataclass(frozen=True)
class ReencodeStorage(ModulePass):
    """Change 8-bit storage between signed and unsigned, exactly; see the module.

    `activations` and `weights` are `i8`, `u8` or `keep`, or both `cheapest`; a weight is a
    constant on the right side of a contraction.
    """

    name = "reencode-storage"
    counts_changes: ClassVar[bool] = True
    keeps_analyses: ClassVar[bool] = True

    activations: str = "u8"
    weights: str = "i8"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        chosen = (self.activations, self.weights)
        if chosen == (_CHEAPEST, _CHEAPEST):
            chosen = cheapest_encodings(op, session(ctx))
        for option in chosen:
            if option not in _ENCODINGS:
                raise UsageError(
                    f"reencode-storage: unknown encoding '{option}' (i8, u8 or keep), "
                    f"or {_CHEAPEST} for both",
                    code="bad-option",
                )
        if chosen != ("keep", "keep"):
            session(ctx).changes += _Reencoding(session(ctx), *chosen).run(op)


def cheapest_encodings(module: ModuleOp, ctx: QContext) -> tuple[str, str]:
    """The encodings of activations and weights in which the contractions of `module` cost
    least together, with the renumbering of what functions take and give; `keep` for both
    where none costs less than what is there, or nothing is known."""
    pairs = [("keep", "keep"), *((a, w) for a in ("u8", "i8") for w in ("u8", "i8"))]
    totals = dict.fromkeys(pairs, 0.0)
    for op in module.walk():
        behavior = ctx.behaviors.get(op)
        if isinstance(op, FuncOp | ReturnOp):
            _count_interface(op, totals, ctx)
        elif behavior is not None and behavior.accumulator is not None and op.results:
            acc = behavior.accumulator
            now = [_bytes(op.operands[i]) for i in (acc.lhs, acc.rhs)]
            if None in now:
                continue
            constant = constant_of(op.operands[acc.rhs]) is not None
            depth = acc.depth(op)
            for pair in totals:
                new = (pair[0], pair[1] if constant else pair[0])
                lhs, rhs = (str(n if e == "keep" else e) for n, e in zip(now, new, strict=True))
                totals[pair] += ctx.target.encoding_price(op, depth, lhs, rhs) or 0.0
    return min(totals, key=lambda pair: totals[pair])


def _count_interface(
    op: FuncOp | ReturnOp, totals: dict[tuple[str, str], float], ctx: QContext
) -> None:
    """Add what is renumbered where a function begins or ends."""
    if isinstance(op, FuncOp) and op.is_declaration:
        return
    values = op.body.blocks[0].args if isinstance(op, FuncOp) else op.operands
    for value in values:
        now = _bytes(value)
        for pair in totals:
            if now is not None and pair[0] not in ("keep", now):
                totals[pair] += ctx.target.price * elements(value)


def _bytes(value: SSAValue) -> str | None:
    """The encoding of 8-bit codes."""
    params = qparams_of(value)
    known = params is not None and params.storage.spelling in ("u8", "i8")
    return params.storage.spelling if params is not None and known else None


class _Reencoding:
    def __init__(self, ctx: QContext, activations: str, weights: str) -> None:
        self.ctx = ctx
        self.activations = activations
        self.weights = weights
        self.changed: set[SSAValue] = set()
        self.bits: set[Operation] = set()
        self.adapted: dict[tuple[SSAValue, str], SSAValue] = {}

    def run(self, module: ModuleOp) -> int:
        """Re-encode; how many values were."""
        ops = list(module.walk())
        self.bits = {op for op in ops if only_read_again(op)}
        for op in ops:
            self._retype_results(op)
        for op in ops:
            self._adapt_operands(op)
        for op in ops:
            if isinstance(op, ConstantOp) and is_dead(op):
                op.detach()
                op.erase()
        return len(self.changed) + len(self.adapted)

    def _retype_results(self, op: Operation) -> None:
        """Give the results of an op that makes its own codes the new storage."""
        if self.activations == "keep":
            return
        behavior = self.ctx.behaviors.get(op)
        if behavior is None and not isinstance(op, QCastOp | RescaleOp) and not self._reads(op):
            return
        for index, result in enumerate(op.results):
            params = qparams_of(result)
            new = shifted(params, self.activations) if params else None
            if params is None or new is None or self._is_adapter(op, new):
                continue
            if not self._takes(behavior, index, new):
                continue
            ranges(self.ctx).renumber(result, new.storage.min - params.storage.min)
            set_type(result, with_qparams(result, new))
            self.changed.add(result)
            self._note(op, f"{params.storage} becomes {new.storage}")

    def _is_adapter(self, op: Operation, new: QParams) -> bool:
        """Whether `op` is what this pass leaves where an interface keeps its encoding."""
        if not isinstance(op, RescaleOp) or qparams_of(op.input) != new:
            return False
        below = users(op.result)
        return not any(self.ctx.behaviors.get(user) or self._takes_any(user) for user in below)

    def _takes(self, behavior: Behavior | None, index: int, new: QParams) -> bool:
        storages = behavior.result_port(index).storages if behavior else None
        return storages is None or str(new.storage) in storages

    def _adapt_operands(self, op: Operation) -> None:
        operands = list(op.operands)
        for index, operand in enumerate(operands):
            wanted = self._wanted(op, index)
            params = qparams_of(operand)
            if wanted == "keep" or params is None:
                continue
            new = shifted(params, wanted)
            if new is not None:
                operands[index] = self._adapted(operand, new, wanted)
        if any(a is not b for a, b in zip(operands, op.operands, strict=True)):
            op.operands = operands

    def _wanted(self, op: Operation, index: int) -> str:
        """The encoding in which `op` takes this operand."""
        operand = op.operands[index]
        behavior = self.ctx.behaviors.get(op)
        if op in self.bits:
            # Whoever reads the bits takes them for the new encoding.
            return self.activations
        if behavior is None:
            if operand not in self.changed or self._takes_any(op):
                return "keep"
            # Anything else keeps seeing the codes it saw before.
            return "i8" if self.activations == "u8" else "u8"
        port = behavior.operand_port(index)
        if port.rule in (PortRule.PLAIN, PortRule.BIAS):
            return "keep"
        acc = behavior.accumulator
        if acc and index == acc.rhs and constant_of(operand):
            return self.weights
        if self.activations == "keep" or (
            port.storages is not None and self.activations not in port.storages
        ):
            return "keep"
        return self.activations

    def _takes_any(self, op: Operation) -> bool:
        """Whether `op` means the same whichever way its operand is stored."""
        return isinstance(op, DCastOp | RescaleOp) or op in self.bits

    def _reads(self, op: Operation) -> bool:
        """Whether `op` is the lower half of a pair that is re-encoded as a whole."""
        return isinstance(op, SCastOp) and op.input.owner in self.bits

    def _adapted(self, value: SSAValue, new: QParams, encoding: str) -> SSAValue:
        """`value` in another encoding: a new constant, or a renumbering rescale."""
        if (value, encoding) in self.adapted:
            return self.adapted[value, encoding]
        constant = constant_of(value)
        if constant is not None:
            made: ConstantOp | RescaleOp = self._constant(constant, new)
        else:
            rounding = self.ctx.target.rounding(Rounding.HALF_EVEN)
            made = RescaleOp(value, with_qparams(value, new), rounding)
        owner = value.owner
        if isinstance(owner, Block):
            assert owner.first_op is not None
            owner.insert_op_before(made, owner.first_op)
        else:
            assert owner.parent is not None
            owner.parent.insert_op_after(made, owner)
            made.location = owner.location
        self.adapted[value, encoding] = made.result
        return made.result

    def _constant(self, constant: ConstantOp, new: QParams) -> ConstantOp:
        import numpy as np

        old = constant_array(constant, self.ctx.blobs)
        codes = (old.view(np.uint8) ^ np.uint8(0x80)).view(
            np.int8 if new.storage.signed else np.uint8
        )
        kept = {KEY: constant.attributes[KEY]} if KEY in constant.attributes else None
        return make_constant(codes, UniformType(new), self.ctx.blobs, kept)

    def _note(self, op: Operation, reason: str) -> None:
        name = ReencodeStorage.name
        self.ctx.remarks.add(fired_remark(name, name, op, Contract(Numerics.EXACT, note=reason)))

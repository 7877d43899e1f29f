"""Re-encode 8-bit storage: activations one way, weights another, over a whole module.

    i8 code q, zero point z   <->   u8 code q + 128, zero point z + 128

are the same real numbers, so every value may change its storage as long as
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

The pass exists because targets have fast kernels for one storage only: ONNX
Runtime on x64 wants u8 activations with i8 weights. With `cheapest` the target's prices of
contractions (`Target.encoding_price`) choose, against what renumbering costs at the interface.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.passes import ModulePass

from qdialect.analysis.codes import qparams_of
from qdialect.analysis.cost import elements, products
from qdialect.analysis.index import every_op, ops_named
from qdialect.analysis.ranges import ranges
from qdialect.behaviors import Behavior, PortKind
from qdialect.context import QContext, session
from qdialect.errors import UsageError
from qdialect.numerics.contract import Contract, Numerics, level_named
from qdialect.numerics.rounding import Rounding
from qdialect.ops import ConstantOp, constant_array, constant_of, make_constant
from qdialect.ops.base import rounds_by_encoding
from qdialect.ops.keys import KEY
from qdialect.passes.rule_pass import users, with_qparams
from qdialect.qparams import QParams
from qdialect.quant import DCastOp, QCastOp, RescaleOp, SCastOp, quant_element
from qdialect.rewrite.remarks import fired_remark
from qdialect.rewrite.rewriter import erase_op, is_dead, set_type

_STORAGES = ("i8", "u8", "keep")
_CHEAPEST = "cheapest"


def other_storage(value: SSAValue) -> str | None:
    """The other storage that the codes of `value` could have: 8-bit integers, signed or not."""
    params = qparams_of(value)
    if params is None:
        return None
    storage = params.storage
    if storage.width != 8 or storage.is_float or storage.quantile is not None:
        return None
    return "u8" if storage.signed else "i8"


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
    constant on the right side of a contraction.  An op that is defined by an integer kernel
    which rounds signed codes in another way than unsigned ones keeps its own at `exact`.
    """

    name = "reencode-storage"
    counts_changes: ClassVar[bool] = True
    keeps_analyses: ClassVar[bool] = True

    activations: str = "u8"
    weights: str = "i8"
    numerics: str = "exact"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Run the pass on a module, in place."""
        chosen = (self.activations, self.weights)
        if chosen == (_CHEAPEST, _CHEAPEST):
            chosen = cheapest_storages(op, session(ctx))
        for option in chosen:
            if option not in _STORAGES:
                raise UsageError(
                    f"reencode-storage: unknown encoding '{option}' (i8, u8 or keep), "
                    f"or {_CHEAPEST} for both",
                    code="bad-option",
                )
        if chosen != ("keep", "keep"):
            session(ctx).changes += _Reencoding(
                session(ctx), *chosen, keeps_kernels=level_named(self.numerics) is Numerics.EXACT
            ).run(op)


def cheapest_storages(module: ModuleOp, ctx: QContext) -> tuple[str, str]:
    """The storages of activations and weights in which the contractions of `module` cost
    least together, with the renumbering of arguments and results; `keep` for both
    where none costs less than the present ones, or the target has no prices."""
    pairs = [("keep", "keep"), *((a, w) for a in ("u8", "i8") for w in ("u8", "i8"))]
    totals = dict.fromkeys(pairs, 0.0)
    contractions = ctx.behaviors.names_with(lambda b: b.accumulator is not None)
    for op in ops_named(ctx, module, {FuncOp.name, ReturnOp.name, *contractions})[0]:
        behavior = ctx.behaviors.get(op)
        if isinstance(op, FuncOp | ReturnOp):
            _count_interface(op, totals, ctx)
        elif behavior is not None and behavior.accumulator is not None and op.results:
            acc = behavior.accumulator
            now = [_bytes(op.operands[i]) for i in (acc.lhs, acc.rhs)]
            if None in now:
                continue
            constant = constant_of(op.operands[acc.rhs]) is not None
            depth = products(op, acc)
            prices: dict[tuple[str, str], float] = {}
            for pair in totals:
                new = (pair[0], pair[1] if constant else pair[0])
                lhs, rhs = (str(n if e == "keep" else e) for n, e in zip(now, new, strict=True))
                if (lhs, rhs) not in prices:
                    price = ctx.target.encoding_price(op, depth, lhs, rhs)
                    prices[lhs, rhs] = price or 0.0
                totals[pair] += prices[lhs, rhs]
    return min(totals, key=lambda pair: totals[pair])


def _count_interface(
    op: FuncOp | ReturnOp, totals: dict[tuple[str, str], float], ctx: QContext
) -> None:
    """Add the price of renumbering arguments, or results."""
    if isinstance(op, FuncOp) and op.is_declaration:
        return
    values = op.body.blocks[0].args if isinstance(op, FuncOp) else op.operands
    for value in values:
        now = _bytes(value)
        for pair in totals:
            if now is not None and pair[0] not in ("keep", now):
                totals[pair] += ctx.target.price * elements(value)


def _bytes(value: SSAValue) -> str | None:
    """The storage of 8-bit codes."""
    params = qparams_of(value)
    known = params is not None and params.storage.spelling in ("u8", "i8")
    return params.storage.spelling if params is not None and known else None


class _Reencoding:
    def __init__(
        self, ctx: QContext, activations: str, weights: str, *, keeps_kernels: bool
    ) -> None:
        self.ctx = ctx
        self._keeps_kernels = keeps_kernels
        self.activations = activations
        self.weights = weights
        self.changed: set[SSAValue] = set()
        self.bits: set[Operation] = set()
        self.adapted: dict[SSAValue, SSAValue] = {}
        #: types by identity, each with that of the same numbers on the other signedness
        self._others: dict[int, tuple[Attribute, Attribute]] = {}
        self._contracts: dict[str, Contract] = {}

    def run(self, module: ModuleOp) -> int:
        """Re-encode `module`; the number of values that changed."""
        ops = list(every_op(module))
        casts = (op for op in ops if isinstance(op, SCastOp))
        self.bits = {op for op in casts if only_read_again(op)}
        for op in ops:
            self._retype_results(op)
        for op in ops:
            self._adapt_operands(op)
        for op in ops:
            if isinstance(op, ConstantOp) and is_dead(op):
                erase_op(op, self.ctx)
        return len(self.changed) + len(self.adapted)

    def _retype_results(self, op: Operation) -> None:
        """Change the storage of the results of an op that computes codes."""
        if self.activations == "keep":
            return
        if all(other_storage(result) != self.activations for result in op.results):
            return
        behavior = self.ctx.behaviors.get(op)
        if behavior is None and not isinstance(op, QCastOp | RescaleOp) and not self._reads(op):
            return
        if self._keeps_kernels and rounds_by_encoding(op):
            return
        for index, result in enumerate(op.results):
            params = qparams_of(result)
            if params is None or other_storage(result) != self.activations:
                continue
            kind = self._other_type(result)
            new = quant_element(kind)
            assert new is not None
            if self._is_adapter(op, new.data) or not self._may_have(behavior, index, new.data):
                continue
            old = params.storage
            ranges(self.ctx).renumber(result, new.data.storage.min - old.min)
            set_type(result, kind)
            self.changed.add(result)
            self._note(op, f"{old} becomes {new.data.storage}")

    def _other_type(self, value: SSAValue) -> Attribute:
        """The type of the same numbers on the other signedness."""
        known = self._others.get(id(value.type))
        if known is None:
            params = qparams_of(value)
            assert params is not None
            other = with_qparams(value, params.with_signedness(not params.storage.signed))
            known = self._others[id(value.type)] = value.type, other
        return known[1]

    def _is_adapter(self, op: Operation, new: QParams) -> bool:
        """Whether `op` is a rescale that this pass left where an interface keeps its storage."""
        if not isinstance(op, RescaleOp) or qparams_of(op.input) != new:
            return False
        below = users(op.result)
        return not any(self.ctx.behaviors.get(user) or self._takes_any(user) for user in below)

    def _may_have(self, behavior: Behavior | None, index: int, new: QParams) -> bool:
        storages = behavior.result_port(index).storages if behavior else None
        return storages is None or str(new.storage) in storages

    def _adapt_operands(self, op: Operation) -> None:
        changed: dict[int, SSAValue] = {}
        for index, operand in enumerate(op.operands):
            storage = other_storage(operand)
            if storage is not None and self._operand_storage(op, index) == storage:
                changed[index] = self._adapted(operand)
        if changed:
            op.operands = [changed.get(i, operand) for i, operand in enumerate(op.operands)]

    def _operand_storage(self, op: Operation, index: int) -> str:
        """The storage in which `op` reads this operand, or `keep`."""
        operand = op.operands[index]
        behavior = self.ctx.behaviors.get(op)
        if op in self.bits:
            # The cast that reads the bits reads the new storage.
            return self.activations
        if behavior is None or (self._keeps_kernels and rounds_by_encoding(op)):
            if operand not in self.changed or self._takes_any(op):
                return "keep"
            # Any other op reads the codes that it read before.
            return "i8" if self.activations == "u8" else "u8"
        port = behavior.operand_port(index)
        if port.kind in (PortKind.PLAIN, PortKind.BIAS):
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
        """Whether `op` computes the same from either storage of its operand."""
        return isinstance(op, DCastOp | RescaleOp) or op in self.bits

    def _reads(self, op: Operation) -> bool:
        """Whether `op` is the lower half of a pair that is re-encoded as a whole."""
        return isinstance(op, SCastOp) and op.input.owner in self.bits

    def _adapted(self, value: SSAValue) -> SSAValue:
        """`value` in its other storage: a new constant, or a renumbering rescale."""
        if value in self.adapted:
            return self.adapted[value]
        constant, kind = constant_of(value), self._other_type(value)
        if constant is not None:
            new: ConstantOp | RescaleOp = self._constant(constant, kind)
        else:
            new = RescaleOp(value, kind, self.ctx.target.rounding(Rounding.HALF_EVEN))
        owner = value.owner
        if isinstance(owner, Block):
            assert owner.first_op is not None
            owner.insert_op_before(new, owner.first_op)
        else:
            assert owner.parent is not None
            owner.parent.insert_op_after(new, owner)
            new.location = owner.location
        self.adapted[value] = new.result
        return new.result

    def _constant(self, constant: ConstantOp, kind: Attribute) -> ConstantOp:
        import numpy as np

        element = quant_element(kind)
        assert element is not None
        old = constant_array(constant, self.ctx.blobs)
        codes = (old.view(np.uint8) ^ np.uint8(0x80)).view(
            np.int8 if element.data.storage.signed else np.uint8
        )
        key = {KEY: constant.attributes[KEY]} if KEY in constant.attributes else None
        return make_constant(codes, element, self.ctx.blobs, key)

    def _note(self, op: Operation, reason: str) -> None:
        name = ReencodeStorage.name
        if reason not in self._contracts:
            self._contracts[reason] = Contract(Numerics.EXACT, note=reason)
        self.ctx.remarks.add(fired_remark(name, name, op, self._contracts[reason]))

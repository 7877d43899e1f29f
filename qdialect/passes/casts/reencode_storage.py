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

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.passes import ModulePass

from qdialect.algebra.contract import Contract, Numerics, level_named
from qdialect.algebra.qparams import QParams
from qdialect.algebra.rounding import Rounding
from qdialect.analysis.codes import qparams_of
from qdialect.analysis.cost import elements, products
from qdialect.analysis.index import every_op, ops_named
from qdialect.analysis.ranges import ranges
from qdialect.analysis.summation import may_saturate
from qdialect.errors import UsageError
from qdialect.ir.behaviors import Behavior, PortKind
from qdialect.ir.context import QContext, session
from qdialect.ir.ops import ConstantOp, constant_array, constant_of, make_constant
from qdialect.ir.ops.base import rounds_by_encoding
from qdialect.ir.ops.keys import KEY
from qdialect.ir.quant import (
    DCastOp,
    QCastOp,
    RescaleOp,
    SCastOp,
    UniformType,
    quant_element,
    with_element,
)
from qdialect.passes.rule_pass import users
from qdialect.rewrite.refused import is_computed, refused_by_target, refused_types
from qdialect.rewrite.remarks import fired_remark
from qdialect.rewrite.rewriter import erase_op, is_dead, set_type

_STORAGES = ("i8", "u8", "keep")
_CHEAPEST = "cheapest"


def other_storage(kind: Attribute) -> str | None:
    """The other storage that codes of type `kind` could have: 8-bit integers, signed or not."""
    element = quant_element(kind)
    if element is None:
        return None
    storage = element.qparams.storage
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
    which rounds signed codes in another way than unsigned ones keeps its own at `exact`, and below
    `saturation` one whose products of u8 and i8 x86 before VNNI may not hold.
    """

    name = "reencode-storage"
    counts_changes: ClassVar[bool] = True
    keeps_analyses: ClassVar[bool] = True

    activations: str = "u8"
    weights: str = "i8"
    numerics: str = "exact"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Run the pass on a module, in place."""
        chosen, level = (self.activations, self.weights), level_named(self.numerics)
        if chosen == (_CHEAPEST, _CHEAPEST):
            chosen = cheapest_storages(op, session(ctx), level)
        for option in chosen:
            if option not in _STORAGES:
                raise UsageError(
                    f"reencode-storage: unknown encoding '{option}' (i8, u8 or keep), "
                    f"or {_CHEAPEST} for both",
                    code="bad-option",
                )
        if chosen != ("keep", "keep"):
            session(ctx).changes += _Reencoding(session(ctx), *chosen, level).run(op)


def keeps_storage(ctx: QContext, op: Operation, level: Numerics) -> bool:
    """Whether `op` computes something else on the other storage than `level` allows."""
    if level is Numerics.EXACT and rounds_by_encoding(op):
        return True
    return level < Numerics.SATURATION and may_saturate(ctx, op)


def cheapest_storages(
    module: ModuleOp, ctx: QContext, level: Numerics = Numerics.EXACT
) -> tuple[str, str]:
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
            if keeps_storage(ctx, op, level):
                continue
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
    """The types that values will have are found first, so that an op keeps its storage where the
    target refuses it with the other one."""

    def __init__(self, ctx: QContext, activations: str, weights: str, level: Numerics) -> None:
        self.ctx = ctx
        self._level = level
        self.activations = activations
        self.weights = weights
        #: the types of results that change
        self.changed: dict[SSAValue, Attribute] = {}
        self.bits: set[Operation] = set()
        #: ops that keep their storage, as the target refuses the other one
        self.kept: set[Operation] = set()
        #: ops that compute something else on the other one
        self.fixed: set[Operation] = set()
        self.adapted: dict[SSAValue, SSAValue] = {}
        #: by value, what the target runs as another storage of the value can be had
        self._mended: dict[SSAValue, Operation] = {}
        #: types by identity, each with that of the same numbers on the other signedness
        self._others: dict[int, tuple[Attribute, Attribute]] = {}
        self._contracts: dict[str, Contract] = {}

    def run(self, module: ModuleOp) -> int:
        """Re-encode `module`; the number of values that changed."""
        ops = list(every_op(module))
        self.fixed = {op for op in ops if keeps_storage(self.ctx, op, self._level)}
        casts = (op for op in ops if isinstance(op, SCastOp))
        self.bits = {op for op in casts if only_read_again(op)}
        if not self._plan(ops):
            return 0
        for value, kind in self.changed.items():
            self._retype(value, kind)
        for op in ops:
            self._adapt_operands(op)
        for op in ops:
            if isinstance(op, ConstantOp) and is_dead(op):
                erase_op(op, self.ctx)
        return len(self.changed) + len(self.adapted)

    def _plan(self, ops: Sequence[Operation]) -> bool:
        """Find the types of results that change; whether the target runs the rescales that are
        needed between those and what keeps its storage."""
        while True:
            self.changed = {}
            for op in ops:
                self._plan_results(op)
            refused = {op: reason for op in ops if (reason := self._newly_refused(op))}
            for op, reason in refused.items():
                self._keep(op, f"'{op.name}': {reason}")
            if refused:
                continue
            adapters = {op: reason for op in ops if (reason := self._refused_adapter(op))}
            if not adapters:
                return True
            for op, reason in adapters.items():
                if op in self.kept or refused_by_target(self.ctx, op) is None:
                    self._refuse(op, f"'{RescaleOp.name}': {reason}")
                    return False
                self._keep(op, f"'{RescaleOp.name}': {reason}")

    def _keep(self, op: Operation, reason: str) -> None:
        """Let `op` have its storage."""
        self._refuse(op, reason)
        self.kept.add(op)
        self.bits.discard(op)
        if isinstance(op, SCastOp) and isinstance(op.input.owner, Operation):
            self.bits.discard(op.input.owner)

    def _type_of(self, value: SSAValue) -> Attribute:
        return self.changed.get(value, value.type)

    def _adapters(self, op: Operation) -> Sequence[int]:
        """The operands that `op` reads in another storage than they will have."""
        return [
            index
            for index, operand in enumerate(op.operands)
            if (storage := other_storage(self._type_of(operand))) is not None
            and self._operand_storage(op, index) == storage
        ]

    def _newly_refused(self, op: Operation) -> str | None:
        """Why the target refuses `op` on the types that it will have, if not on those now."""
        reason = self._will_be_refused(op)
        return reason if reason and refused_by_target(self.ctx, op) is None else None

    def _will_be_refused(self, op: Operation) -> str | None:
        """Why the target refuses `op` on the types that it will have, if these change."""
        adapted = self._adapters(op)
        if not adapted and not any(v in self.changed for v in (*op.operands, *op.results)):
            return None
        if not op.operands or not is_computed(self.ctx, op):
            return None
        operands = [self._type_of(value) for value in op.operands]
        for index in adapted:
            operands[index] = self._other_type(operands[index])
        results = [self._type_of(value) for value in op.results]
        return refused_types(self.ctx, op, operands, results)

    def _refused_adapter(self, op: Operation) -> str | None:
        """Why the target refuses a rescale in front of an operand of `op`, unless it lets `op`, or
        what makes the operand, run that was refused for the same reason."""
        for index in self._adapters(op):
            if constant_of(op.operands[index]) is not None:
                continue
            kind = self._type_of(op.operands[index])
            probe = RescaleOp.create(result_types=[self._other_type(kind)])
            reason = refused_types(self.ctx, probe, [kind], probe.result_types)
            if reason is None:
                continue
            value = op.operands[index]
            around = (op, value.owner) if isinstance(value.owner, Operation) else (op,)
            mended = [each for each in around if self._is_mended(each, reason)]
            if not mended:
                return reason
            self._mended[value] = mended[0]
        return None

    def _is_mended(self, op: Operation | Block, reason: str) -> bool:
        """Whether the target refuses `op` for `reason` now, and then no more."""
        if isinstance(op, Block) or refused_by_target(self.ctx, op) != reason:
            return False
        return self._will_be_refused(op) is None

    def _plan_results(self, op: Operation) -> None:
        """Change the storage of the results of an op that computes codes."""
        if self.activations == "keep":
            return
        if all(other_storage(result.type) != self.activations for result in op.results):
            return
        behavior = self.ctx.behaviors.get(op)
        if behavior is None and not isinstance(op, QCastOp | RescaleOp) and not self._reads(op):
            return
        if self._stays(op):
            return
        for index, result in enumerate(op.results):
            if other_storage(result.type) != self.activations:
                continue
            kind = self._other_type(result.type)
            new = quant_element(kind)
            assert new is not None
            if not self._makes_kept(op, new.data) and self._may_have(behavior, index, new.data):
                self.changed[result] = kind

    def _stays(self, op: Operation) -> bool:
        """Whether an op computes something else, or nothing, on the other storage."""
        return op in self.kept or op in self.fixed

    def _retype(self, result: SSAValue, kind: Attribute) -> None:
        """Give a result the type of the same numbers in another storage."""
        old, new = quant_element(result.type), quant_element(kind)
        assert old is not None and new is not None and isinstance(result.owner, Operation)
        was, storage = old.qparams.storage, new.qparams.storage
        ranges(self.ctx).renumber(result, storage.min - was.min)
        set_type(result, kind)
        self._note(result.owner, f"{was} becomes {storage}")

    def _other_type(self, kind: Attribute) -> Attribute:
        """The type of the same numbers on the other signedness."""
        known = self._others.get(id(kind))
        if known is None:
            element = quant_element(kind)
            assert element is not None
            params = element.qparams
            other = UniformType(params.with_signedness(not params.storage.signed))
            known = self._others[id(kind)] = kind, with_element(kind, other)
        return known[1]

    def _makes_kept(self, op: Operation, new: QParams) -> bool:
        """Whether `op` is a rescale to what all that is below keeps: this pass may have left it."""
        if not isinstance(op, RescaleOp):
            return False
        source = quant_element(self._type_of(op.input))
        if (source is None or source.qparams != new) and refused_by_target(self.ctx, op):
            return False
        return not any(
            (self.ctx.behaviors.get(user) or self._takes_any(user)) and not self._stays(user)
            for user in users(op.result)
        )

    def _may_have(self, behavior: Behavior | None, index: int, new: QParams) -> bool:
        storages = behavior.result_port(index).storages if behavior else None
        return storages is None or str(new.storage) in storages

    def _adapt_operands(self, op: Operation) -> None:
        changed = {index: self._adapted(op.operands[index], op) for index in self._adapters(op)}
        if changed:
            op.operands = [changed.get(i, operand) for i, operand in enumerate(op.operands)]

    def _operand_storage(self, op: Operation, index: int) -> str:
        """The storage in which `op` reads this operand, or `keep`."""
        operand = op.operands[index]
        behavior = self.ctx.behaviors.get(op)
        if op in self.bits:
            # The cast that reads the bits reads the new storage.
            return self.activations
        if behavior is None or self._stays(op):
            takes_any = self._takes_any(op) and op not in self.kept
            if operand not in self.changed or takes_any:
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

    def _adapted(self, value: SSAValue, user: Operation) -> SSAValue:
        """`value` in its other storage for `user`: a new constant, or a renumbering rescale."""
        if value in self.adapted:
            return self.adapted[value]
        constant, kind = constant_of(value), self._other_type(value.type)
        if constant is not None:
            new: ConstantOp | RescaleOp = self._constant(constant, kind)
        else:
            new = RescaleOp(value, kind, self.ctx.target.rounding(Rounding.HALF_EVEN))
        owner = value.owner
        if isinstance(owner, Block):
            assert owner.first_op is not None
            owner.insert_op_before(new, owner.first_op)
            new.location = self._mended.get(value, user).location
        else:
            assert owner.parent is not None
            owner.parent.insert_op_after(new, owner)
            new.location = self._mended.get(value, owner).location
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

    def _refuse(self, op: Operation, reason: str) -> None:
        """Say that `op` keeps its storage, and why."""
        reason = f"{self.ctx.target.name}: {reason}"
        self.ctx.remarks.at(op, "refused", ReencodeStorage.name, "target", reason)

    def _note(self, op: Operation, reason: str) -> None:
        name = ReencodeStorage.name
        if reason not in self._contracts:
            self._contracts[reason] = Contract(Numerics.EXACT, note=reason)
        self.ctx.remarks.add(fired_remark(name, name, op, self._contracts[reason]))

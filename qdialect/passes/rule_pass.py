"""`RulePass`, the base of passes that are a set of rules, and what their rules share.

The `refuse_` functions return a `Refusal` where a rule must not write an op: its declaration does
not take the types, the target does not run it, or a scale is out of range.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import inf
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.passes import ModulePass

from qdialect.algebra import requantize as exact
from qdialect.algebra.contract import level_named
from qdialect.algebra.qparams import QParams
from qdialect.analysis.codes import is_integer
from qdialect.ir.behaviors import Behavior, PortKind
from qdialect.ir.behaviors.flow import tied_operands
from qdialect.ir.context import QContext, session
from qdialect.ir.ops import shape_of
from qdialect.ir.ops.ports import port_refusal
from qdialect.ir.quant import (
    ROUNDING_KEY,
    DCastOp,
    QCastOp,
    RescaleOp,
    UniformType,
    quant_element,
    with_element,
)
from qdialect.rewrite import Driver, Refusal, Rule
from qdialect.rewrite.effects import has_effects
from qdialect.rewrite.refused import refused_types

if TYPE_CHECKING:
    from qdialect.rewrite.pattern import RulePattern

Where = Literal["target", "all"]
"""Where a pass applies: where the target is faster so, or everywhere."""


@dataclass(frozen=True)
class RulePass(ModulePass):
    """A pass that applies its rules, those of the classes `of`, with the driver, up to `numerics`.

    `assume`: `nothing`, or `profile` to believe the ranges stated on the IR.
    """

    name: ClassVar[str]
    counts_changes: ClassVar[bool] = True
    idempotent: ClassVar[bool] = True
    keeps_analyses: ClassVar[bool] = True
    of: ClassVar[Sequence[type[Rule[Any]]]]

    numerics: str = "exact"
    assume: Literal["nothing", "profile"] = "nothing"

    def rules(self, session: QContext) -> Sequence[Rule[Any]]:
        """The rules, most specific first."""
        return [rule(session) for rule in self.of]

    def patterns(self, ctx: Context, *, logs: bool = True) -> list[RulePattern]:
        """The rules as patterns of xDSL, most specific first; see `RulePattern`."""
        from qdialect.rewrite.pattern import RulePattern

        level, believes = level_named(self.numerics), self.assume == "profile"
        return [
            RulePattern(rule, numerics=level, assume=believes, logs=logs)
            for rule in self.rules(session(ctx))
        ]

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Run the pass on a module, in place."""
        level = level_named(self.numerics)
        qctx, believes = session(ctx), self.assume == "profile"
        rules = self.rules(qctx)
        Driver(qctx, rules, pass_name=self.name, numerics=level, assume=believes).run(op)


def with_qparams(value: SSAValue, qparams: QParams) -> Attribute:
    """The type of `value` with other qparams."""
    return with_element(value.type, uniform(qparams))


@lru_cache(maxsize=1 << 14)
def uniform(qparams: QParams) -> UniformType:
    """One type object for equal qparams, so that properties cached on it are computed once."""
    return UniformType(qparams)


def dequantized(value: SSAValue) -> DCastOp | None:
    """The `quant.dcast` that defines `value`, if one does."""
    owner = value.owner
    # For nearly every operand; where the answer is no, `isinstance` is slow.
    return owner if type(owner) is DCastOp else None


def rescaled(value: SSAValue) -> RescaleOp | None:
    """The real-form `quant.rescale` that defines `value`, if one does."""
    owner = value.owner
    return owner if type(owner) is RescaleOp and owner.fixed_point is None else None


def users(value: SSAValue) -> list[Operation]:
    """The distinct ops that use `value`."""
    return list(dict.fromkeys(use.operation for use in value.uses))


def quantize_as(cast: QCastOp, value: SSAValue, kind: Attribute) -> QCastOp:
    """A quantize of `value` to the type `kind` that rounds as `cast` does."""
    new = QCastOp(value, kind)
    if ROUNDING_KEY in cast.attributes:
        new.attributes[ROUNDING_KEY] = cast.attributes[ROUNDING_KEY]
    return new


def only_quantized_alike(value: SSAValue) -> list[QCastOp] | None:
    """All users of `value` if each is a `quant.qcast` to the same type with the
    same rounding, else None."""
    casts: list[QCastOp] = []
    for user in users(value):
        if type(user) is not QCastOp:
            return None
        casts.append(user)
    return casts if quantized_alike(casts) else None


def quantized_alike(casts: Sequence[QCastOp]) -> bool:
    """Whether there are quantizes, and all to the same type with the same rounding."""
    return bool(casts) and all(
        c.result.type == casts[0].result.type
        and c.attributes.get(ROUNDING_KEY) == casts[0].attributes.get(ROUNDING_KEY)
        for c in casts[1:]
    )


def refuse_types(
    ctx: QContext,
    behavior: Behavior,
    op: Operation,
    operands: Sequence[Attribute],
    results: Sequence[Attribute],
) -> Refusal | None:
    """Why `op` must not have operands and results of these types: its declaration, or the target.

    A declaration states that an op is a function; traits may state that it does more.
    """
    params, result_params = ([_qparams(t) for t in types] for types in (operands, results))
    refusal = refuse_effects(op) or _refuse_ports(behavior, op, params, result_params)
    if refusal is not None:
        return refusal
    reason = refused_types(ctx, op, operands, results)
    return Refusal("target", f"{ctx.target.name}: {reason}") if reason else None


def refuse_both_bytes(
    ctx: QContext, types: Sequence[Attribute], before: Sequence[Attribute] = ()
) -> Refusal | None:
    """An op on values of these types is on u8 and i8, which it is not on those `before`, and the
    target has no kernel for both."""
    if ctx.target.mixes_bytes or len(_bytes(types)) < 2 or len(_bytes(before)) == 2:
        return None
    return Refusal("storage", f"{ctx.target.name} has no kernel for u8 and i8 at once")


def _bytes(types: Sequence[Attribute]) -> set[bool]:
    storages = (params.storage for params in map(_qparams, types) if params is not None)
    return {storage.signed for storage in storages if storage.width == 8}


def refuse_new(ctx: QContext, ops: Sequence[Operation]) -> Refusal | None:
    """`refuse_types` for ops that would take the place of others, constants apart; the first
    refusal, if there is one."""
    for op in ops:
        behavior = ctx.behaviors.get(op)
        if behavior is not None and op.operands:
            refusal = refuse_types(ctx, behavior, op, op.operand_types, op.result_types)
            if refusal is not None:
                return refusal
    return None


def erase_new(ops: Sequence[Operation]) -> None:
    """Take back ops that are in no block yet."""
    for op in reversed(ops):
        op.erase()


def refuse_tied(
    ctx: QContext,
    behavior: Behavior,
    op: Operation,
    operands: Sequence[QParams],
    results: Sequence[QParams],
) -> Refusal | None:
    """`refuse_types` for `op` with these qparams on its tied operands and on its results."""
    kinds = [v.type for v in op.operands]
    for index, qparams in zip(tied_operands(op, behavior), operands, strict=True):
        kinds[index] = with_qparams(op.operands[index], qparams)
    result_kinds = [with_qparams(v, q) for v, q in zip(op.results, results, strict=True)]
    return refuse_types(ctx, behavior, op, kinds, result_kinds)


def refuse_qparams(
    ctx: QContext,
    behavior: Behavior,
    op: Operation,
    operands: Sequence[QParams | None],
    results: Sequence[QParams | None],
) -> Refusal | None:
    """`refuse_types` for `op` with other qparams where it has some, effects apart."""
    refusal = _refuse_ports(behavior, op, operands, results)
    if refusal is not None:
        return refusal
    reason = ctx.target.refuses_with(op, operands, results)
    return Refusal("target", f"{ctx.target.name}: {reason}") if reason else None


def refuse_effects(op: Operation) -> Refusal | None:
    """An op that does more than compute its results must stay as it is."""
    if op.regions or has_effects(op):
        return Refusal("effects", f"'{op.name}' may do more than compute its results")
    return None


def _qparams(kind: Attribute) -> QParams | None:
    element = quant_element(kind)
    return None if element is None else element.qparams


def _refuse_ports(
    behavior: Behavior,
    op: Operation,
    operands: Sequence[QParams | None],
    results: Sequence[QParams | None],
) -> Refusal | None:
    for side, values, port_of in (
        (operands, op.operands, behavior.operand_port),
        (results, op.results, behavior.result_port),
    ):
        for index, qparams in enumerate(side):
            if qparams is None:
                continue
            port = port_of(index)
            if port.kind is PortKind.PLAIN:
                return Refusal("port", f"takes no quantized {port.role}")
            if behavior.movement is None and not is_integer(qparams):
                return Refusal("storage", f"no arithmetic on codes stored as {qparams.storage}")
            if port.storages or not qparams.is_per_tensor:
                reason = port_refusal(op, port, qparams, shape_of(values[index]))
                if reason:
                    return Refusal("port", reason)
            refusal = refuse_scales(qparams)
            if refusal is not None:
                return refusal
    return None


def refuse_scales(params: QParams) -> Refusal | None:
    """Parameters that were computed must be those of a type."""
    if params.is_expressible:
        return None
    return Refusal("scale", f"a scale would leave the range of {params.expressed}")


def refuse_growth(before: Sequence[QParams], after: Iterable[QParams]) -> Refusal | None:
    """A run-time value must not get more parameters than it had (law 2.2: cost): none of
    `after` has more than `before` together."""
    source = sum(q.count for q in before)
    grown = next((q for q in after if q.count > source), None)
    if grown is None:
        return None
    return Refusal("growth", f"{source} parameters would become {grown.count}")


def names_all(params: Sequence[QParams], levels: Sequence[float]) -> bool:
    """Whether every one of `params` has codes for all `levels`."""
    return all(exact.represents(a, v) for v in levels for q in params for a in exact.quant_grids(q))


def keeps_order(
    behavior: Behavior, op: Operation, params: Sequence[QParams], *, inside: bool
) -> bool:
    """Whether comparing codes is comparing the reals they name, for the constants that
    an order-preserving `op` compares with.

    Each constant must be named by a code, or be a bound that never acts: one below
    (or above) everything that codes `inside` the storage bounds name.
    """
    if behavior.compared_constants is None and behavior.clamp is None:
        return True
    if behavior.clamp is None:
        return names_all(
            params, behavior.compared_constants(op) if behavior.compared_constants else ()
        )
    low, high = behavior.clamp(op)
    for a in (a for q in params for a in exact.quant_grids(q)):
        for bound, end, sign in ((low, 0, 1), (high, 1, -1)):
            if bound == -sign * inf or exact.represents(a, bound):
                continue
            if not (inside and sign * bound <= sign * exact.real_range(a)[end]):
                return False
    return True

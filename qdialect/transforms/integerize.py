"""Turn dequantize -> op -> quantize into the quantized op.

A quantized op means: dequantize its operands exactly, apply the op in real
arithmetic, quantize the result.  That is what DQ -> op -> Q spells out, so the
rewrite is exact (docs/design/001-architecture.md).  Three rules work together:

    quantize(op(dequantize(a), ...))   ->  op(a, ...)                 op requantizes
    quantize(f(x))                     ->  f(quantize(x))             f moves elements
                                           or preserves order: Q is monotone and
                                           elementwise, so it commutes with f
    f(dequantize(a))                   ->  dequantize(f(a))           inside a closed
                                           island only

and quantize(dequantize(a)) becomes nothing or a rescale.  Only islands closed by
a quantize are touched: no op at a float interface changes.

For example

    %0 = quant.dcast %x : !a to !f
    %1 = quant.dcast %y : !b to !f
    %2 = nn.add %0, %1 : (!f, !f) -> !f
    %3 = quant.qcast %2 : !f to !a

becomes

    %3 = nn.add %x, %y : (!a, !b) -> !a
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Operation, SSAValue

from qdialect.analysis.codes import inside_bounds, qparams_of, seen_qparams
from qdialect.analysis.islands import Islands
from qdialect.behaviors import Behavior
from qdialect.behaviors import Rule as PortRule
from qdialect.behaviors.flow import carry_all_down, carry_up, tied_operands
from qdialect.context import QContext
from qdialect.dialects.nn.constants import ConstantOp, constant_array, constant_of
from qdialect.dialects.nn.ports import bias_matches
from qdialect.dialects.quant import DCastOp, QCastOp, cast_rounding
from qdialect.numerics.contract import EXACT, Contract
from qdialect.numerics.requantize import affines, on_grid, represents
from qdialect.numerics.rounding import Rounding
from qdialect.qparams import QParams
from qdialect.qparams.legality import Illegal
from qdialect.rewrite import Refusal, Rewriter, Rule, retyped
from qdialect.transforms.cast_rules import QuantizeOfConstant, QuantizeOfDequantize
from qdialect.transforms.pair_contract import NO_GEMMLOWP
from qdialect.transforms.rule_pass import (
    RulePass,
    dequantized,
    keeps_order,
    only_quantized_alike,
    refuse_growth,
    refuse_types,
    with_qparams,
)
from qdialect.transforms.scalars import exact_copy


@dataclass(frozen=True)
class _Island:
    cast: QCastOp
    op: Operation
    behavior: Behavior


class _IslandRule(Rule[_Island]):
    """A rule at a quantize whose operand an op with a declaration computes."""

    tied: bool

    def __init__(self, session: QContext, islands: list[Islands]) -> None:
        super().__init__(session)
        self._islands = islands

    @property
    def islands(self) -> Islands:
        return self._islands[0]

    def roots(self) -> Iterable[str]:
        return (QCastOp.name,)

    def match(self, op: Operation) -> _Island | None:
        assert isinstance(op, QCastOp)
        owner = op.input.owner
        if not isinstance(owner, Operation) or (not self.tied and len(owner.results) != 1):
            return None
        behavior = self.session.behaviors.get(owner)
        if behavior is None or qparams_of(op.result) is None:
            return None
        if not (behavior.commutes if self.tied else not behavior.is_tied):
            return None
        return _Island(op, owner, behavior)


class IntegerizeOp(_IslandRule):
    """quantize(op(dequantize(a), ...)) = op(a, ...), by the meaning of a quantized op."""

    name = "integerize-op"
    tied = False

    def check(self, match: _Island) -> Contract | Refusal:
        casts = only_quantized_alike(match.op.results[0])
        if casts is None:
            return Refusal("multi-use", "the float result is also used elsewhere")
        rounding = cast_rounding(match.cast)
        if rounding is Rounding.GEMMLOWP:
            return NO_GEMMLOWP
        if "rounding" not in match.op.properties and rounding is not Rounding.HALF_EVEN:
            return Refusal("rounding", f"'{match.op.name}' cannot round {rounding.value}")
        operands: list[SSAValue] = []
        for index, operand in enumerate(match.op.operands):
            codes = self._codes(match, index, operand)
            if isinstance(codes, Refusal):
                return codes
            operands.append(codes)
            if index in match.behavior.nonzero and self._may_be_zero(codes):
                role = match.behavior.operand_port(index).role
                return Refusal("undefined", f"the {role} may be 0")
        refusal = refuse_types(
            self.session,
            match.behavior,
            match.op,
            [v.type for v in operands],
            [match.cast.result.type],
        )
        return refusal or EXACT

    def _may_be_zero(self, codes: SSAValue) -> bool:
        params, constant = seen_qparams(codes, self.session.behaviors), constant_of(codes)
        if params is None:
            return True
        if constant is None or not params.is_per_tensor:
            return any(represents(a, 0.0) for a in affines(params))
        return bool((constant_array(constant, self.session.blobs) == params.zero_point).any())

    def _codes(self, match: _Island, index: int, operand: SSAValue) -> SSAValue | Refusal:
        """What the quantized op takes in place of a float operand; a scalar constant
        becomes a new quantized constant that is exactly the same number."""
        port = match.behavior.operand_port(index)
        if port.rule is PortRule.PLAIN:
            return operand
        cast = dequantized(operand)
        if port.rule is PortRule.BIAS:
            return cast.input if cast and self._is_bias(match, cast) else operand
        if cast is not None and qparams_of(cast.input) is not None:
            return cast.input
        scalar = exact_copy(operand, self.session)
        if scalar is None:
            return Refusal("float-operand", f"the {port.role} is not dequantized")
        return scalar.result

    def _is_bias(self, match: _Island, bias: DCastOp) -> bool:
        acc = match.behavior.accumulator
        if acc is None:
            return False
        sides = [dequantized(match.op.operands[n]) for n in (acc.lhs, acc.rhs)]
        params = [qparams_of(side.input) if side else None for side in (*sides, bias)]
        lhs, rhs, own = params
        return (
            lhs is not None and rhs is not None and own is not None and bias_matches(lhs, rhs, own)
        )

    def rewrite(self, match: _Island, rewriter: Rewriter) -> None:
        casts = only_quantized_alike(match.op.results[0])
        assert casts is not None
        operands: list[SSAValue] = []
        for index, operand in enumerate(match.op.operands):
            codes = self._codes(match, index, operand)
            assert not isinstance(codes, Refusal)
            if isinstance(codes.owner, ConstantOp) and codes.owner.parent is None:
                rewriter.insert(codes.owner, match.op, keep=constant_of(operand))
            operands.append(codes)
        new = retyped(match.op, operands, [match.cast.result.type])
        if "rounding" in new.properties:
            new.properties["rounding"] = StringAttr(cast_rounding(match.cast).value)
        rewriter.insert(new, match.op, keep=match.op)
        for cast in casts:
            rewriter.replace(cast, new.results)


class HoistQuantize(_IslandRule):
    """quantize(f(x)) = f(quantize(x)) for f a movement or order-preserving.

    Q is elementwise and monotone.  A movement needs operand qparams that the index
    map carries to the result's; constants that f compares with (relu, clip) are
    quantized alike on both sides.
    """

    name = "hoist-quantize"
    tied = True

    def check(self, match: _Island) -> Contract | Refusal:
        if match.op.results[0] not in self.islands.lands:
            return Refusal("open-island", "the float values above are not dequantized codes")
        casts = self._casts(match)
        if casts is None:
            return Refusal("multi-use", "the float result is also used elsewhere")
        params = qparams_of(match.cast.result)
        assert params is not None
        levels = match.behavior.levels(match.op) if match.behavior.levels else ()
        rounds = any(isfinite(v) and not on_grid(a, v) for v in levels for a in affines(params))
        if rounds and cast_rounding(match.cast) is not Rounding.HALF_EVEN:
            return Refusal("rounding", "constants it compares with are quantized half even")
        operands = carry_up(match.op, match.behavior, self._params(casts))
        if isinstance(operands, Illegal):
            return Refusal(operands.code, operands.reason)
        tied = tied_operands(match.op, match.behavior)
        kinds = [v.type for v in match.op.operands]
        for index, qparams in zip(tied, operands, strict=True):
            kinds[index] = with_qparams(match.op.operands[index], qparams)
        results = [cast.result.type for cast in casts]
        return refuse_types(self.session, match.behavior, match.op, kinds, results) or EXACT

    def _casts(self, match: _Island) -> list[QCastOp] | None:
        """Per result the quantize that is its only use, all with one rounding; else None."""
        casts: list[QCastOp] = []
        for result in match.op.results:
            use = result.first_use
            cast = use.operation if use is not None and result.has_one_use() else None
            if not isinstance(cast, QCastOp) or qparams_of(cast.result) is None:
                return None
            casts.append(cast)
        same = all(cast_rounding(cast) is cast_rounding(match.cast) for cast in casts)
        return casts if same else None

    def _params(self, casts: Sequence[QCastOp]) -> list[QParams]:
        return [params for cast in casts if (params := qparams_of(cast.result)) is not None]

    def rewrite(self, match: _Island, rewriter: Rewriter) -> None:
        casts = self._casts(match)
        assert casts is not None
        above = carry_up(match.op, match.behavior, self._params(casts))
        assert not isinstance(above, Illegal)
        operands = list(match.op.operands)
        tied = tied_operands(match.op, match.behavior)
        for index, qparams in zip(tied, above, strict=True):
            cast = QCastOp(operands[index], with_qparams(operands[index], qparams))
            if "quant.rounding" in match.cast.attributes:
                cast.attributes["quant.rounding"] = match.cast.attributes["quant.rounding"]
            rewriter.insert(cast, match.op)
            operands[index] = cast.result
        new = retyped(match.op, operands, [cast.result.type for cast in casts])
        rewriter.insert(new, match.op, keep=match.op)
        for cast, result in zip(casts, new.results, strict=True):
            rewriter.replace(cast, [result])


class SinkDequantize(Rule[Operation]):
    """f(dequantize(a)) = dequantize(f(a)): law 2.2 for a movement; dequantize is
    monotone for an order-preserving f at bounds that the codes represent."""

    name = "sink-dequantize"

    def __init__(self, session: QContext, islands: list[Islands]) -> None:
        super().__init__(session)
        self._islands = islands

    def prepare(self, module: Operation) -> None:
        self._islands[:] = [Islands(module, self.session.behaviors)]

    def roots(self) -> Iterable[str]:
        return self.session.behaviors.names_with(lambda b: b.commutes)

    def match(self, op: Operation) -> Operation | None:
        behavior = self.session.behaviors.get(op)
        assert behavior is not None
        tied = tied_operands(op, behavior)
        if not op.results or not tied:
            return None
        casts = [dequantized(op.operands[i]) for i in tied]
        return op if all(cast is not None for cast in casts) else None

    def check(self, match: Operation) -> Contract | Refusal:
        if any(result not in self._islands[0].closes for result in match.results):
            return Refusal("open-island", "the float result is not quantized again")
        behavior = self.session.behaviors.get(match)
        assert behavior is not None
        sources = self._sources(match, behavior)
        params = [qparams_of(source) for source in sources]
        known = [q for q in params if q is not None]
        if len(known) != len(params) or (behavior.mixes and len(set(known)) > 1):
            return Refusal("tied", "the operands have different qparams")
        inside = all(inside_bounds(source, self.session.behaviors) for source in sources)
        if not keeps_order(behavior, match, known, inside=inside):
            return Refusal("levels", "no code stands for a constant it compares with")
        carried = carry_all_down(match, behavior, known)
        if isinstance(carried, Illegal):
            return Refusal(carried.code, carried.reason)
        kinds = [v.type for v in match.operands]
        for index, source in zip(tied_operands(match, behavior), sources, strict=True):
            kinds[index] = source.type
        results = [with_qparams(v, q) for v, q in zip(match.results, carried, strict=True)]
        refusal = refuse_types(self.session, behavior, match, kinds, results)
        growths = (refuse_growth(known, qparams) for qparams in carried)
        return refusal or next(filter(None, growths), EXACT)

    def _sources(self, op: Operation, behavior: Behavior) -> list[SSAValue]:
        casts = [dequantized(op.operands[i]) for i in tied_operands(op, behavior)]
        return [cast.input for cast in casts if cast is not None]

    def rewrite(self, match: Operation, rewriter: Rewriter) -> None:
        behavior = self.session.behaviors.get(match)
        assert behavior is not None
        sources = self._sources(match, behavior)
        params = [qparams_of(source) for source in sources]
        carried = carry_all_down(match, behavior, [q for q in params if q is not None])
        assert not isinstance(carried, Illegal)
        operands = list(match.operands)
        for index, source in zip(tied_operands(match, behavior), sources, strict=True):
            operands[index] = source
        kinds = [with_qparams(v, q) for v, q in zip(match.results, carried, strict=True)]
        moved = retyped(match, operands, kinds)
        rewriter.insert(moved, match, keep=match)
        below: list[SSAValue] = []
        for source, result in zip(moved.results, match.results, strict=True):
            cast = DCastOp(source, result.type)
            rewriter.insert(cast, match)
            below.append(cast.result)
        rewriter.replace(match, below)


@dataclass(frozen=True)
class Integerize(RulePass):
    """dequantize -> op -> quantize becomes the quantized op; see the module."""

    name = "integerize"

    def rules(self, session: QContext) -> Sequence[Rule[Any]]:
        islands: list[Islands] = []
        return (
            SinkDequantize(session, islands),
            QuantizeOfDequantize(session),
            QuantizeOfConstant(session),
            IntegerizeOp(session, islands),
            HoistQuantize(session, islands),
        )

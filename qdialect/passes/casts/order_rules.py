"""Rules that let a comparison or an argmax read codes above a strictly monotone map.

    f(dequantize(a), ...)  ->  f(a, ...)
    f(rescale(a), ...)     ->  f(a, ...)      if no two codes become one

The indices and booleans that f computes depend on the order of the elements alone, and a
strictly monotone map keeps that. Dequantize is one if floats distinguish all codes, a
rescale if it neither merges nor clips any two of the codes that its operands can hold.
Results of f that are elements themselves (top-k) are mapped below it; if only those are
used, any monotone map will do.

    %0 = quant.dcast %x : !q to !f
    %1 = nn.arg_max %0 axis 1 : (!f) -> tensor<1xi64>        reads %x instead
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from xdsl.ir import Attribute, Operation, SSAValue

from qdialect.algebra import requantize as exact
from qdialect.algebra.arithmetic import keeps_distinct
from qdialect.algebra.contract import EXACT, Contract
from qdialect.algebra.qparams import QParams
from qdialect.algebra.qparams.legality import Illegal
from qdialect.algebra.rounding import Rounding
from qdialect.analysis.codes import is_integer, qparams_of, survives_float
from qdialect.analysis.ranges import narrowed_qparams
from qdialect.ir.behaviors import Behavior, PortKind
from qdialect.ir.behaviors.flow import carry_down, tied_operands
from qdialect.ir.quant import DCastOp, RescaleOp, arithmetic_of
from qdialect.passes.casts.cast_movement import PolicyRule
from qdialect.passes.pair_contract import NO_TWO_STAGE
from qdialect.passes.rule_pass import dequantized, refuse_types, rescaled, with_qparams
from qdialect.rewrite import Refusal, Rewriter, Rule, retyped


def keeps_apart(
    op: Operation,
    sources: Sequence[QParams],
    narrowed: Sequence[QParams],
    targets: Sequence[QParams],
    rounding: Rounding,
) -> bool:
    """Whether rescales of what `op` compares, from `sources` to `targets`, keep any two codes
    apart; `narrowed` has the known ranges of the codes."""
    low, high = min(q.storage.min for q in narrowed), max(q.storage.max for q in narrowed)
    for source, target in zip(sources, targets, strict=True):
        compared = source.with_storage(replace(source.storage, min=low, max=high))
        pairs = exact.unique_pairs(compared, target)
        floats = arithmetic_of(op).floats(source.expressed)
        if pairs is None or not all(keeps_distinct(a, b, rounding, floats) for a, b in pairs):
            return False
    return True


@dataclass(frozen=True)
class ComparedCodes:
    """An op that computes from order only and, per tied operand, the map above it (or None)."""

    op: Operation
    behavior: Behavior
    tied: tuple[int, ...]
    maps: tuple[Operation | None, ...]

    @property
    def sources(self) -> list[SSAValue]:
        """The codes above the maps."""
        return [above.operands[0] for above in self.maps if above is not None]


class _OrderRule(Rule[ComparedCodes]):
    """What the two rules share."""

    def roots(self) -> Iterable[str]:
        return self.session.behaviors.names_with(lambda b: b.compares)

    def match(self, op: Operation) -> ComparedCodes | None:
        behavior = self.session.behaviors.get(op)
        assert behavior is not None
        tied = tuple(tied_operands(op, behavior))
        maps = tuple(self.above(op.operands[i]) for i in tied)
        return ComparedCodes(op, behavior, tied, maps) if any(maps) else None

    @abstractmethod
    def above(self, value: SSAValue) -> Operation | None:
        """The map that gives `value`, if one does."""

    @abstractmethod
    def refuses(self, match: ComparedCodes, sources: Sequence[QParams]) -> Refusal | None:
        """Why the maps, of codes of `sources`, may change an order."""

    def unlike(self, match: ComparedCodes) -> Refusal | None:
        """Why the maps are no one monotone map."""
        return None

    @abstractmethod
    def below(self, match: ComparedCodes, source: SSAValue, kind: Attribute) -> Operation:
        """The map of a result that is elements of the operands."""

    def check(self, match: ComparedCodes) -> Contract | Refusal:
        params = [qparams_of(source) for source in match.sources]
        known = [q for q in params if q is not None and is_integer(q)]
        if len(known) != len(match.tied):
            return Refusal("operands", "not all that it compares are codes mapped alike")
        carried = carry_down(match.op, match.behavior, known)
        if isinstance(carried, Illegal):
            return Refusal(carried.code, carried.reason)
        refusal = self.unlike(match)
        if refusal is None and self._uses_order(match):
            refusal = self.refuses(match, known)
        if refusal:
            return refusal
        operands = [v.type for v in self._operands(match)]
        refusal = refuse_types(
            self.session, match.behavior, match.op, operands, self._kinds(match, carried)
        )
        return refusal or EXACT

    def _operands(self, match: ComparedCodes) -> list[SSAValue]:
        operands = list(match.op.operands)
        for index, source in zip(match.tied, match.sources, strict=True):
            operands[index] = source
        return operands

    def _kinds(self, match: ComparedCodes, carried: QParams) -> list[Attribute]:
        return [
            with_qparams(result, carried) if self._is_element(match, index) else result.type
            for index, result in enumerate(match.op.results)
        ]

    def _uses_order(self, match: ComparedCodes) -> bool:
        """Whether a result that is no element, but depends on the order, is used."""
        return any(
            result.first_use is not None and not self._is_element(match, index)
            for index, result in enumerate(match.op.results)
        )

    def _is_element(self, match: ComparedCodes, result: int) -> bool:
        return match.behavior.result_port(result).kind is PortKind.TIED

    def rewrite(self, match: ComparedCodes, rewriter: Rewriter) -> None:
        known = [q for source in match.sources if (q := qparams_of(source)) is not None]
        carried = carry_down(match.op, match.behavior, known)
        assert not isinstance(carried, Illegal)
        new = retyped(match.op, self._operands(match), self._kinds(match, carried))
        rewriter.insert(new, match.op, keep=match.op)
        results: list[SSAValue] = []
        for index, (source, result) in enumerate(zip(new.results, match.op.results, strict=True)):
            if not self._is_element(match, index):
                results.append(source)
                continue
            mapped = self.below(match, source, result.type)
            rewriter.insert(mapped, match.op)
            results.append(mapped.results[0])
        rewriter.replace(match.op, results)


class OrderOfDequantize(_OrderRule, PolicyRule[ComparedCodes]):
    """f(dequantize(a), ...) = f(a, ...): dequantize is strictly monotone."""

    name = "order-of-dequantize"

    def check(self, match: ComparedCodes) -> Contract | Refusal:
        moves = any(self._is_element(match, i) for i in range(len(match.op.results)))
        refusal = self.policy.sink_dequantize(match.op) if moves else None
        return refusal or super().check(match)

    def above(self, value: SSAValue) -> Operation | None:
        """The dequantize that gives `value`."""
        return dequantized(value)

    def refuses(self, match: ComparedCodes, sources: Sequence[QParams]) -> Refusal | None:
        """Refused where two codes are one float."""
        for source in match.sources:
            narrowed = narrowed_qparams(source, self.session)
            if narrowed is None or not survives_float(narrowed):
                return Refusal("float-path", "the floats do not tell all codes apart")
        return None

    def below(self, match: ComparedCodes, source: SSAValue, kind: Attribute) -> Operation:
        """A dequantize."""
        return DCastOp(source, kind)


class OrderOfRescale(_OrderRule):
    """f(rescale(a), ...) = f(a, ...) if the rescale keeps all codes that it meets apart."""

    name = "order-of-rescale"

    def above(self, value: SSAValue) -> Operation | None:
        """The rescale that gives `value`."""
        return rescaled(value)

    def unlike(self, match: ComparedCodes) -> Refusal | None:
        """Refused where the rescales round differently, or twice."""
        roundings = {r.rounding for r in self._rescales(match)}
        if len(roundings) > 1:
            return Refusal("rounding", "the operands are rescaled with different roundings")
        return NO_TWO_STAGE if any(one.two_stage for one in roundings) else None

    def _rescales(self, match: ComparedCodes) -> list[RescaleOp]:
        return [above for above in match.maps if isinstance(above, RescaleOp)]

    def refuses(self, match: ComparedCodes, sources: Sequence[QParams]) -> Refusal | None:
        """Refused where a rescale makes one code of two that are compared."""
        rescales = self._rescales(match)
        rounding = rescales[0].rounding
        narrowed = [q for r in rescales if (q := narrowed_qparams(r.input, self.session))]
        targets = [r.result_qparams for r in rescales]
        if keeps_apart(match.op, sources, narrowed, targets, rounding):
            return None
        return Refusal("merges", "the rescale makes one code of several")

    def below(self, match: ComparedCodes, source: SSAValue, kind: Attribute) -> Operation:
        """The same rescale."""
        rescale = match.maps[0]
        assert isinstance(rescale, RescaleOp)
        return RescaleOp(source, kind, rescale.rounding)

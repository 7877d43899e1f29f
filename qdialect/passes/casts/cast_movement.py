"""Rules that move quantize and dequantize past movement and order-preserving ops.

    quantize(f(x))     <->  f(quantize(x))
    f(dequantize(q))   <->  dequantize(f(q))

Quantize and dequantize are elementwise and monotone, so they commute with an op f
that copies elements (qparams follow its index map, law 2.2) or preserves order:
exact either way. A `Policy` decides op by op which way a cast may go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import TypeVar

from xdsl.ir import Attribute, Operation, SSAValue

from qdialect.algebra.arithmetic import Arithmetic
from qdialect.algebra.contract import EXACT, Contract, Numerics
from qdialect.algebra.qparams import QParams
from qdialect.algebra.qparams.legality import Illegal
from qdialect.algebra.requantize import on_grid, quant_grids
from qdialect.algebra.rounding import Rounding
from qdialect.analysis.codes import qparams_of
from qdialect.analysis.not_a_number import NotANumber
from qdialect.analysis.ranges import inside_bounds
from qdialect.ir.behaviors import Behavior
from qdialect.ir.behaviors.flow import carry_all_down, carry_up, tied_operands
from qdialect.ir.behaviors.shapes import shape_of
from qdialect.ir.context import QContext
from qdialect.ir.ops.shapes import DYNAMIC
from qdialect.ir.quant import DCastOp, QCastOp, arithmetic_of, cast_rounding, with_element
from qdialect.passes.rule_pass import (
    dequantized,
    keeps_order,
    only_quantized_alike,
    quantize_as,
    refuse_growth,
    refuse_tied,
    refuse_types,
    with_qparams,
)
from qdialect.rewrite import Refusal, Rewriter, Rule, retyped

M = TypeVar("M")


class Policy:
    """Which casts may pass an op; this one lets every cast sink into integers.

    Each method answers for the op that is passed: None, or why not.
    """

    def prepare(self, module: Operation) -> None:
        """Called before a run, once per rule: the place for a linear analysis."""

    def hoist_quantize(self, op: Operation) -> Refusal | None:
        """Whether the quantizes of the results of `op` may move above it."""
        return None

    def sink_dequantize(self, op: Operation) -> Refusal | None:
        """Whether the dequantizes of the operands of `op` may move below it."""
        return None


@dataclass(frozen=True)
class Quantized:
    """A quantize and the commuting op that computes its operand."""

    cast: QCastOp
    op: Operation
    behavior: Behavior


class PolicyRule(Rule[M]):
    """A rule that asks a policy first."""

    def __init__(self, session: QContext, policy: Policy) -> None:
        super().__init__(session)
        self.policy = policy

    def prepare(self, module: Operation) -> None:
        """Prepare the policy."""
        self.policy.prepare(module)


class HoistQuantize(PolicyRule[Quantized]):
    """quantize(f(x)) = f(quantize(x)) for f a movement or order-preserving.

    A movement needs operand qparams that the index map carries to the result's;
    constants that f compares with (relu, clip) are quantized alike on both sides.
    NaN has no place in an order: f may clamp the code it is stored as.  In a module of floats
    no op above may make one; the inputs of a model are assumed to have none.
    """

    name = "hoist-quantize"
    root = QCastOp.name

    def __init__(self, session: QContext, policy: Policy) -> None:
        super().__init__(session, policy)
        self._not_a_number = NotANumber(session)

    def prepare(self, module: Operation) -> None:
        """Prepare the policy and the analysis of what may be no number."""
        super().prepare(module)
        self._not_a_number = NotANumber(self.session)

    def match(self, op: Operation) -> Quantized | None:
        assert isinstance(op, QCastOp)
        owner = op.input.owner
        if not isinstance(owner, Operation) or qparams_of(op.result) is None:
            return None
        behavior = self.session.behaviors.get(owner)
        return Quantized(op, owner, behavior) if behavior and behavior.commutes else None

    def check(self, match: Quantized) -> Contract | Refusal:
        refusal = self.policy.hoist_quantize(match.op)
        if refusal:
            return refusal
        casts = self._casts(match)
        if casts is None:
            return Refusal("multi-use", "the float result is also used elsewhere")
        rounding = cast_rounding(match.cast)
        above = quantized_above(
            self.session, match.op, match.behavior, self._params(casts), rounding
        )
        if isinstance(above, Refusal):
            return above
        compares = match.behavior.movement is None
        if compares and meets_nan(match.op, match.behavior, self._not_a_number):
            return Refusal("nan", "what it compares may be no number")
        return Contract(Numerics.EXACT, note="NaN aside") if compares else EXACT

    def _casts(self, match: Quantized) -> list[QCastOp] | None:
        """Per result one of the quantizes that alone use it and are alike, all with one
        rounding; else None."""
        casts: list[QCastOp] = []
        for result in match.op.results:
            alike = only_quantized_alike(result)
            if alike is None or qparams_of(alike[0].result) is None:
                return None
            casts.append(alike[0])
        same = all(cast_rounding(cast) is cast_rounding(match.cast) for cast in casts)
        return casts if same else None

    def _params(self, casts: Sequence[QCastOp]) -> list[QParams]:
        return [params for cast in casts if (params := qparams_of(cast.result)) is not None]

    def rewrite(self, match: Quantized, rewriter: Rewriter) -> None:
        casts = self._casts(match)
        assert casts is not None
        above = carry_up(match.op, match.behavior, self._params(casts))
        assert not isinstance(above, Illegal)
        operands = list(match.op.operands)
        tied = tied_operands(match.op, match.behavior)
        for index, qparams in zip(tied, above, strict=True):
            value = operands[index]
            cast = quantize_as(match.cast, value, with_qparams(value, qparams))
            rewriter.insert(cast, match.op)
            operands[index] = cast.result
        new = retyped(match.op, operands, [cast.result.type for cast in casts])
        rewriter.insert(new, match.op, keep=match.op)
        pairs = [
            (cast, result)
            for old, result in zip(match.op.results, new.results, strict=True)
            for cast in only_quantized_alike(old) or ()
        ]
        rewriter.check_replaced((cast.result, result) for cast, result in pairs)
        for cast, result in pairs:
            rewriter.replace(cast, [result])


def meets_nan(op: Operation, behavior: Behavior, not_a_number: NotANumber) -> bool:
    """Whether an operand of an op in a module of floats may be NaN."""
    if arithmetic_of(op) is Arithmetic.REAL:
        return False
    return any(not_a_number.may_be(op.operands[i]) for i in tied_operands(op, behavior))


def quantized_above(
    session: QContext,
    op: Operation,
    behavior: Behavior,
    params: Sequence[QParams],
    rounding: Rounding,
) -> list[QParams] | Refusal:
    """The qparams to which the tied operands of a float op are quantized, so that its results are
    codes of `params`, one for each; or why that computes something else."""
    levels = behavior.compared_constants(op) if behavior.compared_constants else ()
    rounds = any(isfinite(v) and not on_grid(a, v) for v in levels for a in quant_grids(params[0]))
    if rounds and rounding is not Rounding.HALF_EVEN:
        return Refusal("rounding", "constants it compares with are quantized half even")
    operands = carry_up(op, behavior, params)
    if isinstance(operands, Illegal):
        return Refusal(operands.code, operands.reason)
    return refuse_tied(session, behavior, op, operands, params) or operands


def refuse_floats(
    session: QContext, behavior: Behavior, op: Operation, expressed: Attribute
) -> Refusal | None:
    """Why an op on codes cannot be one on floats of type `expressed`, or None."""
    kinds = [v.type for v in op.operands]
    for index in tied_operands(op, behavior):
        kinds[index] = with_element(kinds[index], expressed)
    results = [with_element(v.type, expressed) for v in op.results]
    return refuse_types(session, behavior, op, kinds, results)


def codes_below(
    session: QContext,
    op: Operation,
    behavior: Behavior,
    params: Sequence[QParams],
    inside: Callable[[], bool],
) -> list[QParams] | Refusal:
    """The qparams of the results of a float op if its tied operands are codes of `params`; or
    why that computes something else. `inside` computes whether those are within their bounds."""
    if behavior.requantizes_inputs and len(set(params)) > 1:
        return Refusal("tied", "the operands have different qparams")
    if not keeps_order(behavior, op, params, inside=behavior.clamp is not None and inside()):
        return Refusal("levels", "no code stands for a constant it compares with")
    carried = carry_all_down(op, behavior, params)
    if isinstance(carried, Illegal):
        return Refusal(carried.code, carried.reason)
    refusal = refuse_tied(session, behavior, op, params, carried)
    return refusal or refuse_growth(params, carried) or carried


def may_select_nothing(op: Operation, behavior: Behavior) -> bool:
    """Whether an op in a module of floats may pick the extreme of no elements, as extents along
    which it picks are not known."""
    if behavior.select is None or behavior.operand_maps is None:
        return False
    if arithmetic_of(op) is Arithmetic.REAL:
        return False
    from qdialect.algebra.qparams.maps import First

    shape, maps = shape_of(op.operands[0]), behavior.operand_maps(op)
    return any(shape[d] == DYNAMIC for m in maps if isinstance(m, First) for d in m.dims)


class SinkDequantize(PolicyRule[Operation]):
    """f(dequantize(a)) = dequantize(f(a)): law 2.2 for a movement; dequantize is
    monotone for an order-preserving f at bounds that the codes represent."""

    name = "sink-dequantize"

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
        refusal = self.policy.sink_dequantize(match)
        if refusal:
            return refusal
        behavior = self.session.behaviors.get(match)
        assert behavior is not None
        if may_select_nothing(match, behavior):
            return Refusal("empty", "of nothing it gives an infinity, which no code is")
        sources = self._sources(match, behavior)
        params = [qparams_of(source) for source in sources]
        known = [q for q in params if q is not None]
        if len(known) != len(params):
            return Refusal("tied", "the operands have different qparams")

        def inside() -> bool:
            return all(inside_bounds(source, self.session) for source in sources)

        found = codes_below(self.session, match, behavior, known, inside)
        return found if isinstance(found, Refusal) else EXACT

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

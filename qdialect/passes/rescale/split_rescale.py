"""Take rescales out of requantizing ops, which leaves exact integer arithmetic.

    op_b(x, ...)  ->  rescale_{a->b}(op_a(x, ...))      a = i32, zero point 0, on which
                                                        the op is exact

The inverse of `combine-rescale`, for targets whose operators sum in 32 bits and rescale
after: a contraction on the product of its scales, a product likewise, a sum on the scale
of its operands, a mean of n on 1/n of it.  Exact, as the only rounding is that of the
rescale; a mean's scale may not be a number of 53 bits, which moves nothing but ties.

Terms of different scales are multiplied by integers first, onto 2**-k of the result's step
(`algebra.alignment`): exact if it comes out equal on all pairs of codes, else bounded(1).

Refused where 32 bits may not hold a sum. With `ops=sums` only contractions, sums and means
of one operand are split: what adds many numbers.

For example

    %1 = nn.mul %x, %y : (!a, !b) -> !c

becomes

    %0 = nn.mul %x, %y : (!a, !b) -> !products
    %1 = quant.rescale %0 : !products to !c
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Operation, SSAValue

from qdialect.algebra import alignment
from qdialect.algebra.alignment import Alignment
from qdialect.algebra.contract import EXACT, Contract, Numerics
from qdialect.algebra.qparams import QParams
from qdialect.algebra.requantize import QuantGrid, quant_grids, same_codes
from qdialect.algebra.rounding import Rounding
from qdialect.analysis.codes import constant_values, is_integer, qparams_of, rounding_of
from qdialect.analysis.contractions import keeps_activation, sums_of
from qdialect.analysis.ranges import ranges
from qdialect.ir.behaviors import Accumulator, Behavior, PortKind
from qdialect.ir.behaviors.shapes import DYNAMIC, shape_of
from qdialect.ir.context import QContext
from qdialect.ir.ops import constant_of, make_constant
from qdialect.ir.quant import RescaleOp, UniformType
from qdialect.passes.pair_contract import NO_TWO_STAGE
from qdialect.passes.rule_pass import RulePass, refuse_scales, refuse_types, with_qparams
from qdialect.rewrite import Refusal, Rewriter, Rule, retyped

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_MAX = 2**31 - 1
_FEW = 1 << 20


@dataclass(frozen=True)
class Split:
    """A requantizing op, the qparams of its result, and how a rule splits it."""

    op: Operation
    behavior: Behavior
    result: QParams
    plan: _Products | _Step | _Terms | Refusal | None = None


class _Splitting(Rule[Split]):
    """What the rules share: the op with an exact result, and a rescale behind it."""

    def match(self, op: Operation) -> Split | None:
        behavior = self.session.behaviors.get(op)
        if behavior is None or len(op.results) != 1:
            return None
        result = qparams_of(op.results[0])
        if behavior.results[0].kind is not PortKind.REQUANT or result is None:
            return None
        return Split(op, behavior, result) if is_integer(result) else None

    def refusal(self, match: Split, operands: Sequence[Any], exact: QParams) -> Refusal | None:
        """Why the op must not have these operands and the result `exact`."""
        kinds = [with_qparams(match.op.results[0], exact)]
        return refuse_types(self.session, match.behavior, match.op, operands, kinds)

    def split(
        self, match: Split, operands: Sequence[SSAValue], exact: QParams, rewriter: Rewriter
    ) -> None:
        """Insert the op on `operands` with result `exact`, and rescale that."""
        kind = with_qparams(match.op.results[0], exact)
        new = retyped(match.op, operands, [kind])
        if "rounding" in new.properties:
            # Nothing is rounded: one spelling for all.
            new.properties["rounding"] = StringAttr(Rounding.HALF_EVEN.value)
        rewriter.insert(new, match.op, keep=match.op)
        rounding = rounding_of(match.op)
        rescale = RescaleOp(new.results[0], match.op.results[0].type, rounding)
        rewriter.insert(rescale, match.op, keep=match.op)
        rewriter.replace(match.op, rescale.results)


class SplitContraction(_Splitting):
    """op_b(x, w, bias) = rescale(op(x, w, bias)), the sum of products being an i32.

    A constant bias that is not on the scale of the products is rounded to it, which moves
    the sum by at most half a step of the products.
    """

    name = "split-contraction"

    def roots(self) -> Iterable[str]:
        return self.session.behaviors.names_with(lambda b: b.accumulator is not None)

    def match(self, op: Operation) -> Split | None:
        found = super().match(op)
        if found is None:
            return None
        plan = self._plan(found)
        if not isinstance(plan, Refusal) and plan.exact == found.result:
            return None
        return replace(found, plan=plan)

    def _plan(self, found: Split) -> _Products | Refusal:
        sides = self._sides(found)
        if isinstance(sides, Refusal):
            return sides
        exact = self._products(found, sides)
        refusal = refuse_scales(exact)
        if refusal is not None:
            return refusal
        bias = self._bias(found, exact) if exact != found.result else None
        return bias if isinstance(bias, Refusal) else _Products(exact, bias)

    def check(self, match: Split) -> Contract | Refusal:
        plan = match.plan
        if isinstance(plan, Refusal):
            return plan
        assert isinstance(plan, _Products)
        exact, bias = plan
        if not keeps_activation(match.behavior, match.op):
            return Refusal("activation", "its sums would be limited to a number without a code")
        largest = self._largest(match, bias)
        if largest is None or largest > _MAX:
            return Refusal("overflow", "a sum of products may leave 32 bits")
        kinds = [value.type for value in match.op.operands]
        acc = self._accumulator(match)
        if bias is not None:
            assert acc.bias is not None
            kinds[acc.bias] = with_qparams(match.op.operands[acc.bias], bias.params)
        refusal = self.refusal(match, kinds, exact)
        if refusal is not None:
            return refusal
        if bias is None or bias.is_exact:
            return EXACT
        return Contract(Numerics.BOUNDED, 1, "the bias is rounded to the scale of the products")

    def _accumulator(self, match: Split) -> Accumulator:
        assert match.behavior.accumulator is not None
        return match.behavior.accumulator

    def _sides(self, match: Split) -> tuple[QParams, QParams] | Refusal:
        acc = self._accumulator(match)
        lhs, rhs = (qparams_of(match.op.operands[n]) for n in (acc.lhs, acc.rhs))
        if lhs is None or rhs is None or not (is_integer(lhs) and is_integer(rhs)):
            return Refusal("float", "not all operands are integers")
        if not lhs.is_per_tensor:
            return Refusal("axis", "the left side is not quantized per tensor")
        if not (rhs.is_per_tensor or rhs.axis == acc.rhs_axis(match.op)):
            return Refusal("axis", "the right side's scales vary along a summed dimension")
        return lhs, rhs

    def _products(self, match: Split, sides: tuple[QParams, QParams]) -> QParams:
        return accumulator_qparams(match.op, self._accumulator(match), *sides)

    def _bias(self, match: Split, exact: QParams) -> _Bias | Refusal | None:
        """The bias as an i32 on the scale of the products."""
        acc = self._accumulator(match)
        if acc.bias is None or acc.bias >= len(match.op.operands):
            return None
        value = match.op.operands[acc.bias]
        params, array = qparams_of(value), constant_values(value, self.session)
        if exact.is_per_tensor:
            expected = QParams.per_tensor("i32", exact.scale, 0, exact.expressed)
        else:
            expected = exact.with_axis(0)
        if params == expected:
            codes = ranges(self.session).of(value)
            largest = _MAX + 1 if codes is None else int(codes.largest)
            return _Bias(expected, largest, is_exact=True)
        if array is None or array.size != (shape_of(value) or (1,))[0]:
            return Refusal("bias", "the bias is neither on the scale of the products nor constant")
        import numpy as np

        reals = array.astype(np.float64)
        if params is not None:
            if not is_integer(params) or params.layout.value == "block":
                return Refusal("bias", f"the bias is stored as {params.storage}")
            reals = (reals - params.zero_point_array()) * params.scale_array()
        steps = np.rint(reals / expected.scale_array())
        if not np.isfinite(steps).all() or np.abs(steps).max(initial=0) > _MAX:
            return Refusal("overflow", "the bias does not fit 32 bits")
        same = bool((steps * expected.scale_array() == reals).all()) and params is None
        codes = steps.astype(np.int32)
        return _Bias(expected, int(np.abs(steps).max(initial=0)), is_exact=same, codes=codes)

    def _largest(self, match: Split, bias: _Bias | None) -> int | None:
        acc = self._accumulator(match)
        if acc.depth(match.op) == DYNAMIC:
            return None
        sides = match.op.operands[acc.lhs], match.op.operands[acc.rhs]
        known = ranges(self.session).of
        port = match.behavior.operand_port(acc.rhs)
        found = sums_of(self.session, match.op, acc, port, sides, known, partial=True)
        return None if found is None else found.largest + (bias.largest if bias else 0)

    def rewrite(self, match: Split, rewriter: Rewriter) -> None:
        assert isinstance(match.plan, _Products)
        exact, bias = match.plan
        operands = list(match.op.operands)
        if bias is not None and bias.codes is not None:
            acc = self._accumulator(match)
            assert acc.bias is not None
            element = UniformType(bias.params)
            new_bias = make_constant(bias.codes, element, self.session.blobs)
            rewriter.insert(new_bias, match.op, keep=constant_of(operands[acc.bias]))
            operands[acc.bias] = new_bias.result
        self.split(match, operands, exact, rewriter)


@dataclass(frozen=True)
class _Bias:
    """A bias on the scale of the products; with `codes` if it is a new constant."""

    params: QParams
    largest: int
    is_exact: bool
    codes: NDArray[np.int32] | None = None


class _Products(NamedTuple):
    """The i32 that sums products, and the bias on it."""

    exact: QParams
    bias: _Bias | None


class _Step(NamedTuple):
    """What all results are multiples of, exactly, and an i32 of that."""

    scale: Fraction
    exact: QParams


class _Terms(NamedTuple):
    """Terms of two scales, how they are aligned, and the i32 they are then on."""

    params: Sequence[QParams]
    alignment: Alignment
    common: QParams


class SplitExact(_Splitting):
    """op_b(x, ...) = rescale(op(x, ...)) where an i32 holds every result exactly
    (`Behavior.grid`)."""

    name = "split-exact"

    def __init__(self, session: QContext, only_sums: bool = False) -> None:
        super().__init__(session)
        self.only_sums = only_sums

    def roots(self) -> Iterable[str]:
        return self.session.behaviors.names_with(lambda b: b.grid is not None)

    def match(self, op: Operation) -> Split | None:
        found = super().match(op)
        if found is None or aligns(found):
            return None
        params = operand_qparams(op, found.behavior)
        if self.only_sums and not isinstance(params, Refusal) and len(params) > 1:
            return None
        plan = params if isinstance(params, Refusal) else self._plan(found, params)
        if isinstance(plan, _Step) and plan.exact == found.result:
            return None
        return replace(found, plan=plan)

    def check(self, match: Split) -> Contract | Refusal:
        plan = match.plan
        if isinstance(plan, Refusal):
            return plan
        assert isinstance(plan, _Step)
        scale, params = plan
        kinds = [value.type for value in match.op.operands]
        refusal = self.refusal(match, kinds, params)
        if refusal is not None:
            return refusal
        return self._contract(match, scale, params)

    def _contract(self, match: Split, scale: Fraction, params: QParams) -> Contract:
        """What the step in 53 bits in place of the exact one may change."""
        if Fraction(params.scale) == scale:
            return EXACT
        found = ranges(self.session).before_rounding(match.op.results[0])
        assert found is not None
        sums = int(max(f.largest for f in found) / scale) + 1
        rounding = rounding_of(match.op)
        if sums <= _FEW and all(
            same_codes(sums, (scale, Fraction(params.scale)), out, rounding)
            for out in quant_grids(match.result)
        ):
            return Contract(Numerics.EXACT, note="equal for every sum")
        return Contract(Numerics.TIES, note="a step of more than 53 bits: near ties may move")

    def _plan(self, match: Split, params: Sequence[QParams]) -> _Step | Refusal:
        assert match.behavior.grid is not None
        scale = match.behavior.grid(match.op, params)
        if scale is None:
            return Refusal("grid", "no single step makes up every result")
        found = ranges(self.session).before_rounding(match.op.results[0])
        if found is None or any(f.largest > _MAX * scale for f in found):
            return Refusal("overflow", "32 bits may not hold every result")
        try:
            exact = QParams.per_tensor("i32", float(scale), 0, params[0].expressed)
        except OverflowError:
            return Refusal("scale", f"a scale would leave the range of {params[0].expressed}")
        return refuse_scales(exact) or _Step(scale, exact)

    def rewrite(self, match: Split, rewriter: Rewriter) -> None:
        assert isinstance(match.plan, _Step)
        self.split(match, match.op.operands, match.plan.exact, rewriter)


class SplitAligned(_Splitting):
    """op_b(x, y) = rescale(op(m_x x, m_y y)): terms of different scales on one."""

    name = "split-aligned"

    def roots(self) -> Iterable[str]:
        return self.session.behaviors.names_with(lambda b: b.grid is not None)

    def match(self, op: Operation) -> Split | None:
        found = super().match(op)
        if found is None or not aligns(found):
            return None
        params = operand_qparams(op, found.behavior)
        plan = params if isinstance(params, Refusal) else self._plan(found, params)
        return replace(found, plan=plan)

    def check(self, match: Split) -> Contract | Refusal:
        if isinstance(match.plan, Refusal):
            return match.plan
        assert isinstance(match.plan, _Terms)
        params, plan, common = match.plan
        kinds = [with_qparams(value, common) for value in match.op.operands]
        refusal = self.refusal(match, kinds, common)
        if refusal is not None:
            return refusal
        terms, (out,) = [quant_grids(q)[0] for q in params], quant_grids(match.result)
        # A difference takes its second term negated; over all pairs of codes that is all.
        signs = (1, -1 if self._subtracts(match) else 1)
        return alignment.contract(terms, signs, out, plan, rounding_of(match.op))

    def _subtracts(self, match: Split) -> bool:
        assert match.behavior.arithmetic is not None
        return match.behavior.arithmetic(match.op, (Fraction(0), Fraction(1))) < 0

    def _plan(self, match: Split, params: Sequence[QParams]) -> _Terms | Refusal:
        if not match.result.is_per_tensor:
            return Refusal("axis", "the result is not quantized per tensor")
        if rounding_of(match.op).two_stage:
            return NO_TWO_STAGE
        terms: list[QuantGrid] = [quant_grids(q)[0] for q in params]
        plan = alignment.align(terms, quant_grids(match.result)[0])
        if plan is None:
            return Refusal("overflow", "32 bits are too few for the sum")
        step = match.result.scale * 2.0**-plan.shift
        return _Terms(params, plan, QParams.per_tensor("i32", step, 0, params[0].expressed))

    def rewrite(self, match: Split, rewriter: Rewriter) -> None:
        assert isinstance(match.plan, _Terms)
        params, plan, common = match.plan
        operands: list[SSAValue] = []
        for value, q, factor in zip(match.op.operands, params, plan.factors, strict=True):
            (a,) = quant_grids(q)
            furthest = max(abs(end - a.zero) for end in q.storage.full_range)
            m, k = alignment.as_pair(factor, furthest)
            term = RescaleOp(value, with_qparams(value, common), Rounding.HALF_UP, [m], [k])
            rewriter.insert(term, match.op)
            operands.append(term.result)
        self.split(match, operands, common, rewriter)


def aligns(match: Split) -> bool:
    """Whether the op is exact on operands of one scale, and these have two."""
    grid, params = match.behavior.grid, operand_qparams(match.op, match.behavior)
    assert grid is not None
    if isinstance(params, Refusal) or len(params) != 2 or grid(match.op, params) is not None:
        return False
    return grid(match.op, (params[0], params[0])) is not None


def operand_qparams(op: Operation, behavior: Behavior) -> list[QParams] | Refusal:
    """The qparams of the requantizing operands, with the bounds that codes keep, if all
    are integers with one scale."""
    found: list[QParams] = []
    for index, value in enumerate(op.operands):
        if behavior.operand_port(index).kind is not PortKind.REQUANT:
            continue
        params = qparams_of(value)
        if params is None or not is_integer(params):
            return Refusal("float", "not all operands are integers")
        if not params.is_per_tensor:
            return Refusal("axis", "an operand is not quantized per tensor")
        found.append(params)
    return found or Refusal("float", "no operand is quantized")


def accumulator_qparams(op: Operation, acc: Accumulator, lhs: QParams, rhs: QParams) -> QParams:
    """The i32 that sums products of `lhs` and `rhs`, per output channel where `rhs` is."""
    scales = [lhs.scale * s for s in rhs.scale_list()]
    if len(scales) == 1:
        return QParams.per_tensor("i32", scales[0], 0, lhs.expressed)
    axis, repeats = acc.result_axis(op), acc.repeats(op)
    return QParams.per_axis("i32", axis, scales * repeats, None, lhs.expressed)


def split_refusal(session: QContext, op: Operation) -> Refusal | None:
    """Why no rule takes the rescale out of `op`, if one would have to."""
    for rule in SplitRescale().rules(session):
        if op.name in set(rule.roots()) and (match := rule.match(op)) is not None:
            found = rule.check(match)
            if isinstance(found, Refusal):
                return found
    return None


@dataclass(frozen=True)
class SplitRescale(RulePass):
    """Exact integer ops, and rescales behind them; see the module.

    `ops` is `all` or `sums`.
    """

    name = "split-rescale"

    ops: Literal["all", "sums"] = "all"

    def rules(self, session: QContext) -> Sequence[Rule[Any]]:
        if self.ops == "sums":
            return (SplitContraction(session), SplitExact(session, only_sums=True))
        return (SplitContraction(session), SplitExact(session), SplitAligned(session))

"""A sum of rescaled codes, rescaled, as one op on the codes.

    rescale_{i->c}(op_i(rescale_{a->i}(x), rescale_{b->i}(y)))  ->  op_c(x, y)

with i = i32, on which op (a sum or difference of two terms) is exact: how integer code adds
numbers of different scales. The inverse of `split-aligned`. Multipliers and shifts only come close
to the scales, so all pairs of codes are looked at: exact if all give the same, else bounded(k).
Where a sum may leave i32, or too many are near ties to be decided, nothing fires.

For example

    %0 = quant.rescale %x rounding half_up multiplier [..] shift [..] : !a to !i
    %1 = quant.rescale %y rounding half_up multiplier [..] shift [..] : !b to !i
    %2 = nn.add %0, %1 : (!i, !i) -> !i
    %3 = quant.rescale %2 rounding half_up multiplier [..] shift [..] : !i to !c

becomes

    %3 = nn.add %x, %y rounding half_up : (!a, !b) -> !c
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Operation

from qdialect.algebra.alignment import exact_sums
from qdialect.algebra.contract import EXACT, Contract, Numerics
from qdialect.algebra.requantize import QuantGrid
from qdialect.algebra.rounding import Rounding
from qdialect.ir.behaviors import Behavior
from qdialect.ir.quant import RescaleOp, arithmetic_of
from qdialect.passes.rescale.convert_rescale import forms_of, grids_of, nearest_of_reals
from qdialect.passes.rule_pass import refuse_types
from qdialect.rewrite import Refusal, Rewriter, Rule, retyped

_WIDEST = 8
_WIDE = "i32"


@dataclass(frozen=True)
class _Sum:
    rescale: RescaleOp
    op: Operation
    behavior: Behavior
    terms: tuple[RescaleOp, RescaleOp]
    rounding: Rounding


class JoinSum(Rule[_Sum]):
    """The rule; see the module."""

    name = "join-sum"
    root = RescaleOp.name

    def match(self, op: Operation) -> _Sum | None:
        assert isinstance(op, RescaleOp)
        owner = op.input.owner
        if not isinstance(owner, Operation) or len(owner.operands) != 2:
            return None
        behavior = self.session.behaviors.get(owner)
        if behavior is None or behavior.arithmetic is None or behavior.grid is None:
            return None
        first, second = (value.owner for value in owner.operands)
        if not (isinstance(first, RescaleOp) and isinstance(second, RescaleOp)):
            return None
        if any(term.input_qparams.storage.width > _WIDEST for term in (first, second)):
            return None
        return _Sum(op, owner, behavior, (first, second), nearest_of_reals(op.rounding))

    def check(self, match: _Sum) -> Contract | Refusal:
        op, target = match.op, match.rescale.result_qparams
        if not op.results[0].has_one_use():
            return Refusal("multi-use", "the sum is also used as it is")
        if arithmetic_of(op).floats(target.expressed) is not None:
            return Refusal("floats", "quantized ops of the module are computed in floats")
        if "rounding" not in op.properties:
            return Refusal("rounding", f"'{op.name}' has no declared rounding")
        if target.storage.width > _WIDEST:
            return Refusal("range", "its result has more than 8 bits")
        signs = self._signs(match)
        if signs is None:
            return Refusal("sum", f"'{op.name}' is no sum or difference")
        sides = [grids_of(term) for term in (*match.terms, match.rescale)]
        if any(grids is None or len(grids) != 1 for grids in sides):
            return Refusal("axis", "an operand or the result is not quantized per tensor")
        wide = {q for term in match.terms for q in (term.result_qparams,)}
        if wide != {match.rescale.input_qparams} or len(wide) > 1:
            return Refusal("scale", "the terms are on different scales")
        (common,) = wide
        if common.storage.spelling != _WIDE or any(common.zero_point_list()):
            return Refusal("storage", "the terms are no i32")
        refusal = refuse_types(
            self.session,
            match.behavior,
            op,
            [term.input.type for term in match.terms],
            [match.rescale.result.type],
        )
        return refusal or self._contract(match, [g[0] for g in sides if g], signs)

    def _signs(self, match: _Sum) -> tuple[int, int] | None:
        """+1 or -1 for each term."""
        arithmetic = match.behavior.arithmetic
        assert arithmetic is not None
        zero, one = Fraction(0), Fraction(1)
        try:
            first: Fraction = arithmetic(match.op, (one, zero))
            second: Fraction = arithmetic(match.op, (zero, one))
        except ZeroDivisionError:
            return None
        if {abs(first), abs(second)} != {one}:
            return None
        return int(first), int(second)

    def _contract(
        self, match: _Sum, sides: list[tuple[QuantGrid, QuantGrid]], signs: tuple[int, int]
    ) -> Contract | Refusal:
        (a, wide), (b, _), (_, out) = sides
        terms: list[NDArray[np.int64]] = []
        for grid, term in zip((a, b), match.terms, strict=True):
            codes = np.arange(grid.low, grid.high + 1, dtype=np.int64)
            terms.append(forms_of(term, 1)[0].codes(codes, grid, wide).astype(np.int64))
        total = signs[0] * terms[0][:, None] + signs[1] * terms[1][None, :]
        if max(-int(total.min()), int(total.max())) >= 1 << 31:
            return Refusal("range", "a sum leaves 32 bits")
        form = forms_of(match.rescale, 1)[0]
        before = form.codes(np.ravel(total), wide, out).reshape(total.shape)
        rows, columns = (
            np.arange(g.low - g.zero, g.high - g.zero + 1, dtype=np.int64) for g in (a, b)
        )
        ratios = [Fraction(g.scale) / Fraction(out.scale) for g in (a, b)]
        sums = exact_sums(
            rows.reshape(-1, 1) * signs[0],
            columns.reshape(1, -1) * signs[1],
            ratios,
            match.rounding,
        )
        if sums is None:
            return Refusal("ties", "too many sums are near ties to look at")
        after = np.clip(sums + out.zero, out.low, out.high)
        changed = int(np.count_nonzero(before != after))
        if not changed:
            return Contract(EXACT.level, note="equal on all pairs of codes")
        steps = int(np.abs(before - after).max())
        return Contract(Numerics.BOUNDED, steps, f"{changed} of {total.size} pairs of codes change")

    def rewrite(self, match: _Sum, rewriter: Rewriter) -> None:
        op = match.op
        operands = [term.input for term in match.terms]
        new = retyped(op, operands, [match.rescale.result.type])
        new.properties["rounding"] = StringAttr(match.rounding.value)
        rewriter.insert(new, match.rescale, keep=op)
        rewriter.replace(match.rescale, new.results)

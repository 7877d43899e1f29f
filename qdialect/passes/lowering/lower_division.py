"""Write a division of floats as a product with the reciprocal of the divisor.

    x / y = x * (1 / y)

A target without floats has a table for a function of one value, and hardly ever a division.
Exact in the reals; on floats two roundings in the place of one, which is `ties`. Divisors
that are constants stay: their reciprocal is part of a scale. So do divisions that the target runs
whole (`Target.should_lower`), and those on codes: nothing says what a reciprocal is rounded to.

For example

    %0 = nn.div %x, %y {nn.key = "normalized"} : (!x, !y) -> !x

becomes

    %1 = nn.reciprocal %y : (!y) -> !y
    %0 = nn.mul %x, %1 {nn.key = "normalized"} : (!x, !y) -> !x
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.ir import Operation

from qdialect.algebra.contract import Contract, Numerics
from qdialect.analysis.codes import qparams_of
from qdialect.ir.ops import DivOp, MulOp, constant_of
from qdialect.ir.ops.functions import ReciprocalOp
from qdialect.ir.ops.keys import QPARAMS
from qdialect.ir.quant import DCastOp
from qdialect.passes.rule_pass import RulePass
from qdialect.rewrite import Refusal, Rewriter, Rule


class LowerDivision(Rule[Operation]):
    """x / y = x * (1 / y)."""

    name = "lower-division"
    root = DivOp.name

    def match(self, op: Operation) -> Operation | None:
        return op

    def check(self, match: Operation) -> Contract | Refusal:
        values = (*match.operands, *match.results)
        if any(qparams_of(value) is not None for value in values):
            return Refusal("quantized", "on codes nothing says what the reciprocal is rounded to")
        divisor = match.operands[1]
        if isinstance(divisor.owner, DCastOp):
            divisor = divisor.owner.operands[0]
        if constant_of(divisor) is not None:
            return Refusal("constant", "division by a constant is part of a scale")
        if not self.session.target.should_lower(match):
            return Refusal("whole", f"{self.session.target.name} runs '{match.name}' whole")
        return Contract(Numerics.TIES, note="rounds twice in floats")

    def rewrite(self, match: Operation, rewriter: Rewriter) -> None:
        value, divisor = match.operands
        one_over = ReciprocalOp(divisor)
        new = MulOp(value, one_over, result_types=[match.results[0].type])
        if (qparams := match.attributes.get(QPARAMS)) is not None:
            new.attributes[QPARAMS] = qparams
        rewriter.replace_by(match, [one_over, new])


@dataclass(frozen=True)
class LowerDivisions(RulePass):
    """Divisions that the target has none for, as products; see the module."""

    name = "lower-division"
    of = (LowerDivision,)

"""What the driver lets fire at each level of numerics, and what it says of the rest."""

from __future__ import annotations

from itertools import product

import pytest
from rewrite_support import parse
from xdsl.ir import Operation

from qdialect.algebra.contract import Contract, Numerics
from qdialect.rewrite import Driver, Refusal, Rewriter, Rule

TEXT = """
!a = tensor<4x!quant.uniform<i8:f32, 0.5>>
func.func @main(%x: !a) -> !a {
  %0 = nn.relu %x : (!a) -> !a
  func.return %0 : !a
}
"""


class Claiming(Rule[Operation]):
    """Drops a relu under whatever contract it is given."""

    name = "claiming"
    contract = Contract(Numerics.EXACT)

    def roots(self) -> list[str]:
        return ["nn.relu"]

    def match(self, op: Operation) -> Operation | None:
        return op

    def check(self, match: Operation) -> Contract | Refusal:
        return self.contract

    def rewrite(self, match: Operation, rewriter: Rewriter) -> None:
        rewriter.replace(match, [match.operands[0]])


@pytest.mark.parametrize(("level", "claimed"), list(product(Numerics, Numerics)))
def test_level(level: Numerics, claimed: Numerics) -> None:
    module, ctx = parse(TEXT)
    rule = Claiming(ctx)
    rule.contract = Contract(claimed, 1.5, "a note")
    assert Driver(ctx, [rule], pass_name="p", numerics=level).run(module) == (claimed <= level)
    (remark,) = ctx.remarks.remarks
    shown = "bounded(1.5)" if claimed is Numerics.BOUNDED else str(claimed)
    if claimed <= level:
        assert (remark.kind, remark.contract) == ("fired", shown)
        assert ctx.error_bounds.changes or claimed is Numerics.EXACT
    else:
        assert (remark.kind, remark.code) == ("refused", "numerics")
        assert remark.reason == f"would be {shown} (a note), but only {level} is allowed"
        assert not ctx.error_bounds.changes

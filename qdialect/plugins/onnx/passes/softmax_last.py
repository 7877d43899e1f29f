"""Write softmax along an inner dimension as one along the last, between transposes.

A kernel that sums along an inner dimension walks memory in strides, or moves all numbers to the
end and back as floats; codes are a quarter of them, and their transposes often meet others:

    softmax_d(x)  =  transpose(softmax_last(transpose(x)))

The same numbers are summed in the same order, so it is exact.  Where the target says so
(`Target.moves_axis`), for values of one scale.

For example

    %0 = nn.softmax %x axis 1 : (!x) -> !y

becomes

    %1 = nn.transpose %x perm [0, 2, 1] : (!x) -> !last
    %2 = nn.softmax %1 axis 2 : (!last) -> !p
    %0 = nn.transpose %2 perm [0, 2, 1] : (!p) -> !y
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from xdsl.ir import Operation

from qdialect.algebra.contract import EXACT, Contract
from qdialect.analysis.codes import qparams_of
from qdialect.ir.context import QContext
from qdialect.ir.ops import SoftmaxOp, TransposeOp, shape_of
from qdialect.ir.ops.keys import QPARAMS
from qdialect.ir.quant import element_type
from qdialect.passes.pair_contract import replaced_kernel
from qdialect.passes.rule_pass import RulePass, Where
from qdialect.rewrite import Refusal, Rewriter, Rule


class SoftmaxAlongLast(Rule[SoftmaxOp]):
    """softmax_d(x) = transpose(softmax_last(transpose(x))); see the module."""

    name = "softmax-along-last"
    root = SoftmaxOp.name

    def __init__(self, session: QContext, where: Where) -> None:
        super().__init__(session)
        self._everywhere = where == "all"

    def match(self, op: Operation) -> SoftmaxOp | None:
        assert isinstance(op, SoftmaxOp)
        params = [qparams_of(value) for value in (op.operands[0], op.results[0])]
        if any(q is None or not q.is_per_tensor for q in params) or QPARAMS in op.attributes:
            return None
        rank = len(shape_of(op.operands[0]))
        return op if op.values["axis"] % rank != rank - 1 else None

    def check(self, match: SoftmaxOp) -> Contract | Refusal:
        target = self.session.target
        if not self._everywhere and not target.moves_axis(match):
            return Refusal("inner", f"{target.name} runs '{match.name}' along any dimension")
        return replaced_kernel(match, EXACT)

    def rewrite(self, match: SoftmaxOp, rewriter: Rewriter) -> None:
        rank = len(shape_of(match.operands[0]))
        axis, perm = match.values["axis"] % rank, list(range(rank))
        perm[axis], perm[-1] = perm[-1], perm[axis]
        turned = TransposeOp(match.operands[0], perm=perm)
        element = element_type(match.results[0].type)
        properties = {n: v for n, v in match.values.items() if n != "axis"}
        along = SoftmaxOp(turned.results[0], element=element, axis=rank - 1, **properties)
        back = TransposeOp(along.results[0], perm=perm)
        rewriter.insert(turned, match)
        rewriter.insert(along, match, keep=match)
        rewriter.insert(back, match)
        rewriter.replace(match, back.results)


@dataclass(frozen=True)
class SoftmaxLast(RulePass):
    """Softmax along the last dimension, where a target is faster so; see the module.

    `where`: `target` asks it, `all` does it everywhere.
    """

    name = "softmax-last"

    where: Where = "target"

    def rules(self, session: QContext) -> Sequence[Rule[Any]]:
        return (SoftmaxAlongLast(session, self.where),)

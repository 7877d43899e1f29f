"""Write ops on codes as ops on floats between casts, where a target is faster so.

A runtime may have an integer kernel that is slower than a float kernel and two casts: that of
averages in ONNX Runtime takes eight times as long.  It would fuse the op with casts right around
it again, so the result is flattened before it is quantized, and reshaped after:

    codes of op(x)  =  reshape(quantize(flatten(op(dequantize(x)))))

Flattening moves no element, and a value has one scale for all, so it is exact.  The pass does so
where the target prefers it (`Target.in_floats`, by prices), for values of one scale.

For example

    %0 = nn.avg_pool2d %x kernel [2, 2] strides [2, 2] : (!x) -> !y

becomes

    %1 = quant.dcast %x : !x to !fx
    %2 = nn.avg_pool2d %1 kernel [2, 2] strides [2, 2] : (!fx) -> !fy
    %3 = nn.flatten %2 : (!fy) -> !flat
    %4 = quant.qcast %3 : !flat to !codes
    %0 = nn.reshape %4 : (!codes) -> !y
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from xdsl.ir import Operation

from qdialect.algebra.contract import EXACT, Contract
from qdialect.analysis.codes import is_integer, qparams_of
from qdialect.ir.behaviors import PortKind
from qdialect.ir.context import QContext
from qdialect.ir.ops import FlattenOp, ReshapeOp, shape_of
from qdialect.ir.ops.base import ranked
from qdialect.ir.ops.keys import QPARAMS
from qdialect.ir.ops.shapes import DYNAMIC
from qdialect.ir.quant import element_type
from qdialect.passes.casts.in_floats import in_floats, rounded
from qdialect.passes.pair_contract import replaced_kernel
from qdialect.passes.rule_pass import RulePass, Where
from qdialect.rewrite import Refusal, Rewriter, Rule


class OpToFloats(Rule[Operation]):
    """An op on codes is the op on floats, quantized; see the module."""

    name = "op-to-floats"

    def __init__(self, session: QContext, where: Where) -> None:
        super().__init__(session)
        self._everywhere = where == "all"

    def roots(self) -> Iterable[str]:
        return self.session.behaviors.names_with(
            lambda b: (
                all(p.kind is PortKind.REQUANT for p in (*b.operands, *b.results))
                and len(b.results) == 1
            )
        )

    def match(self, op: Operation) -> Operation | None:
        behavior = self.session.behaviors.get(op)
        if behavior is None or behavior.accumulator is not None:
            return None
        return op if qparams_of(op.results[0]) is not None else None

    def check(self, match: Operation) -> Contract | Refusal:
        target, op = self.session.target, match
        if not self._everywhere and not target.in_floats(op):
            return Refusal("codes", f"{target.name} runs '{op.name}' on codes")
        params = [qparams_of(value) for value in (*op.operands, *op.results)]
        if any(q is None or not q.is_per_tensor or not is_integer(q) for q in params):
            return Refusal("grid", "not every value has one scale")
        shape = shape_of(op.results[0])
        if not shape or shape.count(DYNAMIC) > 1:
            return Refusal("shape", "a reshape cannot give it its shape again")
        if QPARAMS in op.attributes:
            return Refusal("components", "it has qparams of its pieces")
        return replaced_kernel(op, EXACT)

    def rewrite(self, match: Operation, rewriter: Rewriter) -> None:
        op, result = match, match.results[0]
        flat = FlattenOp(in_floats(op, rewriter)[0])
        codes = rounded(flat.result, ranked(element_type(result.type), shape_of(flat.result)), op)
        shaped = ReshapeOp(codes.result, shape_of(result))
        for one in (flat, codes, shaped):
            rewriter.insert(one, op)
        rewriter.replace(op, [shaped.result])


@dataclass(frozen=True)
class FormFloats(RulePass):
    """Ops on codes as ops on floats, where a target is faster so; see the module.

    `where`: `target` where the target prefers it, `all` everywhere.
    """

    name = "form-floats"

    where: Where = "target"

    def rules(self, session: QContext) -> Sequence[Rule[Any]]:
        return (OpToFloats(session, self.where),)

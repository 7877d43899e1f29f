"""A rewrite of our own: relu(conv) is one op on the accelerator."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from xdsl.ir import Operation

from acme_npu.dialect import ConvReluOp
from qdialect.context import QContext
from qdialect.numerics.contract import EXACT, Contract
from qdialect.ops import Conv2DOp, ReluOp
from qdialect.passes.rule_pass import RulePass, refuse_types
from qdialect.rewrite import Refusal, Rewriter, Rule


class FuseConvRelu(Rule[ReluOp]):
    """relu(conv2d(x, w, b)) = conv_relu(x, w, b): relu is monotone and 0 has a code."""

    name = "acme-fuse-conv-relu"

    def roots(self) -> Iterable[str]:
        return (ReluOp.name,)

    def match(self, op: Operation) -> ReluOp | None:
        conv = op.operands[0].owner
        return op if isinstance(conv, Conv2DOp) else None

    def check(self, match: ReluOp) -> Contract | Refusal:
        conv = match.operands[0].owner
        v = conv.values
        pointwise = tuple(conv.operands[1].type.get_shape()[2:]) == (1, 1)
        if not (pointwise and v["groups"] == 1 and not any(v["pads"])) or set(v["strides"]) != {1}:
            return Refusal("shape", "only 1x1 convolutions are fused")
        if not match.operands[0].has_one_use():
            return Refusal("multi-use", "the convolution is also used as it is")
        behavior = self.session.behaviors.named(ConvReluOp.name)
        kinds = [v.type for v in conv.operands]
        return refuse_types(self.session, behavior, conv, kinds, [match.result.type]) or EXACT

    def rewrite(self, match: ReluOp, rewriter: Rewriter) -> None:
        conv = match.operands[0].owner
        fused = ConvReluOp.create(
            operands=conv.operands,
            result_types=[match.result.type],
            properties={"rounding": conv.properties["rounding"]},
        )
        rewriter.insert(fused, conv, keep=conv)
        rewriter.replace(match, fused.results)


@dataclass(frozen=True)
class AcmeFuse(RulePass):
    """relu(conv) becomes one op."""

    name = "acme-fuse"

    def rules(self, session: QContext) -> Sequence[Rule[Any]]:
        return (FuseConvRelu(session),)

"""Make the op: a convolution and the relu behind it are one on the accelerator.

For example

    %0 = nn.conv2d %x, %w pads [1, 1, 1, 1] : (!x, !w) -> !y
    %1 = nn.relu %0 : (!y) -> !y

becomes

    %1 = acme.conv_relu %x, %w strides [1, 1] pads [1, 1, 1, 1] : (!x, !w) -> !y
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from qdialect.context import QContext
from qdialect.numerics.contract import EXACT, Contract
from qdialect.ops import Conv2DOp, ReluOp
from qdialect.passes.rule_pass import RulePass, erase_new, refuse_new
from qdialect.quant import quant_element
from qdialect.rewrite import Refusal, Rewriter, Rule
from xdsl.ir import Operation

from acme.dialect import ConvReluOp


@dataclass(frozen=True)
class ConvAndRelu:
    """What the rule found."""

    conv: Conv2DOp
    relu: ReluOp


class FuseConvRelu(Rule[ConvAndRelu]):
    """relu(conv2d(x, w, b)) = conv_relu(x, w, b), by definition: exact on floats and codes."""

    name = "acme-fuse-conv-relu"

    def roots(self) -> Iterable[str]:
        """Where to look."""
        return (ReluOp.name,)

    def match(self, op: Operation) -> ConvAndRelu | None:
        """The pattern, or None: cheap, and silent."""
        conv = op.operands[0].owner
        if isinstance(op, ReluOp) and isinstance(conv, Conv2DOp):
            return ConvAndRelu(conv, op)
        return None

    def check(self, match: ConvAndRelu) -> Contract | Refusal:
        """What the rewrite may change, or why it is not done: `--remarks` prints the reason."""
        conv, values = match.conv, match.conv.values
        if not conv.result.has_one_use():
            return Refusal("multi-use", "the convolution is also used as it is")
        if quant_element(match.relu.result.type) is None:
            return Refusal("float", "it stores codes")
        if values["groups"] != 1 or set(values["dilations"]) != {1}:
            return Refusal("groups", "it has no groups and no dilations")
        if values["rounding"] != "half_even":
            return Refusal("rounding", "it rounds half to even")
        # The declaration and the target are asked about the op that there would be.
        fused = self.fused(match)
        refusal = refuse_new(self.session, [fused])
        erase_new([fused])
        return refusal or EXACT

    def rewrite(self, match: ConvAndRelu, rewriter: Rewriter) -> None:
        """The new op in place of the matched ones; `keep` says whose names it inherits."""
        fused = self.fused(match)
        rewriter.insert(fused, match.relu, keep=match.relu)
        rewriter.replace(match.relu, fused.results)

    def fused(self, match: ConvAndRelu) -> ConvReluOp:
        """The op that takes their place."""
        properties = match.conv.properties
        return ConvReluOp.create(
            operands=match.conv.operands,
            result_types=match.relu.result_types,
            properties={name: properties[name] for name in ("strides", "pads")},
        )


@dataclass(frozen=True)
class AcmeFuse(RulePass):
    """relu(conv2d) becomes one op."""

    name = "acme-fuse"

    def rules(self, session: QContext) -> Sequence[Rule[Any]]:
        """Applied in this order until none fires."""
        return (FuseConvRelu(session),)

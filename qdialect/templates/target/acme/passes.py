"""Make the op: a convolution and the relu behind it are one on the accelerator.

For example

    %0 = nn.conv2d %x, %w pads [1, 1, 1, 1] : (!x, !w) -> !y
    %1 = nn.relu %0 : (!y) -> !y

becomes

    %1 = acme.conv_relu %x, %w strides [1, 1] pads [1, 1, 1, 1] : (!x, !w) -> !y

and so does a convolution alone if the smallest code of its result stands for 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from qdialect.algebra.contract import EXACT, Contract
from qdialect.ir.context import QContext
from qdialect.ir.ops import Conv2DOp, ReluOp
from qdialect.ir.quant import quant_element
from qdialect.passes.rule_pass import RulePass, erase_new, refuse_new
from qdialect.rewrite import Refusal, Rewriter, Rule
from xdsl.ir import Operation

from acme.dialect import ConvReluOp


@dataclass(frozen=True)
class Found:
    """A convolution, and the op whose result the new op gives: a relu, or itself."""

    conv: Conv2DOp
    last: Operation


class FuseConvRelu(Rule[Found]):
    """relu(conv2d(x, w, b)) = conv_relu(x, w, b), by definition.

    Where no code stands for less than 0, what the convolution stores is at least 0 anyway:
    quantize(max(y, 0)) = quantize(y), and conv2d(x, w, b) = conv_relu(x, w, b).
    """

    name = "acme-fuse-conv-relu"

    def roots(self) -> Iterable[str]:
        """Where to look."""
        return (ReluOp.name, Conv2DOp.name)

    def match(self, op: Operation) -> Found | None:
        """The pattern, or None: cheap, and silent."""
        if isinstance(op, Conv2DOp):
            element = quant_element(op.result.type)
            starts_at_0 = element is not None and (
                element.qparams.zero_point_list() == [element.qparams.storage.min]
            )
            return Found(op, op) if starts_at_0 else None
        conv = op.operands[0].owner
        return Found(conv, op) if isinstance(conv, Conv2DOp) else None

    def check(self, match: Found) -> Contract | Refusal:
        """What the rewrite may change, or why it is not done: `--remarks` prints the reason."""
        conv, values = match.conv, match.conv.values
        if match.last is not conv and not conv.result.has_one_use():
            return Refusal("multi-use", "the convolution is also used as it is")
        if quant_element(conv.result.type) is None:
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

    def rewrite(self, match: Found, rewriter: Rewriter) -> None:
        """The new op in place of the matched ones; `keep` says whose names it inherits."""
        fused = self.fused(match)
        rewriter.insert(fused, match.last, keep=match.last)
        rewriter.replace(match.last, fused.results)

    def fused(self, match: Found) -> ConvReluOp:
        """The op that takes their place."""
        properties = match.conv.properties
        return ConvReluOp.create(
            operands=match.conv.operands,
            result_types=match.last.result_types,
            properties={name: properties[name] for name in ("strides", "pads")},
        )


@dataclass(frozen=True)
class AcmeFuse(RulePass):
    """relu(conv2d) becomes one op."""

    name = "acme-fuse"

    def rules(self, session: QContext) -> Sequence[Rule[Any]]:
        """Applied in this order until none fires."""
        return (FuseConvRelu(session),)

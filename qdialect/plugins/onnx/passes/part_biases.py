"""Add a float bias to a product of codes in a way that lets a runtime sum the product in integers.

ONNX Runtime makes one kernel of a matrix product and the casts in front of it, with a float result.
A constant vector added to that, it takes for the bias of a Gemm first, and a Gemm with a float bias
has no such kernel: the product runs on floats.  With one more dimension it is an addition like any
other:

    product(x, w) + b  =  product(x, w) + b[1, .., N]

The same numbers are added, so it is exact for a matrix product.  A Gemm may begin its sum with the
bias, so taking that out is exact in the reals, and `ties` where ops are defined in floats: its
result is within 2 (K + 2) 2^-24 of the sum of |x w| over the K products, and |b|.  The pass does so
where the target asks for it (`Target.parts_bias`).

For example

    %x = quant.dcast %codes : !x to !fx
    %w = quant.dcast %weight : !w to !fw
    %b = nn.constant dense<[1.0, 2.0]> : tensor<2xf32> : tensor<2xf32>
    %1 = nn.fully_connected %x, %w, %b {nn.key = "gemm"} : (!fx, !fw, tensor<2xf32>) -> !fy

becomes

    %x = quant.dcast %codes : !x to !fx
    %w = quant.dcast %weight : !w to !fw
    %0 = nn.constant dense<[[[1.0, 2.0]]]> : tensor<1x1x2xf32> : !fb
    %2 = nn.fully_connected %x, %w : (!fx, !fw) -> !fy
    %3 = nn.add %2, %0 : (!fy, !fb) -> !wide
    %1 = nn.reshape %3 {nn.key = "gemm"} : (!wide) -> !fy
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from xdsl.ir import Attribute, Operation, SSAValue

from qdialect.algebra.contract import EXACT, Contract
from qdialect.ir.context import QContext
from qdialect.ir.dialects.interface import OUTPUTS
from qdialect.ir.ops import (
    AddOp,
    FullyConnectedOp,
    MatMulOp,
    ReshapeOp,
    constant_array,
    constant_of,
    make_constant,
    shape_of,
)
from qdialect.ir.ops.base import ranked
from qdialect.ir.ops.keys import KEY
from qdialect.ir.ops.shapes import DYNAMIC
from qdialect.ir.quant import element_type, quant_element
from qdialect.passes.pair_contract import in_reals
from qdialect.passes.rule_pass import RulePass, Where, dequantized
from qdialect.rewrite import Refusal, Rewriter, Rule, retyped


@dataclass(frozen=True)
class _Biased:
    """A product, its bias, and the op whose result is their sum: the product or an addition."""

    product: Operation
    bias: SSAValue
    total: Operation


class PartBias(Rule[_Biased]):
    """product(x, w, b) = product(x, w) + b with one more dimension; see the module."""

    name = "part-bias"

    def __init__(self, session: QContext, where: Where) -> None:
        super().__init__(session)
        self._everywhere = where == "all"

    def roots(self) -> Iterable[str]:
        return (MatMulOp.name, FullyConnectedOp.name)

    def match(self, op: Operation) -> _Biased | None:
        values = (*op.operands, *op.results)
        if any(quant_element(value.type) is not None for value in values):
            return None
        if any(dequantized(value) is None for value in op.operands[:2]):
            return None
        if isinstance(op, FullyConnectedOp):
            return _Biased(op, op.operands[2], op) if len(op.operands) > 2 else None
        uses = list(op.results[0].uses)
        user = uses[0].operation if len(uses) == 1 else None
        if not isinstance(user, AddOp) or user.operands[0] is user.operands[1]:
            return None
        bias = user.operands[1 - uses[0].index]
        # With a dimension more than a vector it has been parted, or looks so.
        matrix = len(shape_of(op.results[0])) == 2
        return _Biased(op, bias, user) if len(shape_of(bias)) <= 1 + matrix else None

    def check(self, match: _Biased) -> Contract | Refusal:
        product, target = match.product, self.session.target
        shape = shape_of(product.results[0])
        if constant_of(match.bias) is None:
            return Refusal("not-constant", "what is added is no constant")
        if shape_of(match.bias) not in ((shape[-1],), (1, shape[-1])) or len(shape) < 2:
            return Refusal("shape", "what is added is no vector of the columns")
        if shape_of(match.total.results[0]) != shape or (len(shape) == 2 and 0 in shape):
            return Refusal("shape", "a reshape cannot give the sum its shape again")
        if len(shape) == 2 and shape.count(DYNAMIC) > 1:
            return Refusal("shape", "a reshape cannot give the sum its shape again")
        if not self._everywhere and not target.parts_bias(product):
            return Refusal("kernel", f"{target.name} takes the bias with the product")
        if match.total is product:
            return in_reals(product, "the bias is added last")
        return EXACT

    def rewrite(self, match: _Biased, rewriter: Rewriter) -> None:
        product, total = match.product, match.total
        shape = shape_of(product.results[0])
        source = constant_of(match.bias)
        assert source is not None
        rank = 3 if len(shape) == 2 else 2
        array = constant_array(source, self.session.blobs).reshape((1,) * (rank - 1) + (-1,))
        element = element_type(match.bias.type)
        bias = make_constant(array, element, self.session.blobs)
        rewriter.insert(bias, total, keep=source)
        value = product.results[0]
        if total is product:
            bare = retyped(product, product.operands[:2], [product.results[0].type])
            for name in (KEY, OUTPUTS):  # of what is now the sum
                bare.attributes.pop(name, None)
            rewriter.insert(bare, total)
            value = bare.results[0]
        wide = (1, *shape) if len(shape) == 2 else shape
        kind = ranked(element_type(value.type), wide)
        names = {} if len(shape) == 2 else _names(total)
        added = AddOp(value, bias, result_types=[kind], attributes=names)
        rewriter.insert(added, total, keep=None if len(shape) == 2 else total)
        result = added.results[0]
        if len(shape) == 2:
            shaped = ReshapeOp(result, shape, attributes=_names(total))
            rewriter.insert(shaped, total, keep=total)
            result = shaped.result
        rewriter.replace(total, [result])


def _names(op: Operation) -> dict[str, Attribute]:
    """The name of the tensor of a result, where it is not the key of the op."""
    return {OUTPUTS: op.attributes[OUTPUTS]} if OUTPUTS in op.attributes else {}


@dataclass(frozen=True)
class PartBiases(RulePass):
    """Biases that keep products of codes from integer kernels are added alone; see the module.

    `where`: `target` where the target asks for it, `all` everywhere.
    """

    name = "part-biases"

    where: Where = "target"

    def rules(self, session: QContext) -> Sequence[Rule[Any]]:
        return (PartBias(session, self.where),)

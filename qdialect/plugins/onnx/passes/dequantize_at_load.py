"""Mark the dequantize of a constant weight that a runtime should run when it loads a model.

A product that stays on floats reads its weight as floats.  The weight is stored as codes, which are
a quarter of the size, and dequantized: by a runtime that folds no such constant, each time that it
runs.  A marked dequantize is written as ops that the runtime does fold (Cast, Sub and Mul for ONNX
Runtime), of the same bits.  The pass marks it where the target asks for that (`Target.at_load`)
at all products that read it.

A product with a weight that has scales in blocks is marked otherwise: it computes with its input as
it is.  A runtime that makes a kernel of the product and the dequantize may round the input to bytes
where nothing says that (MatMulNBits of ONNX Runtime, at accuracy level 4).

For example

    %w = nn.constant dense<3> : tensor<2x4x1x1xi8> : !w
    %1 = quant.dcast %w : !w to !fw
    %2 = nn.conv2d %x, %1 : (!fx, !fw) -> !fy

becomes

    %w = nn.constant dense<3> : tensor<2x4x1x1xi8> : !w
    %1 = quant.dcast %w {onnx.at_load} : !w to !fw
    %2 = nn.conv2d %x, %1 : (!fx, !fw) -> !fy
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from xdsl.dialects.builtin import IntegerAttr, UnitAttr, i64
from xdsl.ir import Operation

from qdialect.algebra.contract import EXACT, Contract, Numerics
from qdialect.algebra.qparams import Layout
from qdialect.analysis.codes import is_integer, qparams_of
from qdialect.ir.context import QContext
from qdialect.ir.ops import MatMulOp, constant_of
from qdialect.ir.quant import DCastOp
from qdialect.passes.rule_pass import RulePass, Where, users
from qdialect.plugins.onnx.dialect import AS_WRITTEN, AT_LOAD, N_BITS
from qdialect.rewrite import Refusal, Rewriter, Rule

_WIDEST = 16
"""Bits of integers whose difference to a zero point f32 holds."""


class WeightAtLoad(Rule[DCastOp]):
    """A dequantize of a constant weight is marked; see the module."""

    name = "weight-at-load"
    root = DCastOp.name

    def __init__(self, session: QContext, where: Where) -> None:
        super().__init__(session)
        self._everywhere = where == "all"

    def match(self, op: Operation) -> DCastOp | None:
        assert isinstance(op, DCastOp)
        if constant_of(op.input) is None or AT_LOAD in op.attributes:
            return None
        found = list(op.result.uses)
        return op if found and all(self._is_weight(u.operation, u.index) for u in found) else None

    def _is_weight(self, user: Operation, index: int) -> bool:
        behavior = self.session.behaviors.get(user)
        return (
            behavior is not None
            and behavior.accumulator is not None
            and behavior.accumulator.rhs == index
        )

    def check(self, match: DCastOp) -> Contract | Refusal:
        params, target = qparams_of(match.input), self.session.target
        if params is None or not is_integer(params) or params.storage.width > _WIDEST:
            return Refusal("storage", f"only codes of up to {_WIDEST} bits are exact in f32")
        if params.layout is Layout.BLOCK or params.expressed != "f32":
            return Refusal("grid", "it has scales in blocks, or that are not f32")
        if not self._everywhere and not all(map(target.at_load, users(match.result))):
            return Refusal("kernel", f"{target.name} makes an integer kernel of it")
        return EXACT

    def rewrite(self, match: DCastOp, rewriter: Rewriter) -> None:
        marked = DCastOp(match.input, match.result.type)
        marked.attributes.update({**match.attributes, AT_LOAD: UnitAttr()})
        rewriter.insert(marked, match, keep=match)
        rewriter.replace(match, [marked.result])


class ProductOfBlocks(Rule[MatMulOp]):
    """x * dequantize(w), with scales of w in blocks, says that x is not rounded.

    The product is what it was, but that its kernel adds it up block by block: `ties`."""

    name = "product-of-blocks"
    root = MatMulOp.name

    def __init__(self, session: QContext, where: Where) -> None:
        super().__init__(session)
        self._everywhere = where == "all"

    def match(self, op: Operation) -> MatMulOp | None:
        assert isinstance(op, MatMulOp)
        real = op.rhs.owner
        if N_BITS in op.attributes or not isinstance(real, DCastOp):
            return None
        params = qparams_of(real.input) if constant_of(real.input) is not None else None
        return op if params is not None and params.layout is Layout.BLOCK else None

    def check(self, match: MatMulOp) -> Contract | Refusal:
        if not (self._everywhere or self.session.target.block_weights):
            return Refusal("kernel", f"{self.session.target.name} has no products of blocks")
        if any(not isinstance(use.operation, MatMulOp) for use in match.rhs.uses):
            return Refusal("shared", "another op reads the weight as floats")
        return Contract(Numerics.TIES, note="its kernel adds up by blocks")

    def rewrite(self, match: MatMulOp, rewriter: Rewriter) -> None:
        marked = MatMulOp(match.lhs, match.rhs, result_types=[match.result.type])
        marked.attributes.update({**match.attributes, N_BITS: IntegerAttr(AS_WRITTEN, i64)})
        rewriter.insert(marked, match, keep=match)
        rewriter.replace(match, [marked.result])


@dataclass(frozen=True)
class DequantizeAtLoad(RulePass):
    """Weights of float products are dequantized when a model is loaded, or by blocks in a product
    that leaves its input as it is; see the module.

    `where`: `target` where the target asks for it, `all` everywhere.
    """

    name = "dequantize-at-load"

    where: Where = "target"

    def rules(self, session: QContext) -> Sequence[Rule[Any]]:
        return WeightAtLoad(session, self.where), ProductOfBlocks(session, self.where)

"""Write a product that quantizes its input as it runs in pieces, or as a float product.

    to=pieces   quantize the input, sum integers, multiply by the scales: what the op is
                defined as, so exact; `raise-dynamic` makes the op of them again
    to=floats   op(x, dequantize(w)): the input is not rounded any more, so relaxed. What
                quantizes the model with a profile then makes a static op of it, on the
                codes that the weight has

For example

    %0 = nn.constant dense<[[1, -2], [3, 4]]> : tensor<2x2xi8> : !w
    %8 = nn.dynamic_matmul %x, %0 {nn.key = "fc"} : (!f, !w) -> !f

becomes

    %0 = nn.constant dense<[[1, -2], [3, 4]]> : tensor<2x2xi8> : tensor<2x2xi8>
    %1 = nn.constant dense<0.5> : tensor<f32> : tensor<f32>
    %2, %3, %4 = nn.dynamic_quantize %x : (!f) -> (!q, tensor<f32>, tensor<ui8>)
    %5 = onnx.node "MatMulInteger" (%2, %0, %4) : (!q, tensor<2x2xi8>, tensor<ui8>) -> !sums
    %6 = onnx.node "Cast" (%5) attributes {to = 1 : i64} : (!sums) -> !f
    %7 = nn.mul %3, %1 : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %8 = nn.mul %6, %7 {nn.key = "fc"} : (!f, tensor<f32>) -> !f
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any, Literal, cast

from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, IntegerType, f32, i64
from xdsl.ir import Attribute, Operation, SSAValue

from qdialect.algebra.contract import Contract, Numerics
from qdialect.algebra.qparams import QParams
from qdialect.ir import ops as nn
from qdialect.ir.context import QContext
from qdialect.ir.dialects.interface import OUTPUTS
from qdialect.ir.ops import constant_array, constant_of, make_constant, shape_of
from qdialect.ir.ops.base import ranked
from qdialect.ir.quant import DCastOp, UniformType, element_type, with_element
from qdialect.passes.rule_pass import RulePass
from qdialect.plugins.onnx.dialect import NodeOp
from qdialect.plugins.onnx.passes.raise_dynamic import STORAGES
from qdialect.rewrite import Refusal, Rewriter, Rule

_DYNAMIC = (nn.DynamicMatMulOp.name, *(kind.name for kind in nn.DYNAMIC_CONVOLUTIONS))
_FLOAT = 1


class LowerDynamic(Rule[nn.DynamicOp]):
    """The op is its pieces, by definition."""

    name = "lower-dynamic"

    def roots(self) -> Iterable[str]:
        return _DYNAMIC

    def match(self, op: Operation) -> nn.DynamicOp | None:
        return cast("nn.DynamicOp", op)

    def check(self, match: nn.DynamicOp) -> Contract | Refusal:
        if constant_of(match.weight) is None:
            return Refusal("weight", "the weight is no constant")
        return Contract(Numerics.EXACT, note="the definition of the op")

    def rewrite(self, match: nn.DynamicOp, rewriter: Rewriter) -> None:
        store, constant = self.session.blobs, constant_of(match.weight)
        assert constant is not None
        qparams = _qparams(match)
        element = next(e for e, s in STORAGES.items() if s == qparams.storage.spelling)
        codes = make_constant(constant_array(constant, store), element, store)
        rewriter.insert(codes, match, keep=constant)
        steps = qparams.scale_list()
        scales = self._array(_column(match, steps) if len(steps) > 1 else steps[0], f32)
        rewriter.insert(scales, match)
        quantize = nn.DynamicQuantizeOp(match.input)
        rewriter.insert(quantize, match)
        operands: list[SSAValue | None] = [quantize.codes, codes.result, quantize.zero_point]
        zeros = qparams.zero_point_list()
        if any(zeros):
            points = self._array(zeros if len(set(zeros)) > 1 else zeros[0], element)
            rewriter.insert(points, match)
            operands.append(points.result)
        result = match.result
        sums = with_element(result.type, IntegerType(32))
        name = "MatMulInteger" if isinstance(match, nn.DynamicMatMulOp) else "ConvInteger"
        node = NodeOp(name, operands, [sums], _attributes(match))
        real = NodeOp("Cast", [node.results[0]], [result.type], {"to": IntegerAttr(_FLOAT, i64)})
        both = nn.MulOp(
            quantize.scale,
            scales.result,
            result_types=[ranked(f32, shape_of(scales.result))],
        )
        new = nn.MulOp(real.results[0], both.result, result_types=[result.type])
        if OUTPUTS in match.attributes:
            new.attributes[OUTPUTS] = match.attributes[OUTPUTS]
        for op in (node, real, both):
            rewriter.insert(op, match)
        rewriter.replace_by(match, [new])

    def _array(self, values: Any, element: Attribute) -> nn.ConstantOp:
        import numpy as np

        dtypes = {"i8": np.int8, "u8": np.uint8}
        dtype = dtypes[STORAGES[element]] if element in STORAGES else np.float32
        return make_constant(np.array(values, dtype), element, self.session.blobs)


class DynamicToFloat(Rule[nn.DynamicOp]):
    """The product of floats, the input as it is and the weight dequantized."""

    name = "dynamic-to-float"

    def roots(self) -> Iterable[str]:
        return _DYNAMIC

    def match(self, op: Operation) -> nn.DynamicOp | None:
        return cast("nn.DynamicOp", op)

    def check(self, match: nn.DynamicOp) -> Contract | Refusal:
        return Contract(Numerics.RELAXED, inf, "the input is not rounded any more")

    def rewrite(self, match: nn.DynamicOp, rewriter: Rewriter) -> None:
        weight = DCastOp(match.weight, with_element(match.weight.type, f32))
        rewriter.insert(weight, match)
        new = match.FLOAT(
            match.input, weight.result, result_types=[match.result.type], **match.values
        )
        if OUTPUTS in match.attributes:
            new.attributes[OUTPUTS] = match.attributes[OUTPUTS]
        rewriter.replace_by(match, [new])


def _qparams(op: nn.DynamicOp) -> QParams:
    return cast("UniformType", element_type(op.weight.type)).qparams


def _attributes(op: nn.DynamicOp) -> dict[str, Attribute]:
    if isinstance(op, nn.DynamicMatMulOp):
        return {}
    values = op.values
    attributes: dict[str, Attribute] = {
        name: DenseArrayBase.from_list(i64, list(values[name]))
        for name in ("strides", "pads", "dilations")
    }
    kernel = shape_of(op.weight)[2:]
    attributes["kernel_shape"] = DenseArrayBase.from_list(i64, list(kernel))
    attributes["group"] = IntegerAttr(values["groups"], i64)
    return attributes


def _column(op: nn.DynamicOp, steps: list[float]) -> Any:
    """Scales along the channels of the result."""
    import numpy as np

    below = 0 if isinstance(op, nn.DynamicMatMulOp) else len(shape_of(op.result)) - 2
    return np.array(steps).reshape(-1, *(1 for _ in range(below)))


@dataclass(frozen=True)
class LowerDynamicProducts(RulePass):
    """Products that quantize their input as they run, in pieces or floats; see the module."""

    name = "lower-dynamic"

    to: Literal["pieces", "floats"] = "pieces"

    def rules(self, session: QContext) -> Sequence[Rule[Any]]:
        return ((LowerDynamic if self.to == "pieces" else DynamicToFloat)(session),)

"""Make one op of a product that quantizes its input as it runs.

ONNX Runtime's `quantize_dynamic` writes a float product as

    float(sum (q - z) * (q_w - z_w)) * (s * s_w)        q, s, z = dynamic_quantize(x)

with an integer node, a Cast and two multiplications; a constant weight, its scale and its
zero point are the quantized constant of `nn.dynamic_matmul` or `nn.dynamic_conv2d`, which
is defined as just that: exact. `lower-dynamic` writes the pieces again.

For example

    %0 = nn.constant dense<[[1, -2], [3, 4]]> : tensor<2x2xi8> : tensor<2x2xi8>
    %1 = nn.constant dense<0.5> : tensor<f32> : tensor<f32>
    %2, %3, %4 = nn.dynamic_quantize %x : (!f) -> (!q, tensor<f32>, tensor<ui8>)
    %5 = onnx.node "MatMulInteger" (%2, %0, %4) : (!q, tensor<2x2xi8>, tensor<ui8>) -> !sums
    %6 = onnx.node "Cast" (%5) attributes {to = 1 : i64} : (!sums) -> !f
    %7 = nn.mul %3, %1 : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %8 = nn.mul %6, %7 {nn.key = "fc"} : (!f, tensor<f32>) -> !f

becomes

    %0 = nn.constant dense<[[1, -2], [3, 4]]> : tensor<2x2xi8> : !w
    %8 = nn.dynamic_matmul %x, %0 {nn.key = "fc"} : (!f, !w) -> !f
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite, prod
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, IntegerType, f32
from xdsl.ir import Attribute, Operation, SSAValue

from qdialect.algebra.contract import Contract, Numerics
from qdialect.algebra.qparams import QParams
from qdialect.analysis.codes import constant_values
from qdialect.ir import ops as nn
from qdialect.ir.context import QContext
from qdialect.ir.dialects.interface import OUTPUTS
from qdialect.ir.ops import ConstantOp, constant_array, constant_of, make_constant, shape_of
from qdialect.ir.ops.shapes import DYNAMIC
from qdialect.ir.quant import UniformType, element_type
from qdialect.passes.rule_pass import RulePass
from qdialect.plugins.onnx.dialect import NodeOp
from qdialect.rewrite import Refusal, Rewriter, Rule

if TYPE_CHECKING:
    from numpy.typing import NDArray

STORAGES: Mapping[Attribute, str] = {IntegerType(8): "i8", nn.CODE: "u8"}
"""The element types of plain weights, and how a quantized one stores the same."""


@dataclass(frozen=True)
class _Product:
    """The op in pieces: the last multiplication, the integer node, what it quantizes, and
    the scale of the weight."""

    op: nn.MulOp
    node: NodeOp
    quantize: nn.DynamicQuantizeOp
    scale: SSAValue


class RaiseDynamic(Rule[_Product]):
    """float(sum of products of dynamic codes) * scales = the dynamic op."""

    name = "raise-dynamic"

    def roots(self) -> Iterable[str]:
        return (nn.MulOp.name,)

    def match(self, op: Operation) -> _Product | None:
        assert isinstance(op, nn.MulOp)
        for real, scales in _both_ways(op):
            node = _behind_cast(real)
            if node is None or len(node.operands) < 3 or node.captures.data:
                continue
            quantize = node.operands[0].owner
            if not isinstance(quantize, nn.DynamicQuantizeOp) or len(node.absent):
                continue
            if [node.operands[0], node.operands[2]] != [quantize.codes, quantize.zero_point]:
                continue
            scale = _other_factor(scales, quantize.scale)
            if scale is not None:
                return _Product(op, node, quantize, scale)
        return None

    def check(self, match: _Product) -> Contract | Refusal:
        found = self._weight(match)
        if isinstance(found, Refusal):
            return found
        return Contract(Numerics.EXACT, note="the definition of the op")

    def _weight(self, match: _Product) -> tuple[ConstantOp, QParams] | Refusal:
        """The weight and how it is quantized."""
        weight = match.node.operands[1]
        constant, shape = constant_of(weight), shape_of(weight)
        storage = STORAGES.get(element_type(weight.type))
        if constant is None or storage is None:
            return Refusal("weight", "the weight is no constant of bytes")
        depth = shape[-2] if _is_matmul(match.node) and len(shape) > 1 else prod(shape[1:])
        if depth * 255 * 255 >= 1 << 31:
            return Refusal("overflow", f"a sum of {depth} products may leave 32 bits")
        points = match.node.operands[3:4]
        zeros = constant_values(points[0], self.session) if points else None
        scales = constant_values(match.scale, self.session)
        if scales is None or (zeros is None and points):
            return Refusal("qparams", "scale or zero point of the weight is no constant")
        if not all(isfinite(s) and s > 0 for s in scales.flat):
            return Refusal("qparams", "a scale of the weight is not positive")
        return self._qparams(match, constant, storage, scales, zeros)

    def _qparams(
        self,
        match: _Product,
        constant: ConstantOp,
        storage: str,
        scales: NDArray[Any],
        zeros: NDArray[Any] | None,
    ) -> tuple[ConstantOp, QParams] | Refusal:
        shape, rank = shape_of(constant.result), len(shape_of(match.op.result))
        is_matmul = _is_matmul(match.node)
        axis, along = (len(shape) - 1, rank - 1) if is_matmul else (0, 1)
        if len(shape) < 2:
            return Refusal("weight", "the weight is a vector")
        channels = shape[axis]
        if scales.size not in (1, channels) or not _lies_along(scales, along, rank):
            return Refusal("qparams", "the scales do not lie along the channels of the weight")
        points = [0] if zeros is None else [int(z) for z in zeros.reshape(-1)]
        if len(points) not in (1, channels):
            return Refusal("qparams", "the zero points are not those of channels of the weight")
        steps = [float(s) for s in scales.reshape(-1)]
        if len(steps) == len(points) == 1:
            return constant, QParams.per_tensor(storage, steps[0], points[0], "f32")
        steps, points = (v * (channels // len(v)) for v in (steps, points))
        return constant, QParams.per_axis(storage, axis, steps, points, "f32")

    def rewrite(self, match: _Product, rewriter: Rewriter) -> None:
        found = self._weight(match)
        assert not isinstance(found, Refusal)
        old, qparams = found
        array = constant_array(old, self.session.blobs)
        weight = make_constant(array, UniformType(qparams), self.session.blobs)
        rewriter.insert(weight, match.op, keep=old)
        operands = (match.quantize.input, weight.result)
        kind, properties = _dynamic_kind(match.node)
        new = kind(*operands, result_types=[match.op.result.type], **properties)
        if OUTPUTS in match.op.attributes:
            new.attributes[OUTPUTS] = match.op.attributes[OUTPUTS]
        rewriter.replace_by(match.op, [new])


def _both_ways(op: nn.MulOp) -> Iterator[tuple[SSAValue, SSAValue]]:
    yield op.lhs, op.rhs
    yield op.rhs, op.lhs


def _behind_cast(value: SSAValue) -> NodeOp | None:
    """The integer node whose sums `value` is as floats."""
    cast = value.owner
    if not isinstance(cast, NodeOp) or (cast.op_type.data, cast.domain.data) != ("Cast", ""):
        return None
    node = cast.operands[0].owner
    if element_type(cast.results[0].type) != f32 or not isinstance(node, NodeOp):
        return None
    if node.domain.data or node.op_type.data not in ("MatMulInteger", "ConvInteger"):
        return None
    return node if _dynamic_form(node) else None


def _is_matmul(node: NodeOp) -> bool:
    return node.op_type.data == "MatMulInteger"


def _dynamic_form(node: NodeOp) -> bool:
    """Whether we have an op of this form: extents that are known, and pads."""
    shape = shape_of(node.operands[1])
    if DYNAMIC in shape:
        return False
    if _is_matmul(node):
        return True
    auto_pad = node.node_attributes.data.get("auto_pad")
    return len(shape) in range(3, 6) and (auto_pad is None or "NOTSET" in str(auto_pad))


def _dynamic_kind(node: NodeOp) -> tuple[type[nn.DynamicOp], dict[str, Any]]:
    if _is_matmul(node):
        return nn.DynamicMatMulOp, {}
    rank = len(shape_of(node.operands[1])) - 2
    attributes = node.node_attributes.data
    properties: dict[str, Any] = {
        "strides": _ints(attributes.get("strides"), [1] * rank),
        "pads": _ints(attributes.get("pads"), [0] * 2 * rank),
        "dilations": _ints(attributes.get("dilations"), [1] * rank),
    }
    group = attributes.get("group")
    if isinstance(group, IntegerAttr):
        properties["groups"] = group.value.data
    return nn.DYNAMIC_CONVOLUTIONS[rank - 1], properties


def _ints(attribute: Attribute | None, default: list[int]) -> list[int]:
    if not isinstance(attribute, DenseArrayBase):
        return default
    values: Any = attribute.get_values()
    return [int(value) for value in values]


def _other_factor(value: SSAValue, factor: SSAValue) -> SSAValue | None:
    """What `value` is the product of and `factor`."""
    owner = value.owner
    if not isinstance(owner, nn.MulOp):
        return None
    return next((other for one, other in _both_ways(owner) if one is factor), None)


def _lies_along(array: NDArray[Any], axis: int, rank: int) -> bool:
    """Whether an array broadcast to `rank` dimensions varies on `axis` alone."""
    if array.ndim > rank:
        return False
    aligned = (1,) * (rank - array.ndim) + array.shape
    return all(extent == 1 for d, extent in enumerate(aligned) if d != axis)


@dataclass(frozen=True)
class RaiseDynamicProducts(RulePass):
    """Products that quantize their input as they run, as one op; see the module."""

    name = "raise-dynamic"

    def rules(self, session: QContext) -> Sequence[Rule[Any]]:
        return (RaiseDynamic(session),)

"""Quantize and dequantize with parameters that only a run has.

    q = clamp(round(x * (1 / s)) + z)          x = (q - z) * s

in float32, as PyTorch computes it; of one scale by the nodes of ONNX that take it as an operand:
a QuantizeLinear by 1 of the product rounds, adds and saturates as PyTorch does.
`nn.dynamic_quantize` divides and is never made of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from xdsl.dialects.builtin import IntegerType, Signedness, TensorType, f32, i8, i32
from xdsl.ir import Attribute, SSAValue

from qdialect.ir import ops as nn
from qdialect.ir.ops import constant_array, constant_of, shape_of
from qdialect.ir.quant import DCastOp, UniformType, element_type, quant_element, with_element
from qdialect.ir.quant.elements import FLOATS
from qdialect.plugins.onnx.dialect import DATA_TYPES, NodeOp
from qdialect.plugins.torch.program import ElementType, Node, Ref
from qdialect.plugins.torch.read.chosen import Scale
from qdialect.plugins.torch.read.parameters import SPELLINGS
from qdialect.plugins.torch.read.rows import Results, Rule

if TYPE_CHECKING:
    from qdialect.algebra.qparams import Storage
    from qdialect.plugins.torch.read.importer import Importer


def choose_qparams(symmetric: bool) -> Rule:
    """`choose_qparams.tensor`, `choose_qparams_symmetric.tensor`: of the range of a tensor, 0
    inside, with a least scale."""

    def rule(imp: Importer, node: Node) -> Results:
        arguments = node.arguments
        kind: ElementType = arguments["dtype"]
        low, high = (imp.integer(arguments[name]) for name in ("quant_min", "quant_max"))
        if imp.kind(arguments["input"]) != f32 or low is None or high is None:
            return None
        x = imp.value(arguments["input"])
        axes = range(len(imp.extents(x)))
        middle = 128 if SPELLINGS.get(kind.code) == "u8" else 0
        chosen = choose(
            imp, x, list(axes), (low, high), float(arguments["eps"]), middle if symmetric else None
        )
        return exposed(imp, node, chosen)

    return rule


def choose(
    imp: Importer,
    x: SSAValue,
    axes: list[int],
    bounds: tuple[int, int],
    least: float,
    middle: int | None,
) -> Scale:
    """Scale and zero point of the range of `x` along `axes`; symmetric with a zero point at
    `middle`.  What is reduced stays as extents of 1, unless it is everything."""
    low, high = bounds
    keep = len(axes) < len(imp.extents(x))
    zero = imp.scalar(0.0, f32)
    smallest = imp.build(nn.ReduceMinOp, x, axes=axes, keepdims=keep)
    largest = imp.build(nn.ReduceMaxOp, x, axes=axes, keepdims=keep)
    smallest = imp.build(nn.MinimumOp, smallest, zero)
    largest = imp.build(nn.MaximumOp, largest, zero)
    if middle is not None:
        width = imp.build(nn.MaximumOp, imp.build(nn.NegOp, smallest), largest)
        steps = float(high - low) / 2
    else:
        width, steps = imp.build(nn.SubOp, largest, smallest), float(high - low)
    scale = imp.build(nn.DivOp, width, imp.scalar(steps, f32))
    scale = imp.build(nn.MaximumOp, scale, imp.scalar(least, f32))
    if middle is not None:
        return Scale(scale, imp.scalar(float(middle), f32) if middle else None)
    below = imp.build(nn.RoundOp, imp.build(nn.DivOp, smallest, scale))
    point = imp.build(nn.SubOp, imp.scalar(float(low), f32), below)
    return Scale(scale, imp.build(nn.ClipOp, point, min=float(low), max=float(high)))


def exposed(imp: Importer, node: Node, chosen: Scale) -> Results:
    """The two results of a node that chooses, in the types and shapes that the program says."""
    names = node.names
    values: list[SSAValue | None] = []
    for name, value in zip(names, chosen, strict=True):
        if name is None:
            values.append(None)
            continue
        if value is None:
            value = imp.build(nn.MulOp, chosen.scale, imp.scalar(0.0, f32))
        values.append(imp.reshape(imp.cast(value, imp.element(name)), imp.shape(name)))
        imp.chosen[name] = chosen
    return values


def scale_of(imp: Importer, node: Node) -> Scale | None:
    """The parameters that a node reads, as a run has them; None for other forms."""
    arguments = node.arguments
    scale = arguments.get("scale", arguments.get("scales"))
    zero = arguments.get("zero_point", arguments.get("zero_points"))
    if isinstance(scale, Ref) and scale.name in imp.chosen:
        chosen = imp.chosen[scale.name]
        if not isinstance(zero, Ref) or imp.chosen.get(zero.name) is chosen:
            return chosen if isinstance(zero, Ref) else Scale(chosen.scale, None)
    if "per_tensor" not in node.op or not isinstance(scale, Ref) or not isinstance(zero, Ref):
        return None
    # A scale of another making: one number, which PyTorch rounds to float32.
    return Scale(*(imp.reshape(imp.cast(imp.value(v), f32), ()) for v in (scale, zero)))


def quantize(imp: Importer, node: Node, stored: Storage) -> Results:
    """A quantize with parameters of the run: codes as plain integers."""
    chosen = scale_of(imp, node)
    if chosen is None or imp.kind(node.arguments["input"]) not in FLOATS:
        return None
    x = imp.cast(imp.value(node.arguments["input"]), f32)
    return [codes(imp, x, chosen, stored)]


def codes(imp: Importer, x: SSAValue, chosen: Scale, stored: Storage) -> SSAValue:
    """clamp(round(x * (1 / s)) + z) as integers of the storage."""
    inverse = imp.build(nn.DivOp, imp.scalar(1.0, f32), chosen.scale)
    product = imp.build(nn.MulOp, x, inverse)
    element = _integers(stored)
    if chosen.is_one and stored.width == 8:
        point = imp.cast(chosen.zero or imp.scalar(0.0, f32), element)
        kind = _typed(x, element)
        whole = imp.onnx("QuantizeLinear", [product, imp.scalar(1.0, f32), point], kind)
        if stored.is_full_range:
            return whole
        bounds = [imp.scalar(bound, element) for bound in (stored.min, stored.max)]
        return imp.onnx("Clip", [whole, *bounds], kind)
    rounded = imp.build(nn.RoundOp, product)
    if chosen.zero is not None:
        rounded = imp.build(nn.AddOp, rounded, chosen.zero)
    inside = imp.build(nn.ClipOp, rounded, min=float(stored.min), max=float(stored.max))
    return imp.cast(inside, element)


def _whole_numbers(value: SSAValue, chosen: Scale) -> SSAValue | None:
    """The floats that integers were made of by `codes` under these parameters."""
    inside = value.owner.operands[0] if isinstance(value.owner, NodeOp) else value
    if value is inside or not isinstance(inside.owner, nn.ClipOp):
        return None
    rounded = inside.owner.input
    if chosen.zero is not None and isinstance(rounded.owner, nn.AddOp):
        rounded = rounded.owner.lhs if rounded.owner.rhs is chosen.zero else rounded
    return inside if isinstance(rounded.owner, nn.RoundOp) else None


def integer_linear(other: Rule) -> Rule:
    """`linear` of codes with parameters of the run and of a quantized weight: sums of products
    of integers, times both scales; anything else as `other` reads it.

        float(sum (q - z) * w) * (s * s_w) + bias
    """

    def rule(imp: Importer, node: Node) -> Results:
        x, weight = (imp.values.get(_name(node.arguments[key])) for key in ("input", "weight"))
        parts = None if x is None else _codes_of(x)
        constant = None if weight is None else _weight_codes(weight)
        if parts is None or constant is None:
            return other(imp, node)
        return [_integer_product(imp, node, parts, constant)]

    return rule


def _name(argument: object) -> str:
    return argument.name if isinstance(argument, Ref) else ""


def _codes_of(x: SSAValue) -> NodeOp | None:
    node = x.owner
    if not isinstance(node, NodeOp) or node.op_type.data != "DequantizeLinear":
        return None
    return node if len(node.operands) == 3 else None


def _weight_codes(weight: SSAValue) -> nn.ConstantOp | None:
    """The constant of a dequantized weight [N, K] of 8 bits whose zero points are 0, with one
    scale or one for each row."""
    constant = constant_of(weight.owner.operands[0]) if isinstance(weight.owner, DCastOp) else None
    element = None if constant is None else quant_element(constant.result.type)
    if constant is None or element is None:
        return None
    params = element.qparams
    plain = params.is_per_tensor or params.axis == 0
    plain &= params.storage.spelling == "i8" and not any(params.zero_point_list())
    return constant if plain and len(shape_of(constant.result)) == 2 else None


def _unsigned(imp: Importer, parts: NodeOp) -> tuple[SSAValue, SSAValue]:
    """Codes and zero point of a dequantize; signed ones 128 higher and unsigned, which runtimes
    multiply many times faster."""
    stored, _, point = parts.operands
    quantize = stored.owner
    if not isinstance(quantize, NodeOp) or quantize.op_type.data != "QuantizeLinear":
        return stored, point
    if element_type(stored.type) != i8:
        return stored, point
    product, one, _ = quantize.operands
    higher = imp.build(nn.AddOp, imp.cast(point, f32), imp.scalar(128.0, f32))
    moved = imp.cast(higher, nn.CODE)
    extents = imp.extents(stored)
    return imp.function("QuantizeLinear", [product, one, moved], nn.CODE, extents), moved


def _integer_product(imp: Importer, node: Node, parts: NodeOp, constant: nn.ConstantOp) -> SSAValue:
    import numpy as np

    scale = parts.operands[1]
    stored, point = _unsigned(imp, parts)
    params = cast("UniformType", quant_element(constant.result.type)).qparams
    rows = imp.array_of(constant_array(constant, imp.ctx.blobs).T, i8)
    name = node.results[0]
    assert isinstance(name, str)
    kind = imp.type(name)
    sums = imp.function("MatMulInteger", [stored, rows, point], i32, imp.shape(name))
    real = imp.onnx("Cast", [sums], kind, to=DATA_TYPES[f32])
    steps = params.scale_array().astype(np.float32)
    both = imp.build(nn.MulOp, scale, imp.array_of(steps, f32))
    result = imp.build(nn.MulOp, real, both)
    bias = node.arguments.get("bias")
    return result if bias is None else imp.build(nn.AddOp, result, imp.value(bias))


def stored_in_a_byte(element: Attribute) -> bool:
    """Whether integers have 8 bits, as those that ONNX quantizes to."""
    return element in (i8, nn.CODE)


def _typed(value: SSAValue, element: Attribute) -> TensorType[Attribute]:
    return cast("TensorType[Attribute]", with_element(value.type, element))


def _integers(stored: Storage) -> IntegerType:
    if stored.signed:
        return IntegerType(stored.width)
    return IntegerType(stored.width, Signedness.UNSIGNED)


def dequantize(imp: Importer, node: Node) -> Results:
    """A dequantize with parameters of the run: (q - z) * s."""
    chosen = scale_of(imp, node)
    name = node.results[0]
    if chosen is None or not isinstance(name, str) or imp.element(name) != f32:
        return None
    return [reals(imp, imp.value(node.arguments["input"]), chosen)]


def reals(imp: Importer, value: SSAValue, chosen: Scale) -> SSAValue:
    """(q - z) * s of integers."""
    value = imp.plain(value)
    element = element_type(value.type)
    if chosen.is_one and stored_in_a_byte(element):
        zero = None if chosen.zero is None else imp.cast(chosen.zero, element)
        return imp.onnx("DequantizeLinear", [value, chosen.scale, zero], _typed(value, f32))
    steps = _whole_numbers(value, chosen)
    if steps is None:
        steps = imp.cast(value, f32)
    if chosen.zero is not None:
        steps = imp.build(nn.SubOp, steps, chosen.zero)
    return imp.build(nn.MulOp, steps, chosen.scale)

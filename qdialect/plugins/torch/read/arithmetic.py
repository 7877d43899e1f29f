"""Arithmetic, comparisons and logic of two tensors, or of a tensor and a number."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import i1
from xdsl.ir import Attribute, SSAValue

from qdialect.ir import ops as nn
from qdialect.ir.quant import element_type
from qdialect.ir.quant.elements import FLOATS
from qdialect.plugins.common.extents import Extent, broadcast
from qdialect.plugins.torch.program import Node, Ref
from qdialect.plugins.torch.read.promotion import promoted
from qdialect.plugins.torch.read.rows import Results, Rule, result

if TYPE_CHECKING:
    from qdialect.plugins.torch.read.importer import Importer

_ONNX_COMPARISONS = {
    "eq": "Equal",
    "lt": "Less",
    "le": "LessOrEqual",
    "gt": "Greater",
    "ge": "GreaterOrEqual",
}


def _met(imp: Importer, values: list[SSAValue]) -> list[Extent]:
    met = broadcast([imp.extents(value) for value in values])
    return [Extent.unknown() if extent is None else extent for extent in met]


def nodes(imp: Importer, op_type: str, *values: SSAValue, element: Attribute | None = None) -> Any:
    """An elementwise node of ONNX; of the type of the first value, unless said."""
    kind = element or element_type(values[0].type)
    return imp.function(op_type, values, kind, _met(imp, list(values)))


def _operands(imp: Importer, node: Node, element: Attribute, *names: str) -> list[SSAValue]:
    return [imp.cast(imp.value(node.arguments[n], element), element) for n in names]


def product(imp: Importer, node: Node) -> Results:
    """`mul`: of floats, integers, or truth values."""
    element = imp.element(result(node))
    a, b = _operands(imp, node, element, "self", "other")
    if element in FLOATS:
        return [imp.build(nn.MulOp, a, b)]
    return [nodes(imp, "And" if element == i1 else "Mul", a, b)]


def quotient(imp: Importer, node: Node) -> Results:
    """`div` and its rounding modes, `floor_divide`."""
    element = imp.element(result(node))
    mode = "floor" if node.op == "aten.floor_divide" else node.arguments.get("rounding_mode")
    if element == i1:
        return None
    a, b = _operands(imp, node, element, "self", "other")
    if element in FLOATS:
        y = imp.build(nn.DivOp, a, b)
        if mode == "floor":
            return [imp.build(nn.FloorOp, y)]
        return [_toward_zero(imp, y) if mode == "trunc" else y]
    y = nodes(imp, "Div", a, b)
    if mode == "floor":
        return [_floored(imp, a, b, y)]
    return [y] if mode == "trunc" else None


def _toward_zero(imp: Importer, y: SSAValue) -> SSAValue:
    negative = imp.emit(nn.CompareOp(y, imp.scalar(0.0, element_type(y.type)), "lt")).results[0]
    up, down = imp.build(nn.CeilOp, y), imp.build(nn.FloorOp, y)
    return imp.emit(nn.SelectOp(negative, up, down)).results[0]


def _floored(imp: Importer, a: SSAValue, b: SSAValue, y: SSAValue) -> SSAValue:
    """One less than the quotient where a rest is left and the signs differ."""
    zero = imp.scalar(0, element_type(a.type))
    rest = nodes(imp, "Sub", a, nodes(imp, "Mul", y, b))
    left = nodes(imp, "Not", nodes(imp, "Equal", rest, zero, element=i1))
    signs = [nodes(imp, "Less", value, zero, element=i1) for value in (a, b)]
    less = nodes(imp, "And", left, nodes(imp, "Xor", *signs))
    return nodes(imp, "Sub", y, imp.cast(less, element_type(a.type)))


def remainder(imp: Importer, node: Node) -> Results:
    """`remainder`, which has the sign of the divisor, and `fmod`, which has the other's."""
    element = imp.element(result(node))
    if element == i1:
        return None
    a, b = _operands(imp, node, element, "self", "other")
    extents = _met(imp, [a, b])
    if node.op == "aten.fmod":
        return [imp.function("Mod", [a, b], element, extents, fmod=1)]
    if element not in FLOATS:
        return [imp.function("Mod", [a, b], element, extents)]
    rest = imp.function("Mod", [a, b], element, extents, fmod=1)
    zero = imp.scalar(0.0, element)
    left = nodes(imp, "Not", nodes(imp, "Equal", rest, zero, element=i1))
    signs = [nodes(imp, "Less", value, zero, element=i1) for value in (rest, b)]
    other = nodes(imp, "And", left, nodes(imp, "Xor", *signs))
    moved = imp.build(nn.AddOp, rest, b)
    return [imp.emit(nn.SelectOp(other, moved, rest)).results[0]]


def power(imp: Importer, node: Node) -> Results:
    """`pow`: by a number, of a number, or of two tensors."""
    import math

    element = imp.element(result(node))
    if element == i1:
        return None
    base, exponent = node.arguments["self"], node.arguments["exponent"]
    if element in FLOATS and not isinstance(exponent, Ref) and math.isfinite(exponent):
        x = imp.cast(imp.value(base, element), element)
        return [imp.build(nn.PowOp, x, exponent=float(exponent))]
    a, b = _operands(imp, node, element, "self", "exponent")
    return [nodes(imp, "Pow", a, b)]


def comparison(mode: str) -> Rule:
    """`eq`, `ne`, `lt`, `le`, `gt`, `ge`."""

    def rule(imp: Importer, node: Node) -> Results:
        a, b = promoted(imp, [node.arguments["self"], node.arguments["other"]])
        if element_type(a.type) != i1:
            return [imp.emit(nn.CompareOp(a, b, mode)).results[0]]
        if mode in ("eq", "ne"):
            different = nodes(imp, "Xor", a, b)
            return [different if mode == "ne" else nodes(imp, "Not", different)]
        a, b = (imp.cast(value, imp.element_named("i32")) for value in (a, b))
        return [nodes(imp, _ONNX_COMPARISONS[mode], a, b, element=i1)]

    return rule


def truth(imp: Importer, argument: Any) -> SSAValue:
    """A tensor or number as truth values: what is not 0."""
    value = imp.value(argument)
    element = element_type(value.type)
    if element == i1:
        return value
    zero = imp.scalar(0, element)
    return nodes(imp, "Not", nodes(imp, "Equal", value, zero, element=i1))


def logic(op_type: str) -> Rule:
    """`logical_and`, `logical_or`, `logical_xor`, `logical_not`."""

    def rule(imp: Importer, node: Node) -> Results:
        names = [name for name in ("self", "other") if name in node.arguments]
        return [nodes(imp, op_type, *(truth(imp, node.arguments[name]) for name in names))]

    return rule


def bitwise(op_type: str, of_truth: str) -> Rule:
    """`bitwise_and`, `bitwise_or`, `bitwise_xor`, `bitwise_not`: of integers and truth values."""

    def rule(imp: Importer, node: Node) -> Results:
        element = imp.element(result(node))
        names = [name for name in ("self", "other") if name in node.arguments]
        values = _operands(imp, node, element, *names)
        return [nodes(imp, of_truth if element == i1 else op_type, *values)]

    return rule


def shift(direction: str) -> Rule:
    """`bitwise_left_shift` and `bitwise_right_shift` of unsigned integers."""

    def rule(imp: Importer, node: Node) -> Results:
        element = imp.element(result(node))
        if not str(element).startswith("ui"):
            return None
        a, b = _operands(imp, node, element, "self", "other")
        return [imp.function("BitShift", [a, b], element, _met(imp, [a, b]), direction=direction)]

    return rule


def fused(kind: type[Any]) -> Rule:
    """`addcmul`, `addcdiv`: self + value * (tensor1 op tensor2)."""

    def rule(imp: Importer, node: Node) -> Results:
        element = imp.element(result(node))
        if element not in FLOATS:
            return None
        x, a, b = _operands(imp, node, element, "self", "tensor1", "tensor2")
        y = imp.build(kind, a, b)
        factor = node.arguments.get("value", 1)
        if factor != 1:
            y = imp.build(nn.MulOp, y, imp.value(factor, element))
        return [imp.build(nn.AddOp, x, y)]

    return rule


def between(imp: Importer, node: Node) -> Results:
    """`lerp`: self + weight * (end - self)."""
    element = imp.element(result(node))
    if element not in FLOATS:
        return None
    start, end, weight = _operands(imp, node, element, "self", "end", "weight")
    part = imp.build(nn.MulOp, weight, imp.build(nn.SubOp, end, start))
    return [imp.build(nn.AddOp, start, part)]


def bounded(imp: Importer, node: Node) -> Results:
    """`clamp` with tensors as bounds, or of integers; `clamp_min`, `clamp_max`."""
    element = imp.element(result(node))
    if element == i1:
        return None
    x = _operands(imp, node, element, "self")[0]
    for name, kind, op_type in (("min", nn.MaximumOp, "Max"), ("max", nn.MinimumOp, "Min")):
        if node.arguments.get(name) is None:
            continue
        bound = _operands(imp, node, element, name)[0]
        floats = element in FLOATS
        x = imp.build(kind, x, bound) if floats else nodes(imp, op_type, x, bound)
    return [x]


def where(imp: Importer, node: Node) -> Results:
    """`where`: one of two where a condition says so."""
    if "other" not in node.arguments:
        return None
    element = imp.element(result(node))
    condition = truth(imp, node.arguments["condition"])
    a, b = _operands(imp, node, element, "self", "other")
    return [imp.emit(nn.SelectOp(condition, a, b)).results[0]]


def masked_fill(imp: Importer, node: Node) -> Results:
    """A value where a mask says so."""
    element = imp.element(result(node))
    x, value = _operands(imp, node, element, "self", "value")
    mask = truth(imp, node.arguments["mask"])
    return [imp.emit(nn.SelectOp(mask, value, x)).results[0]]


def negated(imp: Importer, node: Node) -> Results:
    """`neg` and `abs` of integers, and of floats."""
    element = imp.element(result(node))
    x = _operands(imp, node, element, "self")[0]
    kind, op_type = (nn.NegOp, "Neg") if node.op == "aten.neg" else (nn.AbsOp, "Abs")
    return [imp.build(kind, x) if element in FLOATS else nodes(imp, op_type, x)]


def angle(imp: Importer, node: Node) -> Results:
    """`atan2`: atan(y / x), a half turn away where x is negative."""
    import math

    element = imp.element(result(node))
    if element not in FLOATS:
        return None
    y, x = _operands(imp, node, element, "self", "other")
    zero = imp.scalar(0.0, element)

    def choose(value: SSAValue, mode: str, a: SSAValue, b: SSAValue) -> SSAValue:
        condition = imp.emit(nn.CompareOp(value, zero, mode)).results[0]
        return imp.emit(nn.SelectOp(condition, a, b)).results[0]

    turn, quarter = (imp.scalar(n, element) for n in (math.pi, math.pi / 2))
    flat = nodes(imp, "Atan", imp.build(nn.DivOp, y, x))
    up, down = imp.build(nn.AddOp, flat, turn), imp.build(nn.SubOp, flat, turn)
    left = choose(y, "lt", down, up)
    upright = choose(y, "gt", quarter, choose(y, "lt", imp.build(nn.NegOp, quarter), zero))
    return [choose(x, "gt", flat, choose(x, "lt", left, upright))]


def close(imp: Importer, node: Node) -> Results:
    """`isclose`: |self - other| at most atol + rtol |other|, of finite floats."""
    a, b = promoted(imp, [node.arguments["self"], node.arguments["other"]])
    element = element_type(a.type)
    if element not in FLOATS or node.arguments.get("equal_nan"):
        return None
    rtol, atol = (float(node.arguments.get(n, d)) for n, d in (("rtol", 1e-5), ("atol", 1e-8)))
    bound = imp.build(nn.MulOp, imp.build(nn.AbsOp, b), imp.scalar(rtol, element))
    bound = imp.build(nn.AddOp, bound, imp.scalar(atol, element))
    gap = imp.build(nn.AbsOp, imp.build(nn.SubOp, a, b))
    near = imp.emit(nn.CompareOp(gap, bound, "le")).results[0]
    return [nodes(imp, "Or", near, imp.emit(nn.CompareOp(a, b, "eq")).results[0])]

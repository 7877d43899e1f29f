"""Functions of one tensor of floats, and of two, that are made of others."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import i1
from xdsl.ir import Attribute, SSAValue

from qdialect.ir import ops as nn
from qdialect.ir.quant import element_type
from qdialect.ir.quant.elements import FLOATS
from qdialect.plugins.torch.program import Node, Ref
from qdialect.plugins.torch.read.rows import Results, Rule, axis, result

if TYPE_CHECKING:
    from qdialect.plugins.torch.read.importer import Importer


class Floats:
    """Arithmetic on values of one float type, for functions written as formulas."""

    def __init__(self, imp: Importer, element: Attribute) -> None:
        self.imp = imp
        self.element = element

    def number(self, value: float) -> SSAValue:
        """A number as a scalar of the type."""
        return self.imp.scalar(float(value), self.element)

    def __call__(self, kind: type[Any], *operands: SSAValue | float, **properties: Any) -> SSAValue:
        """An `nn` op on values and numbers."""
        values = [self.number(v) if isinstance(v, int | float) else v for v in operands]
        return self.imp.build(kind, *values, **properties)

    def compare(self, a: SSAValue, mode: str, b: SSAValue | float) -> SSAValue:
        """`nn.compare`."""
        other = self.number(b) if isinstance(b, int | float) else b
        return self.imp.emit(nn.CompareOp(a, other, mode)).results[0]


Formula = Callable[..., SSAValue]
"""From the arithmetic, the operand and the named arguments to the result."""


def formula(function: Formula, *names: str, operand: str = "self", **defaults: Any) -> Rule:
    """A function of one tensor, which is converted to the type of the result, with numbers for
    arguments: `names` are taken as the program has them, `defaults` where it has none."""

    def rule(imp: Importer, node: Node) -> Results:
        element = imp.element(result(node))
        if element not in FLOATS:
            return None
        given = {**defaults, **dict.fromkeys(names)}
        given.update({n: v for n, v in node.arguments.items() if n in given and v is not None})
        if any(isinstance(v, Ref) for v in given.values()):
            return None
        x = imp.cast(imp.value(node.arguments[operand]), element)
        return [function(Floats(imp, element), x, **given)]

    return rule


def onnx_function(op_type: str, **attributes: Any) -> Rule:
    """A function of floats that ONNX has under this name."""

    def rule(imp: Importer, node: Node) -> Results:
        name = result(node)
        element = imp.element(name)
        if element not in FLOATS:
            return None
        x = imp.cast(imp.value(node.arguments["self"]), element)
        return [imp.function(op_type, [x], element, imp.shape(name), **attributes)]

    return rule


def properties(kind: type[Any], **fixed: Any) -> Rule:
    """An `nn` op of one tensor with these properties."""

    def build(f: Floats, x: SSAValue) -> SSAValue:
        return f(kind, x, **fixed)

    return formula(build)


# -- exponentials and logarithms --------------------------------------------------------------


def exp2(f: Floats, x: SSAValue) -> SSAValue:
    """2 to the power x."""
    return f.imp.function("Pow", [f.number(2.0), x], f.element, f.imp.extents(x))


def log_of_base(base: float) -> Formula:
    """The logarithm to a base."""

    def log(f: Floats, x: SSAValue) -> SSAValue:
        return f(nn.MulOp, f(nn.LogOp, x), 1.0 / math.log(base))

    return log


def times(factor: float) -> Formula:
    """The product with a number."""

    def product(f: Floats, x: SSAValue) -> SSAValue:
        return f(nn.MulOp, x, factor)

    return product


def square(f: Floats, x: SSAValue) -> SSAValue:
    """The product with itself."""
    return f(nn.MulOp, x, x)


def erfc(f: Floats, x: SSAValue) -> SSAValue:
    """1 - erf(x)."""
    return f(nn.SubOp, f.number(1.0), f(nn.ErfOp, x))


def log1p(f: Floats, x: SSAValue) -> SSAValue:
    """log(1 + x), exact where x is small: log(u) x / (u - 1) with u = 1 + x."""
    u = f(nn.AddOp, x, 1.0)
    less = f(nn.SubOp, u, 1.0)
    scaled = f(nn.MulOp, f(nn.LogOp, u), f(nn.DivOp, x, less))
    small = f.compare(u, "eq", 1.0)
    endless = f.compare(u, "eq", math.inf)
    return _where(f, small, x, _where(f, endless, u, scaled))


def expm1(f: Floats, x: SSAValue) -> SSAValue:
    """exp(x) - 1: 2 t / (1 - t) with t = tanh(x / 2) where x is small."""
    t = f(nn.TanhOp, f(nn.MulOp, x, 0.5))
    near = f(nn.DivOp, f(nn.MulOp, t, 2.0), f(nn.SubOp, f.number(1.0), t))
    far = f(nn.SubOp, f(nn.ExpOp, x), 1.0)
    return _where(f, f.compare(f(nn.AbsOp, x), "lt", 0.5), near, far)


def rsqrt(f: Floats, x: SSAValue) -> SSAValue:
    """1 / sqrt(x)."""
    return f(nn.ReciprocalOp, f(nn.SqrtOp, x))


def logit(f: Floats, x: SSAValue, eps: float | None) -> SSAValue:
    """log(x / (1 - x)), of x in [eps, 1 - eps]."""
    if eps is not None:
        x = f(nn.ClipOp, x, min=float(eps), max=1.0 - float(eps))
    return f(nn.LogOp, f(nn.DivOp, x, f(nn.SubOp, f.number(1.0), x)))


def _where(f: Floats, condition: SSAValue, a: SSAValue, b: SSAValue) -> SSAValue:
    return f.imp.emit(nn.SelectOp(condition, a, b)).results[0]


# -- parts of numbers -------------------------------------------------------------------------


def trunc(f: Floats, x: SSAValue) -> SSAValue:
    """The integer between x and 0 that is next to x."""
    return _where(f, f.compare(x, "lt", 0.0), f(nn.CeilOp, x), f(nn.FloorOp, x))


def frac(f: Floats, x: SSAValue) -> SSAValue:
    """What `trunc` takes away."""
    return f(nn.SubOp, x, trunc(f, x))


def rounded(f: Floats, x: SSAValue, decimals: int) -> SSAValue:
    """The nearest number of so many decimals."""
    if not decimals:
        return f(nn.RoundOp, x)
    power = 10.0 ** abs(decimals)
    up, down = (nn.MulOp, nn.DivOp) if decimals > 0 else (nn.DivOp, nn.MulOp)
    return f(down, f(nn.RoundOp, f(up, x, power)), power)


def nan_to_num(
    f: Floats, x: SSAValue, nan: float, posinf: float | None, neginf: float | None
) -> SSAValue:
    """Numbers in place of what is none, or not finite."""
    from qdialect.ir.ops.constants import element_name

    largest = _largest(element_name(f.element))
    x = _where(f, f.compare(x, "ne", x), f.number(nan), x)
    x = _where(f, f.compare(x, "eq", math.inf), f.number(largest if posinf is None else posinf), x)
    low = f.number(-largest if neginf is None else neginf)
    return _where(f, f.compare(x, "eq", -math.inf), low, x)


def _largest(name: str) -> float:
    import numpy as np

    known = {"f16": np.float16, "f32": np.float32, "f64": np.float64}
    return float(np.finfo(known[name]).max) if name in known else 3.3895313892515355e38


# -- activations ------------------------------------------------------------------------------


def softplus(f: Floats, x: SSAValue, beta: float, threshold: float) -> SSAValue:
    """log(1 + exp(beta x)) / beta, and x where beta x is above the threshold."""
    scaled = x if beta == 1 else f(nn.MulOp, x, beta)
    y = f(nn.SoftplusOp, scaled)
    y = y if beta == 1 else f(nn.DivOp, y, beta)
    if threshold >= 20 and beta == 1:
        return y  # the rest, exp(-20), is below half a unit of the last place of f32
    return _where(f, f.compare(scaled, "gt", threshold), x, y)


def mish(f: Floats, x: SSAValue) -> SSAValue:
    """x tanh(softplus(x))."""
    return f(nn.MulOp, x, f(nn.TanhOp, f(nn.SoftplusOp, x)))


def log_sigmoid(f: Floats, x: SSAValue) -> SSAValue:
    """log(sigmoid(x))."""
    return f(nn.NegOp, f(nn.SoftplusOp, f(nn.NegOp, x)))


def elu(f: Floats, x: SSAValue, alpha: float, scale: float, input_scale: float) -> SSAValue:
    """scale (x above 0, alpha (exp(input_scale x) - 1) below)."""
    if input_scale == 1:
        y = f(nn.EluOp, x, alpha=float(alpha))
    else:
        below = f(nn.MulOp, f(nn.ClipOp, x, max=0.0), input_scale)
        y = f(nn.AddOp, f(nn.ReluOp, x), f(nn.EluOp, below, alpha=float(alpha)))
    return y if scale == 1 else f(nn.MulOp, y, scale)


def celu(f: Floats, x: SSAValue, alpha: float) -> SSAValue:
    """x above 0, alpha (exp(x / alpha) - 1) below."""
    return elu(f, x, alpha, 1.0, 1.0 / float(alpha))


def selu(f: Floats, x: SSAValue) -> SSAValue:
    """`elu` with the constants of self-normalizing networks."""
    return elu(f, x, 1.6732632423543772848170429916717, 1.0507009873554804934193349852946, 1.0)


def threshold(f: Floats, x: SSAValue, threshold: float, value: float) -> SSAValue:
    """x above the threshold, `value` elsewhere."""
    return _where(f, f.compare(x, "gt", threshold), x, f.number(value))


def hardshrink(f: Floats, x: SSAValue, lambd: float) -> SSAValue:
    """x, and 0 in [-lambd, lambd]."""
    return _where(f, f.compare(f(nn.AbsOp, x), "gt", lambd), x, f.number(0.0))


def softshrink(f: Floats, x: SSAValue, lambd: float) -> SSAValue:
    """x closer to 0 by lambd."""
    return f(nn.SubOp, x, f(nn.ClipOp, x, min=-float(lambd), max=float(lambd)))


def rrelu(imp: Importer, node: Node) -> Results:
    """`leaky_relu` with the mean of the slopes, as a model in evaluation has it."""
    arguments = node.arguments
    if not imp.is_float(arguments["self"]) or arguments.get("training"):
        return None
    slope = (float(arguments.get("lower", 1 / 8)) + float(arguments.get("upper", 1 / 3))) / 2
    return [imp.build(nn.LeakyReluOp, imp.value(arguments["self"]), alpha=slope)]


def glu(imp: Importer, node: Node) -> Results:
    """The first half of a dimension times the sigmoid of the second."""
    x = node.arguments["self"]
    if not imp.is_float(x):
        return None
    value = imp.value(x)
    extents = imp.extents(value)
    d = axis(node.arguments.get("dim", -1), len(extents))
    size = extents[d].number
    if size is None or size % 2:
        return None
    a, b = imp.emit(nn.SplitOp(value, axis=d, sizes=[size // 2] * 2)).results
    return [imp.build(nn.MulOp, a, imp.build(nn.SigmoidOp, b))]


def prelu(imp: Importer, node: Node) -> Results:
    """x above 0, x times a weight (one, or one for each channel) below."""
    from qdialect.plugins.common.extents import Extent

    x, weight = node.arguments["self"], node.arguments["weight"]
    if not (imp.is_float(x) and imp.is_float(weight)):
        return None
    value, slope = imp.value(x), imp.value(weight)
    rank = len(imp.extents(value))
    shape = imp.extents(slope)
    if len(shape) == 1 and rank > 1:
        slope = imp.reshape(slope, (shape[0], *[Extent.of(1)] * (rank - 2)))
    return [imp.build(nn.PReluOp, value, slope)]


def is_kind(op_type: str, **attributes: Any) -> Rule:
    """`isnan`, `isinf`: of floats."""

    def rule(imp: Importer, node: Node) -> Results:
        x = node.arguments["self"]
        if not imp.is_float(x):
            return None
        value = imp.value(x)
        return [imp.function(op_type, [value], i1, imp.extents(value), **attributes)]

    return rule


def sign(imp: Importer, node: Node) -> Results:
    """-1, 0 or 1."""
    value = imp.value(node.arguments["self"])
    element = element_type(value.type)
    if element == i1:
        return [value]
    return [imp.function("Sign", [value], element, imp.extents(value))]

"""Elementwise ops on floats, as formulas of an `Algebra`.

The formulas are those of the interpreter, step by step, so that what differs in an engine is
how it computes a step: a sum, product or quotient is rounded once, `exp` has the error of its
library. For example `nn.swish` of x is x * sigmoid(alpha * x).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from xdsl.ir import SSAValue

from qdialect.ir.ops.base import NNOp
from qdialect.plugins.common.lowering.floats.algebra import Algebra, Function, Pair

Formula = Callable[[NNOp, Algebra, Sequence[SSAValue]], SSAValue]
"""Computes an element of the result of one element of each operand."""

_MOST_FACTORS = 16


def _function(name: Function) -> Formula:
    return lambda op, a, x: a.function(name, x[0])


def _pair(name: Pair) -> Formula:
    return lambda op, a, x: a.pair(name, x[0], x[1])


def _relu(op: NNOp, a: Algebra, x: Sequence[SSAValue]) -> SSAValue:
    return a.pair("maximum", x[0], a.number(0.0))


def _clip(op: NNOp, a: Algebra, x: Sequence[SSAValue]) -> SSAValue:
    value = x[0]
    if (low := op.values.get("min")) is not None:
        value = a.pair("maximum", value, a.number(low))
    if (high := op.values.get("max")) is not None:
        value = a.pair("minimum", value, a.number(high))
    return value


def _clipped(a: Algebra, x: SSAValue, low: float, high: float) -> SSAValue:
    return a.pair("minimum", a.pair("maximum", x, a.number(low)), a.number(high))


def _line(a: Algebra, x: SSAValue, slope: float, offset: float) -> SSAValue:
    return a.pair("add", a.pair("mul", x, a.number(slope)), a.number(offset))


def _neg(op: NNOp, a: Algebra, x: Sequence[SSAValue]) -> SSAValue:
    return a.negated(x[0])


def _reciprocal(op: NNOp, a: Algebra, x: Sequence[SSAValue]) -> SSAValue:
    return a.reciprocal(x[0])


def _sloped(a: Algebra, x: SSAValue, slope: SSAValue) -> SSAValue:
    """max(x, 0) + slope * min(x, 0), of which one is 0: no truth values, which some compilers
    cannot store."""
    zero = a.number(0.0)
    below = a.pair("mul", a.pair("minimum", x, zero), slope)
    return a.pair("add", a.pair("maximum", x, zero), below)


def _leaky_relu(op: NNOp, a: Algebra, x: Sequence[SSAValue]) -> SSAValue:
    return _sloped(a, x[0], a.number(op.values["alpha"]))


def _prelu(op: NNOp, a: Algebra, x: Sequence[SSAValue]) -> SSAValue:
    return _sloped(a, x[0], x[1])


def _hard_sigmoid(op: NNOp, a: Algebra, x: Sequence[SSAValue]) -> SSAValue:
    return _clipped(a, _line(a, x[0], op.values["alpha"], op.values["beta"]), 0.0, 1.0)


def _hard_swish(op: NNOp, a: Algebra, x: Sequence[SSAValue]) -> SSAValue:
    return a.pair("mul", x[0], _clipped(a, _line(a, x[0], 1 / 6, 0.5), 0.0, 1.0))


def _sigmoid(op: NNOp, a: Algebra, x: Sequence[SSAValue]) -> SSAValue:
    return a.sigmoid(x[0])


def _swish(op: NNOp, a: Algebra, x: Sequence[SSAValue]) -> SSAValue:
    alpha = op.values["alpha"]
    scaled = x[0] if alpha == 1.0 else a.pair("mul", x[0], a.number(alpha))
    return a.pair("mul", x[0], a.sigmoid(scaled))


def _gelu(op: NNOp, a: Algebra, x: Sequence[SSAValue]) -> SSAValue:
    value, one = x[0], a.number(1.0)
    if op.values["approximate"] == "tanh":
        factor = a.pair("mul", a.number(0.044715), value)
        cube = a.pair("mul", a.pair("mul", factor, value), value)
        inner = a.pair("mul", a.number(math.sqrt(2 / math.pi)), a.pair("add", value, cube))
        gate = a.function("tanh", inner)
    else:
        gate = a.function("erf", a.pair("div", value, a.number(math.sqrt(2.0))))
    half = a.pair("mul", value, a.number(0.5))
    return a.pair("mul", half, a.pair("add", one, gate))


def _softplus(op: NNOp, a: Algebra, x: Sequence[SSAValue]) -> SSAValue:
    size = a.function("exp", a.negated(a.function("abs", x[0])))
    return a.pair("add", a.pair("maximum", x[0], a.number(0.0)), a.log1p(size))


def _elu(op: NNOp, a: Algebra, x: Sequence[SSAValue]) -> SSAValue:
    zero = a.number(0.0)
    below = a.expm1(a.pair("minimum", x[0], zero))
    scaled = a.pair("mul", below, a.number(op.values["alpha"]))
    return a.pair("add", a.pair("maximum", x[0], zero), scaled)


def _pow(op: NNOp, a: Algebra, x: Sequence[SSAValue]) -> SSAValue:
    """Few factors are multiplied; a square root, and one over either, likewise."""
    exponent = float(op.values["exponent"])
    size = abs(exponent)
    whole = math.floor(size)
    if size > _MOST_FACTORS or size - whole not in (0.0, 0.5):
        return a.pair("power", x[0], a.number(exponent))
    result: SSAValue | None = a.function("sqrt", x[0]) if size != whole else None
    for bit in bin(whole)[2:][::-1]:
        if bit == "1":
            result = x[0] if result is None else a.pair("mul", result, x[0])
        x = (a.pair("mul", x[0], x[0]),) if whole > 1 else x
        whole >>= 1
    result = a.number(1.0) if result is None else result
    return a.reciprocal(result) if exponent < 0 else result


FORMULAS: Mapping[str, Formula] = {
    **{f"nn.{name}": _pair(name) for name in ("add", "sub", "mul", "div", "maximum", "minimum")},
    **{f"nn.{name}": _function(name) for name in ("abs", "ceil", "erf", "exp", "floor", "log")},
    **{f"nn.{name}": _function(name) for name in ("sqrt", "tanh")},
    "nn.clip": _clip,
    "nn.elu": _elu,
    "nn.gelu": _gelu,
    "nn.hard_sigmoid": _hard_sigmoid,
    "nn.hard_swish": _hard_swish,
    "nn.leaky_relu": _leaky_relu,
    "nn.neg": _neg,
    "nn.pow": _pow,
    "nn.prelu": _prelu,
    "nn.reciprocal": _reciprocal,
    "nn.relu": _relu,
    "nn.round": _function("nearest"),
    "nn.sigmoid": _sigmoid,
    "nn.softplus": _softplus,
    "nn.swish": _swish,
}
"""The formula of each elementwise op."""

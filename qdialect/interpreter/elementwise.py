"""Kernels of elementwise ops: arithmetic, order, clamps and functions of one tensor.

Without quantized types: numpy in the type of the operands (f16 and bf16 in f32, rounded
once). With them: exact reals, stored once with the declared rounding. Functions that are
not rational are evaluated in float64 and, where that leaves the nearest code open, again in
balls of arb (`_beside_ties`).
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.ir import Operation

from qdialect.algebra.rounding import Rounding
from qdialect.interpreter.codes import ordered, unordered
from qdialect.interpreter.quantize import (
    field,
    is_quantized,
    load,
    plain,
    properties,
    quantize,
    stored,
    widened,
)
from qdialect.interpreter.ratio import Ratio, round_division
from qdialect.interpreter.real import SLACK, Index, Real
from qdialect.interpreter.values import Array, Evaluation, Kernel
from qdialect.ir import ops as nn
from qdialect.ir.quant import quant_element

if TYPE_CHECKING:
    from flint import arb

Exact = Callable[[Real, Real], Real]
FloatUnary = Callable[[Operation, Array], Array]
RealUnary = Callable[[Operation, Real], Real]


def _binary(function: Callable[[Array, Array], Array], exact: Exact) -> Kernel:
    def kernel(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> list[Array]:
        a, b = operands
        if is_quantized(op):
            lhs, rhs = (load(v, o.type) for v, o in zip(operands, op.operands, strict=True))
            return stored(op, exact(lhs, rhs), evaluation)
        return plain(op, function(widened(a), widened(b)), evaluation)

    return kernel


def _extremum(choose: Callable[[Array, Array], Array]) -> Kernel:
    """One of two operands by order; of codes on the same qparams, the code."""

    def kernel(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> list[Array]:
        a, b = operands
        element = quant_element(op.operands[0].type)
        if element is None:
            return plain(op, choose(a, b), evaluation)
        storage = element.qparams.storage
        return [unordered(choose(ordered(a, storage), ordered(b, storage)), storage, a.dtype)]

    return kernel


def _divide(a: Real, b: Real) -> Real:
    """a / b; a zero divisor gives an infinity of the sign of a, and 0/0 gives 0."""
    quotient = a / b
    zero = np.broadcast_to(b.approx == 0, quotient.shape)
    if not zero.any():
        return quotient
    limit = np.where(a.approx == 0, 0.0, np.copysign(np.inf, a.approx))
    special = zero if quotient.special is None else zero | quotient.special
    return replace(quotient, approx=np.where(zero, limit, quotient.approx), special=special)


def _float_divide(a: Array, b: Array) -> Array:
    """a / b; integers truncate towards zero, as in ONNX."""
    if a.dtype.kind == "f":
        return a / b
    return np.sign(a) * np.sign(b) * (np.abs(a) // np.abs(b))


def function(of_floats: FloatUnary, exact: RealUnary) -> Kernel:
    """The kernel of a function of one operand, from what it is on floats and on reals."""

    def kernel(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> list[Array]:
        if is_quantized(op):
            return stored(op, exact(op, load(operands[0], op.operands[0].type)), evaluation)
        return plain(op, of_floats(op, widened(operands[0])), evaluation)

    return kernel


def _leaky_relu(op: Operation, x: Array) -> Array:
    return np.where(x >= 0, x, x * x.dtype.type(properties(op)["alpha"]))


def _exact_leaky_relu(op: Operation, x: Real) -> Real:
    return x * Real.floats(np.where(x.approx >= 0, 1.0, properties(op)["alpha"]))


def _hard_sigmoid(op: Operation, x: Array) -> Array:
    v, kind = properties(op), x.dtype.type
    return np.clip(x * kind(v["alpha"]) + kind(v["beta"]), 0, 1)


def _exact_hard_sigmoid(op: Operation, x: Real) -> Real:
    v = properties(op)
    return (x * Real.floats(v["alpha"]) + Real.floats(v["beta"])).clip(0.0, 1.0)


def _hard_swish(op: Operation, x: Array) -> Array:
    """With the constants of the function that ONNX defines it by."""
    kind = x.dtype.type
    return x * np.clip(x * kind(1 / 6) + kind(0.5), 0, 1)


def _exact_hard_swish(op: Operation, x: Real) -> Real:
    return x * (x / Real.floats(6.0) + Real.floats(0.5)).clip(0.0, 1.0)


def _relu(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> list[Array]:
    """max(x, 0); on stored integers max(q, zero point)."""
    return [_chosen(np.maximum, op, operands[0], 0.0)]


def _clip(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> list[Array]:
    """min(max(x, min), max); on stored integers with the bounds quantized half even."""
    value, limits = operands[0], properties(op)
    if limits.get("min") is not None:
        value = _chosen(np.maximum, op, value, limits["min"])
    if limits.get("max") is not None:
        value = _chosen(np.minimum, op, value, limits["max"])
    return plain(op, value, evaluation)


def _chosen(
    choose: Callable[[Array, Array], Array], op: Operation, value: Array, level: float
) -> Array:
    """The larger or smaller of `value` and a real constant, as represented."""
    element, other = quant_element(op.operands[0].type), _level(op, value, level)
    if element is None:
        return choose(value, other)
    storage = element.qparams.storage
    ranks = choose(ordered(value, storage), ordered(other, storage))
    return unordered(ranks, storage, value.dtype)


def _level(op: Operation, value: Array, level: float) -> Array:
    """A real constant in the representation of `value`, broadcastable to it."""
    element = quant_element(op.operands[0].type)
    if element is None:
        return np.asarray(level).astype(value.dtype)
    qparams = element.qparams
    shape = np.atleast_1d(field(qparams, value.shape)[0]).shape
    constant = Real.floats(np.full(shape, level))
    result = quantize(constant, qparams, Rounding.HALF_EVEN)
    return result.reshape(shape if value.ndim else ())


# -- functions that are not rational ----------------------------------------------

_BITS = (256, 1024, 4096, 16384)
"""Precisions that are tried in turn."""
_TIE_BITS = 96
"""A tie is (k + 1/2) times a scale: 54 bits of a double times at most 33."""
_FAR = 1024
"""exp(-1024) is less than the smallest scale: functions of larger exponents do not differ
in any code from those of this one."""

_ERROR = 2.0**-40
"""More than float64 evaluation loses, relative to the larger of the result and 1."""

OfBall = Callable[[Operation, "arb"], "arb"]


def _evaluated(
    of_floats: Callable[[Operation, Array], Array],
    of_ball: OfBall,
    condition: Callable[[Operation], float] = lambda op: 1.0,
) -> Kernel:
    """A function that is not rational; `condition` times the relative error of its operand is
    that of its result."""

    def on_reals(op: Operation, x: Real) -> Real:
        approx = np.asarray(of_floats(op, x.approx), np.float64)
        finite = np.isfinite(approx)
        special = ~finite if x.special is None else ~finite | x.special
        error = np.where(finite, np.maximum(np.abs(approx), 1.0) * _ERROR * condition(op), 0.0)

        def exact(index: Index) -> Ratio:
            return _beside_ties(lambda ball: of_ball(op, ball), x.at(index))

        return Real(approx, error, exact, special if special.any() else None)

    return function(of_floats, on_reals)


def _beside_ties(of_ball: Callable[[arb], arb], operand: Ratio) -> Ratio:
    """Function values, each on the same side of every tie as the number it stands for.

    A tie has at most `_TIE_BITS` bits: a ball that does not hold the nearest number of so many
    bits to its middle holds no tie.
    """
    from flint import arb, ctx, fmpq

    found: list[tuple[int, int]] = []
    for n, d in zip(operand.num.tolist(), operand.den.tolist(), strict=True):
        value = arb(0)
        for bits in _BITS:
            with ctx.workprec(bits):
                value = of_ball(arb(fmpq(n, d)))
            with ctx.workprec(_TIE_BITS):
                nearest = (+value).mid()
            if value.is_exact() or not value.contains(nearest):
                break
        middle = value.mid().fmpq()
        found.append((int(middle.p), int(middle.q)))
    return Ratio(*(np.array([pair[side] for pair in found], object) for side in (0, 1)))


# -- on floats ----------------------------------------------------------------------


def _sigmoid(op: Operation, x: Array) -> Array:
    return _logistic(x)


def _logistic(x: Array) -> Array:
    e = np.exp(-np.abs(x))
    return np.where(x >= 0, 1, e) / (1 + e)


def _tanh(op: Operation, x: Array) -> Array:
    return np.tanh(x)


def _exp(op: Operation, x: Array) -> Array:
    return np.exp(x)


def _log(op: Operation, x: Array) -> Array:
    return np.log(x)


def _sqrt(op: Operation, x: Array) -> Array:
    return np.sqrt(x)


def _erf(op: Operation, x: Array) -> Array:
    return _error_function(x)


def _error_function(x: Array) -> Array:
    return np.vectorize(math.erf, otypes=[x.dtype])(x)


def _gelu(op: Operation, x: Array) -> Array:
    kind = x.dtype.type
    if properties(op)["approximate"] == "tanh":
        inner = kind(math.sqrt(2 / math.pi)) * (x + kind(0.044715) * x * x * x)
        return kind(0.5) * x * (1 + np.tanh(inner))
    return kind(0.5) * x * (1 + _error_function(x / kind(math.sqrt(2))))


def _swish(op: Operation, x: Array) -> Array:
    return x * _logistic(x.dtype.type(properties(op)["alpha"]) * x)


def _softplus(op: Operation, x: Array) -> Array:
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


def _elu(op: Operation, x: Array) -> Array:
    below = x.dtype.type(properties(op)["alpha"]) * np.expm1(np.minimum(x, 0))
    return np.where(x >= 0, x, below)


def _pow(op: Operation, x: Array) -> Array:
    return np.power(x, x.dtype.type(properties(op)["exponent"]))


# -- in balls -----------------------------------------------------------------------


def _ball_exp(op: Operation, x: arb) -> arb:
    return _limited(x).exp()


def _limited(x: arb, most: int = _FAR) -> arb:
    return most * (x / abs(x)) if abs(x) > most else x


def _ball_sigmoid(op: Operation, x: arb) -> arb:
    return 1 / (1 + _limited(-x).exp())


def _ball_tanh(op: Operation, x: arb) -> arb:
    return _limited(x).tanh()


def _ball_log(op: Operation, x: arb) -> arb:
    return x.log()


def _ball_erf(op: Operation, x: arb) -> arb:
    return _limited(x, math.isqrt(_FAR)).erf()


def _ball_gelu(op: Operation, x: arb) -> arb:
    from flint import arb

    if properties(op)["approximate"] == "tanh":
        cubic = x + arb(0.044715) * x * x * x
        return x / (1 + _limited(-cubic * (8 / arb.pi()).sqrt()).exp())
    return x / 2 * _limited(-x / arb(2).sqrt(), math.isqrt(_FAR)).erfc()


def _ball_swish(op: Operation, x: arb) -> arb:
    return x / (1 + _limited(-x * properties(op)["alpha"]).exp())


def _ball_softplus(op: Operation, x: arb) -> arb:
    return x.max(0 * x) + _limited(-abs(x)).exp().log1p()


def _ball_elu(op: Operation, x: arb) -> arb:
    return x if x >= 0 else properties(op)["alpha"] * _limited(x).expm1()


def _ball_pow(op: Operation, x: arb) -> arb:
    return x ** properties(op)["exponent"]


def _pow_condition(op: Operation) -> float:
    return 1 + abs(properties(op)["exponent"])


# -- exact --------------------------------------------------------------------------


def _exact_neg(op: Operation, x: Real) -> Real:
    return -x


def _exact_abs(op: Operation, x: Real) -> Real:
    return x * Real.floats(np.where(x.approx < 0, -1.0, 1.0))


def _exact_sqrt(op: Operation, x: Real) -> Real:
    return x.sqrt()


def _exact_reciprocal(op: Operation, x: Real) -> Real:
    """1 / 0 is an infinity, which saturates."""
    zero = x.approx == 0
    safe = replace(x, approx=np.where(zero, 1.0, x.approx))
    quotient = Real.floats(np.ones((1,) * len(x.shape))) / safe
    if not zero.any():
        return quotient
    special = zero if quotient.special is None else zero | quotient.special
    return replace(quotient, approx=np.where(zero, np.inf, quotient.approx), special=special)


def _whole(rounded: Callable[[Array], Array], exact: Callable[[Ratio], Array]) -> Kernel:
    """A function to the integers: decided exactly beside the steps."""

    def on_floats(op: Operation, x: Array) -> Array:
        return rounded(x)

    def on_reals(op: Operation, x: Real) -> Real:
        bound = np.broadcast_to(x.error * SLACK, x.shape)
        result = np.array(rounded(x.approx))
        # Steps are at the integers and at the halves.
        near = (bound != 0) & (np.abs(2 * x.approx - np.rint(2 * x.approx)) <= 2 * bound)
        if x.special is not None:
            near &= ~np.broadcast_to(x.special, x.shape)
        if near.any():
            index = np.nonzero(near)
            result[index] = exact(x.at(index)).astype(np.float64)
        return replace(Real.floats(result), special=x.special)

    return function(on_floats, on_reals)


def _prelu(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> list[Array]:
    """x where x >= 0, else slope * x."""
    if not is_quantized(op):
        x, slope = (widened(v) for v in operands)
        return plain(op, np.where(x >= 0, x, x * slope), evaluation)
    x, slope = (load(v, o.type) for v, o in zip(operands, op.operands, strict=True))
    keep = x.approx >= 0
    scaled = x * slope
    chosen = Real(
        np.where(keep, x.approx, scaled.approx),
        np.where(keep, x.error, scaled.error),
        lambda index: _choose(np.broadcast_to(keep, scaled.shape)[index], x, scaled, index),
        scaled.special,
    )
    return stored(op, chosen, evaluation)


def _choose(keep: Array, a: Real, b: Real, index: Index) -> Ratio:
    first, second = a.at(index), b.at(index)
    return Ratio(np.where(keep, first.num, second.num), np.where(keep, first.den, second.den))


def _floor(value: Ratio) -> Array:
    return value.num // value.den


def _ceil(value: Ratio) -> Array:
    return -(-value.num // value.den)


def _nearest(value: Ratio) -> Array:
    return round_division(value.num, value.den, Rounding.HALF_EVEN)


def _negative(op: Operation, x: Array) -> Array:
    return -x


def _absolute(op: Operation, x: Array) -> Array:
    return np.abs(x)


def _inverse(op: Operation, x: Any) -> Array:
    return 1 / x


KERNELS: Mapping[str, Kernel] = {
    nn.AddOp.name: _binary(operator.add, operator.add),
    nn.SubOp.name: _binary(operator.sub, operator.sub),
    nn.MulOp.name: _binary(operator.mul, operator.mul),
    nn.DivOp.name: _binary(_float_divide, _divide),
    nn.MaximumOp.name: _extremum(np.maximum),
    nn.MinimumOp.name: _extremum(np.minimum),
    nn.ReluOp.name: _relu,
    nn.ClipOp.name: _clip,
    nn.LeakyReluOp.name: function(_leaky_relu, _exact_leaky_relu),
    nn.HardSigmoidOp.name: function(_hard_sigmoid, _exact_hard_sigmoid),
    nn.HardSwishOp.name: function(_hard_swish, _exact_hard_swish),
    nn.SigmoidOp.name: _evaluated(_sigmoid, _ball_sigmoid),
    nn.TanhOp.name: _evaluated(_tanh, _ball_tanh),
    nn.NegOp.name: function(_negative, _exact_neg),
    nn.AbsOp.name: function(_absolute, _exact_abs),
    nn.ExpOp.name: _evaluated(_exp, _ball_exp),
    nn.LogOp.name: _evaluated(_log, _ball_log),
    nn.SqrtOp.name: function(_sqrt, _exact_sqrt),
    nn.ReciprocalOp.name: function(_inverse, _exact_reciprocal),
    nn.ErfOp.name: _evaluated(_erf, _ball_erf),
    nn.GeluOp.name: _evaluated(_gelu, _ball_gelu),
    nn.SwishOp.name: _evaluated(_swish, _ball_swish),
    nn.SoftplusOp.name: _evaluated(_softplus, _ball_softplus),
    nn.EluOp.name: _evaluated(_elu, _ball_elu),
    nn.PowOp.name: _evaluated(_pow, _ball_pow, _pow_condition),
    nn.FloorOp.name: _whole(np.floor, _floor),
    nn.CeilOp.name: _whole(np.ceil, _ceil),
    nn.RoundOp.name: _whole(np.rint, _nearest),
    nn.PReluOp.name: _prelu,
}

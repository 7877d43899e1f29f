"""Kernels of elementwise functions of one tensor.

On quantized tensors rational functions are exact. The others are evaluated in float64
and, where that leaves the nearest code open, again to `DIGITS` decimal digits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, localcontext
from functools import lru_cache
from typing import Any

import numpy as np
from xdsl.ir import Operation

from qdialect import ops as nn
from qdialect.numerics.rounding import Rounding
from qdialect.reference.elementwise import function, plain, properties, stored, widened
from qdialect.reference.quantize import is_quantized, load
from qdialect.reference.ratio import Ratio, round_division
from qdialect.reference.real import SLACK, Index, Real
from qdialect.reference.values import Array, Evaluation, Kernel

DIGITS = 120
_CONTEXT = Context(prec=DIGITS, Emax=MAX_EMAX, Emin=MIN_EMIN)
_LIMIT = Decimal(100_000)
"""Exponentials of larger numbers are as good as infinite."""

_ERROR = 2.0**-40
"""More than float64 evaluation loses, relative to the larger of the result and 1."""

Decimals = Callable[[Operation, Decimal], Decimal]


def _evaluated(of_floats: Callable[[Operation, Array], Array], of_decimals: Decimals) -> Kernel:
    """A function that is not rational."""

    def on_reals(op: Operation, x: Real) -> Real:
        approx = np.asarray(of_floats(op, x.approx), np.float64)
        finite = np.isfinite(approx)
        special = ~finite if x.special is None else ~finite | x.special
        error = np.where(finite, np.maximum(np.abs(approx), 1.0) * _ERROR, 0.0)

        def exact(index: Index) -> Ratio:
            operand = x.at(index)
            with localcontext(_CONTEXT):
                pairs = zip(operand.num.tolist(), operand.den.tolist(), strict=True)
                done = [of_decimals(op, Decimal(n) / Decimal(d)) for n, d in pairs]
                ratios = [d.as_integer_ratio() for d in done]
            return Ratio(*(np.array([r[side] for r in ratios], object) for side in (0, 1)))

        return Real(approx, error, exact, special if special.any() else None)

    return function(of_floats, on_reals)


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


# -- to many digits -----------------------------------------------------------------


def _big_exp(op: Operation, x: Decimal) -> Decimal:
    return _bounded_exp(x)


def _bounded_exp(x: Decimal) -> Decimal:
    return max(-_LIMIT, min(_LIMIT, x)).exp()


def _big_sigmoid(op: Operation, x: Decimal) -> Decimal:
    return 1 / (1 + _bounded_exp(-x))


def _big_tanh(op: Operation, x: Decimal) -> Decimal:
    return _hyperbolic(x)


def _hyperbolic(x: Decimal) -> Decimal:
    if abs(x) > 1000:
        return Decimal(1).copy_sign(x)
    e = (2 * x).exp()
    return (e - 1) / (e + 1)


def _big_log(op: Operation, x: Decimal) -> Decimal:
    return x.ln()


def _big_erf(op: Operation, x: Decimal) -> Decimal:
    return _gauss(x)


def _gauss(x: Decimal) -> Decimal:
    """2/sqrt(pi) * sum of (-1)^n x^(2n+1) / (n! (2n+1)), with digits to spare."""
    if abs(x) > 25:
        return Decimal(1).copy_sign(x)  # erfc(25) < 1e-270
    with localcontext(_CONTEXT) as context:
        context.prec = 3 * DIGITS + 300
        total = term = x
        n = 0
        while term and abs(term) > Decimal(10) ** -(2 * DIGITS):
            n += 1
            term = -term * x * x / n
            total += term / (2 * n + 1)
        result = 2 * total / _pi().sqrt()
    return +result


@lru_cache(maxsize=1)
def _pi() -> Decimal:
    """Gauss and Legendre's iteration."""
    with localcontext(_CONTEXT) as context:
        context.prec = 3 * DIGITS + 320
        a, b, t, p = Decimal(1), 1 / Decimal(2).sqrt(), Decimal("0.25"), Decimal(1)
        for _ in range(10):
            a, b, t, p = (a + b) / 2, (a * b).sqrt(), t - p * ((a - b) / 2) ** 2, 2 * p
        return (a + b) ** 2 / (4 * t)


def _big_gelu(op: Operation, x: Decimal) -> Decimal:
    if properties(op)["approximate"] == "tanh":
        factor = (2 / _pi()).sqrt()
        return x / 2 * (1 + _hyperbolic(factor * (x + Decimal.from_float(0.044715) * x * x * x)))
    return x / 2 * (1 + _gauss(x / Decimal(2).sqrt()))


def _big_swish(op: Operation, x: Decimal) -> Decimal:
    return x / (1 + _bounded_exp(-x * Decimal(properties(op)["alpha"])))


def _big_softplus(op: Operation, x: Decimal) -> Decimal:
    return max(x, Decimal(0)) + (1 + _bounded_exp(-abs(x))).ln()


def _big_elu(op: Operation, x: Decimal) -> Decimal:
    return x if x >= 0 else Decimal(properties(op)["alpha"]) * (_bounded_exp(x) - 1)


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


def _exact_pow(op: Operation, x: Real) -> Real:
    """Whole and half powers exactly; others by exp(exponent * log(x)), to many digits."""
    exponent = properties(op)["exponent"]
    approx = np.power(x.approx, exponent)
    finite = np.isfinite(approx)
    error = np.where(finite, np.maximum(np.abs(approx), 1.0) * _ERROR * (1 + abs(exponent)), 0.0)

    def exact(index: Index) -> Ratio:
        operand = x.at(index)
        pairs = zip(operand.num.tolist(), operand.den.tolist(), strict=True)
        with localcontext(_CONTEXT):
            powers = [_power(n, d, exponent) for n, d in pairs]
        return Ratio(*(np.array([p[side] for p in powers], object) for side in (0, 1)))

    special = ~finite if x.special is None else ~finite | x.special
    return Real(approx, error, exact, special if special.any() else None)


def _power(num: int, den: int, exponent: float) -> tuple[int, int]:
    if exponent < 0:
        top, bottom = _power(num, den, -exponent)
        return (bottom, top) if top > 0 else (-bottom, -top)
    whole, part = divmod(exponent, 1.0)
    if part == 0:
        return num ** int(whole), den ** int(whole)
    if part == 0.5:
        scale = 1 << 800
        root = math.isqrt(num * scale * scale * den)
        return num ** int(whole) * root, den ** int(whole) * den * scale
    if num == 0:
        return 0, 1
    result = _bounded_exp((Decimal(num) / Decimal(den)).ln() * Decimal(exponent))
    return result.as_integer_ratio()


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
    nn.SigmoidOp.name: _evaluated(_sigmoid, _big_sigmoid),
    nn.TanhOp.name: _evaluated(_tanh, _big_tanh),
    nn.NegOp.name: function(_negative, _exact_neg),
    nn.AbsOp.name: function(_absolute, _exact_abs),
    nn.ExpOp.name: _evaluated(_exp, _big_exp),
    nn.LogOp.name: _evaluated(_log, _big_log),
    nn.SqrtOp.name: function(_sqrt, _exact_sqrt),
    nn.ReciprocalOp.name: function(_inverse, _exact_reciprocal),
    nn.ErfOp.name: _evaluated(_erf, _big_erf),
    nn.GeluOp.name: _evaluated(_gelu, _big_gelu),
    nn.SwishOp.name: _evaluated(_swish, _big_swish),
    nn.SoftplusOp.name: _evaluated(_softplus, _big_softplus),
    nn.EluOp.name: _evaluated(_elu, _big_elu),
    nn.PowOp.name: function(_pow, _exact_pow),
    nn.FloorOp.name: _whole(np.floor, _floor),
    nn.CeilOp.name: _whole(np.ceil, _ceil),
    nn.RoundOp.name: _whole(np.rint, _nearest),
    nn.PReluOp.name: _prelu,
}

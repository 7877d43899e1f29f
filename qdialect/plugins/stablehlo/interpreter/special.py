"""Special functions of CHLO that numpy does not have, in f64.

Each is computed by its textbook series or asymptotic expansion, to about 1e-13 relative.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

Doubles = NDArray[np.float64]

_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510)
"""B2, B4, ..., B16."""
_SHIFT = 16
"""How far arguments are moved up before an asymptotic expansion is used."""


def _on_each(function: Any, *operands: Doubles) -> Doubles:
    arrays = np.broadcast_arrays(*operands)
    rows = zip(*(a.reshape(-1).tolist() for a in arrays), strict=True)
    return np.array([function(*row) for row in rows], np.float64).reshape(arrays[0].shape)


def lgamma(x: Doubles) -> Doubles:
    """log |gamma(x)|; infinite at the poles."""

    def one(v: float) -> float:
        if math.isnan(v):
            return v
        if math.isinf(v) or (v <= 0 and v == math.floor(v)):
            return math.inf
        return math.lgamma(v)

    return _on_each(one, x)


def digamma(x: Doubles) -> Doubles:
    """The derivative of log gamma; NaN at the poles."""

    def one(v: float) -> float:
        if math.isnan(v) or (v <= 0 and (v == math.floor(v) or math.isinf(v))):
            return math.nan
        if math.isinf(v):
            return v
        if v < 0:
            return one(1 - v) - math.pi / math.tan(math.pi * v)
        total = 0.0
        while v < _SHIFT:
            total, v = total - 1 / v, v + 1
        tail = sum(b / (2 * k * v ** (2 * k)) for k, b in enumerate(_BERNOULLI, 1))
        return total + math.log(v) - 1 / (2 * v) - tail

    return _on_each(one, x)


def zeta(x: Doubles, q: Doubles) -> Doubles:
    """Hurwitz' zeta function: the sum of (q + n)^-x."""

    def one(s: float, a: float) -> float:
        if s == 1:
            return math.inf
        if s < 1 or math.isnan(s) or math.isnan(a):
            return math.nan
        if a <= 0 and a == math.floor(a):
            return math.inf if s == math.floor(s) and s % 2 == 0 else math.nan
        if a <= 0 and s != math.floor(s):
            return math.nan
        total = 0.0
        for _ in range(_SHIFT + max(0, math.ceil(-a))):
            total, a = total + a**-s, a + 1
        total += a ** (1 - s) / (s - 1) + 0.5 * a**-s
        factor = s
        for k, b in enumerate(_BERNOULLI, 1):
            total += b / math.factorial(2 * k) * factor * a ** (-s - 2 * k + 1)
            factor *= (s + 2 * k - 1) * (s + 2 * k)
        return total

    return _on_each(one, x, q)


def polygamma(n: Doubles, x: Doubles) -> Doubles:
    """The derivative of order n of digamma; NaN for other n than 0, 1, 2, ..."""

    def one(order: float, v: float) -> float:
        if order < 0 or order != math.floor(order):
            return math.nan
        if order == 0:
            return float(digamma(np.array(v)))
        sign = -1.0 if order % 2 == 0 else 1.0
        return sign * math.gamma(order + 1) * float(zeta(np.array(order + 1), np.array(v)))

    return _on_each(one, n, x)


def erf_inv(x: Doubles) -> Doubles:
    """The inverse of the error function, by Newton's method."""

    def one(v: float) -> float:
        if math.isnan(v) or abs(v) > 1:
            return math.nan
        if abs(v) == 1:
            return math.copysign(math.inf, v)
        log = math.log1p(-v * v)
        term = 2 / (math.pi * 0.147) + log / 2
        y = math.copysign(math.sqrt(math.sqrt(term * term - log / 0.147) - term), v)
        for _ in range(8):
            # erfc keeps digits where erf is nearly 1.
            beyond = (1 - abs(v) - math.erfc(abs(y))) * math.copysign(1, v)
            wrong = math.erf(y) - v if abs(v) < 0.5 else beyond
            slope = 2 / math.sqrt(math.pi) * math.exp(-y * y)
            if slope == 0 or wrong == 0:
                break
            step = wrong / slope
            y -= step / (1 + y * step)
        return y

    return _on_each(one, x)


def bessel_i1e(x: Doubles) -> Doubles:
    """exp(-|x|) I1(x)."""

    def one(v: float) -> float:
        size = abs(v)
        if math.isinf(size):
            return 0.0
        if size > 30:
            total = term = 1.0
            for k in range(1, 20):
                term *= -(4 - (2 * k - 1) ** 2) / (8 * k * size)
                total += term
            return math.copysign(total / math.sqrt(2 * math.pi * size), v)
        total, term = 0.0, size / 2
        for k in range(1, 200):
            total += term
            term *= size * size / 4 / (k * (k + 1))
        return math.copysign(math.exp(-size) * total, v)

    return _on_each(one, x)

"""The elementary functions with which an op declares what it computes, besides + - * / and clip.

On numpy arrays they are numpy's, on other numbers (see `qdialect.algebra`) the methods of the
same name: one declaration of `nn.gelu` gives floats, intervals and real numbers.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np


def _is_floats(x: Any) -> bool:
    return isinstance(x, np.ndarray)


def exp(x: Any) -> Any:
    """e to the x"""
    return np.exp(x) if _is_floats(x) else x.exp()


def expm1(x: Any) -> Any:
    """exp(x) - 1"""
    return np.expm1(x) if _is_floats(x) else x.exp() - 1.0


def log(x: Any) -> Any:
    """Natural logarithm."""
    return np.log(x) if _is_floats(x) else x.log()


def log1p(x: Any) -> Any:
    """log(1 + x)"""
    return np.log1p(x) if _is_floats(x) else (x + 1.0).log()


def sqrt(x: Any) -> Any:
    """Square root."""
    return np.sqrt(x) if _is_floats(x) else x.sqrt()


def tanh(x: Any) -> Any:
    """Hyperbolic tangent."""
    return np.tanh(x) if _is_floats(x) else (1.0 / ((x * 2.0).exp() + 1.0)) * -2.0 + 1.0


def erf(x: Any) -> Any:
    """Error function."""
    if _is_floats(x):
        return np.vectorize(math.erf, otypes=[np.float64])(x)
    return x.erf()


def floor(x: Any) -> Any:
    """The largest integer that is not greater."""
    return np.floor(x) if _is_floats(x) else x.floor()


def nearest(x: Any) -> Any:
    """The nearest integer, halves to even."""
    return np.rint(x) if _is_floats(x) else x.nearest()


def pi(like: Any) -> Any:
    """The number, as `like` holds numbers."""
    return math.pi if _is_floats(like) else like.pi()


def power(x: Any, exponent: float) -> Any:
    """x to a constant power; of negative numbers only to integer ones."""
    if _is_floats(x):
        return np.power(x, exponent)
    size = abs(exponent)
    if size > MOST_FACTORS:
        raise ValueError(f"no powers beyond {MOST_FACTORS}")
    whole = math.floor(size)
    result = x * 0.0 + 1.0
    for bit in bin(whole)[2:]:
        result = result * result
        if bit == "1":
            result = result * x
    if size - whole == 0.5:
        result = result * x.sqrt()
    elif size != whole:
        result = result * (x.log() * (size - whole)).exp()
    return result if exponent >= 0 else 1.0 / result


MOST_FACTORS = 1024

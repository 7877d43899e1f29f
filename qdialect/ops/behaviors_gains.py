"""How far results move when an operand moves, for the declarations (`Behavior.gain`).

Contractions need none: theirs follows from the accumulator (`analysis/gain.py`).
"""

from __future__ import annotations

from math import sqrt

from xdsl.ir import Operation

from qdialect.behaviors.declaration import Gain, Sizes
from qdialect.ops.behaviors_movement import values


def at_most(slope: float) -> Gain:
    """A function no steeper than `slope` anywhere."""
    return lambda op, operand, sizes: slope


unit = at_most(1.0)


def alpha(op: Operation, operand: int, sizes: Sizes) -> float | None:
    return max(1.0, abs(values(op)["alpha"]))


def hard_sigmoid(op: Operation, operand: int, sizes: Sizes) -> float | None:
    return abs(values(op)["alpha"])


def lrn(op: Operation, operand: int, sizes: Sizes) -> float | None:
    """y_i = x_i u^-beta with u = bias + alpha / n * sum x_j^2 over n elements around i, so

        sum_j |dy_i / dx_j| <= u^-beta (1 + 2 beta alpha / n * |x_i| sum |x_j| / u)

    |x_i| sum |x_j| <= (1 + sqrt n) / 2 * sum x_j^2 (the largest eigenvalue of the form on
    the left), alpha / n * sum x_j^2 <= u, and u >= bias.
    """
    v = values(op)
    alpha, beta, bias = v["alpha"], v["beta"], v["bias"]
    if alpha < 0 or beta < 0 or bias <= 0:
        return None
    return bias**-beta * (1 + beta * (1 + sqrt(v["size"])))


def mul(op: Operation, operand: int, sizes: Sizes) -> float | None:
    """|x y - x' y| = |x - x'| |y|."""
    return sizes(1 - operand).high


def div(op: Operation, operand: int, sizes: Sizes) -> float | None:
    """|x / y - x' / y| = |x - x'| / |y|, and |x / y - x / y'| = |y - y'| |x| / |y y'|."""
    least = sizes(1).low
    if not least:
        return None
    return 1 / least if operand == 0 else sizes(0).high / least / least


def prelu(op: Operation, operand: int, sizes: Sizes) -> float | None:
    """x or a x: no steeper than 1 or |a|, and a moves it by |x|."""
    return max(1.0, sizes(1).high) if operand == 0 else sizes(0).high


def batch_norm(op: Operation, operand: int, sizes: Sizes) -> float | None:
    """(x - mean) * scale / sqrt(variance + epsilon) + bias, of which only x has a bound."""
    least = sizes(4).low + values(op)["epsilon"]
    return sizes(1).high / sqrt(least) if operand == 0 and least > 0 else None

"""How far results move when an operand moves, for the declarations (`Behavior.gain`).

Contractions need none: theirs follows from the accumulator (`analysis/gain.py`).
"""

from __future__ import annotations

from xdsl.ir import Operation

from qdialect.behaviors.declaration import Gain, Sizes
from qdialect.dialects.nn.behaviors_movement import values


def at_most(slope: float) -> Gain:
    """A function no steeper than `slope` anywhere."""
    return lambda op, operand, sizes: slope


unit = at_most(1.0)


def alpha(op: Operation, operand: int, sizes: Sizes) -> float | None:
    return max(1.0, abs(values(op)["alpha"]))


def hard_sigmoid(op: Operation, operand: int, sizes: Sizes) -> float | None:
    return abs(values(op)["alpha"])


def mul(op: Operation, operand: int, sizes: Sizes) -> float | None:
    """|x y - x' y| = |x - x'| |y|."""
    return sizes(1 - operand).high


def div(op: Operation, operand: int, sizes: Sizes) -> float | None:
    """|x / y - x' / y| = |x - x'| / |y|, and |x / y - x / y'| = |y - y'| |x| / |y y'|."""
    least = sizes(1).low
    if not least:
        return None
    return 1 / least if operand == 0 else sizes(0).high / least / least

"""In which power of a factor on each operand the result of a formula grows.

    x * y         degrees x + y
    x + y         degree x, if y has the same
    x.clip(0, i)  degree x
    x / 6 + 0.5   degree 0, if x has degree 0

A formula (`Behavior.arithmetic`) is evaluated once on `Degree`s in place of numbers: operand k
multiplied by the positive factor f_k multiplies the result by the product of f_k^d_k, provided
that what has to be of one degree is so. That is read off the formula; no declaration says it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from math import inf
from typing import Any

from xdsl.ir import Operation

from qdialect.behaviors.declaration import Behavior

Powers = Mapping[int, Fraction]
"""By operand, the power of its factor."""


@dataclass(frozen=True)
class Homogeneity:
    """The powers of the result, and sums of powers that must be 0 for that."""

    result: Powers
    conditions: tuple[Powers, ...]


@dataclass
class _Conditions:
    found: list[Powers] = field(default_factory=list[Powers])

    def equal(self, a: Powers, b: Powers) -> None:
        difference = _sum(a, b, -1)
        if difference and difference not in self.found:
            self.found.append(difference)


class Degree:
    """A number of which only the powers are known; a plain number has none."""

    __array_ufunc__ = None

    def __init__(self, powers: Powers, conditions: _Conditions) -> None:
        self.powers, self.conditions = powers, conditions

    def _of(self, powers: Powers) -> Degree:
        return Degree(powers, self.conditions)

    def _powers(self, other: Any) -> Powers:
        return other.powers if isinstance(other, Degree) else {}

    def __add__(self, other: Any) -> Degree:
        if isinstance(other, Degree) or other != 0:
            self.conditions.equal(self.powers, self._powers(other))
        return self

    __radd__ = __sub__ = __rsub__ = __add__

    def __neg__(self) -> Degree:
        return self

    def __mul__(self, other: Any) -> Degree:
        return self._of(_sum(self.powers, self._powers(other), 1))

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Degree:
        return self._of(_sum(self.powers, self._powers(other), -1))

    def __rtruediv__(self, other: Any) -> Degree:
        return self._of(_sum(self._powers(other), self.powers, -1))

    def clip(self, low: Any, high: Any) -> Degree:
        """Between bounds: those that are 0 or infinite grow with any factor."""
        if not {low, high} <= {0.0, inf, -inf}:
            self.conditions.equal(self.powers, {})
        return self

    def sqrt(self) -> Degree:
        """The root: half the powers."""
        return self._of({operand: power / 2 for operand, power in self.powers.items()})

    def reshape(self, *shape: int) -> Degree:
        """The same elements."""
        return self


def homogeneity(op: Operation, behavior: Behavior) -> Homogeneity | None:
    """What the formula of an elementwise op, or of one on vectors along a dimension, says;
    None if it has none."""
    if behavior.arithmetic is None:
        return None
    conditions = _Conditions()
    operands = [Degree({n: Fraction(1)}, conditions) for n in range(len(op.operands))]
    try:
        result = behavior.arithmetic(op, operands)
    except (ValueError, TypeError, AttributeError):
        return None
    powers: Powers = result.powers if isinstance(result, Degree) else {}
    return Homogeneity(powers, tuple(conditions.found))


def _sum(a: Powers, b: Powers, sign: int) -> Powers:
    total = {n: a.get(n, Fraction(0)) + sign * b.get(n, Fraction(0)) for n in {**a, **b}}
    return {n: power for n, power in total.items() if power}

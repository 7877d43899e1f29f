"""What a formula makes of factors on its operands, and of numbers added to them.

    x * y         degrees x + y
    x + y         degree x, if y has the same
    x.clip(0, i)  degree x
    x / 6 + 0.5   degree 0, if x has degree 0

A formula (`Behavior.arithmetic`) is evaluated once on `Degree`s in place of numbers: operand k
multiplied by the positive factor f_k multiplies the result by the product of f_k^d_k, provided
that what has to be of one degree is so. On `Offset`s it says the same of numbers that are added:
x + y moves by both, x / 2 by half, and what is multiplied by another value must not move. With
`Product`s a formula has a meaning if it is a product of powers of operands, with `Alike` if it sums
elements of one weight. That is read off the formula; no declaration says it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import inf
from typing import Any

import numpy as np
from xdsl.ir import Operation

from qdialect.ir.behaviors.declaration import Behavior

Powers = Mapping[int, Fraction]
"""By operand, the power of its factor, or the multiple of what is added to it."""


@dataclass(frozen=True)
class Homogeneity:
    """The powers of the result, and sums of powers that must be 0 for that; or multiples."""

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
        self.powers: Powers = powers
        self._conditions = conditions

    def _of(self, powers: Powers) -> Degree:
        return Degree(powers, self._conditions)

    def _powers(self, other: Any) -> Powers:
        return other.powers if isinstance(other, Degree) else {}

    def __add__(self, other: Any) -> Degree:
        if isinstance(other, Degree) or other != 0:
            self._conditions.equal(self.powers, self._powers(other))
        return self

    __radd__ = __add__

    def __sub__(self, other: Any) -> Degree:
        return self + other

    def __rsub__(self, other: Any) -> Degree:
        return self + other

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
            self._conditions.equal(self.powers, {})
        return self

    def sqrt(self) -> Degree:
        """The root: half the powers."""
        return self._of({operand: power / 2 for operand, power in self.powers.items()})

    def reshape(self, *shape: int) -> Degree:
        """The same elements."""
        return self


class Offset:
    """A number of which only is known how it moves with what is added to operands."""

    __array_ufunc__ = None

    def __init__(self, multiples: Powers, conditions: _Conditions) -> None:
        self.powers: Powers = multiples
        self._conditions = conditions

    def _times(self, factor: Fraction) -> Offset:
        return Offset({n: m * factor for n, m in self.powers.items() if factor}, self._conditions)

    def _fixed(self, *others: Any) -> Offset:
        """A number that moves in no known way: nothing may be added to it or to others."""
        for each in (self, *others):
            if isinstance(each, Offset):
                self._conditions.equal(each.powers, {})
        return Offset({}, self._conditions)

    def __add__(self, other: Any) -> Offset:
        if not isinstance(other, Offset):
            return self
        return Offset(_sum(self.powers, other.powers, 1), self._conditions)

    __radd__ = __add__

    def __neg__(self) -> Offset:
        return self._times(Fraction(-1))

    def __sub__(self, other: Any) -> Offset:
        return self + -other

    def __rsub__(self, other: Any) -> Offset:
        return -self + other

    def __mul__(self, other: Any) -> Offset:
        return self._fixed(other) if isinstance(other, Offset) else self._times(Fraction(other))

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Offset:
        return self._fixed(other) if isinstance(other, Offset) else self._times(1 / Fraction(other))

    def __rtruediv__(self, other: Any) -> Offset:
        return self._fixed(other)

    def clip(self, low: Any, high: Any) -> Offset:
        """Between bounds, which do not move."""
        return self if low == -inf and high == inf else self._fixed()

    def sqrt(self) -> Offset:
        """The root."""
        return self._fixed()

    def reshape(self, *shape: int) -> Offset:
        """The same elements."""
        return self


class Product:
    """A number times powers of operands; sums, clamps and roots are none."""

    __array_ufunc__ = None

    def __init__(self, powers: Powers) -> None:
        self.powers: Powers = powers

    def __mul__(self, other: Any) -> Any:
        if isinstance(other, Product):
            return Product(_sum(self.powers, other.powers, 1))
        return self if other else 0.0

    __rmul__ = __mul__

    def __neg__(self) -> Product:
        return self

    def __truediv__(self, other: Any) -> Product:
        return Product(_sum(self.powers, other.powers, -1)) if isinstance(other, Product) else self

    def __rtruediv__(self, other: Any) -> Any:
        return Product(_sum({}, self.powers, -1)) if other else 0.0

    def reshape(self, *shape: int) -> Product:
        """The same elements."""
        return self


class Alike:
    """The elements of an array of which only their order may change; or sums of them, all with one
    weight."""

    __array_ufunc__ = None

    def __init__(self, *, summed: bool = False) -> None:
        self.summed = summed

    def reshape(self, *shape: int) -> Alike:
        """The same elements."""
        return self

    def swapaxes(self, a: int, b: int) -> Alike:
        """The same elements."""
        return self

    def __matmul__(self, other: Any) -> Alike:
        weights = np.asarray(other)
        if self.summed or not weights.size or (weights != weights.flat[0]).any():
            raise ValueError("elements get different weights")
        return Alike(summed=True)

    def __mul__(self, other: Any) -> Alike:
        if np.size(other) != 1:
            raise ValueError("elements get different weights")
        return self

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Alike:
        return self * other


def homogeneity(op: Operation, behavior: Behavior) -> Homogeneity | None:
    """What the formula of an elementwise op, or of one on vectors along a dimension, says of
    factors; None if it has none."""
    return _evaluated(op, behavior, Degree, {})


def translation(
    op: Operation, behavior: Behavior, known: Mapping[int, float] | None = None
) -> Homogeneity | None:
    """The same of numbers that are added to the operands, of which some are `known` numbers.
    Without conditions, the formula is linear in the others, but for what is added to them."""
    return _evaluated(op, behavior, Offset, known or {})


def product_powers(op: Operation, behavior: Behavior) -> Powers | None:
    """The powers of operands of which the formula of an elementwise op is the product, but for a
    number; None if it is none."""
    formula = behavior.arithmetic or behavior.analytic
    if formula is None:
        return None
    operands = [Product({n: Fraction(1)}) for n in range(len(op.operands))]
    try:
        result = formula(op, operands)
    except _NO_MEANING:
        return None
    return result.powers if isinstance(result, Product) else None


def sums_alike(op: Operation, behavior: Behavior) -> bool:
    """Whether a linear op sums all elements along the dimensions that it does not keep, each with
    the same weight."""
    if behavior.arithmetic is None or not behavior.linear or len(op.operands) != 1:
        return False
    try:
        result = behavior.arithmetic(op, [Alike()])
    except _NO_MEANING:
        return False
    return isinstance(result, Alike) and result.summed


_NO_MEANING = (ValueError, TypeError, AttributeError, ZeroDivisionError, OverflowError)
"""What formulas raise in a number system that they say nothing in."""


def _evaluated(
    op: Operation,
    behavior: Behavior,
    kind: type[Degree | Offset],
    known: Mapping[int, float],
) -> Homogeneity | None:
    if behavior.arithmetic is None:
        return None
    conditions = _Conditions()
    operands = [
        known[n] if n in known else kind({n: Fraction(1)}, conditions)
        for n in range(len(op.operands))
    ]
    try:
        result = behavior.arithmetic(op, operands)
    except _NO_MEANING:
        return None
    powers: Powers = result.powers if isinstance(result, kind) else {}
    return Homogeneity(powers, tuple(conditions.found))


def _sum(a: Powers, b: Powers, sign: int) -> Powers:
    total = {n: a.get(n, Fraction(0)) + sign * b.get(n, Fraction(0)) for n in {**a, **b}}
    return {n: power for n, power in total.items() if power}


def solved_for(
    conditions: Sequence[Powers], constants: Sequence[int]
) -> tuple[dict[int, Powers], list[Powers]]:
    """The powers of constants by those of other operands, and conditions without constants."""
    solved: dict[int, Powers] = {}
    rest: list[Powers] = []
    for condition in conditions:
        condition = substituted(condition, solved)
        pivot = next((n for n in constants if condition.get(n)), None)
        if pivot is None:
            if condition:
                rest.append(condition)
            continue
        scale = condition[pivot]
        found = {n: -power / scale for n, power in condition.items() if n != pivot}
        solved = {n: substituted(powers, {pivot: found}) for n, powers in solved.items()}
        solved[pivot] = found
    return solved, rest


def substituted(powers: Powers, solved: Mapping[int, Powers]) -> dict[int, Fraction]:
    """Powers with those of operands that were solved for put in."""
    total: dict[int, Fraction] = {}
    for n, power in powers.items():
        for m, part in solved.get(n, {n: Fraction(1)}).items():
            total[m] = total.get(m, Fraction(0)) + power * part
    return {n: power for n, power in total.items() if power}

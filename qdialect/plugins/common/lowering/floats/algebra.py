"""What float forms are written with: the arithmetic of a dialect on elements of tensors.

A form such as that of `nn.swish` is a Python function of an `Algebra` and of values. In linalg
the values are scalars in the body of one loop; in TOSA and StableHLO they are tensors, which
broadcast, and every step is an operation.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Literal

from xdsl.ir import Attribute, SSAValue

Function = Literal["abs", "ceil", "erf", "exp", "floor", "log", "nearest", "sqrt", "tanh"]
Pair = Literal["add", "div", "maximum", "minimum", "mul", "power", "sub"]
Logic = Literal["and", "not", "or", "xor"]
Order = Literal["eq", "ne", "lt", "le", "gt", "ge"]


class Algebra(ABC):
    """Arithmetic on values of one element type: floats of 16 to 64 bits, or plain integers."""

    def __init__(self, element: Attribute) -> None:
        self.element = element

    @abstractmethod
    def number(self, value: float) -> SSAValue:
        """A constant, rounded to the element type."""

    @abstractmethod
    def pair(self, name: Pair, lhs: SSAValue, rhs: SSAValue) -> SSAValue:
        """lhs and rhs combined; quotients of integers truncate."""

    @abstractmethod
    def function(self, name: Function, x: SSAValue) -> SSAValue:
        """A function of floats, or the absolute value of integers."""

    @abstractmethod
    def compare(self, order: Order, lhs: SSAValue, rhs: SSAValue) -> SSAValue:
        """Truth values of i1; a NaN is less, equal or greater than nothing."""

    @abstractmethod
    def choose(self, condition: SSAValue, lhs: SSAValue, rhs: SSAValue) -> SSAValue:
        """`lhs` where `condition` is true, else `rhs`."""

    @abstractmethod
    def cast(
        self, x: SSAValue, element: Attribute, *, of_truth: bool = False, to_truth: bool = False
    ) -> SSAValue:
        """A number as another type: floats are cut towards 0, integers to the bits there are;
        truth values are 0 and 1, and everything but 0 is true."""

    @abstractmethod
    def logical(self, name: Logic, x: Sequence[SSAValue]) -> SSAValue:
        """Truth values of i1 combined."""

    def truth_of(self, x: SSAValue) -> SSAValue:
        """A truth value as tensors store it, as i1."""
        return x

    def stored_truth(self, x: SSAValue, element: Attribute) -> SSAValue:
        """An i1 as tensors store truth values."""
        return x

    # -- what a dialect may have an operation for ------------------------------------

    def sigmoid(self, x: SSAValue) -> SSAValue:
        """1 / (1 + exp(-x)), without an overflow: with e = exp(-|x|), 1 or e over 1 + e."""
        size = self.function("exp", self.negated(self.function("abs", x)))
        one = self.number(1.0)
        above = self.compare("ge", x, self.number(0.0))
        return self.pair("div", self.choose(above, one, size), self.pair("add", one, size))

    def expm1(self, x: SSAValue) -> SSAValue:
        """exp(x) - 1; the absolute error is that of exp."""
        return self.pair("sub", self.function("exp", x), self.number(1.0))

    def log1p(self, x: SSAValue) -> SSAValue:
        """log(1 + x); the absolute error is that of the sum."""
        return self.function("log", self.pair("add", x, self.number(1.0)))

    def reciprocal(self, x: SSAValue) -> SSAValue:
        """1 / x"""
        return self.pair("div", self.number(1.0), x)

    def negated(self, x: SSAValue) -> SSAValue:
        """-x"""
        return self.pair("mul", x, self.number(-1.0))

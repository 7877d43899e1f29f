"""Which integer a function of rationals rounds to, with certainty.

A function written with + - * /, clip and `elementary_functions` runs on one `RealNumber`
per element.  `decide` rounds each result, with more and more bits until all numbers that it
may be round alike.  What stays open is refused, never guessed.  Example: a table of `nn.gelu`
on 256 codes, one of whose results lies 2**-70 steps beside a tie.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from qdialect.algebra.rounding import Rounding

if TYPE_CHECKING:
    from qdialect.algebra.real_number import RealNumber

    Integers = NDArray[np.int64]

BITS = (128, 512, 2048, 8192, 32768)
"""Precisions that are tried in turn."""


class UndecidedError(Exception):
    """A result is too close to a rounding boundary, or does not exist."""


class Reals:
    """Real numbers, one per element, each computed to as many bits as somebody asks for."""

    def __init__(self, count: int, compute: Callable[[int, int], RealNumber]) -> None:
        self._count = count
        self._compute = compute
        self._known: dict[tuple[int, int], RealNumber] = {}

    def at(self, element: int, bits: int) -> RealNumber:
        """One element to so many bits."""
        key = element, bits
        if key not in self._known:
            self._known[key] = self._compute(element, bits)
        return self._known[key]

    @staticmethod
    def exact(values: list[Fraction]) -> Reals:
        """Rational numbers."""
        from qdialect.algebra.real_number import RealNumber

        numbers = [RealNumber.exactly(value) for value in values]
        return Reals(len(values), lambda element, bits: numbers[element])

    @staticmethod
    def of_codes(codes: NDArray[Any], scale: float, zero: int) -> Reals:
        """(code - zero) * scale"""
        return Reals.exact([(code - zero) * Fraction(scale) for code in codes.tolist()])

    @staticmethod
    def apply(
        function: Callable[[list[Any]], Any], *operands: Reals, defined: bool = False
    ) -> Reals:
        """A function of operands of one length; if `defined`, elements that are no finite
        numbers raise UndecidedError."""

        def compute(element: int, bits: int) -> RealNumber:
            value: RealNumber = function([x.at(element, bits) for x in operands])
            if defined and not value.is_finite:
                raise UndecidedError("a result is not a number")
            return value

        return Reals(len(operands[0]), compute)

    def __len__(self) -> int:
        return self._count


def decide(
    x: Reals,
    scale: float,
    zero: int,
    bounds: tuple[int, int],
    rounding: Rounding,
    *,
    defined: bool = False,
) -> Integers:
    """clamp(R(x / scale) + zero) for every element; UndecidedError where that stays open.

    What is no number is stored as the lowest code, infinities saturate; `defined` asks
    for numbers everywhere instead.
    """
    from flint import ctx, fmpq

    step = fmpq(*scale.as_integer_ratio())
    low, high = bounds[0] - zero, bounds[1] - zero
    open_ = list(range(len(x)))
    codes = np.empty(len(x), np.int64)
    for bits in BITS:
        with ctx.workprec(bits):
            pending, open_ = open_, list[int]()
            for element in pending:
                value = x.at(element, bits)
                if defined and not value.is_finite:
                    raise UndecidedError("a result is not a number")
                code = value.nearest_code(step, low, high, rounding)
                if code is None:
                    open_.append(element)
                else:
                    codes[element] = code
        if not open_:
            return codes + zero
    raise UndecidedError("a result is too close to a rounding boundary to be decided")

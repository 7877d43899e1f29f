"""What float32 arithmetic gives, element by element: a number, or a span of them.

Sums, differences, products, quotients, square roots, clamps and roundings to whole numbers are
each rounded to nearest, so that one result is what every runtime computes; a span of operands
gives the span between the results at its ends, as rounding is monotone.  Of another function f a
runtime has an approximation of its own: it is taken to be off by at most

    2**-19 max(|f|, 1) + 2**-22 |x|

(ONNX Runtime's are off by at most a fourth of that).  Quantized, a span is one code unless it
meets a tie.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from qdialect.algebra.float_path import codes_of_floats, dequantize_codes
from qdialect.algebra.requantize import QuantGrid
from qdialect.algebra.rounding import Rounding

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qdialect.algebra.requantize import Codes

    Doubles = NDArray[np.float64]
    Floats = NDArray[np.float32]

FLOATS = "f32"
"""The type that is computed in."""
_LIBRARY = 2.0**-48
"""Relative error granted to float64 library functions."""
_RELATIVE, _OF_ARGUMENT = 2.0**-19, 2.0**-22


class InexactError(Exception):
    """A function that floats do not compute by one rounding each step."""


class CodeSpan(NamedTuple):
    """Codes: the lowest and the highest that each may be, and the most likely."""

    low: Codes
    likely: Codes
    high: Codes

    @staticmethod
    def exactly(codes: Codes) -> CodeSpan:
        """Codes that are known."""
        return CodeSpan(codes, codes, codes)

    @property
    def doubt(self) -> int:
        """How many steps a code may be from the most likely one."""
        away = np.maximum(self.high - self.likely, self.likely - self.low)
        return int(away.max(initial=0))

    @property
    def undecided(self) -> int:
        """How many codes are not known."""
        return int(np.count_nonzero(self.low != self.high))

    def map(self, function: Callable[[Codes], Codes]) -> CodeSpan:
        """A monotone function of them."""
        if not self.undecided:
            return CodeSpan.exactly(function(self.likely))
        return CodeSpan(*map(function, self))


class FloatSpan:
    """Floats of 32 bits: `low` to `high`, and the most likely."""

    #: arrays leave arithmetic with spans to these
    __array_ufunc__ = None

    def __init__(self, low: Floats, likely: Floats, high: Floats) -> None:
        self.low = low
        self.likely = likely
        self.high = high

    @staticmethod
    def exactly(values: Any) -> FloatSpan:
        """Floats that are known."""
        floats = np.asarray(values, np.float32)
        return FloatSpan(floats, floats, floats)

    @staticmethod
    def of_codes(codes: CodeSpan, a: QuantGrid) -> FloatSpan:
        """Dequantized codes."""
        if not codes.undecided:
            return FloatSpan.exactly(dequantize_codes(codes.likely, a, FLOATS))
        return FloatSpan(*(dequantize_codes(each, a, FLOATS) for each in codes))

    def quantized(self, b: QuantGrid, rounding: Rounding) -> CodeSpan:
        """Codes of b."""
        if self.is_exact:
            return CodeSpan.exactly(codes_of_floats(self.likely, b, FLOATS, rounding))
        ends = (self.low, self.likely, self.high)
        return CodeSpan(*(codes_of_floats(each, b, FLOATS, rounding) for each in ends))

    @property
    def is_exact(self) -> bool:
        """Whether all are known."""
        return self.low is self.high

    @property
    def has_nan(self) -> bool:
        """Whether some are no numbers."""
        return bool((np.isnan(self.low) | np.isnan(self.likely) | np.isnan(self.high)).any())

    def __len__(self) -> int:
        return len(self.likely)

    def _both(self, other: Any, function: Callable[[Any, Any], Any], *, swapped: bool) -> FloatSpan:
        o = other if isinstance(other, FloatSpan) else FloatSpan.exactly(other)
        a, b = (o, self) if swapped else (self, o)
        likely = function(a.likely, b.likely)
        if a.is_exact and b.is_exact:
            return FloatSpan(likely, likely, likely)
        ends = [function(x, y) for x in (a.low, a.high) for y in (b.low, b.high)]
        return FloatSpan(np.minimum.reduce(ends), likely, np.maximum.reduce(ends))

    def __add__(self, other: Any) -> FloatSpan:
        return self._both(other, np.add, swapped=False)

    def __radd__(self, other: Any) -> FloatSpan:
        return self._both(other, np.add, swapped=True)

    def __sub__(self, other: Any) -> FloatSpan:
        return self._both(other, np.subtract, swapped=False)

    def __rsub__(self, other: Any) -> FloatSpan:
        return self._both(other, np.subtract, swapped=True)

    def __mul__(self, other: Any) -> FloatSpan:
        return self._both(other, np.multiply, swapped=False)

    def __rmul__(self, other: Any) -> FloatSpan:
        return self._both(other, np.multiply, swapped=True)

    def __truediv__(self, other: Any) -> FloatSpan:
        return _nowhere_zero(other)._both(self, np.divide, swapped=True)

    def __rtruediv__(self, other: Any) -> FloatSpan:
        return _nowhere_zero(self)._both(other, np.divide, swapped=True)

    def _each(self, function: Callable[[Floats], Floats]) -> FloatSpan:
        """A monotone function."""
        likely = function(self.likely)
        if self.is_exact:
            return FloatSpan(likely, likely, likely)
        return FloatSpan(function(self.low), likely, function(self.high))

    def clip(self, low: float, high: float) -> FloatSpan:
        """min(max(x, low), high), the bounds as floats of 32 bits."""
        ends = np.float32(low), np.float32(high)
        return self._each(lambda x: np.minimum(np.maximum(x, ends[0]), ends[1]))

    def sqrt(self) -> FloatSpan:
        """Square roots, each rounded once."""
        return self._each(np.sqrt)

    def floor(self) -> FloatSpan:
        """The largest integers that are not greater."""
        return self._each(np.floor)

    def nearest(self) -> FloatSpan:
        """The nearest integers, halves to even."""
        return self._each(np.rint)

    def exp(self) -> FloatSpan:
        """InexactError: no runtime rounds it once."""
        raise InexactError

    def log(self) -> FloatSpan:
        """InexactError: no runtime rounds it once."""
        raise InexactError

    def erf(self) -> FloatSpan:
        """InexactError: no runtime rounds it once."""
        raise InexactError

    def pi(self) -> FloatSpan:
        """InexactError: no float is the number."""
        raise InexactError


def _nowhere_zero(value: Any) -> FloatSpan:
    """A divisor; a span of those may not have zero inside."""
    divisor = value if isinstance(value, FloatSpan) else FloatSpan.exactly(value)
    if not divisor.is_exact and ((divisor.low <= 0) & (divisor.high >= 0)).any():
        raise InexactError
    return divisor


def approximated(
    function: Callable[[list[Any]], Any],
    in_doubles: Callable[[NDArray[np.float64]], NDArray[np.float64]],
    x: FloatSpan,
) -> FloatSpan:
    """A function of one operand that is not computed by one rounding each step: what a runtime's
    approximation of it may be (see the module); NaN where nothing is known."""
    operand = DoubleSpans(x.low.astype(np.float64), x.high.astype(np.float64))
    found: DoubleSpans = function([operand])
    reach = np.maximum(np.abs(operand.low), np.abs(operand.high))
    low, high = (
        end + sign * granted(end, reach) for end, sign in ((found.low, -1.0), (found.high, 1.0))
    )
    likely = in_doubles(x.likely.astype(np.float64))
    return FloatSpan(*(end.astype(np.float32) for end in (low, likely, high)))


def granted(values: Doubles, operand: Doubles) -> Doubles:
    """How far a runtime's approximation of a function may be from its values (see the module)."""
    return np.maximum(np.abs(values), 1.0) * _RELATIVE + np.abs(operand) * _OF_ARGUMENT


class DoubleSpans:
    """Intervals of float64 from `low` to `high`, elementwise, every step rounded outwards: what
    a function is in the reals; NaN where nothing is known."""

    def __init__(self, low: Doubles, high: Doubles) -> None:
        self.low = low
        self.high = high

    @staticmethod
    def of(values: Doubles) -> DoubleSpans:
        """Numbers that doubles are within a rounding of."""
        return _outward(values, values)

    def __add__(self, other: DoubleSpans | float) -> DoubleSpans:
        o = _double_spans(other)
        return _outward(self.low + o.low, self.high + o.high)

    def __sub__(self, other: DoubleSpans | float) -> DoubleSpans:
        o = _double_spans(other)
        return _outward(self.low - o.high, self.high - o.low)

    def __mul__(self, other: DoubleSpans | float) -> DoubleSpans:
        o = _double_spans(other)
        return _hull(self.low * o.low, self.low * o.high, self.high * o.low, self.high * o.high)

    def __truediv__(self, other: DoubleSpans | float) -> DoubleSpans:
        o = _double_spans(other)
        ends = _hull(self.low / o.low, self.low / o.high, self.high / o.low, self.high / o.high)
        open_ = (o.low <= 0) & (o.high >= 0)
        return DoubleSpans(np.where(open_, np.nan, ends.low), np.where(open_, np.nan, ends.high))

    def __rtruediv__(self, other: float) -> DoubleSpans:
        return _double_spans(other) / self

    def clip(self, low: float, high: float) -> DoubleSpans:
        """min(max(x, low), high); bounds may be infinite."""
        return DoubleSpans(np.clip(self.low, low, high), np.clip(self.high, low, high))

    def exp(self) -> DoubleSpans:
        """e to the x, `_LIBRARY` outwards."""
        return _library(np.exp(self.low), np.exp(self.high))

    def log(self) -> DoubleSpans:
        """Natural logarithms, `_LIBRARY` outwards."""
        return _library(np.log(self.low), np.log(self.high))

    def sqrt(self) -> DoubleSpans:
        """Square roots; NaN of negative numbers."""
        return _outward(np.sqrt(self.low), np.sqrt(self.high))

    def erf(self) -> DoubleSpans:
        """Error function, `_LIBRARY` outwards."""
        return _library(_erf(self.low), _erf(self.high))

    def floor(self) -> DoubleSpans:
        """The largest integers that are not greater."""
        return DoubleSpans(np.floor(self.low), np.floor(self.high))

    def nearest(self) -> DoubleSpans:
        """The nearest integers, halves to even."""
        return DoubleSpans(np.rint(self.low), np.rint(self.high))

    def pi(self) -> DoubleSpans:
        """The number, within one rounding."""
        return DoubleSpans.of(np.array([math.pi]))


def _double_spans(value: DoubleSpans | float) -> DoubleSpans:
    if isinstance(value, DoubleSpans):
        return value
    end = np.array([value], np.float64)
    return DoubleSpans(end, end)


def _outward(low: Doubles, high: Doubles) -> DoubleSpans:
    return DoubleSpans(np.nextafter(low, -np.inf), np.nextafter(high, np.inf))


def _hull(*ends: Doubles) -> DoubleSpans:
    return _outward(np.minimum.reduce(ends), np.maximum.reduce(ends))


def _library(low: Doubles, high: Doubles) -> DoubleSpans:
    tiny = np.finfo(np.float64).tiny
    return DoubleSpans(low - np.abs(low) * _LIBRARY - tiny, high + np.abs(high) * _LIBRARY + tiny)


def _erf(x: Doubles) -> Doubles:
    return np.vectorize(math.erf, otypes=[np.float64])(x)

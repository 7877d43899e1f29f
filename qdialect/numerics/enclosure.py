"""One real number between two rationals: exact where a function is rational, elsewhere
correctly rounded outwards, in as many decimal digits as asked for."""

from __future__ import annotations

import math
from decimal import MAX_EMAX, MIN_EMIN, ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from functools import lru_cache

from qdialect.numerics.requantize import round_fraction
from qdialect.numerics.rounding import Rounding

End = Fraction | float
"""An end of an interval: a rational, or an infinity."""

_LARGEST_EXPONENT = 5_000
"""Exponentials of larger numbers are known to be large."""


class Enclosure:
    """One real number between `low` and `high`, which are equal where it is known exactly.

    Equal infinities are that infinity (1/0); `low` is NaN if there is no such number.
    """

    def __init__(self, low: End, high: End, digits: int) -> None:
        self.digits = digits
        self.low = low if low == high else _coarse(low, digits, up=False)
        self.high = high if low == high else _coarse(high, digits, up=True)

    @staticmethod
    def of(value: Fraction, digits: int) -> Enclosure:
        return Enclosure(value, value, digits)

    @property
    def is_nothing(self) -> bool:
        """Whether no number is meant, not even an infinite one."""
        return self.low != self.low

    @property
    def is_number(self) -> bool:
        """Whether this is a real number: neither infinite nor undefined."""
        return not self.is_nothing and not (self.low == self.high and _is_infinite(self.low))

    def __add__(self, other: Enclosure | float) -> Enclosure:
        o = self._other(other)
        if self.is_nothing or o.is_nothing:
            return self._nothing()
        return self._new([_sum(self.low, o.low)], [_sum(self.high, o.high)])

    def __sub__(self, other: Enclosure | float) -> Enclosure:
        o = self._other(other)
        if self.is_nothing or o.is_nothing:
            return self._nothing()
        return self._new([_sum(self.low, -o.high)], [_sum(self.high, -o.low)])

    def __mul__(self, other: Enclosure | float) -> Enclosure:
        o = self._other(other)
        if self.is_nothing or o.is_nothing:
            return self._nothing()
        ends = [_product(a, b) for a in (self.low, self.high) for b in (o.low, o.high)]
        return self._new(ends, ends)

    def __truediv__(self, other: Enclosure | float) -> Enclosure:
        """x / 0 is an infinity of the sign of x, and 0 / 0 is 0."""
        o = self._other(other)
        if self.is_nothing or o.is_nothing:
            return self._nothing()
        if o.low == o.high == 0:
            if self.low == self.high == 0:
                return self
            known = self.low > 0 or self.high < 0
            end = math.inf if self.low > 0 else -math.inf
            return self._new([end if known else -math.inf], [end if known else math.inf])
        if o.low <= 0 <= o.high:
            return self._new([-math.inf], [math.inf])
        ends = [_product(a, _inverse(b)) for a in (self.low, self.high) for b in (o.low, o.high)]
        return self._new(ends, ends)

    def __rtruediv__(self, other: float) -> Enclosure:
        return self._other(other) / self

    def clip(self, low: float, high: float) -> Enclosure:
        """min(max(x, low), high); bounds may be infinite."""
        ends = [min(max(end, _end(low)), _end(high)) for end in (self.low, self.high)]
        return self._new(ends[:1], ends[1:])

    def exp(self) -> Enclosure:
        if self.is_nothing:
            return self
        if self.low == self.high == 0:
            return self._other(1.0)
        return self._new([_exp(self.low, self.digits)[0]], [_exp(self.high, self.digits)[1]])

    def log(self) -> Enclosure:
        if self.is_nothing or self.high < 0:
            return self._nothing()
        if self.low == self.high == 1:
            return self._other(0.0)
        if self.low <= 0 and self.high > 0:
            return self._new([-math.inf], [math.inf])
        return self._new([_log(self.low, self.digits)[0]], [_log(self.high, self.digits)[1]])

    def sqrt(self) -> Enclosure:
        if self.is_nothing or self.high < 0:
            return self._nothing()
        if self.low < 0:
            return self._new([-math.inf], [math.inf])
        return self._new([_root(self.low, self.digits)[0]], [_root(self.high, self.digits)[1]])

    def erf(self) -> Enclosure:
        if self.is_nothing:
            return self
        if self.low == self.high == 0:
            return self
        return self._new([_gauss(self.low, self.digits)[0]], [_gauss(self.high, self.digits)[1]])

    def floor(self) -> Enclosure:
        return self._new([_floor(self.low)], [_floor(self.high)])

    def nearest(self) -> Enclosure:
        return self._new([_nearest(self.low)], [_nearest(self.high)])

    def pi(self) -> Enclosure:
        return Enclosure(*_pi(self.digits), self.digits)

    def _other(self, value: Enclosure | float) -> Enclosure:
        return value if isinstance(value, Enclosure) else Enclosure.of(Fraction(value), self.digits)

    def _new(self, low: list[End], high: list[End]) -> Enclosure:
        if self.is_nothing or any(end != end for end in (*low, *high)):
            return self._nothing()
        return Enclosure(min(low), max(high), self.digits)

    def _nothing(self) -> Enclosure:
        return Enclosure(math.nan, math.nan, self.digits)


def _is_infinite(end: End) -> bool:
    return isinstance(end, float) and math.isinf(end)


def _end(value: float) -> End:
    return value if math.isinf(value) else Fraction(value)


def _sum(a: End, b: End) -> End:
    if isinstance(a, Fraction) and isinstance(b, Fraction):
        return a + b
    return (a if isinstance(a, float) else 0.0) + (b if isinstance(b, float) else 0.0)


def _product(a: End, b: End) -> End:
    if isinstance(a, Fraction) and isinstance(b, Fraction):
        return a * b
    if a == 0 or b == 0:
        return Fraction(0)
    if a != a or b != b:
        return math.nan
    return math.inf if (a > 0) == (b > 0) else -math.inf


def _inverse(end: End) -> End:
    return 1 / end if isinstance(end, Fraction) else Fraction(0)


def _coarse(end: End, digits: int, *, up: bool) -> End:
    """An end with not much more than `digits` digits, moved outwards."""
    if isinstance(end, float):
        return end
    top, bottom = end.as_integer_ratio()
    bits = 4 * digits
    shift = bits - (top.bit_length() - bottom.bit_length())
    if max(top.bit_length(), bottom.bit_length()) <= 4 * bits:
        return end
    scaled = (top << max(shift, 0)) // (bottom << max(-shift, 0)) + up
    return Fraction(scaled << max(-shift, 0), 1 << max(shift, 0))


def _context(digits: int, rounding: str) -> Context:
    return Context(prec=digits, rounding=rounding, Emax=MAX_EMAX, Emin=MIN_EMIN)


def _decimals(end: Fraction, digits: int) -> tuple[Decimal, Decimal]:
    """Decimals below and above."""
    top, bottom = Decimal(end.numerator), Decimal(end.denominator)
    low = _context(digits, ROUND_FLOOR).divide(top, bottom)
    return low, _context(digits, ROUND_CEILING).divide(top, bottom)


def _around(low: Decimal, high: Decimal, context: Context) -> tuple[Fraction, Fraction]:
    """Fractions beyond two decimals that were rounded to nearest."""
    return Fraction(low.next_minus(context)), Fraction(high.next_plus(context))


def _exp(end: End, digits: int) -> tuple[End, End]:
    """Bounds of the exponential of an end; `decimal` rounds it correctly."""
    if end > _LARGEST_EXPONENT:
        return _exp(Fraction(_LARGEST_EXPONENT), digits)[0], math.inf
    if end < -_LARGEST_EXPONENT:
        return Fraction(0), _exp(Fraction(-_LARGEST_EXPONENT), digits)[1]
    assert isinstance(end, Fraction)
    low, high = _decimals(end, digits)
    context = _context(digits, ROUND_FLOOR)
    return _around(low.exp(context), high.exp(context), context)


def _log(end: End, digits: int) -> tuple[End, End]:
    if end == 0:
        return -math.inf, -math.inf
    if not isinstance(end, Fraction):
        return math.inf, math.inf
    low, high = _decimals(end, digits)
    context = _context(digits, ROUND_FLOOR)
    return _around(low.ln(context), high.ln(context), context)


def _root(end: End, digits: int) -> tuple[End, End]:
    if isinstance(end, float):
        return end, end
    top, bottom = end.as_integer_ratio()
    root = math.isqrt(top * bottom)
    if root * root == top * bottom:
        return Fraction(root, bottom), Fraction(root, bottom)
    bits = 4 * digits
    root = math.isqrt((top * bottom) << 2 * bits)
    return Fraction(root, bottom << bits), Fraction(root + 1, bottom << bits)


def _gauss(end: End, digits: int) -> tuple[End, End]:
    """Bounds of the error function of an end: 2/sqrt(pi) exp(-x^2) times the sum of
    2^n x^(2n+1) / (1 3 5 ... (2n+1)), all of one sign; 1 - erf(x) < exp(-x^2) far out."""
    if end < 0:
        low, high = _gauss(-end, digits)
        return -high, -low
    if end == 0:
        return Fraction(0), Fraction(0)
    if not isinstance(end, Fraction) or end * end > 3 * digits:
        square = end * end if isinstance(end, Fraction) else math.inf
        rest = _exp(-square, digits)[1]
        return Fraction(1) - rest, Fraction(1)
    x = Enclosure.of(end, digits + 10)
    square = end * end
    grid = 1 << 4 * (digits + 10)
    # Fixed point: each term rounded down loses less than 2 steps, the tail is a last term.
    term = grid * end.numerator // end.denominator
    total, n = term, 0
    while term > 1 or (2 * n + 3) < 4 * square:
        n += 1
        term = 2 * term * square.numerator // (square.denominator * (2 * n + 1))
        total += term
    factor = x.pi().sqrt()
    gauss = Enclosure(-square, -square, digits + 10).exp() / factor * 2.0
    # Errors of a term grow by the ratios that follow, whose products the sum bounds.
    spread = 2 * (n + 2) * (1 + total * end.denominator // (grid * max(end.numerator, 1)) + 1)
    result = gauss * Enclosure(Fraction(total, grid), Fraction(total + spread, grid), digits + 10)
    assert result.low >= 0
    return result.low, min(result.high, Fraction(1))


@lru_cache(maxsize=8)
def _pi(digits: int) -> tuple[Fraction, Fraction]:
    """Machin: pi = 16 atan(1/5) - 4 atan(1/239), by alternating series."""
    grid = 10 ** (digits + 10)
    value = 16 * _arctangent(5, grid) - 4 * _arctangent(239, grid)
    margin = 200 * digits
    return Fraction(value - margin, grid), Fraction(value + margin, grid)


def _arctangent(inverse: int, grid: int) -> int:
    term = grid // inverse
    total, n = term, 1
    while term:
        term //= -inverse * inverse
        n += 2
        total += term // n
    return total


def _floor(end: End) -> End:
    return Fraction(math.floor(end)) if isinstance(end, Fraction) else end


def _nearest(end: End) -> End:
    if isinstance(end, Fraction):
        return Fraction(round_fraction(end, Rounding.HALF_EVEN))
    return end

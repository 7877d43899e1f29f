"""One real number as far as it is known: exactly where it is rational, else in a ball of arb.

A number is never outside its ball, whatever the precision (`flint.ctx`), so a decision that
holds for the whole ball holds for the number.  Rational arithmetic stays exact: the tie that
`leaky_relu` makes of a code is found as a tie.  arb (https://arblib.org, by `python-flint`)
bounds the elementary functions; its error bounds are proved.
"""

from __future__ import annotations

from fractions import Fraction
from math import inf, isinf, isnan, nan

from flint import arb, fmpq

from qdialect.algebra.requantize import round_quotient
from qdialect.algebra.rounding import Rounding

Value = fmpq | arb | float
"""A rational, a ball (arb's NaN: nothing is known yet), or an infinity or NaN (no number)."""

_UNKNOWN = arb(nan)
_HALF = fmpq(1, 2)


class RealNumber:
    """A real number, an infinity (1 / 0), or no number at all (the logarithm of -1)."""

    __slots__ = ("value",)

    def __init__(self, value: Value) -> None:
        self.value = value

    @staticmethod
    def exactly(value: Fraction | float) -> RealNumber:
        """A rational number or a double."""
        if isinstance(value, float) and (isinf(value) or isnan(value)):
            return RealNumber(value)
        return RealNumber(fmpq(*value.as_integer_ratio()))

    @property
    def is_finite(self) -> bool:
        """Whether this is a real number: neither infinite nor undefined."""
        return not isinstance(self.value, float)

    def nearest_code(self, scale: fmpq, low: int, high: int, rounding: Rounding) -> int | None:
        """clamp(R(x / scale)): NaN gives `low`, infinities saturate; None if the ball holds
        numbers of different codes."""
        x = self.value
        if isinstance(x, float):
            return high if x > 0 else low
        steps = x / scale
        if isinstance(steps, fmpq):
            code = round_quotient(int(steps.p), int(steps.q), rounding)
            return min(max(code, low), high)
        if steps >= high:
            return high
        if steps <= low:
            return low
        # Both agree unless the ball touches a tie.
        up, down = (steps + _HALF).floor().unique_fmpz(), (steps - _HALF).ceil().unique_fmpz()
        return None if up is None or up != down else int(up)

    # -- arithmetic ---------------------------------------------------------

    def __add__(self, other: RealNumber | float) -> RealNumber:
        return RealNumber(_sum(self.value, _value(other)))

    def __sub__(self, other: RealNumber | float) -> RealNumber:
        return RealNumber(_sum(self.value, -_value(other)))

    def __mul__(self, other: RealNumber | float) -> RealNumber:
        """0 times an infinity is 0."""
        return RealNumber(_product(self.value, _value(other)))

    def __truediv__(self, other: RealNumber | float) -> RealNumber:
        """x / 0 is an infinity of the sign of x, and 0 / 0 is 0."""
        return RealNumber(_quotient(self.value, _value(other)))

    def __rtruediv__(self, other: float) -> RealNumber:
        return RealNumber(_quotient(_value(other), self.value))

    def clip(self, low: float, high: float) -> RealNumber:
        """min(max(x, low), high); bounds may be infinite."""
        x = self.value
        if isinstance(x, float):
            return RealNumber.exactly(min(max(x, low), high)) if x == x else self
        for bound, sign in ((low, 1), (high, -1)):
            if isinf(bound):
                continue
            end = fmpq(*bound.as_integer_ratio())
            if sign * (x - end) <= 0:
                x = end
            elif isinstance(x, arb):
                x = x.max(arb(end)) if sign > 0 else x.min(arb(end))
        return RealNumber(x)

    def exp(self) -> RealNumber:
        """e to the x; of minus infinity 0."""
        x = self.value
        if isinstance(x, float):
            return RealNumber(fmpq(0)) if x == -inf else self
        return RealNumber(fmpq(1) if x == 0 else arb(x).exp())

    def log(self) -> RealNumber:
        """Of 0 minus infinity, of negative numbers nothing."""
        x = self.value
        if x < 0 or isinstance(x, float):
            return RealNumber(nan if x < 0 else x)
        if isinstance(x, fmpq) and x in (0, 1):
            return RealNumber(fmpq(0) if x == 1 else -inf)
        return RealNumber(arb(x).log())

    def sqrt(self) -> RealNumber:
        """Of rational squares exactly, of negative numbers nothing."""
        x = self.value
        if x < 0 or isinstance(x, float):
            return RealNumber(nan if x < 0 else x)
        if isinstance(x, fmpq) and x.p.is_square() and x.q.is_square():
            return RealNumber(x.sqrt())
        return RealNumber(arb(x).sqrt())

    def erf(self) -> RealNumber:
        """Error function; of infinities 1 and -1."""
        x = self.value
        if isinstance(x, float):
            return RealNumber(x if x != x else fmpq(1 if x > 0 else -1))
        return RealNumber(fmpq(0) if x == 0 else arb(x).erf())

    def floor(self) -> RealNumber:
        """The largest integer that is not greater; unknown where the ball holds one."""
        return RealNumber(_whole(self.value))

    def nearest(self) -> RealNumber:
        """The nearest integer, halves to even."""
        x = self.value
        if isinstance(x, fmpq):
            return RealNumber(fmpq(round_quotient(int(x.p), int(x.q), Rounding.HALF_EVEN)))
        return RealNumber(_whole(_sum(x, _HALF)))

    def pi(self) -> RealNumber:
        """The number, whatever this one is."""
        return RealNumber(arb.pi())


def _value(number: RealNumber | float) -> Value:
    return (number if isinstance(number, RealNumber) else RealNumber.exactly(number)).value


def _sign(x: Value) -> int:
    """1, -1, or 0 where that is not known (or it is 0)."""
    return (x > 0) - (x < 0)


def _sum(a: Value, b: Value) -> Value:
    if isinstance(a, float) or isinstance(b, float):
        return (a if isinstance(a, float) else 0.0) + (b if isinstance(b, float) else 0.0)
    return a + b


def _product(a: Value, b: Value) -> Value:
    if a != a or b != b:
        return nan
    if _is_zero(a) or _is_zero(b):
        return fmpq(0)
    if isinstance(a, float) or isinstance(b, float):
        sign = _sign(a) * _sign(b)
        return sign * inf if sign else _UNKNOWN
    return a * b


def _quotient(a: Value, b: Value) -> Value:
    if isinstance(b, float):
        return b if b != b else _product(a, fmpq(0))
    if not _is_zero(b):
        return _product(a, 1 / b)
    if a != a or _is_zero(a):
        return a
    return _sign(a) * inf if _sign(a) else _UNKNOWN


def _is_zero(x: Value) -> bool:
    return isinstance(x, fmpq) and x == 0


def _whole(x: Value) -> Value:
    """The largest integer that is not greater."""
    if isinstance(x, fmpq):
        return fmpq(x.floor())
    if not isinstance(x, arb):
        return x
    below = x.floor()
    found = below.unique_fmpz()
    return below if found is None else fmpq(found)

"""Balls hold what they should, by independent series and identities, and decide."""

from __future__ import annotations

import math
import random
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from flint import arb, ctx, fmpq

from qdialect.algebra import elementary_functions as functions
from qdialect.algebra.float_spans import DoubleSpans
from qdialect.algebra.real_number import RealNumber
from qdialect.algebra.reals import Reals, decide
from qdialect.algebra.rounding import Rounding

NUMBERS = [Fraction(n, d) for n in (-700, -9, -3, -1, 0, 1, 2, 7, 40) for d in (1, 7, 64)]


def ends(x: RealNumber) -> tuple[Fraction, Fraction]:
    """The smallest and the largest number that `x` may be."""
    if isinstance(x.value, fmpq):
        exact = Fraction(int(x.value.p), int(x.value.q))
        return exact, exact
    assert isinstance(x.value, arb)
    low, high = (end.fmpq() for end in (x.value.lower(), x.value.upper()))
    return Fraction(int(low.p), int(low.q)), Fraction(int(high.p), int(high.q))


def width(x: RealNumber) -> float:
    low, high = ends(x)
    return float(high - low)


def holds(x: RealNumber, value: Fraction) -> bool:
    low, high = ends(x)
    return low <= value <= high


@pytest.mark.parametrize("bits", [136, 272])
def test_identities(bits: int) -> None:
    with ctx.workprec(bits):
        for value in NUMBERS:
            x, minus = RealNumber.exactly(value), RealNumber.exactly(-value)
            e = x.exp()
            assert holds(e * minus.exp(), Fraction(1))
            assert holds(e.log(), value)
            assert width(e.log()) < 2.0 ** (16 - bits)
            if value >= 0:
                root = x.sqrt()
                assert holds(root * root, value)
            assert holds(x.erf() + minus.erf(), Fraction(0))


def test_exponentials_and_logarithms_by_another_library() -> None:
    with localcontext() as context, ctx.workprec(200):
        context.prec = 90
        for value in NUMBERS:
            x = Decimal(value.numerator) / value.denominator
            e, near = ends(RealNumber.exactly(value).exp()), Fraction(x.exp())
            assert e[0] * (1 - Fraction(1, 10**55)) <= near <= e[1] * (1 + Fraction(1, 10**55))
            if value > 0:
                log, near = ends(RealNumber.exactly(value).log()), Fraction(x.ln())
                assert log[0] - Fraction(1, 10**55) <= near <= log[1] + Fraction(1, 10**55)


def test_the_error_function_by_its_own_series() -> None:
    for value in (Fraction(1, 3), Fraction(2), Fraction(-9, 2), Fraction(6), Fraction(11)):
        with localcontext() as context:
            context.prec = 260
            x = Decimal(value.numerator) / value.denominator
            total = term = x
            for n in range(1, 900):
                term = -term * x * x / n
                total += term / (2 * n + 1)
            # pi to 100 digits, from the literature
            pi = Decimal(
                "3.141592653589793238462643383279502884197169399375105820974944592307816406286"
                "208998628034825342117068"
            )
            exact = Fraction(2 * total / pi.sqrt())
        for bits in (136, 272):
            with ctx.workprec(bits):
                low, high = ends(RealNumber.exactly(value).erf())
            assert low - Fraction(10) ** -95 <= exact <= high + Fraction(10) ** -95
            assert float(high - low) < 2.0 ** (26 - bits)


@pytest.mark.parametrize("name", ["exp", "log", "sqrt", "erf", "tanh", "floor", "nearest"])
def test_spans_hold_what_balls_say(name: str) -> None:
    rng = random.Random(3)
    values = [Fraction(rng.uniform(-30, 30)) for _ in range(200)] + NUMBERS
    values = [v for v in values if v > 0 or name not in ("log", "sqrt")]
    function = getattr(functions, name)
    spans: DoubleSpans = function(DoubleSpans.of(np.array([float(v) for v in values])))
    for low, high, value in zip(spans.low, spans.high, values, strict=True):
        with ctx.workprec(200):
            least, most = ends(function(RealNumber.exactly(value)))
        if name in ("floor", "nearest"):
            beside_step = abs(2 * value - round(2 * value)) < Fraction(1, 10**9)
            assert beside_step or low == high == least
        elif math.isfinite(high):
            assert low <= most and least <= high
            assert high - low <= 1e-12 * max(1.0, abs(high))


def test_functions_without_a_value() -> None:
    zero, minus = RealNumber.exactly(0.0), RealNumber.exactly(-1.0)
    for x in (minus.log(), minus.sqrt(), minus.sqrt() + 1.0, (minus.log() * 0.0).exp()):
        assert not x.is_finite and x.value != x.value
    assert (1.0 / zero).value == math.inf
    assert zero.log().value == -math.inf
    assert (zero / zero).value == 0
    assert (minus / zero).value == -math.inf
    assert zero.exp().value == 1


def test_what_infinities_become() -> None:
    infinite = 1.0 / RealNumber.exactly(0.0)
    assert (infinite * 0.0).value == 0 and (1.0 / infinite).value == 0
    assert (infinite * -1.0).exp().value == 0 and infinite.exp().value == math.inf
    assert infinite.erf().value == 1 and infinite.clip(0.0, 6.0).value == 6
    assert not (infinite - infinite).is_finite


@pytest.mark.parametrize("rounding", [Rounding.HALF_EVEN, Rounding.HALF_AWAY, Rounding.HALF_UP])
def test_a_hair_beside_a_tie(rounding: Rounding) -> None:
    """1/2 + 10^-n and below: float64 sees the tie, more bits do not."""
    ties = [Fraction(2 * k + 1, 2) for k in range(-4, 4)]
    hairs = [Fraction(sign, 10**n) for n in (20, 90, 300) for sign in (-1, 1)]
    values = [tie + hair for tie in ties for hair in hairs]
    got = decide(Reals.exact(values), 1.0, 0, (-128, 127), rounding)
    assert got.tolist() == [math.floor(v + Fraction(1, 2)) for v in values]
    # The same through a function that is not rational: log(exp(x)).
    through = Reals.apply(lambda x: x[0].exp().log(), Reals.exact(values))
    assert np.array_equal(decide(through, 1.0, 0, (-128, 127), rounding), got)

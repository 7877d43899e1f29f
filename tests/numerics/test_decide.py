"""Enclosures hold what they should, by independent series and identities, and decide."""

from __future__ import annotations

import math
import random
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest

from qdialect.numerics import elementary_functions as words
from qdialect.numerics.decide import Reals, decide
from qdialect.numerics.enclosure import Enclosure
from qdialect.numerics.rounding import Rounding
from qdialect.numerics.spans import Spans

NUMBERS = [Fraction(n, d) for n in (-700, -9, -3, -1, 0, 1, 2, 7, 40) for d in (1, 7, 64)]


def width(x: Enclosure) -> float:
    assert isinstance(x.low, Fraction) and isinstance(x.high, Fraction)
    return float(x.high - x.low)


def holds(x: Enclosure, value: Fraction) -> bool:
    return x.low <= value <= x.high


@pytest.mark.parametrize("digits", [40, 80])
def test_identities(digits: int) -> None:
    for value in NUMBERS:
        x = Enclosure.of(value, digits)
        e = x.exp()
        assert holds(e * Enclosure.of(-value, digits).exp(), Fraction(1))
        assert holds(e.log(), value)
        assert width(e.log()) < 10.0 ** (5 - digits)
        if value >= 0:
            root = x.sqrt()
            assert holds(root * root, value)
        assert holds(x.erf() + Enclosure.of(-value, digits).erf(), Fraction(0))
        assert -1 <= x.erf().low <= x.erf().high <= 1


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
        for digits in (40, 80):
            found = Enclosure.of(value, digits).erf()
            assert found.low - Fraction(10) ** -95 <= exact <= found.high + Fraction(10) ** -95
            assert width(found) < 10.0 ** (8 - digits)


@pytest.mark.parametrize("name", ["exp", "log", "sqrt", "erf", "tanh", "floor", "nearest"])
def test_spans_hold_what_enclosures_say(name: str) -> None:
    rng = random.Random(3)
    values = [Fraction(rng.uniform(-30, 30)) for _ in range(200)] + NUMBERS
    values = [v for v in values if v > 0 or name not in ("log", "sqrt")]
    function = getattr(words, name)
    spans: Spans = function(Spans.of(np.array([float(v) for v in values])))
    for low, high, value in zip(spans.low, spans.high, values, strict=True):
        exact = function(Enclosure.of(value, 60))
        if name in ("floor", "nearest"):
            continue_ = abs(2 * value - round(2 * value)) < Fraction(1, 10**9)
            assert continue_ or low == high == exact.low
        elif math.isfinite(high):
            assert low <= exact.high and exact.low <= high
            assert high - low <= 1e-12 * max(1.0, abs(high))


def test_functions_without_a_value() -> None:
    zero, minus = Enclosure.of(Fraction(0), 40), Enclosure.of(Fraction(-1), 40)
    for x in (minus.log(), minus.sqrt(), minus.sqrt() + 1.0, (minus.log() * 0.0).exp()):
        assert x.is_nothing and not x.is_number
    assert (1.0 / zero).low == (1.0 / zero).high == math.inf
    assert zero.log().low == zero.log().high == -math.inf
    assert (zero / zero).low == (zero / zero).high == 0
    assert (minus / zero).high == -math.inf
    assert zero.exp().low == zero.exp().high == 1


@pytest.mark.parametrize("rounding", [Rounding.HALF_EVEN, Rounding.HALF_AWAY, Rounding.HALF_UP])
def test_a_hair_beside_a_tie(rounding: Rounding) -> None:
    """1/2 + 10^-n and below: float64 sees the tie, digits do not."""
    ties = [Fraction(2 * k + 1, 2) for k in range(-4, 4)]
    hairs = [Fraction(sign, 10**n) for n in (20, 90, 300) for sign in (-1, 1)]
    values = [tie + hair for tie in ties for hair in hairs]
    got = decide(Reals.exact(values), 1.0, 0, (-128, 127), rounding)
    assert got.tolist() == [math.floor(v + Fraction(1, 2)) for v in values]
    # The same through a function that is not rational: log(exp(x)).
    through = Reals.apply(lambda x: x[0].exp().log(), Reals.exact(values))
    assert np.array_equal(decide(through, 1.0, 0, (-128, 127), rounding), got)

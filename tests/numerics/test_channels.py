"""Ends of sums of products per channel, against the definition."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from qdialect.algebra.channels import Channels, Term
from qdialect.algebra.ranges import Interval

TINY, HUGE = 2.0**-1074, 1.7e308


def array(values: list[Any], kind: Any = None) -> Any:
    return np.array(values, kind)


def definition(terms: tuple[Term, ...], channel: int) -> Fraction:
    total = Fraction(0)
    for term in terms:
        product = Fraction(1)
        for factor in term:
            product *= Fraction(factor.tolist()[channel % factor.size])
        total += product
    return total


def expected(channels: Channels) -> list[Interval]:
    return [
        Interval(definition(channels.low, c), definition(channels.high, c), channels.assuming)
        for c in range(channels.count)
    ]


def check(channels: Channels) -> None:
    every = expected(channels)
    assert channels.each() == every
    low, high = min(x.low for x in every), max(x.high for x in every)
    assert channels.joined() == Interval(low, high, channels.assuming)


@pytest.mark.parametrize("seed", range(20))
def test_random(seed: int) -> None:
    rng = np.random.default_rng(seed)
    low, span = rng.integers(-(10**6), 10**6, 24), rng.integers(0, 10**6, 24)
    scales = rng.uniform(1e-6, 1e-2, 24)
    both = (rng.integers(-(2**31), 2**31, 12), array([0.1]))
    check(
        Channels(
            ((low, array([0.3]), scales), both), ((low + span, array([0.3]), scales), both), "a"
        )
    )


def test_float64_cannot_tell_which_is_smallest() -> None:
    """3 * fl(1/3) and fl(0.1) * 10 are 1 in float64, and below and above it in truth."""
    counts, scales = array([1, 3, 10]), array([1.0, 1 / 3, 0.1])
    channels = Channels(((counts, scales),), ((counts, scales),))
    check(channels)
    assert channels.joined() == Interval(3 * Fraction(1 / 3), 10 * Fraction(0.1))


@pytest.mark.parametrize(
    ("numbers", "scales"),
    [
        ([1 << 70, (1 << 70) + 1, -(1 << 90)], [1.0, 1.0, 2.0**-30]),
        ([1, 2, 3], [TINY, TINY, TINY]),
        ([5, -5, 7], [HUGE, HUGE, TINY]),
        ([0, 0, 0], [1.0, 2.0, 3.0]),
    ],
)
def test_numbers_at_the_ends_of_floats(numbers: list[int], scales: list[float]) -> None:
    term = (array(numbers, object), array(scales), array([0.5]))
    check(Channels((term,), (term,)))
    other = (array([HUGE]), array([HUGE]))
    check(Channels((term, other), (term, other)))


def test_a_sum_of_floats() -> None:
    """A bias of floats has no scale, and fewer channels come again."""
    bias = (array([0.25, -1.5]),)
    sums = (array([-4, 2, 1, 9]), array([0.5]))
    found = Channels((sums,), (sums,)) + Channels((bias,), (bias,), "b")
    check(found)
    assert found.joined() == Interval(Fraction(-7, 4), Fraction(3), "b")

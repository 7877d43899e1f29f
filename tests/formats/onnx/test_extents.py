"""Extents as polynomials: they compute what integers do, and claim equality only where it holds."""

from __future__ import annotations

import random

from qdialect.plugins.common.extents import Extent, broadcast, clamped, product

NAMES = ("batch", "sequence", "heads")


def drawn(rng: random.Random) -> Extent:
    found = Extent.of(rng.randrange(-3, 4))
    for _ in range(rng.randrange(3)):
        term = Extent.of(rng.choice((-2, 1, 1, 3)))
        for _ in range(rng.randrange(1, 3)):
            term = term * Extent.named(rng.choice(NAMES))
        found = found + term
    return found


def test_arithmetic_is_that_of_integers() -> None:
    rng = random.Random(1)
    for _ in range(300):
        a, b = drawn(rng), drawn(rng)
        values = {f"@{name}": rng.randrange(1, 50) for name in NAMES}
        x, y = a.at(values), b.at(values)
        assert (a + b).at(values) == x + y
        assert (a - b).at(values) == x - y
        assert (a * b).at(values) == x * y
        quotient = (a * b).over(b)
        assert quotient is None or quotient.at(values) == x
        exact = a.over(b)
        assert exact is None or exact.at(values) * y == x
        assert a.least is None or x >= a.least
        if a == b:
            assert x == y


def test_equal_ways_to_an_extent_are_equal() -> None:
    b, s = Extent.named("batch"), Extent.named("sequence")
    four = Extent.of(4)
    assert (b + s) * four == four * s + b * four
    assert product((b, four, s)).over(b * four) == s
    assert (b * four).over(s) is None and (b + four).over(four) is None
    assert b.made("div", four) == b.made("div", four) != s.made("div", four)
    assert Extent.unknown() != Extent.unknown()
    assert (b - b).number == 0 and b.number is None


def test_what_is_not_negative() -> None:
    b = Extent.named("batch")
    assert (b + Extent.of(2)).least == 2 and (b - Extent.of(1)).least == -1
    assert (Extent.of(3) - b).least is None
    assert b.made("div", Extent.of(2)).least == 0
    assert (b - Extent.of(1)).made("div", Extent.of(2)).least is None


def test_broadcast_says_what_holds_on_every_run() -> None:
    b, s, one, two = Extent.named("b"), Extent.named("s"), Extent.of(1), Extent.of(2)
    assert broadcast([(b, s), (one, s), (s,)]) == [b, s]
    assert broadcast([(b, two), (one, s)]) == [b, two]
    assert broadcast([(b, s), (s, s)]) == [None, s]
    # Of 512 rows the first s: with s of them they meet only if those are all s.
    assert broadcast([(s,), (clamped(s, 512),)]) == [s]
    assert broadcast([(s,), (clamped(b, 512),)]) == [None]
    assert broadcast([(s,), (clamped(s, 1),)]) == [None]


def test_long_sums_and_products_are_given_up() -> None:
    x = y = Extent.named("n")
    for n in range(40):
        x = x + Extent.named(f"n{n}")
        y = y * y
    assert x != x + Extent.of(0) + Extent.named("n") and len(x.terms) <= 16
    assert len(y.terms) == 1 and len(y.terms[0][0]) <= 16

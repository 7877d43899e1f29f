"""Fronts and budgets: the mathematics, on points where the answer can be counted out."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qdialect.errors import InputError, UsageError
from qdialect.workflows.budget import Outcome, parse_budget
from qdialect.workflows.front import (
    Point,
    corners,
    nearest_that_meets,
    non_dominated,
    weight_between,
)

COORDINATES = st.integers(0, 30)
POINTS = st.lists(st.tuples(COORDINATES, COORDINATES), min_size=2, max_size=40, unique=True).map(
    lambda pairs: [Point(float(a), float(b)) for a, b in pairs]
)


def solver(points: list[Point]) -> Callable[[float], Point]:
    """The point of least time + weight * loss; of equally good ones the fastest."""
    return lambda weight: min(points, key=lambda p: (p.time + weight * p.loss, p.time))


def ends(points: list[Point]) -> tuple[Point, Point]:
    return min(points), min(points, key=lambda p: (p.loss, p.time))


def is_corner(point: Point, points: list[Point]) -> bool:
    """Whether a point is strictly best for some weight: among the weights between all pairs."""
    weights = [w for a, b in product(points, points) if (w := weight_between(a, b)) is not None]
    tried = sorted({0.0, *weights})
    middles = [(a + b) / 2 for a, b in pairwise(tried)] + [tried[-1] + 1]
    best = [min(p.time + w * p.loss for p in points) for w in middles]
    return any(point.time + w * point.loss <= b + 1e-9 for w, b in zip(middles, best, strict=True))


@settings(deadline=None)
@given(POINTS)
def test_the_front_is_what_nothing_dominates(points: list[Point]) -> None:
    front = non_dominated(points, lambda point: point)
    for point in points:
        better = [p for p in points if p != point and p.time <= point.time and p.loss <= point.loss]
        assert (point in front) == (not better)
    assert front == sorted(front)


@settings(deadline=None)
@given(POINTS)
def test_all_corners_are_found_and_nothing_else(points: list[Point]) -> None:
    found = corners(ends(points), solver(points), lambda point: point, most=100)
    assert {p for p in points if is_corner(p, points)} <= set(found)
    on_front = set(non_dominated(points, lambda point: point))
    assert set(found) <= on_front
    fewer = corners(ends(points), solver(points), lambda point: point, most=3)
    assert len(fewer) <= 3 and set(fewer) <= set(found)


@settings(deadline=None)
@given(POINTS, COORDINATES)
def test_the_search_ends_at_the_fastest_corner_that_meets(points: list[Point], most: int) -> None:
    fast, safe = ends(points)
    if fast.loss <= most or safe.loss > most:
        return
    asked: list[Point] = []

    def meets(point: Point) -> bool:
        asked.append(point)
        return point.loss <= most

    found = nearest_that_meets(safe, fast, solver(points), lambda point: point, meets, most=100)
    assert found.loss <= most
    hull = corners((fast, safe), solver(points), lambda point: point, most=100)
    assert found.time <= min(p.time for p in hull if p.loss <= most)
    assert len(asked) == len(set(asked)) <= len(points)
    # The same from the other side: of least loss within a time.
    limit = (fast.time + safe.time) / 2
    other = nearest_that_meets(
        fast, safe, solver(points), lambda p: p, lambda p: p.time <= limit, most=100
    )
    assert other.time <= limit and other.loss <= min(p.loss for p in hull if p.time <= limit)


def test_a_search_without_trials_returns_what_meets() -> None:
    a, b = Point(0.0, 9.0), Point(9.0, 0.0)
    assert nearest_that_meets(b, a, lambda w: a, lambda p: p, lambda p: False, most=0) == b
    assert weight_between(a, b) == 1.0
    assert weight_between(a, Point(1.0, 9.0)) is None


@pytest.mark.parametrize(
    ("text", "outcome", "meets"),
    [
        ("metric>=0.99*float", Outcome(10, metric=0.8), True),
        ("metric >= 0.99 * float", Outcome(10, metric=0.79), False),
        ("metric>=.5", Outcome(10, metric=0.5), True),
        ("metric>=-1e-3", Outcome(10, metric=0.0), True),
        ("sqnr>=30", Outcome(29.9), False),
        ("sqnr>=30dB", Outcome(30.0), True),
        ("sqnr>=30", Outcome(math.inf), True),
        ("latency<=0.7*float", Outcome(9, 100.0, 0.7), True),
        ("latency<=2ms", Outcome(9, 2.1, 0.1), False),
        ("latency<=2000us", Outcome(9, 1.9, 0.1), True),
    ],
)
def test_budgets(text: str, outcome: Outcome, meets: bool) -> None:
    of_float = Outcome(math.inf, 5.0, 1.0, 0.8)
    assert parse_budget(text).meets(outcome, of_float) == meets


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is none of these"),
        ("accuracy>=0.9", "is none of these: metric>="),
        ("metric>0.9", "with >="),
        ("metric<=0.9", "with >="),
        ("latency>=2ms", "with <="),
        ("latency<=2", "a unit is missing"),
        ("latency<=2h", "'h' is no unit"),
        ("latency<=0*float", "out of range"),
        ("latency<=-1ms", "out of range"),
        ("sqnr>=30*float", "'\\*float' is no unit"),
        ("metric>=nan", "begins with no number"),
        ("metric>=0.9*", "'\\*' is no unit"),
        ("metric>=float", "begins with no number"),
        ("metric>=1e999", "out of range"),
        ("metric>=0*float", "no share"),
    ],
)
def test_budgets_that_say_nothing(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        parse_budget(text)


def test_a_share_of_a_metric_below_zero() -> None:
    of_float = Outcome(math.inf, 5.0, 1.0, -2.0)
    with pytest.raises(InputError, match="no share: give a number"):
        parse_budget("metric>=0.99*float").meets(Outcome(9, metric=-2.5), of_float)
    assert not parse_budget("metric>=-2.1").meets(Outcome(9, metric=-2.5), of_float)

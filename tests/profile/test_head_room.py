"""Head room: ranges that hold the extremes of samples to come."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qdialect.quantizer.profile.distribution import distribution
from qdialect.quantizer.profile.ranges import (
    OCTAVE,
    Levels,
    Range,
    RangeChoice,
    choose_range,
    reach_of,
)
from qdialect.quantizer.profile.sketch import observe

MANY = Levels(1 << 14)
"""So many that finer steps are no matter."""
COUNTS = st.integers(4, 64)


def ranged(rows: Any, unseen: int, levels: Levels = MANY, **more: Any) -> Range:
    """The range of samples [samples, numbers], with head room."""
    rows = np.asarray(rows, np.float32)
    extremes = {n: (float(row.min()), float(row.max())) for n, row in enumerate(rows)}
    choice = RangeChoice(levels=levels, unseen=unseen, **more)
    return choose_range(distribution(observe(rows.reshape(-1))), choice, extremes)


DRAWN: dict[str, Callable[[np.random.Generator, tuple[int, int]], Any]] = {
    "gumbel": lambda random, size: random.gumbel(5, 0.5, size),
    "uniform": lambda random, size: random.uniform(0, 5, size),
    "normal": lambda random, size: np.abs(random.normal(5, 1, size)),
    "exponential": lambda random, size: random.exponential(1, size),
}


@pytest.mark.parametrize("kind", DRAWN)
def test_the_largest_of_samples_to_come_is_inside_as_often_as_is_said(kind: str) -> None:
    """57 % of the largest of many are below their mean, if that is known; without head room it is
    only the largest of all in 32 of 132 cases."""
    random = np.random.default_rng(3)
    draws = [DRAWN[kind](random, (32 + 100, 20)) for _ in range(400)]
    held = [ranged(d[:32], 100).high >= np.float32(d[32:].max()) for d in draws]
    bare = [ranged(d[:32], 0).high >= np.float32(d[32:].max()) for d in draws]
    assert np.mean(bare) < 0.3
    assert np.mean(held) > 0.45


@given(COUNTS, st.integers(0, 99), st.integers(1, 1000), st.integers(1, 1000))
@settings(max_examples=60, deadline=None)
def test_more_samples_to_come_need_no_less(count: int, seed: int, few: int, more: int) -> None:
    rows = np.random.default_rng(seed).normal(size=(count, 5))
    seen = ranged(rows, 0)
    a, b = (ranged(rows, unseen) for unseen in sorted((few, more)))
    assert OCTAVE * seen.low <= b.low <= a.low <= seen.low <= 0
    assert 0 <= seen.high <= a.high <= b.high <= OCTAVE * seen.high


@given(COUNTS, st.integers(0, 99), st.integers(-8, 8))
@settings(max_examples=60, deadline=None)
def test_head_room_scales_with_the_data(count: int, seed: int, exponent: int) -> None:
    rows = np.random.default_rng(seed).normal(size=(count, 5)).astype(np.float32)
    found, scaled = (ranged(rows * factor, 100) for factor in (1.0, np.float32(2.0**exponent)))
    assert scaled.low == pytest.approx(found.low * 2.0**exponent)
    assert scaled.high == pytest.approx(found.high * 2.0**exponent)
    mirrored = ranged(-rows, 100)
    assert (mirrored.low, mirrored.high) == pytest.approx((-found.high, -found.low))


@pytest.mark.parametrize("levels", [Levels(256), Levels(1 << 16)])
def test_an_end_that_all_samples_share_stays(levels: Levels) -> None:
    rows = np.abs(np.random.default_rng(1).normal(size=(16, 50)))
    rows[:, 0], rows[:, 1] = 0, 2.5
    found = ranged(np.minimum(rows, 2.5), 100, levels)
    assert (found.low, found.high) == (0, 2.5)


def test_too_few_samples_tell_nothing_and_16_bits_have_an_octave() -> None:
    rows = np.random.default_rng(1).normal(size=(3, 5))
    bare = ranged(rows, 0)
    assert ranged(rows, 100, Levels(256)) == bare
    for count in (3, 40):
        rows = np.random.default_rng(1).normal(size=(count, 5))
        bare, wide = (ranged(rows, unseen, Levels(1 << 16)) for unseen in (0, 1))
        assert (wide.low, wide.high) == (OCTAVE * bare.low, OCTAVE * bare.high)
    assert ranged(np.zeros((9, 3)), 100).degenerate
    tiny = ranged(np.arange(9)[:, None] * 1e-42, 100, Levels(256))
    assert 0 == tiny.low < tiny.high < 1e-40
    assert choose_range(distribution(observe(np.zeros(0, np.float32))), RangeChoice(unseen=9)) == (
        choose_range(distribution(observe(np.zeros(0, np.float32))), RangeChoice())
    )


def test_the_more_numbers_a_sample_has_the_less_room_pays() -> None:
    random = np.random.default_rng(4)
    tops = random.gumbel(5, 0.3, 32)
    found: list[float] = []
    for count in (1, 300, 10_000):
        rows = np.full((32, count), 1.0, np.float32)
        rows[:, 0] = 2 * tops - 5
        found.append(ranged(rows, 100, Levels(256)).high)
    assert found == sorted(found, reverse=True)
    assert found[0] >= found[1] > found[2] == pytest.approx(2 * tops.max() - 5)


def test_what_is_drawn_in_has_no_room_but_at_16_bits() -> None:
    rows = np.random.default_rng(2).normal(size=(20, 4000))
    rows[3, 7] = 40
    for levels, factor in ((Levels(256), 1.0), (Levels(1 << 16), OCTAVE)):
        bare, room = (
            ranged(rows, unseen, levels, method="percentile", percentile=99.9)
            for unseen in (0, 100)
        )
        assert bare.high < 10
        assert (room.low, room.high) == (factor * bare.low, factor * bare.high)


def test_masks_are_left_out() -> None:
    rows = np.random.default_rng(5).normal(size=(20, 40)).astype(np.float32)
    masked = rows.copy()
    masked[::2, 0] = -1e9
    rows[::2, 0] = 0
    found, plain = ranged(masked, 100, Levels(256)), ranged(rows, 100, Levels(256))
    assert found.is_masked
    assert found.high == pytest.approx(plain.high, rel=0.01)
    assert OCTAVE * rows.min() <= found.low < 0


def test_what_functions_reach() -> None:
    def sigmoid(x: Any) -> Any:
        return 1 / (1 + np.exp(-x))

    assert reach_of(sigmoid) == (0, 1)
    assert reach_of(np.tanh) == (-1, 1)
    assert reach_of(lambda x: np.clip(x, 0, 6)) == (0, 6)
    low, high = reach_of(lambda x: x * sigmoid(x))
    assert low == pytest.approx(-0.2785, abs=0.001) and high > 1e6
    assert reach_of(np.exp) == (0, np.inf)
    assert reach_of(np.log)[1] > 30

"""Means of few samples are drawn to zero as far as these leave them in doubt."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qdialect.algebra.sampled_means import drawn_to_zero

NUMBERS = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=40)


def drawn(numbers: list[float]) -> float:
    array = np.array(numbers)
    mean, squares = np.array([array.mean()]), np.array([np.square(array).mean()])
    return float(drawn_to_zero(mean, squares, len(numbers))[0])


@given(NUMBERS)
def test_it_lies_between_zero_and_the_mean(numbers: list[float]) -> None:
    mean, found = float(np.mean(numbers)), drawn(numbers)
    assert min(mean, 0.0) <= found <= max(mean, 0.0)


@given(st.floats(-1e6, 1e6), st.integers(1, 40))
def test_what_all_samples_say_stays(number: float, count: int) -> None:
    assert drawn([number] * count) == pytest.approx(number, rel=1e-3)


def test_it_is_nearer_to_the_mean_of_all_than_the_mean_of_the_samples_where_that_is_small() -> None:
    random = np.random.default_rng(1)
    for center, better in ((0.0, True), (0.1, True), (5.0, False)):
        samples = center + random.normal(size=(4000, 16))
        mean, squares = samples.mean(axis=1), np.square(samples).mean(axis=1)
        found = drawn_to_zero(mean, squares, 16)
        lost, plain = (np.square(each - center).mean() for each in (found, mean))
        assert lost < 0.6 * plain if better else lost < 1.1 * plain

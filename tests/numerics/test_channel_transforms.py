"""Factors of channels: the loss they are chosen by is what rounding measures, and they are best."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qdialect.algebra.channel_transforms import (
    RoundedRows,
    RoundedValue,
    Term,
    least_factors,
    total_loss,
)


def layer(seed: int, channels: int = 12, rows: int = 9, spread: float = 2.0) -> list[Term]:
    """A value whose channels have other sizes, and the weights that take it."""
    random = np.random.default_rng(seed)
    sizes = np.exp(random.normal(0, spread, channels))
    weights = random.normal(0, 1, (rows, channels)) * np.exp(random.normal(0, 1, channels))
    labels = np.arange(channels)
    gains = np.square(weights).sum(axis=0)
    value = RoundedValue(labels, -sizes, 0.5 * sizes, gains, sizes**2 / 9)
    return [value, RoundedRows(labels, np.abs(weights), sizes**2 / 9, np.ones(rows))]


@given(st.integers(0, 2**32 - 1), st.sampled_from([8, 128]))
@settings(max_examples=30, deadline=None)
def test_the_derivatives_are_those_of_the_loss(seed: int, p: int | None) -> None:
    terms, random = layer(seed), np.random.default_rng(seed)
    at, step = random.normal(0, 0.5, 12), 1e-7 * random.normal(0, 1, 12)
    (below, _), (above, _) = (total_loss(terms, at + sign * step, p) for sign in (-1, 1))
    slope = total_loss(terms, at, p)[1]
    assert (above - below) / 2 == pytest.approx(slope @ step, rel=1e-3, abs=1e-9 * abs(above))


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=30, deadline=None)
def test_the_loss_is_convex_in_the_logarithms(seed: int) -> None:
    terms, random = layer(seed), np.random.default_rng(seed)
    one, other = random.normal(0, 2, (2, 12))
    ends = [total_loss(terms, end, 128)[0] for end in (one, other)]
    assert total_loss(terms, (one + other) / 2, 128)[0] <= sum(ends) / 2 * (1 + 1e-9)


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=20, deadline=None)
def test_no_factors_nearby_are_much_better(seed: int) -> None:
    terms, random = layer(seed), np.random.default_rng(seed)
    found = least_factors(terms, 12)
    assert found.after <= found.before
    assert found.after == pytest.approx(total_loss(terms, np.log(found.factors))[0], rel=1e-9)
    for _ in range(50):
        near = np.log(found.factors) + random.normal(0, 0.1, 12)
        assert total_loss(terms, near)[0] >= found.after * 0.9


def test_weights_of_one_scale_are_equalized_as_by_cross_layer_equalization() -> None:
    # s_c = sqrt(r1_c / r2_c) makes both ranges sqrt(r1_c r2_c)
    random = np.random.default_rng(0)
    above, below = np.exp(random.normal(0, 1, (2, 16)))
    labels = np.arange(16)
    first = RoundedValue(labels, -above, above, below**2, above**2)
    second = RoundedValue(labels, -below, below, above**2, below**2, powers=-np.ones(1))
    found = least_factors([first, second], 16)
    closed = np.log(np.sqrt(below / above))
    assert found.after <= total_loss([first, second], closed)[0] * 1.001
    assert found.decibels > 3


def test_what_is_rounded_loses_what_the_terms_say() -> None:
    random = np.random.default_rng(3)
    sizes = np.exp(random.normal(0, 1.0, 32))
    x = random.uniform(-1, 1, (4000, 32)) * sizes
    weights = random.normal(0, 1, (24, 32)) / np.sqrt(sizes)
    labels, energies = np.arange(32), np.square(x).mean(0)
    terms: list[Term] = [
        RoundedValue(labels, x.min(0), x.max(0), np.square(weights).sum(0), energies),
        RoundedRows(labels, np.abs(weights), energies, np.ones(24)),
    ]
    found = least_factors(terms, 32)

    def measured(factors: np.ndarray) -> float:
        values, kernel = x * factors, weights / factors
        step = (values.max() - values.min()) / 255
        steps = np.abs(kernel).max(axis=1, keepdims=True) / 127
        rounded = np.rint(values / step) * step
        result = rounded @ (np.rint(kernel / steps) * steps).T
        return float(np.square(result - x @ weights.T).mean(0).sum())

    for factors, foretold in ((np.ones(32), found.before), (found.factors, found.after)):
        assert 0.5 < measured(factors) / foretold < 2
    assert measured(found.factors) < measured(np.ones(32)) / 1.5


def test_tied_classes_and_dead_channels_stay() -> None:
    labels = np.arange(4)
    high = np.array([1.0, 100.0, 0.0, 1.0])
    value = RoundedValue(labels, np.zeros(4), high, np.array([1.0, 1.0, 0.0, 1.0]), high**2)
    found = least_factors([value], 4, np.array([True, False, False, False]))
    assert found.factors[0] == 1
    assert np.isfinite(found.factors).all()
    assert found.factors[1] < 0.2
    nothing = least_factors([], 4)
    assert (nothing.factors == 1).all()
    assert nothing.decibels == 0

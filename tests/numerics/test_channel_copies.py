"""Channels that are worth having twice."""

from __future__ import annotations

import numpy as np
import pytest

from qdialect.algebra.channel_copies import best_copies
from qdialect.algebra.channel_transforms import RoundedRows, RoundedValue, total_loss

COUNT = 8
LABELS = np.arange(1, COUNT + 1)
ALL = np.arange(COUNT + 1) > 0
NONE = np.zeros(COUNT + 1, bool)


def value(high: np.ndarray[tuple[int], np.dtype[np.float64]]) -> RoundedValue:
    return RoundedValue(LABELS, np.zeros(COUNT), high, np.ones(COUNT), np.square(high))


def rows(weights: np.ndarray[tuple[int, int], np.dtype[np.float64]]) -> RoundedRows:
    return RoundedRows(LABELS, weights, np.ones(COUNT), np.ones(len(weights)))


def test_the_channel_that_holds_the_grid_open() -> None:
    """Of a value that may be halved the loud one; the grid is then finer for the others."""
    high = np.ones(COUNT)
    high[4] = 8.0
    found = best_copies([value(high)], [rows(np.ones((3, COUNT)))], ALL, ALL, 1)
    assert found.doubled == found.halved == (5,)
    # The noise of seven channels is a quarter, of one what it was.
    parts = [RoundedValue(LABELS, np.zeros(COUNT), high, gains, np.square(high)) for gains in
             (np.where(high > 1, 0.0, 1.0), np.where(high > 1, 1.0, 0.0))]  # fmt: skip
    others, itself = (total_loss([part], np.zeros(COUNT + 1))[0] for part in parts)
    assert found.before - found.after == pytest.approx(others * 3 / 4)
    assert itself == pytest.approx(others / 7)


def test_columns_of_large_weights() -> None:
    weights = np.ones((3, COUNT))
    weights[:, 2] = 16.0
    found = best_copies([value(np.ones(COUNT))], [rows(weights)], ALL, ALL, 1)
    assert (found.doubled, found.halved) == ((3,), ())
    assert found.after < found.before


@pytest.mark.parametrize("seed", range(6))
def test_as_many_as_may_and_never_worse(seed: int) -> None:
    random = np.random.default_rng(seed)
    terms = [value(np.exp(random.normal(0, 1, COUNT)))], [rows(random.exponential(1, (5, COUNT)))]
    losses: list[float] = []
    for most in range(COUNT + 2):
        allowed = random.random(COUNT + 1) < 0.8
        found = best_copies(*terms, ALL, allowed, most)
        assert len(found.doubled) <= most and found.after <= found.before
        assert set(found.halved) <= set(found.doubled) & set(np.flatnonzero(allowed).tolist())
        losses.append(best_copies(*terms, ALL, ALL, most).after)
    assert losses == sorted(losses, reverse=True)


def test_nothing_may_be_there_twice() -> None:
    high = np.arange(1.0, COUNT + 1)
    found = best_copies([value(high)], [], NONE, ALL, 4)
    assert found.doubled == () and found.after == found.before

"""Ranges end where a function stops telling numbers apart."""

import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from qdialect.quantizer.profile.ranges import FLAT, Range, without_flat_tails

FUNCTIONS = {
    "hard_swish": lambda x: x * np.clip(x / 6 + 0.5, 0, 1),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "gelu": lambda x: x * np.vectorize(lambda v: 0.5 * (1 + math.erf(v / 2**0.5)))(x),
    "relu": lambda x: np.maximum(x, 0),
    "square": lambda x: x * x,
    "sine": np.sin,
}


@pytest.mark.parametrize("name", FUNCTIONS)
@given(low=st.floats(-50, 0), high=st.floats(0, 50), step=st.floats(1e-4, 1))
@example(low=-1.0, high=0.375, step=0.375)
def test_clipping_to_the_range_changes_little(name, low, high, step):
    function, found = FUNCTIONS[name], Range(low, high)
    less = without_flat_tails(function, found, step)
    assert low <= less.low <= 0 <= less.high <= high
    x = np.linspace(low, high, 999)
    moved = np.abs(function(np.clip(x, less.low, less.high)) - function(x)).max()
    # Between the points that were looked at a steep function may do a little more.
    assert moved <= FLAT * step + (high - low) / 4096 * 100


def test_what_is_flat_is_left_out():
    less = without_flat_tails(FUNCTIONS["hard_swish"], Range(-20.0, 10.0), 0.04)
    assert -3.05 < less.low < -2.9
    assert 9.9 < less.high <= 10
    less = without_flat_tails(FUNCTIONS["sigmoid"], Range(-30.0, 30.0), 1 / 255)
    assert 6 < less.high < 8
    assert less.low == pytest.approx(-less.high)


def test_zero_stays_inside_and_what_is_not_finite_is_left_alone():
    assert without_flat_tails(np.zeros_like, Range(-4.0, 4.0), 0.1) == Range(0.0, 0.0)
    assert without_flat_tails(np.log, Range(-1.0, 4.0), 0.1) == Range(-1.0, 4.0)
    assert without_flat_tails(np.sin, Range(-1.0, 1.0), 0.0) == Range(-1.0, 1.0)

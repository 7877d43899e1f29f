"""Counts are of all the data, and what is clipped is told from both sides."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qdialect.algebra.qparams import QParams
from qdialect.quantizer.profile.distribution import distribution
from qdialect.quantizer.profile.sketch import observe
from qdialect.report.histograms import BINS, of_distribution, of_values, range_of

numbers = st.lists(st.floats(-1e3, 1e3, width=32), min_size=1, max_size=50)


@settings(deadline=None)
@given(numbers, st.floats(-500, 0), st.floats(0, 500))
def test_values_and_a_profile_of_them_tell_the_same(
    data: list[float], low: float, high: float
) -> None:
    values = np.array(data, np.float32).astype(np.float64)
    seen = of_values("v", "u8", [values[:3], values[3:]], low, high)
    assert seen is not None and len(seen.counts) == BINS
    assert sum(seen.counts) == len(data)
    assert seen.below == np.mean(values < low) and seen.above == np.mean(values > high)
    assert seen.start <= min(low, values.min()) and seen.stop >= max(high, values.max())
    told = of_distribution("v", "u8", distribution(observe(values)), low, high)
    assert told is not None and sum(told.counts) == len(data)
    # A bin of the profile that an end of the range cuts is in it.
    assert told.below <= seen.below + 1e-9 and told.above <= seen.above + 1e-9


def test_nothing_has_no_histogram() -> None:
    assert of_values("v", "u8", [np.zeros((0,))], 0.0, 1.0) is None
    assert of_values("v", "u8", [np.array([np.nan, np.inf])], 0.0, 1.0) is None


@pytest.mark.parametrize(
    ("zero", "expected"), [(0, (0.0, 127.5)), (128, (-64.0, 63.5)), (255, (-127.5, 0.0))]
)
def test_a_range_is_what_codes_mean(zero: int, expected: tuple[float, float]) -> None:
    params = QParams.per_tensor("u8", 0.5, zero)
    assert range_of(params) == expected

"""Statistics are exact, bounded, and do not know how the data was split."""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from qdialect.quantizer.profile.distribution import distribution
from qdialect.quantizer.profile.sketch import HUGE, OCTAVES, ZERO, empty, observe, observe_rows

FLOATS = st.one_of(
    st.floats(width=32),
    st.sampled_from([0.0, -0.0, 1.0, -1e9, -np.inf, np.inf, np.nan, 1e-30, -3.4028235e38, HUGE]),
)
ARRAYS = hnp.arrays(np.float32, st.integers(0, 40), elements=FLOATS)


@given(ARRAYS, st.lists(st.integers(0, 40), max_size=4), st.randoms())
@settings(max_examples=200, deadline=None)
def test_split_and_order_do_not_matter(values: Any, cuts: list[int], random: Any) -> None:
    parts = [observe(part) for part in np.split(values, sorted(min(c, len(values)) for c in cuts))]
    random.shuffle(parts)
    assert reduce(lambda a, b: a.merge(b), parts, empty()) == observe(values)


@given(ARRAYS, ARRAYS, ARRAYS)
def test_merge_is_associative_and_commutative(a: Any, b: Any, c: Any) -> None:
    x, y, z = observe(a), observe(b), observe(c)
    assert x.merge(y).merge(z) == x.merge(y.merge(z))
    assert x.merge(y) == y.merge(x)
    assert x.merge(empty()) == x


@given(ARRAYS)
def test_every_value_is_counted_once_and_lies_in_its_bin(values: Any) -> None:
    sketch = observe(values)
    codes, counts = sketch.row_bins(0)
    finite = values[np.isfinite(values)].astype(np.float64)
    ordinary = finite[np.abs(finite) < HUGE]
    assert counts.sum() == len(finite)
    assert (sketch.nan[0], sketch.count[0]) == (np.isnan(values).sum(), len(values))
    assert sketch.low[0] == (values == -np.inf).sum()
    if len(ordinary):
        assert (sketch.minimum[0], sketch.maximum[0]) == (ordinary.min(), ordinary.max())
    found = 0
    small = ordinary[np.abs(ordinary) < 2.0**13]
    tops = {s: np.frexp(np.abs(small[small * s > 0]).max(initial=0))[1] - 1 for s in (-1, 1)}
    for sign, near, far, count in zip(
        *sketch.row_edges(0), counts[codes != ZERO].tolist(), strict=True
    ):
        low, high = sorted((sign * near, sign * far))
        inside = (finite > low) & (finite < high) | (finite == sign * near)
        assert inside.sum() == count
        found += count
        below = max(tops[sign] - (np.frexp(near)[1] - 1), 0)
        assert (far - near) / near <= [1 / 64, 1 / 16, 1 / 4, 1][min(below // 4, 3)]
    top = np.abs(ordinary).max(initial=0)
    lost = len(finite) - found
    assert lost == np.count_nonzero(
        np.abs(finite) < 2.0 ** max(np.frexp(top)[1] - 1 - OCTAVES, -126)
    )


@pytest.mark.parametrize("shape", [(1, 200_000), (7, 3000), (5, 0)])
def test_rows_are_the_rows(shape: tuple[int, int]) -> None:
    rng = np.random.default_rng(0)
    matrix = rng.normal(size=shape).astype(np.float32) * np.exp(rng.normal(size=(shape[0], 1)) * 4)
    rows = observe_rows(matrix)
    for row, line in enumerate(matrix):
        alone = observe(line)
        assert [a.tolist() for a in rows.row_bins(row)] == [a.tolist() for a in alone.row_bins(0)]
        assert rows.minimum[row] == alone.minimum[0]


def test_other_float_types() -> None:
    values = np.array([1.5, -2.25, 0.0])
    assert observe(values) == observe(values.astype(np.float16))
    assert observe(np.array([1e300])).high[0] == 1


MASKS = [-1e9, -np.inf, float(np.finfo(np.float32).min), -1e4, -65504.0, 1e9]


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("added", [False, True])
def test_masks_do_not_stretch(mask: float, added: bool) -> None:
    rng = np.random.default_rng(1)
    scores = np.asarray(rng.normal(size=5000) * 4, np.float32)
    masked = scores.copy()
    masked[::7] = masked[::7] + np.float32(mask) if added else mask
    kept = np.delete(scores, np.s_[::7])
    data = distribution(observe(masked))
    assert (data.minimum, data.maximum) == pytest.approx((kept.min(), kept.max()), rel=1 / 64)
    assert data.masked == len(scores[::7])


def test_two_masks_at_once() -> None:
    values = np.array([*np.linspace(-3, 5, 100), -1e9, -1e4, np.inf], np.float32)
    data = distribution(observe(values))
    assert (data.masked, data.minimum, data.maximum) == (3, pytest.approx(-3, rel=0.02), 5)


@pytest.mark.parametrize(
    "values",
    [[1500.0, 3.0, -2.0], [1e4, 300.0, 2.0], [20000.0, 1.0], [1e11 / 30**k for k in range(8)]],
)
def test_outliers_are_data(values: list[float]) -> None:
    data = distribution(observe(np.array(values, np.float32)))
    assert data.masked == 0
    assert data.maximum == pytest.approx(values[0], rel=1 / 64)


def test_nothing_but_masks() -> None:
    data = distribution(observe(np.array([-1e9, 0, -np.inf], np.float32)))
    assert (data.minimum, data.maximum, data.zeros, data.masked) == (0, 0, 1, 2)

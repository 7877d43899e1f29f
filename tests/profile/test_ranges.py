"""Ranges and qparams chosen from statistics."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from qdialect.quantizer.profile.distribution import distribution
from qdialect.quantizer.profile.ranges import (
    METHODS,
    MOST_CLIPPED,
    Levels,
    Method,
    Range,
    RangeChoice,
    choose_range,
    divergence,
    max_of_channels,
    mean_squared_error,
    with_room_for_masks,
)
from qdialect.quantizer.profile.scheme import (
    DEGENERATE,
    SYMMETRIES,
    TINY,
    Scheme,
    Symmetry,
    array_qparams,
    parameters,
)
from qdialect.quantizer.profile.sketch import observe

DATA = hnp.arrays(np.float32, st.integers(1, 60), elements=st.floats(-8000, 8000, width=32))
STORAGES = ["i8", "u8", "i16", "u16", "i4", "u4", "i2", "u2"]


def heavy(seed: int = 0) -> Any:
    """A bell with a few outliers eight times as far out."""
    values = np.random.default_rng(seed).normal(size=20_000)
    values[:5] *= 8
    return values.astype(np.float32)


def chosen(values: Any, method: Method, **more: Any) -> Range:
    return choose_range(distribution(observe(values)), RangeChoice(method, **more))


@given(DATA, st.sampled_from(METHODS), st.booleans())
@settings(max_examples=150, deadline=None)
def test_zero_is_inside_and_nothing_is_invented(values: Any, method: Method, both: bool) -> None:
    found = chosen(values, method, levels=Levels(256, both))
    reach = float(np.abs(values).max())
    assert found.low <= 0 <= found.high
    if method == "minmax":
        assert (found.low, found.high) == (min(values.min(), 0), max(values.max(), 0))
    assert max(-found.low, found.high) <= reach
    assert found.degenerate == (reach == 0)


@given(DATA, st.sampled_from(["mse", "entropy"]), st.sampled_from([4, 16, 256]), st.booleans())
@settings(max_examples=60, deadline=None)
def test_search_is_never_worse_than_minmax(
    values: Any, method: Method, count: int, symmetric: bool
) -> None:
    levels = Levels(count, symmetric)
    data = distribution(observe(values))
    found, whole = (choose_range(data, RangeChoice(m, levels=levels)) for m in (method, "minmax"))
    if whole.degenerate:
        return
    measure = mean_squared_error if method == "mse" else divergence
    assert measure(data, found.low, found.high, levels) <= measure(
        data, whole.low, whole.high, levels
    )


@pytest.mark.parametrize("method", ["mse", "entropy", "percentile"])
@pytest.mark.parametrize("symmetric", [False, True])
def test_outliers_are_cut(method: Method, symmetric: bool) -> None:
    values = heavy()
    found = chosen(values, method, percentile=99.9, levels=Levels(16, symmetric))
    assert 1.5 < found.high < 0.7 * np.abs(values).max()
    assert found.low < -1.5
    if symmetric and method != "percentile":
        assert found.low == -found.high


def test_entropy_depends_on_the_number_of_levels() -> None:
    few, many = (chosen(heavy(), "entropy", levels=Levels(n, True)).high for n in (16, 65536))
    assert few < many


@pytest.mark.parametrize("size", [1, 2, 10, 100, 600])
def test_entropy_gives_up_no_data_however_little_there_is(size: int) -> None:
    for seed in range(10):
        rng = np.random.default_rng(seed)
        values = rng.normal(size=size) * np.exp(rng.normal(size=size) * 2)
        found = chosen(values, "entropy", levels=Levels(256, seed % 2 == 1))
        lost = (values < found.low * (1 + 1 / 64)) | (values > found.high * (1 + 1 / 64))
        assert lost.sum() <= MOST_CLIPPED * size


def test_entropy_of_what_saturates() -> None:
    """Half of the data is the upper end of a clip; KL on clipped histograms cuts it off."""
    values = np.minimum(np.abs(np.random.default_rng(0).normal(size=5000)) * 9, 6)
    assert chosen(values, "entropy").high == 6


def test_entropy_keeps_data_far_from_zero() -> None:
    values = np.random.default_rng(0).uniform(5, 10, 20_000).astype(np.float32)
    for symmetric in (False, True):
        found = chosen(values, "entropy", levels=Levels(256, symmetric))
        assert found.low <= 0
        assert found.high > 9.5


def test_mse_estimate_is_the_error() -> None:
    values = heavy()
    data = distribution(observe(values))
    step = 20 / 255
    zero = round(10 / step)
    codes = np.clip(np.rint(values / step) + zero, 0, 255)
    error = np.square(values.astype(np.float64) - (codes - zero) * step).mean()
    assert mean_squared_error(data, -10, 10, Levels()) == pytest.approx(error, rel=0.02)


def test_mse_is_better_than_minmax_on_the_data_itself() -> None:
    values = heavy(3)
    errors = []
    for method in ("minmax", "mse"):
        scheme = Scheme.of("u4")
        found = parameters(chosen(values, method, levels=scheme.levels), scheme)
        codes = np.clip(np.rint(values / found.scale) + found.zero_point, 0, 15)
        errors.append(np.square(values - (codes - found.zero_point) * found.scale).mean())
    assert errors[1] < 0.5 * errors[0]


@given(DATA, st.floats(50, 100))
def test_percentile_leaves_out_no_more_than_asked(values: Any, percentile: float) -> None:
    found = chosen(values, "percentile", percentile=percentile)
    allowed = len(values) * (1 - percentile / 100) / 2 + 1e-6
    near_zero = float(np.abs(values).max()) * 2.0**-23
    assert np.count_nonzero(values < found.low - near_zero) <= allowed
    assert np.count_nonzero(values > found.high + near_zero) <= allowed


def test_moving_average_goes_by_sample_order() -> None:
    values = np.array([-8, 16], np.float32)
    samples = {2: (-8.0, 16.0), 0: (-2.0, 4.0), 1: (0.0, 8.0)}
    data = distribution(observe(values))
    found = choose_range(data, RangeChoice("average", momentum=0.5), samples)
    assert (found.low, found.high) == (-4.5, 11.0)
    assert choose_range(data, RangeChoice("average"), {}) == choose_range(data, RangeChoice())


def test_masks_do_not_move_the_average() -> None:
    values = np.array([-8, 16, *np.linspace(0, 1, 50), -1e4], np.float32)
    found = choose_range(
        distribution(observe(values)), RangeChoice("average"), {0: (-1e4, 16.0), 1: (-8.0, 4.0)}
    )
    assert found.low == pytest.approx(-8, rel=0.02)


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ([], "no-data"),
        ([0, 0], "all-zero"),
        ([-1e9, 0], "only-masks"),
        ([np.nan, 1, 2], "nan"),
        ([3, 3], "constant"),
        ([-np.inf, 1, 2], "masked"),
        ([-np.inf], "only-masks"),
    ],
)
@pytest.mark.parametrize("method", METHODS)
def test_reasons(values: list[float], reason: str, method: Method) -> None:
    assert chosen(np.array(values, np.float32), method).reasons == (reason,)


def test_max_of_channels() -> None:
    found = max_of_channels([Range(-1, 2), Range(-3, 1, ("constant",))])
    assert found == Range(-3, 2, ("constant",))


RANGES = st.tuples(*[st.floats(-(2.0**100), 2.0**100)] * 2)


@given(RANGES, st.sampled_from(STORAGES), st.sampled_from(SYMMETRIES))
@settings(max_examples=400)
def test_parameters_are_valid(ends: tuple[float, float], storage: str, symmetry: Symmetry) -> None:
    low, high = min(*ends, 0.0), max(*ends, 0.0)
    scheme = Scheme.of(storage, symmetry)
    found = parameters(Range(low, high), scheme)
    least, most = scheme.storage.min, scheme.storage.max
    assert least <= found.zero_point <= most
    assert found.scale > 0
    assert np.float32(found.scale) == found.scale
    if low == high:
        assert (found.scale, found.reasons) == (1.0, (DEGENERATE,))
        return
    if TINY in found.reasons:
        return
    # Both ends are within half a step of what can be stored.
    slack = found.scale * (0.5 + 1e-5)
    assert (least - found.zero_point) * found.scale <= low + slack
    assert (most - found.zero_point) * found.scale >= high - slack
    if symmetry == "power-of-two":
        assert np.frexp(found.scale)[0] == 0.5
    if symmetry != "asymmetric" and scheme.storage.signed:
        assert found.zero_point == 0
    if symmetry == "symmetric":
        mirrored = parameters(Range(-high, -low), scheme)
        assert not scheme.storage.signed or mirrored.scale == found.scale


def test_symmetric_without_sign() -> None:
    scheme = Scheme.of("u8", "symmetric")
    assert parameters(Range(0, 25.5), scheme).zero_point == 0
    assert parameters(Range(-1, 12.7), scheme) == parameters(Range(-12.7, 12.7), scheme)
    assert parameters(Range(-1, 12.7), scheme).zero_point == 128


def test_tiny_ranges_get_a_scale() -> None:
    found = parameters(Range(0, 1e-44), Scheme.of("i8"))
    assert (found.scale, found.reasons) == (2.0**-126, (TINY,))


def test_arrays_per_tensor_axis_and_block() -> None:
    weight = np.arange(-12, 12, dtype=np.float32).reshape(2, 3, 4)
    scheme = Scheme.of("i4", "symmetric")
    whole, _ = array_qparams(weight, scheme)
    assert whole.scale == np.float32(12 / 7)
    axis, _ = array_qparams(weight, scheme, [(1, 1)])
    expected = np.abs(weight).max(axis=(0, 2)).astype(np.float32) / np.float32(7)
    assert axis.axis == 1
    assert axis.scale_array().tolist() == expected.tolist()
    block, _ = array_qparams(weight, scheme, [(0, 1), (2, 2)])
    assert (block.grid, block.blocks) == ((2, 1, 2), ((0, 1), (2, 2)))
    corner = np.abs(weight[1, :, 2:]).max() / 7
    assert block.scale_list()[3] == np.float32(corner)
    searched, _ = array_qparams(weight, scheme, [(1, 1)], RangeChoice("mse"))
    assert (searched.scale_array() <= axis.scale_array()).all()
    with pytest.raises(ValueError, match="do not divide"):
        array_qparams(weight, scheme, [(2, 3)])


@given(
    st.integers(1, 5000),
    st.sampled_from([16, 256, 65536]),
    st.floats(-50, 0),
    st.floats(0, 50),
    st.floats(0, 1),
)
def test_masks_are_less_than_a_step_of_a_softmax(
    count: int, levels: int, low: float, high: float, largest: float
) -> None:
    found = with_room_for_masks(Range(low, high, ("masked",)), count, levels)
    assert found.high == high and found.is_masked
    best = low + largest * (high - low)
    scores = np.array([best] + [found.low] * (count - 1))
    shares = np.exp(scores - best)
    assert shares[1:].sum() / shares.sum() <= 1 / (levels - 1) * (1 + 1e-9)

"""Ranges of tensors and channels from the entries of a profile."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from qdialect.errors import InputError
from qdialect.quantizer.profile.collector import Collector
from qdialect.quantizer.profile.distribution import distribution, image
from qdialect.quantizer.profile.entries import channel_ranges, tensor_range
from qdialect.quantizer.profile.ranges import Range, RangeChoice
from qdialect.quantizer.profile.record import Channels, Entry, Profile, Settings
from qdialect.quantizer.profile.sketch import observe


def observed(values: Any, settings: Settings) -> Entry:
    collector = Collector(Profile("digest", settings))
    collector.add(0, [(("value",), values)])
    return collector.profile().entries["value"]


def entry(channels: Channels) -> Entry:
    rng = np.random.default_rng(0)
    values = rng.normal(size=(2, 3, 50)).astype(np.float32) * np.float32([[[1], [5], [0]]])
    values[0, 0, 0] = -np.inf
    return observed(values, Settings("numpy", channels))


@pytest.mark.parametrize("channels", ["range", "bins"])
def test_channels(channels: Channels) -> None:
    found = entry(channels)
    ranges = channel_ranges(found, RangeChoice())
    whole = tensor_range(found, RangeChoice())
    assert tensor_range(found, RangeChoice(), by_channel=True) == Range(
        whole.low, whole.high, tuple(dict.fromkeys(r for c in ranges for r in c.reasons))
    )
    assert (ranges[1].low, ranges[1].high) == (whole.low, whole.high)
    assert ranges[0].high < ranges[1].high
    assert ranges[0].reasons == ("masked",)
    assert ranges[2].degenerate


def test_max_of_channel_keeps_what_a_percentile_of_the_tensor_cuts() -> None:
    values = np.zeros((1, 10, 1000), np.float32)
    values[0, 0] = np.linspace(-1, 9, 1000)
    values[0, 1:] = np.linspace(-1, 1, 1000)
    found = observed(values, Settings("numpy", "bins"))
    choice = RangeChoice("percentile", percentile=90)
    assert tensor_range(found, choice).high < 5
    assert tensor_range(found, choice, by_channel=True).high > 8


@pytest.mark.parametrize(
    ("channels", "choice", "words"),
    [
        ("none", RangeChoice(), "has no channels"),
        ("range", RangeChoice("mse"), "no bins of channels"),
        ("bins", RangeChoice("average"), "no moving average"),
    ],
)
def test_what_a_profile_lacks(channels: Channels, choice: RangeChoice, words: str) -> None:
    with pytest.raises(InputError, match=words):
        channel_ranges(entry(channels), choice)


def test_channels_with_nothing_in_them() -> None:
    values = np.full((1, 2, 3), np.nan, np.float32)
    for channels in ("range", "bins"):
        found = observed(values, Settings("numpy", channels))
        assert all("no-data" in r.reasons for r in channel_ranges(found, RangeChoice()))
    assert tensor_range(found, RangeChoice()).reasons == ("no-data", "nan")
    scalar = observed(np.float32(2.0).reshape(()), Settings("numpy", "bins"))
    assert scalar.channels is None
    vector = observed(np.float32([1, 2]), Settings("numpy", "bins"))
    assert len(channel_ranges(vector, RangeChoice())) == 2


@pytest.mark.parametrize(
    "function", [lambda x: 1 / x, np.exp, lambda x: -x, lambda x: x * 0 + 2, np.sqrt]
)
def test_the_image_of_a_distribution_holds_what_a_function_makes(function: Any) -> None:
    random = np.random.default_rng(4)
    for data in (random.uniform(0.25, 9, 400), random.uniform(-9, -0.25, 400), np.zeros(3)):
        numbers = data.astype("f4")
        made = image(distribution(observe(numbers)), function)
        with np.errstate(all="ignore"):
            values = function(numbers.astype("f8"))
        values = values[np.isfinite(values)]
        assert made.size == len(values)
        assert (made.left <= made.right).all() and (np.diff(made.left) >= 0).all()
        for value in values[values != 0]:
            inside = (made.left <= value) & (value <= made.right)
            assert inside.any() and made.minimum <= value <= made.maximum

"""Counting in place gives what a sketch of everything gives."""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np
import pytest

from qdialect.quantizer.profile.collector import Collector, Tally
from qdialect.quantizer.profile.file import profile_text
from qdialect.quantizer.profile.record import Entry, Profile
from qdialect.quantizer.profile.sketch import empty, observe, rounded


def pieces(kind: str, rng: np.random.Generator) -> list[Any]:
    """Vectors whose magnitudes move about."""
    found: list[Any] = []
    for _ in range(6):
        scale = np.float32(2.0 ** rng.integers(-60, 20))
        values = (rng.normal(size=rng.integers(0, 400)) * scale).astype(np.float32)
        if kind == "relu":
            values = np.maximum(values, 0)
        if kind == "zeros":
            values *= 0
        if kind == "small":
            values = (values * np.float32(1e-38)).astype(np.float32)
        if kind == "odd" and len(values) > 9:
            values[rng.integers(0, 9, 3)] = rng.choice([np.nan, np.inf, -np.inf, -1e9, 3e38], 3)
        found.append(values)
    return [*found, np.ones(70_000, np.float32) * np.float32(1.5)]


@pytest.mark.parametrize("kind", ["plain", "relu", "zeros", "small", "odd"])
@pytest.mark.parametrize("seed", range(8))
def test_tally_is_the_sketch_of_everything(kind: str, seed: int) -> None:
    found = pieces(kind, np.random.default_rng(seed))
    wanted = observe(np.concatenate(found))
    whole, first, second = Tally(), Tally(), Tally()
    for index, values in enumerate(found):
        least, most = whole.add(values)
        alone = observe(values)
        assert (least, most) == (alone.minimum[0], alone.maximum[0])
        (first if index % 2 else second).add(values)
    assert whole.sketch() == wanted
    first.merge(second)
    assert first.sketch() == wanted


def test_nothing() -> None:
    assert Tally().sketch() == empty()


def test_small_values_wait_and_count_the_same() -> None:
    rng = np.random.default_rng(3)
    samples = [(rng.normal(size=size) * 9).astype(np.float32) for size in (5, 40_000, 1, 0, 30)]
    samples[2][0] = np.nan
    collector = Collector(Profile("d"))
    parts: list[Profile] = []
    for index, values in enumerate(samples):
        collector.add(index, [(("a", "b"), values)])
        single = observe(values)
        low, high = float(single.minimum[0]), float(single.maximum[0])
        entry = Entry(single, None, {index: (rounded(low), rounded(high))} if low <= high else {})
        parts.append(Profile("d", samples=((index, index + 1),), entries={"a": entry, "b": entry}))
    assert profile_text(collector.profile()) == profile_text(reduce(Profile.merge, parts))
    assert list(collector.profile().entries["a"].samples) == [0, 1, 4]

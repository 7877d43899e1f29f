"""Rotations keep lengths, and make of one large channel many small ones."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qdialect.algebra.rotations import hadamard, random_rotation, rotation_keeping_ones


@pytest.mark.parametrize("size", [1, 2, 4, 32, 256])
def test_matrices_of_hadamard(size: int) -> None:
    made = hadamard(size)
    np.testing.assert_allclose(np.abs(made), size**-0.5)
    np.testing.assert_allclose(made @ made, np.eye(size), atol=1e-12)


@pytest.mark.parametrize("size", [0, 3, 12, -4])
def test_there_is_none_of_other_sizes(size: int) -> None:
    with pytest.raises(ValueError, match="power of two"):
        hadamard(size)


@given(st.integers(1, 96), st.integers(0, 2**32 - 1))
@settings(max_examples=40, deadline=None)
def test_rotations_are_orthogonal(size: int, seed: int) -> None:
    made = random_rotation(size, np.random.default_rng(seed))
    np.testing.assert_allclose(made @ made.T, np.eye(size), atol=1e-12)
    assert np.array_equal(made, random_rotation(size, np.random.default_rng(seed)))


@given(st.integers(1, 96), st.integers(0, 2**32 - 1))
@settings(max_examples=40, deadline=None)
def test_rotations_that_keep_ones(size: int, seed: int) -> None:
    made = rotation_keeping_ones(size, np.random.default_rng(seed))
    np.testing.assert_allclose(made @ made.T, np.eye(size), atol=1e-11)
    np.testing.assert_allclose(made.sum(axis=0), 1, atol=1e-11)
    np.testing.assert_allclose(made.sum(axis=1), 1, atol=1e-11)


@given(st.sampled_from([64, 128, 256]), st.integers(0, 2**32 - 1))
@settings(max_examples=20, deadline=None)
def test_they_spread_one_large_channel_too(size: int, seed: int) -> None:
    """All columns but the first have elements of nearly one size; that has sums of random signs."""
    made = np.abs(rotation_keeping_ones(size, np.random.default_rng(seed))) * size**0.5
    assert made[:, 1:].max() < 2
    assert made[:, 0].max() < 6


@given(st.sampled_from([16, 24, 64, 96, 160]), st.integers(0, 2**32 - 1))
@settings(max_examples=20, deadline=None)
def test_one_large_channel_is_spread(size: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    made, channel = random_rotation(size, random), int(random.integers(size))
    power = size & -size
    assert np.abs(made[:, channel]).max() <= power**-0.5 + 1e-12
    assert (made[:, channel] != 0).all()

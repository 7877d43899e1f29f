"""Orders of channels for weights in blocks."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from qdialect.algebra.channel_orders import sizes_of_channels, sorted_within


def loss(weights: NDArray[np.float64], energies: NDArray[np.float64], block: int) -> float:
    """What rows [rows, channels] lose on a grid for each block, as the module states it."""
    parts = np.abs(weights).reshape(len(weights), -1, block)
    return float(
        (np.square(parts.max(axis=2)).sum(axis=0) * energies.reshape(-1, block).sum(1)).sum()
    )


@pytest.mark.parametrize("seed", range(5))
def test_some_order_undoes_a_mixture(seed: int) -> None:
    """Of channels of two sizes in any order, large ones come to lie together, and no better order
    is found by chance."""
    random = np.random.default_rng(seed)
    sizes = random.permutation(np.repeat([1.0, 16.0], 16))
    weights, energies = random.normal(size=(64, 32)) * sizes, np.exp(random.normal(0, 0.1, 32))
    squares = np.square(weights)
    losses = [
        loss(weights[:, order], energies[order], 8)
        for size in sizes_of_channels(squares.sum(axis=0), squares.max(axis=0), energies)
        for (order,) in [sorted_within(size, [range(32)])]
    ]
    chance = [loss(weights[:, o], energies[o], 8) for o in map(random.permutation, [32] * 200)]
    assert min(losses) < min(chance) < 1.2 * loss(weights, energies, 8)
    assert min(losses) < 0.85 * loss(weights, energies, 8)


def test_channels_stay_in_their_blocks() -> None:
    sizes = np.array([0.0, 3.0, 1.0, 2.0, -1.0, 4.0])
    orders = sorted_within(sizes, [(1, 2, 3), (4, 5)])
    assert [order.tolist() for order in orders] == [[0, 2, 1], [1, 0]]


def test_channels_of_nothing_have_a_size() -> None:
    zeros = np.zeros(4)
    assert all(np.isfinite(size).all() for size in sizes_of_channels(zeros, zeros, zeros))

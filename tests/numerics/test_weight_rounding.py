"""Codes of least error behind a contraction: never worse than nearest, near the best there are."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray

from qdialect.algebra.weight_rounding import (
    DAMPINGS,
    Grid,
    best_damping,
    damped,
    descend,
    fit_steps,
    gptq,
    loss,
    nearest,
)

Array = NDArray[np.float64]
LEVELS = (-1.0, -0.7, -0.5, -0.3, -0.1, 0.0, 0.2, 0.45, 1.0)


def correlated(random: np.random.Generator, *shape: int) -> Array:
    """Second moments of operands behind a relu that go together."""
    *front, count = shape
    mixed = random.normal(size=(*front, 3 * count, count)) @ random.normal(
        size=(*front, count, count)
    )
    x = np.maximum(mixed + 0.5, 0)
    return damped(np.swapaxes(x, -1, -2) @ x / (3 * count))


def grids(random: np.random.Generator, rows: Array) -> dict[str, Grid]:
    """One of each kind for rows."""
    largest = np.abs(rows).max(axis=-1, keepdims=True)
    blocks = np.repeat(np.abs(rows[..., ::2]), 2, axis=-1)[..., : rows.shape[-1]] + 0.1
    zeros: Array = np.rint(random.uniform(3, 12, size=np.shape(largest)))
    return {
        "per row": Grid(largest / 7, -7, 7),
        "one": Grid(np.array(largest.max() / 3), -3, 3),
        "blocks": Grid(blocks / 3, -3, 3),
        "zero points": Grid(largest / 7, 0, 15, zeros),
        "two bits": Grid(largest, -1, 1),
        "levels": Grid.of_levels(largest, LEVELS),
    }


def lost(rows: Array, grid: Grid, codes: NDArray[np.int64], hessian: Array) -> Array:
    return loss(grid.whole(rows.shape).numbers(codes) - rows, hessian)


def test_few_samples_are_damped_more_and_lose_less_on_others() -> None:
    random, count = np.random.default_rng(4), 48
    mixed = random.normal(size=(count, count)) * np.linspace(0.1, 2, count)
    rows, truth = random.normal(size=(20, count)), mixed.T @ mixed
    grid = Grid(np.abs(rows).max(axis=1, keepdims=True) / 7, -7, 7)
    found = dict[int, float]()
    for size in (24, 20_000):
        halves = [x.T @ x / size for x in random.normal(size=(2, size, count)) @ mixed]
        found[size] = best_damping(rows, grid, (halves[0], halves[1]))
        little, chosen = (
            lost(rows, grid, gptq(rows, grid, damped(np.mean(halves, axis=0), each)), truth).sum()
            for each in (0.001, found[size])
        )
        assert chosen < (0.9 if size == 24 else 1.05) * little
    assert found[24] > found[20_000] == min(DAMPINGS) / 2


@pytest.mark.parametrize("kind", ["per row", "one", "blocks", "zero points", "two bits", "levels"])
@pytest.mark.parametrize("shape", [(5, 7), (4, 150), (6, 1, 9), (2, 3, 70)])
def test_never_worse_than_nearest(kind: str, shape: tuple[int, ...]) -> None:
    random = np.random.default_rng(len(shape) * shape[-1])
    rows = random.normal(size=shape)
    hessian = correlated(random, *shape[:-2], shape[-1])
    grid = grids(random, rows)[kind]
    first, second = nearest(rows, grid), gptq(rows, grid, hessian)
    third, fourth = descend(rows, grid, hessian), descend(rows, grid, hessian, first)
    losses = [lost(rows, grid, codes, hessian) for codes in (first, second, third, fourth)]
    slack = 1 + 1e-9
    assert (losses[1] <= losses[0] * slack).all() and losses[1].sum() < losses[0].sum()
    assert (losses[2] <= losses[1] * slack).all()
    assert (losses[3] <= losses[0] * slack).all() and losses[3].sum() < losses[0].sum()
    for codes in (first, second, third, fourth):
        assert codes.dtype == np.int64
        assert codes.min() >= grid.low and codes.max() <= grid.high


def test_near_the_best_there_is() -> None:
    random = np.random.default_rng(3)
    factors: list[float] = []
    for _ in range(30):
        rows, hessian = random.normal(size=(1, 4)), correlated(random, 4)
        grid = Grid(np.abs(rows).max(axis=1, keepdims=True) / 2, -2, 2)
        every = np.array(list(product(range(-2, 3), repeat=4)))
        best = lost(rows, grid, every, hessian).min()
        assert best > 0
        factors.append(float(lost(rows, grid, descend(rows, grid, hessian), hessian)[0] / best))
    assert min(factors) >= 1 - 1e-9 and np.median(factors) < 1.01
    assert np.mean(factors) < 1.25 and max(factors) < 4


@pytest.mark.parametrize("kind", ["per row", "blocks", "levels"])
def test_nearest_is_exact_where_operands_are_unrelated(kind: str) -> None:
    random = np.random.default_rng(5)
    rows, hessian = random.normal(size=(6, 80)), np.diag(random.uniform(0, 4, 80))
    grid = grids(random, rows)[kind]
    expected = nearest(rows, grid)
    assert (gptq(rows, grid, damped(hessian)) == expected).all()
    assert (descend(rows, grid, hessian, expected) == expected).all()


def test_descent_ends_where_no_single_change_helps() -> None:
    random = np.random.default_rng(8)
    rows, hessian = random.normal(size=(3, 12)), correlated(random, 12)
    grid = Grid(np.array(0.7), -3, 3)
    codes = descend(rows, grid, hessian)
    least = lost(rows, grid, codes, hessian)
    for column in range(12):
        for code in range(-3, 4):
            other = codes.copy()
            other[:, column] = code
            assert (lost(rows, grid, other, hessian) >= least * (1 - 1e-9)).all()


def test_operands_that_are_always_zero_change_nothing() -> None:
    random = np.random.default_rng(9)
    rows, hessian = random.normal(size=(3, 8)), np.zeros((8, 8))
    grid = Grid(np.array(0.3), -7, 7)
    assert (gptq(rows, grid, damped(hessian)) == nearest(rows, grid)).all()
    assert (descend(rows, grid, hessian, nearest(rows, grid)) == nearest(rows, grid)).all()


@pytest.mark.parametrize("block", [0, 8])
def test_steps_of_less_loss(block: int) -> None:
    random = np.random.default_rng(11)
    rows, hessian = random.normal(size=(5, 32)) ** 3, correlated(random, 32)
    blocks = np.abs(rows).reshape(5, -1, block or 32).max(axis=-1)
    first = Grid(np.repeat(blocks, block or 32, axis=-1) / 3, -3, 3)
    found = fit_steps(rows, first, hessian, block)
    factors = (found.steps / first.steps).reshape(5, -1, block or 32)
    assert (factors == factors[..., :1]).all() and (factors <= 1).all() and (factors < 1).any()
    before, after = (lost(rows, g, nearest(rows, g), hessian) for g in (first, found))
    assert after.sum() < before.sum()
    if not block:
        assert (after <= before).all()
    halves = fit_steps(rows, first, hessian, block, expressed=lambda s: s.astype("f2").astype("f8"))
    assert (halves.steps == halves.steps.astype("f2")).all()


def test_blocks_that_do_not_divide_the_columns() -> None:
    with pytest.raises(ValueError, match="30 columns are no blocks of 8"):
        fit_steps(np.ones((2, 30)), Grid(np.array(1.0), -1, 1), np.eye(30), 8)

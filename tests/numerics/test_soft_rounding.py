"""AdaRound: slopes are those of the functions, codes never worse than those it starts from."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray

from qdialect.algebra.soft_rounding import (
    Curve,
    Expected,
    SoftCodes,
    lower_codes,
    push,
    rectified,
    sharpness,
    softly_rounded,
)
from qdialect.algebra.weight_rounding import Grid, damped, gptq, nearest, shifted

Array = NDArray[np.float64]


def problem(
    random: np.random.Generator, shape: tuple[int, int, int], positions: int, curve: Curve | None
) -> tuple[Array, Grid, Expected, Array]:
    """Rows, a grid, what they are to give, and the second moments, of operands that go together."""
    groups, _, depth = shape
    mixed = random.normal(size=(groups, positions, depth)) @ random.normal(
        size=(groups, depth, depth)
    )
    x = np.maximum(mixed + 0.5, 0)
    rows = random.normal(size=shape)
    grid = Grid(np.abs(rows).max(axis=-1, keepdims=True) / 3, -3, 3)
    offsets = random.normal(size=(groups, 1, shape[1]))
    results = (x @ rows.swapaxes(1, 2) + offsets).astype(np.float32)
    if curve is not None:
        results, _ = curve(results)
    expected = Expected(x.astype(np.float32), results, offsets.astype(np.float32), curve)
    return rows, grid, expected, damped(x.swapaxes(1, 2) @ x / positions)


RELU = Curve(0.0, 40.0, np.array([0, 40], np.float32))
POINTS = np.linspace(-4, 4, 257)
GELU = Curve(-4.0, 4.0, (POINTS / (1 + np.exp(-1.7 * POINTS))).astype(np.float32))


@pytest.mark.parametrize("curve", [None, RELU, GELU], ids=["none", "relu", "gelu"])
@pytest.mark.parametrize("shape", [(1, 5, 20), (6, 1, 9), (2, 3, 33)])
@pytest.mark.parametrize("start", ["nearest", "gptq"])
def test_never_worse_than_the_start(
    start: str, shape: tuple[int, int, int], curve: Curve | None
) -> None:
    random = np.random.default_rng(sum(shape))
    rows, grid, expected, hessian = problem(random, shape, 300, curve)
    before = nearest(rows, grid) if start == "nearest" else gptq(rows, grid, hessian)
    found = softly_rounded(rows, grid, expected, before, steps=300)
    whole = grid.whole(rows.shape)
    losses = [expected.loss(whole.numbers(codes)) for codes in (before, found)]
    assert (losses[1] <= losses[0]).all()
    assert start == "gptq" or losses[1].sum() < 0.97 * losses[0].sum()
    assert found.dtype == np.int64 and found.min() >= -3 and found.max() <= 3
    assert np.array_equal(found, softly_rounded(rows, grid, expected, before, steps=300))


@pytest.mark.parametrize("curve", [None, RELU], ids=["none", "relu"])
def test_near_the_best_of_all_roundings(curve: Curve | None) -> None:
    random, excess = np.random.default_rng(2), list[float]()
    for _ in range(8):
        rows, grid, expected, _ = problem(random, (1, 1, 6), 200, curve)
        whole = grid.whole(rows.shape)
        floors = np.clip(np.floor(rows / whole.steps), -3, 2)
        every = [floors + np.array(up) for up in product((0, 1), repeat=6)]
        best = min(float(expected.loss(whole.numbers(codes.astype(int)))[0, 0]) for codes in every)
        found = softly_rounded(rows, grid, expected, nearest(rows, grid))
        excess.append(float(expected.loss(whole.numbers(found))[0, 0]) / best)
    assert np.median(excess) < 1.05 and np.mean(excess) < 1.5


@pytest.mark.parametrize("curve", [RELU, GELU], ids=["relu", "gelu"])
def test_slopes_of_curves(curve: Curve) -> None:
    x = np.random.default_rng(0).uniform(-6, 42, 400).astype(np.float32)
    step = np.float32(1e-2)
    values, slopes = curve(x)
    above, below = curve(x + step)[0], curve(x - step)[0]
    near = np.abs((above - below) / (2 * step) - slopes)
    # Where it bends slopes are of one side.
    assert np.quantile(near, 0.9) < 2e-2 and near.max() < 1.1
    assert values.min() >= curve.values.min() and values.max() <= curve.values.max()


def test_slopes_of_the_sigmoid_and_the_push() -> None:
    v = np.linspace(-4, 4, 81).astype(np.float32)
    soft, slope = rectified(v)
    assert soft[0] == 0 and soft[-1] == 1 and slope[0] == slope[-1] == 0
    assert np.allclose(np.gradient(soft, v)[18:-18], slope[18:-18], atol=0.01)
    h = np.linspace(0.05, 0.95, 91)
    for done in (0.0, 0.5, 1.0):
        power = sharpness(done)
        expected = np.gradient(1 - np.abs(2 * h - 1) ** power, h)
        assert np.allclose(push(h.astype("f4"), power)[2:-2], expected[2:-2], atol=0.3, rtol=0.1)
    assert sharpness(0) == 20 and sharpness(1) == 2


def test_rows_for_other_operands_are_those_of_least_squares() -> None:
    random = np.random.default_rng(4)
    x = random.normal(size=(2, 7, 400))
    made = x + random.normal(0, 0.3, x.shape)
    rows = random.normal(size=(2, 3, 7))
    hessian, cross = (a @ made.swapaxes(1, 2) / 400 for a in (made, x))
    found = shifted(rows, hessian, cross, 0.0)
    for group in range(2):
        # What is left is orthogonal to what is made.
        left = rows[group] @ x[group] - found[group] @ made[group]
        assert np.allclose(left @ made[group].T, 0, atol=1e-9)
    # Where nothing is lost above, or as it is drawn there, rows stay what they are.
    same = x @ x.swapaxes(1, 2) / 400
    assert np.allclose(shifted(rows, same, same), rows)
    assert np.allclose(shifted(rows, hessian, cross, 1e9), rows, atol=1e-6)


def test_a_code_of_the_start_is_one_of_the_two() -> None:
    random = np.random.default_rng(0)
    exact = random.uniform(-12, 12, (40, 40))
    start = np.clip(np.rint(exact) + random.integers(-2, 3, exact.shape), -7, 7).astype(np.int64)
    floors = lower_codes(exact, start, -7, 7)
    assert np.all((start == floors) | (start == floors + 1))
    assert floors.min() >= -7 and floors.max() <= 6
    # The other is on the other side of the number, where it is on the grid.
    beside = (np.abs(start - exact) < 1) & (np.abs(exact) < 6)
    assert beside.any() and np.all(((floors <= exact) & (exact <= floors + 1))[beside])


def test_soft_codes_go_where_slopes_say_and_come_to_an_end() -> None:
    random = np.random.default_rng(1)
    floors, steps = random.integers(-7, 7, (5, 6)).astype(np.float64), random.uniform(1, 2, (5, 6))
    up = random.random((5, 6)) < 0.5
    soft = SoftCodes(floors, np.full((5, 6), 0.5), steps, 0.0)
    assert np.allclose(soft.numbers(), (floors + 0.5) * steps, atol=1e-5)
    for step in range(200):
        soft.descend(np.where(up, -9, 9).astype(np.float32), step / 200)
    assert np.array_equal(soft.codes(), floors + up)
    assert np.allclose(soft.numbers(), (floors + up) * steps, atol=1e-5)

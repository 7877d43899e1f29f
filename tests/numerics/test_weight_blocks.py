"""Steps and zero points of weights in blocks."""

# pyright: basic

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from qdialect.algebra.float_text import round_to_format
from qdialect.algebra.qparams.levels import NF4
from qdialect.algebra.weight_blocks import SCALE_TYPES, BlockCodes, fit_blocks

SYMMETRIC, CHOSEN = BlockCodes(-8, 7, 0), BlockCodes(0, 15)
LEVELS = BlockCodes(0, 15, levels=NF4)


def error(rows: Any, codes: BlockCodes, weights: Any = None) -> float:
    found = fit_blocks(rows, codes, weights)
    squares = np.square(found.rounded(rows) - rows)
    return float((squares if weights is None else squares * weights).sum())


def blocks(shift: float = 0.0) -> Any:
    return np.random.default_rng(1).normal(shift, 1, (200, 32))


def test_a_grid_is_no_worse_than_one_that_just_holds_the_block() -> None:
    rows = blocks()
    largest = np.abs(rows).max(axis=1, keepdims=True) / 7
    plain = np.square(np.clip(np.rint(rows / largest), -8, 7) * largest - rows).sum()
    assert error(rows, SYMMETRIC) < 0.9 * plain
    low, high = rows.min(axis=1, keepdims=True), rows.max(axis=1, keepdims=True)
    step = (high - low) / 15
    zero = np.rint(-low / step)
    held = (np.clip(np.rint(rows / step + zero), 0, 15) - zero) * step
    assert error(rows, CHOSEN) < 0.95 * np.square(held - rows).sum()


def test_zero_points_pay_where_blocks_are_not_centred() -> None:
    assert error(blocks(1.5), CHOSEN) < 0.5 * error(blocks(1.5), SYMMETRIC)


def test_levels_of_a_normal_distribution_suit_normal_numbers() -> None:
    assert error(blocks(), LEVELS) < error(blocks(), SYMMETRIC)
    exact: Any = np.array(NF4)[None] * np.array([[0.5], [3.0]])
    np.testing.assert_allclose(fit_blocks(exact, LEVELS).rounded(exact), exact, atol=1e-6)


def test_numbers_on_a_grid_stay() -> None:
    codes = np.random.default_rng(2).integers(0, 16, (50, 32))
    codes[:, 0], codes[:, 1] = 0, 15
    exact: Any = (codes - 5) * 0.25
    np.testing.assert_allclose(fit_blocks(exact, CHOSEN).rounded(exact), exact, atol=1e-6)


@pytest.mark.parametrize("steps", SCALE_TYPES)
def test_steps_are_of_their_type(steps: str) -> None:
    rows = blocks() * np.exp(np.random.default_rng(3).normal(size=(200, 1)))
    found = fit_blocks(rows, BlockCodes(-8, 7, 0, steps=steps)).steps.reshape(-1)
    unit = np.ldexp(1.0, int(np.frexp(found.max())[1]) - 9) if steps == "f8E4M3FN" else 1.0
    assert [round_to_format(s / unit, steps) for s in found.tolist()] == (found / unit).tolist()
    assert error(rows, BlockCodes(-8, 7, 0, steps=steps)) < 2 * error(rows, SYMMETRIC)


def test_important_numbers_are_nearer() -> None:
    rows, weights = blocks(), np.where(np.arange(32) < 4, 100.0, 1.0)[None]
    weighted = fit_blocks(rows, CHOSEN, weights)
    plain = fit_blocks(rows, CHOSEN)
    losses = [(np.square(g.rounded(rows) - rows) * weights).sum() for g in (weighted, plain)]
    assert losses[0] < 0.8 * losses[1]


@pytest.mark.parametrize("codes", [SYMMETRIC, CHOSEN, LEVELS])
def test_zeros_and_nothing(codes: BlockCodes) -> None:
    zeros = np.zeros((2, 16))
    assert (fit_blocks(zeros, codes).rounded(zeros) == 0).all()
    assert fit_blocks(np.zeros((0, 16)), codes).steps.shape == (0, 1)

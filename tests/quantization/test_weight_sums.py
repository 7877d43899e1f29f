"""Codes of weights whose sums fit what a kernel adds up in, by simulated accumulators."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from qdialect.algebra.qparams import Storage
from qdialect.algebra.sums import SUMS, Span, SumType
from qdialect.algebra.weights import Choice, Overflow, Sums, Weights, choose_weights

RNG = np.random.default_rng(0)
DRAWN = np.concatenate([RNG.normal(size=(12, 1600)), RNG.uniform(-2, 2, size=(12, 1600))])
ROWS = DRAWN * np.geomspace(0.1, 1, 24)[:, None]
I24, PAIRS = SumType.parse("i24 saturating"), SumType.parse("i32 pairs=i16")
SPAN = Span(-3, 252, 255)


def chosen(kind: SumType, *, per_row: bool = True, storage: str = "i8") -> Weights:
    sums = Sums(0.02, SPAN, np.linspace(-3, 3, len(ROWS)), kind)
    return choose_weights(ROWS, sums, Choice(Storage.of(storage), per_row=per_row))


def error(found: Weights) -> float:
    off = found.codes * np.array(found.scales)[:, None] - ROWS
    return float(10 * np.log10(np.square(ROWS).sum() / np.square(off).sum()))


def worst(codes: Any) -> tuple[Any, Any]:
    return np.where(codes > 0, SPAN.up, SPAN.down), np.where(codes > 0, SPAN.down, SPAN.up)


@pytest.mark.parametrize("per_row", [True, False])
def test_sums_saturate_nowhere(per_row: bool) -> None:
    free, found = chosen(SUMS, per_row=per_row), chosen(I24, per_row=per_row)
    assert not free.enlarged and 0 < found.enlarged < len(ROWS) and found.factor > 1
    steps = np.rint(np.linspace(-3, 3, len(ROWS)) / (0.02 * np.array(found.scales)))
    saturated = False
    for weights, holds in ((free.codes, False), (found.codes, True)):
        for x in worst(weights):
            sums = np.concatenate([steps[:, None].astype(int), weights * x], axis=1).cumsum(axis=1)
            fits = (np.abs(sums) < 1 << 23).all()
            assert fits or not holds
            saturated |= not fits
    assert saturated
    # By the least that is needed: nearly all of the range of the worst channel is used.
    low, high = (np.abs((found.codes * x).sum(axis=1) + steps).max() for x in worst(found.codes))
    assert max(low, high) > 0.99 * (1 << 23)


@pytest.mark.parametrize("storage", ["i8", "u8"])
@pytest.mark.parametrize("per_row", [True, False])
def test_pairs_saturate_nowhere(per_row: bool, storage: str) -> None:
    free, found = (chosen(k, per_row=per_row, storage=storage) for k in (SUMS, PAIRS))
    assert found.enlarged > 0
    for weights, holds in ((free.codes, False), (found.codes, True)):
        ordered = np.sort(weights, axis=1)
        ends = 255 * ordered[:, -2:].sum(axis=1).max(), 255 * ordered[:, :2].sum(axis=1).min()
        assert (ends[0] <= 32767 and ends[1] >= -32768) == holds
    # No worse than weights of 7 bits everywhere, which always fit.
    sums = Sums(0.02, SPAN)
    seven = choose_weights(ROWS, sums, Choice(Storage.of("i8", -64, 64), per_row=per_row))
    assert error(free) > error(found) >= error(seven) - 1e-3


def test_activations_of_seven_bits_leave_weights_alone() -> None:
    sums = Sums(0.02, Span(-60, 67, 127), None, PAIRS)
    assert not choose_weights(ROWS, sums, Choice(Storage.of("i8"))).enlarged


def test_sums_that_leave_no_bit_are_refused() -> None:
    sums = Sums(0.02, SPAN, None, SumType.parse("i16 saturating"))
    with pytest.raises(Overflow, match="i16 saturating"):
        choose_weights(ROWS, sums, Choice(Storage.of("i8")))


def test_only_so_many_products_are_summed() -> None:
    sums = Sums(0.02, SPAN, None, I24, 8)
    assert not choose_weights(ROWS.reshape(1, -1), sums, Choice(Storage.of("i8"))).enlarged

"""Bounds of sums of products, against accumulators that wrap, saturate, or add in pairs first."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from qdialect.algebra.sums import Span, excess, pair_sums, partial_sums, signed_sums

CASES = 300


def span_of(rng: np.random.Generator) -> tuple[Span, int, int]:
    """Random activations, with their zero point and lowest code, as u8 codes."""
    low, high = sorted(int(n) for n in rng.integers(0, 256, 2))
    zero = int(rng.integers(low, high + 1))
    return Span(low - zero, high - zero, high), zero, low


def accumulate(products: Any, bits: int, saturating: bool) -> int:
    """What an accumulator holds after it added the products one after the other."""
    total, half = 0, 1 << (bits - 1)
    for product in products.tolist():
        total += product
        if saturating:
            total = min(max(total, -half), half - 1)
        else:
            total = (total + half) % (2 * half) - half
    return total


def in_pairs(codes: Any, weights: Any, bits: int) -> int:
    """Neighboring products added with saturation, then all of them."""
    half = 1 << (bits - 1)
    products = np.append(codes * weights, [0] * (len(weights) % 2))
    return int(np.clip(products.reshape(-1, 2).sum(axis=1), -half, half - 1).sum())


@pytest.mark.parametrize("saturating", [False, True])
def test_proven_accumulators_hold_every_order(saturating: bool) -> None:
    rng = np.random.default_rng(0)
    proven = differ = 0
    for _ in range(CASES):
        span, *_ = span_of(rng)
        weights = rng.integers(-127, 128, (1, int(rng.integers(1, 40))))
        bits = int(rng.integers(15, 21))
        fits = excess(*partial_sums(*signed_sums(weights), span), bits)[0] <= 1
        for x in (
            rng.integers(span.down, span.up + 1, weights.size),
            np.where(weights[0] > 0, span.up, span.down),
            np.where(weights[0] > 0, span.down, span.up),
        ):
            order = rng.permutation(weights.size)
            found = accumulate((x * weights[0])[order], bits, saturating)
            same = found == int((x * weights[0]).sum())
            assert same or not fits
            differ += not same
        proven += fits
    assert 50 < proven < CASES - 50 and differ > 50


def test_the_range_of_sums_is_attained() -> None:
    rng = np.random.default_rng(1)
    for _ in range(CASES):
        span, *_ = span_of(rng)
        weights = rng.integers(-127, 128, (1, int(rng.integers(1, 40))))
        low, high = (int(end[0]) for end in partial_sums(*signed_sums(weights), span))
        most = np.where(weights[0] > 0, span.up, span.down)
        least = np.where(weights[0] > 0, span.down, span.up)
        assert (int((weights * least).sum()), int((weights * most).sum())) == (low, high)
        # So accumulators one bit narrower than needed are wrong on it.
        bits = max(high.bit_length(), (-low - 1).bit_length() if low else 0, 1) + 1
        assert excess(np.array([low]), np.array([high]), bits)[0] <= 1
        if bits > 2:
            worst = most if high >= 1 << (bits - 2) else least
            exact = int((weights * worst).sum())
            assert accumulate(weights[0] * worst, bits - 1, True) != exact
            assert excess(np.array([low]), np.array([high]), bits - 1)[0] > 1


def test_fewer_products_than_weights_are_summed() -> None:
    rng = np.random.default_rng(2)
    for _ in range(CASES):
        span, *_ = span_of(rng)
        weights = rng.integers(-127, 128, (1, 12))
        depth = int(rng.integers(1, 13))
        low, high = (int(end[0]) for end in partial_sums(*signed_sums(weights, depth), span))
        some = rng.permutation(12)[:depth]
        x = rng.integers(span.down, span.up + 1, depth)
        assert low <= int((x * weights[0, some]).sum()) <= high


def test_proven_pairs_are_exact_in_every_order() -> None:
    rng = np.random.default_rng(3)
    proven = differ = 0
    for _ in range(CASES):
        span, zero, low = span_of(rng)
        largest = int(rng.integers(50, 128))
        weights = rng.integers(-largest, largest + 1, (1, int(rng.integers(1, 30))))
        fits = excess(*pair_sums(weights, span), 16)[0] <= 1
        for codes in (
            rng.integers(low, span.highest + 1, weights.size),
            np.where(weights[0] > 0, span.highest, low),
            np.where(weights[0] > 0, low, span.highest),
        ):
            order = rng.permutation(weights.size)
            found = in_pairs(codes[order], weights[0, order], 16) - zero * int(weights.sum())
            same = found == int(((codes - zero) * weights[0]).sum())
            assert same or not fits
            differ += not same
        proven += fits
    assert 50 < proven < CASES - 50 and differ > 50


def test_the_range_of_pairs_is_attained() -> None:
    rng = np.random.default_rng(4)
    for _ in range(CASES):
        span, *_ = span_of(rng)
        weights = rng.integers(-127, 128, (1, int(rng.integers(2, 30))))
        low, high = (int(end[0]) for end in pair_sums(weights, span))
        ends = np.sort(np.append(weights[0], [0, 0])) * span.highest
        assert (low, high) == (int(ends[:2].sum()), int(ends[-2:].sum()))
        if high > 32767:
            pair = np.sort(weights[0])[-2:]
            codes = np.full(2, span.highest)
            assert in_pairs(codes, pair, 16) == 32767 < int((codes * pair).sum())


def test_bytes_of_seven_bits_always_fit_pairs() -> None:
    for highest, largest in ((127, 127), (255, 64)):
        codes = np.array([[-largest, -largest, largest, largest]])
        assert excess(*pair_sums(codes, Span(-highest, highest, highest)), 16)[0] <= 1
    codes = np.array([[65, 64], [-65, -64]])
    assert (excess(*pair_sums(codes, Span(0, 255, 255)), 16) > 1).all()

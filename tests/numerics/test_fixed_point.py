"""Multiplier and shift: the four roundings, the nearest pair, and what it changes."""

from __future__ import annotations

import math
import random
from fractions import Fraction

import numpy as np
import pytest

from qdialect.algebra.contract import Contract, Numerics
from qdialect.algebra.fixed_point import (
    MAX_SHIFT,
    MIN_SHIFT,
    FixedPoint,
    Form,
    apply,
    ratio_of,
    requantize_fixed,
    to_fixed_point,
    weakest_replacement,
)
from qdialect.algebra.requantize import QuantGrid, codes_of, requantize, round_fraction
from qdialect.algebra.rounding import Rounding

NEAREST = [Rounding.HALF_EVEN, Rounding.HALF_AWAY, Rounding.HALF_UP]
I8, U8, I16 = (-128, 127), (0, 255), (-32768, 32767)


def replaced(a: QuantGrid, b: QuantGrid, old: Form, new: Form) -> Contract:
    return weakest_replacement([(a, b)], [old], [new])


def doubling_high_mul(a: int, b: int) -> int:
    """gemmlowp's SaturatingRoundingDoublingHighMul, C++ semantics (truncating division)."""
    nudge = 1 << 30 if a * b >= 0 else 1 - (1 << 30)
    total = a * b + nudge
    return abs(total) // (1 << 31) * (1 if total >= 0 else -1)


def rounding_divide_by_pot(x: int, exponent: int) -> int:
    """gemmlowp's RoundingDivideByPOT."""
    mask = (1 << exponent) - 1
    threshold = (mask >> 1) + (x < 0)
    return (x >> exponent) + ((x & mask) > threshold)


@pytest.mark.parametrize("rounding", NEAREST)
@pytest.mark.parametrize("shift", [0, 1, 2, 5, 31, 40])
def test_roundings_against_fractions(rounding: Rounding, shift: int):
    steps = np.arange(-300, 301)
    for multiplier in (0, 1, 3, 1 << max(shift - 1, 0), (1 << 31) - 1, 1234567890):
        pair = FixedPoint(multiplier, shift)
        wanted = [round_fraction(int(n) * pair.ratio, rounding) for n in steps]
        assert apply(steps, pair, rounding).tolist() == wanted


@pytest.mark.parametrize("shift", range(31, 48))
def test_ruy_is_half_up_twice(shift: int):
    rng = random.Random(shift)
    multiplier = rng.randrange(1 << 30, 1 << 31)
    steps = [rng.randrange(-(1 << 20), 1 << 20) for _ in range(3000)] + list(range(-600, 600))
    rest = shift - 31
    highs = [doubling_high_mul(n, multiplier) for n in steps]
    wanted = [(high + ((1 << rest) >> 1)) >> rest for high in highs]
    got = apply(np.array(steps), FixedPoint(multiplier, shift), Rounding.RUY)
    assert got.tolist() == wanted


@pytest.mark.parametrize("shift", range(8, 31))
@pytest.mark.parametrize("rounding", [Rounding.GEMMLOWP, Rounding.RUY])
def test_shifts_to_the_left_are_rounded_once(shift: int, rounding: Rounding):
    """k < 31: LiteRT shifts by 31 - k to the left before it takes the high half of the product."""
    rng = random.Random(shift)
    multiplier = rng.randrange(1 << 30, 1 << 31)
    steps = list(range(-256, 257))
    wanted = [doubling_high_mul(n << (31 - shift), multiplier) for n in steps]
    got = apply(np.array(steps), FixedPoint(multiplier, shift), rounding)
    assert got.tolist() == wanted


@pytest.mark.parametrize("shift", range(31, 48))
def test_gemmlowp_is_what_tflite_computes(shift: int):
    """For k >= 31, k = 31 + the exponent of the second, rounding division."""
    rng = random.Random(shift)
    multiplier = rng.randrange(1 << 30, 1 << 31)
    steps = [rng.randrange(-(1 << 20), 1 << 20) for _ in range(3000)] + list(range(-600, 600))
    wanted = [rounding_divide_by_pot(doubling_high_mul(n, multiplier), shift - 31) for n in steps]
    got = apply(np.array(steps), FixedPoint(multiplier, shift), Rounding.GEMMLOWP)
    assert got.tolist() == wanted


def test_products_beyond_64_bits_are_exact():
    steps = np.array([(1 << 32) + 5, -(1 << 33)])
    pair = FixedPoint((1 << 31) - 1, 62)
    wanted = [round_fraction(int(n) * pair.ratio, Rounding.HALF_UP) for n in steps]
    assert apply(steps, pair, Rounding.HALF_UP).tolist() == wanted


@pytest.mark.parametrize("bits", [16, 32])
def test_nearest_pair(bits: int):
    rng = random.Random(bits)
    for _ in range(3000):
        ratio = Fraction(math.ldexp(rng.random() + 0.5, rng.randrange(-30, bits - 5)))
        pair = to_fixed_point(ratio, bits)
        assert 1 << (bits - 2) <= pair.multiplier < 1 << (bits - 1)
        assert MIN_SHIFT <= pair.shift <= MAX_SHIFT
        assert abs(pair.ratio - ratio) / ratio <= Fraction(2) ** (1 - bits)
        near = [FixedPoint(pair.multiplier + d, pair.shift) for d in (-1, 1)]
        assert all(abs(pair.ratio - ratio) <= abs(other.ratio - ratio) for other in near)


def test_ends_of_the_range():
    assert to_fixed_point(Fraction(1, 2)) == FixedPoint(1 << 30, 31)
    assert to_fixed_point(1 - Fraction(1, 1 << 60)) == FixedPoint(1 << 30, 30)
    assert to_fixed_point(Fraction(2) ** -40) == FixedPoint(1 << 22, 62)
    assert to_fixed_point(Fraction(2) ** -80) == FixedPoint(0, 62)
    assert to_fixed_point(Fraction((1 << 31) - 1, 4)) == FixedPoint((1 << 31) - 1, 2)
    with pytest.raises(ValueError, match="needs a shift below 2"):
        to_fixed_point(Fraction(1 << 29))
    with pytest.raises(ValueError, match="must be positive"):
        to_fixed_point(Fraction(0))


def random_case(rng: random.Random) -> tuple[QuantGrid, QuantGrid]:
    def affine() -> QuantGrid:
        low, high = rng.choice([I8, U8, (-8, 7), (-127, 127)])
        scale = rng.choice([0.5, 1.0, 3.0, 0.1, math.ldexp(rng.random() + 0.5, -6)])
        return QuantGrid(scale, rng.randrange(low, high + 1), low, high)

    return affine(), affine()


def test_contracts_against_all_codes():
    """`exact` is equality, `ties` and `bounded(k)` the largest difference, on every code."""
    rng = random.Random(7)
    seen: dict[Numerics, int] = {}
    for _ in range(3000):
        a, b = random_case(rng)
        pair = to_fixed_point(ratio_of(a, b), rng.choice([16, 32]))
        old = Form(rng.choice(NEAREST))
        new = Form(rng.choice([*NEAREST, Rounding.GEMMLOWP]), pair)
        contract = replaced(a, b, old, new)
        codes = codes_of(a)
        before = requantize(codes, a, b, old.rounding)
        after = requantize_fixed(codes, a, b, pair, new.rounding)
        largest = int(np.abs(before - after).max())
        assert contract.steps == largest
        assert (contract.level is Numerics.EXACT) == (largest == 0)
        if contract.level is Numerics.TIES:
            for code in codes[before != after].tolist():
                assert ((code - a.zero) * ratio_of(a, b)).denominator == 2
        seen[contract.level] = seen.get(contract.level, 0) + 1
    assert set(seen) == {Numerics.EXACT, Numerics.TIES, Numerics.BOUNDED}


def test_wide_inputs_are_decided_on_the_codes_that_do_not_saturate():
    """An i32 accumulator has 2**32 codes, but few of them do not saturate in i8."""
    a, b = QuantGrid(0.001, 0, -(1 << 31), (1 << 31) - 1), QuantGrid(0.7, 3, *I8)
    pair = to_fixed_point(ratio_of(a, b))
    contract = replaced(a, b, Form(Rounding.HALF_EVEN), Form(Rounding.HALF_UP, pair))
    codes = np.arange(-200_000, 200_001)
    before = requantize(codes, a, b, Rounding.HALF_EVEN)
    after = requantize_fixed(codes, a, b, pair, Rounding.HALF_UP)
    assert contract.steps == np.abs(before - after).max()
    assert before[0] == after[0] == -128 and before[-1] == after[-1] == 127


def test_wide_outputs_get_a_bound():
    a = QuantGrid(0.1, 0, -(1 << 31), (1 << 31) - 1)
    b = QuantGrid(0.3, 5, -(1 << 31), (1 << 31) - 1)
    pair = to_fixed_point(ratio_of(a, b), 16)
    contract = replaced(a, b, Form(Rounding.HALF_EVEN), Form(Rounding.HALF_UP, pair))
    assert contract.level is Numerics.BOUNDED
    codes = np.random.default_rng(0).integers(a.low, a.high, 20_000)
    codes[:2] = a.low, a.high
    before = requantize(codes, a, b, Rounding.HALF_EVEN)
    after = requantize_fixed(codes, a, b, pair, Rounding.HALF_UP)
    assert 0 < np.abs(before - after).max() <= contract.steps


def test_a_zero_point_outside_the_storage():
    a, b = QuantGrid(1.0, 1000, *I8), QuantGrid(1.0, 0, *I8)
    form = Form(Rounding.HALF_UP, to_fixed_point(ratio_of(a, b)))
    assert replaced(a, b, Form(Rounding.HALF_EVEN), form).level is Numerics.EXACT

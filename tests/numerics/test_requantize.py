"""Requantization against its definition in fractions, one code at a time."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from math import floor, inf, nan

import numpy as np
import pytest

from qdialect.algebra import requantize as exact
from qdialect.algebra.linear import Line, linear_tables
from qdialect.algebra.qparams import QParams
from qdialect.algebra.requantize import (
    QuantGrid,
    codes_of,
    composes,
    covers,
    is_lossless,
    is_pure_shift,
    on_grid,
    parameter_triples,
    quant_grids,
    quantize_real,
    real_range,
    represents,
    requantize,
    round_fraction,
    round_ratio,
    table,
    tabulated,
    unique_pairs,
)
from qdialect.algebra.rounding import Rounding

TENTH = float(np.float32(0.1))
REAL = [Rounding.HALF_EVEN, Rounding.HALF_AWAY, Rounding.HALF_UP]
SCALES = [
    0.5,
    1.0,
    0.25,
    TENTH,
    0.1,
    3 * TENTH,
    1 / 3,
    1e-3,
    1e30,
    3.4028234663852886e38,
    1.401298464324817e-45,
    5e-324,
    1e300,
]
ZEROS = [0, 3, -128, 127, 10**9]
FULL = (-128, 127)


def definition(value: Fraction, rounding: Rounding) -> int:
    """The integer nearest to `value`, from the words of `Rounding`."""
    below = floor(value)
    if value - below != Fraction(1, 2):
        return below if value - below < Fraction(1, 2) else below + 1
    if rounding is Rounding.HALF_EVEN:
        return below if below % 2 == 0 else below + 1
    if rounding is Rounding.HALF_AWAY:
        return below if value < 0 else below + 1
    return below + 1


def rescaled(q: int, a: QuantGrid, b: QuantGrid, rounding: Rounding) -> int:
    """clamp(R((q - z) s / s') + z')"""
    value = (q - a.zero) * Fraction(a.scale) / Fraction(b.scale)
    return min(max(definition(value, rounding) + b.zero, b.low), b.high)


@pytest.mark.parametrize("rounding", REAL)
def test_every_code_on_a_grid_of_scales(rounding: Rounding) -> None:
    for (n, s), (m, t) in product(enumerate(SCALES), enumerate(SCALES)):
        a = QuantGrid(s, ZEROS[(n + m) % len(ZEROS)], *FULL)
        b = QuantGrid(t, ZEROS[m % len(ZEROS)], *((0, 255) if m % 2 else FULL))
        expected = [rescaled(q, a, b, rounding) for q in range(-128, 128)]
        assert table(a, b, rounding).tolist() == expected
        assert requantize(np.arange(-128, 128), a, b, rounding).tolist() == expected
        one_by_one = [exact.rescaled(q, a, b, rounding) for q in range(-128, 128)]
        assert [min(max(code, b.low), b.high) for code in one_by_one] == expected


@pytest.mark.parametrize("rounding", REAL)
def test_ties_and_their_neighbours(rounding: Rounding) -> None:
    values = [Fraction(n, 4) for n in range(-20, 21)]
    values += [v + sign * Fraction(1, 10**30) for v in values for sign in (-1, 1)]
    for value in values:
        assert round_fraction(value, rounding) == definition(value, rounding)


@pytest.mark.parametrize("rounding", REAL)
def test_ratios_next_to_a_tie(rounding: Rounding) -> None:
    steps = np.array([1, 3, 5, -1, -3, 2**31 - 1, -(2**31) + 1, 0], np.int64)
    half = Fraction(1, 2)
    for tiny in (0, Fraction(1, 2**60), -Fraction(1, 2**60), Fraction(1, 3**50)):
        ratio = half + tiny
        expected = [definition(int(n) * ratio, rounding) for n in steps]
        assert round_ratio(steps, ratio, rounding).tolist() == expected


def test_shapes() -> None:
    a, b = QuantGrid(0.5, 0, *FULL), QuantGrid(1.0, 0, *FULL)
    tie = requantize(np.array(5), a, b, Rounding.HALF_UP)
    assert tie.shape == () and int(tie) == 3
    assert requantize(np.zeros((2, 0, 3), np.int8), a, b, Rounding.HALF_UP).shape == (2, 0, 3)
    large = np.arange(3 * 5 * 1000).reshape(3, 5, 1000) % 256 - 128
    assert np.array_equal(
        requantize(large, a, b, Rounding.HALF_EVEN), table(a, b, Rounding.HALF_EVEN)[large + 128]
    )


def test_tables_are_shared_and_read_only() -> None:
    a, b = QuantGrid(0.5, 0, *FULL), QuantGrid(1.0, 0, *FULL)
    assert table(a, b, Rounding.HALF_UP) is table(a, b, Rounding.HALF_UP)
    with pytest.raises(ValueError, match="read-only"):
        table(a, b, Rounding.HALF_UP)[0] = 0


def test_gemmlowp_rounds_no_real_numbers() -> None:
    a = QuantGrid(0.5, 0, *FULL)
    with pytest.raises(ValueError, match="gemmlowp"):
        table(a, a, Rounding.GEMMLOWP)


# -- what is decided from tables, against brute force -----------------------------------

BOUNDS = [(-8, 7), (0, 15), (-7, 7), (2, 5), (3, 3)]
SMALL = [
    QuantGrid(s, z, low, high)
    for s, z, (low, high) in product((0.5, 1.0, 1.5, TENTH), (0, -8, 7, 20), BOUNDS)
]


def real(q: int, a: QuantGrid) -> Fraction:
    return (q - a.zero) * Fraction(a.scale)


def test_lossless_covers_and_shift() -> None:
    for a, b in product(SMALL, SMALL):
        kept = all(
            real(rescaled(q, a, b, Rounding.HALF_EVEN), b) == real(q, a)
            for q in range(a.low, a.high + 1)
        )
        assert is_lossless(a, b) == kept, (a, b)
        ends = [real(q, a) for q in (a.low, a.high)]
        inside = all(real(b.low, b) <= end <= real(b.high, b) for end in ends)
        assert covers(b, a) == inside
        assert is_pure_shift(a, b) == (a.scale == b.scale)


@pytest.mark.parametrize(("first", "second"), [*product(REAL, REAL)])
def test_composes(first: Rounding, second: Rounding) -> None:
    some = SMALL[::7]
    held = 0
    for a, b, c in product(some, some, some):
        equal = all(
            rescaled(rescaled(q, a, b, first), b, c, second) == rescaled(q, a, c, second)
            for q in range(a.low, a.high + 1)
        )
        held += equal
        assert composes(a, b, c, first, second) == equal, (a, b, c)
    assert 0 < held < len(some) ** 3


def test_represents() -> None:
    values = [n / 8 for n in range(-80, 240)] + [TENTH, -3 * TENTH, inf, -inf, nan, 1e300, 5e-324]
    for a in SMALL:
        named = {real(q, a) for q in range(a.low, a.high + 1)}
        low, high = real_range(a)
        assert (low, high) == (min(named), max(named))
        for value in values:
            exact = value == value and abs(value) != inf and Fraction(value) in named
            assert represents(a, value) == exact, (a, value)
            steps = value == value and abs(value) != inf
            assert on_grid(a, value) == (
                steps and (Fraction(value) / Fraction(a.scale)).denominator == 1
            )


def test_codes() -> None:
    assert codes_of(QuantGrid(1.0, 0, -2, 1)).tolist() == [-2, -1, 0, 1]
    assert tabulated(QParams.per_tensor("u16", 1.0))
    assert not tabulated(QParams.per_tensor("i32", 1.0))


def test_cells_pair_up_the_parameters_that_meet() -> None:
    tensor = QParams.per_tensor("i8", 0.5, 1)
    rows = QParams.per_axis("u8", 0, [0.5, 0.25, 0.5], [1, 2, 1])
    columns = QParams.per_axis("u8", 1, [0.5, 0.25, 0.5], [1, 2, 1])
    one = QuantGrid(0.5, 1, -128, 127)
    first, second = QuantGrid(0.5, 1, 0, 255), QuantGrid(0.25, 2, 0, 255)
    assert quant_grids(rows) == [first, second]
    assert unique_pairs(tensor, rows) == [(one, first), (one, second)]
    assert unique_pairs(rows, tensor) == [(first, one), (second, one)]
    assert unique_pairs(rows, rows) == [(first, first), (second, second)]
    assert unique_pairs(rows, columns) is None
    assert parameter_triples(tensor, rows, tensor) == [(one, first, one), (one, second, one)]


@pytest.mark.parametrize("rounding", REAL)
def test_linear_functions_of_codes(rounding: Rounding) -> None:
    a = QuantGrid(TENTH, 3, -128, 127)
    for b, slope, offset in product(SMALL[::9], (Fraction(1, 3), Fraction(-5, 2)), (0, 0.75)):
        expected = [
            min(max(definition(v / Fraction(b.scale), rounding) + b.zero, b.low), b.high)
            for v in (slope * real(q, a) + Fraction(offset) for q in range(-128, 128))
        ]
        line = Line(a, slope, Fraction(offset), b)
        assert linear_tables(codes_of(a), [line, line], rounding).tolist() == [expected] * 2
        for value in (-1e9, -0.25, 0.75, 2.25, inf, -inf):
            if abs(value) == inf:
                wanted = b.high if value > 0 else b.low
            else:
                steps = definition(Fraction(value) / Fraction(b.scale), rounding)
                wanted = min(max(steps + b.zero, b.low), b.high)
            assert quantize_real(value, b, rounding) == wanted

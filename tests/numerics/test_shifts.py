"""What single codes tell of linear functions, against their tables."""

from __future__ import annotations

import random
from fractions import Fraction
from math import ldexp

import pytest

from qdialect.numerics.float_path import near_tie
from qdialect.numerics.linear import Line, code_of, linear_tables, shift_of
from qdialect.numerics.requantize import QuantGrid, codes_of
from qdialect.numerics.rounding import Rounding

REAL = [r for r in Rounding if r is not Rounding.GEMMLOWP]


def lines(count: int, seed: int) -> list[Line]:
    """Random ones; most renumber codes, or nearly."""
    random_ = random.Random(seed)
    found: list[Line] = []
    for _ in range(count):
        scale = ldexp(random_.uniform(1, 2), random_.choice((-140, -20, -3, 0, 5, 100)))
        unit = scale * random_.choice((1, 1, 1, 2, 0.5, 1 + 2.0**-30, 1 + 2.0**-9, 1 + 1 / 255))
        low = random_.choice((-128, 0, -5))
        a = QuantGrid(scale, random_.randint(-128, 255), low, low + random_.choice((0, 7, 255)))
        b_low = random_.choice((-128, 0))
        b = QuantGrid(unit, random_.randint(-128, 255), b_low, b_low + 255)
        exact = Fraction(unit) / Fraction(scale)
        slope = exact * random_.choice((1, 1, 1, -1, 0, Fraction(3, 2), Fraction(254, 255)))
        steps = random_.choice((0, a.zero - b.zero, random_.randint(-9, 9)))
        part = random_.choice((Fraction(0), Fraction(1, 2), Fraction(1, 5), Fraction(49, 100)))
        found.append(Line(a, slope, (steps + part) * Fraction(unit), b))
    return found


def is_tied(line: Line, code: int, expressed: str) -> bool:
    """Whether floats may round the result for one code either way."""
    scaled = line.slope * (code - line.a.zero) * Fraction(line.a.scale)
    unit = Fraction(line.b.scale)
    steps = [(scaled + line.offset) / unit, scaled / unit, line.offset / unit]
    return near_tie(steps, line.b, expressed)


@pytest.mark.parametrize("expressed", ["f32", "f16", "f64", "bf16"])
def test_a_shift_moves_all_codes_and_none_is_a_tie(expressed: str) -> None:
    told = 0
    for line in lines(600, 1):
        k = shift_of(line, line.a.low, line.a.high, expressed)
        if k is None:
            continue
        told += 1
        codes = codes_of(line.a)
        wide = line._replace(b=line.b._replace(low=-10_000, high=10_000))
        for rounding in REAL:
            assert (linear_tables(codes, [wide], rounding)[0] == codes + k).all()
            assert (linear_tables(codes, [line], rounding)[0] == codes + k).all()
        assert not any(is_tied(line, code, expressed) for code in codes.tolist())
    # In narrower floats most codes may be ties.
    assert told > {"f32": 60, "f64": 60}.get(expressed, -1)


def test_a_shift_of_some_codes_is_told_where_others_saturate() -> None:
    a = QuantGrid(0.5, 0, 0, 255)
    line = Line(a, Fraction(1), Fraction(5), a)
    assert shift_of(line, 0, 255, "f32") is None
    assert shift_of(line, 0, 245, "f32") == 10
    assert shift_of(line._replace(offset=Fraction(1, 4)), 0, 245, "f32") is None  # ties


@pytest.mark.parametrize("rounding", REAL)
def test_one_code_is_what_its_table_says(rounding: Rounding) -> None:
    open_ = 0
    for line in lines(200, 2):
        table = linear_tables(codes_of(line.a), [line], rounding)[0].tolist()
        for code, wanted in zip(codes_of(line.a).tolist(), table, strict=True):
            got = code_of(line, code)
            assert got in (None, wanted)
            open_ += got is None
    assert open_


def test_numbers_beyond_doubles_are_not_told() -> None:
    tiny, huge = QuantGrid(5e-324, 0, 0, 255), QuantGrid(1e308, 0, 0, 255)
    line = Line(huge, Fraction(10) ** 400, Fraction(0), tiny)
    assert shift_of(line, 0, 255, "f32") is None
    assert code_of(line, 3) is None

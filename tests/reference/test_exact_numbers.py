"""Ratio and Real: exact values, and bounds that hold."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from scalar_oracle import MODES, round_fraction
from xdsl.dialects.builtin import AnyFloat, TensorType, bf16, f16, f32, f64

from qdialect.algebra.rounding import Rounding
from qdialect.interpreter import Evaluation
from qdialect.interpreter.quantize import store
from qdialect.interpreter.ratio import Ratio, round_division
from qdialect.interpreter.real import Real, matrix_product, total
from qdialect.ir.context import new_context

RNG = np.random.default_rng(1)


def fractions(ratio: Ratio) -> list[Fraction]:
    return [Fraction(n, d) for n, d in zip(ratio.num.flat, ratio.den.flat, strict=True)]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", [np.int64, object])
def test_round_division(mode: str, dtype: type) -> None:
    num = np.arange(-60, 61).astype(dtype)
    for den in range(1, 13):
        got = round_division(num, np.full_like(num, den), Rounding(mode))
        assert list(got) == [round_fraction(Fraction(int(n), den), mode) for n in num]


def test_gemmlowp_rounds_no_reals() -> None:
    with pytest.raises(ValueError, match="gemmlowp"):
        round_division(np.array([1]), np.array([2]), Rounding.GEMMLOWP)


def test_ratio_of_floats_is_exact() -> None:
    values = np.concatenate(
        [RNG.normal(size=50) * 10.0 ** RNG.integers(-300, 300, 50), [0, 5e-324]]
    )
    assert fractions(Ratio.of_floats(values)) == [Fraction(v) for v in values]


@pytest.mark.parametrize(("dtype", "form"), [(np.float16, (11, -14)), (np.float32, (24, -126))])
def test_ratio_to_floats_is_the_nearest_float(dtype: type, form: tuple[int, int]) -> None:
    largest = float(np.finfo(dtype).max)
    tiny = float(np.finfo(dtype).smallest_subnormal)
    values = [0.0, 1.0, -1.0, tiny / 2, tiny * 1.5, tiny * 2.5, largest]
    values += list(RNG.normal(size=300) * 2.0 ** RNG.integers(-24, 15, 300))
    halves = np.arange(1, 40) / 2 + 2.0 ** (form[0] - 1)
    wide = np.array([*values, *halves])
    got = Ratio.of_floats(wide).to_floats(*form)
    assert np.array_equal(got, wide.astype(dtype).astype(np.float64))


def test_ratio_to_doubles_is_the_correctly_rounded_quotient() -> None:
    num = [int(n) for n in RNG.integers(-(2**62), 2**62, 200)]
    den = [int(d) for d in RNG.integers(1, 2**62, 200)]
    got = Ratio(np.array(num, object), np.array(den, object)).to_floats(53, -1022)
    assert list(got) == [n / d for n, d in zip(num, den, strict=True)]


def assert_sound(real: Real) -> None:
    """Exact values lie within the bound everywhere."""
    index = np.nonzero(np.ones(real.shape, bool))
    bound = np.broadcast_to(real.error, real.shape)[index]
    for exact, approx, error in zip(
        fractions(real.at(index)), real.approx[index], bound, strict=True
    ):
        assert abs(exact - Fraction(float(approx))) <= Fraction(float(error) * 1.001)


def test_bounds_hold_through_arithmetic() -> None:
    a = Real.integers(RNG.integers(-(2**62), 2**62, (40, 1)))
    b = Real.integers(RNG.integers(-128, 128, (1, 7)))
    s = Real.floats(RNG.uniform(0.01, 3, (1, 7)))
    tiny = Real.floats(RNG.uniform(1, 2, (40, 7)) * 2.0**-1040)
    value = (a * s + b) * Real.floats(0.1) / s - b
    for real in (a, b, a * b, a + b, -value, value, value.reshape((7, 40)), tiny * s, tiny / s):
        assert_sound(real)
    assert_sound(value.clip(-3.0, 1e18))
    assert_sound((value * value).clip(0.0, 1e30) + Real.floats(1.0))


def test_powers_of_two_add_no_error() -> None:
    steps = Real.integers(RNG.integers(-128, 128, 50))
    assert not np.any((steps * Real.floats(0.25) / Real.floats(4.0)).error)


def test_sums_that_are_doubles_have_no_error() -> None:
    a, b = Real.integers(RNG.integers(-99, 99, 50)), Real.floats(RNG.integers(-99, 99, 50) / 8)
    assert not np.any((a + b).error)
    lossy = Real.floats(1.0) + Real.floats(2.0**-60)
    assert lossy.error == 2.0**-60


@pytest.mark.parametrize("kind", [f16, bf16, f32, f64])
def test_storing_as_a_float_rounds_once(kind: AnyFloat) -> None:
    """Just beside the middle of two floats, closer than float64 can tell."""
    half = 2.0 ** -{"f16": 11, "bf16": 8, "f32": 24, "f64": 53}[str(kind)]
    evaluation = Evaluation(new_context())
    for base in (1.0, 1.0 + 2 * half):
        for side in (-1, 0, 1):
            value = Real.floats(np.array([base])) + Real.floats(half)
            value = value + Real.floats(side * 2.0**-200)
            (stored,) = store(value, TensorType(kind, [1]), Rounding.HALF_EVEN, evaluation)
            up = side > 0 or (side == 0 and base != 1.0)
            assert float(stored) == (base + 2 * half if up else base)


def test_square_roots() -> None:
    squares = Real.floats(np.array([0.25, 4.0, 9 / 16]))
    assert fractions(squares.sqrt().at((np.arange(3),))) == [Fraction(1, 2), 2, Fraction(3, 4)]
    values = RNG.uniform(1e-6, 1e6, 60)
    root = Real.floats(values).sqrt()
    for exact, v in zip(fractions(root.at((np.arange(60),))), values, strict=True):
        assert abs(exact * exact - Fraction(v)) <= Fraction(v) / 2**250
    assert_sound(root)
    with np.errstate(invalid="ignore"):
        assert Real.floats(np.array([-1.0])).sqrt().special is not None


@pytest.mark.parametrize("kind", ["small", "middle", "large", "floats"])
def test_matrix_product(kind: str) -> None:
    shape_a, shape_b = (2, 1, 3, 9), (4, 9, 5)
    if kind == "floats":
        a, b = RNG.normal(size=shape_a), RNG.normal(size=shape_b) * 1e6
    else:
        high = {"small": 128, "middle": 2**12, "large": 2**31}[kind]
        a, b = (RNG.integers(-high, high, s) | 1 for s in (shape_a, shape_b))
        a, b = a.astype(np.float64), b.astype(np.float64)
    product = matrix_product(a, b)
    index = np.nonzero(np.ones(product.shape, bool))
    exact = mapped_product(a, b)
    assert fractions(product.at(index)) == [exact[place] for place in zip(*index, strict=True)]
    assert_sound(product)
    assert bool(np.any(product.error)) == (kind in ("large", "floats"))


def mapped_product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    to_fraction = np.vectorize(Fraction, otypes=[object])
    return np.matmul(to_fraction(a), to_fraction(b))


def test_total() -> None:
    values = RNG.normal(size=(2, 3, 4))
    got = fractions(total(values).at(np.nonzero(np.ones((2, 3), bool))))
    assert got == [sum(map(Fraction, row)) for row in values.reshape(6, 4)]


def test_products_without_terms_are_zero() -> None:
    product = matrix_product(np.zeros((2, 0)) + 0.5, np.zeros((0, 3)))
    assert fractions(product.at(np.nonzero(np.ones((2, 3), bool)))) == [0] * 6

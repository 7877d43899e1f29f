"""Multipliers, shifts and bounds as LiteRT makes them of scales."""

from __future__ import annotations

import random
from fractions import Fraction

import numpy as np
import pytest

from qdialect.algebra.fixed_point import FixedPoint, apply
from qdialect.algebra.rounding import Rounding
from qdialect.plugins.tflite.numerics.scales import (
    ENGINES,
    activation_bounds,
    fixed_point,
    in_xnn_range,
    product_ratio,
    quantize_multiplier,
    rescale_of,
    single,
)

STEPS = np.arange(-255, 256)


def test_multipliers_are_the_nearest_of_31_bits() -> None:
    rng = random.Random(1)
    for _ in range(3000):
        ratio = 2.0 ** rng.uniform(-31, 30)
        q, e = quantize_multiplier(ratio)
        assert 1 << 30 <= q < 1 << 31
        exact = Fraction(q) * Fraction(2) ** (e - 31)
        assert abs(exact - Fraction(ratio)) <= Fraction(2) ** (e - 32)


def test_ends_of_multipliers() -> None:
    assert quantize_multiplier(1.0) == (1 << 30, 1)
    assert quantize_multiplier(0.5) == (1 << 30, 0)
    assert quantize_multiplier(1.0 - 2.0**-40) == (1 << 30, 1)
    assert quantize_multiplier(0.0) == (0, 0)
    assert quantize_multiplier(2.0**-32) == (1 << 30, -31)
    assert quantize_multiplier(2.0**-33) == (0, 0)
    assert fixed_point(2.0**-32) == FixedPoint(1 << 30, 62)
    with pytest.raises(ValueError, match="left"):
        fixed_point(2.0**31)


def test_singles_are_those_of_numpy() -> None:
    rng = np.random.default_rng(2)
    values = np.exp(rng.normal(size=1000) * 20)
    assert [single(v) for v in values.tolist()] == values.astype(np.float32).tolist()
    assert single(1e300) == np.inf
    a, b, c = (np.float32(v) for v in (0.07, 0.05, 0.06))
    assert product_ratio(0.07, 0.05, 0.06) == a * b / c


@pytest.mark.parametrize("engine", ENGINES)
def test_rescales_are_near_to_the_ratio(engine: str) -> None:
    rng = random.Random(3)
    for _ in range(200):
        s_x, s_y = single(2.0 ** rng.uniform(-9, 3)), single(2.0 ** rng.uniform(-6, 0))
        found = rescale_of(engine, s_x, s_y, 256)  # pyright: ignore[reportArgumentType]
        assert found is not None
        pair, rounding = found
        ratio = Fraction(s_x) / Fraction(s_y)
        bits = 9 if engine == "litert-xnn" and in_xnn_range(s_x, s_y) else 31
        assert abs(pair.ratio - ratio) <= max(Fraction(1, 1 << bits), ratio / (1 << 24))
        rescaled = apply(STEPS, pair, rounding)
        exact = [float(n * pair.ratio) for n in STEPS.tolist()]
        assert all(abs(y - x) <= 1 for y, x in zip(rescaled.tolist(), exact, strict=True))


def test_xnnpack_rescales_within_its_ratios() -> None:
    assert rescale_of("litert-xnn", 0.05, 0.07) == (FixedPoint(183, 8), Rounding.HALF_UP)
    assert rescale_of("litert-xnn", 2.0**-8, 1.0) == (FixedPoint(1, 8), Rounding.HALF_UP)
    assert rescale_of("litert-xnn", 2.0**7, 1.0) == (FixedPoint(1 << 15, 8), Rounding.HALF_UP)
    for ratio in (2.0**-8.01, 2.0**7.01):
        found = rescale_of("litert-xnn", ratio, 1.0, 16)
        assert found == rescale_of("litert-opt", ratio, 1.0, 16)


def test_the_optimized_rest_of_a_vector() -> None:
    """Where vectors and what is left of them differ on codes of 8 bits, there is no one answer."""
    rng = random.Random(4)
    answers = 0
    for _ in range(300):
        s_x = 2.0 ** rng.uniform(-6, 3)
        pair = fixed_point(single(s_x))
        same = (apply(STEPS, pair, Rounding.RUY) == apply(STEPS, pair, Rounding.GEMMLOWP)).all()
        found = rescale_of("litert-opt", s_x, 1.0)
        assert (found is not None) == same
        answers += found is not None
        assert rescale_of("litert-opt", s_x, 1.0, 32) == (pair, Rounding.RUY)
        assert rescale_of("litert-opt", s_x, 1.0, 7) == (pair, Rounding.GEMMLOWP)
    assert 0 < answers < 300


def test_bounds_of_activations() -> None:
    scale = 6 / 20.5
    bounds = {e: activation_bounds(e, "RELU6", scale, 0, -128, 127) for e in ENGINES}
    assert bounds == {"litert-ref": (0, 21), "litert-opt": (0, 21), "litert-xnn": (0, 20)}
    assert activation_bounds("litert-xnn", "RELU6", scale, 1, -128, 127) == (1, 22)
    assert activation_bounds("litert-ref", "RELU6", scale, 1, -128, 127) == (1, 22)
    assert activation_bounds("litert-ref", "RELU_N1_TO_1", 2 / 41, 3, -128, 127) == (-18, 24)
    assert activation_bounds("litert-ref", "RELU", 0.1, -200, -128, 127) == (-128, 127)
    assert activation_bounds("litert-xnn", "NONE", 0.1, 0, 0, 255) == (0, 255)
    with pytest.raises(ValueError, match="TANH"):
        activation_bounds("litert-ref", "TANH", 0.1, 0, 0, 255)

"""Pools, batch norm and softmax on quantized tensors against scalar definitions."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scalar_oracle import (
    MODES,
    dequantized,
    quantized,
    random_per_axis,
    random_per_tensor,
    random_stored,
    run,
    uniform,
)
from xdsl.dialects.builtin import f32

from qdialect.dialects import nn
from qdialect.dialects.nn.shapes import window_shape
from qdialect.qparams import QParams

POOLS: list[dict[str, Any]] = [
    {"kernel": [2, 3]},
    {"kernel": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]},
    {"kernel": [2, 2], "strides": [2, 2], "dilations": [2, 1], "pads": [0, 1, 1, 0]},
    {"kernel": [3, 2], "strides": [2, 2], "ceil_mode": True},
    {"kernel": [3, 3], "strides": [2, 3], "pads": [1, 0, 1, 2], "ceil_mode": True},
]


def windows_of(x: np.ndarray, p: dict[str, Any]) -> Iterator[tuple[Any, list[Any], int]]:
    """Output index, the elements inside the input, and the number inside the padded input."""
    kernel, strides = p["kernel"], p.get("strides", [1, 1])
    pads, dilations = p.get("pads", [0] * 4), p.get("dilations", [1, 1])
    height, width = x.shape[2:]
    out = window_shape(x.shape[2:], kernel, strides, pads, dilations, p.get("ceil_mode", False))
    for n, c, i, j in np.ndindex(*x.shape[:2], *out):
        inside, padded = [], 0
        for h, v in np.ndindex(*kernel):
            row = i * strides[0] + h * dilations[0] - pads[0]
            column = j * strides[1] + v * dilations[1] - pads[1]
            if 0 <= row < height and 0 <= column < width:
                inside.append(x[n, c, row, column])
            padded += row < height + pads[2] and column < width + pads[3]
        yield (n, c, i, j), inside, padded


@pytest.mark.parametrize("case", range(len(POOLS)))
def test_max_pool(case: int) -> None:
    rng = np.random.default_rng(30 + case)
    q = random_per_axis(rng, "i8", 1, 3, "wild", zeros=True)
    x = random_stored(rng, (2, 3, 7, 6), q)
    x[0, 0] = -128
    got = run(nn.MaxPool2DOp, [(x, uniform(q))], uniform(q), **POOLS[case])
    for index, inside, _ in windows_of(x, POOLS[case]):
        assert got[index] == max(inside)
    real = run(nn.MaxPool2DOp, [(x.astype(np.float32), f32)], f32, **POOLS[case])
    assert np.array_equal(real, got)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("include", [False, True])
@pytest.mark.parametrize("case", range(len(POOLS)))
def test_avg_pool(case: int, include: bool, mode: str) -> None:
    rng = np.random.default_rng(40 + case)
    p = POOLS[case] | {"count_include_pad": include}
    for kind in ("nice", "wild"):
        a, b = random_per_axis(rng, "u8", 1, 3, kind, True), random_per_tensor(rng, "i8", kind)
        x = random_stored(rng, (2, 3, 7, 6), a)
        got = run(nn.AvgPool2DOp, [(x, uniform(a))], uniform(b), rounding=mode, **p)
        real = np.empty(got.shape, object)
        for index, inside, padded in windows_of(dequantized(x, a), POOLS[case]):
            real[index] = sum(inside, Fraction(0)) / (padded if include else len(inside))
        assert np.array_equal(got, quantized(real, b, mode))


@pytest.mark.parametrize("mode", MODES)
def test_global_avg_pool(mode: str) -> None:
    rng = np.random.default_rng(50)
    for kind in ("nice", "wild"):
        a, b = random_per_tensor(rng, "i16", kind), random_per_tensor(rng, "i16", kind)
        x = random_stored(rng, (2, 3, 2, 4), a)
        real = dequantized(x, a).sum(axis=(2, 3), keepdims=True) / Fraction(8)
        got = run(nn.GlobalAvgPool2DOp, [(x, uniform(a))], uniform(b), rounding=mode)
        assert np.array_equal(got, quantized(real, b, mode))


def test_average_of_floats_quantizes_the_exact_mean() -> None:
    rng = np.random.default_rng(51)
    x = rng.normal(size=(1, 2, 5, 5)).astype(np.float32)
    q = QParams.per_tensor("i16", 1e-4)
    real = dequantized(x, None).sum(axis=(2, 3), keepdims=True) / Fraction(25)
    got = run(nn.GlobalAvgPool2DOp, [(x, f32)], uniform(q))
    assert np.array_equal(got, quantized(real, q))


def test_a_window_of_nothing_but_padding() -> None:
    q = QParams.per_tensor("i8", 1.0, 5)
    x = np.full((1, 1, 2, 2), 7, np.int8)
    p = {"kernel": [1, 1], "pads": [1, 1, 1, 1]}
    largest = run(nn.MaxPool2DOp, [(x, uniform(q))], uniform(q), **p)
    assert largest[0, 0].tolist()[0] == [-128] * 4
    mean = run(nn.AvgPool2DOp, [(x, uniform(q))], uniform(q), **p)
    assert mean[0, 0].tolist() == [[5] * 4, [5, 7, 7, 5], [5, 7, 7, 5], [5] * 4]


@pytest.mark.parametrize("mode", MODES)
def test_batch_norm_with_rational_roots_is_exact(mode: str) -> None:
    """Variances whose root is rational: ties occur and are decided exactly."""
    rng = np.random.default_rng(52)
    a, b = QParams.per_tensor("i8", 0.5, 3), QParams.per_tensor("i8", 0.5, -2)
    x = random_stored(rng, (4, 3, 9), a)
    scale, bias = np.float32([1.5, -0.75, 2.0]), np.float32([0.25, -1.0, 3.5])
    mean, variance = np.float32([0.5, -2.0, 0.0]), np.float32([3.0, 0.0, 8.0])
    roots = [Fraction(2), Fraction(1), Fraction(3)]  # of variance + 1
    real = dequantized(x, a)
    for c in range(3):
        slope = Fraction(float(scale[c])) / roots[c]
        real[:, c] = (real[:, c] - Fraction(float(mean[c]))) * slope + Fraction(float(bias[c]))
    statistics = [(v, f32) for v in (scale, bias, mean, variance)]
    got = run(
        nn.BatchNormOp, [(x, uniform(a)), *statistics], uniform(b), epsilon=1.0, rounding=mode
    )
    assert np.array_equal(got, quantized(real, b, mode))


def test_batch_norm_with_irrational_roots() -> None:
    rng = np.random.default_rng(53)
    a, b = random_per_axis(rng, "i8", 1, 3, "wild", True), QParams.per_tensor("i16", 1e-3, 7)
    x = random_stored(rng, (4, 3, 9), a)
    statistics = rng.uniform(0.1, 3, (4, 3)).astype(np.float32)
    scale, bias, mean, variance = statistics
    real = dequantized(x, a)
    for c in range(3):
        square = Fraction(float(variance[c])) + Fraction(1e-5)
        root = Fraction(math.isqrt(square.numerator * square.denominator << 400), 1 << 200)
        slope = Fraction(float(scale[c])) * square.denominator / root
        real[:, c] = (real[:, c] - Fraction(float(mean[c]))) * slope + Fraction(float(bias[c]))
    operands = [(x, uniform(a)), *((row, f32) for row in statistics)]
    assert np.array_equal(run(nn.BatchNormOp, operands, uniform(b)), quantized(real, b))


def test_softmax() -> None:
    rng = np.random.default_rng(54)
    a, b = QParams.per_tensor("i8", 0.05, 3), QParams.per_tensor("u8", 1 / 256)
    x = random_stored(rng, (3, 10, 2), a)
    exponentials = np.exp((x.astype(np.float64) - 3) * 0.05)
    steps = exponentials / exponentials.sum(axis=1, keepdims=True) * 256
    assert np.abs(steps % 1 - 0.5).min() > 1e-9, "a tie would decide by luck"
    got = run(nn.SoftmaxOp, [(x, uniform(a))], uniform(b), axis=1)
    assert np.array_equal(got, np.clip(np.rint(steps), 0, 255))

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

from qdialect.algebra.qparams import QParams, Storage
from qdialect.ir import ops as nn
from qdialect.ir.ops import NNOp
from qdialect.ir.ops.shapes import window_shape

POOLS: list[dict[str, Any]] = [
    {"kernel": [2, 3]},
    {"kernel": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]},
    {"kernel": [2, 2], "strides": [2, 2], "dilations": [2, 1], "pads": [0, 1, 1, 0]},
    {"kernel": [3, 2], "strides": [2, 2], "ceil_mode": True},
    {"kernel": [3, 3], "strides": [2, 3], "pads": [1, 0, 1, 2], "ceil_mode": True},
]


OTHER_RANKS: list[dict[str, Any]] = [
    {"kernel": [3], "strides": [2], "pads": [1, 2]},
    {"kernel": [2], "dilations": [3], "ceil_mode": True},
    {"kernel": [2, 3, 1], "strides": [1, 2, 2], "pads": [1, 0, 0, 0, 2, 0]},
    {"kernel": [2, 2, 2], "strides": [3, 1, 2], "dilations": [1, 2, 1], "ceil_mode": True},
]
ALL = [*POOLS, *OTHER_RANKS]


def size_of(p: dict[str, Any]) -> tuple[int, ...]:
    """Extents of the input that a pool is tried on."""
    return {1: (9,), 2: (7, 6), 3: (5, 4, 5)}[len(p["kernel"])]


def windows_of(x: np.ndarray, p: dict[str, Any]) -> Iterator[tuple[Any, list[Any], int]]:
    """Output index, the elements inside the input, and the number inside the padded input."""
    kernel, size, rank = p["kernel"], x.shape[2:], x.ndim - 2
    strides, pads = p.get("strides", [1] * rank), p.get("pads", [0] * 2 * rank)
    dilations = p.get("dilations", [1] * rank)
    out = window_shape(size, kernel, strides, pads, dilations, p.get("ceil_mode", False))
    for n, c, *place in np.ndindex(*x.shape[:2], *out):
        inside, padded = [], 0
        for tap in np.ndindex(*kernel):
            at = [place[d] * strides[d] + tap[d] * dilations[d] - pads[d] for d in range(rank)]
            if all(0 <= i < extent for i, extent in zip(at, size, strict=True)):
                inside.append(x[(n, c, *at)])
            padded += all(at[d] < size[d] + pads[d + rank] for d in range(rank))
        yield (n, c, *place), inside, padded


@pytest.mark.parametrize("case", range(len(ALL)))
def test_max_pool(case: int) -> None:
    rng = np.random.default_rng(30 + case)
    q = random_per_axis(rng, "i8", 1, 3, "wild", zeros=True)
    x = random_stored(rng, (2, 3, *size_of(ALL[case])), q)
    x[0, 0] = -128
    got = run(nn.MAX_POOLS[x.ndim - 3], [(x, uniform(q))], uniform(q), **ALL[case])
    for index, inside, _ in windows_of(x, ALL[case]):
        assert got[index] == max(inside)
    real = run(nn.MAX_POOLS[x.ndim - 3], [(x.astype(np.float32), f32)], f32, **ALL[case])
    assert np.array_equal(real, got)


def test_padding_is_below_codes_outside_narrowed_bounds() -> None:
    q = QParams.per_tensor(Storage.of("i8", -100, 100), 0.5, 3)
    x = np.full((1, 1, 4), -128, np.int8)
    got = run(nn.MAX_POOLS[0], [(x, uniform(q))], uniform(q), kernel=[2], pads=[1, 1])
    assert (got == -128).all()
    # Windows of nothing but padding: the lowest number a code within the bounds names.
    got = run(nn.MAX_POOLS[0], [(x, uniform(q))], uniform(q), kernel=[1], pads=[1, 0])
    assert got.tolist() == [[[-100, -128, -128, -128, -128]]]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("include", [False, True])
@pytest.mark.parametrize("case", range(len(ALL)))
def test_avg_pool(case: int, include: bool, mode: str) -> None:
    rng = np.random.default_rng(40 + case)
    p = ALL[case] | {"count_include_pad": include}
    for kind in ("nice", "wild"):
        a, b = random_per_axis(rng, "u8", 1, 3, kind, True), random_per_tensor(rng, "i8", kind)
        x = random_stored(rng, (2, 3, *size_of(ALL[case])), a)
        got = run(nn.AVERAGE_POOLS[x.ndim - 3], [(x, uniform(a))], uniform(b), rounding=mode, **p)
        real = np.empty(got.shape, object)
        for index, inside, padded in windows_of(dequantized(x, a), ALL[case]):
            real[index] = sum(inside, Fraction(0)) / (padded if include else len(inside))
        assert np.array_equal(got, quantized(real, b, mode))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("size", [(8,), (2, 4), (2, 1, 4)])
def test_global_avg_pool(size: tuple[int, ...], mode: str) -> None:
    rng = np.random.default_rng(50)
    spatial = tuple(range(2, 2 + len(size)))
    for kind in ("nice", "wild"):
        a, b = random_per_tensor(rng, "i16", kind), random_per_tensor(rng, "i16", kind)
        x = random_stored(rng, (2, 3, *size), a)
        real = dequantized(x, a).sum(axis=spatial, keepdims=True) / Fraction(8)
        op = nn.GLOBAL_AVERAGE_POOLS[len(size) - 1]
        got = run(op, [(x, uniform(a))], uniform(b), rounding=mode)
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


@pytest.mark.parametrize("size", [1, 2, 3, 9])
def test_lrn(size: int) -> None:
    rng = np.random.default_rng(55)
    a = QParams.per_tensor("i8", 0.05, 3)
    x = random_stored(rng, (2, 5, 3), a)
    real = (x.astype(np.float64) - 3) * 0.05
    steps = np.empty(x.shape)
    for n, c, i in np.ndindex(x.shape):
        near = real[n, max(0, c - (size - 1) // 2) : c + size // 2 + 1, i]
        steps[n, c, i] = real[n, c, i] / (1.5 + 0.5 / size * (near**2).sum()) ** 0.75 / 0.05
    assert np.abs(steps % 1 - 0.5).min() > 1e-9, "a tie would decide by luck"
    p = {"size": size, "alpha": 0.5, "bias": 1.5}
    got = run(nn.LrnOp, [(x, uniform(a))], uniform(a), **p)
    assert np.array_equal(got, np.clip(np.rint(steps) + 3, -128, 127))


@pytest.mark.parametrize("kind", [nn.LayerNormOp, nn.RmsNormOp])
@pytest.mark.parametrize("axis", [-1, 1])
def test_layer_norm(axis: int, kind: type[NNOp]) -> None:
    rng = np.random.default_rng(56)
    a, b = QParams.per_tensor("i8", 0.05, 3), QParams.per_tensor("u8", 0.04, 120)
    x = random_stored(rng, (3, 10, 2), a)
    scale, bias = rng.normal(size=(2, 10, 2)).astype(np.float32)
    affine = [(scale, f32), (bias, f32)]
    if kind is nn.RmsNormOp:
        affine, bias = affine[:1], np.zeros_like(bias)
    real = (x.astype(np.float64) - 3) * 0.05
    steps = np.empty(x.shape)
    for index in np.ndindex(x.shape[: axis % 3]):
        row = real[index]
        row = row - row.mean() if kind is nn.LayerNormOp else row
        steps[index] = row / np.sqrt((row**2).sum() / row.size + 0.01)
    steps = (steps * scale + bias) / 0.04
    assert np.abs(steps % 1 - 0.5).min() > 1e-9, "a tie would decide by luck"
    operands = [(x, uniform(a)), *affine]
    got = run(kind, operands, uniform(b), axis=axis, epsilon=0.01)
    assert np.array_equal(got, np.clip(np.rint(steps) + 120, 0, 255))


def test_softmax() -> None:
    rng = np.random.default_rng(54)
    a, b = QParams.per_tensor("i8", 0.05, 3), QParams.per_tensor("u8", 1 / 256)
    x = random_stored(rng, (3, 10, 2), a)
    exponentials = np.exp((x.astype(np.float64) - 3) * 0.05)
    steps = exponentials / exponentials.sum(axis=1, keepdims=True) * 256
    assert np.abs(steps % 1 - 0.5).min() > 1e-9, "a tie would decide by luck"
    got = run(nn.SoftmaxOp, [(x, uniform(a))], uniform(b), axis=1)
    assert np.array_equal(got, np.clip(np.rint(steps), 0, 255))

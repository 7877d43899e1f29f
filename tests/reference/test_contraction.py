"""Convolution, fully connected and matrix product against naive loops in Fractions."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scalar_oracle import (
    MODES,
    build,
    dequantized,
    naive_conv,
    naive_conv_transpose,
    quantized,
    random_per_axis,
    random_per_tensor,
    random_stored,
    run,
    uniform,
)
from test_elementwise import nearest
from xdsl.dialects.builtin import f32
from xdsl.ir import Attribute

from qdialect.algebra.qparams import QParams
from qdialect.errors import UnsupportedError
from qdialect.interpreter import evaluate_op
from qdialect.ir import ops as nn

CONVOLUTIONS: list[dict[str, Any]] = [
    {},
    {"strides": [2, 1], "pads": [1, 0, 2, 1]},
    {"dilations": [2, 1], "pads": [2, 2, 2, 2], "strides": [1, 2]},
    {"groups": 2, "pads": [1, 1, 1, 1]},
    {"groups": 4, "strides": [2, 2], "pads": [0, 1, 1, 0]},
]


def product_scales(x: QParams, w: QParams) -> QParams:
    """Bias qparams: i32, scale = input scale * weight scale."""
    scales = [x.scale * s for s in w.scale_list()]
    return (
        QParams.per_axis("i32", 0, scales)
        if len(scales) > 1
        else QParams.per_tensor("i32", scales[0])
    )


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("case", range(len(CONVOLUTIONS)))
def test_conv2d(case: int, mode: str) -> None:
    rng = np.random.default_rng(100 + case)
    p = {"strides": [1, 1], "pads": [0, 0, 0, 0], "dilations": [1, 1], "groups": 1}
    p |= CONVOLUTIONS[case]
    for kind in ("nice", "wild"):
        for weights in ("i8", "u8", "i4"):
            x_q = random_per_tensor(rng, "u8", kind)
            if weights == "u8":
                w_q = random_per_tensor(rng, "u8", kind)
            else:
                w_q = random_per_axis(rng, weights, 0, 4, kind, zeros=weights == "i4")
            y_q = random_per_axis(rng, "i8", 1, 4, kind, zeros=True)
            scale = 16.0 * max(w_q.scale_list()) * x_q.scale
            if weights != "i4":
                y_q = QParams.per_tensor("i8", float(np.float32(scale)), 3)
            x = random_stored(rng, (2, 4, 5, 6), x_q)
            w = random_stored(rng, (4, 4 // p["groups"], 3, 2), w_q)
            b_q = product_scales(x_q, w_q)
            bias = rng.integers(-500, 500, 4).astype(np.int32)
            for with_bias in (False, True):
                real_bias = dequantized(bias, b_q) if with_bias else None
                real = naive_conv(dequantized(x, x_q), dequantized(w, w_q), real_bias, *p.values())
                operands: list[tuple[np.ndarray, Attribute]] = [
                    (x, uniform(x_q)),
                    (w, uniform(w_q)),
                ]
                operands += [(bias, uniform(b_q))] if with_bias else []
                got = run(nn.Conv2DOp, operands, uniform(y_q), rounding=mode, **p)
                assert np.array_equal(got, quantized(real, y_q, mode))


OTHER_RANKS: list[dict[str, Any]] = [
    {"strides": [1], "pads": [0, 0], "dilations": [1], "groups": 1},
    {"strides": [2], "pads": [3, 1], "dilations": [2], "groups": 2},
    {"strides": [1, 2, 1], "pads": [0, 1, 0, 1, 0, 0], "dilations": [1, 1, 2], "groups": 1},
    {"strides": [2, 1, 1], "pads": [1] * 6, "dilations": [1, 2, 1], "groups": 4},
]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("case", range(len(OTHER_RANKS)))
def test_conv_of_other_ranks(case: int, mode: str) -> None:
    rng = np.random.default_rng(120 + case)
    p = OTHER_RANKS[case]
    rank = len(p["strides"])
    for kind in ("nice", "wild"):
        x_q = random_per_tensor(rng, "u8", kind)
        w_q = random_per_axis(rng, "i8", 0, 4, kind, zeros=True)
        y_q = random_per_axis(rng, "i8", 1, 4, kind, zeros=True)
        x = random_stored(rng, (2, 4, *(9, 4, 5)[:rank]), x_q)
        w = random_stored(rng, (4, 4 // p["groups"], *(3, 2, 2)[:rank]), w_q)
        b_q = product_scales(x_q, w_q)
        bias = rng.integers(-500, 500, 4).astype(np.int32)
        real = naive_conv(dequantized(x, x_q), dequantized(w, w_q), dequantized(bias, b_q), **p)
        operands = [(x, uniform(x_q)), (w, uniform(w_q)), (bias, uniform(b_q))]
        got = run(nn.CONVOLUTIONS[rank - 1], operands, uniform(y_q), rounding=mode, **p)
        assert np.array_equal(got, quantized(real, y_q, mode))


TRANSPOSED: list[dict[str, Any]] = [
    {"strides": [1], "pads": [0, 0], "dilations": [1], "output_padding": [0], "groups": 1},
    {"strides": [3], "pads": [4, 1], "dilations": [2], "output_padding": [2], "groups": 2},
    {
        "strides": [2, 1],
        "pads": [0, 1, 2, 0],
        "dilations": [1, 2],
        "output_padding": [1, 0],
        "groups": 1,
    },
    {
        "strides": [2, 2],
        "pads": [1] * 4,
        "dilations": [1, 1],
        "output_padding": [0, 1],
        "groups": 4,
    },
    {
        "strides": [2, 1, 3],
        "pads": [0, 1, 0, 1, 0, 2],
        "dilations": [1, 2, 1],
        "output_padding": [1, 0, 2],
        "groups": 2,
    },
]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("case", range(len(TRANSPOSED)))
@pytest.mark.parametrize("weights", ["tensor", "channel"])
def test_conv_transpose(case: int, weights: str, mode: str) -> None:
    rng = np.random.default_rng(140 + case)
    p = TRANSPOSED[case]
    rank, groups = len(p["strides"]), p["groups"]
    channels = 1 if groups == 4 else 3
    for kind in ("nice", "wild"):
        x_q, y_q = random_per_tensor(rng, "i8", kind), random_per_tensor(rng, "i16", kind)
        w_q = random_per_tensor(rng, "i8", kind)
        if weights == "channel":
            axis = 0 if groups == 4 else 1
            w_q = random_per_axis(rng, "i8", axis, 4 if axis == 0 else channels, kind, zeros=True)
        x = random_stored(rng, (2, 4, *(5, 4, 2)[:rank]), x_q)
        w = random_stored(rng, (4, channels, *(3, 2, 2)[:rank]), w_q)
        products = product_scales(x_q, w_q).scale_list()
        repeats = groups * channels // len(products) if len(products) > 1 else 1
        b_q = QParams.per_tensor("i32", products[0])
        if len(products) > 1:
            b_q = QParams.per_axis("i32", 0, products * repeats)
        bias = rng.integers(-500, 500, groups * channels).astype(np.int32)
        real = naive_conv_transpose(
            dequantized(x, x_q), dequantized(w, w_q), dequantized(bias, b_q), **p
        )
        operands = [(x, uniform(x_q)), (w, uniform(w_q)), (bias, uniform(b_q))]
        got = run(nn.TRANSPOSED[rank - 1], operands, uniform(y_q), rounding=mode, **p)
        assert np.array_equal(got, quantized(real, y_q, mode))


def test_conv2d_with_ties_by_construction() -> None:
    """Accumulators of scale 1/2 on a result of scale 1: half of them are ties."""
    rng = np.random.default_rng(20)
    x_q, w_q = QParams.per_tensor("i8", 0.5), QParams.per_tensor("i8", 1.0)
    y_q = QParams.per_tensor("i32", 1.0)
    x, w = random_stored(rng, (1, 3, 6, 6), x_q), random_stored(rng, (4, 3, 3, 3), w_q)
    real = naive_conv(dequantized(x, x_q), dequantized(w, w_q), None, (1, 1), (0,) * 4, (1, 1), 1)
    results = []
    for mode in MODES:
        operands = [(x, uniform(x_q)), (w, uniform(w_q))]
        results.append(run(nn.Conv2DOp, operands, uniform(y_q), rounding=mode))
        assert np.array_equal(results[-1], quantized(real, y_q, mode))
    assert not np.array_equal(results[0], results[2])


def test_conv2d_ties_with_inexact_scales() -> None:
    """0.1 * 0.3 is no double, yet 5 * (0.1 * 0.3) / (10 * 0.1 * 0.3) is exactly 1/2."""
    x_q, w_q = QParams.per_tensor("i8", 0.1), QParams.per_tensor("i8", 3.0)
    y_q = QParams.per_tensor("i16", 0.6000000000000001, 0)  # 6 * the double 0.1, rounded
    y_tie = QParams.per_tensor("i16", 2 * 0.1, 0)
    x = np.arange(-60, 60).reshape(1, 1, 1, -1).astype(np.int8)
    w = np.full((1, 1, 1, 1), 1, np.int8)
    for target in (y_q, y_tie):
        for mode in MODES:
            real = dequantized(x, x_q) * dequantized(w, w_q)[0, 0, 0, 0]
            got = run(
                nn.Conv2DOp, [(x, uniform(x_q)), (w, uniform(w_q))], uniform(target), rounding=mode
            )
            assert np.array_equal(got, quantized(real, target, mode))


def test_float_results_and_float_operands() -> None:
    """Weight-only quantization, a float bias, a float result: exact, rounded once."""
    rng = np.random.default_rng(21)
    x_q, w_q = QParams.per_tensor("u8", 0.013, 100), random_per_axis(rng, "i8", 0, 3, "wild", True)
    y_q = QParams.per_tensor("i8", 0.7, 1)
    x, w = random_stored(rng, (1, 2, 4, 4), x_q), random_stored(rng, (3, 2, 2, 2), w_q)
    xf = rng.normal(size=x.shape).astype(np.float32)
    bias = rng.normal(size=3).astype(np.float32)
    for value, kind, qparams in ((x, uniform(x_q), x_q), (xf, f32, None)):
        real = naive_conv(
            dequantized(value, qparams),
            dequantized(w, w_q),
            dequantized(bias, None),
            (1, 1),
            (1, 1, 1, 1),
            (1, 1),
            1,
        )
        operands = [(value, kind), (w, uniform(w_q)), (bias, f32)]
        got = run(nn.Conv2DOp, operands, f32, pads=[1, 1, 1, 1])
        assert np.array_equal(got, nearest(real, np.float32))
        got = run(nn.Conv2DOp, operands, uniform(y_q), pads=[1, 1, 1, 1])
        assert np.array_equal(got, quantized(real, y_q))


def test_wide_operands_overflow_nothing() -> None:
    rng = np.random.default_rng(22)
    x_q, w_q = QParams.per_tensor("i32", 1e-3, 7), QParams.per_tensor("i32", 2e-5)
    y_q = QParams.per_tensor("i32", 3e2)
    x, w = random_stored(rng, (3, 50), x_q), random_stored(rng, (4, 50), w_q)
    real = dequantized(x, x_q) @ dequantized(w, w_q).T
    got = run(nn.FullyConnectedOp, [(x, uniform(x_q)), (w, uniform(w_q))], uniform(y_q))
    assert np.array_equal(got, quantized(real, y_q))


@pytest.mark.parametrize("mode", MODES)
def test_fully_connected(mode: str) -> None:
    rng = np.random.default_rng(23)
    for kind in ("nice", "wild"):
        x_q, w_q = random_per_tensor(rng, "i8", kind), random_per_axis(rng, "i8", 0, 6, kind, True)
        b_q, y_q = product_scales(x_q, w_q), random_per_axis(rng, "i16", 1, 6, kind, True)
        x, w = random_stored(rng, (4, 9), x_q), random_stored(rng, (6, 9), w_q)
        bias = rng.integers(-500, 500, 6).astype(np.int32)
        real = dequantized(x, x_q) @ dequantized(w, w_q).T + dequantized(bias, b_q)
        operands = [(x, uniform(x_q)), (w, uniform(w_q)), (bias, uniform(b_q))]
        got = run(nn.FullyConnectedOp, operands, uniform(y_q), rounding=mode)
        assert np.array_equal(got, quantized(real, y_q, mode))


@pytest.mark.parametrize(
    ("a_shape", "b_shape"),
    [((3, 4), (4, 5)), ((4,), (4,)), ((4,), (4, 5)), ((3, 4), (4,)), ((2, 1, 3, 4), (5, 4, 2))],
)
def test_matmul(a_shape: tuple[int, ...], b_shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(24)
    for kind in ("nice", "wild"):
        a_q, b_q = random_per_tensor(rng, "i8", kind), random_per_tensor(rng, "u8", kind)
        if len(b_shape) > 1:
            b_q = random_per_axis(rng, "i8", len(b_shape) - 1, b_shape[-1], kind, zeros=True)
        y_q = random_per_tensor(rng, "i16", kind)
        a, b = random_stored(rng, a_shape, a_q), random_stored(rng, b_shape, b_q)
        real = np.asarray(np.matmul(dequantized(a, a_q), dequantized(b, b_q)), object)
        got = run(nn.MatMulOp, [(a, uniform(a_q)), (b, uniform(b_q))], uniform(y_q))
        assert got.shape == real.shape
        assert np.array_equal(got, quantized(real, y_q))


def test_scales_along_the_summed_dimension() -> None:
    """Blocks of the weight along K: exact while (q - z) * s is; refused otherwise."""
    rng = np.random.default_rng(25)
    x_q, y_q = QParams.per_tensor("i8", 0.02, 5), QParams.per_tensor("i8", 0.5, -3)
    scales = [float(np.float32(s)) for s in rng.uniform(0.01, 0.1, 12)]
    w_q = QParams.blockwise("i4", [(1, 4)], [1, 3], scales[:3], [1, 2, 3])
    x, w = random_stored(rng, (5, 12), x_q), random_stored(rng, (4, 12), w_q)
    real = dequantized(x, x_q) @ dequantized(w, w_q).T
    operands = [(x, uniform(x_q)), (w, uniform(w_q))]
    built = build(nn.FullyConnectedOp, [(k, a.shape) for a, k in operands], uniform(y_q))
    from scalar_oracle import CONTEXT

    (got,) = evaluate_op(built, [x, w], CONTEXT)
    assert np.array_equal(got, quantized(real, y_q))
    wide = QParams.per_axis("i8", 1, [0.1] * 12)
    with pytest.raises(UnsupportedError, match="sum exactly"):
        run(nn.FullyConnectedOp, [(x, uniform(x_q)), (w, uniform(wide))], uniform(y_q))


def test_depthwise_equals_one_channel_convolutions() -> None:
    rng = np.random.default_rng(26)
    x, w = rng.normal(size=(2, 6, 9, 8)), rng.normal(size=(6, 1, 3, 3))
    x, w = x.astype(np.float32), w.astype(np.float32)
    got = run(nn.Conv2DOp, [(x, f32), (w, f32)], f32, groups=6)
    for c in range(6):
        alone = run(nn.Conv2DOp, [(x[:, c : c + 1], f32), (w[c : c + 1], f32)], f32)
        assert np.allclose(got[:, c : c + 1], alone, rtol=1e-6, atol=1e-6)


def test_fraction_oracle_agrees_with_a_hand_computed_sum() -> None:
    x_q, w_q = QParams.per_tensor("i8", 0.5, 1), QParams.per_tensor("i8", 0.25)
    x, w = np.array([[3, 5]], np.int8), np.array([[4, -2]], np.int8)
    real = dequantized(x, x_q) @ dequantized(w, w_q).T
    assert real.tolist() == [[Fraction(2 * 4 - 4 * 2, 8)]]

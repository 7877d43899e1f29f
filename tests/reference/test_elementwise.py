"""Elementwise ops on quantized tensors against scalar definitions, all int8 operands."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from scalar_oracle import (
    MODES,
    dequantized,
    mapped,
    quantized,
    random_per_axis,
    random_per_tensor,
    random_stored,
    run,
    uniform,
)
from xdsl.dialects.builtin import f32, f64, i32

from qdialect.algebra.qparams import QParams, Storage
from qdialect.algebra.rounding import Rounding
from qdialect.errors import UnsupportedError
from qdialect.interpreter.quantize import round_floats
from qdialect.ir import ops as nn

INT8 = np.arange(-128, 128).astype(np.int8)
UINT8 = np.arange(256).astype(np.uint8)

BINARY: dict[type, Callable[[Fraction, Fraction], Fraction]] = {
    nn.AddOp: lambda a, b: a + b,
    nn.SubOp: lambda a, b: a - b,
    nn.MulOp: lambda a, b: a * b,
    nn.DivOp: lambda a, b: a / b if b else (a > 0) * HUGE - (a < 0) * HUGE,
}
HUGE = Fraction(2**200)


@pytest.mark.parametrize("op", BINARY)
@pytest.mark.parametrize("kind", ["nice", "wild"])
def test_binary_on_all_pairs_of_int8(op: type, kind: str) -> None:
    rng = np.random.default_rng(11)
    for mode in MODES:
        a, b, c = (random_per_tensor(rng, storage, kind) for storage in ("i8", "u8", "i8"))
        if op is nn.DivOp:
            c = c.with_storage("i16")
        lhs, rhs = INT8[::3, None], UINT8[None, ::2]
        expected = quantized(mapped(BINARY[op], dequantized(lhs, a), dequantized(rhs, b)), c, mode)
        got = run(op, [(lhs, uniform(a)), (rhs, uniform(b))], uniform(c), rounding=mode)
        assert np.array_equal(got, expected)


@pytest.mark.parametrize("op", BINARY)
def test_binary_on_other_layouts_and_floats(op: type) -> None:
    rng = np.random.default_rng(12)
    for kind in ("nice", "wild"):
        a = random_per_axis(rng, "i16", 1, 4, kind, zeros=True)
        b = random_per_tensor(rng, "i32", kind)
        c = random_per_axis(rng, "i8", 0, 5, kind, zeros=True)
        lhs, rhs = random_stored(rng, (5, 4, 3), a), random_stored(rng, (4, 1), b)
        real = mapped(BINARY[op], dequantized(lhs, a), dequantized(rhs, b))
        assert np.array_equal(
            run(op, [(lhs, uniform(a)), (rhs, uniform(b))], uniform(c)), quantized(real, c)
        )
        x = (rng.normal(size=(4, 1)) * 100).astype(np.float32)
        real = mapped(BINARY[op], dequantized(lhs, a), dequantized(x, None))
        assert np.array_equal(
            run(op, [(lhs, uniform(a)), (x, f32)], uniform(c)), quantized(real, c)
        )
        for element, dtype in ((f32, np.float32), (f64, np.float64)):
            got = run(op, [(lhs, uniform(a)), (x, f32)], element)
            assert got.dtype == dtype
            assert np.array_equal(got, nearest(real, dtype))


def nearest(reals: np.ndarray, dtype: type) -> np.ndarray:
    """Fractions to the nearest float: doubles are correctly rounded by Python, and float32
    by choosing between the neighbours of the (then doubly rounded) guess."""
    doubles = np.vectorize(float, otypes=[np.float64])(reals)
    if dtype is np.float64:
        return doubles
    guess = doubles.astype(np.float32)
    result = guess.copy()
    for index in np.ndindex(guess.shape):
        around = [np.nextafter(guess[index], np.float32(s)) for s in (-np.inf, np.inf)]
        candidates = [guess[index], *around]
        result[index] = min(candidates, key=lambda v: abs(Fraction(float(v)) - reals[index]))
    return result


def test_a_zero_divisor_saturates() -> None:
    q = QParams.per_tensor("i8", 0.5, 3)
    lhs, rhs = np.array([-128, 3, 127], np.int8), np.full(3, 3, np.int8)
    got = run(nn.DivOp, [(lhs, uniform(q)), (rhs, uniform(q))], uniform(q))
    assert list(got) == [-128, 3, 127]
    real = run(nn.DivOp, [(lhs, uniform(q)), (rhs, uniform(q))], f32)
    assert list(real) == [-math.inf, 0.0, math.inf]


def test_float_operands_that_are_no_numbers() -> None:
    q = QParams.per_tensor("i8", 0.5, 3)
    x = np.array([math.nan, math.inf, -math.inf, 1e38], np.float32)
    stored = np.full(4, 5, np.int8)
    assert list(run(nn.AddOp, [(stored, uniform(q)), (x, f32)], uniform(q))) == [
        -128,
        127,
        -128,
        127,
    ]
    real = run(nn.AddOp, [(stored, uniform(q)), (x, f32)], f32)
    assert np.array_equal(real, x + np.float32(1.0), equal_nan=True)


def test_integers_and_gemmlowp() -> None:
    a, b = np.array([7, -7, 7], np.int32), np.array([2, 2, -2], np.int32)
    assert list(run(nn.DivOp, [(a, i32), (b, i32)], i32)) == [3, -3, -3]
    assert list(run(nn.AddOp, [(a, i32), (b, i32)], i32)) == [9, -5, 5]
    q = uniform(QParams.per_tensor("i8", 0.5))
    with pytest.raises(UnsupportedError, match="gemmlowp"):
        run(nn.AddOp, [(INT8, q), (INT8, q)], q, rounding="gemmlowp")


RATIONAL: dict[type, tuple[dict[str, float], Callable[[Fraction], Fraction]]] = {
    nn.LeakyReluOp: ({"alpha": 0.1}, lambda x: x if x >= 0 else x * Fraction(0.1)),
    nn.HardSigmoidOp: (
        {"alpha": 0.2, "beta": 0.5},
        lambda x: max(Fraction(0), min(Fraction(1), Fraction(0.2) * x + Fraction(1, 2))),
    ),
    nn.HardSwishOp: (
        {},
        lambda x: x * max(Fraction(0), min(Fraction(1), x / 6 + Fraction(1, 2))),
    ),
}


@pytest.mark.parametrize("op", RATIONAL)
@pytest.mark.parametrize("mode", MODES)
def test_rational_functions_on_all_int8(op: type, mode: str) -> None:
    properties, function = RATIONAL[op]
    rng = np.random.default_rng(13)
    for kind in ("nice", "wild") * 3:
        a, b = random_per_tensor(rng, "i8", kind), random_per_tensor(rng, "u8", kind)
        expected = quantized(mapped(function, dequantized(INT8, a)), b, mode)
        got = run(op, [(INT8, uniform(a))], uniform(b), rounding=mode, **properties)
        assert np.array_equal(got, expected)


@pytest.mark.parametrize(
    ("op", "function"),
    [(nn.SigmoidOp, lambda x: 1 / (1 + math.exp(-x))), (nn.TanhOp, math.tanh)],
)
def test_transcendental_functions_on_all_int8(op: type, function: Callable[[float], float]) -> None:
    for scale in (0.01, 0.05, 0.25):
        a, b = QParams.per_tensor("i8", scale, 3), QParams.per_tensor("i8", 1 / 128, -5)
        real = [function(scale * (int(q) - 3)) * 128 for q in INT8]
        assert min(abs(v % 1 - 0.5) for v in real) > 1e-9, "a tie would decide by luck"
        expected = [min(max(round(v) - 5, -128), 127) for v in real]
        assert list(run(op, [(INT8, uniform(a))], uniform(b))) == expected


def test_relu_and_clip_compare_with_quantized_bounds() -> None:
    for q in (
        QParams.per_tensor("i8", 0.1, 3),
        QParams.per_tensor(Storage.of("i8", -100, 90), 0.25, -7),
        QParams.per_tensor("i8", 0.25, 300),
    ):
        low, high = q.storage.min, q.storage.max
        stored = np.arange(low, high + 1).astype(np.int8)

        def level(x: float, q: QParams = q) -> int:
            return int(quantized(np.array([Fraction(x)], object), q)[0])

        zero, six = level(0.0), level(6.0)
        got = run(nn.ReluOp, [(stored, uniform(q))], uniform(q))
        assert list(got) == [max(int(v), zero) for v in stored]
        got = run(nn.ClipOp, [(stored, uniform(q))], uniform(q), min=0.0, max=6.0)
        assert list(got) == [min(max(int(v), zero), six) for v in stored]
        got = run(nn.ClipOp, [(stored, uniform(q))], uniform(q), min=-math.inf, max=0.0)
        assert list(got) == [min(int(v), zero) for v in stored]


def test_relu_per_axis_uses_each_zero_point() -> None:
    q = QParams.per_axis("i8", 1, [0.1, 0.2], [-5, 9])
    stored = np.stack([INT8, INT8], 1)
    expected = np.maximum(stored, np.array([-5, 9], np.int8))
    assert np.array_equal(run(nn.ReluOp, [(stored, uniform(q))], uniform(q)), expected)


def test_clip_where_bounds_cross_gives_the_upper() -> None:
    assert list(run(nn.ClipOp, [(np.float32([0, 9]), f32)], f32, min=5.0, max=2.0)) == [2.0, 2.0]


@pytest.mark.parametrize("mode", MODES)
def test_rounding_of_doubles(mode: str) -> None:
    rng = np.random.default_rng(14)
    values = np.concatenate(
        [np.arange(-9, 10) / 2, rng.normal(size=200) * 1e3, [0.49999999999999994]]
    )
    reals = [Fraction(float(v)) for v in values]
    unit = QParams.per_tensor("i32", 1.0)
    expected = quantized(np.array(reals, object), unit, mode)
    assert np.array_equal(round_floats(values, Rounding(mode)), expected)


@pytest.mark.parametrize("op", [nn.MaximumOp, nn.MinimumOp])
@pytest.mark.parametrize("kind", ["nice", "wild"])
def test_extrema_are_those_of_the_reals(op: type, kind: str) -> None:
    rng = np.random.default_rng(21)
    choose = {nn.MaximumOp: max, nn.MinimumOp: min}[op]
    for storage in ("i8", "u8", "i16"):
        a = random_per_tensor(rng, storage, kind)
        lhs, rhs = (random_stored(rng, shape, a) for shape in ((3, 1, 5), (4, 5)))
        expected = quantized(mapped(choose, dequantized(lhs, a), dequantized(rhs, a)), a)
        got = run(op, [(lhs, uniform(a)), (rhs, uniform(a))], uniform(a))
        assert np.array_equal(got, expected)


def test_extrema_of_what_is_no_number() -> None:
    x, y = np.array([np.nan, 1, np.inf], np.float32), np.array([1, np.nan, 2], np.float32)
    assert np.isnan(run(nn.MaximumOp, [(x, f32), (y, f32)], f32)[:2]).all()
    assert np.isnan(run(nn.MinimumOp, [(x, f32), (y, f32)], f32)[:2]).all()

"""quant.rescale and the casts against scalar definitions."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import pytest
from scalar_oracle import (
    CONTEXT,
    MODES,
    dequantized,
    quantized,
    random_per_tensor,
    random_scales,
    random_stored,
    round_fraction,
)
from xdsl.dialects.builtin import (
    IntegerType,
    Signedness,
    StringAttr,
    TensorType,
    UnrealizedConversionCastOp,
    bf16,
    f16,
    f32,
    f64,
    i8,
    i32,
)
from xdsl.ir import Attribute
from xdsl.utils.test_value import create_ssa_value

from qdialect.algebra.qparams import QParams, Storage
from qdialect.algebra.rounding import Rounding
from qdialect.errors import UnsupportedError
from qdialect.interpreter import evaluate_op
from qdialect.interpreter.values import round_to_bf16
from qdialect.ir.quant import ROUNDING_KEY, DCastOp, QCastOp, RescaleOp, SCastOp, UniformType

INT8 = np.arange(-128, 128).astype(np.int8)


def rescaled(
    stored: np.ndarray, a: QParams, b: QParams, rounding: str = "half_even", **fixed: list[int]
) -> np.ndarray:
    value = create_ssa_value(TensorType(UniformType(a), stored.shape))
    op = RescaleOp(value, TensorType(UniformType(b), stored.shape), Rounding(rounding), **fixed)
    op.verify()
    return evaluate_op(op, [stored], CONTEXT)[0]


def rescale_cases() -> Iterator[tuple[QParams, QParams]]:
    rng = np.random.default_rng(7)
    for kind in ("nice", "wild"):
        for target in ("i8", "u8", "i16", "i4", "i32"):
            for _ in range(6):
                yield random_per_tensor(rng, "i8", kind), random_per_tensor(rng, target, kind)
    yield QParams.per_tensor("i8", 0.5), QParams.per_tensor("i8", 1.0)
    yield QParams.per_tensor("i8", 0.1), QParams.per_tensor(Storage.of("i8", -127, 127), 0.2, 3)
    yield QParams.per_tensor("i8", 3e38), QParams.per_tensor("i8", 1e-45)
    yield QParams.per_tensor("i8", 1e-45), QParams.per_tensor("i8", 3e38)
    yield QParams.per_tensor("i8", 5e-324, 3, "f64"), QParams.per_tensor("i8", 1e-323, 0, "f64")


@pytest.mark.parametrize("mode", MODES)
def test_rescale_exhaustively(mode: str) -> None:
    for a, b in rescale_cases():
        expected = quantized(dequantized(INT8, a), b, mode)
        assert np.array_equal(rescaled(INT8, a, b, mode), expected), (a, b)


def test_rescale_moves_as_many_ties_as_there_are() -> None:
    half, one = QParams.per_tensor("i8", 0.5), QParams.per_tensor("i8", 1.0)
    even, up = (rescaled(INT8, half, one, mode) for mode in ("half_even", "half_up"))
    assert int((even != up).sum()) == 64


def test_rescale_of_ratios_just_beside_a_tie() -> None:
    """Scale ratios one double away from 1/2 decide every odd integer the other way."""
    for step, mode in ((-1, "half_up"), (1, "half_even")):
        scale = np.nextafter(0.5, step * np.inf)
        a, b = QParams.per_tensor("i16", scale, 0, "f64"), QParams.per_tensor("i16", 1.0, 0, "f64")
        stored = np.arange(-301, 302).astype(np.int16)
        assert np.array_equal(
            rescaled(stored, a, b, mode), quantized(dequantized(stored, a), b, mode)
        )


@pytest.mark.parametrize("mode", MODES)
def test_rescale_of_every_layout(mode: str) -> None:
    rng = np.random.default_rng(3)
    shape = (4, 6, 5)
    for kind in ("nice", "wild"):
        fields = [
            random_per_tensor(rng, "i8", kind),
            QParams.per_axis("i8", 1, random_scales(rng, 6, kind), list(range(6))),
            QParams.blockwise("i8", [(0, 2), (1, 3)], [2, 2, 1], random_scales(rng, 4, kind)),
            QParams.blockwise("i8", [(1, 6)], [1, 1, 1], random_scales(rng, 1, kind), [5]),
        ]
        for a in fields:
            stored = random_stored(rng, shape, a)
            for b in fields:
                expected = quantized(dequantized(stored, a), b, mode)
                assert np.array_equal(rescaled(stored, a, b, mode), expected)


@pytest.mark.parametrize("mode", MODES)
def test_ties_beside_the_storage_bounds(mode: str) -> None:
    """Ratios one double away from 1/2, on bounds that cut the image at the near ties."""
    a = QParams.per_tensor("i8", 0.1, 0, "f64")
    for low, high in ((-3, 3), (-4, 4), (0, 5), (-20, -10), (10, 21)):
        storage = Storage.of("i8", low, high)
        for scale in (np.nextafter(0.2, 0), 0.2, np.nextafter(0.2, 1)):
            b = QParams.per_tensor(storage, float(scale), 0, "f64")
            expected = quantized(dequantized(INT8, a), b, mode)
            assert np.array_equal(rescaled(INT8, a, b, mode), expected)


def test_rescale_of_wide_storage() -> None:
    rng = np.random.default_rng(4)
    a = QParams.per_tensor("i32", 0.1, -(2**31))
    stored = random_stored(rng, (200,), a)
    for b in (QParams.per_tensor("u32", 0.3, 2**31), QParams.per_tensor("i32", 1.6, 17)):
        assert np.array_equal(rescaled(stored, a, b), quantized(dequantized(stored, a), b))


# -- fixed point --------------------------------------------------------------


def gemmlowp(value: int, multiplier: int, shift: int) -> int:
    """TFLite: SaturatingRoundingDoublingHighMul, then RoundingDivideByPOT (shift >= 31)."""
    product = value * multiplier
    nudge = (1 << 30) if product >= 0 else 1 - (1 << 30)
    high = abs(product + nudge) // (1 << 31) * (1 if product + nudge >= 0 else -1)
    exponent = shift - 31
    mask = (1 << exponent) - 1
    remainder, threshold = high & mask, (mask >> 1) + (high < 0)
    return (high >> exponent) + (remainder > threshold)


def test_fixed_point_roundings() -> None:
    rng = np.random.default_rng(5)
    a, b = QParams.per_tensor("i16", 1.0, 3), QParams.per_tensor("i8", 1.0, -7)
    stored = random_stored(rng, (300,), a)
    for mode in MODES:
        for multiplier, shift in ((0, 0), (3, 0), (1, 1), (5, 3), (2**30 + 1, 41), (2**31 - 1, 62)):
            got = rescaled(stored, a, b, mode, multiplier=[multiplier], shift=[shift])
            expected = [
                round_fraction(Fraction((int(q) - 3) * multiplier, 1 << shift), mode) - 7
                for q in stored
            ]
            assert list(got) == list(np.clip(expected, -128, 127))


def test_gemmlowp_is_the_two_stage_rounding_of_tflite() -> None:
    rng = np.random.default_rng(6)
    a, b = QParams.per_tensor("i32", 1.0), QParams.per_tensor("i16", 1.0)
    for shift in (32, 33, 37, 45):
        stored = (rng.integers(-(2**15), 2**15, 500) * 2 ** (shift - 31)).astype(np.int32)
        stored = stored + rng.integers(-2, 3, 500).astype(np.int32)
        for multiplier in (1 << 30, 3 << 29, (1 << 31) - 1, 1518500250):
            got = rescaled(stored, a, b, "gemmlowp", multiplier=[multiplier], shift=[shift])
            expected = [gemmlowp(int(q), multiplier, shift) for q in stored]
            assert list(got) == list(np.clip(expected, -(2**15), 2**15 - 1))


def test_ruy_rounds_up_twice() -> None:
    rng = np.random.default_rng(7)
    a, b = QParams.per_tensor("i32", 1.0), QParams.per_tensor("i16", 1.0)
    for shift in (31, 32, 33, 37, 45):
        stored = (rng.integers(-(2**15), 2**15, 500) * 2 ** (shift - 31)).astype(np.int32)
        stored = stored + rng.integers(-2, 3, 500).astype(np.int32)
        for multiplier in (1 << 30, 3 << 29, (1 << 31) - 1, 1518500250):
            got = rescaled(stored, a, b, "ruy", multiplier=[multiplier], shift=[shift])
            highs = [(int(q) * multiplier + (1 << 30)) >> 31 for q in stored]
            expected = [(h + ((1 << shift - 31) >> 1)) >> (shift - 31) for h in highs]
            assert list(got) == list(np.clip(expected, -(2**15), 2**15 - 1))


def test_fixed_point_per_axis_and_beyond_int64() -> None:
    a = QParams.per_axis("i32", 0, [1.0, 1.0], [-(2**31), 0])
    b = QParams.per_tensor("i32", 1.0)
    stored = np.array([[2**31 - 1, -(2**31)], [2**31 - 1, -(2**31)]], np.int32)
    got = rescaled(stored, a, b, "half_up", multiplier=[2**31 - 1, 1], shift=[32, 0])
    first = ((2**32 - 1) * (2**31 - 1) + (1 << 31)) >> 32
    assert got.tolist() == [[first, 0], [2**31 - 1, -(2**31)]]


def test_gemmlowp_needs_multiplier_and_shift() -> None:
    q = QParams.per_tensor("i8", 1.0)
    with pytest.raises(UnsupportedError, match="gemmlowp"):
        rescaled(INT8, q, q, "gemmlowp")


# -- casts --------------------------------------------------------------------


def cast(
    op: type[DCastOp | QCastOp | SCastOp],
    value: np.ndarray,
    a: Attribute,
    b: Attribute,
    **more: str,
) -> np.ndarray:
    built = op(create_ssa_value(TensorType(a, value.shape)), TensorType(b, value.shape))
    if more:
        built.attributes[ROUNDING_KEY] = StringAttr(more["rounding"])
    built.verify()
    return evaluate_op(built, [value], CONTEXT, more.get("floats", "ieee"))[0]


@pytest.mark.parametrize("mode", MODES)
def test_qcast_divides_in_f32_and_rounds(mode: str) -> None:
    rng = np.random.default_rng(8)
    for scale in (0.1, 0.5, 1e-3, 0.0078125):
        q = QParams.per_tensor("i8", scale, 5)
        single = np.float32(scale)
        x = np.concatenate([rng.normal(size=500) * 60 * scale, (np.arange(-300, 300) / 2) * scale])
        x = x.astype(np.float32)
        expected = [
            min(max(round_fraction(Fraction(float(v / single)), mode) + 5, -128), 127) for v in x
        ]
        assert list(cast(QCastOp, x, f32, UniformType(q), rounding=mode)) == expected


def test_qcast_of_values_that_are_no_numbers() -> None:
    x = np.array([np.nan, np.inf, -np.inf, 1e30, -1e30], np.float32)
    narrow = Storage.of("u8", 3, 200)
    assert list(cast(QCastOp, x, f32, UniformType.per_tensor(narrow, 0.5, 7))) == [
        3,
        200,
        3,
        200,
        3,
    ]


def test_dcast_rounds_the_difference_and_the_product() -> None:
    rng = np.random.default_rng(9)
    q = QParams.per_tensor("i32", 0.1, 3)
    stored = random_stored(rng, (1000,), q)
    expected = (stored.astype(np.int64) - 3).astype(np.float32) * np.float32(0.1)
    assert np.array_equal(cast(DCastOp, stored, UniformType(q), f32), expected)


def test_other_expressed_types() -> None:
    stored = INT8
    for kind, name in ((f16, "f16"), (bf16, "bf16"), (f64, "f64")):
        q = UniformType.per_tensor("i8", 0.1, 3, name)
        real = cast(DCastOp, stored, q, kind)
        wide = (stored.astype(np.int64) - 3) * (0.1 if name == "f64" else np.float32(0.1))
        if name == "f64":
            assert np.array_equal(real, wide)
        elif name == "f16":
            assert np.array_equal(real, wide.astype(np.float32).astype(np.float16))
        else:
            assert np.array_equal(real, round_to_bf16(wide.astype(np.float32)))
        assert np.array_equal(cast(QCastOp, real, kind, q), stored)


def test_bf16_rounding_is_half_even_on_the_upper_half() -> None:
    rng = np.random.default_rng(10)
    bits = rng.integers(0, 2**32, 5000, np.uint32)
    bits[:200] = (bits[:200] & np.uint32(0xFFFF0000)) | np.uint32(0x8000)  # ties
    x = bits.view(np.float32)
    x = x[np.isfinite(x)]
    bits = x.view(np.uint32).astype(np.uint64)
    rounded = (bits + 0x7FFF + ((bits >> np.uint64(16)) & np.uint64(1))) & np.uint64(0xFFFF0000)
    expected = rounded.astype(np.uint32).view(np.float32)
    assert np.array_equal(round_to_bf16(x), expected)


def test_scast_keeps_bits() -> None:
    stored = np.arange(256).astype(np.uint8)
    q = UniformType.per_tensor("u8", 0.5, 128)
    signed = cast(SCastOp, stored, q, i8)
    assert signed.dtype == np.int8
    assert np.array_equal(signed, stored.view(np.int8))
    assert np.array_equal(cast(SCastOp, signed, i8, q), stored)
    nibbles = UniformType.per_tensor("u4", 0.5)
    from xdsl.dialects.builtin import IntegerType

    four = cast(SCastOp, np.arange(16).astype(np.uint8), nibbles, IntegerType(4))
    assert list(four) == [*range(8), *range(-8, 0)]
    assert np.array_equal(cast(SCastOp, four, IntegerType(4), nibbles), np.arange(16))


def test_conversions_between_signless_and_unsigned_keep_bits() -> None:
    ui8 = IntegerType(8, Signedness.UNSIGNED)
    for source, target, dtype in ((i8, ui8, np.uint8), (ui8, i8, np.int8)):
        value = create_ssa_value(TensorType(source, [256]))
        op = UnrealizedConversionCastOp.get([value], [TensorType(target, [256])])
        stored = INT8 if source == i8 else INT8.view(np.uint8)
        found = evaluate_op(op, [stored], CONTEXT)[0]
        assert found.dtype == dtype
        np.testing.assert_array_equal(found, INT8.view(dtype))
    value = create_ssa_value(TensorType(f32, [2]))
    op = UnrealizedConversionCastOp.get([value], [TensorType(i32, [2])])
    with pytest.raises(UnsupportedError, match="has no meaning"):
        evaluate_op(op, [np.zeros(2, np.float32)], CONTEXT)

from __future__ import annotations

import math
import random

import numpy as np
import pytest

from qdialect.algebra.float_text import FORMATS, float_text, format_values, round_to_format
from qdialect.algebra.qparams import Storage
from qdialect.interpreter.codes import codes_of


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.000000e+00"),
        (-0.0, "-0.000000e+00"),
        (2.0, "2.000000e+00"),
        (-1.5e-3, "-1.500000e-03"),
        (0.1, "1.000000e-01"),
        (1e100, "1.000000e+100"),
        (0.998, "0.998"),
        (0.0039215686274509803, "0.0039215686274509803"),
        (0.7, "0.69999999999999996"),
        (1.7976931348623157e308, "1.7976931348623157E+308"),
        (123456789.0, "0x419D6F3454000000"),
        (math.inf, "0x7FF0000000000000"),
    ],
)
def test_double_prints_as_mlir_opt_prints_it(value: float, text: str):
    assert float_text(value) == text


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("f16", 0.1, "9.997550e-02"),
        ("bf16", 0.3, "3.007810e-01"),
        ("f32", 0.123456789, "0.123456791"),
        ("f8E4M3FN", 3.3, "3.250000e+00"),
        ("f8E8M0FNU", 1e-38, "1.175490e-38"),
    ],
)
def test_narrow_value_prints_with_the_digits_of_its_format(name: str, value: float, text: str):
    assert float_text(round_to_format(value, name), name) == text


@pytest.mark.parametrize("name", ["f64", "f32", "f16", "bf16", "f8E4M3FN"])
def test_decimal_text_reads_back_as_the_value(name: str):
    rng = random.Random(name)
    for _ in range(2000):
        value = round_to_format(rng.choice([-1, 1]) * 2.0 ** rng.uniform(-13, 15), name)
        text = float_text(value, name)
        if not text.startswith("0x"):
            assert round_to_format(float(text), name) == value


@pytest.mark.parametrize(("name", "dtype"), [("f16", np.float16), ("f32", np.float32)])
def test_rounding_agrees_with_numpy(name: str, dtype: type):
    rng = random.Random(7)
    largest = FORMATS[name].largest
    for _ in range(5000):
        value = rng.choice([-1, 1]) * 2.0 ** rng.uniform(-160, 15)
        if abs(value) < largest:
            assert round_to_format(value, name) == float(dtype(value))


@pytest.mark.parametrize(
    "name", ["bfloat16", "float8_e5m2", "float8_e4m3fn", "float8_e8m0fnu", "float4_e2m1fn"]
)
def test_rounding_agrees_with_ml_dtypes(name: str):
    dtypes = pytest.importorskip("ml_dtypes", reason="ml_dtypes is not installed")
    dtype = getattr(dtypes, name)
    ours = {
        "bfloat16": "bf16",
        "float8_e5m2": "f8E5M2",
        "float8_e4m3fn": "f8E4M3FN",
        "float8_e8m0fnu": "f8E8M0FNU",
        "float4_e2m1fn": "f4E2M1FN",
    }[name]
    rng = random.Random(name)
    fmt = FORMATS[ours]
    for _ in range(3000):
        value = 2.0 ** rng.uniform(math.log2(fmt.smallest), math.log2(fmt.largest))
        value = max(float(np.float32(value)), 1.2e-38)  # ml_dtypes flushes f32 subnormals
        assert round_to_format(value, ours) == float(np.array(value, np.float32).astype(dtype))


def test_rounding_saturates_and_passes_special_values():
    assert round_to_format(1e6, "f16") == 65504.0
    assert round_to_format(-1e6, "f4E2M1FN") == -6.0
    assert round_to_format(1e-60, "f32") == 0.0
    assert math.isnan(round_to_format(math.nan, "f16"))
    assert round_to_format(math.inf, "f16") == math.inf


@pytest.mark.parametrize(("name", "width"), [("f4E2M1FN", 4), ("f8E4M3FN", 8), ("f8E5M2", 8)])
def test_what_bit_patterns_mean(name: str, width: int) -> None:
    """As the interpreter has them, which shares nothing with it, sign of zero and all."""
    found = format_values(name, width)
    np.testing.assert_array_equal(found, codes_of(Storage.of(name)).values)
    assert [math.copysign(1, value) for value in found if value == 0] == [1, -1]
    assert max(value for value in found if math.isfinite(value)) == FORMATS[name].largest

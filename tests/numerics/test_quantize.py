"""Constants: quantizing floats and rescaling codes, against definitions in fractions."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from test_requantize import REAL, TENTH, QuantGrid, definition, rescaled

from qdialect.algebra.arithmetic import Arithmetic
from qdialect.algebra.qparams import QParams
from qdialect.algebra.quantize import (
    can_quantize_floats,
    quantize_floats,
    rescale_codes,
    spread,
    storage_dtype,
)
from qdialect.algebra.rounding import Rounding

WORKING = {"f16": np.float32, "f32": np.float32, "f64": np.float64}


def quantized(x: float, q: QParams, cell: int, rounding: Rounding) -> int:
    """ONNX QuantizeLinear of one number: IEEE division, then integers."""
    kind = WORKING[q.expressed]
    with np.errstate(all="ignore"):
        ratio = float(kind(x) / kind(q.scale_list()[cell]))
    low, high = q.storage.min, q.storage.max
    if np.isnan(ratio):
        return low
    if np.isinf(ratio):
        return high if ratio > 0 else low
    code = definition(Fraction(ratio), rounding) + q.zero_point_list()[cell]
    return min(max(code, low), high)


@pytest.mark.parametrize(("expressed", "rounding"), [*product(WORKING, REAL)])
def test_floats(expressed: str, rounding: Rounding) -> None:
    numbers = [n / 8 for n in range(-60, 60)] + [n * TENTH for n in range(-9, 9)]
    numbers += [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e30, -1e30, 5e-324, 65504.0]
    numbers += [0.49999999999999994, 2.0**52 + 1, -(2.0**53), 1e300]
    with np.errstate(over="ignore"):
        x = np.array(numbers, {"f16": np.float16}.get(expressed, WORKING[expressed]))
    for storage, scale, zero in product(("i8", "u8", "i4", "i16", "i32"), (0.5, TENTH), (0, 7)):
        q = QParams.per_tensor(storage, scale, zero, expressed)
        codes = quantize_floats(x, q, rounding)
        assert codes.dtype == storage_dtype(q)
        assert codes.tolist() == [quantized(v, q, 0, rounding) for v in x.tolist()]


def test_narrow_bounds_and_axes() -> None:
    from qdialect.algebra.qparams import Storage

    q = QParams.per_axis(Storage.of("i8", -100, 90), 1, [0.5, TENTH], [1, -2])
    x = np.array([[-60.0, 9.0], [0.75, -0.05], [np.nan, 1e9]], np.float32)
    codes = quantize_floats(x, q, Rounding.HALF_EVEN)
    expected = [[quantized(v, q, c, Rounding.HALF_EVEN) for c, v in enumerate(r)] for r in x]
    assert codes.tolist() == expected


def test_what_cannot_be_evaluated() -> None:
    assert not can_quantize_floats(QParams.per_tensor("i8", 1.0, 0, "bf16"))
    assert can_quantize_floats(QParams.per_tensor("i8", 1.0, 0, "f16"))
    with pytest.raises(ValueError, match="gemmlowp"):
        quantize_floats(np.zeros(2, np.float32), QParams.per_tensor("i8", 1.0), Rounding.GEMMLOWP)


ENCODINGS = [
    QParams.per_tensor("i8", 0.5, 3),
    QParams.per_tensor("u8", TENTH, 255),
    QParams.per_axis("i8", 0, [0.5, TENTH], [3, -128]),
    QParams.per_axis("u16", 0, [0.25, 1.0], [0, 40000]),
]


@pytest.mark.parametrize(("a", "b", "rounding"), [*product(ENCODINGS, ENCODINGS, REAL)])
def test_rescaled_constants(a: QParams, b: QParams, rounding: Rounding) -> None:
    low = 0 if not a.storage.signed else -128
    codes = np.stack([np.arange(low, low + 256)] * 2).astype(storage_dtype(a))
    result = rescale_codes(codes, a, b, rounding, Arithmetic.REAL)
    assert result.dtype == storage_dtype(b)
    for row in range(2):
        source, target = (
            QuantGrid(
                q.scale_list()[row % q.count],
                q.zero_point_list()[row % q.count],
                q.storage.min,
                q.storage.max,
            )
            for q in (a, b)
        )
        assert result[row].tolist() == [
            rescaled(int(v), source, target, rounding) for v in codes[row]
        ]


def test_blocks_are_spread_over_their_elements() -> None:
    q = QParams.blockwise("i8", [(1, 2)], [1, 3], [1.0, 2.0, 3.0])
    assert spread(q.scale_array(), q, (4, 6)).tolist() == [[1.0, 1.0, 2.0, 2.0, 3.0, 3.0]]
    codes = np.ones((4, 6), np.int8)
    to = QParams.per_tensor("i8", 1.0)
    assert rescale_codes(codes, q, to, Rounding.HALF_EVEN, Arithmetic.REAL)[0].tolist() == [
        1,
        1,
        2,
        2,
        3,
        3,
    ]


def test_scalars_and_nothing() -> None:
    a, b = QParams.per_tensor("i8", 0.5), QParams.per_tensor("i8", 1.0)
    assert int(rescale_codes(np.array(5, np.int8), a, b, Rounding.HALF_UP, Arithmetic.REAL)) == 3
    assert rescale_codes(
        np.zeros((0, 3), np.int8), a, b, Rounding.HALF_UP, Arithmetic.REAL
    ).shape == (0, 3)
    assert int(quantize_floats(np.array(1.25, np.float32), a, Rounding.HALF_EVEN)) == 2

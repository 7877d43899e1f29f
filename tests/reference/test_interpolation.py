"""Bilinear resize of quantized tensors against its definition in Fractions."""

from __future__ import annotations

from fractions import Fraction
from math import floor
from typing import Any

import numpy as np
import pytest
from scalar_oracle import (
    MODES,
    build,
    dequantized,
    quantized,
    random_per_axis,
    random_per_tensor,
    random_stored,
    run,
    uniform,
)
from xdsl.dialects.builtin import f16, f32
from xdsl.utils.exceptions import VerifyException

from qdialect.ir import ops as nn

COORDINATES = ("asymmetric", "half_pixel", "pytorch_half_pixel", "align_corners")


def weights(size: int, out: int, scale: np.float32, mode: str) -> list[tuple[int, Fraction]]:
    """Per result index the element before it and how far past that it is."""
    found: list[tuple[int, Fraction]] = []
    for j in range(out):
        if mode == "align_corners":
            at = np.float32(j) * np.float32(size - 1) / np.float32(max(out - 1, 1))
        elif mode == "asymmetric":
            at = np.float32(j) / scale
        else:
            at = (np.float32(j) + np.float32(0.5)) / scale - np.float32(0.5)
        if mode == "pytorch_half_pixel" and out == 1:
            at = np.float32(0)
        place = min(max(Fraction(float(at)), Fraction(0)), Fraction(size - 1))
        found.append((floor(place), place - floor(place)))
    return found


@pytest.mark.parametrize("mode", COORDINATES)
@pytest.mark.parametrize("scales", [(2.0, 2.0), (1.3, 0.6), (0.4, 3.0), (1.0, 0.2)])
def test_codes(mode: str, scales: tuple[float, float]) -> None:
    rng = np.random.default_rng(80)
    for kind, rounding in zip(("nice", "nice", "wild"), MODES, strict=True):
        a, b = random_per_axis(rng, "u8", 1, 2, kind, True), random_per_tensor(rng, "i8", kind)
        x = random_stored(rng, (1, 2, 4, 5), a)
        p: dict[str, Any] = {"scales": [1.0, 1.0, *scales], "coordinates": mode}
        got = run(nn.ResizeLinearOp, [(x, uniform(a))], uniform(b), rounding=rounding, **p)
        real = dequantized(x, a)
        expected = np.empty(got.shape, object)
        rows = weights(4, got.shape[2], np.float32(scales[0]), mode)
        columns = weights(5, got.shape[3], np.float32(scales[1]), mode)
        for n, c, i, j in np.ndindex(got.shape):
            (r, down), (k, across) = rows[i], columns[j]
            r2, k2 = min(r + 1, 3), min(k + 1, 4)
            top = real[n, c, r, k] * (1 - across) + real[n, c, r, k2] * across
            bottom = real[n, c, r2, k] * (1 - across) + real[n, c, r2, k2] * across
            expected[n, c, i, j] = top * (1 - down) + bottom * down
        assert np.array_equal(got, quantized(expected, b, rounding))


def test_f16_rounds_once() -> None:
    x = np.random.default_rng(81).normal(size=(1, 1, 3, 3)).astype(np.float16)
    p = {"sizes": [1, 1, 5, 7]}
    wide = run(nn.ResizeLinearOp, [(x.astype(np.float32), f32)], f32, **p)
    assert np.array_equal(run(nn.ResizeLinearOp, [(x, f16)], f16, **p), wide.astype(np.float16))


@pytest.mark.parametrize(
    ("shape", "properties", "problem"),
    [
        ((1, 2, 4), {"sizes": [1, 2, 8]}, "rank 4"),
        ((1, 2, 4, 4), {}, "either 4 sizes or 4 scales"),
        ((1, 2, 4, 4), {"sizes": [1, 3, 8, 8]}, "height and width only"),
        ((1, 2, 4, 4), {"scales": [1.0, 2.0, 2.0, 2.0]}, "height and width only"),
        ((1, 2, 4, 4), {"sizes": [1, 2, 8, 8], "coordinates": "x"}, "unknown coordinates"),
        ((1, 2, 4, 4), {"scales": [1.0, 1.0, -2.0, 2.0]}, "must be positive"),
        ((1, 2, 0, 4), {"sizes": [1, 2, 8, 8]}, "cannot resize"),
    ],
)
def test_invalid(shape: tuple[int, ...], properties: dict[str, Any], problem: str) -> None:
    with pytest.raises(VerifyException, match=problem):
        build(nn.ResizeLinearOp, [(f32, shape)], f32, **properties)


def test_unknown_extents() -> None:
    op = build(nn.ResizeLinearOp, [(f32, (-1, 2, -1, 4))], f32, scales=[1.0, 1.0, 2.0, 2.0])
    assert nn.shape_of(op.results[0]) == (-1, 2, -1, 8)
    op = build(nn.ResizeLinearOp, [(f32, (-1, 2, -1, 4))], f32, sizes=[3, 2, 5, 5])
    assert nn.shape_of(op.results[0]) == (3, 2, 5, 5)

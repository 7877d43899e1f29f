"""Softmax on random codes as LiteRT computes it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("ai_edge_litert")

from qdialect.errors import UnsupportedError
from qdialect.ir import ops as nn
from tests.reference.litert.one_op import (
    engine_of,
    in_litert,
    interpreted,
    random_scale,
    random_zero,
)

RESULTS = {np.int8: (1 / 256, -128), np.uint8: (1 / 256, 0), np.int16: (1 / 32768, 0)}


@pytest.mark.parametrize("resolver", ["ref", "opt", "xnn"])
@pytest.mark.parametrize("dtype", RESULTS)
def test_random_codes(dtype: Any, resolver: str) -> None:
    rng = np.random.default_rng(3)
    limits, wide = np.iinfo(dtype), dtype is np.int16
    for _ in range(50):
        count = int(rng.choice([1, 2, 3, 7, 10, 100, 1000]))
        if resolver == "ref" and not wide:
            count = min(count, 200)  # exponentials that add up to 256 abort the process
        scale = random_scale(rng) / (int(rng.choice([1, 16, 256])) if wide else 1)
        spread = int(rng.choice([3, 200, 5000, 65535] if wide else [3, 20, 100, 255]))
        middle = rng.integers(limits.min, limits.max + 1, (2000 // count + 2, 1))
        noise = rng.integers(-spread, spread + 1, (len(middle), count))
        codes = np.clip(middle + noise, limits.min, limits.max).astype(dtype)
        operands, to = [(codes, (scale, random_zero(rng, dtype)))], (dtype, *RESULTS[dtype])
        expected, delegated = in_litert("SOFTMAX", operands, to, resolver, {"beta": 1.0})
        found = interpreted(nn.SoftmaxOp, operands, to, engine_of(resolver, delegated))
        assert np.array_equal(found, expected), (count, scale)


def test_other_axes_are_the_same_rows() -> None:
    codes = np.random.default_rng(1).integers(-128, 128, (2, 5, 3)).astype(np.int8)
    to = (np.int8, *RESULTS[np.int8])
    for engine in ("litert-ref", "litert-opt"):
        rows = interpreted(nn.SoftmaxOp, [(codes.swapaxes(1, 2), (0.1, 3))], to, engine).swapaxes(
            1, 2
        )
        assert np.array_equal(
            interpreted(nn.SoftmaxOp, [(codes, (0.1, 3))], to, engine, axis=1), rows
        )


def test_the_reference_kernel_aborts_on_large_sums() -> None:
    flat = [(np.zeros((1, 1000), np.int8), (0.004, 0))]
    with pytest.raises(UnsupportedError, match="aborts"):
        interpreted(nn.SoftmaxOp, flat, (np.int8, 1 / 256, -128), "litert-ref")

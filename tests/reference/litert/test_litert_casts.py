"""Casts between floats and codes are LiteRT's in all three engines."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from litert_cases import (
    ENGINES,
    KINDS,
    Case,
    bounds,
    codes,
    differing,
    f32,
    model,
    op,
    quant,
    quant_axis,
    scale,
    tensor,
    zero_point,
)
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Operation
from xdsl.utils.test_value import create_ssa_value

from qdialect.ir.quant import DCastOp, QCastOp, UniformType

Rng = np.random.Generator


def qparams(rng: Rng, kind: str, type: str, channels: int) -> tuple[np.ndarray, int, UniformType]:
    """One scale, or one for each channel of the last of two dimensions."""
    if rng.integers(3) or type == "UINT8":
        s, z = np.array([scale(rng, kind)], np.float32), zero_point(rng, type)
        z = 0 if type == "INT16" else z
        return s, z, quant(type, float(s[0]), z)
    scales = np.array([scale(rng, kind) for _ in range(channels)], np.float32)
    if channels == 1:
        return scales, 0, quant(type, float(scales[0]))
    return scales, 0, quant_axis(type, 1, list(scales))


def cast(kind: Any, x: np.ndarray, source: Attribute, target: Attribute) -> Operation:
    """A cast of an array of elements `source`."""
    return kind(create_ssa_value(TensorType(source, x.shape)), TensorType(target, x.shape))


def quantize(rng: Rng, kind: str, what: str, type: str) -> Case:
    """QUANTIZE of floats, many of them on ties and beside them."""
    shape = (int(rng.integers(1, 90)), int(rng.integers(1, 40)))
    scales, zero, element = qparams(rng, kind, type, shape[1])
    low, high = bounds(type)
    halves = rng.integers(2 * low - 20, 2 * high + 20, shape) / 2 - zero
    x = (halves * scales).astype(np.float32)
    nudge = rng.integers(-1, 2, shape)
    x = np.where(nudge, np.nextafter(x, (np.finfo(np.float32).max * nudge).astype(np.float32)), x)
    x = np.where(rng.integers(2, size=shape), x, rng.normal(size=shape) * 60 * scales)
    x = x.astype(np.float32)
    data = model(
        [tensor("x", shape)],
        [tensor("y", shape, type, scales, zero, axis=int(scales.size > 1))],
        [op("QUANTIZE", ["x"], ["y"], version=2)],
    )
    return Case(data, [x], cast(QCastOp, x, f32, element), [x])


def dequantize(rng: Rng, kind: str, what: str, type: str) -> Case:
    """DEQUANTIZE of all codes."""
    shape = (int(rng.integers(1, 90)), int(rng.integers(1, 40)))
    # There is no kernel of 16 bits per axis.
    scales, zero, element = qparams(rng, kind, type, 1 if type == "INT16" else shape[1])
    x = codes(rng, shape, type)
    data = model(
        [tensor("x", shape, type, scales, zero, axis=int(scales.size > 1))],
        [tensor("y", shape)],
        [op("DEQUANTIZE", ["x"], ["y"], version=5)],
    )
    return Case(data, [x], cast(DCastOp, x, element, f32), [x])


MAKERS = {
    (what, type): maker
    for what, maker in (("QUANTIZE", quantize), ("DEQUANTIZE", dequantize))
    for type in ("INT8", "UINT8", "INT16")
}


@pytest.mark.parametrize(("what", "type"), list(MAKERS))
@pytest.mark.parametrize("kind", KINDS)
def test_casts(what: str, type: str, kind: str) -> None:
    rng = np.random.default_rng([*map(ord, what + type + kind)])
    for number in range(12):
        case = MAKERS[what, type](rng, kind, what, type)
        for engine in ENGINES:
            wrong, ran = differing(case, engine)
            assert wrong == 0, (number, engine, ran, wrong, case.op)

"""Quantizing in TOSA gives the codes that ONNX gives, at every tie and on both sides of it."""

from __future__ import annotations

import numpy as np
import pytest
from engine_support import converted, model

from qdialect.engines.installed import engine_named
from qdialect.interpreter import Interpreter
from qdialect.plugins.common.program import Program

SHAPE = "4x8x4x4"
CASES = {
    "i8": ("i8:f32", "0.05:3", 255),
    "u8": ("u8:f32", "0.0123456789:131", 255),
    "power of two": ("i8:f32", "0.25:-5", 255),
    "i16": ("i16:f32", "0.333333333", 65535),
    "per channel": (
        "i8:f32:1",
        "{0.1, 0.037, 0.02, 0.9, 0.11, 0.3, 0.7, 0.006}",
        255,
    ),
}


@pytest.mark.parametrize("engine", ["tosa-reference", "mlir-runner"])
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("rounding", ["", '{quant.rounding = "reciprocal"} '])
def test_codes_at_ties(case: str, engine: str, rounding: str) -> None:
    runner = engine_named(engine)
    if missing := runner.missing():
        pytest.skip(f"{engine} is not installed: {missing} (qopt engines install)")
    storage, params, codes = CASES[case]
    coded = f"tensor<{SHAPE}x!quant.uniform<{storage}, {params}>>"
    floats = f"tensor<{SHAPE}xf32>"
    given = model(
        f"func.func @main(%x: {floats}) -> ({coded}, {floats}) {{\n"
        f"  %0 = quant.qcast %x {rounding}: {floats} to {coded}\n"
        f"  %1 = quant.dcast %0 : {coded} to {floats}\n"
        f"  return %0, %1 : {coded}, {floats}\n}}"
    )
    random = np.random.default_rng(5)
    numbers = params.strip("{}").split(", ")
    scale = np.array([float(n.partition(":")[0]) for n in numbers], np.float32).reshape(-1, 1, 1)
    ties = random.integers(-codes - 3, codes + 4, (4, 8, 4, 4)) + np.float32(0.5)
    x = (ties * scale).astype(np.float32)
    # Up to two floats further on either side.
    x = (x.view(np.int32) + random.integers(-2, 3, x.shape, np.int32)).view(np.float32)
    x.flat[:4] = [np.inf, -np.inf, 1e30, 0]
    expected = Interpreter(given.ctx, given.module).run([x])
    lowered = converted(given)
    (found,) = runner.run(Program.of(lowered.module, lowered.ctx), [[x]])
    for one, other in zip(expected, found, strict=True):
        np.testing.assert_array_equal(one.view(other.dtype), other)

"""Dequantization spelled out as Cast and Mul becomes a dequantize."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto
from onnx_models import ModelBuilder, load, ops, roundtrip

AXIS = np.array([[0.1], [0.2], [0.3]])


def model(
    scale: Any,
    zero: Any = None,
    dtype: Any = np.int8,
    constant: bool = True,
    cast_zero: bool = False,
    swap: bool = False,
) -> Any:
    rng = np.random.default_rng(5)
    info = np.iinfo(dtype)
    b = ModelBuilder(17)
    if constant:
        b.const("q", rng.integers(info.min, int(info.max) + 1, (3, 4)), dtype)
        b.input("x", (2, 3))
    else:
        b.input("q", (3, 4), dtype)
    real = b.node("Cast", ["q"], "real", to=TensorProto.FLOAT)
    if zero is not None:
        b.const("z", zero, dtype if cast_zero else np.float32)
        less = b.node("Cast", ["z"], "zr", to=TensorProto.FLOAT) if cast_zero else "z"
        real = b.node("Sub", [real, less], "less")
    b.const("s", scale, np.float32)
    b.node("Mul", ["s", real] if swap else [real, "s"], "w" if constant else "y")
    if constant:
        b.node("MatMul", ["x", "w"], "y")
    b.output("y")
    return b.model()


FORMS: list[dict[str, Any]] = [
    {"scale": 0.1},
    {"scale": [0.1], "swap": True},
    {"scale": AXIS},
    {"scale": [0.1, 0.2, 0.3, 0.4]},
    {"scale": 0.1, "zero": 5.0},
    {"scale": 0.1, "zero": 5, "cast_zero": True, "dtype": np.uint8},
    {"scale": AXIS, "zero": [[1.0], [2.0], [-3.0]]},
    {"scale": AXIS, "zero": 7.0, "dtype": np.uint16},
]


@pytest.mark.parametrize("constant", [True, False])
@pytest.mark.parametrize("form", FORMS)
def test_is_a_dequantize(form: dict[str, Any], constant: bool) -> None:
    module, _ = roundtrip(model(**form, constant=constant))
    found = [name for name in ops(module) if "cast" not in name or name == "quant.dcast"]
    dead = ["onnx.node"] if form.get("cast_zero") else []
    assert found == [*dead, "quant.dcast", *(["nn.matmul"] if constant else [])]


@pytest.mark.parametrize(
    "form",
    [
        {"scale": -0.1},
        {"scale": np.full((3, 4), 0.1)},
        {"scale": np.full((2, 3, 4), 0.1), "constant": False},
        {"scale": 0.1, "zero": 0.5},
        {"scale": 0.1, "zero": 300.0},
        {"scale": AXIS, "zero": [1.0, 2.0, 3.0, 4.0]},
        {"scale": 0.1, "dtype": np.int32},
    ],
)
def test_stays_a_multiplication(form: dict[str, Any]) -> None:
    module, _ = roundtrip(model(**form))
    assert "nn.mul" in ops(module)
    assert "quant.dcast" not in ops(module)


def test_a_cast_with_another_reader_stays() -> None:
    b = ModelBuilder(17)
    b.input("q", (3, 4), np.int8)
    b.const("s", 0.1, np.float32)
    b.node("Cast", ["q"], "r", to=TensorProto.FLOAT)
    b.node("Mul", ["r", "s"], "y")
    b.node("Neg", ["r"], "n")
    b.output("y")
    b.output("n")
    _, module = load(b.model())
    assert {"onnx.node", "quant.dcast", "nn.neg"} <= set(ops(module))

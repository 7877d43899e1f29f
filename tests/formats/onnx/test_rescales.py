"""Rescales by multiplier and shift, written for ONNX: as a table where no QuantizeLinear of real
numbers gives the same codes."""

from __future__ import annotations

import numpy as np
import onnxruntime as ort
import pytest

from qdialect.errors import UnsupportedError
from qdialect.interpreter import Interpreter
from qdialect.ir.context import new_context
from qdialect.plugins.mlir.read import read_module
from qdialect.plugins.onnx.write import write_model

CASES = [
    ("gemmlowp multiplier [1533916892] shift [31]", "i8:f32, 0.05", "i8:f32, 0.07:3", False),
    ("gemmlowp multiplier [1533916892] shift [33]", "i8:f32, 0.05", "i8:f32, 0.28:3", True),
    ("ruy multiplier [1533916892] shift [33]", "u8:f32, 0.05:9", "i8:f32, 0.28:3", True),
    ("half_up multiplier [183] shift [8]", "i8:f32, 0.05:-128", "i8:f32, 0.07:3", True),
    ("half_away", "i8:f32, 0.5", "u8:f32, 1.0:100", True),
    ("ruy multiplier [1073741824] shift [30]", "i8<-100:90>:f32, 0.5", "i16:f32, 0.5", False),
]


def module(rounding: str, source: str, target: str) -> str:
    """A function of one rescale of 256 codes."""
    a, b = (f"tensor<2x128x!quant.uniform<{end}>>" for end in (source, target))
    return (
        f'func.func @main(%x: {a} {{nn.name = "x"}}) -> {b} {{\n'
        f"  %0 = quant.rescale %x rounding {rounding} : {a} to {b}\n"
        f"  func.return %0 : {b}\n}}\n"
    )


@pytest.mark.parametrize(("rounding", "source", "target", "is_table"), CASES)
def test_all_codes(rounding: str, source: str, target: str, is_table: bool) -> None:
    ctx = new_context()
    model = read_module(module(rounding, source, target), ctx)
    written = write_model(model, ctx).whole()
    ops = {node.op_type for node in written.graph.node}
    assert ("GatherElements" in ops) == is_table
    low = 0 if source.startswith("u8") else -128
    codes = np.arange(low, low + 256).astype("u1" if low == 0 else "i1").reshape(2, 128)
    if "<" in source:
        codes = np.clip(codes, -100, 90)
    runtime = ort.InferenceSession(written.SerializeToString())
    (found,) = runtime.run(None, {"x": codes})
    (expected,) = Interpreter(ctx, model).run([codes])
    assert found.dtype == expected.dtype
    assert np.array_equal(found, expected)


def test_what_is_no_table_is_refused() -> None:
    text = module("gemmlowp multiplier [1533916892] shift [33]", "i32:f32, 0.5", "i8:f32, 2.0")
    ctx = new_context()
    model = read_module(text, ctx)
    with pytest.raises(UnsupportedError, match="rounds gemmlowp; ONNX rounds half even"):
        write_model(model, ctx)

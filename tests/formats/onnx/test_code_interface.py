"""A model whose inputs and outputs are codes keeps what they mean, in its metadata."""

from __future__ import annotations

import json

import numpy as np
import onnx
import pytest
from onnx import helper
from onnx_models import ModelBuilder

from qdialect.errors import InputError
from qdialect.ir.context import new_context
from qdialect.ir.quant.interface_metadata import QPARAMS
from qdialect.plugins.mlir.read import read_module, verify_module
from qdialect.plugins.mlir.write import module_text
from qdialect.plugins.onnx.read import import_model
from qdialect.plugins.onnx.write import write_model

X = "tensor<2x4x!quant.uniform<i8:f32, 1.000000e-01:3>>"
U = "tensor<2x4x!quant.uniform<u8<1:200>:f32:1, {1.000000e-01:3,0.2:1,3.000000e-01:1,0.4:200}>>"
T = "tensor<4x2x!quant.uniform<i8:f32, 1.000000e-01:3>>"
C = "tensor<2x!quant.uniform<i16:f32, 5.000000e-01>>"
MOVED = f"""
func.func @t(%x: {X}, %u: {U}) -> ({T}, {U}, {C}) {{
  %0 = nn.transpose %x perm [1, 0] : ({X}) -> {T}
  %1 = nn.constant dense<[1, 2]> : tensor<2xi16> : {C}
  return %0, %u, %1 : {T}, {U}, {C}
}}
"""


def exported(text: str) -> onnx.ModelProto:
    ctx = new_context()
    module = read_module(text, ctx, "x.mlir")
    verify_module(module, ctx)
    return write_model(module, ctx).whole()


def types(model: onnx.ModelProto) -> tuple[list[str], list[str]]:
    ctx = new_context()
    module = import_model(model, ctx)
    verify_module(module, ctx)
    (function,) = module.ops
    kind = function.properties["function_type"]
    return [str(t) for t in kind.inputs.data], [str(t) for t in kind.outputs.data]


def metadata(model: onnx.ModelProto) -> dict[str, str]:
    return {p.key: p.value for p in model.metadata_props}


def test_codes_come_back() -> None:
    model = exported(MOVED)
    stated = json.loads(metadata(model)[QPARAMS])
    assert stated["arg0"] == stated["result_0"] == "<i8:f32, 1.000000e-01:3>"
    inputs, outputs = types(model)
    assert inputs[0] == X
    assert inputs[1] == U.replace("0.2:1", "2.000000e-01:1").replace("0.4:", "4.000000e-01:")
    assert outputs[1] == inputs[1]
    assert outputs[::2] == [T, C]
    # Again, with nothing added.
    ctx = new_context()
    module = import_model(model, ctx)
    assert QPARAMS not in module_text(module, ctx)
    again = write_model(module, ctx).whole()
    assert metadata(again) == metadata(model)
    assert types(again) == (inputs, outputs)


def test_a_float_interface_has_no_entry() -> None:
    model = exported(
        "func.func @f(%x: tensor<2xf32>) -> tensor<2xf32> { return %x : tensor<2xf32> }"
    )
    assert QPARAMS not in metadata(model)


def dequantized(stated: str) -> onnx.ModelProto:
    b = ModelBuilder()
    scale, zero = b.const("s", 0.5, np.float32), b.const("z", 1, np.int8)
    b.node("DequantizeLinear", [b.input("x", [3], np.int8), scale, zero], "y")
    b.output("y")
    model = b.model()
    helper.set_model_props(model, {QPARAMS: stated})
    return model


def test_a_node_that_says_otherwise_is_right() -> None:
    inputs, _ = types(dequantized('{"x": "<i8:f32, 0.25:1>"}'))
    assert inputs == ["tensor<3x!quant.uniform<i8:f32, 5.000000e-01:1>>"]


@pytest.mark.parametrize("stated", ['{"x": "<u8:f32, 0.25:1>"}', '{"other": "<i8:f32, 0.25>"}', ""])
def test_what_fits_nothing_is_left_aside(stated: str) -> None:
    b = ModelBuilder()
    b.node("Identity", [b.input("x", [3], np.int8)], "y")
    b.output("y", np.int8)
    model = b.model()
    helper.set_model_props(model, {QPARAMS: stated})
    assert types(model) == (["tensor<3xi8>"], ["tensor<3xi8>"])


@pytest.mark.parametrize(
    "stated", ["[]", "{", '{"x": 3}', '{"x": "<i8>"}', '{"x": "<i8:f32, 0.5> x"}', "[" * 9000]
)
def test_metadata_that_says_nothing_is_an_error(stated: str) -> None:
    with pytest.raises(InputError, match=r"metadata 'qdialect\.qparams' holds no qparams"):
        import_model(dequantized(stated), new_context())

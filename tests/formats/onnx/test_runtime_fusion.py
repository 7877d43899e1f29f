"""What ONNX Runtime makes of our QDQ models when it optimizes: they load and mean the same."""

from __future__ import annotations

import numpy as np
import pytest

from qdialect.interpreter import Interpreter
from qdialect.ir.context import new_context
from qdialect.plugins.mlir.read import read_module
from qdialect.plugins.onnx.write import OrtEngine, write_model
from qdialect.plugins.onnx.write.kernels import KERNELS

TENSOR, AXIS = "<u8:f32, 0.05:100>", "<u8:f32:1, {0.05:100, 0.02:7, 0.04:128}>"
WEIGHT = "tensor<3x3x1x1x!quant.uniform<i8:f32, 0.1>>"
MATRIX = "tensor<3x3x!quant.uniform<i8:f32, 0.1>>"

OPS = {
    "nn.add": ("nn.add %a, %b", 2, "1x3x4x4"),
    "nn.mul": ("nn.mul %a, %b", 2, "1x3x4x4"),
    "nn.sigmoid": ("nn.sigmoid %a", 1, "1x3x4x4"),
    "nn.leaky_relu": ("nn.leaky_relu %a alpha 0.1", 1, "1x3x4x4"),
    "nn.softmax": ("nn.softmax %a axis 1", 1, "1x3x4x4"),
    "nn.avg_pool2d": ("nn.avg_pool2d %a kernel [2, 2]", 1, "1x3x3x3"),
    "nn.global_avg_pool2d": ("nn.global_avg_pool2d %a", 1, "1x3x1x1"),
    "nn.conv2d": ("nn.conv2d %a, %w", 1, "1x3x4x4"),
    "nn.fully_connected": ("nn.fully_connected %m, %f", 0, "2x3"),
    "nn.matmul": ("nn.matmul %m, %f", 0, "2x3"),
}


def test_every_kernel_has_a_case() -> None:
    rest = {name for name in KERNELS if not name.endswith(("1d", "3d"))} - OPS.keys()
    assert rest == {"nn.concat"}  # not fused where operands have several scales


def program(name: str, takes: str, gives: str) -> str:
    call, arity, shape = OPS[name]
    image, matrix = f"tensor<1x3x4x4x!quant.uniform{takes}>", f"tensor<2x3x!quant.uniform{takes}>"
    result = f"tensor<{shape}x!quant.uniform{gives}>"
    types = {0: f"{matrix}, {MATRIX}", 1: image, 2: f"{image}, {image}"}[arity]
    if name == "nn.conv2d":
        types = f"{image}, {WEIGHT}"
    floats = [kind.split("x!")[0] + "xf32>" for kind in (image, matrix, result)]
    kernel = np.arange(9).reshape(3, 3, 1, 1).tolist()
    return f"""
func.func @main(%x: {floats[0]}, %y: {floats[1]}) -> {floats[2]} {{
  %w = nn.constant dense<{kernel}> : tensor<3x3x1x1xi8> : {WEIGHT}
  %f = nn.constant dense<{(np.arange(9) - 4).reshape(3, 3).tolist()}> : tensor<3x3xi8> : {MATRIX}
  %a = quant.qcast %x : {floats[0]} to {image}
  %n = nn.abs %x : ({floats[0]}) -> {floats[0]}
  %b = quant.qcast %n : {floats[0]} to {image}
  %m = quant.qcast %y : {floats[1]} to {matrix}
  %r = {call} : ({types}) -> {result}
  %o = quant.dcast %r : {result} to {floats[2]}
  func.return %o : {floats[2]}
}}"""


@pytest.mark.parametrize(("takes", "gives"), [(AXIS, TENSOR), (TENSOR, AXIS), (AXIS, AXIS)])
@pytest.mark.parametrize("name", OPS)
def test_scales_per_channel_are_not_fused_away(name: str, takes: str, gives: str) -> None:
    ctx = new_context()
    model = write_model(read_module(program(name, takes, gives), ctx), ctx).whole()
    rng = np.random.default_rng(0)
    inputs = {
        "arg0": rng.normal(size=(1, 3, 4, 4)).astype(np.float32),
        "arg1": rng.normal(size=(2, 3)).astype(np.float32),
    }
    (plain,) = OrtEngine(model, optimize=False).run(inputs).values()
    (fused,) = OrtEngine(model, optimize=True).run(inputs).values()
    assert np.abs(plain - fused).max() <= 0.0501  # a step: the runtime's own rounding
    assert np.abs(plain).max() > 0


def test_rescales_of_a_concat_are_its_quantization() -> None:
    """ONNX Runtime makes one kernel of dequantize, concat, quantize; a rescale of each operand
    would stay two."""
    a, b, c = (f"!quant.uniform<u8:f32, {s}>" for s in ("0.0531:100", "0.0213:7", "0.0409:60"))
    text = f"""
func.func @main(%x: tensor<1x3xf32>) -> tensor<1x9xf32> {{
  %0 = quant.qcast %x : tensor<1x3xf32> to tensor<1x3x{a}>
  %1 = quant.qcast %x : tensor<1x3xf32> to tensor<1x3x{b}>
  %2 = quant.qcast %x : tensor<1x3xf32> to tensor<1x3x{c}>
  %3 = quant.rescale %0 : tensor<1x3x{a}> to tensor<1x3x{c}>
  %4 = quant.rescale %1 : tensor<1x3x{b}> to tensor<1x3x{c}>
  %5 = nn.concat %3, %4, %2 axis 1 : (tensor<1x3x{c}>, tensor<1x3x{c}>, tensor<1x3x{c}>) -> tensor<1x9x{c}>
  %6 = quant.dcast %5 : tensor<1x9x{c}> to tensor<1x9xf32>
  func.return %6 : tensor<1x9xf32>
}}"""  # noqa: E501
    ctx = new_context()
    module = read_module(text, ctx)
    model = write_model(module, ctx).whole()
    kinds = [node.op_type for node in model.graph.node]
    assert kinds.count("QuantizeLinear") == 4 and kinds.count("Concat") == 1
    engines = [OrtEngine(model, optimize=optimize) for optimize in (False, True)]
    for seed in range(20):
        x = np.random.default_rng(seed).normal(size=(1, 3), scale=4).astype(np.float32)
        (exact,) = Interpreter(ctx, module).run([x])
        (plain,) = engines[0].run({"arg0": x}).values()
        (fused,) = engines[1].run({"arg0": x}).values()
        np.testing.assert_array_equal(plain, exact)
        assert np.abs(fused - exact).max() <= 0.041


def agrees(text: str, inputs: dict[str, np.ndarray], opset: int | None = None) -> list[str]:
    """The kinds of nodes of a program that gives the same bits, optimizations on and off."""
    ctx = new_context()
    model = write_model(read_module(text, ctx), ctx, opset=opset).whole()
    (plain,) = OrtEngine(model, optimize=False).run(inputs).values()
    (fused,) = OrtEngine(model, optimize=True).run(inputs).values()
    np.testing.assert_array_equal(plain, fused)
    return [node.op_type for node in model.graph.node]


def test_two_pairs_do_not_become_one() -> None:
    a, b = "!quant.uniform<i8:f32, 0.05>", "!quant.uniform<i8:f32, 0.07>"
    text = f"""
func.func @main(%x: tensor<400xf32>) -> tensor<400xf32> {{
  %0 = quant.qcast %x : tensor<400xf32> to tensor<400x{a}>
  %1 = quant.rescale %0 : tensor<400x{a}> to tensor<400x{b}>
  %2 = quant.dcast %1 : tensor<400x{b}> to tensor<400xf32>
  func.return %2 : tensor<400xf32>
}}"""
    x = np.linspace(-7, 7, 400, dtype=np.float32)
    pair = ["QuantizeLinear", "DequantizeLinear"]
    assert agrees(text, {"arg0": x}) == [*pair, "Sum", *pair]


@pytest.mark.parametrize(
    "call", ["nn.relu %0", "nn.clip %0 min -1.0 max 1.0", "nn.max_pool2d %0 kernel [2, 2]"]
)
def test_codes_of_4_bits_have_no_kernels(call: str) -> None:
    q = "!quant.uniform<i4:f32, 0.25>"
    shape = "1x1x1x1" if "pool" in call else "1x1x2x2"
    text = f"""
func.func @main(%x: tensor<1x1x2x2xf32>) -> tensor<{shape}xf32> {{
  %0 = quant.qcast %x : tensor<1x1x2x2xf32> to tensor<1x1x2x2x{q}>
  %1 = {call} : (tensor<1x1x2x2x{q}>) -> tensor<{shape}x{q}>
  %2 = quant.dcast %1 : tensor<{shape}x{q}> to tensor<{shape}xf32>
  func.return %2 : tensor<{shape}xf32>
}}"""
    x = np.array([[-1.3, 0.6], [0.1, 1.9]], np.float32).reshape(1, 1, 2, 2)
    assert "Sum" in agrees(text, {"arg0": x})


@pytest.mark.parametrize("storage", ["f8E4M3FN", "f8E5M2"])
@pytest.mark.parametrize("call", ["nn.relu %x", "nn.clip %x min -1.0 max 1.0"])
def test_clamps_before_small_floats_stay(call: str, storage: str) -> None:
    q = f"!quant.uniform<{storage}:f32, 0.25>"
    text = f"""
func.func @main(%x: tensor<400xf32>) -> tensor<400xf32> {{
  %0 = {call} : (tensor<400xf32>) -> tensor<400xf32>
  %1 = quant.qcast %0 : tensor<400xf32> to tensor<400x{q}>
  %2 = quant.dcast %1 : tensor<400x{q}> to tensor<400xf32>
  func.return %2 : tensor<400xf32>
}}"""
    assert "Sum" in agrees(text, {"arg0": np.linspace(-7, 7, 400, dtype=np.float32)})


@pytest.mark.parametrize("axis", [0, 1])
def test_weights_with_a_scale_per_row(axis: int) -> None:
    """The runtime takes the scales of a product's weights for scales of columns."""
    a, w = "!quant.uniform<i8:f32, 0.5>", f"!quant.uniform<i8:f32:{axis}, {{0.25, 1.0, 2.0}}>"
    text = f"""
func.func @main(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {{
  %w = nn.constant dense<[[1, -2, 3], [4, 5, -6], [-7, 8, 9]]> : tensor<3x3xi8> : tensor<3x3x{w}>
  %0 = quant.qcast %x : tensor<2x3xf32> to tensor<2x3x{a}>
  %1 = nn.matmul %0, %w : (tensor<2x3x{a}>, tensor<3x3x{w}>) -> tensor<2x3xf32>
  func.return %1 : tensor<2x3xf32>
}}"""
    x = np.array([[1.5, -3, 4], [0.5, 2, -6]], np.float32)
    assert ("Sum" in agrees(text, {"arg0": x})) == (axis == 0)


@pytest.mark.parametrize("opset", [13, 21])
@pytest.mark.parametrize("storage", ["i4", "u4"])
@pytest.mark.parametrize("transposed", ["", " {onnx.stored_transposed}"])
def test_weights_of_4_bits_at_load(storage: str, opset: int, transposed: str) -> None:
    """Cast takes 4 bits since opset 21: before, the codes of an odd number are bytes."""
    w = f"!quant.uniform<{storage}:f32:0, {{0.25:3, 1.0, 2.0}}>"
    text = f"""
func.func @main(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {{
  %w = nn.constant dense<[[1, 2, 3], [4, 5, 6], [7, 0, 1]]> : tensor<3x3xi8> : tensor<3x3x{w}>
  %0 = quant.dcast %w {{onnx.at_load}} : tensor<3x3x{w}> to tensor<3x3xf32>
  %1 = nn.fully_connected %x, %0{transposed} : (tensor<2x3xf32>, tensor<3x3xf32>) -> tensor<2x3xf32>
  func.return %1 : tensor<2x3xf32>
}}"""
    x = np.array([[1.5, -3, 4], [0.5, 2, -6]], np.float32)
    kinds = agrees(text, {"arg0": x}, opset)
    assert "Cast" in kinds and "DequantizeLinear" not in kinds


@pytest.mark.parametrize("opset", [20, 21])
def test_casts_of_i8_are_not_moved_past_movement_ops(opset: int) -> None:
    """ONNX Runtime 1.32 does not load what it makes of them in models of opset 21 or later."""
    text = """
func.func @main(%x: tensor<2x3xf32>) -> tensor<3x2xf32> {
  %0 = quant.qcast %x : tensor<2x3xf32> to tensor<2x3x!quant.uniform<i8:f32, 0.5>>
  %1 = quant.dcast %0 : tensor<2x3x!quant.uniform<i8:f32, 0.5>> to tensor<2x3xf32>
  %2 = nn.transpose %1 perm [1, 0] : (tensor<2x3xf32>) -> tensor<3x2xf32>
  %3 = nn.abs %2 : (tensor<3x2xf32>) -> tensor<3x2xf32>
  func.return %3 : tensor<3x2xf32>
}"""
    x = np.array([[1.5, -3, 4], [0.5, 2, -6]], np.float32)
    assert ("Sum" in agrees(text, {"arg0": x}, opset)) == (opset == 21)


def test_two_quantizations_in_a_row_stay_two() -> None:
    """Of two pairs of casts in a row the runtime would make one with a third scale."""
    x, y = (f"tensor<256x!quant.uniform<u8:f32, {scale}>>" for scale in (0.1, 0.07))
    ctx = new_context()
    module = read_module(
        f"func.func @main(%x: {x}) -> {y} {{\n"
        f"  %0 = nn.sigmoid %x : ({x}) -> {x}\n"
        f"  %1 = quant.rescale %0 : {x} to {y}\n"
        f"  %2 = nn.sigmoid %1 : ({y}) -> {y}\n"
        f"  func.return %2 : {y}\n}}",
        ctx,
    )
    model = write_model(module, ctx).whole()
    engines = [OrtEngine(model, optimize=optimize) for optimize in (False, True)]
    codes = {engines[0].inputs[0]: np.arange(256, dtype=np.uint8)}
    (plain,), (rewritten,) = (engine.run(codes).values() for engine in engines)
    assert len(np.unique(plain)) > 1 and np.array_equal(plain, rewritten)

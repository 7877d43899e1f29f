"""Nets quantized by ONNX Runtime's own tool: the same function in, through and out."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx_models import (
    ModelBuilder,
    assert_same,
    export,
    integerized,
    load,
    ops,
    random_feeds,
    roundtrip,
)

from qdialect.interpreter import Interpreter
from qdialect.plugins.onnx.write import OrtEngine

quantization = pytest.importorskip("onnxruntime.quantization")

CONFIGURATIONS = {
    "u8s8": ("QUInt8", "QInt8", False),
    "u8s8_pc": ("QUInt8", "QInt8", True),
    "s8s8": ("QInt8", "QInt8", False),
    "s8s8_pc": ("QInt8", "QInt8", True),
    "u8u8": ("QUInt8", "QUInt8", False),
}


class Layers:
    """Random weights for a small net."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.b = ModelBuilder(opset=17)
        self.count = 0

    def name(self, op: str) -> str:
        self.count += 1
        return f"{op.lower()}{self.count}"

    def conv(self, x: str, inputs: int, outputs: int, **attributes: Any) -> str:
        name = self.name("conv")
        shape = (outputs, inputs // attributes.get("group", 1), 3, 3)
        w = self.b.const(f"{name}_w", self.rng.standard_normal(shape) * 0.2, np.float32)
        c = self.b.const(f"{name}_b", self.rng.standard_normal(outputs) * 0.1, np.float32)
        return self.b.node("Conv", [x, w, c], name, pads=[1, 1, 1, 1], **attributes)

    def batch_norm(self, x: str, channels: int) -> str:
        name = self.name("bn")
        names = [
            self.b.const(f"{name}_{part}", self.rng.random(channels) + 0.5, np.float32)
            for part in ("gamma", "beta", "mean", "var")
        ]
        return self.b.node("BatchNormalization", [x, *names], name)

    def op(self, kind: str, *inputs: str, **attributes: Any) -> str:
        return self.b.node(kind, list(inputs), self.name(kind), **attributes)


def residual_net() -> onnx.ModelProto:
    n = Layers(0)
    x = n.b.input("x", [1, 3, 12, 12])
    stem = n.op("Relu", n.batch_norm(n.conv(x, 3, 8), 8))
    branch = n.op("HardSwish", n.conv(stem, 8, 8, group=8))
    total = n.op("Add", stem, n.conv(branch, 8, 8))
    pooled = n.op("MaxPool", total, kernel_shape=[2, 2], strides=[2, 2])
    averaged = n.op("AveragePool", total, kernel_shape=[2, 2], strides=[2, 2])
    joined = n.op("Concat", pooled, n.op("LeakyRelu", averaged, alpha=0.1), axis=1)
    gate = n.op("Sigmoid", n.op("GlobalAveragePool", joined))
    scaled = n.op("Mul", joined, gate)
    flat = n.op("Flatten", n.op("GlobalAveragePool", scaled))
    w = n.b.const("fc_w", n.rng.standard_normal((16, 5)) * 0.3, np.float32)
    c = n.b.const("fc_b", n.rng.standard_normal(5), np.float32)
    logits = n.b.node("Gemm", [flat, w, c], "logits")
    n.b.node("Softmax", [logits], "y", axis=1)
    n.b.output("y")
    return n.b.model()


def mixed_net() -> onnx.ModelProto:
    n = Layers(1)
    x = n.b.input("x", [1, 4, 8, 8])
    y = n.op("Clip", n.conv(x, 4, 8), "", n.b.const("six", 6.0, np.float32))
    y = n.op("HardSigmoid", n.op("Sub", y, n.b.const("half", 0.5, np.float32)))
    y = n.op("Transpose", y, perm=[0, 2, 3, 1])
    y = n.op("Reshape", y, n.b.const("shape", [1, 64, 8], np.int64))
    w = n.b.const("w", n.rng.standard_normal((8, 6)) * 0.3, np.float32)
    y = n.op("Tanh", n.op("MatMul", y, w))
    y = n.op("Mul", y, n.op("Softplus", y))
    bounds = [n.b.const(name, [v], np.int64) for name, v in (("s", 1), ("e", 60), ("a", 1))]
    n.b.node("Slice", [y, *bounds], "y")
    n.b.output("y")
    return n.b.model()


def ranks_net() -> onnx.ModelProto:
    """Signals, volumes, and transposed convolutions of both."""
    n = Layers(2)

    def filtered(op: str, x: str, *shape: int, bias: int, **attributes: Any) -> str:
        name = n.name(op)
        w = n.b.const(f"{name}_w", n.rng.standard_normal(shape) * 0.3, np.float32)
        c = n.b.const(f"{name}_b", n.rng.standard_normal(bias) * 0.1, np.float32)
        return n.b.node(op, [x, w, c], name, **attributes)

    x = n.b.input("x", [1, 4, 24])
    y = n.op("Relu", filtered("Conv", x, 6, 2, 3, bias=6, group=2, pads=[1, 1]))
    y = n.op("MaxPool", y, kernel_shape=[3], strides=[2], pads=[1, 0])
    y = filtered("ConvTranspose", y, 6, 4, 4, bias=4, strides=[2], output_padding=[1])
    y = n.op("AveragePool", y, kernel_shape=[4])
    y = n.op("Reshape", y, n.b.const("shape", [1, 4, 2, 3, 4], np.int64))
    y = filtered("Conv", y, 4, 4, 1, 2, 3, bias=4, pads=[0, 1, 1, 0, 0, 1])
    y = filtered(
        "ConvTranspose", y, 4, 3, 2, 1, 2, bias=3, strides=[2, 1, 2], auto_pad="SAME_UPPER"
    )
    y = n.op("MaxPool", y, kernel_shape=[2, 2, 2])
    y = n.op("AveragePool", y, kernel_shape=[1, 2, 2], strides=[1, 1, 2])
    n.b.node("GlobalAveragePool", [y], "y")
    n.b.output("y")
    return n.b.model()


NETS = {"residual": residual_net, "mixed": mixed_net, "ranks": ranks_net}


def quantize(model: onnx.ModelProto, folder: Path, configuration: str) -> onnx.ModelProto:
    """The QDQ model ONNX Runtime's static quantizer makes on random inputs."""
    activation, weight, per_channel = CONFIGURATIONS[configuration]

    class Reader(quantization.CalibrationDataReader):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            self.feeds = iter([random_feeds(model, seed) for seed in range(4)])

        def get_next(self) -> Any:
            return next(self.feeds, None)

    logging.disable(logging.WARNING)
    onnx.save(model, folder / "float.onnx")
    quantization.quantize_static(
        folder / "float.onnx",
        folder / "quantized.onnx",
        Reader(),
        quant_format=quantization.QuantFormat.QDQ,
        activation_type=getattr(quantization.QuantType, activation),
        weight_type=getattr(quantization.QuantType, weight),
        per_channel=per_channel,
        extra_options={"ActivationSymmetric": activation == "QInt8"},
    )
    logging.disable(logging.NOTSET)
    return onnx.load(folder / "quantized.onnx")


@pytest.fixture(params=[(net, c) for net in NETS for c in CONFIGURATIONS], ids="-".join)
def quantized(request: pytest.FixtureRequest, tmp_path: Path) -> onnx.ModelProto:
    net, configuration = request.param
    return quantize(NETS[net](), tmp_path, configuration)


def test_round_trip_is_the_same_graph(quantized: onnx.ModelProto) -> None:
    """Bit-identical without runtime optimizations, and the same nodes, names, constants."""
    _, written = roundtrip(quantized)

    def nodes(model: onnx.ModelProto) -> list[tuple[Any, ...]]:
        return sorted((n.op_type, n.name, *n.input, ">", *n.output) for n in model.graph.node)

    assert nodes(written) == nodes(quantized)
    assert {t.name for t in written.graph.initializer} == {
        t.name for t in quantized.graph.initializer
    }


def test_integerized_qdq_is_the_same_function(quantized: onnx.ModelProto) -> None:
    ctx, module = integerized(quantized)
    assert_same(quantized, export(ctx, module))


@pytest.mark.exact_sums
def test_qoperator_is_close(quantized: onnx.ModelProto) -> None:
    """Moved ties make later values move: the outputs stay within a few steps."""
    ctx, module = integerized(quantized)
    written = export(ctx, module, "qoperator")
    kinds = [n.op_type for n in written.graph.node]
    assert "QLinearConv" in kinds
    before, after = OrtEngine(quantized, optimize=False), OrtEngine(written, optimize=False)
    for seed in range(4):
        feeds = random_feeds(quantized, 100 + seed)
        want, got = before.run(feeds)["y"], after.run(feeds)["y"]
        step = float(np.diff(np.unique(want)).min(initial=1.0))
        assert np.abs(want - got).max() <= 4 * step + 1e-6


@pytest.mark.parametrize("groups", [1, 2, 4])
def test_transposed_weight_per_channel(groups: int) -> None:
    """The groups share the scales of dimension 1, and the bias repeats them; a depthwise
    weight has a scale per group. (The quantizer has neither.)"""
    rng = np.random.default_rng(3)
    channels, axis = (1, 0) if groups == 4 else (2, 1)
    scales = np.float32([0.02, 0.03, 0.01, 0.05][: 4 if groups == 4 else channels])
    b = ModelBuilder()
    x = b.dequantize(b.quantize(b.input("x", [2, 4, 5]), 0.04, 3, "i8"), "d", "x_s", "x_z", 0, 0.04)
    codes = rng.integers(-127, 128, (4, channels, 3)).astype(np.int8)
    w = b.weight("w", codes, scales, axis=axis)
    products = np.tile(np.float32(0.04) * scales, 1 if groups == 4 else groups)
    c = b.weight("c", rng.integers(-900, 900, groups * channels).astype(np.int32), products)
    b.node("ConvTranspose", [x, w, c], "y", group=groups, strides=[2], pads=[1, 0])
    b.output(b.qdq("y", 0.05, -7, "i8"))
    model = b.model()
    ctx, module = integerized(model)
    assert ops(module) == ["quant.qcast", "nn.conv_transpose1d", "quant.dcast"]
    assert_same(model, export(ctx, module))
    feeds = random_feeds(model, 5)
    want = OrtEngine(model, optimize=False).run(feeds)["y_dq"]
    (got,) = Interpreter(ctx, module).run([feeds["x"]])
    assert np.abs(got - want).max() <= 0.0501
    assert (got == want).mean() > 0.99


def test_float_net_round_trips() -> None:
    for net in NETS.values():
        roundtrip(net())


def test_writing_twice_gives_the_same_bytes(quantized: onnx.ModelProto) -> None:
    for form in ("qdq", "qoperator"):
        first = export(*integerized(quantized), form).SerializeToString(deterministic=True)
        second = export(*integerized(quantized), form).SerializeToString(deterministic=True)
        assert first == second
    assert str(load(quantized)[1]) == str(load(quantized)[1])

"""What is written for the runtime's kernels (other channels, channels last, phases, products)
gives the bits of the source, the runtime's optimizations off, and runs with them on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import qdialect as qd
from qdialect.plugins.onnx.write import OrtEngine
from qdialect.targets.price_table import PriceTable, shipped_prices


class Source:
    """A QDQ model of random codes; scales put the largest value on a tie."""

    def __init__(self, seed: int, shape: tuple[int, ...]) -> None:
        self.random, self.shape = np.random.default_rng(seed), shape
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []

    def constant(self, values: Any) -> str:
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(values), name))
        return name

    def op(self, kind: str, inputs: Sequence[str], **attributes: Any) -> str:
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], **attributes))
        return name

    def rounded(self, x: str) -> str:
        scale = self.constant(np.float32(2 * self.random.uniform(0.5, 8) / 255))
        zero = self.constant(np.uint8(self.random.integers(0, 200)))
        codes = self.op("QuantizeLinear", [x, scale, zero])
        return self.op("DequantizeLinear", [codes, scale, zero])

    def weight(self, shape: tuple[int, ...], axis: int = 0) -> str:
        count = shape[axis]
        scale = self.constant(self.random.uniform(0.005, 0.05, count).astype(np.float32))
        zero = self.constant(np.zeros(count, np.int8))
        codes = self.constant(self.random.integers(-127, 128, shape).astype(np.int8))
        return self.op("DequantizeLinear", [codes, scale, zero], axis=axis)

    def bias(self, count: int) -> str:
        return self.constant(self.random.normal(0, 1, count).astype(np.float32))

    def model(self, y: str) -> onnx.ModelProto:
        x = helper.make_tensor_value_info("x", TensorProto.FLOAT, self.shape)
        result = helper.make_tensor_value_info(self.rounded(y), TensorProto.FLOAT, None)
        graph = helper.make_graph(self.nodes, "g", [x], [result], self.constants)
        imports = [helper.make_opsetid("", 17)]
        return helper.make_model(graph, opset_imports=imports, ir_version=9)


def stem(s: Source) -> str:
    channels = s.shape[1]
    x = s.op("Conv", [s.rounded("x"), s.weight((10, channels, 3, 3)), s.bias(10)], strides=[2, 2])
    return s.op("Conv", [s.rounded(x), s.weight((17, 10, 1, 1))])


def transposed(s: Source) -> str:
    weight = s.weight((s.shape[1], 5, 2, 2), axis=1)
    inputs = [s.rounded("x"), weight, s.bias(5)]
    return s.op("ConvTranspose", inputs, strides=[2, 2], kernel_shape=[2, 2])


def upsampled(s: Source) -> str:
    scales = s.constant(np.array([1, 1, 2, 3], np.float32))
    how = {"mode": "nearest", "nearest_mode": "floor"}
    how["coordinate_transformation_mode"] = "asymmetric"
    x = s.op("Conv", [s.rounded("x"), s.weight((4, s.shape[1], 1, 1))])
    x = s.op("Resize", [s.rounded(x), "", scales], **how)
    # A product below it keeps it on codes.
    return s.op("Conv", [s.rounded(x), s.weight((4, 4, 1, 1))])


def sloped(s: Source) -> str:
    slopes = s.random.uniform(-0.5, 1.0, (s.shape[1], 1, 1)).astype(np.float32)
    return s.op("PRelu", [s.rounded("x"), s.constant(slopes)])


def inner(s: Source) -> str:
    return s.op("Softmax", [s.rounded("x")], axis=1)


def clamped(s: Source) -> str:
    x = s.op("Conv", [s.rounded("x"), s.weight((4, s.shape[1], 1, 1))])
    return s.op("Relu", [s.rounded(x)])


def eager() -> PriceTable:
    """Prices by which all of it pays."""
    table = shipped_prices("onnxruntime")
    return replace(
        table,
        sizes=tuple(
            replace(
                prices,
                codes={**prices.codes, "nn.pad": 0.0, "nn.depth_to_space": 99.0},
                forms={**prices.forms, "nn.softmax inner": (99.0, 99.0)},
                transposed={8: (9.0, 1.0)},
            )
            for prices in table.sizes
        ),
    )


@pytest.mark.parametrize("channels", [1, 3, 6])
@pytest.mark.parametrize(
    ("build", "rule"),
    [
        (stem, "widen-convolution"),
        (transposed, "transposed-to-phases"),
        (upsampled, "pixels-moved"),
        (sloped, "prelu-to-product"),
        (inner, "softmax-along-last"),
        (clamped, "integerize-op"),
    ],
)
def test_the_same_bits(build: Any, rule: str, channels: int, tmp_path: Path) -> None:
    source = Source(channels, (1, channels, 9, 7))
    path, target = tmp_path / "m.onnx", qd.get_target("onnxruntime").with_prices(eager())
    onnx.save(source.model(build(source)), path)
    made = qd.optimize(qd.load(path), target=target)
    assert any(rule in name for name in made.ctx.remarks.fired())
    x = {"x": source.random.normal(0, 3, source.shape).astype(np.float32)}
    (wanted,) = OrtEngine(path, optimize=False).run(x).values()
    for form in ("qdq", "qoperator"):
        written = tmp_path / f"{form}.onnx"
        qd.save(made, written, form=form)
        (got,) = OrtEngine(written, optimize=True).run(x).values()
        assert got.shape == wanted.shape
    (got,) = OrtEngine(tmp_path / "qdq.onnx", optimize=False).run(x).values()
    np.testing.assert_array_equal(got, wanted)

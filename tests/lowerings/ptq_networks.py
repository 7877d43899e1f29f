"""Small float networks as exporters write them, quantized by ONNX Runtime's quantizer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

Array = NDArray[Any]
Networks = dict[str, Callable[["Graph"], str]]


class Graph:
    """A float model in the making: its input is `x`."""

    def __init__(self, shape: Sequence[int]) -> None:
        self.shape = tuple(shape)
        self.nodes: list[Any] = []
        self.weights: list[Any] = []
        self._drawn = np.random.default_rng(5)

    def weight(self, *shape: int, spread: float = 0.0) -> str:
        """A constant of random numbers."""
        scale = spread or 1.2 / np.sqrt(max(np.prod(shape[1:]), 1))
        return self.number((self._drawn.normal(size=shape) * scale).astype(np.float32))

    def number(self, values: Any, kind: Any = np.float32) -> str:
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(values, kind), name))
        return name

    def op(self, kind: str, *inputs: str, outputs: int = 1, **attributes: Any) -> Any:
        """A node; the name of its result."""
        names = [f"{kind}_{len(self.nodes)}_{n}" for n in range(outputs)]
        self.nodes.append(
            helper.make_node(kind, list(inputs), names, f"{kind}{len(self.nodes)}", **attributes)
        )
        return names[0] if outputs == 1 else names

    def conv(self, x: str, out: int, into: int, size: int = 3, **attributes: Any) -> str:
        groups = attributes.get("group", 1)
        pads = attributes.pop("pads", [size // 2] * 4)
        weight = self.weight(out, into // groups, size, size)
        return self.op("Conv", x, weight, self.weight(out, spread=0.1), pads=pads, **attributes)

    def model(self, result: str) -> Any:
        """The model that gives `result`."""
        given = helper.make_tensor_value_info("x", TensorProto.FLOAT, self.shape)
        made = helper.make_tensor_value_info(result, TensorProto.FLOAT, None)
        graph = helper.make_graph(self.nodes, "net", [given], [made], self.weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
        return onnx.shape_inference.infer_shapes(model)


IMAGE = (1, 3, 12, 10)
ROWS = (1, 6, 16)


def residual(g: Graph) -> str:
    """Three sums in a row and pools behind."""
    x = g.conv("x", 8, 3)
    for _ in range(3):
        y = g.conv(g.op("Relu", g.conv(x, 8, 8)), 8, 8)
        x = g.op("Add", x, y)
    x = g.op("Relu", x)
    x = g.op("AveragePool", x, kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[2, 2])
    x = g.op("Flatten", g.op("GlobalAveragePool", x), axis=1)
    return g.op("Softmax", g.op("Gemm", x, g.weight(5, 8), g.weight(5), transB=1), axis=1)


def mobile(g: Graph) -> str:
    """Inverted bottlenecks with hard-swish in its parts, squeeze and excite, relu6."""
    x = g.conv("x", 8, 3)
    shifted = g.op("Add", x, g.number(3.0))
    gate = g.op("Clip", shifted, g.number(0.0), g.number(6.0))
    x = g.op("Div", g.op("Mul", x, gate), g.number(6.0))
    y = g.op("Clip", g.conv(x, 8, 8, group=8), g.number(0.0), g.number(6.0))
    s = g.op("Relu", g.conv(g.op("GlobalAveragePool", y), 4, 8, 1))
    s = g.op("HardSigmoid", g.conv(s, 8, 4, 1), alpha=1 / 6, beta=0.5)
    y = g.op("Mul", y, s)
    x = g.op("Add", g.conv(y, 8, 8, 1), x)
    x = g.op("ReduceMean", x, axes=[2, 3], keepdims=0)
    return g.op("MatMul", x, g.weight(8, 7))


def attention(g: Graph) -> str:
    """One head, a layer norm in its parts before it, gelu in its parts behind."""
    mean = g.op("ReduceMean", "x", axes=[-1])
    off = g.op("Sub", "x", mean)
    spread = g.op("ReduceMean", g.op("Pow", off, g.number(2.0)), axes=[-1])
    root = g.op("Sqrt", g.op("Add", spread, g.number(1e-5)))
    x = g.op("Mul", g.op("Div", off, root), g.weight(16, spread=1.0))
    x = g.op("Add", x, g.weight(16, spread=0.2))
    q, k, v = (g.op("MatMul", x, g.weight(16, 16, spread=0.3)) for _ in range(3))
    scores = g.op("MatMul", q, g.op("Transpose", k, perm=[0, 2, 1]))
    scores = g.op("Softmax", g.op("Mul", scores, g.number(0.25)), axis=-1)
    x = g.op("Add", g.op("MatMul", scores, v), "x")
    y = g.op("Add", g.op("MatMul", x, g.weight(16, 24, spread=0.3)), g.weight(24, spread=0.1))
    half = g.op("Mul", y, g.number(0.5))
    erf = g.op("Erf", g.op("Div", y, g.number(np.sqrt(2.0))))
    y = g.op("Mul", half, g.op("Add", erf, g.number(1.0)))
    return g.op("Add", x, g.op("MatMul", y, g.weight(24, 16, spread=0.3)))


def pyramid(g: Graph) -> str:
    """Resize, concat of different scales, transposed convolution, pad, sigmoid at the end."""
    a = g.op("LeakyRelu", g.conv("x", 8, 3), alpha=0.1)
    b = g.op("MaxPool", a, kernel_shape=[2, 2], strides=[2, 2])
    b = g.op("Sigmoid", g.conv(b, 4, 8))
    up = g.op("Resize", b, "", g.number([1, 1, 2, 2]), mode="nearest", nearest_mode="floor",
              coordinate_transformation_mode="asymmetric")  # fmt: skip
    deep = g.op("ConvTranspose", b, g.weight(4, 5, 2, 2), strides=[2, 2])
    x = g.op("Concat", a, up, deep, axis=1)
    x = g.op("Pad", x, g.number([0, 0, 1, 1, 0, 0, 0, 1], np.int64), g.number(0.0))
    x = g.conv(x, 6, 17, pads=[0, 0, 0, 0])
    left, right = g.op("Split", x, outputs=2, axis=1)
    return g.op("Sigmoid", g.op("Mul", left, g.op("Tanh", right)))


def normed(g: Graph) -> str:
    """Batch norms that are left, swish, a product with a constant, elu and softplus."""
    x = g.conv("x", 6, 3)
    stats = [g.number(np.abs(np.linspace(0.4, 1.6, 6))), g.weight(6, spread=0.3)]
    stats += [g.weight(6, spread=0.2), g.number(np.linspace(0.5, 2.0, 6))]
    x = g.op("MaxPool", x, kernel_shape=[2, 2])
    x = g.op("BatchNormalization", x, *stats)
    x = g.op("Mul", x, g.op("Sigmoid", x))
    y = g.op("Elu", g.conv(x, 6, 6))
    x = g.op("Softplus", g.op("Sub", g.op("Mul", y, g.number(0.7)), x))
    x = g.op("Reshape", g.op("Transpose", x, perm=[0, 2, 3, 1]), g.number([1, -1, 6], np.int64))
    x = g.op("ReduceMean", x, axes=[1], keepdims=0)
    return g.op("Gemm", x, g.weight(6, 4), g.weight(4))


NETWORKS: Networks = {n.__name__: n for n in (residual, mobile, pyramid, normed)}
NETWORKS["attention"] = attention
FEW = ("Conv", "MatMul", "Gemm", "ConvTranspose")
"""Ops that some quantize only: all between them is float."""


def quantized(name: str, path: Path, activations: str, per_channel: bool, few: bool) -> Path:
    """The network quantized; its file."""
    from onnxruntime.quantization import (
        CalibrationDataReader,
        QuantFormat,
        QuantType,
        quantize_static,
    )

    graph = Graph(ROWS if name == "attention" else IMAGE)
    model = graph.model(NETWORKS[name](graph))
    drawn = np.random.default_rng(3)
    samples = [{"x": drawn.normal(size=graph.shape).astype(np.float32)} for _ in range(4)]

    class Samples(CalibrationDataReader):
        def __init__(self) -> None:
            self.left = iter(samples)

        def get_next(self) -> Any:
            return next(self.left, None)

    source, out = path / f"{name}.onnx", path / f"{name}_q.onnx"
    onnx.save(model, str(source))
    quantize_static(
        str(source),
        str(out),
        Samples(),
        quant_format=QuantFormat.QDQ,
        per_channel=per_channel,
        activation_type=QuantType.QUInt8 if activations == "u8" else QuantType.QInt8,
        weight_type=QuantType.QInt8,
        op_types_to_quantize=list(FEW) if few else None,
    )
    return out

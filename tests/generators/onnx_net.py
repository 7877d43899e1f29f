"""A builder of ONNX networks with seeded weights, node by node."""

# pyright: basic
from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Shape = tuple[int, ...]
Act = Callable[["Net", str], str]


class Net:
    """A graph that is built node by node; values are called by their names."""

    def __init__(self, shape: Shape, opset: int = 13, *, tokens: int = 0) -> None:
        self.opset, self.random = opset, np.random.default_rng(0)
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, np.ndarray] = {}
        self.channels: dict[str, int] = {"x": shape[1]}
        kind = TensorProto.INT64 if tokens else TensorProto.FLOAT
        self.input = helper.make_tensor_value_info("x", kind, shape)

    def op(self, kind: str, inputs: Sequence[str], channels: int = 0, **attributes) -> str:
        """One node; the name of its result."""
        name = f"{kind.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], name, **attributes))
        self.channels[name] = channels or self.channels.get(inputs[0], 0)
        return name

    def constant(self, values) -> str:
        name = f"constant_{len(self.constants)}"
        self.constants[name] = np.asarray(values)
        return name

    def scalar(self, value: float) -> str:
        return self.constant(np.float32(value))

    def ints(self, *values: int) -> str:
        return self.constant(np.array(values, dtype=np.int64))

    def normal(self, *shape: int, deviation: float) -> str:
        return self.constant(self.random.normal(0, deviation, shape).astype(np.float32))

    def conv(
        self, x: str, to: int, kernel: int = 1, stride: int = 1, groups: int = 1, bias: bool = False
    ) -> str:
        per_group = self.channels[x] // groups
        deviation = np.sqrt(2 / (per_group * kernel * kernel))
        inputs = [x, self.normal(to, per_group, kernel, kernel, deviation=deviation)]
        if bias:
            inputs.append(self.normal(to, deviation=0.1))
        edges = {"kernel_shape": [kernel] * 2, "strides": [stride] * 2, "pads": [kernel // 2] * 4}
        return self.op("Conv", inputs, to, group=groups, **edges)

    def norm(self, x: str) -> str:
        """A batch norm; its mean and variance are estimated in the end."""
        n, uniform = self.channels[x], self.random.uniform
        parts = (uniform(0.6, 1.4, n), self.random.normal(0, 0.3, n), np.zeros(n), np.ones(n))
        return self.op("BatchNormalization", [x, *map(self.constant, map(np.float32, parts))])

    def unit(
        self, x: str, to: int, kernel: int = 1, stride: int = 1, act: Act | None = None, **more
    ) -> str:
        """Convolution, batch norm, activation."""
        x = self.norm(self.conv(x, to, kernel, stride, **more))
        return act(self, x) if act else x

    def concat(self, parts: Sequence[str], axis: int = 1) -> str:
        return self.op("Concat", parts, sum(self.channels[p] for p in parts), axis=axis)

    def pool(self, x: str, kernel: int, stride: int, pad: int = 0, kind: str = "MaxPool") -> str:
        size, step = [kernel] * 2, [stride] * 2
        return self.op(kind, [x], kernel_shape=size, strides=step, pads=[pad] * 4)

    def head(self, x: str, classes: int = 1000) -> str:
        x = self.op("Flatten", [self.op("GlobalAveragePool", [x])])
        weight = self.normal(classes, self.channels[x], deviation=0.05)
        return self.op("Gemm", [x, weight, self.normal(classes, deviation=0.1)], transB=1)

    def linear(self, x: str, width: int, to: int) -> str:
        weight = self.normal(width, to, deviation=np.sqrt(1 / width))
        return self.op("Add", [self.op("MatMul", [x, weight]), self.normal(to, deviation=0.1)])

    def layer_norm(self, x: str, width: int) -> str:
        scale = self.constant(self.random.uniform(0.6, 1.4, width).astype(np.float32))
        bias = self.normal(width, deviation=0.2)
        return self.op("LayerNormalization", [x, scale, bias], axis=-1, epsilon=1e-5)

    def model(self, *outputs: str) -> onnx.ModelProto:
        values = [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in outputs]
        constants = [numpy_helper.from_array(a, n) for n, a in self.constants.items()]
        graph = helper.make_graph(self.nodes, "net", [self.input], values, constants)
        imports = [helper.make_opsetid("", self.opset)]
        return helper.make_model(graph, opset_imports=imports, ir_version=8)

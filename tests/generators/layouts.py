"""Random quantized ONNX models in the layouts of Q/DQ that quantizers write.

A model is a chain of products, each with an activation function. A layout says where activations
are quantized: on the inputs of products only (`input`, the results stay float), on the results
of activation functions only (`output`), or at both, the results of products included (`both`).
Scales fit the values of a random sample, as calibration gives them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

Array = NDArray[Any]

LAYOUTS = ("input", "output", "both")
PRODUCTS = ("conv", "point", "depthwise", "transposed", "gemm", "matmul", "batched")
ACTIVATIONS = ("", "Relu", "Clip", "HardSwish")
BIASES = ("none", "float", "sums", "i32", "i8")
"""No bias, a float one, one of i32 on the scale of the sums or on another, and one of 8 bits."""
WEIGHTS = ("codes", "floats")
"""Constant codes that are dequantized, or float constants that are quantized and dequantized."""


@dataclass(frozen=True)
class Layout:
    """What a model is like."""

    layout: str
    product: str
    activation: str
    bias: str
    weights: str
    per_channel: bool
    storage: str

    def __str__(self) -> str:
        channel = "per-channel" if self.per_channel else "per-tensor"
        parts = (self.layout, self.product, self.activation or "-", self.bias, self.weights)
        return " ".join((*parts, channel, self.storage))


def random_layout(rng: np.random.Generator) -> Layout:
    """One of all, each choice by itself."""

    def one(choices: Sequence[Any]) -> Any:
        return choices[int(rng.integers(len(choices)))]

    return Layout(
        one(LAYOUTS),
        one(PRODUCTS),
        one(ACTIVATIONS),
        one(BIASES),
        one(WEIGHTS),
        bool(rng.integers(2)),
        one(("u8", "i8")),
    )


@dataclass
class _Builder:
    rng: np.random.Generator
    layout: Layout
    channels: int
    nodes: list[NodeProto] = field(default_factory=list[NodeProto])
    constants: list[TensorProto] = field(default_factory=list[TensorProto])

    def constant(self, name: str, array: Any) -> str:
        self.constants.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def node(self, kind: str, inputs: Sequence[str], **attributes: Any) -> str:
        name = f"{kind}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], name=name, **attributes))
        return name

    def casts(self, value: str, low: float, high: float) -> tuple[str, np.float32]:
        """Quantize and dequantize on a grid that covers an interval; and its scale."""
        low, high = min(low, 0.0), max(high, 0.0)
        scale = np.float32((high - low) / 255)
        unsigned = self.layout.storage == "u8"
        zero = int(np.clip(np.round(-low / scale), 0, 255)) - (0 if unsigned else 128)
        base = f"{value}_{len(self.nodes)}"
        params = [
            self.constant(f"{base}_s", scale),
            self.constant(f"{base}_z", np.array(zero, np.uint8 if unsigned else np.int8)),
        ]
        codes = self.node("QuantizeLinear", [value, *params])
        return self.node("DequantizeLinear", [codes, *params]), scale

    def weight(self, shape: tuple[int, ...], axis: int, fan: int) -> tuple[str, Array]:
        """A dequantized weight, and its scales."""
        values = self.rng.normal(size=shape).astype(np.float32) / np.float32(fan**0.5)
        rest = tuple(d for d in range(len(shape)) if d != axis)
        largest = np.abs(values).max(axis=rest) if self.layout.per_channel else np.abs(values).max()
        scales = (largest / 127).astype(np.float32)
        column = [-1 if d == axis else 1 for d in range(len(shape))]
        steps = scales.reshape(column) if self.layout.per_channel else scales
        base, along = f"w{len(self.nodes)}", {"axis": axis} if self.layout.per_channel else {}
        params = [
            self.constant(f"{base}_s", scales),
            self.constant(f"{base}_z", np.zeros(scales.shape, np.int8)),
        ]
        if self.layout.weights == "floats":
            codes = self.node("QuantizeLinear", [self.constant(base, values), *params], **along)
        else:
            ratios: Array = values / steps
            stored = np.round(ratios).astype(np.int8)
            codes = self.constant(base, stored)
        return self.node("DequantizeLinear", [codes, *params], **along), scales

    def bias(self, scale: np.float32, scales: Array, count: int) -> str:
        """A bias of so many channels, "" for none."""
        kind = self.layout.bias
        values = (self.rng.normal(size=count) * 0.2).astype(np.float32)
        base = f"b{len(self.nodes)}"
        if kind == "none":
            return ""
        if kind == "float":
            return self.constant(base, values)
        steps = (scales * scale).astype(np.float32)
        storage: Any = np.int32
        if kind == "i32":
            steps = (steps * np.float32(3.3)).astype(np.float32)
        if kind == "i8":
            steps, storage = np.float32(np.abs(values).max() / 127), np.int8
        along = {"axis": 0} if steps.shape else {}
        names = [
            self.constant(base, np.round(values / steps).astype(storage)),
            self.constant(f"{base}_s", steps),
            self.constant(f"{base}_z", np.zeros(steps.shape, storage)),
        ]
        return self.node("DequantizeLinear", names, **along)

    def product(self, value: str, scale: np.float32) -> str:
        """The product of the layout of a value; `scale` is that of its codes."""
        kind, c = self.layout.product, self.channels
        if kind in ("gemm", "matmul", "batched"):
            axis = 0 if kind == "gemm" else 1
            weight, scales = self.weight((c, c), axis, c)
            bias = self.bias(scale, scales, c)
            if kind == "gemm":
                return self.node("Gemm", [value, weight, *filter(None, [bias])], transB=1)
            product = self.node("MatMul", [value, weight])
            return self.node("Add", [product, bias]) if bias else product
        taps = 1 if kind == "point" else 3
        groups = c if kind == "depthwise" else 1
        shape = (c, c // groups, taps, taps)
        transposed = kind == "transposed"
        weight, scales = self.weight(shape, 1 if transposed else 0, c // groups * taps**2)
        bias = self.bias(scale, scales, c)
        return self.node(
            "ConvTranspose" if transposed else "Conv",
            [value, weight, *filter(None, [bias])],
            kernel_shape=[taps, taps],
            pads=[taps // 2] * 4,
            group=groups,
        )

    def activation(self, value: str) -> str:
        kind = self.layout.activation
        if not kind:
            return value
        if kind == "Clip":
            bounds = [self.constant(f"{value}_{n}", np.float32(n)) for n in (0, 6)]
            return self.node("Clip", [value, *bounds])
        return self.node(kind, [value])


def layout_model(
    layout: Layout, seed: int = 0, *, channels: int = 16, size: int = 6, depth: int = 2
) -> ModelProto:
    """A model of `depth` products in a layout, of one input "x"."""
    builder = _Builder(np.random.default_rng(seed), layout, channels)
    shape = {
        "gemm": (size, channels),
        "matmul": (size, channels),
        "batched": (2, size, channels),
    }.get(layout.product, (1, channels, size, size))
    value, scale = "x", np.float32(2**-5)
    if layout.layout == "both":
        value, scale = builder.casts("x", -4.0, 4.0)
    highs = {"Relu": (0.0, 2.5), "Clip": (0.0, 2.5), "HardSwish": (-0.375, 2.0)}
    for number in range(depth):
        if layout.layout == "input":
            low, high = highs.get(layout.activation, (-3.0, 3.0)) if number else (-4.0, 4.0)
            value, scale = builder.casts(value, low, high)
        value = builder.product(value, scale)
        if layout.layout == "both" and layout.activation == "HardSwish":
            value, scale = builder.casts(value, -3.5, 3.5)
        value = builder.activation(value)
        if layout.layout in ("output", "both"):
            value, scale = builder.casts(value, *highs.get(layout.activation, (-3.0, 3.0)))
    last = builder.node("Identity", [value])
    graph = helper.make_graph(
        builder.nodes,
        "layout",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info(last, TensorProto.FLOAT, shape)],
        builder.constants,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)

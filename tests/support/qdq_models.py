"""Small ONNX models with quantize and dequantize nodes, as quantizers write them."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


def quantized(
    middle: list[tuple[str, list[str], str, dict[str, Any]]],
    shape: list[int | str],
    extra: dict[str, np.ndarray[Any, Any]] | None = None,
) -> onnx.ModelProto:
    """x, quantized, through float ops of `middle` with a pair of casts after each, to y."""
    constants = {"s": np.array(0.1, np.float32), "z": np.array(100, np.uint8), **(extra or {})}
    nodes: list[onnx.NodeProto] = []

    def pair(source: str, result: str) -> None:
        for kind, x, y in (
            ("QuantizeLinear", source, f"{result}_q"),
            ("DequantizeLinear", f"{result}_q", result),
        ):
            nodes.append(helper.make_node(kind, [x, "s", "z"], [y], name=y))

    if "w" in constants:
        nodes.append(helper.make_node("DequantizeLinear", ["w", "sw", "zw"], ["w_d"], name="w_d"))
    pair("x", "x_d")
    for kind, inputs, name, attributes in middle:
        nodes.append(helper.make_node(kind, inputs, [name], name=name, **attributes))
        pair(name, f"{name}_d")
    last = nodes.pop()
    nodes.append(helper.make_node(last.op_type, list(last.input), ["y"], name="y"))
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, list("abcd"))],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
    model.ir_version = 8
    return model


def conv_relu(shape: list[int | str]) -> onnx.ModelProto:
    # Two products of such weights and u8 fit 16 bits: sums are the same on every processor.
    weight = np.random.default_rng(0).integers(-64, 64, (4, 3, 3, 3)).astype(np.int8)
    scale, zero = np.array(0.01, np.float32), np.array(0, np.int8)
    middle: list[tuple[str, list[str], str, dict[str, Any]]] = [
        ("Conv", ["x_d", "w_d"], "conv", {}),
        ("Relu", ["conv_d"], "relu", {}),
    ]
    return quantized(middle, shape, {"w": weight, "sw": scale, "zw": zero})

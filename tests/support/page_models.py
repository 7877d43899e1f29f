"""A small network with the names that pages use, as a float model and quantized."""

# pyright: basic
from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import qdialect as qd


def float_model(path: Path, *, softmax: bool = True) -> None:
    """conv1, conv2, conv3, a mean, fc1, fc and, if wanted, softmax."""
    rng = np.random.default_rng(1)
    weights: list[onnx.TensorProto] = []

    def weight(name: str, *shape: int) -> str:
        array = (rng.standard_normal(shape) / 4).astype("f4")
        weights.append(numpy_helper.from_array(array, name))
        return name

    nodes: list[onnx.NodeProto] = []
    value, channels = "x", 3
    for name, width in (("conv1", 8), ("conv2", 8), ("conv3", 8)):
        inputs = [value, weight(f"{name}_w", width, channels, 3, 3), weight(f"{name}_b", width)]
        nodes.append(helper.make_node("Conv", inputs, [name], name, pads=[1, 1, 1, 1]))
        nodes.append(helper.make_node("Relu", [name], [f"{name}_relu"], f"{name}_relu"))
        value, channels = f"{name}_relu", width
    nodes.append(helper.make_node("GlobalAveragePool", [value], ["mean"], "mean"))
    nodes.append(helper.make_node("Flatten", ["mean"], ["flat"], "flat"))
    for name, value, width in (("fc1", "flat", 8), ("fc", "fc1", 4)):
        inputs = [value, weight(f"{name}_w", 8, width), weight(f"{name}_b", width)]
        nodes.append(helper.make_node("Gemm", inputs, [name], name))
    last = helper.make_node("Softmax", ["fc"], ["y"], "softmax")
    nodes.append(last if softmax else helper.make_node("Relu", ["fc"], ["y"], "last"))
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 8, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 4])],
        weights,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, path)


def quantized_model(source: Path, path: Path) -> None:
    """What our quantizer makes of it, as quantize and dequantize around float ops."""
    data = path.with_name("calibration.npz")
    rng = np.random.default_rng(2)
    np.savez(data, allow_pickle=False, x=rng.standard_normal((8, 3, 8, 8)).astype("f4"))
    qd.save(qd.quantize(qd.load(source), data).model, path)

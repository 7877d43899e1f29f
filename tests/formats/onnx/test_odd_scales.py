"""Scales that no quantized type has: runtimes compute with them, so their nodes are kept."""

# pyright: basic
from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from qdialect import api
from qdialect.ir.context import new_context
from qdialect.plugins.onnx.read import import_model
from qdialect.plugins.onnx.write import write_model

runtime = pytest.importorskip("onnxruntime")

INT4, UINT4, INT8 = TensorProto.INT4, TensorProto.UINT4, TensorProto.INT8


def weight(kind: int, scales: Any, points: bool, **attributes: int) -> onnx.ModelProto:
    """A product with a dequantized weight."""
    codes = [n % 15 - (0 if kind == UINT4 else 7) for n in range(24)]
    scale = np.asarray(scales, np.float32)
    constants = [helper.make_tensor("w", kind, (4, 6), codes), numpy_helper.from_array(scale, "s")]
    if points:
        constants.append(helper.make_tensor("z", kind, scale.shape, [1] * scale.size))
    names = ["w", "s", "z"][: 2 + points]
    nodes = [
        helper.make_node("DequantizeLinear", names, ["d"], **attributes),
        *_relus(),
        helper.make_node("MatMul", ["rr", "d"], ["y"]),
    ]
    return _model(nodes, constants, (2, 4), (2, 6))


def _relus() -> list[onnx.NodeProto]:
    """Of which one is left."""
    return [helper.make_node("Relu", ["x"], ["r"]), helper.make_node("Relu", ["r"], ["rr"])]


def activation(scale: float) -> onnx.ModelProto:
    """Codes of an odd scale between two ordinary pairs."""
    constants = {"s": np.float32(0.05), "odd": np.float32(scale), "z": np.uint8(100)}
    nodes, value = _relus(), "rr"
    for number, step in enumerate(("s", "odd", "s")):
        pair = [f"q{number}", f"d{number}"]
        nodes.append(helper.make_node("QuantizeLinear", [value, step, "z"], pair[:1]))
        nodes.append(helper.make_node("DequantizeLinear", [pair[0], step, "z"], pair[1:]))
        value = pair[1]
    nodes.append(helper.make_node("Abs", [value], ["y"]))
    held = [numpy_helper.from_array(np.asarray(v), name) for name, v in constants.items()]
    return _model(nodes, held, (2, 4), (2, 4))


def _model(nodes: Any, constants: Any, taken: Any, given: Any) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "odd",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, taken)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, given)],
        constants,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def _run(model: onnx.ModelProto) -> Any:
    options = runtime.SessionOptions()
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = runtime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    x = np.random.default_rng(5).normal(size=(2, 4)).astype(np.float32)
    return session.run(None, {"x": x})[0]


@pytest.mark.parametrize("kind", [INT4, UINT4, INT8])
@pytest.mark.parametrize("points", [False, True])
@pytest.mark.parametrize("scales", ["-", "0", "axis", "blocks", "nan"])
def test_weights(kind: int, points: bool, scales: str) -> None:
    given: tuple[Any, dict[str, int]] = {
        "-": (-0.1, {}),
        "0": (0.0, {}),
        "axis": ([0.1, -0.1, 0, 0.2, 0.3, -0.4], {"axis": 1}),
        "blocks": ((np.arange(12).reshape(2, 6) - 5) / 8, {"axis": 0, "block_size": 2}),
        "nan": (np.nan, {}),
    }[scales]
    _check(weight(kind, given[0], points, **given[1]))


@pytest.mark.parametrize("scale", [-0.1, 0.0, np.inf, np.nan])
def test_activations(scale: float) -> None:
    _check(activation(scale))


def _check(model: onnx.ModelProto) -> None:
    ctx = new_context()
    optimized = api.optimize(api.Model(import_model(model, ctx), ctx))
    written = write_model(optimized.module, optimized.ctx).whole()
    kinds = [node.op_type for node in written.graph.node]
    assert "DequantizeLinear" in kinds
    assert kinds.count("Relu") <= 1  # what is beside is optimized
    assert np.array_equal(_run(written), _run(model), equal_nan=True)

"""Quantized ONNX networks as TFLite files: the codes of ONNX Runtime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest

pytest.importorskip("ai_edge_litert")

from tflite_support import tflite_bytes

from qdialect.api import run_passes
from qdialect.passes.pipelines import optimize_pipeline
from qdialect.plugins.common.exports import exports
from qdialect.plugins.tflite import target as litert
from qdialect.workflows.model import load
from tests.support.qdq_models import conv_relu, quantized
from tests.support.tflite_models import litert_ops, run_litert

Array = np.ndarray[Any, Any]
RANDOM = np.random.default_rng(0)
DEPTHWISE = {
    "w": RANDOM.integers(-127, 128, (6, 1, 3, 3)).astype(np.int8),
    "sw": np.array(0.02, np.float32),
    "zw": np.array(0, np.int8),
}
NETS = {
    "convolution": (conv_relu([1, 3, 12, 12]), (1, 3, 12, 12), {"CONV_2D"}),
    "depthwise": (
        quantized(
            [
                ("Conv", ["x_d", "w_d"], "c", {"group": 6, "strides": [2, 2], "pads": [1] * 4}),
                ("MaxPool", ["c_d"], "p", {"kernel_shape": [2, 2], "strides": [1, 1]}),
                ("GlobalAveragePool", ["p_d"], "g", {}),
                ("Flatten", ["g_d"], "f", {}),
            ],
            [1, 6, 10, 10],
            DEPTHWISE,
        ),
        (1, 6, 10, 10),
        {"DEPTHWISE_CONV_2D", "MAX_POOL_2D"},
    ),
    "floats between": (
        quantized(
            [("LeakyRelu", ["x_d"], "l", {"alpha": 0.1}), ("Mul", ["l_d", "x_d"], "m", {})],
            [2, 3, 4, 5],
        ),
        (2, 3, 4, 5),
        {"LEAKY_RELU", "MUL"},
    ),
}


@pytest.mark.parametrize("name", NETS)
@pytest.mark.exact_sums
def test_codes_are_those_of_onnx_runtime(name: str, tmp_path: Path) -> None:
    proto, shape, expected = NETS[name]
    for output in proto.graph.output:
        output.type.tensor_type.ClearField("shape")
    path = tmp_path / "net.onnx"
    onnx.save(proto, path)
    passes = optimize_pipeline(litert.TARGET, "exact")
    model = run_passes(load(path), passes, target=litert.TARGET, verify_each=False)
    model = run_passes(model, exports()["tflite"].passes(codes=False), target=litert.TARGET)
    data = tflite_bytes(model)
    ops = litert_ops(data)
    assert expected <= set(ops)
    assert ops.count("DELEGATE") == 1
    options = ort.SessionOptions()
    if name == "floats between":
        # Its fused kernels round ties in a way of their own: the file says what is meant.
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(str(path), options)
    for seed in range(4):
        x: Array = np.random.default_rng(seed).normal(0, 4, shape).astype(np.float32)
        (wanted,) = session.run(None, {"x": x})
        (found,) = run_litert(data, [x])
        assert np.array_equal(wanted, np.asarray(found).reshape(wanted.shape))

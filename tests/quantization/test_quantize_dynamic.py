"""A model that quantizes as it runs, with data: static, on the weights that it has."""

# pyright: basic

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import qdialect as qd
from qdialect.ir.ops import ConstantOp, constant_array
from qdialect.ir.quant import quant_element
from qdialect.plugins.onnx.write import OrtEngine

onnxruntime = pytest.importorskip("onnxruntime")


def float_model(rng: Any) -> onnx.ModelProto:
    arrays = {
        "k": rng.normal(size=(4, 3, 3, 3)),
        "kb": rng.normal(size=4),
        "w": rng.normal(size=(144, 10)) / 12,
    }
    nodes = [
        helper.make_node("Conv", ["x", "k", "kb"], ["c"], "conv"),
        helper.make_node("Relu", ["c"], ["r"], "relu"),
        helper.make_node("Flatten", ["r"], ["f"], "flat"),
        helper.make_node("MatMul", ["f", "w"], ["y"], "fc"),
    ]
    shapes = {"x": (1, 3, 8, 8), "y": (1, 10)}
    ends = [helper.make_tensor_value_info(n, 1, s) for n, s in shapes.items()]
    held = [numpy_helper.from_array(a.astype(np.float32), n) for n, a in arrays.items()]
    graph = helper.make_graph(nodes, "net", ends[:1], ends[1:], held)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def signal_to_noise(want: list[Any], got: list[Any]) -> float:
    signal = sum(float((a.astype("f8") ** 2).sum()) for a in want)
    noise = sum(float(((a.astype("f8") - b) ** 2).sum()) for a, b in zip(want, got, strict=True))
    return 10 * np.log10(signal / noise)


@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("weights", ["QInt8", "QUInt8"])
def test_static_on_the_same_weights(tmp_path: Path, weights: str, per_channel: bool) -> None:
    from onnxruntime.quantization import QuantType, quantize_dynamic

    rng = np.random.default_rng(7)
    source, target = tmp_path / "f.onnx", tmp_path / "q.onnx"
    onnx.save(float_model(rng), source)
    quantize_dynamic(
        source, target, weight_type=getattr(QuantType, weights), per_channel=per_channel
    )
    samples = rng.normal(size=(16, 1, 3, 8, 8)).astype(np.float32)
    np.savez(tmp_path / "data.npz", x=samples)
    result = qd.quantize(
        qd.load(target), tmp_path / "data.npz", target="onnxruntime", engine="numpy"
    )
    assert not result.coverage.left
    assert not result.coverage.stale
    module, ctx = result.model.module, result.model.ctx
    names = {op.name for op in module.walk()}
    assert not [name for name in names if "dynamic" in name or name == "onnx.node"]
    given = {
        numpy_helper.to_array(t).tobytes()
        for t in onnx.load(target).graph.initializer
        if t.name.endswith("_quantized")
    }
    held = {
        constant_array(op, ctx.blobs).tobytes()
        for op in module.walk()
        if isinstance(op, ConstantOp) and quant_element(op.result.type) is not None
    }
    assert len(given) == 2
    assert weights == "QUInt8" or given <= held
    qd.save(result.model, tmp_path / "s.onnx")
    engines = [
        OrtEngine(onnx.load(tmp_path / name), optimize=False)
        for name in ("f.onnx", "q.onnx", "s.onnx")
    ]
    real, dynamic, static = ([e.run({"x": x})["y"] for x in samples] for e in engines)
    assert signal_to_noise(real, static) > signal_to_noise(real, dynamic) - 8
    assert signal_to_noise(real, static) > 28

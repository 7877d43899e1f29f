"""A trained network: the text direction classifier of PP-OCR (a MobileNetV3)."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx_models import assert_same, export, integerized, load
from test_quantized_nets import quantize

from qdialect.plugins.onnx.write import OrtEngine

FILE = "ch_ppocr_mobile_v2.0_cls_infer.onnx"


@pytest.fixture(scope="module")
def classifier() -> onnx.ModelProto:
    """The float model at opset 13, for images of 48 x 192."""
    spec = importlib.util.find_spec("rapidocr_onnxruntime")
    if spec is None or spec.origin is None:
        pytest.skip("needs the trained model in the package rapidocr-onnxruntime==1.4.4")
    model = onnx.load(Path(spec.origin).parent / "models" / FILE)
    for extent, value in zip(
        model.graph.input[0].type.tensor_type.shape.dim, (1, 3, 48, 192), strict=True
    ):
        extent.dim_value = value
    return onnx.version_converter.convert_version(model, 13)


def test_float_model_round_trips(classifier: onnx.ModelProto) -> None:
    ctx, module = load(classifier)
    assert_same(classifier, export(ctx, module))


@pytest.mark.parametrize("configuration", ["u8s8_pc", "s8s8"])
def test_quantized_model(classifier: onnx.ModelProto, configuration: str, tmp_path: Path) -> None:
    model = quantize(classifier, tmp_path, configuration)
    ctx, module = load(model)
    assert_same(model, export(ctx, module))
    ctx, module = integerized(model)
    assert_same(model, export(ctx, module))
    written = export(ctx, module, "qoperator")
    kinds = [n.op_type for n in written.graph.node]
    assert kinds.count("QLinearConv") == 53
    before, after = OrtEngine(model, optimize=False), OrtEngine(written, optimize=False)
    rng = np.random.default_rng(0)
    x = {"x": rng.standard_normal((1, 3, 48, 192)).astype(np.float32)}
    for name, want in before.run(x).items():
        assert np.abs(want - after.run(x)[name]).max() < 0.05

"""Models of opsets before 13, against ONNX Runtime with its optimizations off."""

# pyright: basic
from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from old_opsets import CASES, SHAPE, Case

from qdialect import api
from qdialect.ir.context import new_context
from qdialect.plugins.onnx.read import import_model
from qdialect.plugins.onnx.write import write_model

runtime = pytest.importorskip("onnxruntime")


def _run(model: onnx.ModelProto, x: Any) -> list[Any]:
    options = runtime.SessionOptions()
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    session = runtime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return session.run(None, {"x": x})


def _optimized(model: onnx.ModelProto) -> onnx.ModelProto:
    ctx = new_context()
    optimized = api.optimize(api.Model(import_model(model, ctx), ctx))
    return write_model(optimized.module, optimized.ctx).whole()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_old_forms(case: Case) -> None:
    x = np.random.default_rng(7).normal(size=SHAPE).astype(np.float32)
    for opset in sorted({case.opsets[0], case.opsets[-1]}):
        model = case.model(opset)
        expected = _run(model, x)
        written = _optimized(model)
        onnx.checker.check_model(written)
        for one, other in zip(expected, _run(written, x), strict=True):
            assert one.tobytes() == other.tobytes(), (opset, one, other)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_node_that_must_stay_keeps_the_opset(case: Case) -> None:
    x = np.random.default_rng(7).normal(size=SHAPE).astype(np.float32)
    opset = case.opsets[0]
    model = case.model(opset, guarded=True)
    expected = _run(model, x)
    written = _optimized(model)
    assert {entry.domain: entry.version for entry in written.opset_import}[""] == opset
    for one, other in zip(expected, _run(written, x), strict=True):
        assert one.tobytes() == other.tobytes()

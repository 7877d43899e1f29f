"""Files on which `qopt quantize` once ended with an error: each is quantized, and runs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import qdialect as qd
from qdialect.backends.onnx import OrtEngine, export_model

MODELS = Path(__file__).parent / "models"


def run(model: qd.Model, x: np.ndarray) -> np.ndarray:
    engine = OrtEngine(export_model(model.module, model.ctx), optimize=True)
    return engine.run({"x": x})["y"]


@pytest.mark.parametrize("name", ["between_convolutions", "of_input", "of_space_to_depth"])
def test_gather_with_constant_indices(name: str) -> None:
    """Indices are integers, which get no qparams."""
    model = qd.load(MODELS / f"gather_{name}.onnx")
    quantized = qd.quantize(model, MODELS / "gather.npz")
    assert not quantized.coverage.left
    x = np.load(MODELS / "gather.npz")["x"][0]
    wanted = run(model, x[None])
    assert np.abs(run(quantized.model, x[None]) - wanted).max() < 0.05 * np.abs(wanted).max()


def test_unknown_extents_have_prices() -> None:
    """Batch and length are open: nothing is priced below zero, and every length still runs."""
    model = qd.load(MODELS / "attention_unknown_extents.onnx")
    quantized = qd.quantize(model, MODELS / "attention_unknown_extents.npz")
    assert quantized.coverage.quantized["nn.matmul"] == 3
    random = np.random.default_rng(1)
    for batch, length in ((1, 1), (2, 5), (3, 12)):
        x = random.normal(size=(batch, length, 8)).astype(np.float32)
        wanted = run(model, x)
        got = run(quantized.model, x)
        assert got.shape == wanted.shape
        assert np.abs(got - wanted).max() < 0.3 * np.abs(wanted).max()

"""Files on which `qopt quantize` once ended with an error: each is quantized, and runs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import qdialect as qd
from qdialect.ir.context import new_context
from qdialect.plugins.onnx.read import import_model
from qdialect.plugins.onnx.write import OrtEngine, write_model
from qdialect.quantizer.recipe import Recipe
from qdialect.targets.installed import get_target
from tests.support.processor import saturates_pairs

MODELS = Path(__file__).parent / "models"


def run(model: qd.Model, x: np.ndarray) -> np.ndarray:
    engine = OrtEngine(write_model(model.module, model.ctx).whole(), optimize=not saturates_pairs())
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


def test_decoder_of_unknown_extents() -> None:
    """One block as PyTorch exports it: shapes follow from the input's, casts pass reshapes and
    transposes, and every batch and length gives the same as the file that was quantized."""
    model = qd.load(MODELS / "decoder_unknown_extents.onnx")
    kept = {found.kind: found.count for found in qd.inspect(model).unknown}
    assert kept == dict.fromkeys(
        ("Concat", "Expand", "Range", "Shape", "Squeeze", "Trilu", "Unsqueeze"), 1
    )
    recipe = Recipe.of_target(get_target("onnxruntime"))
    found = qd.quantize(model, MODELS / "decoder_unknown_extents.npz", recipe=recipe)
    assert found.coverage.quantized["nn.matmul"] >= 6
    written = write_model(found.model.module, found.model.ctx).whole()
    session = new_context()
    quantized = qd.Model(import_model(written, session), session)
    optimized = qd.optimize(quantized)
    before, after = qd.inspect(quantized), qd.inspect(optimized)
    assert after.quantize <= 4 < before.quantize
    assert after.quantized >= 18 > before.quantized
    engines = [
        OrtEngine(each, optimize=False)
        for each in (written, write_model(optimized.module, optimized.ctx).whole())
    ]
    random = np.random.default_rng(2)
    for batch, length in ((1, 1), (2, 7), (3, 32), (1, 64)):
        ids = random.integers(0, 64, (batch, length))
        a, b = (engine.run({"ids": ids})["linear_4"] for engine in engines)
        assert a.shape == (batch, length, 64) and a.tobytes() == b.tobytes()

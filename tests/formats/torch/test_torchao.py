"""Models that torchao's `quantize_` made: weights and run-time codes in integers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import qdialect as qd

torch = pytest.importorskip("torch", reason="needs PyTorch")

from tests.formats.torch.programs import check, exported, reference, silently  # noqa: E402

with silently():
    from torchao.quantization import (
        Float8WeightOnlyConfig,
        Int8DynamicActivationInt8WeightConfig,
        Int8DynamicActivationIntxWeightConfig,
        Int8WeightOnlyConfig,
        IntxWeightOnlyConfig,
        quantize_,
    )
    from torchao.quantization.granularity import PerAxis, PerGroup
    from torchao.quantization.qat import QATConfig
    from torchao.utils import unwrap_tensor_subclass

GROUPS = PerGroup(32)
CONFIGS: dict[str, Callable[[], Any]] = {
    "int8": Int8WeightOnlyConfig,
    "int8_dynamic": Int8DynamicActivationInt8WeightConfig,
    "int4_groups": lambda: IntxWeightOnlyConfig(weight_dtype=torch.int4, granularity=GROUPS),
    "int2_groups": lambda: IntxWeightOnlyConfig(weight_dtype=torch.int2, granularity=GROUPS),
    "int8_rows": lambda: IntxWeightOnlyConfig(weight_dtype=torch.int8, granularity=PerAxis(0)),
    "int4_dynamic": lambda: Int8DynamicActivationIntxWeightConfig(
        weight_dtype=torch.int4, weight_granularity=GROUPS
    ),
    "float8": Float8WeightOnlyConfig,
}


class Layer(torch.nn.Module):
    """A layer of which everything else stays as it is."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(64, 32)

    def forward(self, x: Any) -> Any:
        return self.layer(torch.relu(x))


def quantized(config: str, unwrapped: bool) -> tuple[Any, Any]:
    """The program of a layer, and an input."""
    torch.manual_seed(0)
    model, x = Layer().eval(), torch.randn(3, 64)
    with silently():
        quantize_(model, CONFIGS[config]())
        if unwrapped:
            unwrap_tensor_subclass(model)
    return exported(model, x), x


@pytest.mark.parametrize("config", CONFIGS)
@pytest.mark.parametrize("unwrapped", [False, True], ids=["subclass", "parts"])
def test_config(config: str, unwrapped: bool) -> None:
    """Live programs with tensor subclasses, and with the parts of them as parameters."""
    program, x = quantized(config, unwrapped)
    text = str(check(program, x))
    assert "32x64xi8>" in text or "64x32xi8>" in text or "f8E4M3FN" in text
    assert "tensor<32x64xf32> {nn.key" not in text


@pytest.mark.parametrize("config", CONFIGS)
def test_in_the_runtime(config: str, tmp_path: Any) -> None:
    """Written for ONNX Runtime, weights are stored in 8 bits at most, and numbers are the same."""
    onnxruntime = pytest.importorskip("onnxruntime", reason="needs ONNX Runtime")
    program, x = quantized(config, unwrapped=True)
    model = qd.optimize(qd.from_torch(program), "onnxruntime", "exact")
    qd.save(model, tmp_path / "m.onnx")
    session = onnxruntime.InferenceSession(str(tmp_path / "m.onnx"))
    results = session.run(None, {"x": x.numpy()})
    np.testing.assert_allclose(results[0], reference(program, x)[0], rtol=2e-5, atol=2e-6)
    assert (tmp_path / "m.onnx").stat().st_size < 64 * 32 * 4


def test_archive_of_a_subclass_is_refused_with_advice(tmp_path: Any) -> None:
    """Tensor subclasses are pickled in archives, which are never opened."""
    program, _ = quantized("int8", unwrapped=False)
    with silently():
        torch.export.save(program, tmp_path / "m.pt2")
    with pytest.raises(qd.InputError, match="tensor subclass") as caught:
        qd.load(tmp_path / "m.pt2")
    assert any("unwrap_tensor_subclass" in note for note in caught.value.notes)


def test_archive_of_parts_is_the_live_program(tmp_path: Any) -> None:
    """An archive of plain parts reads as the program that it was saved of."""
    program, _ = quantized("int4_groups", unwrapped=True)
    with silently():
        torch.export.save(program, tmp_path / "m.pt2")
    live, read = (str(m) for m in (qd.from_torch(program), qd.load(tmp_path / "m.pt2")))
    assert live == read


@pytest.mark.parametrize("step", ["prepare", "convert"])
def test_quantization_aware_training(step: str) -> None:
    """torchao's own flow, whose fake quantization is spelled out in float arithmetic."""
    torch.manual_seed(0)
    model, x = Layer(), torch.randn(3, 64)
    config = CONFIGS["int4_dynamic"]()
    with silently():
        quantize_(model, QATConfig(config, step="prepare"))
        if step == "convert":
            quantize_(model, QATConfig(config, step="convert"))
    check(exported(model.eval(), x), x)

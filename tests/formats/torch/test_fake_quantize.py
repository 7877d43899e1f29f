"""Fake quantization: PyTorch's numbers, and integer constants of constant weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import qdialect as qd

torch = pytest.importorskip("torch", reason="needs PyTorch")

from tests.formats.torch.programs import check, exported, silently  # noqa: E402


class Every(torch.nn.Module):
    """Each op of fake quantization on the same numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.scale, self.zero = torch.tensor([0.1]), torch.tensor([3], dtype=torch.int32)
        self.scales = torch.tensor([0.013, 0.1, 0.03, 0.077])
        self.zeros = torch.tensor([0, 3, -5, 1], dtype=torch.int32)
        self.learned = torch.tensor([0.4, -200.0, 2.5, 3.5])

    def forward(self, x: Any) -> Any:
        scale = self.scale.to(torch.float32).to("cpu")
        columns = (x.t(), self.scales)
        return (
            torch.fake_quantize_per_tensor_affine(x, 0.05, 2, -128, 127),
            torch.fake_quantize_per_tensor_affine(x, scale, self.zero.to(torch.int32), 0, 255),
            torch.fake_quantize_per_channel_affine(*columns, self.zeros, 0, -127, 127),
            torch._fake_quantize_learnable_per_tensor_affine(
                x, self.scale, self.learned[:1], -128, 127, 1.0
            ),
            torch._fake_quantize_learnable_per_channel_affine(
                *columns, self.learned, 0, -128, 127, 1.0
            ),
        )


def numbers() -> Any:
    """Ties of a grid of steps of 0.05, and numbers beyond the ends of all grids."""
    ties = (np.arange(-400, 400, dtype=np.float32) + np.float32(0.5)) * np.float32(0.05)
    rng = np.random.default_rng(1)
    return torch.from_numpy(
        np.concatenate([ties, rng.normal(0, 9, 400).astype(np.float32)]).reshape(-1, 4)
    )


def exactly(program: Any, x: Any) -> None:
    """A program gives the same floats as eager PyTorch, bit for bit."""
    from tests.formats.torch.programs import interpreted, reference

    for result, expected in zip(
        interpreted(qd.from_torch(program), x), reference(program, x), strict=True
    ):
        np.testing.assert_array_equal(result, expected)


def test_every_form() -> None:
    """Per tensor and channel, with parameters as numbers, tensors, and learned ones."""
    exactly(exported(Every(), numbers()), numbers())


def test_every_form_decomposed() -> None:
    """The ops that they decompose into: with masks as second results."""
    with silently():
        program = exported(Every(), numbers()).run_decompositions()
    exactly(program, numbers())


class Weights(torch.nn.Module):
    """A layer whose weight is fake-quantized, twice alike as some tools write it."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.linspace(-1, 1, 32).reshape(4, 8))
        self.scales, self.zeros = torch.full((4,), 0.008), torch.full((4,), 128)

    def forward(self, x: Any) -> Any:
        parameters = (self.scales, self.zeros.to(torch.int32), 0, 0, 255)
        weight = torch.fake_quantize_per_channel_affine(self.weight, *parameters)
        for _ in range(2):
            x = torch.fake_quantize_per_tensor_affine(x, 0.05, 128, 0, 255)
        return torch.nn.functional.linear(x, weight)


def test_weights_are_integers() -> None:
    """A constant weight is a constant of codes; the second of two alike is nothing."""
    model = check(exported(Weights(), torch.randn(3, 8)), torch.randn(3, 8))
    constants = [line for line in str(model).splitlines() if "nn.constant" in line]
    assert any("4x8x!quant.uniform<u8" in line for line in constants)
    optimized = str(qd.optimize(model, "onnxruntime", "exact"))
    assert optimized.count("quant.qcast") == 1


def test_observers_of_training_are_to_be_converted() -> None:
    """A program that still observes ranges is refused with what to do."""
    from tests.formats.torch import programs

    with silently():
        graph = torch.export.export(programs.Mlp().train(), (torch.randn(4, 32),)).module()
        prepared = programs.prepare_qat_pt2e(graph, programs.QUANTIZERS["xnnpack_qat"]())
        prepared(torch.randn(4, 32))
    with pytest.raises(qd.InputError, match="convert_pt2e"):
        qd.from_torch(exported(prepared, torch.randn(4, 32)))

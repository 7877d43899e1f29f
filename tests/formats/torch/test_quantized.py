"""Quantized programs of PyTorch: codes are those of the reference graph, bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import qdialect as qd

torch = pytest.importorskip("torch", reason="needs PyTorch")

from tests.formats.torch import programs  # noqa: E402
from tests.formats.torch.programs import check, converted, exported, exposed  # noqa: E402

STATIC = [
    *[(net, q) for q in ("x86", "arm", "xnnpack", "xnnpack_channels") for net in programs.NETS],
    ("mlp", "x86_qat"),
    ("mlp", "xnnpack_qat"),
]
DYNAMIC = [(net, q) for q in ("x86_dynamic", "xnnpack_dynamic") for net in programs.NETS]


@pytest.mark.parametrize(("net", "quantizer"), [*STATIC, *DYNAMIC])
@pytest.mark.exact_sums
def test_pt2e(net: str, quantizer: str) -> None:
    """All codes and the floats of a network after PT2E."""
    graph = exposed(converted(net, quantizer))
    torch.manual_seed(7)
    x = torch.randn(programs.NETS[net].shape)
    check(exported(graph, x), x)


def test_float_weights_are_dropped() -> None:
    """The float weights that a converted program keeps are in no constant."""
    graph = converted("mlp", "xnnpack_channels")
    model = qd.from_torch(exported(graph, torch.randn(programs.Mlp.shape)))
    constants = [line for line in str(model).splitlines() if "nn.constant" in line]
    assert any("16x32xi8" in line for line in constants)
    assert not any("16x32xf32" in line for line in constants)


class Table(torch.nn.Module):
    """An embedding."""

    def __init__(self) -> None:
        super().__init__()
        self.rows = torch.nn.Embedding(20, 8)

    def forward(self, indices: Any) -> Any:
        return self.rows(indices)


def test_embedding_whose_zero_points_are_no_integers() -> None:
    """Zero points of embeddings are floats: what rows mean is float arithmetic on their codes."""
    indices = torch.arange(20).reshape(4, 5)
    with programs.silently():
        from torchao.quantization.pt2e.quantizer.embedding_quantizer import EmbeddingQuantizer

        graph = torch.export.export(Table().eval(), (indices,)).module()
        prepared = programs.prepare_pt2e(graph, EmbeddingQuantizer())
        prepared(indices)
        program = exported(programs.convert_pt2e(prepared), indices)
    text = str(check(program, indices))
    assert "20x8xui8" in text
    assert "torch.node" not in text


class Casts(torch.nn.Module):
    """x quantized and dequantized by one pair of ops."""

    def __init__(self, quantize: Any, dequantize: Any, *args: Any) -> None:
        super().__init__()
        self.ops, self.args = (quantize, dequantize), args

    def forward(self, x: Any) -> Any:
        codes = self.ops[0](x, *self.args)
        return codes, self.ops[1](codes, *self.args)


OPS = torch.ops.quantized_decomposed


def halfway(scale: float, low: int, high: int) -> Any:
    """Numbers at and around all ties of a grid, beyond its ends, and what is no number's."""
    steps = np.arange(low - 3, high + 4, dtype=np.float32) + np.float32(0.5)
    ties = (steps * np.float32(scale)).astype(np.float32)
    around = [np.nextafter(ties, np.float32(side)) for side in (-np.inf, np.inf)]
    ends = np.array([np.inf, -np.inf, 0.0, -0.0])
    return torch.from_numpy(np.concatenate([ties, *around, ends]).astype(np.float32))


@pytest.mark.parametrize(
    ("scale", "zero", "low", "high", "dtype"),
    [
        (0.1, 0, 0, 15, torch.uint8),
        (0.1, -3, -8, 7, torch.int8),
        (0.037, 5, -127, 127, torch.int8),
        (1 / 3, 100, 0, 255, torch.uint8),
        (0.3, 100, 0, 127, torch.uint8),
        (2.5e-3, -7, -32768, 32767, torch.int16),
        (1e-3, 1234, 0, 65535, torch.uint16),
        (0.7, 0, -(2**20), 2**20, torch.int32),
    ],
)
def test_per_tensor(scale: float, zero: int, low: int, high: int, dtype: Any) -> None:
    """Bounds narrower than the type clamp, scales may be no float32, ties are PyTorch's."""
    x = halfway(scale, max(low, -3000) - zero, min(high, 3000) - zero)
    module = Casts(
        OPS.quantize_per_tensor, OPS.dequantize_per_tensor, scale, zero, low, high, dtype
    )
    check(exported(module, x), x)


def test_scale_whose_reciprocal_is_another_number_than_that_of_its_float() -> None:
    """Where fl(1 / s) differs between a double and its float32, the codes follow the double."""
    rng = np.random.default_rng(3)
    doubles = rng.uniform(0.01, 1.0, 2000)
    differ = [s for s in doubles if np.float32(1 / s) != np.float32(1 / np.float64(np.float32(s)))]
    assert len(differ) > 100
    for scale in differ[:3]:
        x = halfway(float(scale), -128, 127)
        args = (float(scale), 3, -128, 127, torch.int8)
        module = Casts(OPS.quantize_per_tensor, OPS.dequantize_per_tensor, *args)
        check(exported(module, x), x)


class Channels(torch.nn.Module):
    """x quantized and dequantized along an axis."""

    def __init__(self, scales: Any, zeros: Any, axis: int, low: int, high: int) -> None:
        super().__init__()
        self.register_buffer("scales", scales)
        self.register_buffer("zeros", zeros)
        self.rest = (axis, low, high, torch.int8)

    def forward(self, x: Any) -> Any:
        codes = OPS.quantize_per_channel(x, self.scales, self.zeros, *self.rest)
        return codes, OPS.dequantize_per_channel(codes, self.scales, self.zeros, *self.rest)


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("zeros", [torch.int64, torch.int32])
def test_per_channel(axis: int, zeros: Any) -> None:
    """Scales and zero points along any dimension."""
    rng = np.random.default_rng(axis)
    scales = torch.from_numpy(rng.uniform(0.01, 0.1, 4).astype(np.float32))
    points = torch.tensor([0, 3, -100, 20], dtype=zeros)
    x = torch.from_numpy(rng.normal(0, 4, (4, 4, 4)).astype(np.float32))
    check(exported(Channels(scales, points, axis, -120, 127), x), x)


def test_differences_that_wrap_are_not_taken_for_others() -> None:
    """Codes minus zero points of one 8-bit type wrap in PyTorch: no `quant.dcast` is made."""
    scales, zeros = torch.full((4,), 0.1), torch.tensor([100, 0, 0, 0], dtype=torch.int8)
    program = exported(Channels(scales, zeros, 0, -128, 127), torch.randn(4, 4))
    try:
        text = str(qd.from_torch(program))
    except qd.InputError:
        return
    assert "quant.dcast" not in text


@pytest.mark.exact_sums
def test_optimized_program_in_the_runtime(tmp_path: Any) -> None:
    """A program written for ONNX Runtime gives PyTorch's numbers."""
    onnxruntime = pytest.importorskip("onnxruntime", reason="needs ONNX Runtime")
    for net, quantizer in (("cnn", "xnnpack_channels"), ("mlp", "x86_dynamic"), ("mlp", "x86")):
        x = torch.randn(programs.NETS[net].shape)
        program = exported(converted(net, quantizer), x)
        model = qd.optimize(qd.from_torch(program), "onnxruntime", "exact")
        qd.save(model, tmp_path / "m.onnx")
        session = onnxruntime.InferenceSession(str(tmp_path / "m.onnx"))
        results = session.run(None, {"x": x.numpy()})
        programs.same(results, programs.reference(program, x))

"""Small networks as quantized programs, and what their codes are: eager PyTorch's against ours.

What PyTorch and torchao warn of while they are imported and export is silenced here, only here.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import qdialect as qd
from qdialect.interpreter import Interpreter
from qdialect.interpreter.kernels import KEPT_NODES

torch = pytest.importorskip("torch", reason="needs PyTorch")


@contextmanager
def silently() -> Iterator[None]:
    """Without the warnings of torch and torchao themselves."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


with silently():
    pytest.importorskip("torchao", reason="needs torchao")
    from torchao.quantization.pt2e import move_exported_model_to_eval
    from torchao.quantization.pt2e.quantize_pt2e import (
        convert_pt2e,
        prepare_pt2e,
        prepare_qat_pt2e,
    )
    from torchao.quantization.pt2e.quantizer import arm_inductor_quantizer as arm
    from torchao.quantization.pt2e.quantizer import x86_inductor_quantizer as x86
    from torchao.testing.pt2e import _xnnpack_quantizer as xnnpack

nn, F = torch.nn, torch.nn.functional


class Cnn(nn.Module):
    """Convolutions of each kind, a residual sum, a join and a pool."""

    shape = (2, 3, 6, 6)

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8)
        self.depthwise = nn.Conv2d(8, 8, 3, padding=1, groups=8)
        self.point, self.last = nn.Conv2d(8, 8, 1), nn.Linear(16, 5)

    def forward(self, x: Any) -> Any:
        x = F.relu(self.norm(self.first(x)))
        y = self.point(F.hardswish(self.depthwise(x))) + x
        y = torch.cat([y, F.max_pool2d(x, 3, 1, 1)], 1)
        return self.last(F.adaptive_avg_pool2d(y, 1).flatten(1))


class Mlp(nn.Module):
    """Two layers."""

    shape = (4, 32)

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(32, 16), nn.Linear(16, 8)

    def forward(self, x: Any) -> Any:
        return self.b(F.relu(self.a(x)))


class Block(nn.Module):
    """A block of a transformer."""

    shape = (1, 6, 16)

    def __init__(self) -> None:
        super().__init__()
        self.before, self.between = nn.LayerNorm(16), nn.LayerNorm(16)
        self.qkv, self.out = nn.Linear(16, 48), nn.Linear(16, 16)
        self.up, self.down = nn.Linear(16, 32), nn.Linear(32, 16)

    def forward(self, x: Any) -> Any:
        b, t, c = x.shape
        parts = self.qkv(self.before(x)).chunk(3, -1)
        q, k, v = (part.reshape(b, t, 2, 8).transpose(1, 2) for part in parts)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, c))
        return x + self.down(F.gelu(self.up(self.between(x))))


NETS = {"cnn": Cnn, "mlp": Mlp, "block": Block}


def _x86(**options: Any) -> Any:
    config = x86.get_default_x86_inductor_quantization_config(**options)
    return x86.X86InductorQuantizer().set_global(config)


def _arm() -> Any:
    config = arm.get_default_arm_inductor_quantization_config()
    return arm.ArmInductorQuantizer().set_global(config)


def _xnnpack(**options: Any) -> Any:
    config = xnnpack.get_symmetric_quantization_config(**options)
    return xnnpack.XNNPACKQuantizer().set_global(config)


QUANTIZERS: dict[str, Callable[[], Any]] = {
    "x86": _x86,
    "x86_dynamic": lambda: _x86(is_dynamic=True),
    "x86_qat": lambda: _x86(is_qat=True),
    "arm": _arm,
    "xnnpack": _xnnpack,
    "xnnpack_channels": lambda: _xnnpack(is_per_channel=True),
    "xnnpack_dynamic": lambda: _xnnpack(is_per_channel=True, is_dynamic=True),
    "xnnpack_qat": lambda: _xnnpack(is_per_channel=True, is_qat=True),
}


def converted(net: str, quantizer: str, seed: int = 0) -> Any:
    """A network after PT2E, calibrated on random numbers; a graph module."""
    torch.manual_seed(seed)
    with silently():
        model = NETS[net]().eval()
        qat = quantizer.endswith("qat")
        graph = torch.export.export(model.train(qat), (torch.randn(model.shape),)).module()
        prepare = prepare_qat_pt2e if qat else prepare_pt2e
        prepared = prepare(graph, QUANTIZERS[quantizer]())
        prepared(torch.randn(model.shape))
        if qat:
            move_exported_model_to_eval(prepared)
        for _ in range(2):
            prepared(torch.randn(model.shape))
        return convert_pt2e(prepared)


def _makes_codes(node: Any) -> bool:
    name = str(node.target)
    return node.op == "call_function" and "quantize_" in name and "dequantize" not in name


def exposed(graph: Any) -> Any:
    """The graph module with all tensors of codes as results behind its own."""
    output = next(node for node in graph.graph.nodes if node.op == "output")
    own = list(output.args[0])
    codes = [node for node in graph.graph.nodes if _makes_codes(node)]
    output.args = ((*own, *codes),)
    tree = torch.utils._pytree.tree_structure(tuple(range(len(own) + len(codes))))
    generator = graph.graph._codegen
    generator.pytree_info = generator.pytree_info._replace(out_spec=tree)
    graph.recompile()
    return graph


def exported(model: Any, *inputs: Any) -> Any:
    """The program of a module."""
    with silently():
        return torch.export.export(model, inputs)


def reference(program: Any, *inputs: Any) -> list[np.ndarray]:
    """The outputs of eager PyTorch."""
    with silently(), torch.no_grad():
        results = program.module()(*inputs)
    return [r.numpy() for r in (results if isinstance(results, tuple | list) else (results,))]


def interpreted(model: qd.Model, *inputs: Any) -> list[np.ndarray]:
    """The outputs of our interpreter."""
    interpreter = Interpreter(model.ctx, model.module, functions=KEPT_NODES)
    return [np.asarray(r) for r in interpreter.run([x.numpy() for x in inputs])]


def same(results: Sequence[np.ndarray], expected: Sequence[np.ndarray]) -> None:
    """Integers are equal, floats within the error of float32 sums."""
    for result, other in zip(results, expected, strict=True):
        if other.dtype.kind in "iub":
            np.testing.assert_array_equal(result.astype(np.int64), other.astype(np.int64))
        else:
            np.testing.assert_allclose(result, other, rtol=2e-5, atol=2e-6)


def check(program: Any, *inputs: Any) -> qd.Model:
    """A program gives what eager PyTorch gives; the model that it becomes."""
    with silently():
        model = qd.from_torch(program)
    same(interpreted(model, *inputs), reference(program, *inputs))
    return model

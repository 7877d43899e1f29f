"""`torch.compile(module, backend="qdialect")`: what runs on ONNX Runtime, and what does not."""

from __future__ import annotations

import logging
import re
import warnings
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch", reason="graphs are of PyTorch")
pytest.importorskip("onnxruntime", reason="graphs run on ONNX Runtime")

from qdialect import UsageError  # noqa: E402
from qdialect.plugins.torch import backend as torch_backend  # noqa: E402


@pytest.fixture(autouse=True)
def own_warnings() -> Iterator[None]:
    """Warnings that PyTorch gives of itself are none of ours; each test has its own report."""
    torch._dynamo.reset()
    torch_backend.reset()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module="torch")
        warnings.filterwarnings("ignore", category=DeprecationWarning)
        yield


def lines(caplog: Any) -> list[str]:
    """What our logger said."""
    return [record.message for record in caplog.records if record.name == "qdialect.torch_backend"]


def compiled(module: Any, **options: Any) -> Any:
    return torch.compile(module, backend=torch_backend.backend, options=options or None)


def apart(one: Any, other: Any) -> float:
    return float((one - other).abs().max())


def layers(seed: int = 0) -> Any:
    torch.manual_seed(seed)
    return torch.nn.Sequential(
        torch.nn.Conv2d(3, 4, 3, padding=1),
        torch.nn.BatchNorm2d(4),
        torch.nn.Hardswish(),
        torch.nn.Flatten(),
        torch.nn.Linear(4 * 36, 5),
    ).eval()


def image(batch: int = 2) -> Any:
    return torch.randn(batch, 3, 6, 6, generator=torch.Generator().manual_seed(batch))


def test_it_is_registered_under_our_name() -> None:
    project = (Path(__file__).parents[3] / "pyproject.toml").read_text("utf-8")
    entry = r'entry-points."torch_dynamo_backends"\]\nqdialect = "([\w.]+):(\w+)"'
    ((module, name),) = re.findall(entry, project)
    assert getattr(import_module(module), name) is torch_backend.backend


def test_a_network_runs_on_the_runtime_for_every_extent(caplog: Any) -> None:
    module = layers()
    fast = compiled(module, threads=1)
    with torch.no_grad(), caplog.at_level(logging.INFO, "qdialect.torch_backend"):
        for batch in (2, 3, 5, 2):
            assert apart(fast(image(batch)), module(image(batch))) < 1e-5
    entries = torch_backend.report()
    assert {entry.engine for entry in entries} == {"onnxruntime"}
    shapes = [entry.shapes for entry in entries]
    assert shapes[:3] == ["[2x3x6x6]", "[3x3x6x6]", "[5x3x6x6]"] and entries[0].ops >= 4
    assert [str(entry) for entry in entries] == lines(caplog)
    assert str(entries).startswith("graph 1 (5 nodes, inputs [2x3x6x6]): onnxruntime, ")


def test_weights_that_change_are_read_again() -> None:
    module = layers()
    fast = compiled(module)
    with torch.no_grad():
        fast(image())
        module[4].bias.add_(1.0)
        assert apart(fast(image()), module(image())) < 1e-5


def test_a_graph_with_gradients_is_left_to_pytorch(caplog: Any) -> None:
    module = layers()
    fast = compiled(module)
    fast(image()).sum().backward()
    assert module[4].weight.grad is not None
    (entry,) = torch_backend.report()
    assert entry.engine == "eager" and "gradients are recorded" in entry.reason
    assert lines(caplog) == [str(entry)]
    with torch.no_grad():
        fast(image())
    assert torch_backend.report()[-1].engine == "onnxruntime"


class Parts(torch.nn.Module):
    """Two graphs: what stands between them is Python's; the second has an op of linear algebra."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)
        self.calls: list[int] = []

    def forward(self, x: Any) -> Any:
        y = self.linear(x).relu()
        torch._dynamo.graph_break()
        return torch.linalg.det(y[:, :3]), y + 1


def test_it_falls_back_graph_by_graph() -> None:
    module = Parts().eval()
    x = torch.randn(3, 4)
    with torch.no_grad():
        found, expected = compiled(module)(x), module(x)
    assert all(apart(a, b) < 1e-5 for a, b in zip(found, expected, strict=True))
    first, second = torch_backend.report()
    assert (first.engine, second.engine) == ("onnxruntime", "eager")
    assert "det" in second.reason


class Counting(torch.nn.Module):
    """It writes into a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(2))

    def forward(self, x: Any) -> Any:
        self.count.add_(1)
        return x + self.count


def test_what_writes_into_a_buffer_is_left_to_pytorch() -> None:
    module = Counting()
    fast = compiled(module)
    with torch.no_grad():
        assert [fast(torch.zeros(2))[0].item() for _ in range(3)] == [1.0, 2.0, 3.0]
    assert {entry.engine for entry in torch_backend.report()} == {"eager"}


def test_results_that_are_others_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    module = layers()
    right = torch_backend._Session.__call__

    def wrong(self: Any, inputs: Any) -> Any:
        return tuple(value * 1.5 for value in right(self, inputs))

    monkeypatch.setattr(torch_backend._Session, "__call__", wrong)
    with torch.no_grad():
        assert apart(compiled(module)(image()), module(image())) < 1e-5
    (entry,) = torch_backend.report()
    assert entry.engine == "eager" and entry.reason == "result 0 is another there"


def test_options() -> None:
    with pytest.raises(UsageError, match="has no option 'speed'"):
        torch_backend.backend(None, [], options={"speed": 9})
    with pytest.raises(UsageError):
        torch_backend.backend(None, [], options={"numerics": "close"})
    assert str(torch_backend.report()) == "no graph was compiled"

"""PyTorch's own calls of its ops, a few of them."""

from __future__ import annotations

import pytest

pytest.importorskip("torch", reason="needs the extra torch")
pytest.importorskip("expecttest", reason="PyTorch's database of ops needs it")

from tools.fuzz import torch_ops


def test_calls_are_equal(capsys: pytest.CaptureFixture[str]) -> None:
    names = [
        "max",
        "nn.functional.pad",
        "nn.functional.rrelu",
        "cumsum",
        "nn.functional.cosine_embedding_loss",
    ]
    assert torch_ops.main([*names, "--samples", "3", "--all"]) == 0
    said = capsys.readouterr().out
    assert "max binary: 3 equal" in said
    assert "wrong" not in said and "crash" not in said


def test_a_wrong_result_is_found(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import qdialect as qd

    run = qd.run
    monkeypatch.setattr(qd, "run", lambda *a: {n: x + 1 for n, x in run(*a).items()})
    assert torch_ops.main(["sin", "--samples", "1"]) == 1
    assert "1 wrong" in capsys.readouterr().out

"""`qopt-opt --assume-profile`: what a profile of the float model saw, proofs may use."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from qdialect.cli.opt import main as opt
from qdialect.cli.qopt import main as qopt

FLOAT = """
func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = nn.tanh %x {nn.key = "squash"} : (tensor<4xf32>) -> tensor<4xf32>
  %1 = nn.add %0, %0 {nn.key = "sum"} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  func.return %1 : tensor<4xf32>
}
"""
QUANTIZED = """
!q = tensor<4x!quant.uniform<i8:f32, 0.0625>>
func.func @f(%x: !q) -> !q {
  %0 = nn.tanh %x {nn.key = "squash"} : (!q) -> !q
  %1 = nn.add %x, %0 {nn.key = "sum"} : (!q, !q) -> !q
  %2 = nn.clip %1 min -3.0 max 3.0 : (!q) -> !q
  func.return %2 : !q
}
"""
BELIEVE = ["-p", "canonicalize{assume=profile}"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("float.mlir").write_text(FLOAT)
    Path("q.mlir").write_text(QUANTIZED)
    return tmp_path


def profiled(samples: np.ndarray) -> None:
    np.savez("x.npz", arg0=samples.astype(np.float32))
    data = ["--data", "x.npz", "-q", "-o", "p.json"]
    assert qopt(["profile", "float.mlir", *data]) == 0


def test_what_was_seen_is_believed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    profiled(np.linspace(-1, 1, 12).reshape(3, 4))
    capsys.readouterr()
    assert opt(["q.mlir", "--assume-profile=p.json", *BELIEVE, "--remarks"]) == 0
    out, err = capsys.readouterr()
    assert "nn.clip" not in out and "nn.assumed_range" in out
    assert "exact (assuming the range of sum)" in err
    assert opt(["q.mlir", "--assume-profile=p.json", "-p", "canonicalize"]) == 0
    assert "nn.clip" in capsys.readouterr().out, "stated, but nobody was asked to believe it"
    assert opt(["q.mlir", *BELIEVE]) == 0
    assert "nn.clip" in capsys.readouterr().out


def test_a_file_that_is_no_profile(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("p.json").write_text('{"sum": [0, 1]}')
    assert opt(["q.mlir", "--assume-profile=p.json", *BELIEVE, "-o", "o.mlir"]) == 1
    assert "p.json" in capsys.readouterr().err
    assert opt(["q.mlir", "--assume-profile=missing.json", *BELIEVE]) == 1
    assert "missing.json" in capsys.readouterr().err
    assert not Path("o.mlir").exists()

"""What TOSA cannot express is refused through the commands, before any output."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "cli"))

from commands import call, qopt, qopt_translate

CODES = "!quant.uniform<i8:f32, 0.5>"
CASES = {
    "float op": (
        "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {\n"
        "  %y = nn.tanh %x : (tensor<4xf32>) -> tensor<4xf32>\n"
        "  func.return %y : tensor<4xf32>\n}",
        "'nn.tanh' cannot become TOSA",
    ),
    "dynamic shape": (
        f"func.func @main(%x: tensor<?x4x{CODES}>) -> tensor<?x4x{CODES}> {{\n"
        f"  %y = nn.relu %x : (tensor<?x4x{CODES}>) -> tensor<?x4x{CODES}>\n"
        f"  func.return %y : tensor<?x4x{CODES}>\n}}",
        "has a dimension that is not known",
    ),
    "storage": (
        "func.func @main(%x: tensor<4x!quant.uniform<f8E4M3FN:f32, 0.5>>)"
        " -> tensor<4x!quant.uniform<f8E4M3FN:f32, 0.5>> {\n"
        "  func.return %x : tensor<4x!quant.uniform<f8E4M3FN:f32, 0.5>>\n}",
        "is stored as f8E4M3FN",
    ),
    "unknown op": (
        f"func.func @main(%x: tensor<4x{CODES}>) -> tensor<4x{CODES}> {{\n"
        f'  %y = "acme.op"(%x) : (tensor<4x{CODES}>) -> tensor<4x{CODES}>\n'
        f"  func.return %y : tensor<4x{CODES}>\n}}",
        "acme.op",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_refused_before_any_output(name: str, tmp_path: Path) -> None:
    text, reason = CASES[name]
    source, out = tmp_path / "m.mlir", tmp_path / "t.mlir"
    source.write_text(text)
    result = call(qopt_translate, "--export-tosa", str(source), "-o", str(out))
    assert result.code == 1 and reason in result.err, result.err
    assert "Traceback" not in result.err and str(source) in result.err
    assert not out.exists() and result.out == ""


@pytest.mark.parametrize("name", ["float op", "dynamic shape"])
def test_refused_before_an_engine_is_started(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from qdialect.engines import tools

    monkeypatch.setattr(tools, "find", lambda *_: "/nowhere/command")
    text, reason = CASES[name]
    (tmp_path / "m.mlir").write_text(text)
    np.savez(tmp_path / "x.npz", x=np.zeros((4,), np.float32))
    result = call(
        qopt,
        *("run", str(tmp_path / "m.mlir"), "-i", str(tmp_path / "x.npz")),
        *("-o", str(tmp_path / "y.npz"), "--engine=iree"),
    )
    assert result.code == 1 and reason in result.err, result.err
    assert not (tmp_path / "y.npz").exists()

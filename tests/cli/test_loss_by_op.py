"""Where a loss enters: values by what is lost in all and at their op alone, and by channel."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.commands import call, qopt

FLOATS = """
!x = tensor<1x2x4x4xf32>
!v = tensor<2xf32>
func.func @main(%x: !x {nn.name = "x"}) -> !x {
  %m = nn.constant dense<0.0> : tensor<2xf32> : !v
  %g = nn.constant dense<[1.0, 100.0]> : tensor<2xf32> : !v
  %u = nn.constant dense<1.0> : tensor<2xf32> : !v
  %a = nn.relu %x {nn.key = "first"} : (!x) -> !x
  %b = nn.batch_norm %a, %g, %m, %m, %u {nn.key = "norm", epsilon = 0.0 : f32} : (!x, !v, !v, !v, !v) -> !x
  %c = nn.relu %b {nn.key = "last"} : (!x) -> !x
  func.return %c : !x
}
"""  # noqa: E501
CODES = (
    FLOATS.replace(
        "%b = nn", "%q = quant.qcast %a : !x to !q\n  %d = quant.dcast %q : !q to !x\n  %b = nn"
    )
    .replace("batch_norm %a", "batch_norm %d")
    .replace("!v = t", "!q = tensor<1x2x4x4x!quant.uniform<u8:f32, 0.03125>>\n!v = t")
)


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """A norm that amplifies a small channel a hundred times; the same on codes; three samples."""
    (tmp_path / "f.mlir").write_text(FLOATS)
    (tmp_path / "q.mlir").write_text(CODES)
    x = np.random.default_rng(0).uniform(0, 4, (3, 1, 2, 4, 4)).astype(np.float32)
    x[:, :, 1] /= 100
    np.savez(tmp_path / "x.npz", x=x)
    return [str(tmp_path / name) for name in ("f.mlir", "q.mlir", "x.npz")]


def layers(files: list[str], *flags: str) -> dict[str, dict[str, Any]]:
    a, b, data = files
    result = call(qopt, "diff", a, b, "--layers", "--data", data, "--json", *flags)
    assert result.code == 0, result.err
    return {layer["key"]: layer for layer in json.loads(result.out)["layers"]}


@pytest.mark.parametrize("engine", ["numpy", "onnxruntime"])
def test_noise_is_said_where_it_enters(files: list[str], engine: str) -> None:
    if engine == "onnxruntime":
        pytest.importorskip("onnxruntime")
    found = layers(files, "--alone", f"--engine={engine}")
    assert list(found) == ["first", "norm", "last"]
    # The quantize is read by the norm: there it is lost, and the relu behind it has it from there.
    assert found["first"]["alone_db"] is None or math.isinf(found["first"]["alone_db"])
    assert found["norm"]["alone_db"] == pytest.approx(found["norm"]["sqnr_db"])
    assert found["last"]["sqnr_db"] < 15
    assert found["last"]["alone_db"] is None or found["last"]["alone_db"] > 100


def test_the_channel_that_loses_is_said(files: list[str]) -> None:
    found = layers(files)
    x = np.maximum(np.load(files[2])["x"][:, 0], 0)
    codes = np.clip(np.rint(x / np.float32(0.03125)), 0, 255) * np.float32(0.03125)
    noise, signal = np.square(x - codes).sum((0, 2, 3)), np.square(x).sum((0, 2, 3))
    each = 10 * np.log10(signal / noise)
    assert found["norm"]["worst_channel"] == 1 == each.argmin()
    assert found["norm"]["worst_channel_db"] == pytest.approx(each[1], abs=0.01)
    assert found["norm"]["dead"] == []
    assert found["norm"]["alone_db"] is None


def test_a_dead_channel_is_said(files: list[str], tmp_path: Path) -> None:
    coarse = tmp_path / "coarse.mlir"
    coarse.write_text(CODES.replace("0.03125", "0.125"))
    found = layers([files[0], str(coarse), files[2]])
    assert found["norm"]["dead"] == [1]
    result = call(qopt, "diff", files[0], str(coarse), "--layers", "-d", files[2])
    heading, *rows = result.out.splitlines()
    assert heading.split()[-1] == "dead" and rows[1].split()[-1] == "1"


def test_the_worst_of_them(files: list[str]) -> None:
    assert list(layers(files, "--alone", "--worst=1")) == ["norm"]
    assert len(layers(files, "--worst=2")) == 2


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--alone"], "--alone is for --layers"),
        (["--worst=3"], "--worst is for --layers"),
        (["--layers", "--alone", "--engine=litert"], "ops run alone in numpy or onnxruntime"),
        (["--layers", "--worst=0"], "--worst"),
        (["--layers", "--data=x.npz", "--input=y.npz"], "--data"),
    ],
)
def test_flags_that_do_not_go_together(files: list[str], flags: list[str], said: str) -> None:
    result = call(qopt, "diff", *files[:2], *flags)
    assert result.code == 2 and said in result.err, result.err

"""`qopt prices`, and the form by price and by the clock."""

from __future__ import annotations

import json
from pathlib import Path

import onnx
import pytest
from commands import call, qopt
from test_check import conv_relu

from qdialect.cli import forms
from qdialect.targets.price_table import read_prices, shipped_prices


@pytest.fixture
def net(tmp_path: Path) -> Path:
    path = tmp_path / "net.onnx"
    onnx.save(conv_relu([1, 3, 8, 8]), path)
    return path


def kinds(path: Path) -> set[str]:
    return {node.op_type for node in onnx.load(path).graph.node}


def test_prices_are_measured_and_used(net: Path, tmp_path: Path) -> None:
    path, out = tmp_path / "p.json", tmp_path / "o.onnx"
    result = call(qopt, "prices", "-o", str(path), "--rounds=8")
    assert result.code == 0, result.err
    assert "a rescale takes" in result.err and result.out == ""
    measured, shipped = read_prices(path, "onnxruntime"), shipped_prices("onnxruntime")
    assert measured.cpu
    for ours, theirs in zip(measured.sizes, shipped.sizes, strict=True):
        assert ours.elements == theirs.elements
        for section in ("codes", "floats", "forms", "encodings", "transposed"):
            assert getattr(ours, section).keys() == getattr(theirs, section).keys()
    result = call(qopt, "optimize", str(net), "-o", str(out), f"--prices={path}")
    assert result.code == 0, result.err


@pytest.mark.parametrize(("pair", "kernel"), [([2, 1], True), ([1, 2], False)])
def test_auto_is_the_form_that_costs_less(
    net: Path, tmp_path: Path, pair: list[int], kernel: bool
) -> None:
    path, out = tmp_path / "p.json", tmp_path / "o.onnx"
    table = json.loads(shipped_prices("onnxruntime").to_json())
    sizes = [each | {"forms": {"nn.conv2d": pair}} for each in table["sizes"]]
    path.write_text(json.dumps(table | {"sizes": sizes}))
    arguments = ["optimize", str(net), "-o", str(out), "--form=auto", f"--prices={path}"]
    assert call(qopt, *arguments).code == 0
    assert ("QLinearConv" in kinds(out)) == kernel


@pytest.mark.parametrize(
    ("medians", "kernel", "said"),
    [
        ({"original": 2.0, "qdq": 1.0, "qoperator": 1.05}, False, "; qdq is written"),
        ({"original": 2.0, "qdq": 1.0, "qoperator": 0.5}, True, "; qoperator is written"),
        ({"original": 1.0, "qdq": 2.0, "qoperator": 3.0}, None, "neither form is faster"),
    ],
)
def test_the_fastest_is_written(
    net: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    medians: dict[str, float],
    kernel: bool | None,
    said: str,
) -> None:
    monkeypatch.setattr(forms, "_medians", lambda *_: dict(medians))
    out = tmp_path / "o.onnx"
    result = call(qopt, "optimize", str(net), "-o", str(out), "--time")
    assert result.code == 0 and said in result.err, result.err
    if kernel is None:
        assert out.read_bytes() == net.read_bytes()
        assert "checked" not in result.err
    else:
        assert ("QLinearConv" in kinds(out)) == kernel


def test_timing_for_real(net: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forms, "SECONDS", 0.05)
    result = call(qopt, "optimize", str(net), "-o", str(tmp_path / "o.onnx"), "--time")
    assert result.code == 0 and "timed in ONNX Runtime, one thread: original" in result.err


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("prices",), 2, "-o FILE.json"),
        (("prices", "-o", "p.txt"), 2, "must end in .json"),
        (("prices", "-o", "p.json", "--target=tosa"), 2, "no benchmark for target 'tosa'"),
        (("optimize", "IN", "-o", "o.mlir", "--time"), 2, "--time is for an .onnx result"),
        (("optimize", "IN", "-o", "o.onnx", "--prices=no.json"), 1, "cannot read prices"),
    ],
)
def test_errors(
    net: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...],
    code: int, message: str,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    result = call(qopt, *(str(net) if a == "IN" else a for a in arguments))
    assert result.code == code and message in result.err

"""`qopt optimize` between formats: what the source file gives is written, or nothing is."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

import qdialect as qd
from qdialect.workflows import optimize_file
from qdialect.workflows.optimize import Optimization
from tests.support.commands import Result, call, qopt

FIRST = "the first value that differs is that of"
OTHERS = (".mlir", ".mlirbc", ".tflite", ".circle")
TOSA = """
func.func @main(%x: tensor<1x4xi32>) -> tensor<1x4xi32> {{
  %c = "tosa.const"() <{{values = dense<{0}> : tensor<1x4xi32>}}> : () -> tensor<1x4xi32>
  %y = tosa.add %x, %c {{nn.key = "sum"}} : (tensor<1x4xi32>, tensor<1x4xi32>) -> tensor<1x4xi32>
  return %y : tensor<1x4xi32>
}}
"""


def run(source: Path, out: Path, *flags: str) -> Result:
    return call(qopt, "optimize", str(source), "-o", str(out), "--race=0", *flags)


def floats(path: Path, weight: float = 2.0) -> Path:
    nodes = [helper.make_node("Mul", ["x", "w"], ["m"]), helper.make_node("Relu", ["m"], ["y"])]
    ports = [helper.make_tensor_value_info(name, 1, [1, 4]) for name in "xy"]
    tensors = [onnx.numpy_helper.from_array(np.full((1, 4), weight, np.float32), "w")]
    graph = helper.make_graph(nodes, "g", ports[:1], ports[1:], tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    onnx.save(model, path)
    return path


def crash(*_: Any, **__: Any) -> Any:
    raise ValueError("no such luck")


@pytest.mark.parametrize("suffix", OTHERS)
@pytest.mark.parametrize("how", ["crashes", "is wrong"])
def test_without_passes_the_translation_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str, how: str
) -> None:
    source, out = floats(tmp_path / "a.onnx"), tmp_path / f"b{suffix}"
    monkeypatch.setattr(Optimization, "checked", crash if how == "crashes" else lambda *_: None)
    monkeypatch.setattr(optimize_file, "foreign_frame", lambda error: None)
    result = run(source, out)
    assert result.code == 0, result.err
    assert "the original is what was written" not in result.err
    assert ("left out: all passes" in result.err) == (how == "crashes")
    if suffix != ".circle":
        given = {"x": np.array([[-1, 0, 1, 2]], np.float32)}
        ((_, y),) = qd.run(qd.load(out), given).items()
        np.testing.assert_array_equal(y, [[0, 0, 2, 4]])


@pytest.mark.parametrize("suffix", OTHERS)
@pytest.mark.parametrize("broken", ["load", "run_passes"])
def test_a_translation_that_fails_is_one_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str, broken: str
) -> None:
    source, out = floats(tmp_path / "a.onnx"), tmp_path / f"b{suffix}"
    out.write_bytes(b"what was there")
    monkeypatch.setattr(Optimization, "checked", crash)
    monkeypatch.setattr(optimize_file, broken, crash)
    monkeypatch.setattr(optimize_file, "foreign_frame", lambda error: None)
    result = run(source, out)
    assert result.code == 1 and result.err.count("error: ") == 1
    assert f"cannot be written as {suffix}: ValueError: no such luck" in result.err
    assert out.read_bytes() == b"what was there"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.onnx", out.name]


def misread(monkeypatch: pytest.MonkeyPatch, other: Path) -> None:
    """What is read is `other`, whatever file was asked for."""
    sound = optimize_file.load

    def load(source: Path, **options: Any) -> Any:
        return replace(sound(other, **options), source=source)

    monkeypatch.setattr(optimize_file, "load", load)


@pytest.mark.parametrize("level", ["exact", "bounded"])
@pytest.mark.parametrize("suffix", OTHERS)
def test_a_file_that_is_read_wrongly_is_not_translated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str, level: str
) -> None:
    source, out = floats(tmp_path / "a.onnx"), tmp_path / f"b{suffix}"
    misread(monkeypatch, floats(tmp_path / "wrong.onnx", -3.0))
    result = run(source, out, f"--numerics={level}")
    assert result.code == 1 and result.err.count("error: ") == 1, result.err
    assert "from the source file in ONNX Runtime" in result.err
    assert re.search(f"{FIRST} (nn.constant 'w'|Mul 'm'|Relu 'y')", result.err)
    assert not out.exists()


def test_one_that_is_read_wrongly_is_copied_in_its_own_format(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, out = floats(tmp_path / "a.onnx"), tmp_path / "b.onnx"
    misread(monkeypatch, floats(tmp_path / "wrong.onnx", -3.0))
    result = run(source, out)
    assert result.code == 0 and "the original is what was written" in result.err
    assert out.read_bytes() == source.read_bytes()


@pytest.mark.parametrize("suffix", [".onnx", ".mlir"])
def test_tosa_is_judged_as_it_was_before_it_was_raised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str
) -> None:
    source, wrong, out = (tmp_path / name for name in ("a.mlir", "wrong.mlir", f"b{suffix}"))
    source.write_text(TOSA.format("1"))
    wrong.write_text(TOSA.format("5"))
    assert run(source, out).code == 0
    out.unlink()
    misread(monkeypatch, wrong)
    result = run(source, out)
    assert result.code == 1 and "from the source file" in result.err, result.err
    assert not out.exists()


def test_a_program_of_pytorch_is_judged_by_pytorch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = pytest.importorskip("torch")
    paths = [tmp_path / "a.pt2", tmp_path / "wrong.pt2"]
    for path, slope in zip(paths, (0.1, 0.7), strict=True):
        module = torch.nn.LeakyReLU(slope)
        torch.export.save(torch.export.export(module, (torch.randn(2, 8),)), path)
    out = tmp_path / "b.onnx"
    result = run(paths[0], out)
    assert result.code == 0 and "the source file in PyTorch, op by op" in result.err, result.err
    out.unlink()
    misread(monkeypatch, paths[1])
    result = run(paths[0], out)
    assert result.code == 1 and "from the source file in PyTorch, op by op" in result.err
    assert not out.exists()


def test_a_tflite_file_is_judged_by_litert(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ai_edge_litert")
    paths = [tmp_path / "a.tflite", tmp_path / "wrong.tflite"]
    for path, weight in zip(paths, (2.0, -3.0), strict=True):
        qd.save(qd.load(floats(tmp_path / "f.onnx", weight)), path)
    misread(monkeypatch, paths[1])
    for suffix in (".onnx", ".mlir", ".circle"):
        out = tmp_path / f"b{suffix}"
        result = run(paths[0], out)
        assert result.code == 1
        assert re.search(f"{FIRST} (nn.constant 'constant'|MUL)", result.err)
        assert not out.exists()

"""Exports through the command: any network, what its interface is, and refusals all at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.commands import Result, call, qopt_translate

X = "tensor<1x3x8x8x!quant.uniform<i8:f32, 0.05:3>>"
F = "tensor<1x3x8x8xf32>"
CASTS = f"""
func.func @main(%f: {F}) -> {F} {{
  %x = quant.qcast %f : {F} to {X}
  %y = nn.relu %x : ({X}) -> {X}
  %0 = quant.dcast %y : {X} to {F}
  func.return %0 : {F}
}}
"""
RECIPROCALS = f"""
module attributes {{quant.arithmetic = "expressed"}} {{
func.func @main(%f: {F}) -> {F} {{
  %x = quant.qcast %f {{quant.rounding = "reciprocal"}} : {F} to {X}
  %y = nn.add %x, %x rounding reciprocal : ({X}, {X}) -> {X}
  %z = nn.sigmoid %y rounding reciprocal : ({X}) -> {X}
  %0 = quant.dcast %z : {X} to {F}
  func.return %0 : {F}
}}
}}
"""
SLICED = f"""
func.func @main(%x: {F}) -> tensor<1x3x4x8xf32> {{
  %0 = nn.slice %x starts [0, 0, 0, 0] stops [1, 3, 8, 8] steps [1, 1, 2, 1]
    : ({F}) -> tensor<1x3x4x8xf32>
  func.return %0 : tensor<1x3x4x8xf32>
}}
"""
PRELU = f"""
func.func @main(%x: {X}, %a: tensor<3x1x1xf32>) -> {F} {{
  %0 = quant.dcast %x : {X} to {F}
  %1 = nn.sigmoid %0 : ({F}) -> {F}
  %2 = nn.prelu %1, %a : ({F}, tensor<3x1x1xf32>) -> {F}
  %3 = nn.mul %1, %2 : ({F}, {F}) -> {F}
  func.return %3 : {F}
}}
"""
KEPT = f"""
func.func @main(%x: {F}) -> {F} {{
  %0 = onnx.node "Hardmax" (%x) : ({F}) -> {F}
  %1 = nn.relu %0 : ({F}) -> {F}
  %2 = onnx.node "Celu" (%1) : ({F}) -> {F}
  func.return %2 : {F}
}}
"""
PATHS = ("tosa", "linalg", "quant", "iree", "stablehlo")


def _exported(text: str, folder: Path, *flags: str) -> Result:
    (folder / "m.mlir").write_text(text)
    return call(qopt_translate, *flags, str(folder / "m.mlir"))


@pytest.mark.parametrize("to", PATHS)
@pytest.mark.parametrize(
    "text", [CASTS, RECIPROCALS, SLICED, PRELU], ids=["casts", "reciprocals", "sliced", "prelu"]
)
def test_any_network_is_exported(text: str, to: str, tmp_path: Path) -> None:
    result = _exported(text, tmp_path, f"--export-{to}")
    assert result.code == 0, result.err
    assert '"nn.' not in result.out


@pytest.mark.parametrize("to", ["tosa", "linalg"])
def test_the_interface_is_the_models_or_codes(to: str, tmp_path: Path) -> None:
    floats = _exported(CASTS, tmp_path, f"--export-{to}").out
    codes = _exported(CASTS, tmp_path, f"--export-{to}", "--interface=codes").out
    strict = _exported(CASTS, tmp_path, f"--export-{to}", "--strict-integer").out
    assert f"function_type = ({F}) -> {F}" in floats
    narrow = "tensor<1x3x8x8xi8>"
    assert all(f"function_type = ({narrow}) -> {narrow}" in text for text in (codes, strict))


@pytest.mark.parametrize("to", PATHS)
def test_one_error_lists_everything(to: str, tmp_path: Path) -> None:
    result = _exported(KEPT, tmp_path, f"--export-{to}")
    assert result.code == 1 and not result.out
    assert "2 ops cannot become" in result.err
    assert "ONNX node Hardmax" in result.err and "ONNX node Celu" in result.err


def test_strictly_integers_names_every_float(tmp_path: Path) -> None:
    result = _exported(PRELU, tmp_path, "--export-tosa", "--strict-integer")
    assert result.code == 1 and not result.out
    assert all(f"'{op}'" in result.err for op in ("nn.sigmoid", "nn.prelu", "nn.mul"))

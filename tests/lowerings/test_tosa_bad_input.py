"""What a path cannot express is refused through the commands, before any output."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import qdialect as qd
from qdialect.errors import UnsupportedError
from qdialect.plugins.mlir.read import read_module
from tests.support.commands import call, qopt, qopt_translate

CODES = "!quant.uniform<i8:f32, 0.5>"
CASES = {
    "kept node": (
        "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {\n"
        '  %y = onnx.node "Hardmax" (%x) : (tensor<4xf32>) -> tensor<4xf32>\n'
        "  func.return %y : tensor<4xf32>\n}",
        "'onnx.node' cannot become TOSA: it has no form of the ONNX node Hardmax",
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
    "no rank": (
        f"func.func @main(%x: tensor<*x{CODES}>) -> tensor<*x{CODES}> {{\n"
        f"  func.return %x : tensor<*x{CODES}>\n}}",
        "is no ranked tensor",
    ),
}
NAMES = {
    "tosa": "TOSA",
    "linalg": "linalg",
    "quant": "linalg",
    "iree": "linalg",
    "stablehlo": "StableHLO",
}
"""The paths, and how messages call what they lead to."""
OWN_CASES = {
    "4 bits": (
        "stablehlo",
        "func.func @main(%x: tensor<4x!quant.uniform<i4:f32, 0.5>>)"
        " -> tensor<4x!quant.uniform<i4:f32, 0.5>> {\n"
        "  func.return %x : tensor<4x!quant.uniform<i4:f32, 0.5>>\n}",
        "numbers are exchanged as i8, i16, i32, not i4",
    ),
    "u16": (
        "stablehlo",
        "func.func @main(%x: tensor<4x!quant.uniform<u16:f32, 0.5>>)"
        " -> tensor<4x!quant.uniform<u16:f32, 0.5>> {\n"
        "  func.return %x : tensor<4x!quant.uniform<u16:f32, 0.5>>\n}",
        "numbers are exchanged as i8, i16, i32, not u16",
    ),
    "rounding": (
        "quant",
        "func.func @main(%x: tensor<4xf32>) -> tensor<4x!quant.uniform<i8:f32, 0.5>> {\n"
        '  %0 = quant.qcast %x {quant.rounding = "half_away"} : tensor<4xf32>'
        " to tensor<4x!quant.uniform<i8:f32, 0.5>>\n"
        "  func.return %0 : tensor<4x!quant.uniform<i8:f32, 0.5>>\n}",
        "upstream's qcast has no rounding to say",
    ),
    "wide": (
        "iree",
        "func.func @main(%x: tensor<4x!quant.uniform<i32:f32, 0.5>>) -> tensor<4xf32> {\n"
        "  %0 = quant.dcast %x : tensor<4x!quant.uniform<i32:f32, 0.5>> to tensor<4xf32>\n"
        "  func.return %0 : tensor<4xf32>\n}",
        "floats do not hold all codes of i32",
    ),
}


OTHER_SCALES = {
    "conv2d": """
!x = tensor<1x2x3x3x!quant.uniform<i8:f32, 0.5>>
!w = tensor<2x2x1x1x!quant.uniform<i8:f32, 0.25>>
!y = tensor<1x2x3x3x!quant.uniform<i32:f32, 0.0625>>
func.func @main(%x: !x) -> !y {
  %w = nn.constant dense<1> : tensor<2x2x1x1xi8> : !w
  %0 = nn.conv2d %x, %w : (!x, !w) -> !y
  func.return %0 : !y
}""",
    "add": """
!x = tensor<4x!quant.uniform<i8:f32, 0.5>>
!y = tensor<4x!quant.uniform<i32:f32, 0.25>>
func.func @main(%x: !x) -> !y {
  %0 = nn.add %x, %x : (!x, !x) -> !y
  func.return %0 : !y
}""",
}


@pytest.mark.parametrize("to", ["tosa", "linalg"])
@pytest.mark.parametrize("name", OTHER_SCALES)
def test_sums_on_another_scale_are_not_taken_for_exact(to: str, name: str) -> None:
    """The pass alone: nobody has split the rescale from the op."""
    ctx = qd.new_context()
    model = qd.Model(read_module(OTHER_SCALES[name], ctx), ctx)
    with pytest.raises(UnsupportedError, match="on another scale than its result"):
        qd.run_passes(model, f"convert-nn-to-{to}", target="tosa")


@pytest.mark.parametrize("name", OWN_CASES)
def test_what_one_path_refuses(name: str, tmp_path: Path) -> None:
    to, text, reason = OWN_CASES[name]
    refused(to, text, reason, tmp_path)


CASTS = """
!x = tensor<4x!quant.uniform<i8:f32, 0.5>>
func.func @main(%f: tensor<4xf32>) -> tensor<4xf32> {
  %x = quant.qcast %f : tensor<4xf32> to !x
  %y = nn.relu %x : (!x) -> !x
  %0 = quant.dcast %y : !x to tensor<4xf32>
  func.return %0 : tensor<4xf32>
}
"""


@pytest.mark.parametrize(
    ("to", "casts"),
    [
        ("quant", ("quant.qcast", "quant.dcast")),
        ("iree", ("iree_linalg_ext.quantize_affine", "iree_linalg_ext.dequantize_affine")),
        ("stablehlo", ("stablehlo.uniform_quantize", "stablehlo.uniform_dequantize")),
    ],
)
def test_casts_stay_at_the_interface(to: str, casts: tuple[str, str], tmp_path: Path) -> None:
    (tmp_path / "m.mlir").write_text(CASTS)
    result = call(qopt_translate, f"--export-{to}", str(tmp_path / "m.mlir"))
    assert result.code == 0, result.err
    assert all(f'"{name}"' in result.out for name in casts)
    assert "function_type = (tensor<4xf32>) -> tensor<4xf32>" in result.out


@pytest.mark.parametrize("to", NAMES)
@pytest.mark.parametrize("name", CASES)
def test_refused_before_any_output(name: str, to: str, tmp_path: Path) -> None:
    text, reason = CASES[name]
    refused(to, text, reason.replace("TOSA", NAMES[to]), tmp_path)


def refused(to: str, text: str, reason: str, tmp_path: Path) -> None:
    source, out = tmp_path / "m.mlir", tmp_path / "t.mlir"
    source.write_text(text)
    result = call(qopt_translate, f"--export-{to}", str(source), "-o", str(out))
    assert result.code == 1 and reason in result.err, result.err
    assert "Traceback" not in result.err and str(source) in result.err
    assert not out.exists() and result.out == ""


@pytest.mark.parametrize("name", ["kept node", "dynamic shape"])
def test_refused_before_an_engine_is_started(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from qdialect.plugins.common import tools

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

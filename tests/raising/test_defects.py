"""What raising TOSA and StableHLO ends in: valid IR is raised or stays, invalid IR is refused, and
an exception of ours is a crash."""

from __future__ import annotations

import importlib
import tempfile
from operator import itemgetter
from pathlib import Path

import pytest

from qdialect.cli.translate import main
from qdialect.ir.context import new_context
from qdialect.plugins.mlir.read import read_module, verify_module
from qdialect.workflows.model import Model, raised

QUANTIZED = "tensor<2x!quant.uniform<i8:f32, 0.1>>"
ZERO = '"tosa.const"() <{values = dense<0> : tensor<1x%s>}> : () -> tensor<1x%s>'
STAY = {
    "no-rank-transpose": (
        "tensor<*xi8>",
        '"tosa.transpose"(%x) <{perms = array<i32: 1, 0>}> : (tensor<*xi8>) -> tensor<2x3xi8>',
        "tensor<2x3xi8>",
    ),
    "no-rank-reduce": (
        "tensor<*xf32>",
        '"tosa.reduce_sum"(%x) <{axis = 1 : i32}> : (tensor<*xf32>) -> tensor<2x1xf32>',
        "tensor<2x1xf32>",
    ),
    "no-rank-result": (
        "tensor<2x3xf32>",
        '"tosa.exp"(%x) : (tensor<2x3xf32>) -> tensor<*xf32>',
        "tensor<*xf32>",
    ),
    "48-bits": (
        "tensor<2xi48>",
        f"{ZERO % ('i48', 'i48')}\n  %b = {ZERO % ('i32', 'i32')}\n"
        '  %m = "tosa.const"() <{values = dense<20000> : tensor<1xi16>}> : () -> tensor<1xi16>\n'
        '  %k = "tosa.const"() <{values = dense<20> : tensor<1xi8>}> : () -> tensor<1xi8>\n'
        '  %r = "tosa.rescale"(%x, %m, %k, %0, %b) <{input_unsigned = false, '
        "output_unsigned = false, per_channel = false, "
        "rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = false}> : "
        "(tensor<2xi48>, tensor<1xi16>, tensor<1xi8>, tensor<1xi48>, tensor<1xi32>) -> "
        "tensor<2xi32>",
        "tensor<2xi32>",
    ),
}


def imported(text: str, dialect: str) -> set[str]:
    ctx = new_context()
    module = read_module(text, ctx)
    verify_module(module, ctx)
    model = raised(Model(module, ctx), dialect)
    verify_module(model.module, model.ctx)
    return {op.name for op in model.module.walk()}


@pytest.mark.parametrize("name", STAY)
def test_an_op_without_counterpart_stays(name: str) -> None:
    given, text, result = STAY[name]
    value = "%r" if "%r" in text else "%0"
    function = f"func.func @f(%x: {given}) -> {result} {{\n  %0 = {text}\n"
    found = imported(f"{function}  return {value} : {result}\n}}", "tosa")
    assert any(op.startswith("tosa.") and op != "tosa.const" for op in found)


def test_an_op_that_is_on_floats_only_is_computed_in_floats() -> None:
    text = f'"stablehlo.rsqrt"(%x) : ({QUANTIZED}) -> {QUANTIZED}'
    function = f"func.func @f(%x: {QUANTIZED}) -> {QUANTIZED} {{\n  %0 = {text}\n"
    ctx = new_context()
    module = read_module(f"{function}  return %0 : {QUANTIZED}\n}}", ctx)
    found = {op.name for op in raised(Model(module, ctx), "stablehlo").module.walk()}
    assert {"quant.dcast", "nn.sqrt", "nn.reciprocal", "quant.qcast"} <= found


@pytest.mark.parametrize(
    ("dialect", "op"), [("tosa", "tosa.exp"), ("stablehlo", "stablehlo.exponential")]
)
def test_an_exception_is_a_crash(
    dialect: str,
    op: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    # A function without a frame of its own: nobody takes it for one of a plug-in.
    handler = itemgetter(0)
    home = importlib.import_module(f"qdialect.plugins.{dialect}.raising.convert")
    monkeypatch.setattr(home, "handlers", lambda: {op: handler, op.partition(".")[2]: handler})
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    path, kind = tmp_path / "f.mlir", "tensor<2xf32>"
    path.write_text(
        f'func.func @f(%x: {kind}) -> {kind} {{\n  %0 = "{op}"(%x) : ({kind}) -> {kind}\n'
        f"  return %0 : {kind}\n}}\n"
    )
    assert main([f"--import-{dialect}", str(path)]) == 70
    assert (
        f"pass 'raise-{dialect}' crashed: TypeError: itemgetter expected" in capsys.readouterr().err
    )
    (report,) = tmp_path.glob("qdialect-crash-*")
    assert "TypeError: itemgetter expected" in report.read_text()


@pytest.mark.parametrize(
    ("dialect", "op"),
    [
        ("tosa", '"tosa.reverse"(%x) <{axis = 1 : i32}>'),
        ("stablehlo", '"stablehlo.reverse"(%x) <{dimensions = array<i64: 1>}>'),
    ],
)
def test_invalid_ir_is_refused(
    dialect: str, op: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, kind = tmp_path / "f.mlir", "tensor<2xf32>"
    path.write_text(
        f"func.func @f(%x: {kind}) -> {kind} {{\n  %0 = {op} : ({kind}) -> {kind}\n"
        f"  return %0 : {kind}\n}}\n"
    )
    assert main([f"--import-{dialect}", str(path)]) == 1
    shown = capsys.readouterr()
    assert "must be of 1 dimensions, from 0, but is [1]" in shown.err and not shown.out

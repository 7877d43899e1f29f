"""What `preflight` says of mlir-opt 22, held against mlir-opt 22."""

from __future__ import annotations

import subprocess

import pytest
from quant_support import find_mlir_opt

from qdialect.ir.context import new_context
from qdialect.plugins.mlir.passes.preflight import Preflight
from qdialect.plugins.mlir.read import read_module
from qdialect.plugins.mlir.write import module_text

Q = "!quant.uniform<i8:f32, 0.5>"
WIDE = "!quant.uniform<i32:f32, 0.5>"


def declared(type: str) -> str:
    return f"func.func private @f({type})"


def pair(first: str, second: str, types: tuple[str, str, str]) -> str:
    a, b, c = types
    return (
        f"func.func @f(%x: {a}) -> {c} {{\n"
        f"  %0 = quant.{first} %x : {a} to {b}\n"
        f"  %1 = quant.{second} %0 : {b} to {c}\n"
        f"  return %1 : {c}\n}}"
    )


CHANGED = {
    "dcast-of-qcast": (pair("qcast", "dcast", ("f32", Q, "f32")), "-canonicalize"),
    "qcast-of-dcast": (pair("dcast", "qcast", (WIDE, "f32", WIDE)), "-canonicalize"),
    "signed-keyword": (declared("!quant.any<si8>"), ""),
    "wide-blocks": (
        declared("tensor<4x!quant.uniform<i8:f32:{0:2}, {1.0, 2.0}>>"),
        "-normalize-quant-types",
    ),
}
REJECTED = {
    "rescale": (f"func.func @f(%x: {Q}) {{\n  quant.rescale %x : {Q} to {Q}\n  return\n}}", ""),
    "foreign-dialect": (
        "func.func @f(%x: tensor<2xf32>) {\n  nn.relu %x : (tensor<2xf32>) -> tensor<2xf32>\n"
        "  return\n}",
        "",
    ),
    "block-zero-point": (declared("!quant.uniform<i8:f32:{0:1}, {1.0:-1}>"), ""),
    "quantile": (
        declared("!quant.uniform<!quant.quantile<ui1:f16, {-1.0, 1.0}>:f32, 1.0>"),
        "",
    ),
    "float-storage": (declared("!quant.uniform<f8E5M2:f32, 1.0>"), ""),
    "wide-expressed": (declared("!quant.uniform<i8:f80, 1.0>"), ""),
    "block-argument": (
        f"func.func @f(%x: {Q}) {{\n  cf.br ^bb1(%x : {Q})\n^bb1(%y: {Q}):\n  return\n}}",
        "-strip-func-quant-types",
    ),
    "calibrated-signature": (
        "func.func @f(%x: !quant.calibrated<f32<0.0:1.0>>) {\n  return\n}",
        "-strip-func-quant-types",
    ),
    "cast-without-parameters": (
        "func.func @f(%x: f32) {\n  %0 = quant.qcast %x : f32 to !quant.any<i8:f32>\n  return\n}",
        "-lower-quant-ops",
    ),
}


def found(text: str) -> tuple[set[str], str]:
    """The codes preflight notes for mlir-opt 22, and the module in generic form."""
    ctx = new_context()
    module = read_module(text, ctx)
    Preflight("mlir-opt-22").apply(ctx, module)
    codes = {remark.code for remark in ctx.remarks.remarks}
    return codes, module_text(module, ctx, generic=True, keep_names=False)


def mlir_opt(text: str, *options: str) -> subprocess.CompletedProcess[str]:
    tool = find_mlir_opt()
    if tool is None:
        pytest.skip("no mlir-opt 22: set QDIALECT_MLIR_OPT, or install qdialect[mlir]")
    command = [tool, "--mlir-print-op-generic", *filter(None, options)]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("code", CHANGED)
def test_what_is_changed(code: str):
    text, option = CHANGED[code]
    codes, generic = found(text)
    assert code in codes
    done = mlir_opt(text if code == "signed-keyword" else generic, option)
    assert done.returncode == 0, done.stderr
    assert ("si8" not in done.stdout) if code == "signed-keyword" else (done.stdout != generic)


@pytest.mark.parametrize("code", REJECTED)
def test_what_is_rejected(code: str):
    text, option = REJECTED[code]
    codes, generic = found(text)
    assert code in codes
    assert mlir_opt(generic, option).returncode != 0


def test_nothing_is_said_of_what_passes():
    text = (
        f"func.func @f(%x: tensor<2x{Q}>) -> tensor<2xf32> {{\n"
        f"  %0 = quant.dcast %x : tensor<2x{Q}> to tensor<2xf32>\n"
        "  return %0 : tensor<2xf32>\n}"
    )
    codes, generic = found(text)
    assert codes == set()
    assert mlir_opt(generic, "-canonicalize", "-strip-func-quant-types").returncode == 0

"""Modules that mlir-opt reads come back as they were: random ones, and what random ones lack."""

# pyright: basic
from __future__ import annotations

import subprocess

import pytest

from qdialect.ir.context import new_context
from qdialect.plugins.mlir.read import parse_text
from qdialect.plugins.mlir.write import module_text
from tests.generators.generic_modules import GenericModules
from tests.quant.quant_support import find_mlir_opt

SPLIT = "\n// -----\n"

TEXTS = {
    "empty": "",
    "a comment": "// nothing\n",
    "an empty module": "module @m attributes {a.b} {\n}\n",
    "ops without a module": '"foo.a"() : () -> ()\n"foo.b"() : () -> ()\n',
    "aliases inside of what nobody knows": (
        "#a = affine_map<(d0) -> (d0)>\n!t = tensor<2xf32>\n"
        '"foo.x"() {a = #foo.bar<#a>, b = #sparse_tensor.encoding<{map = (d0) -> (d0 : dense)}>}'
        " : () -> !t\n"
    ),
    "locations that stand below": (
        "func.func @f(%a: i32) -> i32 {\n  return %a : i32 loc(#loc)\n}\n"
        '#loc = loc(fused<{at = loc("a")}>["b", "f":1:2 to 3:4])\n'
    ),
    "resources": (
        '"foo.x"() {a = dense_resource<b1> : tensor<1xi32>} : () -> ()\n'
        '{-#\n  dialect_resources: {builtin: {b1: "0x0400000001000000"}},\n'
        '  external_resources: {ext: {a: true, b: "text"}}\n#-}\n'
    ),
    "results that are functions": (
        'func.func @f() -> (() -> ()) {\n  %0 = "foo.c"() : () -> (() -> ())\n'
        "  return %0 : () -> ()\n}\n"
    ),
    "NaNs with bits": (
        '"foo.x"() {a = 0x7FA1E540 : f32, b = 0x7E52 : f16, c = dense<[0x7F800001, 1.0]> : '
        "tensor<2xf32>, d = array<f32: 0x7FA1E540>, e = 0x7F81 : bf16} : () -> ()\n"
    ),
    "packed bits": '"foo.x"() {a = dense<"0x05"> : tensor<7xi1>} : () -> ()\n',
    "distinct": '"foo.x"() {a = [distinct[0]<1 : i32>, distinct[1]<1 : i32>]} : () -> ()\n',
    "affine maps": (
        '"foo.x"() {a = affine_map<(d0, d1)[s0] -> (d0 * s0, -(d0 - d1), d1 ceildiv s0)>}'
        " : () -> ()\n"
    ),
    "ops of other dialects of upstream": (
        '%0 = "llvm.mlir.constant"() <{value = 1 : i32}> : () -> i32\n'
        '%1 = "gpu.wait"() : () -> !gpu.async.token\n'
    ),
}


def _mlir_opt(texts: list[str]) -> list[str]:
    command = find_mlir_opt()
    if command is None:
        pytest.skip("no mlir-opt")
    flags = ("--allow-unregistered-dialect", "--split-input-file", "--mlir-print-op-generic")
    done = subprocess.run(
        [command, "-", *flags, "--mlir-print-debuginfo"],
        input=SPLIT.join(texts),
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.split("// -----\n")


def _ours(text: str, *, generic: bool) -> str:
    ctx = new_context(allow_unregistered=True)
    module = parse_text(text, ctx).module
    return module_text(module, ctx, generic=generic, debuginfo=True, keep_names=False)


@pytest.mark.parametrize("generic", [True, False])
def test_random_modules_come_back(generic: bool) -> None:
    texts = _mlir_opt([GenericModules(seed).module() for seed in range(40)])
    assert _mlir_opt([_ours(text, generic=generic) for text in texts]) == texts


@pytest.mark.parametrize("generic", [True, False])
def test_what_random_modules_lack(generic: bool) -> None:
    expected = _mlir_opt(list(TEXTS.values()))
    for text, there in zip(TEXTS.values(), expected, strict=True):
        again = _mlir_opt([_ours(there, generic=generic)])[0]
        assert again == there, text
        written = _ours(text, generic=generic)
        assert parse_text(written, new_context(allow_unregistered=True)).module

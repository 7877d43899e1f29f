"""Known bugs of the engines, each with a minimal reproducer, run on those installed.

    python -m tools.docs engine-bugs            # what is present here
    python -m tools.docs engine-bugs --write    # docs/reference/engine-bugs.md, from the table

`present` shows as it was found, `fixed` no longer: the way around it can go. tests/lowerings
runs the table, so that a fixed engine is noticed.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from qdialect.plugins.common import tools

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "engine-bugs.md"
_LLVM_CPU = (
    "--iree-hal-target-device=local",
    "--iree-hal-local-target-device-backends=llvm-cpu",
    "--iree-llvmcpu-target-cpu=generic",
)
_VMVX = (*_LLVM_CPU[:1], "--iree-hal-local-target-device-backends=vmvx")


@dataclass(frozen=True)
class Bug:
    """`commands` run on m.mlir, the first word one of `environment`; `present` and `fixed`
    are what their output matches. `around` says what we do about it."""

    name: str
    environment: str
    what: str
    around: str
    commands: Sequence[Sequence[str]]
    present: str
    fixed: str
    text: str


def _iree(flags: Sequence[str], *inputs: str) -> list[list[str]]:
    call = ["--module=m.vmfb", "--function=main", *(f"--input={x}" for x in inputs)]
    return [
        ["iree-compile", "m.mlir", *flags, "-o", "m.vmfb"],
        ["iree-run-module", "--device=local-task", *call],
    ]


def _function(source: str, result: str, body: str) -> str:
    return (
        '"builtin.module"() ({\n'
        f'  "func.func"() <{{function_type = ({source}) -> {result}, sym_name = "main"}}> ({{\n'
        f"  ^bb0(%x: {source}):\n{body}"
        f'    "func.return"(%y) : ({result}) -> ()\n  }}) : () -> ()\n}}) : () -> ()\n'
    )


_CLAMP = _function(
    "tensor<4xi32>",
    "tensor<4xi8>",
    """\
    %0 = "tosa.cast"(%x) : (tensor<4xi32>) -> tensor<4xi8>
    %y = "tosa.clamp"(%0) <{min_val = 3 : i8, max_val = 127 : i8, \
nan_mode = #tosa.nan_mode<PROPAGATE>}> : (tensor<4xi8>) -> tensor<4xi8>
""",
)
_I4 = _function(
    "tensor<1x1x2x2xi8>",
    "tensor<1x1x2x2xi32>",
    """\
    %w = "tosa.const"() <{values = dense<[[[[1, -2]]], [[[3, -8]]]]> : tensor<2x1x1x2xi4>}> \
: () -> tensor<2x1x1x2xi4>
    %b = "tosa.const"() <{values = dense<0> : tensor<2xi32>}> : () -> tensor<2xi32>
    %p = "tosa.const"() <{values = dense<0> : tensor<1xi8>}> : () -> tensor<1xi8>
    %q = "tosa.const"() <{values = dense<0> : tensor<1xi4>}> : () -> tensor<1xi4>
    %y = "tosa.conv2d"(%x, %w, %b, %p, %q) <{acc_type = i32, dilation = array<i64: 1, 1>, \
pad = array<i64: 0, 0, 0, 0>, stride = array<i64: 1, 1>}> : (tensor<1x1x2x2xi8>, \
tensor<2x1x1x2xi4>, tensor<2xi32>, tensor<1xi8>, tensor<1xi4>) -> tensor<1x1x2x2xi32>
""",
)
_BUFFERS = (
    "builtin.module(one-shot-bufferize{bufferize-function-boundaries=true},"
    "expand-strided-metadata,convert-to-llvm,reconcile-unrealized-casts)"
)
_I4_MEMORY = """\
func.func @f(%i: index) -> i32 {
  %w = arith.constant dense<[1, -2]> : tensor<2xi4>
  %v = tensor.extract %w[%i] : tensor<2xi4>
  %y = arith.extsi %v : i4 to i32
  return %y : i32
}
func.func @main() -> i32 {
  %i = arith.constant 1 : index
  %y = call @f(%i) : (index) -> i32
  return %y : i32
}
"""
_I1 = """\
func.func @main(%m: memref<4xi1>, %v: i1, %i: index) {
  memref.store %v, %m[%i] : memref<4xi1>
  return
}
"""
_I64 = _function(
    "tensor<4xi32>",
    "tensor<4xi64>",
    """\
    %m = "tosa.const"() <{values = dense<1073741824> : tensor<1xi32>}> : () -> tensor<1xi32>
    %s = "tosa.const"() <{values = dense<30> : tensor<1xi8>}> : () -> tensor<1xi8>
    %z = "tosa.const"() <{values = dense<0> : tensor<1xi32>}> : () -> tensor<1xi32>
    %o = "tosa.const"() <{values = dense<0> : tensor<1xi64>}> : () -> tensor<1xi64>
    %y = "tosa.rescale"(%x, %m, %s, %z, %o) <{input_unsigned = false, output_unsigned = false, \
per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : \
(tensor<4xi32>, tensor<1xi32>, tensor<1xi8>, tensor<1xi32>, tensor<1xi64>) -> tensor<4xi64>
""",
)
_CASTS = """\
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %q = quant.qcast %x : tensor<4xf32> to tensor<4x!quant.uniform<i8:f32, 1.0>>
  %d = quant.dcast %q : tensor<4x!quant.uniform<i8:f32, 1.0>> to tensor<4xf32>
  return %d : tensor<4xf32>
}
"""
_QUANTIZE = """\
func.func @main(%x: tensor<4xf32>) -> tensor<4x!quant.uniform<i8:f32, 1.0>> {
  %q = quant.qcast %x : tensor<4xf32> to tensor<4x!quant.uniform<i8:f32, 1.0>>
  return %q : tensor<4x!quant.uniform<i8:f32, 1.0>>
}
"""
_U8 = """\
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %q = stablehlo.uniform_quantize %x : (tensor<4xf32>) -> tensor<4x!quant.uniform<u8:f32, 1.0>>
  %d = stablehlo.uniform_dequantize %q : (tensor<4x!quant.uniform<u8:f32, 1.0>>) -> tensor<4xf32>
  return %d : tensor<4xf32>
}
"""
_DOT = """\
!c = !quant.uniform<i8:f32, 1.0>
!s = !quant.uniform<i8:f32, 1.0>
func.func @main(%x: tensor<1x2xf32>, %w: tensor<2x1xf32>) -> tensor<1x1xf32> {
  %q = stablehlo.uniform_quantize %x : (tensor<1x2xf32>) -> tensor<1x2x!c>
  %v = stablehlo.uniform_quantize %w : (tensor<2x1xf32>) -> tensor<2x1x!c>
  %y = stablehlo.dot_general %q, %v, contracting_dims = [1] x [0]
    : (tensor<1x2x!c>, tensor<2x1x!c>) -> tensor<1x1x!s>
  %d = stablehlo.uniform_dequantize %y : (tensor<1x1x!s>) -> tensor<1x1xf32>
  return %d : tensor<1x1xf32>
}
"""
_ADD = """\
!x = !quant.uniform<i8:f32, 1.0>
!y = !quant.uniform<i8:f32, 2.0>
func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %q = stablehlo.uniform_quantize %x : (tensor<2xf32>) -> tensor<2x!x>
  %y = stablehlo.add %q, %q : (tensor<2x!x>, tensor<2x!x>) -> tensor<2x!y>
  %d = stablehlo.uniform_dequantize %y : (tensor<2x!y>) -> tensor<2xf32>
  return %d : tensor<2xf32>
}
"""
_AXIS = """\
!x = !quant.uniform<i8:f32, 1.0:3>
!w = !quant.uniform<i8:f32:0, {1.0, 2.0}>
!y = !quant.uniform<i32:f32:1, {1.0, 2.0}>
func.func @main(%x: tensor<1x1x2x2xf32>) -> tensor<1x2x1x1xf32> {
  %q = stablehlo.uniform_quantize %x : (tensor<1x1x2x2xf32>) -> tensor<1x1x2x2x!x>
  %w = stablehlo.constant() {value = dense<1> : tensor<2x1x2x2xi8>} : () -> tensor<2x1x2x2x!w>
  %y = stablehlo.convolution(%q, %w) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1],
    window = {} {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
    : (tensor<1x1x2x2x!x>, tensor<2x1x2x2x!w>) -> tensor<1x2x1x1x!y>
  %d = stablehlo.uniform_dequantize %y : (tensor<1x2x1x1x!y>) -> tensor<1x2x1x1xf32>
  return %d : tensor<1x2x1x1xf32>
}
"""
_DEPTHWISE = """\
func.func @main(%x: tensor<1x4x4x8xi8>) -> tensor<1x4x4x8xi32> {
  %w = stablehlo.constant dense<[[[[1, 2, 3, 4, 5, 6, 7, 8]]]]> : tensor<1x1x1x8xi8>
  %y = stablehlo.convolution(%x, %w) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f],
    window = {} {batch_group_count = 1 : i64, feature_group_count = 8 : i64}
    : (tensor<1x4x4x8xi8>, tensor<1x1x1x8xi8>) -> tensor<1x4x4x8xi32>
  return %y : tensor<1x4x4x8xi32>
}
"""
_REDUCE = """\
!x = !quant.uniform<i8:f32, 1.0>
func.func @main(%x: tensor<4xf32>) -> tensor<f32> {
  %q = stablehlo.uniform_quantize %x : (tensor<4xf32>) -> tensor<4x!x>
  %c = stablehlo.constant() {value = dense<-128> : tensor<i8>} : () -> tensor<!x>
  %m = stablehlo.reduce(%q init: %c) applies stablehlo.maximum across dimensions = [0]
    : (tensor<4x!x>, tensor<!x>) -> tensor<!x>
  %d = stablehlo.uniform_dequantize %m : (tensor<!x>) -> tensor<f32>
  return %d : tensor<f32>
}
"""

BUGS = (
    Bug(
        "vmvx-clamp",
        "iree",
        "VMVX: i8 made by a cast or rescale is not sign-extended before a clamp: -75 clamped to "
        "[3, 127] stays -75",
        "we run llvm-cpu",
        _iree(_VMVX, "4xi32=-75,0,50,127"),
        "4xi8=-75 3 50 127",
        "4xi8=3 3 50 127",
        _CLAMP,
    ),
    Bug(
        "iree-i4-constant",
        "iree",
        "llvm-cpu does not compile small i4 constants",
        "weights of less than 8 bits are stored as i8",
        _iree(_LLVM_CPU, "1x1x2x2xi8=0,1,2,3"),
        "failed to legalize operation 'memref.get_global'",
        r"1x1x2x2xi32=",
        _I4,
    ),
    Bug(
        "stablehlo-u8",
        "iree",
        "StableHLO: quantizing to u8 saturates at 127",
        "u8 is refused there",
        _iree((*_LLVM_CPU, "--iree-input-type=stablehlo"), "4xf32=0,100,200,300"),
        "4xf32=0 100 127 127",
        "4xf32=0 100 200 255",
        _U8,
    ),
    Bug(
        "stablehlo-dot",
        "iree",
        "StableHLO: the i8 result of a dot wraps in place of saturating: 10 * 5 + 20 * 10 is -6",
        "dot and convolution there have i32 results",
        _iree((*_LLVM_CPU, "--iree-input-type=stablehlo"), "1x2xf32=10,20", "2x1xf32=5,10"),
        r"1x1xf32=\[-6\]",
        r"1x1xf32=\[127\]",
        _DOT,
    ),
    Bug(
        "stablehlo-add",
        "iree",
        "StableHLO: add rounds both terms to the scale of the sum, and not the sum: 1 + 1 is 0 "
        "where codes are 2 apart",
        "nothing: the specification says what it means",
        _iree((*_LLVM_CPU, "--iree-input-type=stablehlo"), "2xf32=1,3"),
        "2xf32=0 8",
        "2xf32=2 6",
        _ADD,
    ),
    Bug(
        "stablehlo-axis",
        "iree",
        "StableHLO: a convolution whose weights have scales along a dimension that is not the "
        "last does not compile",
        "channels come last in weights and results",
        _iree((*_LLVM_CPU, "--iree-input-type=stablehlo"), "1x1x2x2xf32=1,2,3,4"),
        "failed to legalize operation 'chlo.broadcast_subtract'",
        "1x2x1x1xf32=",
        _AXIS,
    ),
    Bug(
        "stablehlo-depthwise",
        "iree",
        "StableHLO: a depthwise convolution of i8 into i32, channels last, reads its constant "
        "weights as i32: past their end, or a crash",
        "where each channel is a group, channels come second in the input",
        _iree((*_LLVM_CPU, "--iree-input-type=stablehlo"), "1x4x4x8xi8=1"),
        r"\A(?!.*\[1 2 3 4 5 6 7 8\])",
        r"\[1 2 3 4 5 6 7 8\]",
        _DEPTHWISE,
    ),
    Bug(
        "stablehlo-reduce",
        "iree",
        "StableHLO: reduce of quantized numbers does not compile",
        "reductions are windows (reduce_window)",
        _iree((*_LLVM_CPU, "--iree-input-type=stablehlo"), "4xf32=1,2,3,4"),
        "failed to legalize operation 'stablehlo.reduce'",
        "f32=4",
        _REDUCE,
    ),
    Bug(
        "mlir-i1-store",
        "mlir",
        "convert-memref-to-llvm asserts on a store of i1",
        "results of comparisons are widened to i8 before they are stored",
        [["mlir-opt", "m.mlir", "--finalize-memref-to-llvm"]],
        "StoreOpLowering",
        "llvm.store",
        _I1,
    ),
    Bug(
        "mlir-i4-memory",
        "mlir",
        "constants of i4 are read from memory as other numbers: the second of [1, -2] is not -2",
        "weights of less than 8 bits are stored as i8",
        [
            ["mlir-opt", "m.mlir", f"--pass-pipeline={_BUFFERS}", "-o", "l.mlir"],
            ["mlir-runner", "l.mlir", "-e", "main", "-entry-point-result=i32"],
        ],
        r"\A(?!-2$)-?\d+$",
        r"\A-2$",
        _I4_MEMORY,
    ),
    Bug(
        "mlir-rescale-i64",
        "mlir",
        "tosa-to-linalg asserts on a rescale to 64 bits (llvm #224020)",
        "no rescale of ours has a result of 64 bits",
        [["mlir-opt", "m.mlir", "--pass-pipeline=builtin.module(func.func(tosa-to-linalg))"]],
        "Unexpected output zeropoint bitwidth",
        "linalg.generic|cannot|failed to legalize",
        _I64,
    ),
    Bug(
        "mlir-cast-pair",
        "mlir",
        "--canonicalize makes dcast(qcast(x)) x: rounding and saturation are lost",
        "float networks are not given to mlir-opt with casts in them",
        [["mlir-opt", "m.mlir", "--canonicalize"]],
        r"\A(?!.*quant\.qcast)",
        "quant.qcast",
        _CASTS,
    ),
    Bug(
        "mlir-lower-quant-ops",
        "mlir",
        "--lower-quant-ops truncates and wraps: 200 becomes -56",
        "qcast is lowered by us, rounded to even and saturated",
        [["mlir-opt", "m.mlir", "--lower-quant-ops"]],
        r"\A(?!.*(roundeven|minimumf|minsi)).*fptosi",
        "roundeven|minimumf|minsi",
        _QUANTIZE,
    ),
)


def missing(bug: Bug) -> list[str]:
    """Commands that are not installed."""
    return [c[0] for c in bug.commands if not tools.find(c[0], bug.environment)]


def observe(bug: Bug) -> tuple[str, str]:
    """`present`, `fixed` or `unknown`, and what the commands said."""
    said = ""
    with tempfile.TemporaryDirectory(prefix="qdialect-bug-") as folder:
        (Path(folder) / "m.mlir").write_text(bug.text, encoding="utf-8")
        for name, *flags in bug.commands:
            command = [tools.command(name, bug.environment), *flags]
            done = subprocess.run(
                command, cwd=folder, capture_output=True, text=True, errors="replace", check=False
            )
            said += done.stdout + done.stderr
            if done.returncode:
                break
    if re.search(bug.present, said.strip(), re.S):
        return "present", said
    return ("fixed" if re.search(bug.fixed, said.strip(), re.S) else "unknown"), said


def page() -> str:
    """The table for people."""
    lines = [
        "# Known bugs of the engines",
        "",
        "Written by `python -m tools.docs engine-bugs --write`; without `--write` it runs the",
        "reproducers on the installed engines. Found with MLIR 22.1.8 and IREE 3.13. A test fails",
        "when one is fixed.",
        "",
        "| bug | engine | what | what we do |",
        "|---|---|---|---|",
        *(f"| `{b.name}` | {b.environment} | {b.what} | {b.around} |" for b in BUGS),
    ]
    for bug in BUGS:
        shown = "\n".join(" ".join(command) for command in bug.commands)
        lines += ["", f"## {bug.name}", "", "```mlir", bug.text.rstrip(), "```", ""]
        lines += ["```console", shown, "```"]
    return "\n".join(lines) + "\n"


def main() -> int:
    if "--write" in sys.argv[1:]:
        PAGE.write_text(page(), encoding="utf-8")
        return 0
    for bug in BUGS:
        absent = missing(bug)
        print(f"{bug.name:22} {f'needs {absent[0]}' if absent else observe(bug)[0]}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

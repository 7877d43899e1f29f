// RUN: qopt-opt %s -p sink-rescale,canonicalize | filecheck %s
// RUN: qopt-opt %s --pass-pipeline='builtin.module(func.func(sink-rescale{numerics=exact}),canonicalize)' | filecheck %s
// RUN: qopt-opt %s -p sink-rescale --mlir-print-ir-before-all --mlir-print-ir-after-all 2>&1 | filecheck %s --check-prefix=DUMP
// RUN: qopt-opt %s -p sink-rescale,dce --mlir-timing --mlir-pass-statistics 2>&1 | filecheck %s --check-prefix=TIMING
// RUN: not qopt-opt %s -p sink-rescal 2>&1 | filecheck %s --check-prefix=WRONG
// RUN: not qopt-opt %s -p 'sink-rescale{' 2>&1 | filecheck %s --check-prefix=OPEN
// RUN: qopt-opt %s -p sink-rescale --remarks --verify-numerics=2 2>&1 | filecheck %s --check-prefix=REMARK

// DUMP: IR Dump Before sink-rescale
// DUMP: IR Dump After sink-rescale
// TIMING: Pass statistics report
// TIMING: 'sink-rescale' Pass
// TIMING: Execution time report
// TIMING: 'sink-rescale' Pass
// WRONG: Parser:1:1: error: 'sink-rescal' does not refer to a registered pass or pass pipeline; did you mean 'sink-rescale'?
// OPEN: MLIR Textual PassPipeline Parser:1:13: error: missing closing '}' while processing pass options
// REMARK: pipelines.mlir:27:8: remark: 'nn.relu' sink-through-tied fired, exact

!a = !quant.uniform<i8:f32, 0.5:3>
!b = !quant.uniform<i8:f32, 0.25>

func.func @main(%x: tensor<2x!a>) -> tensor<2x!b> {
  %0 = quant.rescale %x : tensor<2x!a> to tensor<2x!b>
  // CHECK: nn.relu
  // CHECK-NEXT: quant.rescale
  // A comment.
  %1 = nn.relu %0 : (tensor<2x!b>) -> tensor<2x!b>
  return %1 : tensor<2x!b>
}

// RUN: qopt-opt %s --run-reproducer | filecheck %s
// RUN: not qopt-opt %S/roundtrip.mlir --run-reproducer 2>&1 | filecheck %s --check-prefix=NONE

// NONE: error: not a reproducer

// CHECK: func.func @f
// CHECK-NEXT: return
func.func @f(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = nn.relu %x : (tensor<2xf32>) -> tensor<2xf32>
  return %x : tensor<2xf32>
}

{-#
  external_resources: {
    mlir_reproducer: {
      pipeline: "builtin.module(func.func(dce))",
      disable_threading: true,
      verify_each: true
    }
  }
#-}

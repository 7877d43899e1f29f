// RUN: qopt-opt %s | filecheck %s
// RUN: qopt-opt %s --mlir-print-op-generic | qopt-opt | filecheck %s

// CHECK: arith.constant dense<[0x7F800000, 1.000000e+00, -0.000000e+00]> : tensor<3xf32>
%0 = arith.constant dense<[0x7F800000, 0x3F800000, 0x80000000]> : tensor<3xf32>
// CHECK: arith.constant dense<1.000000e+00> : tensor<2xf16>
%1 = arith.constant dense<0x3C00> : tensor<2xf16>
// CHECK: arith.constant 5 : i32
%2 = arith.constant 5 : i32
// CHECK: arith.trunci %{{.*}} overflow<nsw> : i32 to i8
%3 = arith.trunci %2 overflow<nsw> : i32 to i8
// CHECK: arith.trunci %{{.*}} : i32 to i8
%4 = "arith.trunci"(%2) <{overflowFlags = #arith.overflow<none>}> : (i32) -> i8
// CHECK: arith.constant dense_resource<w0> : tensor<2xf32>
%5 = arith.constant dense_resource<w0> : tensor<2xf32>

// CHECK: w0: "0x040000000000803F00000040"
{-#
  dialect_resources: {
    builtin: {
      w0: "0x040000000000803F00000040"
    }
  }
#-}

// RUN: rm -rf %t && mkdir %t
// RUN: qopt-opt %s -o %t/a.mlir
// RUN: filecheck %s --check-prefix=BESIDE < %t/a.mlir
// RUN: qopt-opt %t/a.mlir --inline-weights | filecheck %s
// RUN: qopt-opt %t/a.mlir --inline-weights -o %t/b.mlir && qopt diff %t/a.mlir %t/b.mlir --samples=1
// RUN: not qopt-opt %t/missing.mlir -o %t/c.mlir 2>&1 | filecheck %s --check-prefix=MISSING
// RUN: not test -e %t/c.mlir

// MISSING: missing.mlir: error: cannot open input file

// The constant below is small, so it is written into the text either way.
// BESIDE: dense<[1.000000e+00, 2.000000e+00]>
// CHECK: dense<[1.000000e+00, 2.000000e+00]>
func.func @main() -> tensor<2xf32> {
  %0 = nn.constant dense<[1.0, 2.0]> : tensor<2xf32> : tensor<2xf32>
  return %0 : tensor<2xf32>
}

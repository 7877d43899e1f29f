// RUN: not qopt-opt %s --split-input-file 2>&1 | filecheck %s
//
// There: on request, a scale smaller than the smallest f16 becomes a splat of 0
// Here: a scale that is no positive number of the expressed type is an error of the input, so
//   there is nothing to rewrite; a small one that is a number keeps its meaning

// CHECK: T25-zero-scale.mlir:8:{{.*}} error: {{.*}}scale
func.func @zero(%x: tensor<4x!quant.uniform<i8:f32, 0.0:0>>) {
  return
}

// -----

// CHECK: T25-zero-scale.mlir:15:{{.*}} error: {{.*}}scale
func.func @too_small_for_half(%x: tensor<4x!quant.uniform<i8:f16, 1.0e-9:0>>) {
  return
}

// -----

// CHECK: func.func @small(
func.func @small(%x: tensor<4x!quant.uniform<i8:f32, 1.0e-9:0>>) {
  return
}

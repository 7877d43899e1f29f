// RUN: qopt-opt %s | filecheck %s
// RUN: qopt-opt %s --mlir-print-op-generic | qopt-opt | filecheck %s

!i8 = !quant.uniform<i8:f32, 0.5:3>
!u8 = !quant.uniform<u8:f32, 0.5:131>
!acc = !quant.uniform<i32:f32:1, {0.25, 0.125}>

// CHECK-LABEL: func.func @casts
func.func @casts(%x: tensor<?x4xf32>) -> (tensor<?x4xf32>, tensor<?x4xi8>) {
  // CHECK: [[Q:%.+]] = quant.qcast %{{.+}} : tensor<?x4xf32> to tensor<?x4x!quant.uniform<i8:f32, 5.000000e-01:3>>
  %q = quant.qcast %x : tensor<?x4xf32> to tensor<?x4x!i8>
  // CHECK: quant.dcast [[Q]] : tensor<?x4x!quant.uniform<i8:f32, 5.000000e-01:3>> to tensor<?x4xf32>
  %d = quant.dcast %q : tensor<?x4x!i8> to tensor<?x4xf32>
  // CHECK: quant.scast [[Q]] : tensor<?x4x!quant.uniform<i8:f32, 5.000000e-01:3>> to tensor<?x4xi8>
  %s = quant.scast %q : tensor<?x4x!i8> to tensor<?x4xi8>
  return %d, %s : tensor<?x4xf32>, tensor<?x4xi8>
}

// Rounding, which upstream leaves open, is a discardable attribute of a cast.
// CHECK-LABEL: func.func @rounding
func.func @rounding(%x: f32) -> !i8 {
  // CHECK: quant.qcast %{{.+}} {quant.rounding = "half_away"} : f32 to
  %q = quant.qcast %x {quant.rounding = "half_away"} : f32 to !i8
  return %q : !i8
}

// CHECK-LABEL: func.func @rescale
func.func @rescale(%x: tensor<3x2x!acc>) -> tensor<3x2x!u8> {
  // The real form takes the scales from the types and rounds ties to even.
  // CHECK: [[A:%.+]] = quant.rescale %{{.+}} : tensor<3x2x!quant.uniform<i32:f32:1, {2.500000e-01,1.250000e-01}>> to tensor<3x2x!quant.uniform<i8:f32, 5.000000e-01:3>>
  %a = quant.rescale %x rounding half_even : tensor<3x2x!acc> to tensor<3x2x!i8>
  // The fixed-point form is exact integer arithmetic.
  // CHECK: quant.rescale [[A]] rounding gemmlowp multiplier [1073741824] shift [30] : tensor<3x2x!quant.uniform<i8:f32, 5.000000e-01:3>> to tensor<3x2x!quant.uniform<u8:f32, 5.000000e-01:131>>
  %b = quant.rescale %a rounding gemmlowp multiplier [1073741824] shift [30] : tensor<3x2x!i8> to tensor<3x2x!u8>
  // One pair per scale.
  // CHECK: quant.rescale %{{.+}} multiplier [1, 1] shift [1, 2] {note} : tensor<3x2x!quant.uniform<i32:f32:1, {2.500000e-01,1.250000e-01}>>
  %c = quant.rescale %x multiplier [1, 1] shift [1, 2] {note} : tensor<3x2x!acc> to tensor<3x2x!i8>
  return %b : tensor<3x2x!u8>
}

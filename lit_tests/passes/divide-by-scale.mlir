// RUN: qopt-opt %s -p "divide-by-scale{numerics=bounded}" --remarks --verify-diagnostics | filecheck %s
// RUN: qopt-opt %s -p "divide-by-scale{numerics=bounded}" --verify-numerics=6 > %t
// RUN: qopt-opt %s -p "divide-by-scale{numerics=bounded}" > %t && qopt-opt %t -p "divide-by-scale{numerics=bounded}" > %t.2 && diff %t %t.2

// Quotients in place of products with rounded reciprocals.

!q = !quant.uniform<i8:f32, 0.1:3>
!x = tensor<2x4xf32>
!y = tensor<2x4x!q>
!half = !quant.uniform<i8:f32, 0.5:3>
!rows = !quant.uniform<i8:f32:0, {0.1, 0.3:2}>
!wide = !quant.uniform<i32:f32, 0.1>
!fine = !quant.uniform<i16:f32, 0.05>
!coarse = !quant.uniform<i8:f32, 0.7>

module attributes {quant.arithmetic = "expressed"} {

// Other attributes stay.
// CHECK-LABEL: func.func @cast(
// CHECK-NEXT: quant.qcast %{{.*}} {nn.key = "k"} : tensor<2x4xf32>
// CHECK-NEXT: return
func.func @cast(%x: !x) -> !y {
  // DOC-BEFORE
  // expected-remark@+1 {{reciprocal-to-quotient fired, ties}}
  %0 = quant.qcast %x {nn.key = "k", quant.rounding = "reciprocal"} : !x to !y
  // DOC-AFTER
  //   %0 = quant.qcast %x {nn.key = "k"} : !x to !y
  // DOC-END
  return %0 : !y
}

// A scale for each row, and every use.
// CHECK-LABEL: func.func @axis(
// CHECK-NEXT: %[[Q:.*]] = quant.qcast %{{.*}} : tensor<2x4xf32> to tensor<2x4x!quant.uniform<i8:f32:0,
// CHECK-NEXT: return %[[Q]], %[[Q]]
func.func @axis(%x: tensor<2x4xf32>) -> (tensor<2x4x!rows>, tensor<2x4x!rows>) {
  // expected-remark@+1 {{reciprocal-to-quotient fired, ties}}
  %0 = quant.qcast %x {quant.rounding = "reciprocal"} : tensor<2x4xf32> to tensor<2x4x!rows>
  return %0, %0 : tensor<2x4x!rows>, tensor<2x4x!rows>
}

// Far from zero, codes of 32 bits are many steps apart.
// CHECK-LABEL: func.func @wide(
// CHECK-NEXT: quant.qcast %{{[^{]*}} : tensor<4xf32>
func.func @wide(%x: tensor<4xf32>) -> tensor<4x!wide> {
  // expected-remark@+1 {{reciprocal-to-quotient fired, bounded(513)}}
  %0 = quant.qcast %x {quant.rounding = "reciprocal"} : tensor<4xf32> to tensor<4x!wide>
  return %0 : tensor<4x!wide>
}

// No code of so few is near a tie, but one of so many.
// CHECK-LABEL: func.func @rescales(
// CHECK-NEXT: quant.rescale %{{[^ ]*}} : tensor<4x!quant.uniform<i8
// CHECK-NEXT: quant.rescale %{{[^ ]*}} : tensor<4x!quant.uniform<i16
func.func @rescales(%x: tensor<4x!q>, %y: tensor<4x!fine>) -> (tensor<4x!coarse>, tensor<4x!coarse>) {
  // expected-remark@+1 {{reciprocal-to-quotient fired, exact}}
  %0 = quant.rescale %x rounding reciprocal : tensor<4x!q> to tensor<4x!coarse>
  // expected-remark@+1 {{reciprocal-to-quotient fired, ties}}
  %1 = quant.rescale %y rounding reciprocal : tensor<4x!fine> to tensor<4x!coarse>
  return %0, %1 : tensor<4x!coarse>, tensor<4x!coarse>
}

// CHECK-LABEL: func.func @add(
// CHECK-NEXT: nn.add %{{[^ ]*}}, %{{[^ ]*}} : (
// CHECK-NEXT: nn.add %{{[^ ]*}}, %{{[^ ]*}} : (
func.func @add(%x: tensor<4x!q>) -> (tensor<4x!coarse>, tensor<4x!half>) {
  // expected-remark@+1 {{reciprocal-to-quotient fired, ties}}
  %0 = nn.add %x, %x rounding reciprocal : (tensor<4x!q>, tensor<4x!q>) -> tensor<4x!coarse>
  // expected-remark@+1 {{reciprocal-to-quotient fired, exact}}
  %1 = nn.add %x, %x rounding reciprocal : (tensor<4x!q>, tensor<4x!q>) -> tensor<4x!half>
  return %0, %1 : tensor<4x!coarse>, tensor<4x!half>
}

// What rounds in another way stays.
// CHECK-LABEL: func.func @others(
// CHECK-NEXT: quant.qcast %{{.*}} {quant.rounding = "half_away"}
func.func @others(%x: tensor<4xf32>) -> tensor<4x!q> {
  %0 = quant.qcast %x {quant.rounding = "half_away"} : tensor<4xf32> to tensor<4x!q>
  return %0 : tensor<4x!q>
}

}

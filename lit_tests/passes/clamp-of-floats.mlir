// RUN: qopt-opt %s -p canonicalize --remarks --verify-diagnostics | filecheck %s

// In a module of floats a clip that lacks a bound clips infinities, too.

!q = tensor<2x4x!quant.uniform<i8:f32, 0.5:3>>
!f = tensor<2x4xf32>

module attributes {quant.arithmetic = "expressed"} {
// CHECK-LABEL: func.func @of_a_dequantized(
// CHECK: nn.clip {{.*}} min 1.5 :
func.func @of_a_dequantized(%x: !q) -> !f {
  %c = nn.constant dense<1.5> : tensor<1xf32> : tensor<1xf32>
  %0 = "quant.dcast"(%x) : (!q) -> !f
  // expected-remark@+1 {{clamp-by-constant fired, exact}}
  %1 = nn.maximum %0, %c : (!f, tensor<1xf32>) -> !f
  func.return %1 : !f
}

// CHECK-LABEL: func.func @of_an_input(
// CHECK: nn.maximum
func.func @of_an_input(%x: !f) -> !f {
  %c = nn.constant dense<1.5> : tensor<1xf32> : tensor<1xf32>
  // expected-remark@+1 {{clamp-by-constant refused [numerics]: would be ties (an infinity becomes the largest number)}}
  %0 = nn.maximum %x, %c : (!f, tensor<1xf32>) -> !f
  func.return %0 : !f
}

// CHECK-LABEL: func.func @of_an_exponential(
// CHECK: nn.minimum
func.func @of_an_exponential(%x: !q) -> !f {
  %c = nn.constant dense<1.5> : tensor<1xf32> : tensor<1xf32>
  %0 = "quant.dcast"(%x) : (!q) -> !f
  %1 = nn.exp %0 : (!f) -> !f
  // expected-remark@+1 {{clamp-by-constant refused [numerics]: would be ties (an infinity becomes the largest number)}}
  %2 = nn.minimum %1, %c : (!f, tensor<1xf32>) -> !f
  func.return %2 : !f
}
}

// RUN: qopt-opt %s -p "lower-division{numerics=ties}" --remarks --verify-diagnostics | filecheck %s
// RUN: qopt-opt %s -p "lower-division{numerics=ties}" > %t && qopt-opt %t -p "lower-division{numerics=ties}" > %t.2 && diff %t %t.2

// Divisions as products with the reciprocal.

!x = tensor<2x?xf32>
!y = tensor<2x1xf32>
!q = tensor<4x!quant.uniform<i8:f32, 0.5>>
!s = tensor<2x1x!quant.uniform<i8:f32:0, {0.5,0.25}>>

// CHECK-LABEL: func.func @dynamic(
// CHECK-SAME: [[X:%[a-z0-9_]+]]: tensor<2x?xf32>, [[Y:%[a-z0-9_]+]]: tensor<2x1xf32>
// CHECK-NEXT: [[R:%[a-z0-9_]+]] = nn.reciprocal [[Y]] : (tensor<2x1xf32>) -> tensor<2x1xf32>
// CHECK-NEXT: [[V:%[a-z0-9_]+]] = nn.mul [[X]], [[R]] {nn.key = "normalized"}
// CHECK-NEXT: return [[V]]
func.func @dynamic(%x: !x, %y: !y) -> !x {
  // DOC-BEFORE
  // expected-remark@+1 {{lower-division fired, ties}}
  %0 = nn.div %x, %y {nn.key = "normalized"} : (!x, !y) -> !x
  // DOC-AFTER
  //   %1 = nn.reciprocal %y : (!y) -> !y
  //   %0 = nn.mul %x, %1 {nn.key = "normalized"} : (!x, !y) -> !x
  // DOC-END
  func.return %0 : !x
}

// The quotient and the divisor are used twice; component qparams go along.
// CHECK-LABEL: func.func @multi_use(
// CHECK-NEXT: nn.reciprocal
// CHECK-NEXT: nn.mul {{.*}} {nn.qparams = {result = !quant.uniform<i8:f32, 5.000000e-01>}}
// CHECK-NEXT: return
func.func @multi_use(%x: !y, %y: !y) -> (!y, !y, !y) {
  // expected-remark@+1 {{lower-division fired}}
  %0 = nn.div %x, %y {nn.qparams = {result = !quant.uniform<i8:f32, 0.5>}} : (!y, !y) -> !y
  func.return %0, %0, %y : !y, !y, !y
}

// CHECK-LABEL: func.func @constant(
// CHECK: nn.div
func.func @constant(%x: !x) -> !x {
  %c = nn.constant dense<2.5> : tensor<f32> : tensor<f32>
  // expected-remark@+1 {{[constant]: division by a constant is part of a scale}}
  %0 = nn.div %x, %c : (!x, tensor<f32>) -> !x
  func.return %0 : !x
}

// CHECK-LABEL: func.func @codes(
// CHECK-NEXT: nn.div
func.func @codes(%x: !q, %y: !q) -> !q {
  // expected-remark@+1 {{[quantized]: on codes nothing says what the reciprocal is rounded to}}
  %0 = nn.div %x, %y : (!q, !q) -> !q
  func.return %0 : !q
}

// Codes that are dequantized first are floats; a constant of codes, with scales along a
// dimension, is a constant.
// CHECK-LABEL: func.func @per_axis(
// CHECK: nn.div
func.func @per_axis(%x: !x) -> !x {
  %c = nn.constant dense<[[2], [7]]> : tensor<2x1xi8> : !s
  %y = quant.dcast %c : !s to !y
  // expected-remark@+1 {{[constant]}}
  %0 = nn.div %x, %y : (!x, !y) -> !x
  func.return %0 : !x
}

// Codes divided by floats are codes still.
// CHECK-LABEL: func.func @codes_by_floats(
// CHECK-NEXT: nn.div
func.func @codes_by_floats(%x: tensor<4xf32>, %y: tensor<4x!quant.uniform<i8:f32, 0.5>>) -> tensor<4xf32> {
  // expected-remark@+1 {{[quantized]: on codes nothing says what the reciprocal is rounded to}}
  %0 = nn.div %x, %y : (tensor<4xf32>, tensor<4x!quant.uniform<i8:f32, 0.5>>) -> tensor<4xf32>
  func.return %0 : tensor<4xf32>
}

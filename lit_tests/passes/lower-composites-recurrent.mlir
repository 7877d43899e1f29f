// RUN: qopt-opt %s -p lower-composites{numerics=ties} --remarks --verify-diagnostics | filecheck %s

// Steps one after the other; the pieces of later steps have a number in their keys.

!x = tensor<2x3x4xf32>
!w = tensor<1x4x4xf32>
!r = tensor<1x4x1xf32>
!b = tensor<1x8xf32>
!y = tensor<2x1x3x1xf32>

// CHECK-LABEL: func.func @lstm(
// CHECK: nn.fully_connected {{.*}} {nn.key = "l/from_input"}
// CHECK: nn.fully_connected {{.*}} {nn.key = "l/from_hidden"}
// CHECK: nn.add {{.*}} {nn.key = "l/total"}
// CHECK: nn.add {{.*}} {nn.key = "l/biased"}
// CHECK: nn.sigmoid {{.*}} {nn.key = "l/gate_i"}
// CHECK: nn.mul {{.*}} {nn.key = "l/hidden"}
// CHECK: nn.fully_connected {{.*}} {nn.key = "l/from_input@1"}
// CHECK: nn.mul {{.*}} {nn.key = "l/hidden@1"}
// CHECK: nn.concat {{.*}} {nn.key = "l"}
func.func @lstm(%x: !x, %w: !w, %r: !r) -> !y {
  %b = nn.constant dense<1.0> : !b : !b
  // expected-remark@+1 {{lower-composite fired}}
  %0 = nn.lstm %x, %w, %r, %b {nn.key = "l"} : (!x, !w, !r, !b) -> !y
  func.return %0 : !y
}

// A bias that is not constant.
// CHECK-LABEL: func.func @bias(
// CHECK: nn.lstm
func.func @bias(%x: !x, %w: !w, %r: !r, %b: !b) -> !y {
  // expected-remark@+1 {{its pieces need constant operands or static shapes, and few steps}}
  %0 = nn.lstm %x, %w, %r, %b : (!x, !w, !r, !b) -> !y
  func.return %0 : !y
}

// A length that only the model's input tells.
// CHECK-LABEL: func.func @dynamic(
// CHECK: nn.gru
func.func @dynamic(%x: tensor<?x3x4xf32>, %w: tensor<1x3x4xf32>, %r: tensor<1x3x1xf32>) -> tensor<?x1x3x1xf32> {
  %b = nn.constant dense<1.0> : tensor<1x6xf32> : tensor<1x6xf32>
  // expected-remark@+1 {{its pieces need constant operands or static shapes, and few steps}}
  %0 = nn.gru %x, %w, %r, %b : (tensor<?x3x4xf32>, tensor<1x3x4xf32>, tensor<1x3x1xf32>, tensor<1x6xf32>) -> tensor<?x1x3x1xf32>
  func.return %0 : tensor<?x1x3x1xf32>
}

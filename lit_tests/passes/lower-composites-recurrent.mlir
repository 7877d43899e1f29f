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
  // expected-remark@+1 {{its bias must be constant for its pieces}}
  %0 = nn.lstm %x, %w, %r, %b : (!x, !w, !r, !b) -> !y
  func.return %0 : !y
}

// A length that only the model's input tells.
// CHECK-LABEL: func.func @dynamic(
// CHECK: nn.gru
func.func @dynamic(%x: tensor<?x3x4xf32>, %w: tensor<1x3x4xf32>, %r: tensor<1x3x1xf32>) -> tensor<?x1x3x1xf32> {
  %b = nn.constant dense<1.0> : tensor<1x6xf32> : tensor<1x6xf32>
  // expected-remark@+1 {{how many steps it has is known when it runs only}}
  %0 = nn.gru %x, %w, %r, %b : (tensor<?x3x4xf32>, tensor<1x3x4xf32>, tensor<1x3x1xf32>, tensor<1x6xf32>) -> tensor<?x1x3x1xf32>
  func.return %0 : tensor<?x1x3x1xf32>
}

// More steps than a target is given ops for.
// CHECK-LABEL: func.func @long(
// CHECK: nn.gru
func.func @long(%x: tensor<1000x3x4xf32>, %w: tensor<1x3x4xf32>, %r: tensor<1x3x1xf32>) -> tensor<1000x1x3x1xf32> {
  %b = nn.constant dense<1.0> : tensor<1x6xf32> : tensor<1x6xf32>
  // expected-remark@+1 {{1000 steps in 1 direction are about 25000 ops, and at most 16384 may take the place of one}}
  %0 = nn.gru %x, %w, %r, %b : (tensor<1000x3x4xf32>, tensor<1x3x4xf32>, tensor<1x3x1xf32>, tensor<1x6xf32>) -> tensor<1000x1x3x1xf32>
  func.return %0 : tensor<1000x1x3x1xf32>
}

// Lengths: a state past that of its own sequence stays, and 0 is shown; the last states.
// CHECK-LABEL: func.func @lengths(
// CHECK: nn.compare {{.*}} mode gt
// CHECK: nn.mul {{.*}} {nn.key = "l/hidden"}
// CHECK: [[Y:%.*]] = nn.select {{.*}} {nn.key = "l/masked"}
// CHECK: nn.select {{.*}} {nn.key = "l/state_hidden"}
// CHECK: nn.select {{.*}} {nn.key = "l/state_cell"}
// CHECK: nn.concat {{.*}} {nn.key = "l"}
// CHECK: [[H:%.*]] = nn.concat {{.*}} {nn.key = "l/last_hidden"}
// CHECK: [[C:%.*]] = nn.concat {{.*}} {nn.key = "l/last_cell"}
// CHECK: return [[H]], [[C]]
func.func @lengths(%x: tensor<1x3x4xf32>, %w: !w, %r: !r, %h: tensor<1x3x1xf32>, %l: tensor<3xi32>) -> (tensor<1x3x1xf32>, tensor<1x3x1xf32>) {
  %b = nn.constant dense<1.0> : !b : !b
  // expected-remark@+1 {{lower-composite fired}}
  %0, %1, %2 = nn.lstm %x, %w, %r, %b, %h, %h, %l last_states 2 {nn.key = "l"} : (tensor<1x3x4xf32>, !w, !r, !b, tensor<1x3x1xf32>, tensor<1x3x1xf32>, tensor<3xi32>) -> (tensor<1x1x3x1xf32>, tensor<1x3x1xf32>, tensor<1x3x1xf32>)
  func.return %1, %2 : tensor<1x3x1xf32>, tensor<1x3x1xf32>
}

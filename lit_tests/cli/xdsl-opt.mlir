// RUN: xdsl-opt %s -p canonicalize | filecheck %s

// The canonicalizer of xDSL applies our rules to our ops, and its own to its ops.

!q = tensor<4x!quant.uniform<u8:f32, 0.5>>

// CHECK-LABEL: func.func @f(%x:
// CHECK-SAME: %q:
// CHECK-NEXT: %[[THREE:.*]] = arith.constant 3 : i32
// CHECK-NEXT: func.return %x, %q, %[[THREE]]
func.func @f(%x: tensor<2x3xf32>, %q: !q) -> (tensor<2x3xf32>, !q, i32) {
  %0 = nn.transpose %x perm [1, 0] : (tensor<2x3xf32>) -> tensor<3x2xf32>
  %1 = nn.transpose %0 perm [1, 0] : (tensor<3x2xf32>) -> tensor<2x3xf32>
  %2 = nn.relu %q : (!q) -> !q
  %one = arith.constant 1 : i32
  %two = arith.constant 2 : i32
  %3 = arith.addi %one, %two : i32
  return %1, %2, %3 : tensor<2x3xf32>, !q, i32
}

// RUN: qopt-opt %s -p "softmax-last{where=all}" --remarks --verify-diagnostics | filecheck %s
// RUN: qopt-opt %s -p "softmax-last{where=all}" --verify-numerics=6 > %t
// RUN: qopt-opt %s -p "softmax-last{where=all}" > %t && qopt-opt %t -p "softmax-last{where=all}" > %t.2 && diff %t %t.2

// Softmax along an inner dimension as one along the last.

!x = tensor<1x2x3x!quant.uniform<u8:f32, 0.5:3>>
!y = tensor<1x2x3x!quant.uniform<u8:f32, 0.00390625>>
!last = tensor<1x3x2x!quant.uniform<u8:f32, 0.5:3>>
!p = tensor<1x3x2x!quant.uniform<u8:f32, 0.00390625>>
!f = tensor<1x2x3xf32>

// CHECK-LABEL: func.func @inner(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.transpose [[X]] perm [0, 2, 1]
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = nn.softmax [[V0]] axis 2
// CHECK-NEXT: [[V2:%[a-z0-9_]+]] = nn.transpose [[V1]] perm [0, 2, 1]
// CHECK-NEXT: return [[V2]]
func.func @inner(%x: !x) -> !y {
  // DOC-BEFORE
  // expected-remark@+1 {{softmax-along-last fired, exact}}
  %0 = nn.softmax %x axis 1 : (!x) -> !y
  // DOC-AFTER
  //   %1 = nn.transpose %x perm [0, 2, 1] : (!x) -> !last
  //   %2 = nn.softmax %1 axis 2 : (!last) -> !p
  //   %0 = nn.transpose %2 perm [0, 2, 1] : (!p) -> !y
  // DOC-END
  return %0 : !y
}

// Along the last already, and on floats.
// CHECK-LABEL: func.func @others(
// CHECK-NOT: nn.transpose
// CHECK: return
func.func @others(%x: !x, %f: !f) -> (!y, !y, !f) {
  %0 = nn.softmax %x : (!x) -> !y
  %1 = nn.softmax %x axis 2 : (!x) -> !y
  %2 = nn.softmax %f axis 1 : (!f) -> !f
  return %0, %1, %2 : !y, !y, !f
}

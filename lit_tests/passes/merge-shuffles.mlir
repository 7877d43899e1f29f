// RUN: qopt-opt %s -p merge-shuffles --remarks --verify-diagnostics | filecheck %s
// RUN: qopt-opt %s -p merge-shuffles --verify-numerics=6 > %t
// RUN: qopt-opt %s -p merge-shuffles > %t && qopt-opt %t -p merge-shuffles > %t.2 && diff %t %t.2

// Reshape, transpose, reshape that reorder one dimension become a gather.

!x = tensor<2x6x5x!quant.uniform<i8:f32, 0.5:3>>
!parts = tensor<2x2x3x5x!quant.uniform<i8:f32, 0.5:3>>
!swapped = tensor<2x3x2x5x!quant.uniform<i8:f32, 0.5:3>>
!rows = tensor<2x6x5x!quant.uniform<i8:f32:0, {0.5,0.25}>>
!rows_parts = tensor<2x2x3x5x!quant.uniform<i8:f32:0, {0.5,0.25}>>
!rows_swapped = tensor<2x3x2x5x!quant.uniform<i8:f32:0, {0.5,0.25}>>
!any = tensor<?x4x2x3xf32>
!any_parts = tensor<?x2x2x6xf32>
!wide = tensor<1x8x5xf32>
!wide_parts = tensor<4x2x5xf32>
!wide_swapped = tensor<2x4x5xf32>
!turned = tensor<2x3x5x2x!quant.uniform<i8:f32, 0.5:3>>

// CHECK-LABEL: func.func @shuffle(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.constant dense<[0, 3, 1, 4, 2, 5]>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = nn.gather [[X]], [[V0]] axis 1
// CHECK-NEXT: return [[V1]]
func.func @shuffle(%x: !x) -> !x {
  // DOC-BEFORE
  %0 = nn.reshape %x : (!x) -> !parts
  %1 = nn.transpose %0 perm [0, 2, 1, 3] : (!parts) -> !swapped
  // expected-remark@+1 {{shuffle-to-gather fired, exact}}
  %2 = nn.reshape %1 : (!swapped) -> !x
  // DOC-AFTER
  //   %0 = nn.constant dense<[0, 3, 1, 4, 2, 5]> : tensor<6xi64> : tensor<6xi64>
  //   %2 = nn.gather %x, %0 axis 1 : (!x, tensor<6xi64>) -> !x
  // DOC-END
  return %2 : !x
}

// An unknown batch; the dimensions behind are joined on the way.
// CHECK-LABEL: func.func @dynamic(
// CHECK: nn.constant dense<[0, 2, 1, 3]>
// CHECK: nn.gather {{.*}} axis 1
func.func @dynamic(%x: !any) -> !any {
  %0 = nn.reshape %x : (!any) -> !any_parts
  %1 = nn.transpose %0 perm [0, 2, 1, 3] : (!any_parts) -> !any_parts
  // expected-remark@+1 {{shuffle-to-gather fired, exact}}
  %2 = nn.reshape %1 : (!any_parts) -> !any
  return %2 : !any
}

// CHECK-LABEL: func.func @unit_dimension(
// CHECK: nn.constant dense<[0, 2, 4, 6, 1, 3, 5, 7]>
// CHECK: nn.gather {{.*}} axis 1
func.func @unit_dimension(%x: !wide) -> !wide {
  %0 = nn.reshape %x : (!wide) -> !wide_parts
  %1 = nn.transpose %0 perm [1, 0, 2] : (!wide_parts) -> !wide_swapped
  // expected-remark@+1 {{shuffle-to-gather fired, exact}}
  %2 = nn.reshape %1 : (!wide_swapped) -> !wide
  return %2 : !wide
}

// CHECK-LABEL: func.func @multi_use(
// CHECK-NOT: nn.gather
// CHECK: return
func.func @multi_use(%x: !x) -> (!x, !swapped) {
  %0 = nn.reshape %x : (!x) -> !parts
  %1 = nn.transpose %0 perm [0, 2, 1, 3] : (!parts) -> !swapped
  // expected-remark@+1 {{shuffle-to-gather refused [multi-use]: a value in the middle is also used elsewhere}}
  %2 = nn.reshape %1 : (!swapped) -> !x
  return %2, %1 : !x, !swapped
}

// CHECK-LABEL: func.func @per_axis(
// CHECK-NOT: nn.gather
// CHECK: return
func.func @per_axis(%x: !rows) -> !rows {
  %0 = nn.reshape %x : (!rows) -> !rows_parts
  %1 = nn.transpose %0 perm [0, 2, 1, 3] : (!rows_parts) -> !rows_swapped
  // expected-remark@+1 {{shuffle-to-gather refused [grid]: parameters differ along a dimension}}
  %2 = nn.reshape %1 : (!rows_swapped) -> !rows
  return %2 : !rows
}

// Parts of two dimensions move.
// CHECK-LABEL: func.func @two_dimensions(
// CHECK-NOT: nn.gather
// CHECK: return
func.func @two_dimensions(%x: !x) -> !x {
  %0 = nn.reshape %x : (!x) -> !parts
  %1 = nn.transpose %0 perm [0, 2, 3, 1] : (!parts) -> !turned
  %2 = nn.reshape %1 : (!turned) -> !x
  return %2 : !x
}

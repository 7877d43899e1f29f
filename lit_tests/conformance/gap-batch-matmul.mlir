// RUN: qopt-opt %s -p "integerize,fold-rescale,place-rescales,dce" --verify-numerics=6 | filecheck %s
//
// There: not handled
// Here: one op whatever the batch: rescales are absorbed into it

!a_2x3x2 = tensor<2x3x2x!quant.uniform<i8:f32, 0.5:3>>
!a_2x3x4 = tensor<2x3x4x!quant.uniform<i8:f32, 0.5:3>>
!a_2x4x2 = tensor<2x4x2x!quant.uniform<i8:f32, 0.5:3>>
!u_2x3x2 = tensor<2x3x2x!quant.uniform<u8:f32, 0.5:131>>
!w_2x3x4 = tensor<2x3x4x!quant.uniform<i16:f32, 0.25>>

// CHECK-LABEL: func.func @once(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-SAME: [[Y:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.matmul [[X]], [[Y]] : {{.*}} -> tensor<2x3x2x!quant.uniform<u8:f32, 5.000000e-01:131>>
// CHECK-NEXT: return [[V0]]
func.func @once(%x: !a_2x3x4, %y: !a_2x4x2) -> !u_2x3x2 {
  %0 = quant.rescale %x : !a_2x3x4 to !w_2x3x4
  %1 = nn.matmul %0, %y : (!w_2x3x4, !a_2x4x2) -> !a_2x3x2
  %2 = quant.rescale %1 : !a_2x3x2 to !u_2x3x2
  return %2 : !u_2x3x2
}

// CHECK-LABEL: func.func @multi_use(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-SAME: [[Y:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = quant.rescale [[X]] : {{.*}} to tensor<2x3x4x!quant.uniform<i16:f32, 2.500000e-01>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = nn.matmul [[V0]], [[Y]] : {{.*}} -> tensor<2x3x2x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT: return [[V1]], [[V0]]
func.func @multi_use(%x: !a_2x3x4, %y: !a_2x4x2) -> (!a_2x3x2, !w_2x3x4) {
  %0 = quant.rescale %x : !a_2x3x4 to !w_2x3x4
  %1 = nn.matmul %0, %y : (!w_2x3x4, !a_2x4x2) -> !a_2x3x2
  return %1, %0 : !a_2x3x2, !w_2x3x4
}

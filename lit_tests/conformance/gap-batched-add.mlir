// RUN: qopt-opt %s -p "integerize,fold-rescale,place-rescales,dce" --verify-numerics=6 | filecheck %s
//
// There: not handled
// Here: an add that broadcasts, as any add: rescales are absorbed on both sides

!a_2x4 = tensor<2x4x!quant.uniform<i8:f32, 0.5:3>>
!a_4 = tensor<4x!quant.uniform<i8:f32, 0.5:3>>
!u_2x4 = tensor<2x4x!quant.uniform<u8:f32, 0.5:131>>
!w_4 = tensor<4x!quant.uniform<i16:f32, 0.25>>

// CHECK-LABEL: func.func @once(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-SAME: [[Y:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.add [[X]], [[Y]] : {{.*}} -> tensor<2x4x!quant.uniform<u8:f32, 5.000000e-01:131>>
// CHECK-NEXT: return [[V0]]
func.func @once(%x: !a_2x4, %y: !a_4) -> !u_2x4 {
  %0 = quant.rescale %y : !a_4 to !w_4
  %1 = nn.add %x, %0 : (!a_2x4, !w_4) -> !a_2x4
  %2 = quant.rescale %1 : !a_2x4 to !u_2x4
  return %2 : !u_2x4
}

// CHECK-LABEL: func.func @multi_use(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-SAME: [[Y:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = quant.rescale [[Y]] : {{.*}} to tensor<4x!quant.uniform<i16:f32, 2.500000e-01>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = nn.add [[X]], [[V0]] : {{.*}} -> tensor<2x4x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT: return [[V1]], [[V0]]
func.func @multi_use(%x: !a_2x4, %y: !a_4) -> (!a_2x4, !w_4) {
  %0 = quant.rescale %y : !a_4 to !w_4
  %1 = nn.add %x, %0 : (!a_2x4, !w_4) -> !a_2x4
  return %1, %0 : !a_2x4, !w_4
}

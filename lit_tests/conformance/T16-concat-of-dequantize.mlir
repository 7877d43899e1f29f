// RUN: qopt-opt %s -p "move-casts{boundary=maximize-integer}" --verify-numerics=6 | filecheck %s
//
// There: Concat(DQ ..) = DQ(Concat ..) for equal types, on request
// Here: the same; where a quantize closes the region, by default

!a_2 = tensor<2x!quant.uniform<i8:f32, 0.5:3>>
!a_4 = tensor<4x!quant.uniform<i8:f32, 0.5:3>>
!b_2 = tensor<2x!quant.uniform<i8:f32, 0.25:-5>>
!f_2 = tensor<2xf32>
!f_4 = tensor<4xf32>
!f_6 = tensor<6xf32>

// CHECK-LABEL: func.func @once(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-SAME: [[Y:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.concat [[X]], [[Y]] axis 0 : {{.*}} -> tensor<6x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = quant.dcast [[V0]] : {{.*}} to tensor<6xf32>
// CHECK-NEXT: return [[V1]]
func.func @once(%x: !a_4, %y: !a_2) -> !f_6 {
  %0 = quant.dcast %x : !a_4 to !f_4
  %1 = quant.dcast %y : !a_2 to !f_2
  %2 = nn.concat %0, %1 axis 0 : (!f_4, !f_2) -> !f_6
  return %2 : !f_6
}

// CHECK-LABEL: func.func @multi_use(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-SAME: [[Y:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = quant.dcast [[X]] : {{.*}} to tensor<4xf32>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = nn.concat [[X]], [[Y]] axis 0 : {{.*}} -> tensor<6x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT: [[V2:%[a-z0-9_]+]] = quant.dcast [[V1]] : {{.*}} to tensor<6xf32>
// CHECK-NEXT: return [[V2]], [[V0]]
func.func @multi_use(%x: !a_4, %y: !a_2) -> (!f_6, !f_4) {
  %0 = quant.dcast %x : !a_4 to !f_4
  %1 = quant.dcast %y : !a_2 to !f_2
  %2 = nn.concat %0, %1 axis 0 : (!f_4, !f_2) -> !f_6
  return %2, %0 : !f_6, !f_4
}

// CHECK-LABEL: func.func @unequal(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-SAME: [[Y:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = quant.dcast [[X]] : {{.*}} to tensor<4xf32>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = quant.dcast [[Y]] : {{.*}} to tensor<2xf32>
// CHECK-NEXT: [[V2:%[a-z0-9_]+]] = nn.concat [[V0]], [[V1]] axis 0 : {{.*}} -> tensor<6xf32>
// CHECK-NEXT: return [[V2]]
func.func @unequal(%x: !a_4, %y: !b_2) -> !f_6 {
  %0 = quant.dcast %x : !a_4 to !f_4
  %1 = quant.dcast %y : !b_2 to !f_2
  %2 = nn.concat %0, %1 axis 0 : (!f_4, !f_2) -> !f_6
  return %2 : !f_6
}

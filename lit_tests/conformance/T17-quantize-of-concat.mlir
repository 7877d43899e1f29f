// RUN: qopt-opt %s -p "cse,move-casts{boundary=maximize-integer}" --verify-numerics=6 | filecheck %s
//
// There: Q(Concat ..) = Concat(Q ..), the concat used once
// Here: the same, used by several too if they quantize alike

!a_6 = tensor<6x!quant.uniform<i8:f32, 0.5:3>>
!f_2 = tensor<2xf32>
!f_4 = tensor<4xf32>
!f_6 = tensor<6xf32>

// CHECK-LABEL: func.func @once(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-SAME: [[Y:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = quant.qcast [[X]] : {{.*}} to tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = quant.qcast [[Y]] : {{.*}} to tensor<2x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT: [[V2:%[a-z0-9_]+]] = nn.concat [[V0]], [[V1]] axis 0 : {{.*}} -> tensor<6x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT: return [[V2]]
func.func @once(%x: !f_4, %y: !f_2) -> !a_6 {
  %0 = nn.concat %x, %y axis 0 : (!f_4, !f_2) -> !f_6
  %1 = quant.qcast %0 : !f_6 to !a_6
  return %1 : !a_6
}

// CHECK-LABEL: func.func @multi_use(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-SAME: [[Y:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = quant.qcast [[X]] : {{.*}} to tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = quant.qcast [[Y]] : {{.*}} to tensor<2x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT: [[V2:%[a-z0-9_]+]] = nn.concat [[V0]], [[V1]] axis 0 : {{.*}} -> tensor<6x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT: return [[V2]], [[V2]]
func.func @multi_use(%x: !f_4, %y: !f_2) -> (!a_6, !a_6) {
  %0 = nn.concat %x, %y axis 0 : (!f_4, !f_2) -> !f_6
  %1 = quant.qcast %0 : !f_6 to !a_6
  %2 = quant.qcast %0 : !f_6 to !a_6
  return %1, %2 : !a_6, !a_6
}

// CHECK-LABEL: func.func @used_as_floats(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-SAME: [[Y:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.concat [[X]], [[Y]] axis 0 : {{.*}} -> tensor<6xf32>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = quant.qcast [[V0]] : {{.*}} to tensor<6x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT: return [[V1]], [[V0]]
func.func @used_as_floats(%x: !f_4, %y: !f_2) -> (!a_6, !f_6) {
  %0 = nn.concat %x, %y axis 0 : (!f_4, !f_2) -> !f_6
  %1 = quant.qcast %0 : !f_6 to !a_6
  return %1, %0 : !a_6, !f_6
}

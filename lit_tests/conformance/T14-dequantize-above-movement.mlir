// RUN: qopt-opt %s -p "move-casts{boundary=maximize-integer}" --verify-numerics=6 | filecheck %s
//
// There: DQ(Transpose x) = Transpose(DQ x): four times the data to move
// Here: the reverse: dequantize sinks, so that codes are moved

!a_2x4 = tensor<2x4x!quant.uniform<i8:f32, 0.5:3>>
!a_4x2 = tensor<4x2x!quant.uniform<i8:f32, 0.5:3>>
!f_2x4 = tensor<2x4xf32>
!f_4x2 = tensor<4x2xf32>

// CHECK-LABEL: func.func @once(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.transpose [[X]] perm [1, 0] : {{.*}} -> tensor<4x2x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = quant.dcast [[V0]] : {{.*}} to tensor<4x2xf32>
// CHECK-NEXT: return [[V1]]
func.func @once(%x: !a_2x4) -> !f_4x2 {
  %0 = nn.transpose %x perm [1, 0] : (!a_2x4) -> !a_4x2
  %1 = quant.dcast %0 : !a_4x2 to !f_4x2
  return %1 : !f_4x2
}

// CHECK-LABEL: func.func @reverse(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.transpose [[X]] perm [1, 0] : {{.*}} -> tensor<4x2x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = quant.dcast [[V0]] : {{.*}} to tensor<4x2xf32>
// CHECK-NEXT: return [[V1]]
func.func @reverse(%x: !a_2x4) -> !f_4x2 {
  %0 = quant.dcast %x : !a_2x4 to !f_2x4
  %1 = nn.transpose %0 perm [1, 0] : (!f_2x4) -> !f_4x2
  return %1 : !f_4x2
}

// CHECK-LABEL: func.func @multi_use(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = quant.dcast [[X]] : {{.*}} to tensor<2x4xf32>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = nn.transpose [[X]] perm [1, 0] : {{.*}} -> tensor<4x2x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT: [[V2:%[a-z0-9_]+]] = quant.dcast [[V1]] : {{.*}} to tensor<4x2xf32>
// CHECK-NEXT: return [[V2]], [[V0]]
func.func @multi_use(%x: !a_2x4) -> (!f_4x2, !f_2x4) {
  %0 = quant.dcast %x : !a_2x4 to !f_2x4
  %1 = nn.transpose %0 perm [1, 0] : (!f_2x4) -> !f_4x2
  return %1, %0 : !f_4x2, !f_2x4
}

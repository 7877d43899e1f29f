// RUN: qopt-opt %s -p "move-casts{boundary=maximize-integer}" --verify-numerics=6 | filecheck %s
//
// There: Q(Transpose x) = Transpose(Q x), all users of one kind
// Here: the same away from a float interface; at it on request (boundary=maximize-integer)

!a_4x2 = tensor<4x2x!quant.uniform<i8:f32, 0.5:3>>
!a_8 = tensor<8x!quant.uniform<i8:f32, 0.5:3>>
!b_4x2 = tensor<4x2x!quant.uniform<i8:f32, 0.25:-5>>
!f_2x4 = tensor<2x4xf32>
!f_4x2 = tensor<4x2xf32>
!f_8 = tensor<8xf32>

// CHECK-LABEL: func.func @once(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = quant.qcast [[X]] : {{.*}} to tensor<2x4x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = nn.transpose [[V0]] perm [1, 0] : {{.*}} -> tensor<4x2x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT: return [[V1]]
func.func @once(%x: !f_2x4) -> !a_4x2 {
  %0 = nn.transpose %x perm [1, 0] : (!f_2x4) -> !f_4x2
  %1 = quant.qcast %0 : !f_4x2 to !a_4x2
  return %1 : !a_4x2
}

// CHECK-LABEL: func.func @reshape(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = quant.qcast [[X]] : {{.*}} to tensor<2x4x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = nn.reshape [[V0]] shape [8] : {{.*}} -> tensor<8x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT: return [[V1]]
func.func @reshape(%x: !f_2x4) -> !a_8 {
  %0 = nn.reshape %x shape [8] : (!f_2x4) -> !f_8
  %1 = quant.qcast %0 : !f_8 to !a_8
  return %1 : !a_8
}

// CHECK-LABEL: func.func @multi_use(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.transpose [[X]] perm [1, 0] : {{.*}} -> tensor<4x2xf32>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = quant.qcast [[V0]] : {{.*}} to tensor<4x2x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT: [[V2:%[a-z0-9_]+]] = quant.qcast [[V0]] : {{.*}} to tensor<4x2x!quant.uniform<i8:f32, 2.500000e-01:-5>>
// CHECK-NEXT: return [[V1]], [[V2]]
func.func @multi_use(%x: !f_2x4) -> (!a_4x2, !b_4x2) {
  %0 = nn.transpose %x perm [1, 0] : (!f_2x4) -> !f_4x2
  %1 = quant.qcast %0 : !f_4x2 to !a_4x2
  %2 = quant.qcast %0 : !f_4x2 to !b_4x2
  return %1, %2 : !a_4x2, !b_4x2
}

// RUN: qopt-opt %s -p "integerize,fold-rescale,place-rescales,dce" --verify-numerics=6 | filecheck %s
//
// There: one use of a rescale that cannot move blocks all
// Here: each use by itself; what is still needed stays once

!a_1x4x2x2 = tensor<1x4x2x2x!quant.uniform<i8:f32, 0.5:3>>
!a_2x4 = tensor<2x4x!quant.uniform<i8:f32, 0.5:3>>
!b_2x4 = tensor<2x4x!quant.uniform<i8:f32, 0.25:-5>>
!b_4x2 = tensor<4x2x!quant.uniform<i8:f32, 0.25:-5>>
!b_8 = tensor<8x!quant.uniform<i8:f32, 0.25:-5>>
!c_1x4x1x1 = tensor<1x4x1x1x!quant.uniform<i8:f32, 1.0>>
!c_1x4x2x2 = tensor<1x4x2x2x!quant.uniform<i8:f32, 1.0>>
!w_1x4x2x2 = tensor<1x4x2x2x!quant.uniform<i16:f32, 0.25>>

// CHECK-LABEL: func.func @multi_use(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-SAME: [[Y:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.avg_pool2d [[X]] kernel [2, 2] : {{.*}} -> tensor<1x4x1x1x!quant.uniform<i8:f32, 1.000000e+00>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = nn.add [[X]], [[Y]] : {{.*}} -> tensor<1x4x2x2x!quant.uniform<i8:f32, 1.000000e+00>>
// CHECK-NEXT: [[V2:%[a-z0-9_]+]] = nn.mul [[X]], [[X]] : {{.*}} -> tensor<1x4x2x2x!quant.uniform<i8:f32, 1.000000e+00>>
// CHECK-NEXT: return [[V0]], [[V1]], [[V2]]
func.func @multi_use(%x: !a_1x4x2x2, %y: !a_1x4x2x2) -> (!c_1x4x1x1, !c_1x4x2x2, !c_1x4x2x2) {
  %0 = quant.rescale %x : !a_1x4x2x2 to !w_1x4x2x2
  %1 = nn.avg_pool2d %0 kernel [2, 2] : (!w_1x4x2x2) -> !c_1x4x1x1
  %2 = nn.add %0, %y : (!w_1x4x2x2, !a_1x4x2x2) -> !c_1x4x2x2
  %3 = nn.mul %0, %0 : (!w_1x4x2x2, !w_1x4x2x2) -> !c_1x4x2x2
  return %1, %2, %3 : !c_1x4x1x1, !c_1x4x2x2, !c_1x4x2x2
}

// CHECK-LABEL: func.func @two_movements(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = quant.rescale [[X]] : {{.*}} to tensor<2x4x!quant.uniform<i8:f32, 2.500000e-01:-5>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = nn.reshape [[V0]] shape [8] : {{.*}} -> tensor<8x!quant.uniform<i8:f32, 2.500000e-01:-5>>
// CHECK-NEXT: [[V2:%[a-z0-9_]+]] = nn.transpose [[V0]] perm [1, 0] : {{.*}} -> tensor<4x2x!quant.uniform<i8:f32, 2.500000e-01:-5>>
// CHECK-NEXT: return [[V1]], [[V2]]
func.func @two_movements(%x: !a_2x4) -> (!b_8, !b_4x2) {
  %0 = quant.rescale %x : !a_2x4 to !b_2x4
  %1 = nn.reshape %0 shape [8] : (!b_2x4) -> !b_8
  %2 = nn.transpose %0 perm [1, 0] : (!b_2x4) -> !b_4x2
  return %1, %2 : !b_8, !b_4x2
}

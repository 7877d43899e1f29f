// RUN: qopt-opt %s -p "integerize,fold-rescale,place-rescales,dce" --verify-numerics=6 | filecheck %s
//
// There: not handled
// Here: depthwise and per-channel weights alike

!a_1x4x2x2 = tensor<1x4x2x2x!quant.uniform<i8:f32, 0.5:3>>
!k_4x1x1x1 = tensor<4x1x1x1x!quant.uniform<i8:f32:0, {0.5,0.25,0.125,1.0}>>
!u_1x4x2x2 = tensor<1x4x2x2x!quant.uniform<u8:f32, 0.5:131>>
!w_1x4x2x2 = tensor<1x4x2x2x!quant.uniform<i16:f32, 0.25>>

// CHECK-LABEL: func.func @once(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-SAME: [[Y:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.conv2d [[X]], [[Y]] groups 4 : {{.*}} -> tensor<1x4x2x2x!quant.uniform<u8:f32, 5.000000e-01:131>>
// CHECK-NEXT: return [[V0]]
func.func @once(%x: !a_1x4x2x2, %w: !k_4x1x1x1) -> !u_1x4x2x2 {
  %0 = quant.rescale %x : !a_1x4x2x2 to !w_1x4x2x2
  %1 = nn.conv2d %0, %w groups 4 : (!w_1x4x2x2, !k_4x1x1x1) -> !a_1x4x2x2
  %2 = quant.rescale %1 : !a_1x4x2x2 to !u_1x4x2x2
  return %2 : !u_1x4x2x2
}

// CHECK-LABEL: func.func @multi_use(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-SAME: [[Y:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = quant.rescale [[X]] : {{.*}} to tensor<1x4x2x2x!quant.uniform<i16:f32, 2.500000e-01>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = nn.conv2d [[V0]], [[Y]] groups 4 : {{.*}} -> tensor<1x4x2x2x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT: [[V2:%[a-z0-9_]+]] = quant.rescale [[V1]] : {{.*}} to tensor<1x4x2x2x!quant.uniform<u8:f32, 5.000000e-01:131>>
// CHECK-NEXT: return [[V1]], [[V2]], [[V0]]
func.func @multi_use(%x: !a_1x4x2x2, %w: !k_4x1x1x1) -> (!a_1x4x2x2, !u_1x4x2x2, !w_1x4x2x2) {
  %0 = quant.rescale %x : !a_1x4x2x2 to !w_1x4x2x2
  %1 = nn.conv2d %0, %w groups 4 : (!w_1x4x2x2, !k_4x1x1x1) -> !a_1x4x2x2
  %2 = quant.rescale %1 : !a_1x4x2x2 to !u_1x4x2x2
  return %1, %2, %0 : !a_1x4x2x2, !u_1x4x2x2, !w_1x4x2x2
}

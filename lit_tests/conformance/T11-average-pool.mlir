// RUN: qopt-opt %s -p "combine-rescale" --verify-numerics=6 | filecheck %s
// RUN: qopt-opt %s -p "combine-rescale{numerics=bounded}" --verify-numerics=6 | filecheck %s --check-prefix=WEAKER
//
// There: AvgPool(RS) = RS(AvgPool), only where changing parameters was forbidden
// Here: absorbed by the pool, which requantizes: bounded

!a_1x4x2x2 = tensor<1x4x2x2x!quant.uniform<i8:f32, 0.5:3>>
!c_1x4x1x1 = tensor<1x4x1x1x!quant.uniform<i8:f32, 1.0>>
!c_1x4x2x2 = tensor<1x4x2x2x!quant.uniform<i8:f32, 1.0>>
!w_1x4x2x2 = tensor<1x4x2x2x!quant.uniform<i16:f32, 0.25>>

// CHECK-LABEL: func.func @once(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = quant.rescale [[X]] : {{.*}} to tensor<1x4x2x2x!quant.uniform<i8:f32, 1.000000e+00>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = nn.avg_pool2d [[V0]] kernel [2, 2] : {{.*}} -> tensor<1x4x1x1x!quant.uniform<i8:f32, 1.000000e+00>>
// CHECK-NEXT: return [[V1]]
// WEAKER-LABEL: func.func @once(
// WEAKER-SAME: [[X:%[a-z0-9_]+]]:
// WEAKER-NEXT: [[V0:%[a-z0-9_]+]] = nn.avg_pool2d [[X]] kernel [2, 2] : {{.*}} -> tensor<1x4x1x1x!quant.uniform<i8:f32, 1.000000e+00>>
// WEAKER-NEXT: return [[V0]]
func.func @once(%x: !a_1x4x2x2) -> !c_1x4x1x1 {
  %0 = quant.rescale %x : !a_1x4x2x2 to !c_1x4x2x2
  %1 = nn.avg_pool2d %0 kernel [2, 2] : (!c_1x4x2x2) -> !c_1x4x1x1
  return %1 : !c_1x4x1x1
}

// CHECK-LABEL: func.func @lossless(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.avg_pool2d [[X]] kernel [2, 2] : {{.*}} -> tensor<1x4x1x1x!quant.uniform<i8:f32, 1.000000e+00>>
// CHECK-NEXT: return [[V0]]
func.func @lossless(%x: !a_1x4x2x2) -> !c_1x4x1x1 {
  %0 = quant.rescale %x : !a_1x4x2x2 to !w_1x4x2x2
  %1 = nn.avg_pool2d %0 kernel [2, 2] : (!w_1x4x2x2) -> !c_1x4x1x1
  return %1 : !c_1x4x1x1
}

// CHECK-LABEL: func.func @multi_use(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = quant.rescale [[X]] : {{.*}} to tensor<1x4x2x2x!quant.uniform<i16:f32, 2.500000e-01>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = nn.avg_pool2d [[X]] kernel [2, 2] : {{.*}} -> tensor<1x4x1x1x!quant.uniform<i8:f32, 1.000000e+00>>
// CHECK-NEXT: return [[V1]], [[V0]]
func.func @multi_use(%x: !a_1x4x2x2) -> (!c_1x4x1x1, !w_1x4x2x2) {
  %0 = quant.rescale %x : !a_1x4x2x2 to !w_1x4x2x2
  %1 = nn.avg_pool2d %0 kernel [2, 2] : (!w_1x4x2x2) -> !c_1x4x1x1
  return %1, %0 : !c_1x4x1x1, !w_1x4x2x2
}

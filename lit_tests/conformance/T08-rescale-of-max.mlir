// RUN: qopt-opt %s -p "hoist-rescale" --verify-numerics=6 | filecheck %s
//
// There: RS(Max(x, y)) = Max(RS x, RS y)
// Here: exact: the rescale is monotone; into the maximum and on upwards

!a_1 = tensor<1x!quant.uniform<i8:f32, 0.5:3>>
!a_4 = tensor<4x!quant.uniform<i8:f32, 0.5:3>>
!b_4 = tensor<4x!quant.uniform<i8:f32, 0.25:-5>>

// CHECK-LABEL: func.func @once(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-SAME: [[Y:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = quant.rescale [[X]] : {{.*}} to tensor<4x!quant.uniform<i8:f32, 2.500000e-01:-5>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = quant.rescale [[Y]] : {{.*}} to tensor<4x!quant.uniform<i8:f32, 2.500000e-01:-5>>
// CHECK-NEXT: [[V2:%[a-z0-9_]+]] = nn.maximum [[V0]], [[V1]] : {{.*}} -> tensor<4x!quant.uniform<i8:f32, 2.500000e-01:-5>>
// CHECK-NEXT: return [[V2]]
func.func @once(%x: !a_4, %y: !a_4) -> !b_4 {
  %0 = nn.maximum %x, %y : (!a_4, !a_4) -> !a_4
  %1 = quant.rescale %0 : !a_4 to !b_4
  return %1 : !b_4
}

// CHECK-LABEL: func.func @minimum(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-SAME: [[Y:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = quant.rescale [[X]] : {{.*}} to tensor<4x!quant.uniform<i8:f32, 2.500000e-01:-5>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = quant.rescale [[Y]] : {{.*}} to tensor<1x!quant.uniform<i8:f32, 2.500000e-01:-5>>
// CHECK-NEXT: [[V2:%[a-z0-9_]+]] = nn.minimum [[V0]], [[V1]] : {{.*}} -> tensor<4x!quant.uniform<i8:f32, 2.500000e-01:-5>>
// CHECK-NEXT: return [[V2]]
func.func @minimum(%x: !a_4, %y: !a_1) -> !b_4 {
  %0 = nn.minimum %x, %y : (!a_4, !a_1) -> !a_4
  %1 = quant.rescale %0 : !a_4 to !b_4
  return %1 : !b_4
}

// CHECK-LABEL: func.func @multi_use(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-SAME: [[Y:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.maximum [[X]], [[Y]] : {{.*}} -> tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = quant.rescale [[V0]] : {{.*}} to tensor<4x!quant.uniform<i8:f32, 2.500000e-01:-5>>
// CHECK-NEXT: return [[V1]], [[V0]]
func.func @multi_use(%x: !a_4, %y: !a_4) -> (!b_4, !a_4) {
  %0 = nn.maximum %x, %y : (!a_4, !a_4) -> !a_4
  %1 = quant.rescale %0 : !a_4 to !b_4
  return %1, %0 : !b_4, !a_4
}

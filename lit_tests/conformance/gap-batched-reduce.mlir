// RUN: qopt-opt %s -p "integerize,fold-rescale,place-rescales,dce" --verify-numerics=6 | filecheck %s
//
// There: not handled
// Here: max and min pass rescales, sum and mean absorb them

!a_2x1 = tensor<2x1x!quant.uniform<i8:f32, 0.5:3>>
!a_2x4 = tensor<2x4x!quant.uniform<i8:f32, 0.5:3>>
!b_2x1 = tensor<2x1x!quant.uniform<i8:f32, 0.25:-5>>
!b_2x4 = tensor<2x4x!quant.uniform<i8:f32, 0.25:-5>>
!u_2x1 = tensor<2x1x!quant.uniform<u8:f32, 0.5:131>>
!w_2x4 = tensor<2x4x!quant.uniform<i16:f32, 0.25>>

// CHECK-LABEL: func.func @largest(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.reduce_max [[X]] axes [1] : {{.*}} -> tensor<2x1x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = quant.rescale [[V0]] : {{.*}} to tensor<2x1x!quant.uniform<i8:f32, 2.500000e-01:-5>>
// CHECK-NEXT: return [[V1]]
func.func @largest(%x: !a_2x4) -> !b_2x1 {
  %0 = quant.rescale %x : !a_2x4 to !b_2x4
  %1 = nn.reduce_max %0 axes [1] : (!b_2x4) -> !b_2x1
  return %1 : !b_2x1
}

// CHECK-LABEL: func.func @sum(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.reduce_sum [[X]] axes [1] : {{.*}} -> tensor<2x1x!quant.uniform<u8:f32, 5.000000e-01:131>>
// CHECK-NEXT: return [[V0]]
func.func @sum(%x: !a_2x4) -> !u_2x1 {
  %0 = quant.rescale %x : !a_2x4 to !w_2x4
  %1 = nn.reduce_sum %0 axes [1] : (!w_2x4) -> !a_2x1
  %2 = quant.rescale %1 : !a_2x1 to !u_2x1
  return %2 : !u_2x1
}

// CHECK-LABEL: func.func @mean(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.reduce_mean [[X]] axes [1] : {{.*}} -> tensor<2x1x!quant.uniform<u8:f32, 5.000000e-01:131>>
// CHECK-NEXT: return [[V0]]
func.func @mean(%x: !a_2x4) -> !u_2x1 {
  %0 = quant.rescale %x : !a_2x4 to !w_2x4
  %1 = nn.reduce_mean %0 axes [1] : (!w_2x4) -> !a_2x1
  %2 = quant.rescale %1 : !a_2x1 to !u_2x1
  return %2 : !u_2x1
}

// CHECK-LABEL: func.func @multi_use(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = quant.rescale [[X]] : {{.*}} to tensor<2x4x!quant.uniform<i8:f32, 2.500000e-01:-5>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = nn.reduce_max [[V0]] axes [1] : {{.*}} -> tensor<2x1x!quant.uniform<i8:f32, 2.500000e-01:-5>>
// CHECK-NEXT: [[V2:%[a-z0-9_]+]] = nn.reduce_min [[V0]] axes [1] : {{.*}} -> tensor<2x1x!quant.uniform<i8:f32, 2.500000e-01:-5>>
// CHECK-NEXT: return [[V1]], [[V2]], [[V0]]
func.func @multi_use(%x: !a_2x4) -> (!b_2x1, !b_2x1, !b_2x4) {
  %0 = quant.rescale %x : !a_2x4 to !b_2x4
  %1 = nn.reduce_max %0 axes [1] : (!b_2x4) -> !b_2x1
  %2 = nn.reduce_min %0 axes [1] : (!b_2x4) -> !b_2x1
  return %1, %2, %0 : !b_2x1, !b_2x1, !b_2x4
}

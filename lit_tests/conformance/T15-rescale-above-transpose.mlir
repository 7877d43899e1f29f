// RUN: qopt-opt %s -p "hoist-rescale" --verify-numerics=6 | filecheck %s
//
// There: RS(Transpose x) = Transpose(RS x)
// Here: both ways, each a pass

!a_2x4 = tensor<2x4x!quant.uniform<i8:f32, 0.5:3>>
!a_4x2 = tensor<4x2x!quant.uniform<i8:f32, 0.5:3>>
!b_4x2 = tensor<4x2x!quant.uniform<i8:f32, 0.25:-5>>

// CHECK-LABEL: func.func @once(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = quant.rescale [[X]] : {{.*}} to tensor<2x4x!quant.uniform<i8:f32, 2.500000e-01:-5>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = nn.transpose [[V0]] perm [1, 0] : {{.*}} -> tensor<4x2x!quant.uniform<i8:f32, 2.500000e-01:-5>>
// CHECK-NEXT: return [[V1]]
func.func @once(%x: !a_2x4) -> !b_4x2 {
  %0 = nn.transpose %x perm [1, 0] : (!a_2x4) -> !a_4x2
  %1 = quant.rescale %0 : !a_4x2 to !b_4x2
  return %1 : !b_4x2
}

// CHECK-LABEL: func.func @multi_use(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.transpose [[X]] perm [1, 0] : {{.*}} -> tensor<4x2x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = quant.rescale [[V0]] : {{.*}} to tensor<4x2x!quant.uniform<i8:f32, 2.500000e-01:-5>>
// CHECK-NEXT: return [[V1]], [[V0]]
func.func @multi_use(%x: !a_2x4) -> (!b_4x2, !a_4x2) {
  %0 = nn.transpose %x perm [1, 0] : (!a_2x4) -> !a_4x2
  %1 = quant.rescale %0 : !a_4x2 to !b_4x2
  return %1, %0 : !b_4x2, !a_4x2
}

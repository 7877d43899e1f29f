// RUN: qopt-opt %s -p "integerize,fold-rescale,place-rescales,dce" --verify-numerics=6 | filecheck %s
//
// There: not handled
// Here: a movement

!a_2x4 = tensor<2x4x!quant.uniform<i8:f32, 0.5:3>>
!b_2x4 = tensor<2x4x!quant.uniform<i8:f32, 0.25:-5>>
!f_2x4 = tensor<2x4xf32>

// CHECK-LABEL: func.func @once(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = quant.rescale [[X]] : {{.*}} to tensor<2x4x!quant.uniform<i8:f32, 2.500000e-01:-5>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = nn.flip [[V0]] axes [1] : {{.*}} -> tensor<2x4x!quant.uniform<i8:f32, 2.500000e-01:-5>>
// CHECK-NEXT: return [[V1]]
func.func @once(%x: !a_2x4) -> !b_2x4 {
  %0 = quant.rescale %x : !a_2x4 to !b_2x4
  %1 = nn.flip %0 axes [1] : (!b_2x4) -> !b_2x4
  return %1 : !b_2x4
}

// CHECK-LABEL: func.func @multi_use(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = quant.rescale [[X]] : {{.*}} to tensor<2x4x!quant.uniform<i8:f32, 2.500000e-01:-5>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = nn.flip [[V0]] axes [1] : {{.*}} -> tensor<2x4x!quant.uniform<i8:f32, 2.500000e-01:-5>>
// CHECK-NEXT: [[V2:%[a-z0-9_]+]] = nn.relu [[V1]] : {{.*}} -> tensor<2x4x!quant.uniform<i8:f32, 2.500000e-01:-5>>
// CHECK-NEXT: return [[V1]], [[V2]]
func.func @multi_use(%x: !a_2x4) -> (!b_2x4, !b_2x4) {
  %0 = quant.rescale %x : !a_2x4 to !b_2x4
  %1 = nn.flip %0 axes [1] : (!b_2x4) -> !b_2x4
  %2 = nn.relu %1 : (!b_2x4) -> !b_2x4
  return %1, %2 : !b_2x4, !b_2x4
}

// CHECK-LABEL: func.func @region(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.flip [[X]] axes [1] : {{.*}} -> tensor<2x4x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = quant.rescale [[V0]] : {{.*}} to tensor<2x4x!quant.uniform<i8:f32, 2.500000e-01:-5>>
// CHECK-NEXT: return [[V1]]
func.func @region(%x: !a_2x4) -> !b_2x4 {
  %0 = quant.dcast %x : !a_2x4 to !f_2x4
  %1 = nn.flip %0 axes [1] : (!f_2x4) -> !f_2x4
  %2 = quant.qcast %1 : !f_2x4 to !b_2x4
  return %2 : !b_2x4
}

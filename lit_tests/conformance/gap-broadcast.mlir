// RUN: qopt-opt %s -p "integerize,fold-rescale,place-rescales,dce" --verify-numerics=6 | filecheck %s
//
// There: not handled
// Here: a movement

!a_1x4 = tensor<1x4x!quant.uniform<i8:f32, 0.5:3>>
!b_1x4 = tensor<1x4x!quant.uniform<i8:f32, 0.25:-5>>
!b_3x4 = tensor<3x4x!quant.uniform<i8:f32, 0.25:-5>>
!f_1x4 = tensor<1x4xf32>
!f_3x4 = tensor<3x4xf32>

// CHECK-LABEL: func.func @once(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = quant.rescale [[X]] : {{.*}} to tensor<1x4x!quant.uniform<i8:f32, 2.500000e-01:-5>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = nn.expand [[V0]] shape [3, 4] : {{.*}} -> tensor<3x4x!quant.uniform<i8:f32, 2.500000e-01:-5>>
// CHECK-NEXT: return [[V1]]
func.func @once(%x: !a_1x4) -> !b_3x4 {
  %0 = quant.rescale %x : !a_1x4 to !b_1x4
  %1 = nn.expand %0 shape [3, 4] : (!b_1x4) -> !b_3x4
  return %1 : !b_3x4
}

// CHECK-LABEL: func.func @multi_use(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = quant.rescale [[X]] : {{.*}} to tensor<1x4x!quant.uniform<i8:f32, 2.500000e-01:-5>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = nn.expand [[V0]] shape [3, 4] : {{.*}} -> tensor<3x4x!quant.uniform<i8:f32, 2.500000e-01:-5>>
// CHECK-NEXT: [[V2:%[a-z0-9_]+]] = nn.relu [[V1]] : {{.*}} -> tensor<3x4x!quant.uniform<i8:f32, 2.500000e-01:-5>>
// CHECK-NEXT: return [[V1]], [[V2]]
func.func @multi_use(%x: !a_1x4) -> (!b_3x4, !b_3x4) {
  %0 = quant.rescale %x : !a_1x4 to !b_1x4
  %1 = nn.expand %0 shape [3, 4] : (!b_1x4) -> !b_3x4
  %2 = nn.relu %1 : (!b_3x4) -> !b_3x4
  return %1, %2 : !b_3x4, !b_3x4
}

// CHECK-LABEL: func.func @region(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = quant.rescale [[X]] : {{.*}} to tensor<1x4x!quant.uniform<i8:f32, 2.500000e-01:-5>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = nn.expand [[V0]] shape [3, 4] : {{.*}} -> tensor<3x4x!quant.uniform<i8:f32, 2.500000e-01:-5>>
// CHECK-NEXT: return [[V1]]
func.func @region(%x: !a_1x4) -> !b_3x4 {
  %0 = quant.dcast %x : !a_1x4 to !f_1x4
  %1 = nn.expand %0 shape [3, 4] : (!f_1x4) -> !f_3x4
  %2 = quant.qcast %1 : !f_3x4 to !b_3x4
  return %2 : !b_3x4
}

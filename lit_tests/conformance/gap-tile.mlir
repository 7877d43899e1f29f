// RUN: qopt-opt %s -p "integerize,fold-rescale,place-rescales,dce" --verify-numerics=6 | filecheck %s
//
// There: not handled
// Here: a movement

!a_2x2 = tensor<2x2x!quant.uniform<i8:f32, 0.5:3>>
!b_2x2 = tensor<2x2x!quant.uniform<i8:f32, 0.25:-5>>
!b_4x2 = tensor<4x2x!quant.uniform<i8:f32, 0.25:-5>>
!f_2x2 = tensor<2x2xf32>
!f_4x2 = tensor<4x2xf32>

// CHECK-LABEL: func.func @once(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = quant.rescale [[X]] : {{.*}} to tensor<2x2x!quant.uniform<i8:f32, 2.500000e-01:-5>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = nn.tile [[V0]] repeats [2, 1] : {{.*}} -> tensor<4x2x!quant.uniform<i8:f32, 2.500000e-01:-5>>
// CHECK-NEXT: return [[V1]]
func.func @once(%x: !a_2x2) -> !b_4x2 {
  %0 = quant.rescale %x : !a_2x2 to !b_2x2
  %1 = nn.tile %0 repeats [2, 1] : (!b_2x2) -> !b_4x2
  return %1 : !b_4x2
}

// CHECK-LABEL: func.func @multi_use(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = quant.rescale [[X]] : {{.*}} to tensor<2x2x!quant.uniform<i8:f32, 2.500000e-01:-5>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = nn.tile [[V0]] repeats [2, 1] : {{.*}} -> tensor<4x2x!quant.uniform<i8:f32, 2.500000e-01:-5>>
// CHECK-NEXT: [[V2:%[a-z0-9_]+]] = nn.relu [[V1]] : {{.*}} -> tensor<4x2x!quant.uniform<i8:f32, 2.500000e-01:-5>>
// CHECK-NEXT: return [[V1]], [[V2]]
func.func @multi_use(%x: !a_2x2) -> (!b_4x2, !b_4x2) {
  %0 = quant.rescale %x : !a_2x2 to !b_2x2
  %1 = nn.tile %0 repeats [2, 1] : (!b_2x2) -> !b_4x2
  %2 = nn.relu %1 : (!b_4x2) -> !b_4x2
  return %1, %2 : !b_4x2, !b_4x2
}

// CHECK-LABEL: func.func @region(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = quant.rescale [[X]] : {{.*}} to tensor<2x2x!quant.uniform<i8:f32, 2.500000e-01:-5>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = nn.tile [[V0]] repeats [2, 1] : {{.*}} -> tensor<4x2x!quant.uniform<i8:f32, 2.500000e-01:-5>>
// CHECK-NEXT: return [[V1]]
func.func @region(%x: !a_2x2) -> !b_4x2 {
  %0 = quant.dcast %x : !a_2x2 to !f_2x2
  %1 = nn.tile %0 repeats [2, 1] : (!f_2x2) -> !f_4x2
  %2 = quant.qcast %1 : !f_4x2 to !b_4x2
  return %2 : !b_4x2
}

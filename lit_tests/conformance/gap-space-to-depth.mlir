// RUN: qopt-opt %s -p "integerize,fold-rescale,place-rescales,dce" --verify-numerics=6 | filecheck %s
//
// There: not handled
// Here: a movement

!a_1x2x2x2 = tensor<1x2x2x2x!quant.uniform<i8:f32, 0.5:3>>
!b_1x2x2x2 = tensor<1x2x2x2x!quant.uniform<i8:f32, 0.25:-5>>
!b_1x8x1x1 = tensor<1x8x1x1x!quant.uniform<i8:f32, 0.25:-5>>
!f_1x2x2x2 = tensor<1x2x2x2xf32>
!f_1x8x1x1 = tensor<1x8x1x1xf32>

// CHECK-LABEL: func.func @once(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = quant.rescale [[X]] : {{.*}} to tensor<1x2x2x2x!quant.uniform<i8:f32, 2.500000e-01:-5>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = nn.space_to_depth [[V0]] block 2 : {{.*}} -> tensor<1x8x1x1x!quant.uniform<i8:f32, 2.500000e-01:-5>>
// CHECK-NEXT: return [[V1]]
func.func @once(%x: !a_1x2x2x2) -> !b_1x8x1x1 {
  %0 = quant.rescale %x : !a_1x2x2x2 to !b_1x2x2x2
  %1 = nn.space_to_depth %0 block 2 mode DCR : (!b_1x2x2x2) -> !b_1x8x1x1
  return %1 : !b_1x8x1x1
}

// CHECK-LABEL: func.func @multi_use(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = quant.rescale [[X]] : {{.*}} to tensor<1x2x2x2x!quant.uniform<i8:f32, 2.500000e-01:-5>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = nn.space_to_depth [[V0]] block 2 : {{.*}} -> tensor<1x8x1x1x!quant.uniform<i8:f32, 2.500000e-01:-5>>
// CHECK-NEXT: [[V2:%[a-z0-9_]+]] = nn.relu [[V1]] : {{.*}} -> tensor<1x8x1x1x!quant.uniform<i8:f32, 2.500000e-01:-5>>
// CHECK-NEXT: return [[V1]], [[V2]]
func.func @multi_use(%x: !a_1x2x2x2) -> (!b_1x8x1x1, !b_1x8x1x1) {
  %0 = quant.rescale %x : !a_1x2x2x2 to !b_1x2x2x2
  %1 = nn.space_to_depth %0 block 2 mode DCR : (!b_1x2x2x2) -> !b_1x8x1x1
  %2 = nn.relu %1 : (!b_1x8x1x1) -> !b_1x8x1x1
  return %1, %2 : !b_1x8x1x1, !b_1x8x1x1
}

// CHECK-LABEL: func.func @region(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.space_to_depth [[X]] block 2 : {{.*}} -> tensor<1x8x1x1x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = quant.rescale [[V0]] : {{.*}} to tensor<1x8x1x1x!quant.uniform<i8:f32, 2.500000e-01:-5>>
// CHECK-NEXT: return [[V1]]
func.func @region(%x: !a_1x2x2x2) -> !b_1x8x1x1 {
  %0 = quant.dcast %x : !a_1x2x2x2 to !f_1x2x2x2
  %1 = nn.space_to_depth %0 block 2 mode DCR : (!f_1x2x2x2) -> !f_1x8x1x1
  %2 = quant.qcast %1 : !f_1x8x1x1 to !b_1x8x1x1
  return %2 : !b_1x8x1x1
}

// RUN: qopt-opt %s -p "integerize,fold-rescale,place-rescales,dce" --verify-numerics=6 | filecheck %s
//
// There: not handled
// Here: a movement of two operands; where the update has qparams of its own, so has its place

!a_8 = tensor<1x8x!quant.uniform<i8:f32, 0.5:3>>
!a_2 = tensor<1x2x!quant.uniform<i8:f32, 0.5:3>>
!b_8 = tensor<1x8x!quant.uniform<i8:f32, 0.25:-5>>
!b_2 = tensor<1x2x!quant.uniform<i8:f32, 0.25:-5>>
!f_8 = tensor<1x8xf32>
!f_2 = tensor<1x2xf32>

// CHECK-LABEL: func.func @once(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-SAME: [[Y:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.insert [[X]], [[Y]] starts [0, 3] steps [1, 2] : {{.*}} -> tensor<1x8x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = quant.rescale [[V0]] : {{.*}} to tensor<1x8x!quant.uniform<i8:f32, 2.500000e-01:-5>>
// CHECK-NEXT: return [[V1]]
func.func @once(%x: !a_8, %y: !a_2) -> !b_8 {
  %0 = quant.rescale %x : !a_8 to !b_8
  %1 = quant.rescale %y : !a_2 to !b_2
  %2 = nn.insert %0, %1 starts [0, 3] steps [1, 2] : (!b_8, !b_2) -> !b_8
  return %2 : !b_8
}

// CHECK-LABEL: func.func @multi_use(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-SAME: [[Y:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = quant.rescale [[X]] : {{.*}} to tensor<1x8x!quant.uniform<i8:f32, 2.500000e-01:-5>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = quant.rescale [[Y]] : {{.*}} to tensor<1x2x!quant.uniform<i8:f32, 2.500000e-01:-5>>
// CHECK-NEXT: [[V2:%[a-z0-9_]+]] = nn.insert [[V0]], [[V1]] starts [0, 0] steps [1, 1] : {{.*}} -> tensor<1x8x!quant.uniform<i8:f32, 2.500000e-01:-5>>
// CHECK-NEXT: [[V3:%[a-z0-9_]+]] = nn.insert [[V0]], [[V1]] starts [0, 6] steps [1, 1] : {{.*}} -> tensor<1x8x!quant.uniform<i8:f32, 2.500000e-01:-5>>
// CHECK-NEXT: return [[V2]], [[V3]]
func.func @multi_use(%x: !a_8, %y: !a_2) -> (!b_8, !b_8) {
  %0 = quant.rescale %x : !a_8 to !b_8
  %1 = quant.rescale %y : !a_2 to !b_2
  %2 = nn.insert %0, %1 starts [0, 0] steps [1, 1] : (!b_8, !b_2) -> !b_8
  %3 = nn.insert %0, %1 starts [0, 6] steps [1, 1] : (!b_8, !b_2) -> !b_8
  return %2, %3 : !b_8, !b_8
}

// CHECK-LABEL: func.func @region(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-SAME: [[Y:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.insert [[X]], [[Y]] starts [0, 3] steps [1, 1] : {{.*}} -> tensor<1x8x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = quant.rescale [[V0]] : {{.*}} to tensor<1x8x!quant.uniform<i8:f32, 2.500000e-01:-5>>
// CHECK-NEXT: return [[V1]]
func.func @region(%x: !a_8, %y: !a_2) -> !b_8 {
  %0 = quant.dcast %x : !a_8 to !f_8
  %1 = quant.dcast %y : !a_2 to !f_2
  %2 = nn.insert %0, %1 starts [0, 3] steps [1, 1] : (!f_8, !f_2) -> !f_8
  %3 = quant.qcast %2 : !f_8 to !b_8
  return %3 : !b_8
}

// CHECK-LABEL: func.func @rows(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-SAME: [[Y:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.insert [[X]], [[Y]] starts [1, 0] steps [1, 1] : {{.*}} -> tensor<2x?x!quant.uniform<i8:f32:0, {5.000000e-01,2.500000e-01}>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = quant.rescale [[V0]] : {{.*}} to tensor<2x?x!quant.uniform<i8:f32:0, {1.000000e+00,2.000000e+00}>>
// CHECK-NEXT: return [[V1]]
func.func @rows(%x: tensor<2x?x!quant.uniform<i8:f32:0, {0.5, 0.25}>>, %y: tensor<1x?x!quant.uniform<i8:f32, 0.25>>) -> tensor<2x?x!quant.uniform<i8:f32:0, {1.0, 2.0}>> {
  %0 = quant.rescale %x : tensor<2x?x!quant.uniform<i8:f32:0, {0.5, 0.25}>> to tensor<2x?x!quant.uniform<i8:f32:0, {1.0, 2.0}>>
  %1 = quant.rescale %y : tensor<1x?x!quant.uniform<i8:f32, 0.25>> to tensor<1x?x!quant.uniform<i8:f32, 2.0>>
  %2 = nn.insert %0, %1 starts [1, 0] steps [1, 1] : (tensor<2x?x!quant.uniform<i8:f32:0, {1.0, 2.0}>>, tensor<1x?x!quant.uniform<i8:f32, 2.0>>) -> tensor<2x?x!quant.uniform<i8:f32:0, {1.0, 2.0}>>
  return %2 : tensor<2x?x!quant.uniform<i8:f32:0, {1.0, 2.0}>>
}

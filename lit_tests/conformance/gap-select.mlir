// RUN: qopt-opt %s -p "integerize,fold-rescale,place-rescales,dce" --verify-numerics=6 | filecheck %s
//
// There: not handled
// Here: a movement: one rescale of the result, or one of each side

!a_4 = tensor<4x!quant.uniform<i8:f32, 0.5:3>>
!b_4 = tensor<4x!quant.uniform<i8:f32, 0.25:-5>>
!o_4 = tensor<4xi1>

// CHECK-LABEL: func.func @once(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-SAME: [[Y:%[a-z0-9_]+]]:
// CHECK-SAME: [[Z:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.select [[X]], [[Y]], [[Z]] : {{.*}} -> tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = quant.rescale [[V0]] : {{.*}} to tensor<4x!quant.uniform<i8:f32, 2.500000e-01:-5>>
// CHECK-NEXT: return [[V1]]
func.func @once(%c: !o_4, %x: !a_4, %y: !a_4) -> !b_4 {
  %0 = quant.rescale %x : !a_4 to !b_4
  %1 = quant.rescale %y : !a_4 to !b_4
  %2 = nn.select %c, %0, %1 : (!o_4, !b_4, !b_4) -> !b_4
  return %2 : !b_4
}

// CHECK-LABEL: func.func @multi_use(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-SAME: [[Y:%[a-z0-9_]+]]:
// CHECK-SAME: [[Z:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = quant.rescale [[Y]] : {{.*}} to tensor<4x!quant.uniform<i8:f32, 2.500000e-01:-5>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = quant.rescale [[Z]] : {{.*}} to tensor<4x!quant.uniform<i8:f32, 2.500000e-01:-5>>
// CHECK-NEXT: [[V2:%[a-z0-9_]+]] = nn.select [[X]], [[V0]], [[V1]] : {{.*}} -> tensor<4x!quant.uniform<i8:f32, 2.500000e-01:-5>>
// CHECK-NEXT: [[V3:%[a-z0-9_]+]] = nn.select [[X]], [[V1]], [[V0]] : {{.*}} -> tensor<4x!quant.uniform<i8:f32, 2.500000e-01:-5>>
// CHECK-NEXT: return [[V2]], [[V3]]
func.func @multi_use(%c: !o_4, %x: !a_4, %y: !a_4) -> (!b_4, !b_4) {
  %0 = quant.rescale %x : !a_4 to !b_4
  %1 = quant.rescale %y : !a_4 to !b_4
  %2 = nn.select %c, %0, %1 : (!o_4, !b_4, !b_4) -> !b_4
  %3 = nn.select %c, %1, %0 : (!o_4, !b_4, !b_4) -> !b_4
  return %2, %3 : !b_4, !b_4
}

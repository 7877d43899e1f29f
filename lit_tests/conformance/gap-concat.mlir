// RUN: qopt-opt %s -p "integerize,fold-rescale,place-rescales,dce" --verify-numerics=6 | filecheck %s
//
// There: not handled
// Here: rescales pass it when all come from one type; else each input keeps its own

!a_2 = tensor<2x!quant.uniform<i8:f32, 0.5:3>>
!a_4 = tensor<4x!quant.uniform<i8:f32, 0.5:3>>
!b_2 = tensor<2x!quant.uniform<i8:f32, 0.25:-5>>
!b_4 = tensor<4x!quant.uniform<i8:f32, 0.25:-5>>
!b_6 = tensor<6x!quant.uniform<i8:f32, 0.25:-5>>
!c_2 = tensor<2x!quant.uniform<i8:f32, 1.0>>

// CHECK-LABEL: func.func @once(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-SAME: [[Y:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.concat [[X]], [[Y]] axis 0 : {{.*}} -> tensor<6x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = quant.rescale [[V0]] : {{.*}} to tensor<6x!quant.uniform<i8:f32, 2.500000e-01:-5>>
// CHECK-NEXT: return [[V1]]
func.func @once(%x: !a_4, %y: !a_2) -> !b_6 {
  %0 = quant.rescale %x : !a_4 to !b_4
  %1 = quant.rescale %y : !a_2 to !b_2
  %2 = nn.concat %0, %1 axis 0 : (!b_4, !b_2) -> !b_6
  return %2 : !b_6
}

// CHECK-LABEL: func.func @unequal(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-SAME: [[Y:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = quant.rescale [[X]] : {{.*}} to tensor<4x!quant.uniform<i8:f32, 2.500000e-01:-5>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = quant.rescale [[Y]] : {{.*}} to tensor<2x!quant.uniform<i8:f32, 2.500000e-01:-5>>
// CHECK-NEXT: [[V2:%[a-z0-9_]+]] = nn.concat [[V0]], [[V1]] axis 0 : {{.*}} -> tensor<6x!quant.uniform<i8:f32, 2.500000e-01:-5>>
// CHECK-NEXT: return [[V2]]
func.func @unequal(%x: !a_4, %y: !c_2) -> !b_6 {
  %0 = quant.rescale %x : !a_4 to !b_4
  %1 = quant.rescale %y : !c_2 to !b_2
  %2 = nn.concat %0, %1 axis 0 : (!b_4, !b_2) -> !b_6
  return %2 : !b_6
}

// CHECK-LABEL: func.func @multi_use(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-SAME: [[Y:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = quant.rescale [[X]] : {{.*}} to tensor<4x!quant.uniform<i8:f32, 2.500000e-01:-5>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = quant.rescale [[Y]] : {{.*}} to tensor<2x!quant.uniform<i8:f32, 2.500000e-01:-5>>
// CHECK-NEXT: [[V2:%[a-z0-9_]+]] = nn.concat [[V0]], [[V1]] axis 0 : {{.*}} -> tensor<6x!quant.uniform<i8:f32, 2.500000e-01:-5>>
// CHECK-NEXT: [[V3:%[a-z0-9_]+]] = nn.concat [[V1]], [[V0]] axis 0 : {{.*}} -> tensor<6x!quant.uniform<i8:f32, 2.500000e-01:-5>>
// CHECK-NEXT: return [[V2]], [[V3]]
func.func @multi_use(%x: !a_4, %y: !a_2) -> (!b_6, !b_6) {
  %0 = quant.rescale %x : !a_4 to !b_4
  %1 = quant.rescale %y : !a_2 to !b_2
  %2 = nn.concat %0, %1 axis 0 : (!b_4, !b_2) -> !b_6
  %3 = nn.concat %1, %0 axis 0 : (!b_2, !b_4) -> !b_6
  return %2, %3 : !b_6, !b_6
}

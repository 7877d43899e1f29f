// RUN: qopt-opt %s -p "integerize,fold-rescale" --verify-numerics=6 | filecheck %s
//
// There: Q(Concat(DQ ..)) = Concat(RS ..), all used once
// Here: the same whatever the uses; the rescales that remain are those whose types differ

!a_4 = tensor<4x!quant.uniform<i8:f32, 0.5:3>>
!a_6 = tensor<6x!quant.uniform<i8:f32, 0.5:3>>
!b_2 = tensor<2x!quant.uniform<i8:f32, 0.25:-5>>
!c_4 = tensor<4x!quant.uniform<i8:f32, 1.0>>
!f_2 = tensor<2xf32>
!f_4 = tensor<4xf32>
!f_6 = tensor<6xf32>

// CHECK-LABEL: func.func @once(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-SAME: [[Y:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = quant.rescale [[Y]] : {{.*}} to tensor<2x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = nn.concat [[X]], [[V0]] axis 0 : {{.*}} -> tensor<6x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT: return [[V1]]
func.func @once(%x: !a_4, %y: !b_2) -> !a_6 {
  %0 = quant.dcast %x : !a_4 to !f_4
  %1 = quant.dcast %y : !b_2 to !f_2
  %2 = nn.concat %0, %1 axis 0 : (!f_4, !f_2) -> !f_6
  %3 = quant.qcast %2 : !f_6 to !a_6
  return %3 : !a_6
}

// CHECK-LABEL: func.func @multi_use(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-SAME: [[Y:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = quant.rescale [[Y]] : {{.*}} to tensor<2x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = nn.concat [[X]], [[V0]] axis 0 : {{.*}} -> tensor<6x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT: [[V2:%[a-z0-9_]+]] = quant.rescale [[X]] : {{.*}} to tensor<4x!quant.uniform<i8:f32, 1.000000e+00>>
// CHECK-NEXT: return [[V1]], [[V2]]
func.func @multi_use(%x: !a_4, %y: !b_2) -> (!a_6, !c_4) {
  %0 = quant.dcast %x : !a_4 to !f_4
  %1 = quant.dcast %y : !b_2 to !f_2
  %2 = nn.concat %0, %1 axis 0 : (!f_4, !f_2) -> !f_6
  %3 = quant.qcast %2 : !f_6 to !a_6
  %4 = quant.qcast %0 : !f_4 to !c_4
  return %3, %4 : !a_6, !c_4
}

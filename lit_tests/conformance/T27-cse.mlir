// RUN: qopt-opt %s -p "cse" --verify-numerics=6 | filecheck %s
//
// There: equal Q, DQ, RS and constants are one
// Here: the same, with rounding, names and keys considered

!a_4 = tensor<4x!quant.uniform<i8:f32, 0.5:3>>
!b_4 = tensor<4x!quant.uniform<i8:f32, 0.25:-5>>
!f_4 = tensor<4xf32>

// CHECK-LABEL: func.func @once(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = quant.qcast [[X]] : {{.*}} to tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT: return [[V0]], [[V0]]
func.func @once(%x: !f_4) -> (!a_4, !a_4) {
  %0 = quant.qcast %x : !f_4 to !a_4
  %1 = quant.qcast %x : !f_4 to !a_4
  return %0, %1 : !a_4, !a_4
}

// CHECK-LABEL: func.func @rescales(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = quant.rescale [[X]] : {{.*}} to tensor<4x!quant.uniform<i8:f32, 2.500000e-01:-5>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = quant.rescale [[X]] rounding half_away : {{.*}} to tensor<4x!quant.uniform<i8:f32, 2.500000e-01:-5>>
// CHECK-NEXT: return [[V0]], [[V0]], [[V1]]
func.func @rescales(%x: !a_4) -> (!b_4, !b_4, !b_4) {
  %0 = quant.rescale %x : !a_4 to !b_4
  %1 = quant.rescale %x : !a_4 to !b_4
  %2 = quant.rescale %x rounding half_away : !a_4 to !b_4
  return %0, %1, %2 : !b_4, !b_4, !b_4
}

// CHECK-LABEL: func.func @multi_use(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = quant.dcast [[X]] : {{.*}} to tensor<4xf32>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = nn.relu [[V0]] : {{.*}} -> tensor<4xf32>
// CHECK-NEXT: return [[V0]], [[V1]], [[V1]]
func.func @multi_use(%x: !a_4) -> (!f_4, !f_4, !f_4) {
  %0 = quant.dcast %x : !a_4 to !f_4
  %1 = quant.dcast %x : !a_4 to !f_4
  %2 = nn.relu %0 : (!f_4) -> !f_4
  %3 = nn.relu %1 : (!f_4) -> !f_4
  return %0, %2, %3 : !f_4, !f_4, !f_4
}

// CHECK-LABEL: func.func @constants(
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.constant dense<3> : tensor<4xi8> : tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT: return [[V0]], [[V0]]
func.func @constants() -> (!a_4, !a_4) {
  %0 = nn.constant dense<3> : tensor<4xi8> : !a_4
  %1 = nn.constant dense<3> : tensor<4xi8> : !a_4
  return %0, %1 : !a_4, !a_4
}

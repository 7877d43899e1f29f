// RUN: qopt-opt %s -p "integerize,form-tables,dce" --verify-numerics=6 | filecheck %s
//
// There: not handled
// Here: any elementwise chain on codes of at most 8 bits is one table, exact; rescales go into
//   it

!f_4 = tensor<4xf32>
!q_4 = tensor<4x!quant.uniform<i4:f32, 0.5:1>>
!y_4 = tensor<4x!quant.uniform<i4:f32, 0.25:-2>>

// CHECK-LABEL: func.func @once(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.constant dense<[-2, -2, -2, -3, -3, -3, -3, -3, -3, -2, -1, 1, 3, 5, 7, 7]> : tensor<16xi4> : tensor<16x!quant.uniform<i4:f32, 2.500000e-01:-2>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = nn.table [[X]], [[V0]] : {{.*}} -> tensor<4x!quant.uniform<i4:f32, 2.500000e-01:-2>>
// CHECK-NEXT: return [[V1]]
func.func @once(%x: !q_4) -> !y_4 {
  %0 = quant.dcast %x : !q_4 to !f_4
  %1 = nn.sigmoid %0 : (!f_4) -> !f_4
  %2 = nn.mul %0, %1 : (!f_4, !f_4) -> !f_4
  %3 = quant.qcast %2 : !f_4 to !y_4
  return %3 : !y_4
}

// CHECK-LABEL: func.func @with_rescales(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.constant dense<[-6, -6, -6, -6, -6, -6, -6, -6, -4, -2, 0, 2, 2, 2, 2, 2]> : tensor<16xi4> : tensor<16x!quant.uniform<i4:f32, 2.500000e-01:-2>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = nn.table [[X]], [[V0]] : {{.*}} -> tensor<4x!quant.uniform<i4:f32, 2.500000e-01:-2>>
// CHECK-NEXT: return [[V1]]
func.func @with_rescales(%x: !q_4) -> !y_4 {
  %0 = quant.rescale %x : !q_4 to !y_4
  %1 = nn.tanh %0 : (!y_4) -> !q_4
  %2 = quant.rescale %1 : !q_4 to !y_4
  return %2 : !y_4
}

// CHECK-LABEL: func.func @multi_use(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.constant dense<[-6, -6, -6, -6, -6, -6, -6, -5, -4, -2, 0, 1, 2, 2, 2, 2]> : tensor<16xi4> : tensor<16x!quant.uniform<i4:f32, 2.500000e-01:-2>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = nn.table [[X]], [[V0]] : {{.*}} -> tensor<4x!quant.uniform<i4:f32, 2.500000e-01:-2>>
// CHECK-NEXT: [[V2:%[a-z0-9_]+]] = nn.constant dense<[3, 3, 3, 3, 3, 3, 3, 3, 5, 5, 5, 6, 6, 6, 6, 6]> : tensor<16xi4> : tensor<16x!quant.uniform<i4:f32, 2.500000e-01:-2>>
// CHECK-NEXT: [[V3:%[a-z0-9_]+]] = nn.table [[X]], [[V2]] : {{.*}} -> tensor<4x!quant.uniform<i4:f32, 2.500000e-01:-2>>
// CHECK-NEXT: return [[V1]], [[V3]]
func.func @multi_use(%x: !q_4) -> (!y_4, !y_4) {
  %0 = nn.tanh %x : (!q_4) -> !y_4
  %1 = nn.sigmoid %0 : (!y_4) -> !y_4
  %2 = nn.exp %1 : (!y_4) -> !y_4
  return %0, %2 : !y_4, !y_4
}

// RUN: qopt-opt %s -p "fold-interface,dce" --verify-numerics=6 | filecheck %s
//
// There: placeholders and saves take the quantized type, one user, on request
// Here: fold-interface, on request; the old type is kept as a note

!a_4 = tensor<4x!quant.uniform<i8:f32, 0.5:3>>
!f_4 = tensor<4xf32>

// CHECK-LABEL: func.func @once(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.relu [[X]] : {{.*}} -> tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT: return [[V0]]
func.func @once(%x: !f_4) -> !f_4 {
  %0 = quant.qcast %x : !f_4 to !a_4
  %1 = nn.relu %0 : (!a_4) -> !a_4
  %2 = quant.dcast %1 : !a_4 to !f_4
  return %2 : !f_4
}

// CHECK-LABEL: func.func @multi_use(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.relu [[X]] : {{.*}} -> tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT: return [[X]], [[V0]]
func.func @multi_use(%x: !f_4) -> (!a_4, !a_4) {
  %0 = quant.qcast %x : !f_4 to !a_4
  %1 = quant.qcast %x : !f_4 to !a_4
  %2 = nn.relu %1 : (!a_4) -> !a_4
  return %0, %2 : !a_4, !a_4
}

// CHECK-LABEL: func.func @also_float(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = quant.qcast [[X]] : {{.*}} to tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT: return [[V0]], [[X]]
func.func @also_float(%x: !f_4) -> (!a_4, !f_4) {
  %0 = quant.qcast %x : !f_4 to !a_4
  return %0, %x : !a_4, !f_4
}

// RUN: qopt-opt %s -p "integerize,dce" --verify-numerics=6 | filecheck %s
//
// There: DQ-Swish-Q = a table, interpolated or sampled; by backend
// Here: the quantized op, exact by definition; tables by form-tables

!a_4 = tensor<4x!quant.uniform<i8:f32, 0.5:3>>
!b_4 = tensor<4x!quant.uniform<i8:f32, 0.25:-5>>
!f_4 = tensor<4xf32>

// CHECK-LABEL: func.func @swish(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.swish [[X]] : {{.*}} -> tensor<4x!quant.uniform<i8:f32, 2.500000e-01:-5>>
// CHECK-NEXT: return [[V0]]
func.func @swish(%x: !a_4) -> !b_4 {
  %0 = quant.dcast %x : !a_4 to !f_4
  %1 = nn.swish %0 : (!f_4) -> !f_4
  %2 = quant.qcast %1 : !f_4 to !b_4
  return %2 : !b_4
}

// CHECK-LABEL: func.func @hard_swish(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.hard_swish [[X]] : {{.*}} -> tensor<4x!quant.uniform<i8:f32, 2.500000e-01:-5>>
// CHECK-NEXT: return [[V0]]
func.func @hard_swish(%x: !a_4) -> !b_4 {
  %0 = quant.dcast %x : !a_4 to !f_4
  %1 = nn.hard_swish %0 : (!f_4) -> !f_4
  %2 = quant.qcast %1 : !f_4 to !b_4
  return %2 : !b_4
}

// CHECK-LABEL: func.func @gelu(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.gelu [[X]] : {{.*}} -> tensor<4x!quant.uniform<i8:f32, 2.500000e-01:-5>>
// CHECK-NEXT: return [[V0]]
func.func @gelu(%x: !a_4) -> !b_4 {
  %0 = quant.dcast %x : !a_4 to !f_4
  %1 = nn.gelu %0 : (!f_4) -> !f_4
  %2 = quant.qcast %1 : !f_4 to !b_4
  return %2 : !b_4
}

// CHECK-LABEL: func.func @erf(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.erf [[X]] : {{.*}} -> tensor<4x!quant.uniform<i8:f32, 2.500000e-01:-5>>
// CHECK-NEXT: return [[V0]]
func.func @erf(%x: !a_4) -> !b_4 {
  %0 = quant.dcast %x : !a_4 to !f_4
  %1 = nn.erf %0 : (!f_4) -> !f_4
  %2 = quant.qcast %1 : !f_4 to !b_4
  return %2 : !b_4
}

// CHECK-LABEL: func.func @multi_use(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = quant.dcast [[X]] : {{.*}} to tensor<4xf32>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = nn.swish [[X]] : {{.*}} -> tensor<4x!quant.uniform<i8:f32, 2.500000e-01:-5>>
// CHECK-NEXT: return [[V1]], [[V0]]
func.func @multi_use(%x: !a_4) -> (!b_4, !f_4) {
  %0 = quant.dcast %x : !a_4 to !f_4
  %1 = nn.swish %0 : (!f_4) -> !f_4
  %2 = quant.qcast %1 : !f_4 to !b_4
  return %2, %0 : !b_4, !f_4
}

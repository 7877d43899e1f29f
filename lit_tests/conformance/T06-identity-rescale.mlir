// RUN: qopt-opt %s -p "fold-rescale" --verify-numerics=6 | filecheck %s
//
// There: RS to the same type = nothing
// Here: the same

!a_4 = tensor<4x!quant.uniform<i8:f32, 0.5:3>>
!w_4 = tensor<4x!quant.uniform<i16:f32, 0.25>>

// CHECK-LABEL: func.func @once(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: return [[X]]
func.func @once(%x: !a_4) -> !a_4 {
  %0 = quant.rescale %x : !a_4 to !a_4
  return %0 : !a_4
}

// CHECK-LABEL: func.func @multi_use(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.relu [[X]] : {{.*}} -> tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT: return [[X]], [[V0]]
func.func @multi_use(%x: !a_4) -> (!a_4, !a_4) {
  %0 = quant.rescale %x : !a_4 to !a_4
  %1 = nn.relu %0 : (!a_4) -> !a_4
  return %0, %1 : !a_4, !a_4
}

// CHECK-LABEL: func.func @there_and_back(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: return [[X]]
func.func @there_and_back(%x: !a_4) -> !a_4 {
  %0 = quant.rescale %x : !a_4 to !w_4
  %1 = quant.rescale %0 : !w_4 to !a_4
  return %1 : !a_4
}

// RUN: qopt-opt %s -p "fold-rescale" --verify-numerics=6 | filecheck %s
// RUN: qopt-opt %s -p "fold-rescale{numerics=relaxed}" --verify-numerics=6 | filecheck %s --check-prefix=WEAKER
//
// There: DQ(Q x) = x, by default
// Here: relaxed: it drops a rounding and a clip, so never unasked

!a_4 = tensor<4x!quant.uniform<i8:f32, 0.5:3>>
!f_4 = tensor<4xf32>

// CHECK-LABEL: func.func @once(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = quant.qcast [[X]] : {{.*}} to tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = quant.dcast [[V0]] : {{.*}} to tensor<4xf32>
// CHECK-NEXT: return [[V1]]
// WEAKER-LABEL: func.func @once(
// WEAKER-SAME: [[X:%[a-z0-9_]+]]:
// WEAKER-NEXT: return [[X]]
func.func @once(%x: !f_4) -> !f_4 {
  %0 = quant.qcast %x : !f_4 to !a_4
  %1 = quant.dcast %0 : !a_4 to !f_4
  return %1 : !f_4
}

// CHECK-LABEL: func.func @multi_use(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = quant.qcast [[X]] : {{.*}} to tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = quant.dcast [[V0]] : {{.*}} to tensor<4xf32>
// CHECK-NEXT: return [[V1]], [[V0]]
// WEAKER-LABEL: func.func @multi_use(
// WEAKER-SAME: [[X:%[a-z0-9_]+]]:
// WEAKER-NEXT: [[V0:%[a-z0-9_]+]] = quant.qcast [[X]] : {{.*}} to tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>
// WEAKER-NEXT: return [[X]], [[V0]]
func.func @multi_use(%x: !f_4) -> (!f_4, !a_4) {
  %0 = quant.qcast %x : !f_4 to !a_4
  %1 = quant.dcast %0 : !a_4 to !f_4
  return %1, %0 : !f_4, !a_4
}

// RUN: qopt-opt %s -p "fold-rescale" --verify-numerics=6 | filecheck %s
//
// There: Q(DQ x) = x for equal types
// Here: the same, where the codes are inside their bounds and float32 is wide enough

!a_4 = tensor<4x!quant.uniform<i8:f32, 0.5:3>>
!f_1x4x2x2 = tensor<1x4x2x2xf32>
!f_4 = tensor<4xf32>
!f_d = tensor<?xf32>
!n_d = tensor<?x!quant.uniform<i8<0:100>:f32, 0.5>>
!p_1x4x2x2 = tensor<1x4x2x2x!quant.uniform<i8:f32:1, {0.5:3,0.25,0.125:-7,1.0}>>

// CHECK-LABEL: func.func @once(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: return [[X]]
func.func @once(%x: !a_4) -> !a_4 {
  %0 = quant.dcast %x : !a_4 to !f_4
  %1 = quant.qcast %0 : !f_4 to !a_4
  return %1 : !a_4
}

// CHECK-LABEL: func.func @multi_use(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = quant.dcast [[X]] : {{.*}} to tensor<4xf32>
// CHECK-NEXT: return [[X]], [[V0]]
func.func @multi_use(%x: !a_4) -> (!a_4, !f_4) {
  %0 = quant.dcast %x : !a_4 to !f_4
  %1 = quant.qcast %0 : !f_4 to !a_4
  return %1, %0 : !a_4, !f_4
}

// CHECK-LABEL: func.func @per_axis(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: return [[X]]
func.func @per_axis(%x: !p_1x4x2x2) -> !p_1x4x2x2 {
  %0 = quant.dcast %x : !p_1x4x2x2 to !f_1x4x2x2
  %1 = quant.qcast %0 : !f_1x4x2x2 to !p_1x4x2x2
  return %1 : !p_1x4x2x2
}

// CHECK-LABEL: func.func @codes_outside_the_bounds(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = quant.dcast [[X]] : {{.*}} to tensor<?xf32>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = quant.qcast [[V0]] : {{.*}} to tensor<?x!quant.uniform<i8<0:100>:f32, 5.000000e-01>>
// CHECK-NEXT: return [[V1]]
func.func @codes_outside_the_bounds(%x: !n_d) -> !n_d {
  %0 = quant.dcast %x : !n_d to !f_d
  %1 = quant.qcast %0 : !f_d to !n_d
  return %1 : !n_d
}

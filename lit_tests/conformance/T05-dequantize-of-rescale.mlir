// RUN: qopt-opt %s -p "fold-rescale" --verify-numerics=6 | filecheck %s
// RUN: qopt-opt %s -p "fold-rescale{numerics=relaxed}" --verify-numerics=6 | filecheck %s --check-prefix=WEAKER
//
// There: DQ(RS x) = DQ x, by default
// Here: relaxed, but for a rescale that only renumbers codes

!a_4 = tensor<4x!quant.uniform<i8:f32, 0.5:3>>
!b_4 = tensor<4x!quant.uniform<i8:f32, 0.25:-5>>
!f_4 = tensor<4xf32>
!u_4 = tensor<4x!quant.uniform<u8:f32, 0.5:131>>

// CHECK-LABEL: func.func @once(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = quant.rescale [[X]] : {{.*}} to tensor<4x!quant.uniform<i8:f32, 2.500000e-01:-5>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = quant.dcast [[V0]] : {{.*}} to tensor<4xf32>
// CHECK-NEXT: return [[V1]]
// WEAKER-LABEL: func.func @once(
// WEAKER-SAME: [[X:%[a-z0-9_]+]]:
// WEAKER-NEXT: [[V0:%[a-z0-9_]+]] = quant.dcast [[X]] : {{.*}} to tensor<4xf32>
// WEAKER-NEXT: return [[V0]]
func.func @once(%x: !a_4) -> !f_4 {
  %0 = quant.rescale %x : !a_4 to !b_4
  %1 = quant.dcast %0 : !b_4 to !f_4
  return %1 : !f_4
}

// CHECK-LABEL: func.func @renumbers(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = quant.dcast [[X]] : {{.*}} to tensor<4xf32>
// CHECK-NEXT: return [[V0]]
func.func @renumbers(%x: !a_4) -> !f_4 {
  %0 = quant.rescale %x : !a_4 to !u_4
  %1 = quant.dcast %0 : !u_4 to !f_4
  return %1 : !f_4
}

// CHECK-LABEL: func.func @multi_use(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = quant.rescale [[X]] : {{.*}} to tensor<4x!quant.uniform<i8:f32, 2.500000e-01:-5>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = quant.dcast [[V0]] : {{.*}} to tensor<4xf32>
// CHECK-NEXT: return [[V1]], [[V0]]
// WEAKER-LABEL: func.func @multi_use(
// WEAKER-SAME: [[X:%[a-z0-9_]+]]:
// WEAKER-NEXT: [[V0:%[a-z0-9_]+]] = quant.rescale [[X]] : {{.*}} to tensor<4x!quant.uniform<i8:f32, 2.500000e-01:-5>>
// WEAKER-NEXT: [[V1:%[a-z0-9_]+]] = quant.dcast [[X]] : {{.*}} to tensor<4xf32>
// WEAKER-NEXT: return [[V1]], [[V0]]
func.func @multi_use(%x: !a_4) -> (!f_4, !b_4) {
  %0 = quant.rescale %x : !a_4 to !b_4
  %1 = quant.dcast %0 : !b_4 to !f_4
  return %1, %0 : !f_4, !b_4
}

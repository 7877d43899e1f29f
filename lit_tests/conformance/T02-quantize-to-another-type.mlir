// RUN: qopt-opt %s -p "fold-rescale" --verify-numerics=6 | filecheck %s
//
// There: Q(DQ x) = RS x
// Here: the same: exact in the reals

!a_4 = tensor<4x!quant.uniform<i8:f32, 0.5:3>>
!b_4 = tensor<4x!quant.uniform<i8:f32, 0.25:-5>>
!c_4 = tensor<4x!quant.uniform<i8:f32, 1.0>>
!f_4 = tensor<4xf32>
!u_4 = tensor<4x!quant.uniform<u8:f32, 0.5:131>>

// CHECK-LABEL: func.func @once(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = quant.rescale [[X]] : {{.*}} to tensor<4x!quant.uniform<i8:f32, 2.500000e-01:-5>>
// CHECK-NEXT: return [[V0]]
func.func @once(%x: !a_4) -> !b_4 {
  %0 = quant.dcast %x : !a_4 to !f_4
  %1 = quant.qcast %0 : !f_4 to !b_4
  return %1 : !b_4
}

// CHECK-LABEL: func.func @multi_use(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = quant.dcast [[X]] : {{.*}} to tensor<4xf32>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = quant.rescale [[X]] : {{.*}} to tensor<4x!quant.uniform<i8:f32, 2.500000e-01:-5>>
// CHECK-NEXT: [[V2:%[a-z0-9_]+]] = quant.rescale [[X]] : {{.*}} to tensor<4x!quant.uniform<i8:f32, 1.000000e+00>>
// CHECK-NEXT: return [[V1]], [[V2]], [[V0]]
func.func @multi_use(%x: !a_4) -> (!b_4, !c_4, !f_4) {
  %0 = quant.dcast %x : !a_4 to !f_4
  %1 = quant.qcast %0 : !f_4 to !b_4
  %2 = quant.qcast %0 : !f_4 to !c_4
  return %1, %2, %0 : !b_4, !c_4, !f_4
}

// CHECK-LABEL: func.func @signed_to_unsigned(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = quant.rescale [[X]] : {{.*}} to tensor<4x!quant.uniform<u8:f32, 5.000000e-01:131>>
// CHECK-NEXT: return [[V0]]
func.func @signed_to_unsigned(%x: !a_4) -> !u_4 {
  %0 = quant.dcast %x : !a_4 to !f_4
  %1 = quant.qcast %0 : !f_4 to !u_4
  return %1 : !u_4
}

// RUN: qopt-opt %s -p "integerize,fold-rescale,place-rescales,dce" --verify-numerics=6 | filecheck %s
//
// There: one element kind in a graph
// Here: i8, u8, i16 and floats side by side

!a_4 = tensor<4x!quant.uniform<i8:f32, 0.5:3>>
!f_4 = tensor<4xf32>
!u_4 = tensor<4x!quant.uniform<u8:f32, 0.5:131>>
!v_4 = tensor<4x!quant.uniform<u8:f32, 0.5>>
!w_4 = tensor<4x!quant.uniform<i16:f32, 0.25>>

// CHECK-LABEL: func.func @once(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-SAME: [[Y:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.add [[X]], [[Y]] : {{.*}} -> tensor<4x!quant.uniform<i16:f32, 2.500000e-01>>
// CHECK-NEXT: return [[V0]]
func.func @once(%x: !a_4, %y: !v_4) -> !w_4 {
  %0 = quant.dcast %x : !a_4 to !f_4
  %1 = quant.dcast %y : !v_4 to !f_4
  %2 = nn.add %0, %1 : (!f_4, !f_4) -> !f_4
  %3 = quant.qcast %2 : !f_4 to !w_4
  return %3 : !w_4
}

// CHECK-LABEL: func.func @multi_use(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = quant.rescale [[X]] : {{.*}} to tensor<4x!quant.uniform<u8:f32, 5.000000e-01:131>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = quant.rescale [[X]] : {{.*}} to tensor<4x!quant.uniform<i16:f32, 2.500000e-01>>
// CHECK-NEXT: [[V2:%[a-z0-9_]+]] = quant.dcast [[X]] : {{.*}} to tensor<4xf32>
// CHECK-NEXT: return [[V0]], [[V1]], [[V2]]
func.func @multi_use(%x: !a_4) -> (!u_4, !w_4, !f_4) {
  %0 = quant.rescale %x : !a_4 to !u_4
  %1 = quant.rescale %0 : !u_4 to !w_4
  %2 = quant.dcast %0 : !u_4 to !f_4
  return %0, %1, %2 : !u_4, !w_4, !f_4
}

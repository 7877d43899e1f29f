// RUN: qopt-opt %s -p "integerize,fold-rescale,place-rescales,dce" --verify-numerics=6 | filecheck %s
//
// There: not handled
// Here: a requantizing op: rescales are absorbed, float regions become integer

!a_2x4 = tensor<2x4x!quant.uniform<i8:f32, 0.5:3>>
!f_2x4 = tensor<2x4xf32>
!h_2x4 = tensor<2x4x!quant.uniform<i8:f32, 0.0078125>>
!w_2x4 = tensor<2x4x!quant.uniform<i16:f32, 0.25>>

// CHECK-LABEL: func.func @once(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.softmax [[X]] axis 1 : {{.*}} -> tensor<2x4x!quant.uniform<i8:f32, 7.812500e-03>>
// CHECK-NEXT: return [[V0]]
func.func @once(%x: !a_2x4) -> !h_2x4 {
  %0 = quant.rescale %x : !a_2x4 to !w_2x4
  %1 = nn.softmax %0 axis 1 : (!w_2x4) -> !h_2x4
  return %1 : !h_2x4
}

// CHECK-LABEL: func.func @region(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.softmax [[X]] axis 1 : {{.*}} -> tensor<2x4x!quant.uniform<i8:f32, 7.812500e-03>>
// CHECK-NEXT: return [[V0]]
func.func @region(%x: !a_2x4) -> !h_2x4 {
  %0 = quant.dcast %x : !a_2x4 to !f_2x4
  %1 = nn.softmax %0 axis 1 : (!f_2x4) -> !f_2x4
  %2 = quant.qcast %1 : !f_2x4 to !h_2x4
  return %2 : !h_2x4
}

// CHECK-LABEL: func.func @multi_use(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = quant.rescale [[X]] : {{.*}} to tensor<2x4x!quant.uniform<i16:f32, 2.500000e-01>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = nn.softmax [[V0]] axis 1 : {{.*}} -> tensor<2x4x!quant.uniform<i8:f32, 7.812500e-03>>
// CHECK-NEXT: return [[V1]], [[V0]]
func.func @multi_use(%x: !a_2x4) -> (!h_2x4, !w_2x4) {
  %0 = quant.rescale %x : !a_2x4 to !w_2x4
  %1 = nn.softmax %0 axis 1 : (!w_2x4) -> !h_2x4
  return %1, %0 : !h_2x4, !w_2x4
}

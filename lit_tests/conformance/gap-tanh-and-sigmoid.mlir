// RUN: qopt-opt %s -p "integerize,fold-rescale,place-rescales,dce" --verify-numerics=6 | filecheck %s
//
// There: a table of its own in the quantizer; no rescale passes
// Here: requantizing ops: rescales are absorbed on both sides

!a_4 = tensor<4x!quant.uniform<i8:f32, 0.5:3>>
!u_4 = tensor<4x!quant.uniform<u8:f32, 0.5:131>>
!w_4 = tensor<4x!quant.uniform<i16:f32, 0.25>>

// CHECK-LABEL: func.func @tanh(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.tanh [[X]] : {{.*}} -> tensor<4x!quant.uniform<u8:f32, 5.000000e-01:131>>
// CHECK-NEXT: return [[V0]]
func.func @tanh(%x: !a_4) -> !u_4 {
  %0 = quant.rescale %x : !a_4 to !w_4
  %1 = nn.tanh %0 : (!w_4) -> !a_4
  %2 = quant.rescale %1 : !a_4 to !u_4
  return %2 : !u_4
}

// CHECK-LABEL: func.func @sigmoid(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.sigmoid [[X]] : {{.*}} -> tensor<4x!quant.uniform<u8:f32, 5.000000e-01:131>>
// CHECK-NEXT: return [[V0]]
func.func @sigmoid(%x: !a_4) -> !u_4 {
  %0 = quant.rescale %x : !a_4 to !w_4
  %1 = nn.sigmoid %0 : (!w_4) -> !a_4
  %2 = quant.rescale %1 : !a_4 to !u_4
  return %2 : !u_4
}

// CHECK-LABEL: func.func @multi_use(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = quant.rescale [[X]] : {{.*}} to tensor<4x!quant.uniform<i16:f32, 2.500000e-01>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = nn.tanh [[V0]] : {{.*}} -> tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT: [[V2:%[a-z0-9_]+]] = nn.sigmoid [[V0]] : {{.*}} -> tensor<4x!quant.uniform<u8:f32, 5.000000e-01:131>>
// CHECK-NEXT: return [[V1]], [[V2]], [[V0]]
func.func @multi_use(%x: !a_4) -> (!a_4, !u_4, !w_4) {
  %0 = quant.rescale %x : !a_4 to !w_4
  %1 = nn.tanh %0 : (!w_4) -> !a_4
  %2 = nn.sigmoid %0 : (!w_4) -> !u_4
  return %1, %2, %0 : !a_4, !u_4, !w_4
}

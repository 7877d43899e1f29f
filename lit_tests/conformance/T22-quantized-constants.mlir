// RUN: qopt-opt %s -p "fold-constants,dce" --verify-numerics=6 | filecheck %s
//
// There: Q(Const), Transpose(Q(Const)), Reshape(Q(Const)) fold; no UInt8
// Here: every type; every movement; a constant used otherwise keeps its value

!a_2x2 = tensor<2x2x!quant.uniform<i8:f32, 0.5:3>>
!a_4 = tensor<4x!quant.uniform<i8:f32, 0.5:3>>
!b_4 = tensor<4x!quant.uniform<i8:f32, 0.25:-5>>
!f_2x2 = tensor<2x2xf32>
!f_4 = tensor<4xf32>
!v_4 = tensor<4x!quant.uniform<u8:f32, 0.5>>

// CHECK-LABEL: func.func @once(
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.constant dense<[2, 0, 0, -58]> : tensor<4xi8> : tensor<4x!quant.uniform<u8:f32, 5.000000e-01>>
// CHECK-NEXT: return [[V0]]
func.func @once() -> !v_4 {
  %c = nn.constant dense<[1.25, -2.0, 0.0, 99.0]> : tensor<4xf32> : !f_4
  %0 = quant.qcast %c : !f_4 to !v_4
  return %0 : !v_4
}

// CHECK-LABEL: func.func @transposed(
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.constant dense<{{\[\[}}5, 3], [-1, 127{{\]\]}}> : tensor<2x2xi8> : tensor<2x2x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT: return [[V0]]
func.func @transposed() -> !a_2x2 {
  %c = nn.constant dense<[[1.25, -2.0], [0.0, 99.0]]> : tensor<2x2xf32> : !f_2x2
  %0 = quant.qcast %c : !f_2x2 to !a_2x2
  %1 = nn.transpose %0 perm [1, 0] : (!a_2x2) -> !a_2x2
  return %1 : !a_2x2
}

// CHECK-LABEL: func.func @rescaled(
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.constant dense<[-9, -7, -5, -3]> : tensor<4xi8> : tensor<4x!quant.uniform<i8:f32, 2.500000e-01:-5>>
// CHECK-NEXT: return [[V0]]
func.func @rescaled() -> !b_4 {
  %c = nn.constant dense<[1, 2, 3, 4]> : tensor<4xi8> : !a_4
  %0 = quant.rescale %c : !a_4 to !b_4
  return %0 : !b_4
}

// CHECK-LABEL: func.func @multi_use(
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.constant dense<{{\[\[}}1.250000e+00, -2.000000e+00], [0.000000e+00, 9.900000e+01{{\]\]}}> : tensor<2x2xf32> : tensor<2x2xf32>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = nn.constant dense<{{\[\[}}5, -1], [3, 127{{\]\]}}> : tensor<2x2xi8> : tensor<2x2x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT: [[V2:%[a-z0-9_]+]] = nn.constant dense<[5, -1, 3, 127]> : tensor<4xi8> : tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT: return [[V1]], [[V0]], [[V2]]
func.func @multi_use() -> (!a_2x2, !f_2x2, !a_4) {
  %c = nn.constant dense<[[1.25, -2.0], [0.0, 99.0]]> : tensor<2x2xf32> : !f_2x2
  %0 = quant.qcast %c : !f_2x2 to !a_2x2
  %1 = nn.reshape %0 shape [4] : (!a_2x2) -> !a_4
  return %0, %c, %1 : !a_2x2, !f_2x2, !a_4
}

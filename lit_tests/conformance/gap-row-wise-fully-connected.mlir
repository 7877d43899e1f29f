// RUN: qopt-opt %s -p "integerize,fold-rescale,place-rescales,dce" --verify-numerics=6 | filecheck %s
//
// There: not handled
// Here: a weight per row: the bias is derived row by row

!a_1x4 = tensor<1x4x!quant.uniform<i8:f32, 0.5:3>>
!k_4x4 = tensor<4x4x!quant.uniform<i8:f32:0, {0.5,0.25,0.125,1.0}>>
!u_1x4 = tensor<1x4x!quant.uniform<u8:f32, 0.5:131>>
!w_1x4 = tensor<1x4x!quant.uniform<i16:f32, 0.25>>

// CHECK-LABEL: func.func @once(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.constant dense<{{\[\[}}3, -2, 5, 1], [1, 4, -7, 2], [0, 1, 1, 9], [-5, 3, 2, 2{{\]\]}}> : tensor<4x4xi8> : tensor<4x4x!quant.uniform<i8:f32:0, {5.000000e-01,2.500000e-01,1.250000e-01,1.000000e+00}>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = nn.constant dense<[20, -15, 1, 0]> : tensor<4xi32> : tensor<4x!quant.uniform<i32:f32:0, {2.500000e-01,1.250000e-01,6.250000e-02,5.000000e-01}>>
// CHECK-NEXT: [[V2:%[a-z0-9_]+]] = nn.fully_connected [[X]], [[V0]], [[V1]] : {{.*}} -> tensor<1x4x!quant.uniform<u8:f32, 5.000000e-01:131>>
// CHECK-NEXT: return [[V2]]
func.func @once(%x: !a_1x4) -> !u_1x4 {
  %w = nn.constant dense<[[3, -2, 5, 1], [1, 4, -7, 2], [0, 1, 1, 9], [-5, 3, 2, 2]]> : tensor<4x4xi8> : !k_4x4
  %b = nn.constant dense<[40, -30, 2, 0]> : tensor<4xi32> : tensor<4x!quant.uniform<i32:f32:0, {0.125,0.0625,0.03125,0.25}>>
  %0 = quant.rescale %x : !a_1x4 to !w_1x4
  %1 = nn.fully_connected %0, %w, %b : (!w_1x4, !k_4x4, tensor<4x!quant.uniform<i32:f32:0, {0.125,0.0625,0.03125,0.25}>>) -> !a_1x4
  %2 = quant.rescale %1 : !a_1x4 to !u_1x4
  return %2 : !u_1x4
}

// CHECK-LABEL: func.func @multi_use(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.constant dense<{{\[\[}}3, -2, 5, 1], [1, 4, -7, 2], [0, 1, 1, 9], [-5, 3, 2, 2{{\]\]}}> : tensor<4x4xi8> : tensor<4x4x!quant.uniform<i8:f32:0, {5.000000e-01,2.500000e-01,1.250000e-01,1.000000e+00}>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = quant.rescale [[X]] : {{.*}} to tensor<1x4x!quant.uniform<i16:f32, 2.500000e-01>>
// CHECK-NEXT: [[V2:%[a-z0-9_]+]] = nn.fully_connected [[V1]], [[V0]] : {{.*}} -> tensor<1x4x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT: return [[V2]], [[V1]]
func.func @multi_use(%x: !a_1x4) -> (!a_1x4, !w_1x4) {
  %w = nn.constant dense<[[3, -2, 5, 1], [1, 4, -7, 2], [0, 1, 1, 9], [-5, 3, 2, 2]]> : tensor<4x4xi8> : !k_4x4
  %0 = quant.rescale %x : !a_1x4 to !w_1x4
  %1 = nn.fully_connected %0, %w : (!w_1x4, !k_4x4) -> !a_1x4
  return %1, %0 : !a_1x4, !w_1x4
}

// RUN: qopt-opt %s -p "combine-rescale,canonicalize,dce" --verify-numerics=6 | filecheck %s
//
// There: an activation fused into the convolution, its requantization dropped
// Here: a clip that saturation of the result does goes into it: exact

!a_1x2x2x2 = tensor<1x2x2x2x!quant.uniform<i8:f32, 0.5:3>>
!e_1x2x2x2 = tensor<1x2x2x2x!quant.uniform<i8:f32, 0.5:-128>>
!l_2x2x1x1 = tensor<2x2x1x1x!quant.uniform<i8:f32, 0.125>>

// CHECK-LABEL: func.func @once(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.constant dense<{{\[\[}}{{\[\[}}3{{\]\]}}, {{\[\[}}-2{{\]\]}}], {{\[\[}}[1{{\]\]}}, {{\[\[}}4{{\]\]}}{{\]\]}}> : tensor<2x2x1x1xi8> : tensor<2x2x1x1x!quant.uniform<i8:f32, 1.250000e-01>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = nn.conv2d [[X]], [[V0]] : {{.*}} -> tensor<1x2x2x2x!quant.uniform<i8:f32, 5.000000e-01:-128>>
// CHECK-NEXT: return [[V1]]
func.func @once(%x: !a_1x2x2x2) -> !e_1x2x2x2 {
  %w = nn.constant dense<[[[[3]], [[-2]]], [[[1]], [[4]]]]> : tensor<2x2x1x1xi8> : !l_2x2x1x1
  %0 = nn.conv2d %x, %w : (!a_1x2x2x2, !l_2x2x1x1) -> !e_1x2x2x2
  %1 = nn.relu %0 : (!e_1x2x2x2) -> !e_1x2x2x2
  return %1 : !e_1x2x2x2
}

// CHECK-LABEL: func.func @a_code_for_zero_in_the_middle(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.constant dense<{{\[\[}}{{\[\[}}3{{\]\]}}, {{\[\[}}-2{{\]\]}}], {{\[\[}}[1{{\]\]}}, {{\[\[}}4{{\]\]}}{{\]\]}}> : tensor<2x2x1x1xi8> : tensor<2x2x1x1x!quant.uniform<i8:f32, 1.250000e-01>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = nn.conv2d [[X]], [[V0]] : {{.*}} -> tensor<1x2x2x2x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT: [[V2:%[a-z0-9_]+]] = nn.relu [[V1]] : {{.*}} -> tensor<1x2x2x2x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT: return [[V2]]
func.func @a_code_for_zero_in_the_middle(%x: !a_1x2x2x2) -> !a_1x2x2x2 {
  %w = nn.constant dense<[[[[3]], [[-2]]], [[[1]], [[4]]]]> : tensor<2x2x1x1xi8> : !l_2x2x1x1
  %0 = nn.conv2d %x, %w : (!a_1x2x2x2, !l_2x2x1x1) -> !a_1x2x2x2
  %1 = nn.relu %0 : (!a_1x2x2x2) -> !a_1x2x2x2
  return %1 : !a_1x2x2x2
}

// CHECK-LABEL: func.func @multi_use(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.constant dense<{{\[\[}}{{\[\[}}3{{\]\]}}, {{\[\[}}-2{{\]\]}}], {{\[\[}}[1{{\]\]}}, {{\[\[}}4{{\]\]}}{{\]\]}}> : tensor<2x2x1x1xi8> : tensor<2x2x1x1x!quant.uniform<i8:f32, 1.250000e-01>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = nn.conv2d [[X]], [[V0]] : {{.*}} -> tensor<1x2x2x2x!quant.uniform<i8:f32, 5.000000e-01:-128>>
// CHECK-NEXT: return [[V1]], [[V1]]
func.func @multi_use(%x: !a_1x2x2x2) -> (!e_1x2x2x2, !e_1x2x2x2) {
  %w = nn.constant dense<[[[[3]], [[-2]]], [[[1]], [[4]]]]> : tensor<2x2x1x1xi8> : !l_2x2x1x1
  %0 = nn.conv2d %x, %w : (!a_1x2x2x2, !l_2x2x1x1) -> !e_1x2x2x2
  %1 = nn.relu %0 : (!e_1x2x2x2) -> !e_1x2x2x2
  return %0, %1 : !e_1x2x2x2, !e_1x2x2x2
}

// RUN: qopt-opt %s -p "integerize,move-casts{boundary=maximize-integer},fold-rescale,canonicalize,dce" --verify-numerics=6 | filecheck %s
//
// There: a float Relu behind a q-FC becomes a q-Relu on new parameters
// Here: no new parameters: the relu takes those of the op; integers where a quantize follows

!a_1x4 = tensor<1x4x!quant.uniform<i8:f32, 0.5:3>>
!e_1x4 = tensor<1x4x!quant.uniform<i8:f32, 0.5:-128>>
!f_1x4 = tensor<1x4xf32>
!l_4x4 = tensor<4x4x!quant.uniform<i8:f32, 0.125>>

// CHECK-LABEL: func.func @once(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.constant dense<{{\[\[}}3, -2, 5, 1], [1, 4, -7, 2], [0, 1, 1, 9], [-5, 3, 2, 2{{\]\]}}> : tensor<4x4xi8> : tensor<4x4x!quant.uniform<i8:f32, 1.250000e-01>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = nn.fully_connected [[X]], [[V0]] : {{.*}} -> tensor<1x4x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT: [[V2:%[a-z0-9_]+]] = nn.relu [[V1]] : {{.*}} -> tensor<1x4x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT: [[V3:%[a-z0-9_]+]] = quant.dcast [[V2]] : {{.*}} to tensor<1x4xf32>
// CHECK-NEXT: return [[V3]]
func.func @once(%x: !a_1x4) -> !f_1x4 {
  %w = nn.constant dense<[[3, -2, 5, 1], [1, 4, -7, 2], [0, 1, 1, 9], [-5, 3, 2, 2]]> : tensor<4x4xi8> : !l_4x4
  %0 = nn.fully_connected %x, %w : (!a_1x4, !l_4x4) -> !a_1x4
  %1 = quant.dcast %0 : !a_1x4 to !f_1x4
  %2 = nn.relu %1 : (!f_1x4) -> !f_1x4
  return %2 : !f_1x4
}

// CHECK-LABEL: func.func @closed(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.constant dense<{{\[\[}}3, -2, 5, 1], [1, 4, -7, 2], [0, 1, 1, 9], [-5, 3, 2, 2{{\]\]}}> : tensor<4x4xi8> : tensor<4x4x!quant.uniform<i8:f32, 1.250000e-01>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = nn.fully_connected [[X]], [[V0]] : {{.*}} -> tensor<1x4x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT: [[V2:%[a-z0-9_]+]] = nn.relu [[V1]] : {{.*}} -> tensor<1x4x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT: [[V3:%[a-z0-9_]+]] = quant.rescale [[V2]] : {{.*}} to tensor<1x4x!quant.uniform<i8:f32, 5.000000e-01:-128>>
// CHECK-NEXT: return [[V3]]
func.func @closed(%x: !a_1x4) -> !e_1x4 {
  %w = nn.constant dense<[[3, -2, 5, 1], [1, 4, -7, 2], [0, 1, 1, 9], [-5, 3, 2, 2]]> : tensor<4x4xi8> : !l_4x4
  %0 = nn.fully_connected %x, %w : (!a_1x4, !l_4x4) -> !a_1x4
  %1 = quant.dcast %0 : !a_1x4 to !f_1x4
  %2 = nn.relu %1 : (!f_1x4) -> !f_1x4
  %3 = quant.qcast %2 : !f_1x4 to !e_1x4
  return %3 : !e_1x4
}

// CHECK-LABEL: func.func @multi_use(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.constant dense<{{\[\[}}3, -2, 5, 1], [1, 4, -7, 2], [0, 1, 1, 9], [-5, 3, 2, 2{{\]\]}}> : tensor<4x4xi8> : tensor<4x4x!quant.uniform<i8:f32, 1.250000e-01>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = nn.fully_connected [[X]], [[V0]] : {{.*}} -> tensor<1x4x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT: [[V2:%[a-z0-9_]+]] = nn.relu [[V1]] : {{.*}} -> tensor<1x4x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT: [[V3:%[a-z0-9_]+]] = quant.dcast [[V2]] : {{.*}} to tensor<1x4xf32>
// CHECK-NEXT: return [[V3]], [[V1]]
func.func @multi_use(%x: !a_1x4) -> (!f_1x4, !a_1x4) {
  %w = nn.constant dense<[[3, -2, 5, 1], [1, 4, -7, 2], [0, 1, 1, 9], [-5, 3, 2, 2]]> : tensor<4x4xi8> : !l_4x4
  %0 = nn.fully_connected %x, %w : (!a_1x4, !l_4x4) -> !a_1x4
  %1 = quant.dcast %0 : !a_1x4 to !f_1x4
  %2 = nn.relu %1 : (!f_1x4) -> !f_1x4
  return %2, %0 : !f_1x4, !a_1x4
}

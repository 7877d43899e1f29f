// RUN: qopt-opt %s -p "combine-rescale" --verify-numerics=6 | filecheck %s
// RUN: qopt-opt %s -p "combine-rescale{numerics=bounded}" --verify-numerics=6 | filecheck %s --check-prefix=WEAKER
//
// There: op(RS x) = op x, the bias keeping a scale that is no longer right
// Here: exact or bounded by the op’s gain, use by use; the bias is derived anew

!a_1x4 = tensor<1x4x!quant.uniform<i8:f32, 0.5:3>>
!a_4 = tensor<4x!quant.uniform<i8:f32, 0.5:3>>
!c_1x4 = tensor<1x4x!quant.uniform<i8:f32, 1.0>>
!c_4 = tensor<4x!quant.uniform<i8:f32, 1.0>>
!j_4 = tensor<4x!quant.uniform<i32:f32, 0.03125>>
!l_4x4 = tensor<4x4x!quant.uniform<i8:f32, 0.125>>
!w_1x4 = tensor<1x4x!quant.uniform<i16:f32, 0.25>>
!w_4 = tensor<4x!quant.uniform<i16:f32, 0.25>>

// CHECK-LABEL: func.func @once(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.constant dense<{{\[\[}}3, -2, 5, 1], [1, 4, -7, 2], [0, 1, 1, 9], [-5, 3, 2, 2{{\]\]}}> : tensor<4x4xi8> : tensor<4x4x!quant.uniform<i8:f32, 1.250000e-01>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = nn.constant dense<[20, -15, 1, 0]> : tensor<4xi32> : tensor<4x!quant.uniform<i32:f32, 6.250000e-02>>
// CHECK-NEXT: [[V2:%[a-z0-9_]+]] = nn.fully_connected [[X]], [[V0]], [[V1]] : {{.*}} -> tensor<1x4x!quant.uniform<i8:f32, 1.000000e+00>>
// CHECK-NEXT: return [[V2]]
func.func @once(%x: !a_1x4) -> !c_1x4 {
  %w = nn.constant dense<[[3, -2, 5, 1], [1, 4, -7, 2], [0, 1, 1, 9], [-5, 3, 2, 2]]> : tensor<4x4xi8> : !l_4x4
  %b = nn.constant dense<[40, -30, 2, 0]> : tensor<4xi32> : !j_4
  %0 = quant.rescale %x : !a_1x4 to !w_1x4
  %1 = nn.fully_connected %0, %w, %b : (!w_1x4, !l_4x4, !j_4) -> !c_1x4
  return %1 : !c_1x4
}

// CHECK-LABEL: func.func @drops_a_rounding(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.constant dense<{{\[\[}}3, -2, 5, 1], [1, 4, -7, 2], [0, 1, 1, 9], [-5, 3, 2, 2{{\]\]}}> : tensor<4x4xi8> : tensor<4x4x!quant.uniform<i8:f32, 1.250000e-01>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = quant.rescale [[X]] : {{.*}} to tensor<1x4x!quant.uniform<i8:f32, 1.000000e+00>>
// CHECK-NEXT: [[V2:%[a-z0-9_]+]] = nn.fully_connected [[V1]], [[V0]] : {{.*}} -> tensor<1x4x!quant.uniform<i8:f32, 1.000000e+00>>
// CHECK-NEXT: return [[V2]]
// WEAKER-LABEL: func.func @drops_a_rounding(
// WEAKER-SAME: [[X:%[a-z0-9_]+]]:
// WEAKER-NEXT: [[V0:%[a-z0-9_]+]] = nn.constant dense<{{\[\[}}3, -2, 5, 1], [1, 4, -7, 2], [0, 1, 1, 9], [-5, 3, 2, 2{{\]\]}}> : tensor<4x4xi8> : tensor<4x4x!quant.uniform<i8:f32, 1.250000e-01>>
// WEAKER-NEXT: [[V1:%[a-z0-9_]+]] = nn.fully_connected [[X]], [[V0]] : {{.*}} -> tensor<1x4x!quant.uniform<i8:f32, 1.000000e+00>>
// WEAKER-NEXT: return [[V1]]
func.func @drops_a_rounding(%x: !a_1x4) -> !c_1x4 {
  %w = nn.constant dense<[[3, -2, 5, 1], [1, 4, -7, 2], [0, 1, 1, 9], [-5, 3, 2, 2]]> : tensor<4x4xi8> : !l_4x4
  %0 = quant.rescale %x : !a_1x4 to !c_1x4
  %1 = nn.fully_connected %0, %w : (!c_1x4, !l_4x4) -> !c_1x4
  return %1 : !c_1x4
}

// CHECK-LABEL: func.func @arithmetic(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-SAME: [[Y:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.add [[X]], [[Y]] : {{.*}} -> tensor<4x!quant.uniform<i8:f32, 1.000000e+00>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = nn.sub [[Y]], [[X]] : {{.*}} -> tensor<4x!quant.uniform<i8:f32, 1.000000e+00>>
// CHECK-NEXT: [[V2:%[a-z0-9_]+]] = nn.mul [[X]], [[Y]] : {{.*}} -> tensor<4x!quant.uniform<i8:f32, 1.000000e+00>>
// CHECK-NEXT: return [[V0]], [[V1]], [[V2]]
func.func @arithmetic(%x: !a_4, %y: !a_4) -> (!c_4, !c_4, !c_4) {
  %0 = quant.rescale %x : !a_4 to !w_4
  %1 = nn.add %0, %y : (!w_4, !a_4) -> !c_4
  %2 = nn.sub %y, %0 : (!a_4, !w_4) -> !c_4
  %3 = nn.mul %0, %y : (!w_4, !a_4) -> !c_4
  return %1, %2, %3 : !c_4, !c_4, !c_4
}

// CHECK-LABEL: func.func @multi_use(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-SAME: [[Y:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = quant.rescale [[X]] : {{.*}} to tensor<4x!quant.uniform<i16:f32, 2.500000e-01>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = nn.add [[X]], [[X]] : {{.*}} -> tensor<4x!quant.uniform<i8:f32, 1.000000e+00>>
// CHECK-NEXT: return [[V1]], [[V0]]
func.func @multi_use(%x: !a_4, %y: !a_4) -> (!c_4, !w_4) {
  %0 = quant.rescale %x : !a_4 to !w_4
  %1 = nn.add %0, %0 : (!w_4, !w_4) -> !c_4
  return %1, %0 : !c_4, !w_4
}

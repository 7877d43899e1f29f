// RUN: qopt-opt %s -p "combine-rescale" --verify-numerics=6 | filecheck %s
// RUN: qopt-opt %s -p "combine-rescale{numerics=bounded}" --verify-numerics=6 | filecheck %s --check-prefix=WEAKER
//
// There: RS(op) = op of the new type, 14 kinds, one use, rounding and clip dropped unasked
// Here: every requantizing op; exact where scales are equal, else bounded or saturation

!a_1x2 = tensor<1x2x!quant.uniform<i8:f32, 0.5:3>>
!a_1x2x2x2 = tensor<1x2x2x2x!quant.uniform<i8:f32, 0.5:3>>
!a_1x4 = tensor<1x4x!quant.uniform<i8:f32, 0.5:3>>
!a_1x4x1x1 = tensor<1x4x1x1x!quant.uniform<i8:f32, 0.5:3>>
!a_1x4x2x2 = tensor<1x4x2x2x!quant.uniform<i8:f32, 0.5:3>>
!a_4x2 = tensor<4x2x!quant.uniform<i8:f32, 0.5:3>>
!b_1x4 = tensor<1x4x!quant.uniform<i8:f32, 0.25:-5>>
!c_1x4 = tensor<1x4x!quant.uniform<i8:f32, 1.0>>
!l_2x4 = tensor<2x4x!quant.uniform<i8:f32, 0.125>>
!l_2x4x1x1 = tensor<2x4x1x1x!quant.uniform<i8:f32, 0.125>>
!u_1x2 = tensor<1x2x!quant.uniform<u8:f32, 0.5:131>>
!u_1x2x2x2 = tensor<1x2x2x2x!quant.uniform<u8:f32, 0.5:131>>
!u_1x4 = tensor<1x4x!quant.uniform<u8:f32, 0.5:131>>
!u_1x4x1x1 = tensor<1x4x1x1x!quant.uniform<u8:f32, 0.5:131>>

// CHECK-LABEL: func.func @add(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-SAME: [[Y:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.add [[X]], [[Y]] : {{.*}} -> tensor<1x4x!quant.uniform<u8:f32, 5.000000e-01:131>>
// CHECK-NEXT: return [[V0]]
func.func @add(%x: !a_1x4, %y: !a_1x4) -> !u_1x4 {
  %0 = nn.add %x, %y : (!a_1x4, !a_1x4) -> !a_1x4
  %1 = quant.rescale %0 : !a_1x4 to !u_1x4
  return %1 : !u_1x4
}

// CHECK-LABEL: func.func @sub(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-SAME: [[Y:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.sub [[X]], [[Y]] : {{.*}} -> tensor<1x4x!quant.uniform<u8:f32, 5.000000e-01:131>>
// CHECK-NEXT: return [[V0]]
func.func @sub(%x: !a_1x4, %y: !a_1x4) -> !u_1x4 {
  %0 = nn.sub %x, %y : (!a_1x4, !a_1x4) -> !a_1x4
  %1 = quant.rescale %0 : !a_1x4 to !u_1x4
  return %1 : !u_1x4
}

// CHECK-LABEL: func.func @mul(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-SAME: [[Y:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.mul [[X]], [[Y]] : {{.*}} -> tensor<1x4x!quant.uniform<u8:f32, 5.000000e-01:131>>
// CHECK-NEXT: return [[V0]]
func.func @mul(%x: !a_1x4, %y: !a_1x4) -> !u_1x4 {
  %0 = nn.mul %x, %y : (!a_1x4, !a_1x4) -> !a_1x4
  %1 = quant.rescale %0 : !a_1x4 to !u_1x4
  return %1 : !u_1x4
}

// CHECK-LABEL: func.func @fully_connected(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.constant dense<{{\[\[}}3, -2, 5, 1], [1, 4, -7, 2{{\]\]}}> : tensor<2x4xi8> : tensor<2x4x!quant.uniform<i8:f32, 1.250000e-01>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = nn.fully_connected [[X]], [[V0]] : {{.*}} -> tensor<1x2x!quant.uniform<u8:f32, 5.000000e-01:131>>
// CHECK-NEXT: return [[V1]]
func.func @fully_connected(%x: !a_1x4) -> !u_1x2 {
  %w = nn.constant dense<[[3, -2, 5, 1], [1, 4, -7, 2]]> : tensor<2x4xi8> : !l_2x4
  %0 = nn.fully_connected %x, %w : (!a_1x4, !l_2x4) -> !a_1x2
  %1 = quant.rescale %0 : !a_1x2 to !u_1x2
  return %1 : !u_1x2
}

// CHECK-LABEL: func.func @matmul(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-SAME: [[Y:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.matmul [[X]], [[Y]] : {{.*}} -> tensor<1x2x!quant.uniform<u8:f32, 5.000000e-01:131>>
// CHECK-NEXT: return [[V0]]
func.func @matmul(%x: !a_1x4, %y: !a_4x2) -> !u_1x2 {
  %0 = nn.matmul %x, %y : (!a_1x4, !a_4x2) -> !a_1x2
  %1 = quant.rescale %0 : !a_1x2 to !u_1x2
  return %1 : !u_1x2
}

// CHECK-LABEL: func.func @tanh(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.tanh [[X]] : {{.*}} -> tensor<1x4x!quant.uniform<u8:f32, 5.000000e-01:131>>
// CHECK-NEXT: return [[V0]]
func.func @tanh(%x: !a_1x4) -> !u_1x4 {
  %0 = nn.tanh %x : (!a_1x4) -> !a_1x4
  %1 = quant.rescale %0 : !a_1x4 to !u_1x4
  return %1 : !u_1x4
}

// CHECK-LABEL: func.func @avg_pool(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.avg_pool2d [[X]] kernel [2, 2] : {{.*}} -> tensor<1x4x1x1x!quant.uniform<u8:f32, 5.000000e-01:131>>
// CHECK-NEXT: return [[V0]]
func.func @avg_pool(%x: !a_1x4x2x2) -> !u_1x4x1x1 {
  %0 = nn.avg_pool2d %x kernel [2, 2] : (!a_1x4x2x2) -> !a_1x4x1x1
  %1 = quant.rescale %0 : !a_1x4x1x1 to !u_1x4x1x1
  return %1 : !u_1x4x1x1
}

// CHECK-LABEL: func.func @conv2d(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-SAME: [[Y:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.conv2d [[X]], [[Y]] : {{.*}} -> tensor<1x2x2x2x!quant.uniform<u8:f32, 5.000000e-01:131>>
// CHECK-NEXT: return [[V0]]
func.func @conv2d(%x: !a_1x4x2x2, %w: !l_2x4x1x1) -> !u_1x2x2x2 {
  %0 = nn.conv2d %x, %w : (!a_1x4x2x2, !l_2x4x1x1) -> !a_1x2x2x2
  %1 = quant.rescale %0 : !a_1x2x2x2 to !u_1x2x2x2
  return %1 : !u_1x2x2x2
}

// CHECK-LABEL: func.func @drops_a_rounding(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-SAME: [[Y:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.add [[X]], [[Y]] : {{.*}} -> tensor<1x4x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = quant.rescale [[V0]] : {{.*}} to tensor<1x4x!quant.uniform<i8:f32, 2.500000e-01:-5>>
// CHECK-NEXT: return [[V1]]
// WEAKER-LABEL: func.func @drops_a_rounding(
// WEAKER-SAME: [[X:%[a-z0-9_]+]]:
// WEAKER-SAME: [[Y:%[a-z0-9_]+]]:
// WEAKER-NEXT: [[V0:%[a-z0-9_]+]] = nn.add [[X]], [[Y]] : {{.*}} -> tensor<1x4x!quant.uniform<i8:f32, 2.500000e-01:-5>>
// WEAKER-NEXT: return [[V0]]
func.func @drops_a_rounding(%x: !a_1x4, %y: !a_1x4) -> !b_1x4 {
  %0 = nn.add %x, %y : (!a_1x4, !a_1x4) -> !a_1x4
  %1 = quant.rescale %0 : !a_1x4 to !b_1x4
  return %1 : !b_1x4
}

// CHECK-LABEL: func.func @drops_a_clip(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-SAME: [[Y:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.add [[X]], [[Y]] : {{.*}} -> tensor<1x4x!quant.uniform<i8:f32, 2.500000e-01:-5>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = quant.rescale [[V0]] : {{.*}} to tensor<1x4x!quant.uniform<i8:f32, 1.000000e+00>>
// CHECK-NEXT: return [[V1]]
func.func @drops_a_clip(%x: !a_1x4, %y: !a_1x4) -> !c_1x4 {
  %0 = nn.add %x, %y : (!a_1x4, !a_1x4) -> !b_1x4
  %1 = quant.rescale %0 : !b_1x4 to !c_1x4
  return %1 : !c_1x4
}

// CHECK-LABEL: func.func @multi_use(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-SAME: [[Y:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.add [[X]], [[Y]] : {{.*}} -> tensor<1x4x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = quant.rescale [[V0]] : {{.*}} to tensor<1x4x!quant.uniform<u8:f32, 5.000000e-01:131>>
// CHECK-NEXT: return [[V0]], [[V1]]
func.func @multi_use(%x: !a_1x4, %y: !a_1x4) -> (!a_1x4, !u_1x4) {
  %0 = nn.add %x, %y : (!a_1x4, !a_1x4) -> !a_1x4
  %1 = quant.rescale %0 : !a_1x4 to !u_1x4
  return %0, %1 : !a_1x4, !u_1x4
}

// RUN: qopt-opt %s -p "sink-rescale" --verify-numerics=6 | filecheck %s
//
// There: Reshape, Slice, Transpose, MaxPool of RS = RS of them
// Here: every movement and order-preserving op, per axis and dynamic too; no argmax result
//   exists

!a_1x4x2x2 = tensor<1x4x2x2x!quant.uniform<i8:f32, 0.5:3>>
!a_dx4 = tensor<?x4x!quant.uniform<i8:f32, 0.5:3>>
!b_1x2x2x2 = tensor<1x2x2x2x!quant.uniform<i8:f32, 0.25:-5>>
!b_1x2x2x4 = tensor<1x2x2x4x!quant.uniform<i8:f32, 0.25:-5>>
!b_1x4x1x1 = tensor<1x4x1x1x!quant.uniform<i8:f32, 0.25:-5>>
!b_1x4x2x2 = tensor<1x4x2x2x!quant.uniform<i8:f32, 0.25:-5>>
!b_2x8 = tensor<2x8x!quant.uniform<i8:f32, 0.25:-5>>
!b_4xd = tensor<4x?x!quant.uniform<i8:f32, 0.25:-5>>
!b_dx4 = tensor<?x4x!quant.uniform<i8:f32, 0.25:-5>>
!p_1x4x2x2 = tensor<1x4x2x2x!quant.uniform<i8:f32:1, {0.5:3,0.25,0.125:-7,1.0}>>
!r_1x4x2x2 = tensor<1x4x2x2x!quant.uniform<i8:f32:1, {0.25:3,0.5,0.25,0.5}>>
!quant_t = tensor<4x1x2x2x!quant.uniform<i8:f32:0, {0.25:3,0.5,0.25,0.5}>>

// CHECK-LABEL: func.func @reshape(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.reshape [[X]] shape [2, 8] : {{.*}} -> tensor<2x8x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = quant.rescale [[V0]] : {{.*}} to tensor<2x8x!quant.uniform<i8:f32, 2.500000e-01:-5>>
// CHECK-NEXT: return [[V1]]
func.func @reshape(%x: !a_1x4x2x2) -> !b_2x8 {
  %0 = quant.rescale %x : !a_1x4x2x2 to !b_1x4x2x2
  %1 = nn.reshape %0 shape [2, 8] : (!b_1x4x2x2) -> !b_2x8
  return %1 : !b_2x8
}

// CHECK-LABEL: func.func @slice(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.slice [[X]] starts [0, 1, 0, 0] stops [1, 3, 2, 2] steps [1, 1, 1, 1] : {{.*}} -> tensor<1x2x2x2x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = quant.rescale [[V0]] : {{.*}} to tensor<1x2x2x2x!quant.uniform<i8:f32, 2.500000e-01:-5>>
// CHECK-NEXT: return [[V1]]
func.func @slice(%x: !a_1x4x2x2) -> !b_1x2x2x2 {
  %0 = quant.rescale %x : !a_1x4x2x2 to !b_1x4x2x2
  %1 = nn.slice %0 starts [0, 1, 0, 0] stops [1, 3, 2, 2] steps [1, 1, 1, 1] : (!b_1x4x2x2) -> !b_1x2x2x2
  return %1 : !b_1x2x2x2
}

// CHECK-LABEL: func.func @transpose(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.transpose [[X]] perm [0, 2, 3, 1] : {{.*}} -> tensor<1x2x2x4x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = quant.rescale [[V0]] : {{.*}} to tensor<1x2x2x4x!quant.uniform<i8:f32, 2.500000e-01:-5>>
// CHECK-NEXT: return [[V1]]
func.func @transpose(%x: !a_1x4x2x2) -> !b_1x2x2x4 {
  %0 = quant.rescale %x : !a_1x4x2x2 to !b_1x4x2x2
  %1 = nn.transpose %0 perm [0, 2, 3, 1] : (!b_1x4x2x2) -> !b_1x2x2x4
  return %1 : !b_1x2x2x4
}

// CHECK-LABEL: func.func @max_pool(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.max_pool2d [[X]] kernel [2, 2] : {{.*}} -> tensor<1x4x1x1x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = quant.rescale [[V0]] : {{.*}} to tensor<1x4x1x1x!quant.uniform<i8:f32, 2.500000e-01:-5>>
// CHECK-NEXT: return [[V1]]
func.func @max_pool(%x: !a_1x4x2x2) -> !b_1x4x1x1 {
  %0 = quant.rescale %x : !a_1x4x2x2 to !b_1x4x2x2
  %1 = nn.max_pool2d %0 kernel [2, 2] : (!b_1x4x2x2) -> !b_1x4x1x1
  return %1 : !b_1x4x1x1
}

// CHECK-LABEL: func.func @per_axis(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.transpose [[X]] perm [1, 0, 2, 3] : {{.*}} -> tensor<4x1x2x2x!quant.uniform<i8:f32:0, {5.000000e-01:3,2.500000e-01,1.250000e-01:-7,1.000000e+00}>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = quant.rescale [[V0]] : {{.*}} to tensor<4x1x2x2x!quant.uniform<i8:f32:0, {2.500000e-01:3,5.000000e-01,2.500000e-01,5.000000e-01}>>
// CHECK-NEXT: return [[V1]]
func.func @per_axis(%x: !p_1x4x2x2) -> !quant_t {
  %0 = quant.rescale %x : !p_1x4x2x2 to !r_1x4x2x2
  %1 = nn.transpose %0 perm [1, 0, 2, 3] : (!r_1x4x2x2) -> !quant_t
  return %1 : !quant_t
}

// CHECK-LABEL: func.func @multi_use(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.max_pool2d [[X]] kernel [2, 2] : {{.*}} -> tensor<1x4x1x1x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = quant.rescale [[V0]] : {{.*}} to tensor<1x4x1x1x!quant.uniform<i8:f32, 2.500000e-01:-5>>
// CHECK-NEXT: [[V2:%[a-z0-9_]+]] = nn.reshape [[X]] shape [2, 8] : {{.*}} -> tensor<2x8x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT: [[V3:%[a-z0-9_]+]] = quant.rescale [[V2]] : {{.*}} to tensor<2x8x!quant.uniform<i8:f32, 2.500000e-01:-5>>
// CHECK-NEXT: return [[V1]], [[V3]]
func.func @multi_use(%x: !a_1x4x2x2) -> (!b_1x4x1x1, !b_2x8) {
  %0 = quant.rescale %x : !a_1x4x2x2 to !b_1x4x2x2
  %1 = nn.max_pool2d %0 kernel [2, 2] : (!b_1x4x2x2) -> !b_1x4x1x1
  %2 = nn.reshape %0 shape [2, 8] : (!b_1x4x2x2) -> !b_2x8
  return %1, %2 : !b_1x4x1x1, !b_2x8
}

// CHECK-LABEL: func.func @dynamic(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.transpose [[X]] perm [1, 0] : {{.*}} -> tensor<4x?x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = quant.rescale [[V0]] : {{.*}} to tensor<4x?x!quant.uniform<i8:f32, 2.500000e-01:-5>>
// CHECK-NEXT: return [[V1]]
func.func @dynamic(%x: !a_dx4) -> !b_4xd {
  %0 = quant.rescale %x : !a_dx4 to !b_dx4
  %1 = nn.transpose %0 perm [1, 0] : (!b_dx4) -> !b_4xd
  return %1 : !b_4xd
}

// RUN: qopt-opt %s -p 'combine-rescale{numerics=bounded}' --remarks --verify-diagnostics | filecheck %s
// RUN: qopt-opt %s -p 'combine-rescale{numerics=saturation}' | filecheck %s --check-prefix=CLIP

// What fires under `bounded`, with the bound that is claimed (T7, T8, T11, T12), and
// what only fires when a clip may go.

!a = tensor<4x!quant.uniform<i8:f32, 0.5>>
!fine = tensor<4x!quant.uniform<i8:f32, 0.25>>
!coarse = tensor<4x!quant.uniform<i8:f32, 0.75>>
!out = tensor<4x!quant.uniform<i16:f32, 0.5>>

// CHECK-LABEL: func.func @up(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.tanh [[X]] rounding half_up : {{.*}} -> tensor<4x!quant.uniform<i8:f32, 2.500000e-01>>
// CHECK-NEXT: return [[V0]]
// CLIP-LABEL: func.func @up(
// CLIP-SAME: [[X:%[a-z0-9_]+]]:
// CLIP-NEXT: [[V0:%[a-z0-9_]+]] = nn.tanh [[X]] rounding half_up : {{.*}} -> tensor<4x!quant.uniform<i8:f32, 2.500000e-01>>
// CLIP-NEXT: return [[V0]]
func.func @up(%x: !a) -> !fine {
  %0 = nn.tanh %x : (!a) -> !a
  // expected-remark@+1 {{combine-up fired, bounded(2)}}
  %1 = quant.rescale %0 rounding half_up : !a to !fine
  func.return %1 : !fine
}

// CHECK-LABEL: func.func @up_clips(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.sub [[X]], [[X]] : {{.*}} -> tensor<4x!quant.uniform<i8:f32, 2.500000e-01>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = quant.rescale [[V0]] : {{.*}} to tensor<4x!quant.uniform<i8:f32, 5.000000e-01>>
// CHECK-NEXT: return [[V1]]
// CLIP-LABEL: func.func @up_clips(
// CLIP-SAME: [[X:%[a-z0-9_]+]]:
// CLIP-NEXT: [[V0:%[a-z0-9_]+]] = nn.sub [[X]], [[X]] : {{.*}} -> tensor<4x!quant.uniform<i8:f32, 5.000000e-01>>
// CLIP-NEXT: return [[V0]]
func.func @up_clips(%x: !a) -> !a {
  %0 = nn.sub %x, %x : (!a, !a) -> !fine
  // expected-remark@+1 {{combine-up refused [numerics]: would be saturation (the middle clips to [-32, 31.75]), but only bounded is allowed}}
  %1 = quant.rescale %0 : !fine to !a
  func.return %1 : !a
}

// One step of 0.75 moved by half, into steps of 0.5, times the op's gain, and one.
// CHECK-LABEL: func.func @down(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-SAME: [[Y:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.add [[X]], [[Y]] : {{.*}} -> tensor<4x!quant.uniform<i16:f32, 5.000000e-01>>
// CHECK-NEXT: return [[V0]]
// CLIP-LABEL: func.func @down(
// CLIP-SAME: [[X:%[a-z0-9_]+]]:
// CLIP-SAME: [[Y:%[a-z0-9_]+]]:
// CLIP-NEXT: [[V0:%[a-z0-9_]+]] = nn.add [[X]], [[Y]] : {{.*}} -> tensor<4x!quant.uniform<i16:f32, 5.000000e-01>>
// CLIP-NEXT: return [[V0]]
func.func @down(%x: !a, %y: !a) -> !out {
  %0 = quant.rescale %x : !a to !coarse
  // expected-remark@+1 {{combine-down fired, bounded(1.75)}}
  %1 = nn.add %0, %y : (!coarse, !a) -> !out
  func.return %1 : !out
}

// CHECK-LABEL: func.func @down_on_both_sides(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.add [[X]], [[X]] : {{.*}} -> tensor<4x!quant.uniform<i16:f32, 5.000000e-01>>
// CHECK-NEXT: return [[V0]]
// CLIP-LABEL: func.func @down_on_both_sides(
// CLIP-SAME: [[X:%[a-z0-9_]+]]:
// CLIP-NEXT: [[V0:%[a-z0-9_]+]] = nn.add [[X]], [[X]] : {{.*}} -> tensor<4x!quant.uniform<i16:f32, 5.000000e-01>>
// CLIP-NEXT: return [[V0]]
func.func @down_on_both_sides(%x: !a) -> !out {
  %0 = quant.rescale %x : !a to !coarse
  // expected-remark@+2 {{combine-down fired, bounded(1.75)}}
  // expected-remark@+1 {{combine-down fired, bounded(1.75)}}
  %1 = nn.add %0, %0 : (!coarse, !coarse) -> !out
  func.return %1 : !out
}

// CHECK-LABEL: func.func @down_average(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.avg_pool2d [[X]] kernel [2, 2] strides [2, 2] : {{.*}} -> tensor<1x1x2x2x!quant.uniform<i16:f32, 5.000000e-01>>
// CHECK-NEXT: return [[V0]]
// CLIP-LABEL: func.func @down_average(
// CLIP-SAME: [[X:%[a-z0-9_]+]]:
// CLIP-NEXT: [[V0:%[a-z0-9_]+]] = nn.avg_pool2d [[X]] kernel [2, 2] strides [2, 2] : {{.*}} -> tensor<1x1x2x2x!quant.uniform<i16:f32, 5.000000e-01>>
// CLIP-NEXT: return [[V0]]
func.func @down_average(%x: tensor<1x1x4x4x!quant.uniform<i8:f32, 0.5>>) -> tensor<1x1x2x2x!quant.uniform<i16:f32, 0.5>> {
  %0 = quant.rescale %x : tensor<1x1x4x4x!quant.uniform<i8:f32, 0.5>> to tensor<1x1x4x4x!quant.uniform<i8:f32, 0.75>>
  // expected-remark@+1 {{combine-down fired, bounded(1.75)}}
  %1 = nn.avg_pool2d %0 kernel [2, 2] strides [2, 2] : (tensor<1x1x4x4x!quant.uniform<i8:f32, 0.75>>) -> tensor<1x1x2x2x!quant.uniform<i16:f32, 0.5>>
  func.return %1 : tensor<1x1x2x2x!quant.uniform<i16:f32, 0.5>>
}

// The gain is the largest sum of |weights| of a row, 6 * 0.5; the bias is re-derived
// from scale 0.375 to 0.25, which is off by 0.125 at most.
// CHECK-LABEL: func.func @down_weights(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.constant dense<{{\[\[}}1, -2, 3, 0], [1, -1, 1, -1{{\]\]}}> : tensor<2x4xi8> : tensor<2x4x!quant.uniform<i8:f32, 5.000000e-01>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = nn.constant dense<[2, 3]> : tensor<2xi32> : tensor<2x!quant.uniform<i32:f32, 2.500000e-01>>
// CHECK-NEXT: [[V2:%[a-z0-9_]+]] = nn.fully_connected [[X]], [[V0]], [[V1]] : {{.*}} -> tensor<?x2x!quant.uniform<i16:f32, 5.000000e-01>>
// CHECK-NEXT: return [[V2]]
// CLIP-LABEL: func.func @down_weights(
// CLIP-SAME: [[X:%[a-z0-9_]+]]:
// CLIP-NEXT: [[V0:%[a-z0-9_]+]] = nn.constant dense<{{\[\[}}1, -2, 3, 0], [1, -1, 1, -1{{\]\]}}> : tensor<2x4xi8> : tensor<2x4x!quant.uniform<i8:f32, 5.000000e-01>>
// CLIP-NEXT: [[V1:%[a-z0-9_]+]] = nn.constant dense<[2, 3]> : tensor<2xi32> : tensor<2x!quant.uniform<i32:f32, 2.500000e-01>>
// CLIP-NEXT: [[V2:%[a-z0-9_]+]] = nn.fully_connected [[X]], [[V0]], [[V1]] : {{.*}} -> tensor<?x2x!quant.uniform<i16:f32, 5.000000e-01>>
// CLIP-NEXT: return [[V2]]
func.func @down_weights(%x: tensor<?x4x!quant.uniform<i8:f32, 0.5>>) -> tensor<?x2x!quant.uniform<i16:f32, 0.5>> {
  %w = nn.constant dense<[[1, -2, 3, 0], [1, -1, 1, -1]]> : tensor<2x4xi8> : tensor<2x4x!quant.uniform<i8:f32, 0.5>>
  %b = nn.constant dense<[1, 2]> : tensor<2xi32> : tensor<2x!quant.uniform<i32:f32, 0.375>>
  %0 = quant.rescale %x : tensor<?x4x!quant.uniform<i8:f32, 0.5>> to tensor<?x4x!quant.uniform<i8:f32, 0.75>>
  // expected-remark@+1 {{combine-down fired, bounded(3.5)}}
  %1 = nn.fully_connected %0, %w, %b : (tensor<?x4x!quant.uniform<i8:f32, 0.75>>, tensor<2x4x!quant.uniform<i8:f32, 0.5>>, tensor<2x!quant.uniform<i32:f32, 0.375>>) -> tensor<?x2x!quant.uniform<i16:f32, 0.5>>
  func.return %1 : tensor<?x2x!quant.uniform<i16:f32, 0.5>>
}

// The vector on the right is summed whole.
// CHECK-LABEL: func.func @down_vector(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.constant dense<[1, -2, 3, 0]> : tensor<4xi8> : tensor<4x!quant.uniform<i8:f32, 5.000000e-01>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = nn.matmul [[X]], [[V0]] : {{.*}} -> tensor<2x!quant.uniform<i16:f32, 5.000000e-01>>
// CHECK-NEXT: return [[V1]]
// CLIP-LABEL: func.func @down_vector(
// CLIP-SAME: [[X:%[a-z0-9_]+]]:
// CLIP-NEXT: [[V0:%[a-z0-9_]+]] = nn.constant dense<[1, -2, 3, 0]> : tensor<4xi8> : tensor<4x!quant.uniform<i8:f32, 5.000000e-01>>
// CLIP-NEXT: [[V1:%[a-z0-9_]+]] = nn.matmul [[X]], [[V0]] : {{.*}} -> tensor<2x!quant.uniform<i16:f32, 5.000000e-01>>
// CLIP-NEXT: return [[V1]]
func.func @down_vector(%x: tensor<2x4x!quant.uniform<i8:f32, 0.5>>) -> tensor<2x!quant.uniform<i16:f32, 0.5>> {
  %w = nn.constant dense<[1, -2, 3, 0]> : tensor<4xi8> : tensor<4x!quant.uniform<i8:f32, 0.5>>
  %0 = quant.rescale %x : tensor<2x4x!quant.uniform<i8:f32, 0.5>> to tensor<2x4x!quant.uniform<i8:f32, 0.75>>
  // expected-remark@+1 {{combine-down fired, bounded(3.25)}}
  %1 = nn.matmul %0, %w : (tensor<2x4x!quant.uniform<i8:f32, 0.75>>, tensor<4x!quant.uniform<i8:f32, 0.5>>) -> tensor<2x!quant.uniform<i16:f32, 0.5>>
  func.return %1 : tensor<2x!quant.uniform<i16:f32, 0.5>>
}

// CHECK-LABEL: func.func @down_clips(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-SAME: [[Y:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = quant.rescale [[X]] : {{.*}} to tensor<4x!quant.uniform<i8:f32, 2.500000e-01>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = nn.add [[V0]], [[Y]] : {{.*}} -> tensor<4x!quant.uniform<i16:f32, 5.000000e-01>>
// CHECK-NEXT: return [[V1]]
// CLIP-LABEL: func.func @down_clips(
// CLIP-SAME: [[X:%[a-z0-9_]+]]:
// CLIP-SAME: [[Y:%[a-z0-9_]+]]:
// CLIP-NEXT: [[V0:%[a-z0-9_]+]] = nn.add [[X]], [[Y]] : {{.*}} -> tensor<4x!quant.uniform<i16:f32, 5.000000e-01>>
// CLIP-NEXT: return [[V0]]
func.func @down_clips(%x: !a, %y: !a) -> !out {
  %0 = quant.rescale %x : !a to !fine
  // expected-remark@+1 {{combine-down refused [numerics]: would be saturation (the rescale clips to [-32, 31.75]), but only bounded is allowed}}
  %1 = nn.add %0, %y : (!fine, !a) -> !out
  func.return %1 : !out
}

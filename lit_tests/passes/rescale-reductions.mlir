// RUN: qopt-opt %s -p sink-rescale --remarks | filecheck %s
// RUN: qopt-opt %s -p sink-rescale --verify-numerics=2 | filecheck %s
// RUN: qopt-opt %s -p hoist-rescale | filecheck %s --check-prefix=HOIST
// RUN: qopt-opt %s -p combine-rescale{numerics=bounded} | filecheck %s --check-prefix=COMBINE
// RUN: qopt-opt %s -p integerize | filecheck %s --check-prefix=INT

// Maxima commute with rescales; channels keep theirs when they are not reduced. Means and
// sums absorb them.

!x = tensor<2x3x4x5x!quant.uniform<i8:f32, 0.5:3>>
!y = tensor<2x3x4x5x!quant.uniform<u8:f32, 0.75:128>>
!a = tensor<2x3x4x5x!quant.uniform<i8:f32:1, {0.5:3, 0.25:1, 1.0}>>
!b = tensor<2x3x4x5x!quant.uniform<i8:f32:1, {1.0, 2.0, 3.0}>>
!a_spatial = tensor<2x3x!quant.uniform<i8:f32:1, {0.5:3, 0.25:1, 1.0}>>
!b_spatial = tensor<2x3x!quant.uniform<i8:f32:1, {1.0, 2.0, 3.0}>>
!a_rows = tensor<3x!quant.uniform<i8:f32:0, {0.5:3, 0.25:1, 1.0}>>
!b_rows = tensor<3x!quant.uniform<i8:f32:0, {1.0, 2.0, 3.0}>>
!one = tensor<2x1x4x5x!quant.uniform<u8:f32, 0.75:128>>
!dynamic_x = tensor<?x4x!quant.uniform<i8:f32, 0.5:3>>
!dynamic_y = tensor<?x4x!quant.uniform<u8:f32, 0.75:128>>
!f = tensor<2x3x4x5xf32>

// CHECK-LABEL: func.func @spatial(
// CHECK-NEXT: nn.reduce_max {{.*}} axes [2, 3] keepdims false {nn.key = "k"} : {{.*}} -> tensor<2x3x!quant.uniform<i8:f32:1, {5.000000e-01:3,2.500000e-01:1,1.000000e+00}>>
// CHECK-NEXT: quant.rescale
// CHECK-NEXT: return
func.func @spatial(%x: !a) -> !b_spatial {
  %0 = quant.rescale %x : !a to !b
  %1 = nn.reduce_max %0 axes [2, 3] keepdims false {nn.key = "k"} : (!b) -> !b_spatial
  func.return %1 : !b_spatial
}

// CHECK-LABEL: func.func @the_axis_moves(
// CHECK-NEXT: nn.reduce_min {{.*}} -> tensor<3x!quant.uniform<i8:f32:0, {5.000000e-01:3,2.500000e-01:1,1.000000e+00}>>
// CHECK-NEXT: quant.rescale
func.func @the_axis_moves(%x: !a) -> !b_rows {
  %0 = quant.rescale %x : !a to !b
  %1 = nn.reduce_min %0 axes [0, -2, -1] keepdims false : (!b) -> !b_rows
  func.return %1 : !b_rows
}

// The channels are what is reduced: their codes cannot be compared.

// CHECK-LABEL: func.func @channels_reduced(
// CHECK-NEXT: quant.rescale
// CHECK-NEXT: nn.reduce_max
func.func @channels_reduced(%x: !a) -> !one {
  %0 = quant.rescale %x : !a to !y
  %1 = nn.reduce_max %0 axes [1] : (!y) -> !one
  func.return %1 : !one
}

// CHECK-LABEL: func.func @dynamic(
// CHECK-NEXT: nn.reduce_max {{.*}} -> tensor<1x4x!quant.uniform<i8
// CHECK-NEXT: quant.rescale
func.func @dynamic(%x: !dynamic_x) -> tensor<1x4x!quant.uniform<u8:f32, 0.75:128>> {
  %0 = quant.rescale %x : !dynamic_x to !dynamic_y
  %1 = nn.reduce_max %0 axes [0] : (!dynamic_y) -> tensor<1x4x!quant.uniform<u8:f32, 0.75:128>>
  func.return %1 : tensor<1x4x!quant.uniform<u8:f32, 0.75:128>>
}

// CHECK-LABEL: func.func @multi_use(
// CHECK-NEXT: quant.rescale
// CHECK-NEXT: nn.reduce_max
// CHECK-NEXT: nn.reduce_sum
func.func @multi_use(%x: !x) -> (!one, !one) {
  %0 = quant.rescale %x : !x to !y
  %1 = nn.reduce_max %0 axes [1] : (!y) -> !one
  %2 = nn.reduce_sum %0 axes [1] : (!y) -> !one
  func.return %1, %2 : !one, !one
}

// CHECK-LABEL: func.func @two_reductions(
// CHECK-NEXT: nn.reduce_max
// CHECK-NEXT: quant.rescale
// CHECK-NEXT: nn.reduce_min
// CHECK-NEXT: quant.rescale
// CHECK-NEXT: return
func.func @two_reductions(%x: !x) -> (!one, !one) {
  %0 = quant.rescale %x : !x to !y
  %1 = nn.reduce_max %0 axes [1] : (!y) -> !one
  %2 = nn.reduce_min %0 axes [1] : (!y) -> !one
  func.return %1, %2 : !one, !one
}

// HOIST-LABEL: func.func @hoisted(
// HOIST-NEXT: quant.rescale {{.*}} to tensor<2x3x4x5x!quant.uniform<i8:f32:1, {1.000000e+00,2.000000e+00,3.000000e+00}>>
// HOIST-NEXT: nn.reduce_min
func.func @hoisted(%x: !a) -> !b_rows {
  %0 = nn.reduce_min %x axes [0, 2, 3] keepdims false : (!a) -> !a_rows
  %1 = quant.rescale %0 : !a_rows to !b_rows
  func.return %1 : !b_rows
}

// COMBINE-LABEL: func.func @absorbed_by_a_mean(
// COMBINE-NEXT: nn.reduce_mean {{.*}} : (tensor<2x3x4x5x!quant.uniform<i8
// COMBINE-NEXT: return
func.func @absorbed_by_a_mean(%x: !x) -> !one {
  %0 = quant.rescale %x : !x to !y
  %1 = nn.reduce_mean %0 axes [1] : (!y) -> !one
  func.return %1 : !one
}

// A sum of a number of elements that is not known has no bound.

// COMBINE-LABEL: func.func @sum_of_unknown_size(
// COMBINE-NEXT: quant.rescale
// COMBINE-NEXT: nn.reduce_sum
func.func @sum_of_unknown_size(%x: !dynamic_x) -> tensor<4x!quant.uniform<u8:f32, 0.75:128>> {
  %0 = quant.rescale %x : !dynamic_x to !dynamic_y
  %1 = nn.reduce_sum %0 axes [0] keepdims false : (!dynamic_y) -> tensor<4x!quant.uniform<u8:f32, 0.75:128>>
  func.return %1 : tensor<4x!quant.uniform<u8:f32, 0.75:128>>
}

// INT-LABEL: func.func @integers(
// INT-NEXT: nn.reduce_max
// INT-NEXT: quant.rescale
// INT-NEXT: nn.reduce_mean
// INT-NEXT: return
func.func @integers(%x: !x) -> (!one, !one) {
  %0 = quant.dcast %x : !x to !f
  %1 = nn.reduce_max %0 axes [1] : (!f) -> tensor<2x1x4x5xf32>
  %2 = quant.qcast %1 : tensor<2x1x4x5xf32> to !one
  %3 = nn.reduce_mean %0 axes [1] : (!f) -> tensor<2x1x4x5xf32>
  %4 = quant.qcast %3 : tensor<2x1x4x5xf32> to !one
  func.return %2, %4 : !one, !one
}

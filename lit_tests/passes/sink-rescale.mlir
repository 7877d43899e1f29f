// RUN: qopt-opt %s -p sink-rescale --remarks --verify-diagnostics | filecheck %s

// Rescales move below what copies elements or preserves order.

!a = tensor<1x2x4x4x!quant.uniform<i8:f32, 0.5:3>>
!b = tensor<1x2x4x4x!quant.uniform<u8:f32, 0.75:128>>
!a_out = tensor<2x16x!quant.uniform<i8:f32, 0.5:3>>
!b_out = tensor<2x16x!quant.uniform<u8:f32, 0.75:128>>
!channels = tensor<1x2x4x4x!quant.uniform<i8:f32:1, {0.5:3, 0.25:1}>>
!dynamic_a = tensor<?x4x!quant.uniform<i8:f32, 0.5:3>>
!dynamic_b = tensor<?x4x!quant.uniform<u8:f32, 0.75:128>>

// -- movement: T10, T15 and the openings --------------------------------------------

// CHECK-LABEL: func.func @reshape(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.reshape [[X]] : {{.*}} -> tensor<2x16x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = quant.rescale [[V0]] : {{.*}} to tensor<2x16x!quant.uniform<u8:f32, 7.500000e-01:128>>
// CHECK-NEXT: return [[V1]]
func.func @reshape(%x: !a) -> !b_out {
  // DOC-BEFORE
  %0 = quant.rescale %x : !a to !b
  // expected-remark@+1 {{sink-through-tied fired, exact}}
  %1 = nn.reshape %0 : (!b) -> !b_out
  // DOC-AFTER
  //   %0 = nn.reshape %x : (!a) -> !a_out
  //   %1 = quant.rescale %0 : !a_out to !b_out
  // DOC-END
  func.return %1 : !b_out
}

// CHECK-LABEL: func.func @transpose_per_axis(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.transpose [[X]] perm [0, 2, 3, 1] {nn.key = "nhwc"} : {{.*}} -> tensor<1x4x4x2x!quant.uniform<i8:f32:3, {5.000000e-01:3,2.500000e-01:1}>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = quant.rescale [[V0]] rounding half_away : {{.*}} to tensor<1x4x4x2x!quant.uniform<i8:f32:3, {1.000000e+00,2.000000e+00}>>
// CHECK-NEXT: return [[V1]]
func.func @transpose_per_axis(%x: !channels) -> tensor<1x4x4x2x!quant.uniform<i8:f32:3, {1.0, 2.0}>> {
  %0 = quant.rescale %x rounding half_away : !channels to tensor<1x2x4x4x!quant.uniform<i8:f32:1, {1.0, 2.0}>>
  // expected-remark@+1 {{sink-through-tied fired, exact}}
  %1 = nn.transpose %0 perm [0, 2, 3, 1] {nn.key = "nhwc"} : (tensor<1x2x4x4x!quant.uniform<i8:f32:1, {1.0, 2.0}>>) -> tensor<1x4x4x2x!quant.uniform<i8:f32:3, {1.0, 2.0}>>
  func.return %1 : tensor<1x4x4x2x!quant.uniform<i8:f32:3, {1.0, 2.0}>>
}

// CHECK-LABEL: func.func @merging_the_axis(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = quant.rescale [[X]] : {{.*}} to tensor<1x2x4x4x!quant.uniform<u8:f32, 7.500000e-01:128>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = nn.reshape [[V0]] : {{.*}} -> tensor<32x!quant.uniform<u8:f32, 7.500000e-01:128>>
// CHECK-NEXT: return [[V1]]
func.func @merging_the_axis(%x: !channels) -> tensor<32x!quant.uniform<u8:f32, 0.75:128>> {
  %0 = quant.rescale %x : !channels to !b
  // expected-remark@+1 {{sink-through-tied refused [growth]: 2 parameters would become 32}}
  %1 = nn.reshape %0 : (!b) -> tensor<32x!quant.uniform<u8:f32, 0.75:128>>
  func.return %1 : tensor<32x!quant.uniform<u8:f32, 0.75:128>>
}

// CHECK-LABEL: func.func @slice_of_unknown_size(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.slice [[X]] starts [0, 0] stops [100, 4] steps [1, 2] : {{.*}} -> tensor<?x2x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = quant.rescale [[V0]] : {{.*}} to tensor<?x2x!quant.uniform<u8:f32, 7.500000e-01:128>>
// CHECK-NEXT: return [[V1]]
func.func @slice_of_unknown_size(%x: !dynamic_a) -> tensor<?x2x!quant.uniform<u8:f32, 0.75:128>> {
  %0 = quant.rescale %x : !dynamic_a to !dynamic_b
  // expected-remark@+1 {{sink-through-tied fired, exact}}
  %1 = nn.slice %0 starts [0, 0] stops [100, 4] steps [1, 2] : (!dynamic_b) -> tensor<?x2x!quant.uniform<u8:f32, 0.75:128>>
  func.return %1 : tensor<?x2x!quant.uniform<u8:f32, 0.75:128>>
}

// CHECK-LABEL: func.func @slice_of_channels(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.slice [[X]] starts [0, 1, 0, 0] stops [1, 2, 4, 4] steps [1, 1, 1, 1] : {{.*}} -> tensor<1x1x4x4x!quant.uniform<i8:f32, 2.500000e-01:1>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = quant.rescale [[V0]] : {{.*}} to tensor<1x1x4x4x!quant.uniform<u8:f32, 7.500000e-01:128>>
// CHECK-NEXT: return [[V1]]
func.func @slice_of_channels(%x: !channels) -> tensor<1x1x4x4x!quant.uniform<u8:f32, 0.75:128>> {
  %0 = quant.rescale %x : !channels to !b
  // expected-remark@+1 {{sink-through-tied fired, exact}}
  %1 = nn.slice %0 starts [0, 1, 0, 0] stops [1, 2, 4, 4] steps [1, 1, 1, 1] : (!b) -> tensor<1x1x4x4x!quant.uniform<u8:f32, 0.75:128>>
  func.return %1 : tensor<1x1x4x4x!quant.uniform<u8:f32, 0.75:128>>
}

// CHECK-LABEL: func.func @pad(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.pad [[X]] low [0, 1] high [0, 1] value 1.5 : {{.*}} -> tensor<?x6x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = quant.rescale [[V0]] : {{.*}} to tensor<?x6x!quant.uniform<u8:f32, 7.500000e-01:128>>
// CHECK-NEXT: return [[V1]]
func.func @pad(%x: !dynamic_a) -> tensor<?x6x!quant.uniform<u8:f32, 0.75:128>> {
  %0 = quant.rescale %x : !dynamic_a to !dynamic_b
  // expected-remark@+1 {{sink-through-tied fired, exact}}
  %1 = nn.pad %0 low [0, 1] high [0, 1] value 1.5 : (!dynamic_b) -> tensor<?x6x!quant.uniform<u8:f32, 0.75:128>>
  func.return %1 : tensor<?x6x!quant.uniform<u8:f32, 0.75:128>>
}

// CHECK-LABEL: func.func @pad_that_no_code_names(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = quant.rescale [[X]] : {{.*}} to tensor<?x4x!quant.uniform<u8:f32, 7.500000e-01:128>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = nn.pad [[V0]] low [0, 1] high [0, 1] value 0.75 : {{.*}} -> tensor<?x6x!quant.uniform<u8:f32, 7.500000e-01:128>>
// CHECK-NEXT: return [[V1]]
func.func @pad_that_no_code_names(%x: !dynamic_a) -> tensor<?x6x!quant.uniform<u8:f32, 0.75:128>> {
  %0 = quant.rescale %x : !dynamic_a to !dynamic_b
  // expected-remark@+1 {{sink-through-tied refused [pad-value]: no i8 integer stands for the border 0.75}}
  %1 = nn.pad %0 low [0, 1] high [0, 1] value 0.75 : (!dynamic_b) -> tensor<?x6x!quant.uniform<u8:f32, 0.75:128>>
  func.return %1 : tensor<?x6x!quant.uniform<u8:f32, 0.75:128>>
}

// CHECK-LABEL: func.func @concat(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-SAME: [[Y:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.concat [[X]], [[Y]] axis 1 : {{.*}} -> tensor<?x8x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = quant.rescale [[V0]] : {{.*}} to tensor<?x8x!quant.uniform<u8:f32, 7.500000e-01:128>>
// CHECK-NEXT: return [[V1]]
func.func @concat(%x: !dynamic_a, %y: !dynamic_a) -> tensor<?x8x!quant.uniform<u8:f32, 0.75:128>> {
  %0 = quant.rescale %x : !dynamic_a to !dynamic_b
  %1 = quant.rescale %y : !dynamic_a to !dynamic_b
  // expected-remark@+1 {{sink-through-tied fired, exact}}
  %2 = nn.concat %0, %1 axis 1 : (!dynamic_b, !dynamic_b) -> tensor<?x8x!quant.uniform<u8:f32, 0.75:128>>
  func.return %2 : tensor<?x8x!quant.uniform<u8:f32, 0.75:128>>
}

// CHECK-LABEL: func.func @concat_from_unequal(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-SAME: [[Y:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = quant.rescale [[X]] : {{.*}} to tensor<?x4x!quant.uniform<u8:f32, 7.500000e-01:128>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = quant.rescale [[Y]] : {{.*}} to tensor<?x4x!quant.uniform<u8:f32, 7.500000e-01:128>>
// CHECK-NEXT: [[V2:%[a-z0-9_]+]] = nn.concat [[V0]], [[V1]] axis 1 : {{.*}} -> tensor<?x8x!quant.uniform<u8:f32, 7.500000e-01:128>>
// CHECK-NEXT: return [[V2]]
func.func @concat_from_unequal(%x: !dynamic_a, %y: tensor<?x4x!quant.uniform<i8:f32, 1.0>>) -> tensor<?x8x!quant.uniform<u8:f32, 0.75:128>> {
  %0 = quant.rescale %x : !dynamic_a to !dynamic_b
  %1 = quant.rescale %y : tensor<?x4x!quant.uniform<i8:f32, 1.0>> to !dynamic_b
  // expected-remark@+1 {{sink-through-tied refused [concat-params]: the operands are rescaled from different qparams}}
  %2 = nn.concat %0, %1 axis 1 : (!dynamic_b, !dynamic_b) -> tensor<?x8x!quant.uniform<u8:f32, 0.75:128>>
  func.return %2 : tensor<?x8x!quant.uniform<u8:f32, 0.75:128>>
}

// CHECK-LABEL: func.func @concat_that_requantizes(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-SAME: [[Y:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = quant.rescale [[X]] : {{.*}} to tensor<?x4x!quant.uniform<u8:f32, 7.500000e-01:128>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = quant.rescale [[Y]] : {{.*}} to tensor<?x4x!quant.uniform<u8:f32, 7.500000e-01:128>>
// CHECK-NEXT: [[V2:%[a-z0-9_]+]] = nn.concat [[V0]], [[V1]] axis 1 : {{.*}} -> tensor<?x8x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT: return [[V2]]
func.func @concat_that_requantizes(%x: !dynamic_a, %y: !dynamic_a) -> tensor<?x8x!quant.uniform<i8:f32, 0.5:3>> {
  %0 = quant.rescale %x : !dynamic_a to !dynamic_b
  %1 = quant.rescale %y : !dynamic_a to !dynamic_b
  // expected-remark@+1 {{sink-through-tied refused [mixed]: 'nn.concat' requantizes its operands}}
  %2 = nn.concat %0, %1 axis 1 : (!dynamic_b, !dynamic_b) -> tensor<?x8x!quant.uniform<i8:f32, 0.5:3>>
  func.return %2 : tensor<?x8x!quant.uniform<i8:f32, 0.5:3>>
}

// CHECK-LABEL: func.func @concat_of_roundings(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-SAME: [[Y:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = quant.rescale [[X]] : {{.*}} to tensor<?x4x!quant.uniform<u8:f32, 7.500000e-01:128>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = quant.rescale [[Y]] rounding half_up : {{.*}} to tensor<?x4x!quant.uniform<u8:f32, 7.500000e-01:128>>
// CHECK-NEXT: [[V2:%[a-z0-9_]+]] = nn.concat [[V0]], [[V1]] axis 1 : {{.*}} -> tensor<?x8x!quant.uniform<u8:f32, 7.500000e-01:128>>
// CHECK-NEXT: return [[V2]]
func.func @concat_of_roundings(%x: !dynamic_a, %y: !dynamic_a) -> tensor<?x8x!quant.uniform<u8:f32, 0.75:128>> {
  %0 = quant.rescale %x : !dynamic_a to !dynamic_b
  %1 = quant.rescale %y rounding half_up : !dynamic_a to !dynamic_b
  // expected-remark@+1 {{sink-through-tied refused [rounding]: the operands are rescaled with different roundings}}
  %2 = nn.concat %0, %1 axis 1 : (!dynamic_b, !dynamic_b) -> tensor<?x8x!quant.uniform<u8:f32, 0.75:128>>
  func.return %2 : tensor<?x8x!quant.uniform<u8:f32, 0.75:128>>
}

// One operand that is not rescaled: nothing to do.
// CHECK-LABEL: func.func @concat_of_half(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-SAME: [[Y:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = quant.rescale [[X]] : {{.*}} to tensor<?x4x!quant.uniform<u8:f32, 7.500000e-01:128>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = nn.concat [[V0]], [[Y]] axis 1 : {{.*}} -> tensor<?x8x!quant.uniform<u8:f32, 7.500000e-01:128>>
// CHECK-NEXT: return [[V1]]
func.func @concat_of_half(%x: !dynamic_a, %y: !dynamic_b) -> tensor<?x8x!quant.uniform<u8:f32, 0.75:128>> {
  %0 = quant.rescale %x : !dynamic_a to !dynamic_b
  %1 = nn.concat %0, %y axis 1 : (!dynamic_b, !dynamic_b) -> tensor<?x8x!quant.uniform<u8:f32, 0.75:128>>
  func.return %1 : tensor<?x8x!quant.uniform<u8:f32, 0.75:128>>
}

// -- order-preserving ------------------------------------------------------------------

// CHECK-LABEL: func.func @max_pool(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.max_pool2d [[X]] kernel [3, 3] strides [2, 2] pads [1, 1, 1, 1] : {{.*}} -> tensor<1x2x2x2x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = quant.rescale [[V0]] : {{.*}} to tensor<1x2x2x2x!quant.uniform<u8:f32, 7.500000e-01:128>>
// CHECK-NEXT: return [[V1]]
func.func @max_pool(%x: !a) -> tensor<1x2x2x2x!quant.uniform<u8:f32, 0.75:128>> {
  %0 = quant.rescale %x : !a to !b
  // expected-remark@+1 {{sink-through-tied fired, exact}}
  %1 = nn.max_pool2d %0 kernel [3, 3] strides [2, 2] pads [1, 1, 1, 1] : (!b) -> tensor<1x2x2x2x!quant.uniform<u8:f32, 0.75:128>>
  func.return %1 : tensor<1x2x2x2x!quant.uniform<u8:f32, 0.75:128>>
}

// The corner windows see no element: each type has its own lowest code.
// CHECK-LABEL: func.func @max_pool_of_padding(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = quant.rescale [[X]] : {{.*}} to tensor<1x2x4x4x!quant.uniform<u8:f32, 7.500000e-01:128>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = nn.max_pool2d [[V0]] kernel [1, 1] pads [1, 1, 1, 1] : {{.*}} -> tensor<1x2x6x6x!quant.uniform<u8:f32, 7.500000e-01:128>>
// CHECK-NEXT: return [[V1]]
func.func @max_pool_of_padding(%x: !a) -> tensor<1x2x6x6x!quant.uniform<u8:f32, 0.75:128>> {
  %0 = quant.rescale %x : !a to !b
  // expected-remark@+1 {{sink-through-tied refused [levels]: no code stands for a constant it compares with}}
  %1 = nn.max_pool2d %0 kernel [1, 1] pads [1, 1, 1, 1] : (!b) -> tensor<1x2x6x6x!quant.uniform<u8:f32, 0.75:128>>
  func.return %1 : tensor<1x2x6x6x!quant.uniform<u8:f32, 0.75:128>>
}

// CHECK-LABEL: func.func @relu_per_axis(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.relu [[X]] : {{.*}} -> tensor<1x2x4x4x!quant.uniform<i8:f32:1, {5.000000e-01:3,2.500000e-01:1}>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = quant.rescale [[V0]] : {{.*}} to tensor<1x2x4x4x!quant.uniform<i8:f32:1, {1.000000e+00,2.000000e+00}>>
// CHECK-NEXT: return [[V1]]
func.func @relu_per_axis(%x: !channels) -> tensor<1x2x4x4x!quant.uniform<i8:f32:1, {1.0, 2.0}>> {
  %0 = quant.rescale %x : !channels to tensor<1x2x4x4x!quant.uniform<i8:f32:1, {1.0, 2.0}>>
  // expected-remark@+1 {{sink-through-tied fired, exact}}
  %1 = nn.relu %0 : (tensor<1x2x4x4x!quant.uniform<i8:f32:1, {1.0, 2.0}>>) -> tensor<1x2x4x4x!quant.uniform<i8:f32:1, {1.0, 2.0}>>
  func.return %1 : tensor<1x2x4x4x!quant.uniform<i8:f32:1, {1.0, 2.0}>>
}

// CHECK-LABEL: func.func @clip_at_codes(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.clip [[X]] min 0.0 max 6.0 : {{.*}} -> tensor<1x2x4x4x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = quant.rescale [[V0]] : {{.*}} to tensor<1x2x4x4x!quant.uniform<u8:f32, 7.500000e-01:128>>
// CHECK-NEXT: return [[V1]]
func.func @clip_at_codes(%x: !a) -> !b {
  %0 = quant.rescale %x : !a to !b
  // expected-remark@+1 {{sink-through-tied fired, exact}}
  %1 = nn.clip %0 min 0.0 max 6.0 : (!b) -> !b
  func.return %1 : !b
}

// CHECK-LABEL: func.func @clip_between_codes(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = quant.rescale [[X]] : {{.*}} to tensor<1x2x4x4x!quant.uniform<u8:f32, 7.500000e-01:128>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = nn.clip [[V0]] min 0.0 max 6.3 : {{.*}} -> tensor<1x2x4x4x!quant.uniform<u8:f32, 7.500000e-01:128>>
// CHECK-NEXT: return [[V1]]
func.func @clip_between_codes(%x: !a) -> !b {
  %0 = quant.rescale %x : !a to !b
  // expected-remark@+1 {{sink-through-tied refused [levels]: no code stands for a constant it compares with}}
  %1 = nn.clip %0 min 0.0 max 6.3 : (!b) -> !b
  func.return %1 : !b
}

// 6.1 is 6.0 on either side.
// CHECK-LABEL: func.func @clip_where_codes_agree(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.clip [[X]] min 0.0 max 6.1 : {{.*}} -> tensor<1x2x4x4x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = quant.rescale [[V0]] : {{.*}} to tensor<1x2x4x4x!quant.uniform<u8:f32, 7.500000e-01:128>>
// CHECK-NEXT: return [[V1]]
func.func @clip_where_codes_agree(%x: !a) -> !b {
  %0 = quant.rescale %x : !a to !b
  // expected-remark@+1 {{sink-through-tied fired, exact}}
  %1 = nn.clip %0 min 0.0 max 6.1 : (!b) -> !b
  func.return %1 : !b
}

// Everything is clipped to -80, which no code of the source names: -65.5 is its least.
// CHECK-LABEL: func.func @clip_beyond_the_source(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = quant.rescale [[X]] : {{.*}} to tensor<1x2x4x4x!quant.uniform<u8:f32, 7.500000e-01:128>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = nn.clip [[V0]] max -81.0 : {{.*}} -> tensor<1x2x4x4x!quant.uniform<u8:f32, 7.500000e-01:128>>
// CHECK-NEXT: return [[V1]]
func.func @clip_beyond_the_source(%x: !a) -> !b {
  %0 = quant.rescale %x : !a to !b
  // expected-remark@+1 {{sink-through-tied refused [levels]: no code stands for a constant it compares with}}
  %1 = nn.clip %0 max -81.0 : (!b) -> !b
  func.return %1 : !b
}

// A lower bound there never acts.
// CHECK-LABEL: func.func @clip_that_never_acts(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.clip [[X]] min -96.0 : {{.*}} -> tensor<1x2x4x4x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = quant.rescale [[V0]] : {{.*}} to tensor<1x2x4x4x!quant.uniform<u8:f32, 7.500000e-01:128>>
// CHECK-NEXT: return [[V1]]
func.func @clip_that_never_acts(%x: !a) -> !b {
  %0 = quant.rescale %x : !a to !b
  // expected-remark@+1 {{sink-through-tied fired, exact}}
  %1 = nn.clip %0 min -96.0 : (!b) -> !b
  func.return %1 : !b
}

// -- several uses --------------------------------------------------------------------

// Both users let it through: two rescales after, on what each has left.
// CHECK-LABEL: func.func @two_movements(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.flatten [[X]] axis 2 : {{.*}} -> tensor<2x16x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = quant.rescale [[V0]] : {{.*}} to tensor<2x16x!quant.uniform<u8:f32, 7.500000e-01:128>>
// CHECK-NEXT: [[V2:%[a-z0-9_]+]] = nn.relu [[X]] : {{.*}} -> tensor<1x2x4x4x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT: [[V3:%[a-z0-9_]+]] = quant.rescale [[V2]] : {{.*}} to tensor<1x2x4x4x!quant.uniform<u8:f32, 7.500000e-01:128>>
// CHECK-NEXT: return [[V1]], [[V3]]
func.func @two_movements(%x: !a) -> (!b_out, !b) {
  %0 = quant.rescale %x : !a to !b
  // expected-remark@+1 {{sink-through-tied fired, exact}}
  %1 = nn.flatten %0 axis 2 : (!b) -> !b_out
  // expected-remark@+1 {{sink-through-tied fired, exact}}
  %2 = nn.relu %0 : (!b) -> !b
  func.return %1, %2 : !b_out, !b
}

// CHECK-LABEL: func.func @used_as_it_is(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = quant.rescale [[X]] : {{.*}} to tensor<1x2x4x4x!quant.uniform<u8:f32, 7.500000e-01:128>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = nn.reshape [[V0]] : {{.*}} -> tensor<2x16x!quant.uniform<u8:f32, 7.500000e-01:128>>
// CHECK-NEXT: return [[V1]], [[V0]]
func.func @used_as_it_is(%x: !a) -> (!b_out, !b) {
  %0 = quant.rescale %x : !a to !b
  // expected-remark@+1 {{sink-through-tied refused [multi-use]: 'func.return' needs the rescaled value}}
  %1 = nn.reshape %0 : (!b) -> !b_out
  func.return %1, %0 : !b_out, !b
}

// CHECK-LABEL: func.func @through_a_chain(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.relu [[X]] : {{.*}} -> tensor<1x2x4x4x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = nn.reshape [[V0]] : {{.*}} -> tensor<2x16x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT: [[V2:%[a-z0-9_]+]] = nn.transpose [[V1]] perm [1, 0] : {{.*}} -> tensor<16x2x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT: [[V3:%[a-z0-9_]+]] = quant.rescale [[V2]] : {{.*}} to tensor<16x2x!quant.uniform<u8:f32, 7.500000e-01:128>>
// CHECK-NEXT: return [[V3]]
func.func @through_a_chain(%x: !a) -> tensor<16x2x!quant.uniform<u8:f32, 0.75:128>> {
  %0 = quant.rescale %x : !a to !b
  // expected-remark@+1 {{sink-past-run fired, exact}}
  %1 = nn.relu %0 : (!b) -> !b
  %2 = nn.reshape %1 : (!b) -> !b_out
  %3 = nn.transpose %2 perm [1, 0] : (!b_out) -> tensor<16x2x!quant.uniform<u8:f32, 0.75:128>>
  func.return %3 : tensor<16x2x!quant.uniform<u8:f32, 0.75:128>>
}

// CHECK-LABEL: func.func @fixed_point_stays(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = quant.rescale [[X]] multiplier [1431655765] shift [31] : {{.*}} to tensor<1x2x4x4x!quant.uniform<u8:f32, 7.500000e-01:128>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = nn.relu [[V0]] : {{.*}} -> tensor<1x2x4x4x!quant.uniform<u8:f32, 7.500000e-01:128>>
// CHECK-NEXT: return [[V1]]
func.func @fixed_point_stays(%x: !a) -> !b {
  %0 = quant.rescale %x multiplier [1431655765] shift [31] : !a to !b
  %1 = nn.relu %0 : (!b) -> !b
  func.return %1 : !b
}

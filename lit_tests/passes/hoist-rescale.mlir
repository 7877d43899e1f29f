// RUN: qopt-opt %s -p hoist-rescale --remarks --verify-diagnostics | filecheck %s
// RUN: qopt-opt %s -p hoist-rescale --verify-numerics=2 | filecheck %s

// Rescales move above what copies elements or preserves order.

!a = tensor<2x4x!quant.uniform<i8:f32, 0.5:3>>
!b = tensor<2x4x!quant.uniform<u8:f32, 0.75:128>>
!a_out = tensor<4x2x!quant.uniform<i8:f32, 0.5:3>>
!b_out = tensor<4x2x!quant.uniform<u8:f32, 0.75:128>>
!rows = tensor<2x4x!quant.uniform<i8:f32:0, {0.5:3, 0.25:1}>>
!columns = tensor<4x2x!quant.uniform<i8:f32:1, {0.5:3, 0.25:1}>>
!wanted = tensor<4x2x!quant.uniform<i8:f32:1, {1.0, 2.0}>>

// CHECK-LABEL: func.func @transpose(
// CHECK-NEXT: quant.rescale {{.*}} to tensor<2x4x!quant.uniform<u8:f32, 7.500000e-01:128>>
// CHECK-NEXT: nn.transpose
// CHECK-NEXT: return
func.func @transpose(%x: !a) -> !b_out {
  // DOC-BEFORE
  %0 = nn.transpose %x perm [1, 0] : (!a) -> !a_out
  // expected-remark@+1 {{hoist-through-tied fired, exact}}
  %1 = quant.rescale %0 : !a_out to !b_out
  // DOC-AFTER
  //   %0 = quant.rescale %x : !a to !b
  //   %1 = nn.transpose %0 perm [1, 0] : (!b) -> !b_out
  // DOC-END
  func.return %1 : !b_out
}

// CHECK-LABEL: func.func @per_axis(
// CHECK-NEXT: quant.rescale {{.*}} rounding half_away {nn.key = "r"} : {{.*}} to tensor<2x4x!quant.uniform<i8:f32:0, {1.000000e+00,2.000000e+00}>>
// CHECK-NEXT: nn.transpose {{.*}} {nn.key = "t"} : {{.*}} -> tensor<4x2x!quant.uniform<i8:f32:1, {1.000000e+00,2.000000e+00}>>
func.func @per_axis(%x: !rows) -> !wanted {
  %0 = nn.transpose %x perm [1, 0] {nn.key = "t"} : (!rows) -> !columns
  // expected-remark@+1 {{hoist-through-tied fired, exact}}
  %1 = quant.rescale %0 rounding half_away {nn.key = "r"} : !columns to !wanted
  func.return %1 : !wanted
}

// CHECK-LABEL: func.func @dynamic(
// CHECK-NEXT: quant.rescale
// CHECK-NEXT: nn.slice {{.*}} -> tensor<?x2x!quant.uniform<u8
func.func @dynamic(%x: tensor<?x4x!quant.uniform<i8:f32, 0.5:3>>) -> tensor<?x2x!quant.uniform<u8:f32, 0.75:128>> {
  %0 = nn.slice %x starts [0, 0] stops [100, 4] steps [1, 2] : (tensor<?x4x!quant.uniform<i8:f32, 0.5:3>>) -> tensor<?x2x!quant.uniform<i8:f32, 0.5:3>>
  // expected-remark@+1 {{hoist-through-tied fired, exact}}
  %1 = quant.rescale %0 : tensor<?x2x!quant.uniform<i8:f32, 0.5:3>> to tensor<?x2x!quant.uniform<u8:f32, 0.75:128>>
  func.return %1 : tensor<?x2x!quant.uniform<u8:f32, 0.75:128>>
}

// CHECK-LABEL: func.func @both_operands(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = quant.rescale [[X]]
// CHECK-NEXT: nn.concat [[V0]], [[V0]] axis 0
func.func @both_operands(%x: !a) -> tensor<4x4x!quant.uniform<u8:f32, 0.75:128>> {
  %0 = nn.concat %x, %x axis 0 : (!a, !a) -> tensor<4x4x!quant.uniform<i8:f32, 0.5:3>>
  // expected-remark@+1 {{hoist-through-tied fired, exact}}
  %1 = quant.rescale %0 : tensor<4x4x!quant.uniform<i8:f32, 0.5:3>> to tensor<4x4x!quant.uniform<u8:f32, 0.75:128>>
  func.return %1 : tensor<4x4x!quant.uniform<u8:f32, 0.75:128>>
}

// CHECK-LABEL: func.func @both_results(
// CHECK-NEXT: quant.rescale
// CHECK-NEXT: nn.split
// CHECK-NEXT: return
func.func @both_results(%x: !a) -> (tensor<1x4x!quant.uniform<u8:f32, 0.75:128>>, tensor<1x4x!quant.uniform<u8:f32, 0.75:128>>) {
  %0:2 = nn.split %x axis 0 sizes [1, 1] : (!a) -> (tensor<1x4x!quant.uniform<i8:f32, 0.5:3>>, tensor<1x4x!quant.uniform<i8:f32, 0.5:3>>)
  // expected-remark@+1 {{hoist-through-tied fired, exact}}
  %1 = quant.rescale %0#0 : tensor<1x4x!quant.uniform<i8:f32, 0.5:3>> to tensor<1x4x!quant.uniform<u8:f32, 0.75:128>>
  %2 = quant.rescale %0#1 : tensor<1x4x!quant.uniform<i8:f32, 0.5:3>> to tensor<1x4x!quant.uniform<u8:f32, 0.75:128>>
  func.return %1, %2 : tensor<1x4x!quant.uniform<u8:f32, 0.75:128>>, tensor<1x4x!quant.uniform<u8:f32, 0.75:128>>
}

// CHECK-LABEL: func.func @one_result(
// CHECK-NEXT: nn.split
// CHECK-NEXT: quant.rescale
func.func @one_result(%x: !a) -> (tensor<1x4x!quant.uniform<u8:f32, 0.75:128>>, tensor<1x4x!quant.uniform<i8:f32, 0.5:3>>) {
  %0:2 = nn.split %x axis 0 sizes [1, 1] : (!a) -> (tensor<1x4x!quant.uniform<i8:f32, 0.5:3>>, tensor<1x4x!quant.uniform<i8:f32, 0.5:3>>)
  // expected-remark@+1 {{hoist-through-tied refused [multi-use]: the op's result is also used as it is}}
  %1 = quant.rescale %0#0 : tensor<1x4x!quant.uniform<i8:f32, 0.5:3>> to tensor<1x4x!quant.uniform<u8:f32, 0.75:128>>
  func.return %1, %0#1 : tensor<1x4x!quant.uniform<u8:f32, 0.75:128>>, tensor<1x4x!quant.uniform<i8:f32, 0.5:3>>
}

// CHECK-LABEL: func.func @multi_use(
// CHECK-NEXT: nn.transpose
// CHECK-NEXT: quant.rescale
func.func @multi_use(%x: !a) -> (!a_out, !b_out) {
  %0 = nn.transpose %x perm [1, 0] : (!a) -> !a_out
  // expected-remark@+1 {{hoist-through-tied refused [multi-use]}}
  %1 = quant.rescale %0 : !a_out to !b_out
  func.return %0, %1 : !a_out, !b_out
}

// CHECK-LABEL: func.func @relu(
// CHECK-NEXT: quant.rescale
// CHECK-NEXT: nn.relu
func.func @relu(%x: !a) -> !b {
  %0 = nn.relu %x : (!a) -> !a
  // expected-remark@+1 {{hoist-through-tied fired, exact}}
  %1 = quant.rescale %0 : !a to !b
  func.return %1 : !b
}

// CHECK-LABEL: func.func @clip_between_codes(
// CHECK-NEXT: nn.clip
// CHECK-NEXT: quant.rescale
func.func @clip_between_codes(%x: !a) -> !b {
  %0 = nn.clip %x min 1.2 : (!a) -> !a
  // expected-remark@+1 {{hoist-through-tied refused [levels]: no code stands for a constant it compares with}}
  %1 = quant.rescale %0 : !a to !b
  func.return %1 : !b
}

// 0.5 is a code above, and what that becomes is nearest to it below.
// CHECK-LABEL: func.func @clip_where_codes_agree(
// CHECK-NEXT: quant.rescale
// CHECK-NEXT: nn.clip
func.func @clip_where_codes_agree(%x: !a) -> !b {
  %0 = nn.clip %x min 0.5 : (!a) -> !a
  // expected-remark@+1 {{hoist-through-tied fired, exact}}
  %1 = quant.rescale %0 : !a to !b
  func.return %1 : !b
}

// CHECK-LABEL: func.func @scales_that_mix(
// CHECK-NEXT: nn.reshape
// CHECK-NEXT: quant.rescale
func.func @scales_that_mix(%x: !a) -> tensor<8x!quant.uniform<i8:f32:0, {1.0, 2.0, 1.0, 2.0, 3.0, 4.0, 3.0, 4.0}>> {
  %0 = nn.reshape %x : (!a) -> tensor<8x!quant.uniform<i8:f32, 0.5:3>>
  // expected-remark@+1 {{hoist-through-tied refused [}}
  %1 = quant.rescale %0 : tensor<8x!quant.uniform<i8:f32, 0.5:3>> to tensor<8x!quant.uniform<i8:f32:0, {1.0, 2.0, 1.0, 2.0, 3.0, 4.0, 3.0, 4.0}>>
  func.return %1 : tensor<8x!quant.uniform<i8:f32:0, {1.0, 2.0, 1.0, 2.0, 3.0, 4.0, 3.0, 4.0}>>
}

// CHECK-LABEL: func.func @computes(
// CHECK-NEXT: nn.add
// CHECK-NEXT: quant.rescale
func.func @computes(%x: !a) -> !b {
  %0 = nn.add %x, %x : (!a, !a) -> !a
  %1 = quant.rescale %0 : !a to !b
  func.return %1 : !b
}

// One scale for the one element that a pool leaves of a dimension is none for those above it.
// CHECK-LABEL: func.func @one_of_a_dimension(
// CHECK-NEXT: nn.relu
// CHECK-NEXT: nn.max_pool1d
// CHECK-NEXT: quant.rescale
!lines = tensor<2x2x2x!quant.uniform<i8:f32, 0.5:3>>
!line = tensor<2x2x1x!quant.uniform<i8:f32:2, {0.5:1}>>
func.func @one_of_a_dimension(%x: !lines) -> !line {
  %0 = nn.relu %x : (!lines) -> !lines
  %1 = nn.max_pool1d %0 kernel [2] : (!lines) -> tensor<2x2x1x!quant.uniform<i8:f32, 0.5:3>>
  // expected-remark@+1 {{hoist-through-tied refused [select-params]: 'nn.max_pool1d' reads across dimension 2}}
  %2 = quant.rescale %1 : tensor<2x2x1x!quant.uniform<i8:f32, 0.5:3>> to !line
  func.return %2 : !line
}

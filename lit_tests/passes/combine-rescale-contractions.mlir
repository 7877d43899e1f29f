// RUN: qopt-opt %s -p 'combine-rescale{numerics=bounded}' --remarks --verify-diagnostics | filecheck %s

// Rescales into and out of ops that multiply: every convolution, matrix products and
// elementwise arithmetic, with bounds from constants, or from what codes can name.

!a = !quant.uniform<i8:f32, 0.5>
!b = !quant.uniform<i8:f32, 0.75>
!wide = !quant.uniform<i16:f32, 0.25>
!w = !quant.uniform<i8:f32, 0.25>
!out = !quant.uniform<i16:f32, 0.5>

// -- convolutions --------------------------------------------------------------------------

// |w| sums to 1.5 + 0.5 in the second channel.
// CHECK-LABEL: func.func @conv1d(
// CHECK-NOT: quant.rescale
// CHECK: nn.conv1d {{.*}} strides [2] : (tensor<?x2x9x!quant.uniform<i8:f32, 5.000000e-01>>,
func.func @conv1d(%x: tensor<?x2x9x!a>) -> tensor<?x2x5x!out> {
  %w = nn.constant dense<[[[1], [1]], [[6], [2]]]> : tensor<2x2x1xi8> : tensor<2x2x1x!w>
  %0 = quant.rescale %x : tensor<?x2x9x!a> to tensor<?x2x9x!b>
  // expected-remark@+1 {{combine-down fired, bounded(2.5)}}
  %1 = nn.conv1d %0, %w strides [2] : (tensor<?x2x9x!b>, tensor<2x2x1x!w>) -> tensor<?x2x5x!out>
  func.return %1 : tensor<?x2x5x!out>
}

// Nothing is lost: exact, and the bias is re-derived.
// CHECK-LABEL: func.func @conv3d(
// CHECK: nn.constant dense<[50, 101]> : tensor<2xi32> : tensor<2x!quant.uniform<i32:f32:0, {2.500000e-01,1.250000e-01}>>
// CHECK-NEXT: nn.conv3d {{.*}} : (tensor<1x2x2x2x?x!quant.uniform<i8:f32, 5.000000e-01>>,
func.func @conv3d(%x: tensor<1x2x2x2x?x!a>) -> tensor<1x2x2x2x?x!out> {
  %w = nn.constant dense<3> : tensor<2x2x1x1x1xi8> : tensor<2x2x1x1x1x!quant.uniform<i8:f32:0, {0.5, 0.25}>>
  %b = nn.constant dense<[100, 202]> : tensor<2xi32> : tensor<2x!quant.uniform<i32:f32:0, {0.125, 0.0625}>>
  %0 = quant.rescale %x : tensor<1x2x2x2x?x!a> to tensor<1x2x2x2x?x!wide>
  // expected-remark@+1 {{combine-down fired, exact}}
  %1 = nn.conv3d %0, %w, %b : (tensor<1x2x2x2x?x!wide>, tensor<2x2x1x1x1x!quant.uniform<i8:f32:0, {0.5, 0.25}>>, tensor<2x!quant.uniform<i32:f32:0, {0.125, 0.0625}>>) -> tensor<1x2x2x2x?x!out>
  func.return %1 : tensor<1x2x2x2x?x!out>
}

// CHECK-LABEL: func.func @depthwise(
// CHECK: nn.conv2d {{.*}} groups 2 : (tensor<1x2x4x4x!quant.uniform<i8:f32, 5.000000e-01>>,
// CHECK-SAME: -> tensor<1x2x4x4x!quant.uniform<u8:f32, 5.000000e-01:128>>
func.func @depthwise(%x: tensor<1x2x4x4x!a>) -> tensor<1x2x4x4x!quant.uniform<u8:f32, 0.5:128>> {
  %w = nn.constant dense<[[[[4]]], [[[-8]]]]> : tensor<2x1x1x1xi8> : tensor<2x1x1x1x!w>
  %0 = quant.rescale %x : tensor<1x2x4x4x!a> to tensor<1x2x4x4x!b>
  // expected-remark@+1 {{combine-down fired, bounded(2.5)}}
  %1 = nn.conv2d %0, %w groups 2 : (tensor<1x2x4x4x!b>, tensor<2x1x1x1x!w>) -> tensor<1x2x4x4x!a>
  // expected-remark@+1 {{combine-up fired, exact}}
  %2 = quant.rescale %1 : tensor<1x2x4x4x!a> to tensor<1x2x4x4x!quant.uniform<u8:f32, 0.5:128>>
  func.return %2 : tensor<1x2x4x4x!quant.uniform<u8:f32, 0.5:128>>
}

// With strides of 2, two taps meet in an element: 2 inputs x 2 taps x |w| of at most 0.5.
// CHECK-LABEL: func.func @conv_transpose1d(
// CHECK-NOT: quant.rescale
// CHECK: nn.conv_transpose1d
func.func @conv_transpose1d(%x: tensor<1x2x9x!a>) -> tensor<1x1x20x!out> {
  %w = nn.constant dense<2> : tensor<2x1x4xi8> : tensor<2x1x4x!w>
  %0 = quant.rescale %x : tensor<1x2x9x!a> to tensor<1x2x9x!b>
  // expected-remark@+1 {{combine-down fired, bounded(2.5)}}
  %1 = nn.conv_transpose1d %0, %w strides [2] : (tensor<1x2x9x!b>, tensor<2x1x4x!w>) -> tensor<1x1x20x!out>
  func.return %1 : tensor<1x1x20x!out>
}

// The groups share the scales of the weight, and the bias repeats them.
// CHECK-LABEL: func.func @conv_transpose2d(
// CHECK: nn.constant dense<[10, 20, 30, 40]> : tensor<4xi32> : tensor<4x!quant.uniform<i32:f32:0, {2.500000e-01,1.250000e-01,2.500000e-01,1.250000e-01}>>
// CHECK-NEXT: nn.conv_transpose2d {{.*}} groups 2 : (tensor<?x2x3x3x!quant.uniform<i8:f32, 5.000000e-01>>,
func.func @conv_transpose2d(%x: tensor<?x2x3x3x!a>) -> tensor<?x4x3x3x!out> {
  %w = nn.constant dense<1> : tensor<2x2x1x1xi8> : tensor<2x2x1x1x!quant.uniform<i8:f32:1, {0.5, 0.25}>>
  %b = nn.constant dense<[20, 40, 60, 80]> : tensor<4xi32> : tensor<4x!quant.uniform<i32:f32:0, {0.125, 0.0625, 0.125, 0.0625}>>
  %0 = quant.rescale %x : tensor<?x2x3x3x!a> to tensor<?x2x3x3x!wide>
  // expected-remark@+1 {{combine-down fired, exact}}
  %1 = nn.conv_transpose2d %0, %w, %b groups 2 : (tensor<?x2x3x3x!wide>, tensor<2x2x1x1x!quant.uniform<i8:f32:1, {0.5, 0.25}>>, tensor<4x!quant.uniform<i32:f32:0, {0.125, 0.0625, 0.125, 0.0625}>>) -> tensor<?x4x3x3x!out>
  func.return %1 : tensor<?x4x3x3x!out>
}

// A scale per channel of the result; the result used twice keeps its type.
// CHECK-LABEL: func.func @conv_transpose3d_up(
// CHECK: nn.conv_transpose3d {{.*}} -> tensor<1x2x1x1x2x!quant.uniform<u8:f32:1, {5.000000e-01:128,2.500000e-01:130}>>
// CHECK-NEXT: return
func.func @conv_transpose3d_up(%x: tensor<1x1x1x1x2x!a>, %w: tensor<1x2x1x1x1x!w>) -> tensor<1x2x1x1x2x!quant.uniform<u8:f32:1, {0.5:128, 0.25:130}>> {
  %0 = nn.conv_transpose3d %x, %w : (tensor<1x1x1x1x2x!a>, tensor<1x2x1x1x1x!w>) -> tensor<1x2x1x1x2x!quant.uniform<i8:f32:1, {0.5:0, 0.25:2}>>
  // expected-remark@+1 {{combine-up fired, exact}}
  %1 = quant.rescale %0 : tensor<1x2x1x1x2x!quant.uniform<i8:f32:1, {0.5:0, 0.25:2}>> to tensor<1x2x1x1x2x!quant.uniform<u8:f32:1, {0.5:128, 0.25:130}>>
  func.return %1 : tensor<1x2x1x1x2x!quant.uniform<u8:f32:1, {0.5:128, 0.25:130}>>
}

// CHECK-LABEL: func.func @conv_transpose_used_twice(
// CHECK: nn.conv_transpose1d
// CHECK-NEXT: quant.rescale
// CHECK-NEXT: return
func.func @conv_transpose_used_twice(%x: tensor<1x1x4x!a>, %w: tensor<1x2x1x!w>) -> (tensor<1x2x4x!a>, tensor<1x2x4x!quant.uniform<u8:f32, 0.5:128>>) {
  %0 = nn.conv_transpose1d %x, %w : (tensor<1x1x4x!a>, tensor<1x2x1x!w>) -> tensor<1x2x4x!a>
  // expected-remark@+1 {{combine-up refused [multi-use]: the result is also used as it is}}
  %1 = quant.rescale %0 : tensor<1x2x4x!a> to tensor<1x2x4x!quant.uniform<u8:f32, 0.5:128>>
  func.return %0, %1 : tensor<1x2x4x!a>, tensor<1x2x4x!quant.uniform<u8:f32, 0.5:128>>
}

// Scales along the summed channels are no type of a convolution's input.
// CHECK-LABEL: func.func @channels_of_the_input(
// CHECK: quant.rescale
func.func @channels_of_the_input(%x: tensor<1x2x4x!quant.uniform<i8:f32:1, {0.5, 0.25}>>, %w: tensor<2x2x1x!w>) -> tensor<1x2x4x!out> {
  %0 = quant.rescale %x : tensor<1x2x4x!quant.uniform<i8:f32:1, {0.5, 0.25}>> to tensor<1x2x4x!a>
  // expected-remark@+1 {{combine-down refused [port]: takes no input quantized along dimension 1}}
  %1 = nn.conv_transpose1d %0, %w : (tensor<1x2x4x!a>, tensor<2x2x1x!w>) -> tensor<1x2x4x!out>
  func.return %1 : tensor<1x2x4x!out>
}

// A weight of run time: 2 products of at most 32.
// CHECK-LABEL: func.func @run_time_weight(
// CHECK-NOT: quant.rescale
// CHECK: nn.conv1d
func.func @run_time_weight(%x: tensor<1x2x4x!a>, %w: tensor<3x2x1x!w>) -> tensor<1x3x4x!out> {
  %0 = quant.rescale %x : tensor<1x2x4x!a> to tensor<1x2x4x!b>
  // expected-remark@+1 {{combine-down fired, bounded(49)}}
  %1 = nn.conv1d %0, %w : (tensor<1x2x4x!b>, tensor<3x2x1x!w>) -> tensor<1x3x4x!out>
  func.return %1 : tensor<1x3x4x!out>
}

// -- matrix products -----------------------------------------------------------------------

// Both operands, in batches: 4 products of at most 63.75, as rescaled; the other rescale
// then meets the operand as it was, at most 64.
// CHECK-LABEL: func.func @matmul_both(
// CHECK-NOT: quant.rescale
// CHECK: nn.matmul {{.*}} : (tensor<2x?x4x!quant.uniform<i8:f32, 5.000000e-01>>, tensor<2x4x3x!quant.uniform<i8:f32, 5.000000e-01>>)
func.func @matmul_both(%x: tensor<2x?x4x!a>, %y: tensor<2x4x3x!a>) -> tensor<2x?x3x!out> {
  %0 = quant.rescale %x : tensor<2x?x4x!a> to tensor<2x?x4x!b>
  %1 = quant.rescale %y : tensor<2x4x3x!a> to tensor<2x4x3x!b>
  // expected-remark@+2 {{combine-down fired, bounded(192.25)}}
  // expected-remark@+1 {{combine-down fired, bounded(193)}}
  %2 = nn.matmul %0, %1 : (tensor<2x?x4x!b>, tensor<2x4x3x!b>) -> tensor<2x?x3x!out>
  func.return %2 : tensor<2x?x3x!out>
}

// CHECK-LABEL: func.func @matmul_of_any_depth(
// CHECK: quant.rescale
func.func @matmul_of_any_depth(%x: tensor<4x?x!a>, %y: tensor<?x3x!a>) -> tensor<4x3x!out> {
  %0 = quant.rescale %x : tensor<4x?x!a> to tensor<4x?x!b>
  // expected-remark@+1 {{combine-down refused [unbounded]: no bound on what a change of this operand does}}
  %1 = nn.matmul %0, %y : (tensor<4x?x!b>, tensor<?x3x!a>) -> tensor<4x3x!out>
  func.return %1 : tensor<4x3x!out>
}

// -- arithmetic ----------------------------------------------------------------------------

// CHECK-LABEL: func.func @batched_add(
// CHECK-NOT: quant.rescale
// CHECK: nn.add {{.*}} : (tensor<?x4x!quant.uniform<i8:f32, 5.000000e-01>>, tensor<4x!quant.uniform<i8:f32:0, {5.000000e-01,2.500000e-01,1.000000e+00,1.000000e+00}>>)
func.func @batched_add(%x: tensor<?x4x!a>, %y: tensor<4x!quant.uniform<i8:f32:0, {0.5, 0.25, 1.0, 1.0}>>) -> tensor<?x4x!out> {
  %0 = quant.rescale %x : tensor<?x4x!a> to tensor<?x4x!b>
  %1 = quant.rescale %y : tensor<4x!quant.uniform<i8:f32:0, {0.5, 0.25, 1.0, 1.0}>> to tensor<4x!wide>
  // expected-remark@+2 {{combine-down fired, exact}}
  // expected-remark@+1 {{combine-down fired, bounded(1.75)}}
  %2 = nn.add %0, %1 : (tensor<?x4x!b>, tensor<4x!wide>) -> tensor<?x4x!out>
  func.return %2 : tensor<?x4x!out>
}

// CHECK-LABEL: func.func @sub_used_twice(
// CHECK: [[V:%[a-z0-9_]+]] = quant.rescale
// CHECK-NEXT: nn.sub %{{[a-z0-9_]+}}, %{{[a-z0-9_]+}} : (tensor<?x!quant.uniform<i8:f32, 5.000000e-01>>, tensor<?x!quant.uniform<i8:f32, 5.000000e-01>>)
// CHECK-NEXT: return [[V]]
func.func @sub_used_twice(%x: tensor<?x!a>, %y: tensor<?x!a>) -> (tensor<?x!b>, tensor<?x!out>) {
  %0 = quant.rescale %x : tensor<?x!a> to tensor<?x!b>
  // expected-remark@+1 {{combine-down fired, bounded(1.75)}}
  %1 = nn.sub %y, %0 : (tensor<?x!a>, tensor<?x!b>) -> tensor<?x!out>
  func.return %0, %1 : tensor<?x!b>, tensor<?x!out>
}

// The other side is 64 at most.
// CHECK-LABEL: func.func @mul(
// CHECK-NOT: quant.rescale
// CHECK: nn.mul
func.func @mul(%x: tensor<?x!a>, %y: tensor<?x!a>) -> tensor<?x!out> {
  %0 = quant.rescale %x : tensor<?x!a> to tensor<?x!b>
  // expected-remark@+1 {{combine-down fired, bounded(49)}}
  %1 = nn.mul %0, %y : (tensor<?x!b>, tensor<?x!a>) -> tensor<?x!out>
  func.return %1 : tensor<?x!out>
}

// A constant is what it is: 1 at most, per axis.
// CHECK-LABEL: func.func @mul_by_a_constant(
// CHECK-NOT: quant.rescale
// CHECK: nn.mul
func.func @mul_by_a_constant(%x: tensor<?x2x!a>) -> tensor<?x2x!out> {
  %y = nn.constant dense<[1, -4]> : tensor<2xi8> : tensor<2x!quant.uniform<i8:f32:0, {0.5, 0.25}>>
  %0 = quant.rescale %x : tensor<?x2x!a> to tensor<?x2x!b>
  // expected-remark@+1 {{combine-down fired, bounded(1.75)}}
  %1 = nn.mul %0, %y : (tensor<?x2x!b>, tensor<2x!quant.uniform<i8:f32:0, {0.5, 0.25}>>) -> tensor<?x2x!out>
  func.return %1 : tensor<?x2x!out>
}

// CHECK-LABEL: func.func @div_by_a_splat(
// CHECK-NOT: quant.rescale
// CHECK: nn.div
func.func @div_by_a_splat(%x: tensor<4x!a>) -> tensor<4x!out> {
  %y = nn.constant dense<2> : tensor<4xi8> : tensor<4x!w>
  %0 = quant.rescale %x : tensor<4x!a> to tensor<4x!b>
  // expected-remark@+1 {{combine-down fired, bounded(2.5)}}
  %1 = nn.div %0, %y : (tensor<4x!b>, tensor<4x!w>) -> tensor<4x!out>
  func.return %1 : tensor<4x!out>
}

// The divisor was clamped to 1.25 or more: with its rounding, 1 at least.
// CHECK-LABEL: func.func @div_by_a_clamped(
// CHECK-NOT: quant.rescale
// CHECK: nn.div
func.func @div_by_a_clamped(%x: tensor<4x!a>, %y: tensor<4x!a>) -> tensor<4x!out> {
  %c = nn.clip %y min 1.25 : (tensor<4x!a>) -> tensor<4x!a>
  %0 = quant.rescale %x : tensor<4x!a> to tensor<4x!b>
  // expected-remark@+1 {{combine-down fired, bounded(1.75)}}
  %1 = nn.div %0, %c : (tensor<4x!b>, tensor<4x!a>) -> tensor<4x!out>
  func.return %1 : tensor<4x!out>
}

// CHECK-LABEL: func.func @div_by_what_may_be_0(
// CHECK: quant.rescale
func.func @div_by_what_may_be_0(%x: tensor<4x!a>, %y: tensor<4x!a>) -> tensor<4x!out> {
  %0 = quant.rescale %x : tensor<4x!a> to tensor<4x!b>
  // expected-remark@+1 {{combine-down refused [unbounded]: no bound on what a change of this operand does}}
  %1 = nn.div %0, %y : (tensor<4x!b>, tensor<4x!a>) -> tensor<4x!out>
  func.return %1 : tensor<4x!out>
}

// -- softmax -------------------------------------------------------------------------------

// No probability moves by more than half of what the inputs move by.
// CHECK-LABEL: func.func @softmax(
// CHECK: nn.softmax {{.*}} : (tensor<?x4x!quant.uniform<i8:f32, 5.000000e-01>>) -> tensor<?x4x!quant.uniform<u8:f32, 3.906250e-03>>
// CHECK-NEXT: return
func.func @softmax(%x: tensor<?x4x!a>) -> tensor<?x4x!quant.uniform<u8:f32, 0.00390625>> {
  %0 = quant.rescale %x : tensor<?x4x!a> to tensor<?x4x!quant.uniform<i8:f32, 0.625>>
  // expected-remark@+1 {{combine-down fired, bounded(41)}}
  %1 = nn.softmax %0 : (tensor<?x4x!quant.uniform<i8:f32, 0.625>>) -> tensor<?x4x!quant.uniform<i8:f32, 0.00390625:-128>>
  // expected-remark@+1 {{combine-up fired, exact}}
  %2 = quant.rescale %1 : tensor<?x4x!quant.uniform<i8:f32, 0.00390625:-128>> to tensor<?x4x!quant.uniform<u8:f32, 0.00390625>>
  func.return %2 : tensor<?x4x!quant.uniform<u8:f32, 0.00390625>>
}

// CHECK-LABEL: func.func @softmax_per_axis(
// CHECK: quant.rescale
func.func @softmax_per_axis(%x: tensor<2x4x!a>) -> tensor<2x4x!quant.uniform<u8:f32:0, {0.00390625, 0.00390625}>> {
  %0 = nn.softmax %x : (tensor<2x4x!a>) -> tensor<2x4x!quant.uniform<u8:f32, 0.00390625>>
  // expected-remark@+1 {{combine-up refused [port]: takes no result quantized along dimension 0}}
  %1 = quant.rescale %0 : tensor<2x4x!quant.uniform<u8:f32, 0.00390625>> to tensor<2x4x!quant.uniform<u8:f32:0, {0.00390625, 0.00390625}>>
  func.return %1 : tensor<2x4x!quant.uniform<u8:f32:0, {0.00390625, 0.00390625}>>
}

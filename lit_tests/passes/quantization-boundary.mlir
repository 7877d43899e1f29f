// RUN: qopt-opt %s -p quantization-boundary --remarks --verify-diagnostics

// Every code with a case that has it and one that has not; unexpected remarks fail too. Every fix
// was run and mends what it stands at.

!q = tensor<4x!quant.uniform<i8:f32, 0.5:3>>
!r = tensor<4x!quant.uniform<u8:f32, 0.25:128>>
!f = tensor<4xf32>
!image = tensor<1x3x5x5x!quant.uniform<i8:f32, 0.5:3>>
!kernel = tensor<4x3x3x3x!quant.uniform<i8:f32:0, {0.5, 0.25, 1.0, 2.0}>>
!sums = tensor<1x4x3x3x!quant.uniform<i32:f32:1, {0.25, 0.125, 0.5, 1.0}>>
!rows = tensor<2x4x!quant.uniform<i8:f32:0, {0.5, 0.25}>>

// -- B1 -------------------------------------------------------------------------------

// The request: integers into a convolution, floats out of it.
func.func @b1_convolution(%x: !image, %w: !kernel, %y: tensor<1x4x3x3xf32>) -> tensor<1x4x3x3xf32> {
  %0 = quant.dcast %x : !image to tensor<1x3x5x5xf32>
  %1 = quant.dcast %w : !kernel to tensor<4x3x3x3xf32>
  // expected-remark@+1 {{[B1] 'nn.conv2d' takes codes only, but its result stays float; fix: type-accumulators}}
  %2 = nn.conv2d %0, %1 : (tensor<1x3x5x5xf32>, tensor<4x3x3x3xf32>) -> tensor<1x4x3x3xf32>
  %3 = nn.add %2, %y : (tensor<1x4x3x3xf32>, tensor<1x4x3x3xf32>) -> tensor<1x4x3x3xf32>
  func.return %3 : tensor<1x4x3x3xf32>
}

func.func @b1_typed(%x: !image, %w: !kernel) -> !sums {
  %0 = nn.conv2d %x, %w : (!image, !kernel) -> !sums
  func.return %0 : !sums
}

func.func @b1_function(%x: !q) -> !f {
  %0 = quant.dcast %x : !q to !f
  // expected-remark@+1 {{[B1] 'nn.sigmoid' takes codes only, but its result stays float; fix: lower-float-regions{numerics=relaxed}}}
  %1 = nn.sigmoid %0 : (!f) -> !f
  func.return %1 : !f
}

// Moved and compared codes are codes; one of two users is not quantized.
func.func @b1_through_movement(%x: !q, %y: !r) -> (!f, !q) {
  %0 = quant.dcast %x : !q to !f
  %1 = nn.flip %0 axes [0] : (!f) -> !f
  // expected-remark@+1 {{[B1] 'nn.relu' takes codes only, but its result stays float; fix: move-casts{boundary=maximize-integer}}}
  %2 = nn.relu %1 : (!f) -> !f
  %3 = quant.dcast %y : !r to !f
  // expected-remark@+1 {{[B1] 'nn.add' takes codes only}}
  %4 = nn.add %2, %3 : (!f, !f) -> !f
  %5 = quant.qcast %4 : !f to !q
  // Its own operand is float, so this one is not at the boundary.
  %6 = nn.tanh %4 : (!f) -> !f
  func.return %6, %5 : !f, !q
}

func.func @b1_unknown_op(%x: !q, %y: !f) -> (!f, !f) {
  %0 = quant.dcast %x : !q to !f
  // expected-remark@+1 {{[B1] 'Elu' takes dequantized codes; it has no declared behavior; no pass mends it: nobody says what it computes}}
  %1 = onnx.node "Elu" (%0) : (!f) -> !f
  %2 = onnx.node "Elu" (%y) : (!f) -> !f
  func.return %1, %2 : !f, !f
}

func.func @b1_dynamic(%x: tensor<?x4x!quant.uniform<i8:f32, 0.5:3>>) -> tensor<?x4xf32> {
  %0 = quant.dcast %x : tensor<?x4x!quant.uniform<i8:f32, 0.5:3>> to tensor<?x4xf32>
  // expected-remark@+1 {{[B1] 'nn.softmax'}}
  %1 = nn.softmax %0 : (tensor<?x4xf32>) -> tensor<?x4xf32>
  func.return %1 : tensor<?x4xf32>
}

// What the sums cannot hold, they do not get.
func.func @b1_overflow(%x: tensor<3x4000x!quant.uniform<i16:f32, 0.5>>, %w: tensor<2x4000x!quant.uniform<i16:f32, 0.5>>) -> tensor<3x2xf32> {
  // expected-remark@+1 {{its result stays float; no pass mends it: a sum of 4000 products may leave 32 bits [overflow]}}
  %0 = nn.fully_connected %x, %w : (tensor<3x4000x!quant.uniform<i16:f32, 0.5>>, tensor<2x4000x!quant.uniform<i16:f32, 0.5>>) -> tensor<3x2xf32>
  func.return %0 : tensor<3x2xf32>
}

// -- B2 -------------------------------------------------------------------------------

func.func @b2_constant(%x: !q) -> !f {
  %0 = quant.dcast %x : !q to !f
  %1 = nn.constant dense<[0.3, 1.0, 2.0, 3.0]> : !f : !f
  // expected-remark@+1 {{[B2] 'nn.mul' takes codes, but float rhs (a constant); fix: lower-float-regions{numerics=relaxed}}}
  %2 = nn.mul %0, %1 : (!f, !f) -> !f
  func.return %2 : !f
}

func.func @b2_argument(%x: !q, %y: !f) -> !f {
  %0 = quant.dcast %x : !q to !f
  // expected-remark@+1 {{[B2] 'nn.mul' takes codes, but float lhs; no pass mends it: nothing says on which qparams: only data can (apply-profile)}}
  %1 = nn.mul %y, %0 : (!f, !f) -> !f
  func.return %1 : !f
}

// Weights alone, a bias alone, and a bias that is not.
func.func @b2_some_ports(%x: tensor<3x4xf32>, %w: tensor<2x4xf32>, %cw: !rows, %b: tensor<2x!quant.uniform<i32:f32, 0.5>>, %cx: tensor<3x4x!quant.uniform<i8:f32, 0.5>>, %fb: tensor<2xf32>) -> (tensor<3x2xf32>, tensor<3x2xf32>, tensor<3x2x!quant.uniform<i8:f32, 0.5>>) {
  %0 = quant.dcast %cw : !rows to tensor<2x4xf32>
  %1 = quant.dcast %b : tensor<2x!quant.uniform<i32:f32, 0.5>> to tensor<2xf32>
  // expected-remark@+1 {{[B2] 'nn.fully_connected' takes codes, but float input}}
  %2 = nn.fully_connected %x, %0 : (tensor<3x4xf32>, tensor<2x4xf32>) -> tensor<3x2xf32>
  // expected-remark@+1 {{[B2] 'nn.fully_connected' takes codes, but float input, weight}}
  %3 = nn.fully_connected %x, %w, %1 : (tensor<3x4xf32>, tensor<2x4xf32>, tensor<2xf32>) -> tensor<3x2xf32>
  // expected-remark@+1 {{[B2] 'nn.fully_connected' takes codes, but float bias}}
  %4 = nn.fully_connected %cx, %cw, %fb : (tensor<3x4x!quant.uniform<i8:f32, 0.5>>, !rows, tensor<2xf32>) -> tensor<3x2x!quant.uniform<i8:f32, 0.5>>
  func.return %2, %3, %4 : tensor<3x2xf32>, tensor<3x2xf32>, tensor<3x2x!quant.uniform<i8:f32, 0.5>>
}

func.func @b2_not(%x: !q, %y: !r) -> !q {
  %0 = nn.mul %x, %y : (!q, !r) -> !q
  func.return %0 : !q
}

// -- B3 -------------------------------------------------------------------------------

func.func @b3_island(%x: !q, %y: !r) -> !q {
  %0 = quant.dcast %x : !q to !f
  %1 = quant.dcast %y : !r to !f
  // expected-remark@+1 {{[B3] 2 float op(s) between codes: nn.add, nn.relu; fix: integerize}}
  %2 = nn.add %0, %1 : (!f, !f) -> !f
  %3 = nn.relu %2 : (!f) -> !f
  %4 = quant.qcast %3 : !f to !q
  func.return %4 : !q
}

func.func @b3_two_outputs(%x: !q) -> (!q, !r) {
  %0 = quant.dcast %x : !q to !f
  // expected-remark@+1 {{[B3] 1 float op(s) between codes: nn.tanh; fix: lower-float-regions{numerics=bounded}}}
  %1 = nn.tanh %0 : (!f) -> !f
  %2 = quant.qcast %1 : !f to !q
  %3 = quant.qcast %1 : !f to !r
  func.return %2, %3 : !q, !r
}

func.func @b3_blocked(%x: !q, %y: !f) -> !q {
  %0 = quant.dcast %x : !q to !f
  // expected-remark@+1 {{[B3] 2 float op(s) between codes: nn.relu, nn.add; kept float by the rhs of 'nn.add', which has no qparams; no pass mends it: what keeps it float has to become codes}}
  %1 = nn.relu %0 : (!f) -> !f
  %2 = nn.add %1, %y : (!f, !f) -> !f
  %3 = quant.qcast %2 : !f to !q
  func.return %3 : !q
}

// expected-remark@+1 {{[B7] argument #1 is float and only moved and quantized}}
func.func @b3_joined_with_a_float(%x: !q, %y: !f) -> tensor<8x!quant.uniform<i8:f32, 0.5:3>> {
  %0 = quant.dcast %x : !q to !f
  // expected-remark@+1 {{[B3] 1 float op(s) between codes: nn.concat; kept float by the inputs of 'nn.concat', which has no qparams}}
  %1 = nn.concat %0, %y axis 0 : (!f, !f) -> tensor<8xf32>
  %2 = quant.qcast %1 : tensor<8xf32> to tensor<8x!quant.uniform<i8:f32, 0.5:3>>
  func.return %2 : tensor<8x!quant.uniform<i8:f32, 0.5:3>>
}

func.func @b3_scales_by_channel(%x: !image, %w: !kernel) -> tensor<1x4x3x3x!quant.uniform<i8:f32, 0.5>> {
  %0 = quant.dcast %x : !image to tensor<1x3x5x5xf32>
  %1 = quant.dcast %w : !kernel to tensor<4x3x3x3xf32>
  // expected-remark@+1 {{[B3] 2 float op(s) between codes: nn.conv2d, nn.hard_swish; fix: lower-float-regions{numerics=bounded}}}
  %2 = nn.conv2d %0, %1 : (tensor<1x3x5x5xf32>, tensor<4x3x3x3xf32>) -> tensor<1x4x3x3xf32>
  %3 = nn.hard_swish %2 : (tensor<1x4x3x3xf32>) -> tensor<1x4x3x3xf32>
  %4 = quant.qcast %3 : tensor<1x4x3x3xf32> to tensor<1x4x3x3x!quant.uniform<i8:f32, 0.5>>
  func.return %4 : tensor<1x4x3x3x!quant.uniform<i8:f32, 0.5>>
}

func.func @b3_needs_an_accumulator(%x: !image, %w: tensor<4x3x3x3x!quant.uniform<i8:f32, 0.5>>) -> tensor<1x4x3x3x!quant.uniform<i8:f32, 0.5>> {
  %0 = quant.dcast %x : !image to tensor<1x3x5x5xf32>
  %1 = quant.dcast %w : tensor<4x3x3x3x!quant.uniform<i8:f32, 0.5>> to tensor<4x3x3x3xf32>
  // expected-remark@+1 {{[B3] 2 float op(s) between codes: nn.conv2d, nn.hard_swish; fix: type-accumulators,integerize}}
  %2 = nn.conv2d %0, %1 : (tensor<1x3x5x5xf32>, tensor<4x3x3x3xf32>) -> tensor<1x4x3x3xf32>
  %3 = nn.hard_swish %2 : (tensor<1x4x3x3xf32>) -> tensor<1x4x3x3xf32>
  %4 = quant.qcast %3 : tensor<1x4x3x3xf32> to tensor<1x4x3x3x!quant.uniform<i8:f32, 0.5>>
  func.return %4 : tensor<1x4x3x3x!quant.uniform<i8:f32, 0.5>>
}

// Floats that are quantized in the end: nothing here was codes before.
func.func @b3_not(%x: !f) -> !q {
  %0 = nn.tanh %x : (!f) -> !f
  %1 = quant.qcast %0 : !f to !q
  func.return %1 : !q
}

// -- B4 -------------------------------------------------------------------------------

func.func @b4(%x: !q) -> !q {
  %0 = quant.scast %x : !q to tensor<4xi8>
  // expected-remark@+1 {{[B4] codes of !quant.uniform<i8:f32, 5.000000e-01:3> are read as !quant.uniform<i8:f32, 5.000000e-01:4> without a rescale; no pass mends it: what is meant, nobody can tell: insert a quant.rescale, or leave it}}
  %1 = quant.scast %0 : tensor<4xi8> to tensor<4x!quant.uniform<i8:f32, 0.5:4>>
  %2 = quant.rescale %1 : tensor<4x!quant.uniform<i8:f32, 0.5:4>> to !q
  func.return %2 : !q
}

func.func @b4_moved(%x: !rows) -> (tensor<4x2x!quant.uniform<i8:f32:0, {0.5, 0.25, 0.5, 0.25}>>, tensor<4x2x!quant.uniform<i8:f32:1, {0.5, 0.25}>>) {
  %0 = quant.scast %x : !rows to tensor<2x4xi8>
  %1 = nn.transpose %0 perm [1, 0] : (tensor<2x4xi8>) -> tensor<4x2xi8>
  // expected-remark@+1 {{[B4] codes of !quant.uniform<i8:f32:1, {5.000000e-01,2.500000e-01}> are read as}}
  %2 = quant.scast %1 : tensor<4x2xi8> to tensor<4x2x!quant.uniform<i8:f32:0, {0.5, 0.25, 0.5, 0.25}>>
  %3 = quant.scast %1 : tensor<4x2xi8> to tensor<4x2x!quant.uniform<i8:f32:1, {0.5, 0.25}>>
  func.return %2, %3 : tensor<4x2x!quant.uniform<i8:f32:0, {0.5, 0.25, 0.5, 0.25}>>, tensor<4x2x!quant.uniform<i8:f32:1, {0.5, 0.25}>>
}

func.func @b4_not(%x: !q, %bits: tensor<4xi8>) -> (!q, !r) {
  %0 = quant.scast %x : !q to tensor<4xi8>
  %1 = quant.scast %0 : tensor<4xi8> to !q
  %2 = quant.scast %bits : tensor<4xi8> to !r
  func.return %1, %2 : !q, !r
}

// -- B5 -------------------------------------------------------------------------------

func.func @b5_merged(%x: !rows, %y: tensor<8xf32>) -> tensor<8xf32> {
  %0 = quant.dcast %x : !rows to tensor<2x4xf32>
  // expected-remark@+1 {{[B5] qparams cannot follow 'nn.reshape': 2 parameters would become 8 [growth]; no pass mends it: they would have to be chosen anew}}
  %1 = nn.reshape %0 : (tensor<2x4xf32>) -> tensor<8xf32>
  %2 = nn.add %1, %y : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32> // expected-remark {{[B2]}}
  func.return %2 : tensor<8xf32>
}

func.func @b5_summed(%x: tensor<3x2x!quant.uniform<i8:f32, 0.5:3>>, %w: tensor<4x2x!quant.uniform<i8:f32:1, {0.5, 0.25}>>, %y: tensor<3x4xf32>) -> tensor<3x4xf32> {
  %0 = quant.dcast %x : tensor<3x2x!quant.uniform<i8:f32, 0.5:3>> to tensor<3x2xf32>
  %1 = quant.dcast %w : tensor<4x2x!quant.uniform<i8:f32:1, {0.5, 0.25}>> to tensor<4x2xf32>
  // expected-remark@+1 {{[B5] 'nn.fully_connected' takes no weight quantized along dimension 1; no pass mends it: no accumulator has a scale for each of them}}
  %2 = nn.fully_connected %0, %1 : (tensor<3x2xf32>, tensor<4x2xf32>) -> tensor<3x4xf32>
  %3 = nn.add %2, %y : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
  func.return %3 : tensor<3x4xf32>
}

func.func @b5_not(%x: !rows) -> tensor<2x2x2x!quant.uniform<i8:f32:0, {0.5, 0.25}>> {
  %0 = nn.reshape %x : (!rows) -> tensor<2x2x2x!quant.uniform<i8:f32:0, {0.5, 0.25}>>
  func.return %0 : tensor<2x2x2x!quant.uniform<i8:f32:0, {0.5, 0.25}>>
}

// -- B6 -------------------------------------------------------------------------------

func.func @b6(%x: !q, %y: !f) -> (!q, !r, !f) {
  %0 = quant.dcast %x : !q to !f
  // expected-remark@+1 {{[B6] quantize of dequantize: is nothing; fix: fold-rescale}}
  %1 = quant.qcast %0 : !f to !q
  // expected-remark@+1 {{[B6] quantize of dequantize: is a rescale; fix: fold-rescale}}
  %2 = quant.qcast %0 : !f to !r
  %3 = nn.tanh %y : (!f) -> !f
  %4 = quant.qcast %3 : !f to !q
  // expected-remark@+1 {{[B6] dequantize of quantize: rounds and clips; fix: fold-rescale{numerics=relaxed}}}
  %5 = quant.dcast %4 : !q to !f
  %6 = nn.add %5, %y : (!f, !f) -> !f // expected-remark {{[B2]}}
  func.return %1, %2, %6 : !q, !r, !f
}

func.func @b6_not(%x: !q) -> !r {
  %0 = quant.rescale %x : !q to !r
  func.return %0 : !r
}

// -- B7 -------------------------------------------------------------------------------

// expected-remark@+2 {{[B7] argument #0 is float and only quantized; fix: fold-interface}}
// expected-remark@+1 {{[B7] result #0 is float, dequantized at the end; fix: fold-interface}}
func.func @b7(%x: !f) -> !f {
  %0 = quant.qcast %x : !f to !q
  %1 = nn.relu %0 : (!q) -> !q
  %2 = quant.dcast %1 : !q to !f
  func.return %2 : !f
}

// expected-remark@+3 {{[B7] argument #0 is float and only moved and quantized; fix: move-casts{boundary=maximize-integer},fold-interface}}
// expected-remark@+2 {{[B7] argument #1 is float and only quantized, in 2 ways; no pass mends it: an argument has one type}}
// expected-remark@+1 {{[B7] result #0 is float, dequantized and moved; fix: move-casts{boundary=maximize-integer},fold-interface}}
func.func @b7_moved(%x: !f, %y: !f) -> (!f, !q, !q, !r) {
  %0 = nn.flip %x axes [0] : (!f) -> !f
  %1 = quant.qcast %0 : !f to !q
  %2 = quant.qcast %y : !f to !q
  %3 = quant.qcast %y : !f to !r
  %4 = quant.dcast %3 : !r to !f // expected-remark {{[B6]}}
  %5 = nn.flip %4 axes [0] : (!f) -> !f
  func.return %5, %1, %2, %3 : !f, !q, !q, !r
}

func.func private @b7_declared(!f) -> !f

// expected-remark@+1 {{[B7] argument #0 is float and only quantized; no pass mends it: the module calls it}}
func.func @b7_called(%x: !f) -> !q {
  %0 = quant.qcast %x : !f to !q
  func.return %0 : !q
}

func.func @b7_not(%x: !f, %c: !q) -> (!q, !q) {
  %0 = func.call @b7_called(%x) : (!f) -> !q
  %1 = nn.relu %c : (!q) -> !q
  func.return %0, %1 : !q, !q
}

// RUN: qopt-opt %s -p type-accumulators --remarks --verify-diagnostics | filecheck %s

// Contractions of codes with a float result sum integers; nothing is calibrated.

!x = tensor<3x4x!quant.uniform<i8:f32, 0.5:3>>
!w = tensor<2x4x!quant.uniform<i8:f32, 0.25>>
!rows = tensor<2x4x!quant.uniform<i8:f32:0, {0.5, 0.25}>>
!sums = tensor<3x2x!quant.uniform<i32:f32, 0.125>>
!fx = tensor<3x4xf32>
!fw = tensor<2x4xf32>
!fy = tensor<3x2xf32>

// CHECK-LABEL: func.func @fully_connected(
// CHECK-NEXT: nn.fully_connected {{.*}} -> tensor<3x2x!quant.uniform<i32:f32, 1.250000e-01>>
// CHECK-NEXT: quant.dcast {{.*}} to tensor<3x2xf32>
// CHECK-NEXT: return
func.func @fully_connected(%x: !x, %w: !w) -> !fy {
  // DOC-BEFORE
  %0 = quant.dcast %x : !x to !fx
  %1 = quant.dcast %w : !w to !fw
  // expected-remark@+1 {{type-accumulator fired, exact}}
  %2 = nn.fully_connected %0, %1 : (!fx, !fw) -> !fy
  // DOC-AFTER
  //   %0 = nn.fully_connected %x, %w : (!x, !w) -> !sums
  //   %2 = quant.dcast %0 : !sums to !fy
  // DOC-END
  func.return %2 : !fy
}

// Per axis, key kept; the float bias is added below, along the channels.
// CHECK-LABEL: func.func @convolution(
// CHECK-NEXT: nn.conv2d {{.*}} -> tensor<1x2x4x4x!quant.uniform<i32:f32:1, {2.500000e-01,5.000000e-01}>>
// CHECK-NEXT: quant.dcast
// CHECK-NEXT: nn.reshape {{.*}} -> tensor<2x1x1xf32>
// CHECK-NEXT: nn.add {{.*}} {nn.key = "conv"} : {{.*}} -> tensor<1x2x4x4xf32>
func.func @convolution(%x: tensor<1x3x4x4x!quant.uniform<u8:f32, 0.5:128>>, %w: tensor<2x3x1x1x!quant.uniform<i8:f32:0, {0.5, 1.0}>>, %b: tensor<2xf32>) -> tensor<1x2x4x4xf32> {
  %0 = quant.dcast %x : tensor<1x3x4x4x!quant.uniform<u8:f32, 0.5:128>> to tensor<1x3x4x4xf32>
  %1 = quant.dcast %w : tensor<2x3x1x1x!quant.uniform<i8:f32:0, {0.5, 1.0}>> to tensor<2x3x1x1xf32>
  // expected-remark@+1 {{type-accumulator fired, exact}}
  %2 = nn.conv2d %0, %1, %b {nn.key = "conv"} : (tensor<1x3x4x4xf32>, tensor<2x3x1x1xf32>, tensor<2xf32>) -> tensor<1x2x4x4xf32>
  func.return %2 : tensor<1x2x4x4xf32>
}

// CHECK-LABEL: func.func @bias_on_the_sums(
// CHECK: nn.fully_connected %{{.*}}, %{{.*}}, %{{.*}} :
// CHECK-NEXT: quant.dcast
// CHECK-NEXT: return
func.func @bias_on_the_sums(%x: !x, %w: !w) -> !fy {
  %b = nn.constant dense<[100, -7]> : tensor<2xi32> : tensor<2x!quant.uniform<i32:f32, 0.125>>
  %0 = quant.dcast %x : !x to !fx
  %1 = quant.dcast %w : !w to !fw
  %2 = quant.dcast %b : tensor<2x!quant.uniform<i32:f32, 0.125>> to tensor<2xf32>
  // expected-remark@+1 {{type-accumulator fired, exact}}
  %3 = nn.fully_connected %0, %1, %2 : (!fx, !fw, tensor<2xf32>) -> !fy
  func.return %3 : !fy
}

// 32 bits may not hold this one.
// CHECK-LABEL: func.func @large_bias(
// CHECK: nn.fully_connected %{{[a-z0-9]+}}, %{{[a-z0-9]+}} :
// CHECK: nn.add
func.func @large_bias(%x: !x, %w: !w) -> !fy {
  %b = nn.constant dense<[2147483647, -7]> : tensor<2xi32> : tensor<2x!quant.uniform<i32:f32, 0.125>>
  %0 = quant.dcast %x : !x to !fx
  %1 = quant.dcast %w : !w to !fw
  %2 = quant.dcast %b : tensor<2x!quant.uniform<i32:f32, 0.125>> to tensor<2xf32>
  // expected-remark@+1 {{type-accumulator fired, exact}}
  %3 = nn.fully_connected %0, %1, %2 : (!fx, !fw, tensor<2xf32>) -> !fy
  func.return %3 : !fy
}

// CHECK-LABEL: func.func @multi_use(
// CHECK-NEXT: nn.fully_connected {{.*}} -> tensor<3x2x!quant
// CHECK-NEXT: [[V:%[a-z0-9_]+]] = quant.dcast
// CHECK-NEXT: nn.tanh [[V]]
func.func @multi_use(%x: !x, %w: !rows) -> (!fy, !fy) {
  %0 = quant.dcast %x : !x to !fx
  %1 = quant.dcast %w : !rows to !fw
  // expected-remark@+1 {{type-accumulator fired, exact}}
  %2 = nn.fully_connected %0, %1 : (!fx, !fw) -> !fy
  %3 = nn.tanh %2 : (!fy) -> !fy
  func.return %2, %3 : !fy, !fy
}

// CHECK-LABEL: func.func @dynamic_rows(
// CHECK: nn.fully_connected {{.*}} -> tensor<?x2x!quant.uniform<i32
func.func @dynamic_rows(%x: tensor<?x4x!quant.uniform<i8:f32, 0.5:3>>, %w: !w) -> tensor<?x2xf32> {
  %0 = quant.dcast %x : tensor<?x4x!quant.uniform<i8:f32, 0.5:3>> to tensor<?x4xf32>
  %1 = quant.dcast %w : !w to !fw
  // expected-remark@+1 {{type-accumulator fired, exact}}
  %2 = nn.fully_connected %0, %1 : (tensor<?x4xf32>, !fw) -> tensor<?x2xf32>
  func.return %2 : tensor<?x2xf32>
}

// CHECK-LABEL: func.func @dynamic_depth(
// CHECK: nn.matmul {{.*}} -> tensor<3x2xf32>
func.func @dynamic_depth(%x: tensor<3x?x!quant.uniform<i8:f32, 0.5:3>>, %w: tensor<?x2x!quant.uniform<i8:f32, 0.5>>) -> !fy {
  %0 = quant.dcast %x : tensor<3x?x!quant.uniform<i8:f32, 0.5:3>> to tensor<3x?xf32>
  %1 = quant.dcast %w : tensor<?x2x!quant.uniform<i8:f32, 0.5>> to tensor<?x2xf32>
  // expected-remark@+1 {{type-accumulator refused [overflow]: the number of products summed is not known}}
  %2 = nn.matmul %0, %1 : (tensor<3x?xf32>, tensor<?x2xf32>) -> !fy
  func.return %2 : !fy
}

// CHECK-LABEL: func.func @too_deep(
// CHECK: nn.matmul {{.*}} -> tensor<3x2xf32>
func.func @too_deep(%x: tensor<3x2x!quant.uniform<i16:f32, 0.5:1>>, %w: tensor<2x2x!quant.uniform<i16:f32, 0.5>>) -> !fy {
  %0 = quant.dcast %x : tensor<3x2x!quant.uniform<i16:f32, 0.5:1>> to !fy
  %1 = quant.dcast %w : tensor<2x2x!quant.uniform<i16:f32, 0.5>> to tensor<2x2xf32>
  // expected-remark@+1 {{type-accumulator refused [overflow]: a sum of 2 products may leave 32 bits}}
  %2 = nn.matmul %0, %1 : (!fy, tensor<2x2xf32>) -> !fy
  func.return %2 : !fy
}

// CHECK-LABEL: func.func @along_the_sum(
// CHECK: nn.fully_connected {{.*}} -> tensor<3x2xf32>
func.func @along_the_sum(%x: tensor<3x2x!quant.uniform<i8:f32, 0.5:3>>, %w: tensor<2x2x!quant.uniform<i8:f32:1, {0.5, 0.25}>>) -> !fy {
  %0 = quant.dcast %x : tensor<3x2x!quant.uniform<i8:f32, 0.5:3>> to !fy
  %1 = quant.dcast %w : tensor<2x2x!quant.uniform<i8:f32:1, {0.5, 0.25}>> to tensor<2x2xf32>
  // expected-remark@+1 {{type-accumulator refused [axis]: the right side's scales vary along a summed dimension}}
  %2 = nn.fully_connected %0, %1 : (!fy, tensor<2x2xf32>) -> !fy
  func.return %2 : !fy
}

// CHECK-LABEL: func.func @input_per_axis(
// CHECK: nn.fully_connected {{.*}} -> tensor<2x2xf32>
func.func @input_per_axis(%x: !rows, %w: !w) -> tensor<2x2xf32> {
  %0 = quant.dcast %x : !rows to !fw
  %1 = quant.dcast %w : !w to !fw
  // expected-remark@+1 {{type-accumulator refused [axis]: the left side is not quantized per tensor}}
  %2 = nn.fully_connected %0, %1 : (!fw, !fw) -> tensor<2x2xf32>
  func.return %2 : tensor<2x2xf32>
}

// CHECK-LABEL: func.func @quantized_below(
// CHECK: nn.fully_connected {{.*}} -> tensor<3x2xf32>
func.func @quantized_below(%x: !x, %w: !w) -> tensor<3x2x!quant.uniform<i8:f32, 1.0>> {
  %0 = quant.dcast %x : !x to !fx
  %1 = quant.dcast %w : !w to !fw
  // expected-remark@+1 {{type-accumulator refused [quantized]: the result is quantized: integerize}}
  %2 = nn.fully_connected %0, %1 : (!fx, !fw) -> !fy
  %3 = quant.qcast %2 : !fy to tensor<3x2x!quant.uniform<i8:f32, 1.0>>
  func.return %3 : tensor<3x2x!quant.uniform<i8:f32, 1.0>>
}

// The groups of a transposed convolution share the scales of its weight.
// CHECK-LABEL: func.func @transposed(
// CHECK-NEXT: nn.conv_transpose1d {{.*}} strides [2] groups 2 : {{.*}} -> tensor<?x4x9x!quant.uniform<i32:f32:1, {2.500000e-01,5.000000e-01,2.500000e-01,5.000000e-01}>>
// CHECK-NEXT: quant.dcast
// CHECK-NEXT: nn.reshape {{.*}} -> tensor<4x1xf32>
// CHECK-NEXT: nn.add
func.func @transposed(%x: tensor<?x4x4x!quant.uniform<u8:f32, 0.5:128>>, %w: tensor<4x2x3x!quant.uniform<i8:f32:1, {0.5, 1.0}>>, %b: tensor<4xf32>) -> tensor<?x4x9xf32> {
  %0 = quant.dcast %x : tensor<?x4x4x!quant.uniform<u8:f32, 0.5:128>> to tensor<?x4x4xf32>
  %1 = quant.dcast %w : tensor<4x2x3x!quant.uniform<i8:f32:1, {0.5, 1.0}>> to tensor<4x2x3xf32>
  // expected-remark@+1 {{type-accumulator fired, exact}}
  %2 = nn.conv_transpose1d %0, %1, %b strides [2] groups 2 : (tensor<?x4x4xf32>, tensor<4x2x3xf32>, tensor<4xf32>) -> tensor<?x4x9xf32>
  func.return %2 : tensor<?x4x9xf32>
}

// CHECK-LABEL: func.func @depthwise_transposed(
// CHECK-NEXT: nn.conv_transpose2d {{.*}} -> tensor<1x2x4x4x!quant.uniform<i32:f32:1, {2.500000e-01,5.000000e-01}>>
func.func @depthwise_transposed(%x: tensor<1x2x4x4x!quant.uniform<u8:f32, 0.5:128>>, %w: tensor<2x1x1x1x!quant.uniform<i8:f32:0, {0.5, 1.0}>>) -> tensor<1x2x4x4xf32> {
  %0 = quant.dcast %x : tensor<1x2x4x4x!quant.uniform<u8:f32, 0.5:128>> to tensor<1x2x4x4xf32>
  %1 = quant.dcast %w : tensor<2x1x1x1x!quant.uniform<i8:f32:0, {0.5, 1.0}>> to tensor<2x1x1x1xf32>
  // expected-remark@+1 {{type-accumulator fired, exact}}
  %2 = nn.conv_transpose2d %0, %1 groups 2 : (tensor<1x2x4x4xf32>, tensor<2x1x1x1xf32>) -> tensor<1x2x4x4xf32>
  func.return %2 : tensor<1x2x4x4xf32>
}

// Two of the four taps meet in an element, so 2 products at most: not in 32 bits at 16.
// CHECK-LABEL: func.func @overlapping_taps(
// CHECK: nn.conv_transpose1d {{.*}} -> tensor<1x1x6xf32>
func.func @overlapping_taps(%x: tensor<1x1x2x!quant.uniform<i16:f32, 0.5:1>>, %w: tensor<1x1x4x!quant.uniform<i16:f32, 0.5>>) -> tensor<1x1x6xf32> {
  %0 = quant.dcast %x : tensor<1x1x2x!quant.uniform<i16:f32, 0.5:1>> to tensor<1x1x2xf32>
  %1 = quant.dcast %w : tensor<1x1x4x!quant.uniform<i16:f32, 0.5>> to tensor<1x1x4xf32>
  // expected-remark@+1 {{type-accumulator refused [overflow]: a sum of 2 products may leave 32 bits}}
  %2 = nn.conv_transpose1d %0, %1 strides [2] : (tensor<1x1x2xf32>, tensor<1x1x4xf32>) -> tensor<1x1x6xf32>
  func.return %2 : tensor<1x1x6xf32>
}

// CHECK-LABEL: func.func @volume(
// CHECK-NEXT: nn.conv3d {{.*}} -> tensor<1x2x2x?x2x!quant.uniform<i32:f32, 2.500000e-01>>
func.func @volume(%x: tensor<1x3x2x?x2x!quant.uniform<i8:f32, 0.5>>, %w: tensor<2x3x1x1x1x!quant.uniform<i8:f32, 0.5>>) -> tensor<1x2x2x?x2xf32> {
  %0 = quant.dcast %x : tensor<1x3x2x?x2x!quant.uniform<i8:f32, 0.5>> to tensor<1x3x2x?x2xf32>
  %1 = quant.dcast %w : tensor<2x3x1x1x1x!quant.uniform<i8:f32, 0.5>> to tensor<2x3x1x1x1xf32>
  // expected-remark@+1 {{type-accumulator fired, exact}}
  %2 = nn.conv3d %0, %1 : (tensor<1x3x2x?x2xf32>, tensor<2x3x1x1x1xf32>) -> tensor<1x2x2x?x2xf32>
  func.return %2 : tensor<1x2x2x?x2xf32>
}

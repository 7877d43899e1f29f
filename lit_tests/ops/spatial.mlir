// RUN: qopt-opt --keep-value-names %s | filecheck %s
// RUN: qopt-opt --keep-value-names %s | qopt-opt --keep-value-names | filecheck %s
// RUN: qopt-opt --keep-value-names --mlir-print-op-generic %s | qopt-opt --keep-value-names - | filecheck %s

// Windows over one and three dimensions, and transposed convolutions.

// CHECK-LABEL: @signals
func.func @signals(%x: tensor<?x4x9xf32>, %w: tensor<6x2x3xf32>, %b: tensor<6xf32>) {
  // CHECK: nn.conv1d %x, %w, %b strides [2] pads [1, 1] groups 2 : (tensor<?x4x9xf32>, tensor<6x2x3xf32>, tensor<6xf32>) -> tensor<?x6x5xf32>
  %0 = nn.conv1d %x, %w, %b strides [2] pads [1, 1] groups 2 : (tensor<?x4x9xf32>, tensor<6x2x3xf32>, tensor<6xf32>) -> tensor<?x6x5xf32>
  // CHECK: nn.max_pool1d %x kernel [2] strides [2] ceil_mode true : (tensor<?x4x9xf32>) -> tensor<?x4x5xf32>
  %1 = nn.max_pool1d %x kernel [2] strides [2] ceil_mode true : (tensor<?x4x9xf32>) -> tensor<?x4x5xf32>
  // CHECK: nn.avg_pool1d %x count_include_pad true kernel [3] pads [1, 1] : (tensor<?x4x9xf32>) -> tensor<?x4x9xf32>
  %2 = nn.avg_pool1d %x count_include_pad true kernel [3] pads [1, 1] : (tensor<?x4x9xf32>) -> tensor<?x4x9xf32>
  // CHECK: nn.global_avg_pool1d %x : (tensor<?x4x9xf32>) -> tensor<?x4x1xf32>
  %3 = nn.global_avg_pool1d %x : (tensor<?x4x9xf32>) -> tensor<?x4x1xf32>
  return
}

// CHECK-LABEL: @volumes
func.func @volumes(%x: tensor<1x4x5x?x3xf32>, %w: tensor<6x4x3x1x1xf32>) {
  // CHECK: nn.conv3d %x, %w dilations [2, 1, 1] : (tensor<1x4x5x?x3xf32>, tensor<6x4x3x1x1xf32>) -> tensor<1x6x1x?x3xf32>
  %0 = nn.conv3d %x, %w dilations [2, 1, 1] : (tensor<1x4x5x?x3xf32>, tensor<6x4x3x1x1xf32>) -> tensor<1x6x1x?x3xf32>
  // CHECK: nn.max_pool3d %x kernel [2, 2, 2] : (tensor<1x4x5x?x3xf32>) -> tensor<1x4x4x?x2xf32>
  %1 = nn.max_pool3d %x kernel [2, 2, 2] : (tensor<1x4x5x?x3xf32>) -> tensor<1x4x4x?x2xf32>
  // CHECK: nn.avg_pool3d %x rounding half_up kernel [1, 1, 3] : (tensor<1x4x5x?x3xf32>) -> tensor<1x4x5x?x1xf32>
  %2 = nn.avg_pool3d %x rounding half_up kernel [1, 1, 3] : (tensor<1x4x5x?x3xf32>) -> tensor<1x4x5x?x1xf32>
  // CHECK: nn.global_avg_pool3d %x : (tensor<1x4x5x?x3xf32>) -> tensor<1x4x1x1x1xf32>
  %3 = nn.global_avg_pool3d %x : (tensor<1x4x5x?x3xf32>) -> tensor<1x4x1x1x1xf32>
  return
}

// CHECK-LABEL: @transposed
func.func @transposed(%x: tensor<1x4x5xf32>, %w: tensor<4x3x2xf32>, %b: tensor<6xf32>, %y: tensor<?x4x5x?xf32>, %v: tensor<4x3x2x2xf32>, %z: tensor<1x4x2x2x2xf32>, %u: tensor<4x3x1x2x2xf32>) {
  // CHECK: nn.conv_transpose1d %x, %w, %b strides [3] pads [1, 0] output_padding [1] groups 2 : (tensor<1x4x5xf32>, tensor<4x3x2xf32>, tensor<6xf32>) -> tensor<1x6x14xf32>
  %0 = nn.conv_transpose1d %x, %w, %b strides [3] pads [1, 0] output_padding [1] groups 2 : (tensor<1x4x5xf32>, tensor<4x3x2xf32>, tensor<6xf32>) -> tensor<1x6x14xf32>
  // CHECK: nn.conv_transpose2d %y, %v strides [2, 2] : (tensor<?x4x5x?xf32>, tensor<4x3x2x2xf32>) -> tensor<?x3x10x?xf32>
  %1 = nn.conv_transpose2d %y, %v strides [2, 2] : (tensor<?x4x5x?xf32>, tensor<4x3x2x2xf32>) -> tensor<?x3x10x?xf32>
  // CHECK: nn.conv_transpose3d %z, %u dilations [1, 2, 1] : (tensor<1x4x2x2x2xf32>, tensor<4x3x1x2x2xf32>) -> tensor<1x3x2x4x3xf32>
  %2 = nn.conv_transpose3d %z, %u dilations [1, 2, 1] : (tensor<1x4x2x2x2xf32>, tensor<4x3x1x2x2xf32>) -> tensor<1x3x2x4x3xf32>
  return
}

// The groups share the scales of the weight; a depthwise weight has one per channel.
// CHECK-LABEL: @transposed_per_axis
!x = tensor<1x4x5x!quant.uniform<i8:f32, 0.5>>
!y = tensor<1x4x6x!quant.uniform<i8:f32, 1.0>>
func.func @transposed_per_axis(%x: !x, %w: tensor<4x2x2x!quant.uniform<i8:f32:1, {0.5, 0.25}>>, %b: tensor<4x!quant.uniform<i32:f32:0, {0.25, 0.125, 0.25, 0.125}>>, %v: tensor<4x1x2x!quant.uniform<i8:f32:0, {0.5, 0.25, 1.0, 2.0}>>, %c: tensor<4x!quant.uniform<i32:f32:0, {0.25, 0.125, 0.5, 1.0}>>) {
  // CHECK: nn.conv_transpose1d %x, %w, %b groups 2
  %0 = nn.conv_transpose1d %x, %w, %b groups 2 : (!x, tensor<4x2x2x!quant.uniform<i8:f32:1, {0.5, 0.25}>>, tensor<4x!quant.uniform<i32:f32:0, {0.25, 0.125, 0.25, 0.125}>>) -> !y
  // CHECK: nn.conv_transpose1d %x, %v, %c groups 4
  %1 = nn.conv_transpose1d %x, %v, %c groups 4 : (!x, tensor<4x1x2x!quant.uniform<i8:f32:0, {0.5, 0.25, 1.0, 2.0}>>, tensor<4x!quant.uniform<i32:f32:0, {0.25, 0.125, 0.5, 1.0}>>) -> !y
  return
}

// RUN: qopt-opt %s --split-input-file --verify-diagnostics

// Where qparams may stand on ops that sum products: not on a summed dimension, whatever
// the extents; and the bias is on the scale of the sum.

!x = tensor<2x2x!quant.uniform<i8:f32, 0.5:3>>
!columns = tensor<2x2x!quant.uniform<i8:f32:1, {0.5, 0.25}>>

// As many inputs as outputs: the number of scales alone would do.
func.func @weight_along_the_sum(%x: !x, %w: !columns) {
  // expected-error @+1 {{'nn.fully_connected' op takes no weight quantized along dimension 1}}
  %0 = nn.fully_connected %x, %w : (!x, !columns) -> !x
  return
}

// -----

!x = tensor<2x2x!quant.uniform<i8:f32, 0.5:3>>
!rows = tensor<2x2x!quant.uniform<i8:f32:0, {0.5, 0.25}>>
func.func @matmul_along_the_sum(%x: !x, %w: !rows) {
  // expected-error @+1 {{'nn.matmul' op takes no rhs quantized along dimension 0}}
  %0 = nn.matmul %x, %w : (!x, !rows) -> !x
  return
}

// -----

!x = tensor<2x2x!quant.uniform<i8:f32, 0.5:3>>
func.func @vector_along_the_sum(%x: !x, %w: tensor<2x!quant.uniform<i8:f32:0, {0.5, 0.25}>>) {
  // expected-error @+1 {{'nn.matmul' op takes no rhs quantized along dimension 0}}
  %0 = nn.matmul %x, %w : (!x, tensor<2x!quant.uniform<i8:f32:0, {0.5, 0.25}>>) -> tensor<2x!quant.uniform<i8:f32, 0.5>>
  return
}

// -----

!rows = tensor<2x2x!quant.uniform<i8:f32:0, {0.5, 0.25}>>
!w = tensor<2x2x!quant.uniform<i8:f32, 0.25>>
func.func @left_side(%x: !rows, %w: !w) {
  // expected-error @+1 {{'nn.matmul' op takes no lhs quantized along dimension 0}}
  %0 = nn.matmul %x, %w : (!rows, !w) -> !w
  return
}

// -----

!w = tensor<2x2x!quant.uniform<i8:f32, 0.25>>
func.func @result(%x: !w, %w: !w) {
  // expected-error @+1 {{'nn.fully_connected' op takes no result quantized along dimension 0}}
  %0 = nn.fully_connected %x, %w : (!w, !w) -> tensor<2x2x!quant.uniform<i8:f32:0, {0.5, 0.25}>>
  return
}

// -----

!image = tensor<1x2x2x2x!quant.uniform<i8:f32, 0.5>>
func.func @convolution_along_the_inputs(%x: !image, %w: tensor<2x2x1x1x!quant.uniform<i8:f32:1, {0.5, 0.25}>>) {
  // expected-error @+1 {{'nn.conv2d' op takes no weight quantized along dimension 1}}
  %0 = nn.conv2d %x, %w : (!image, tensor<2x2x1x1x!quant.uniform<i8:f32:1, {0.5, 0.25}>>) -> !image
  return
}

// -----

!image = tensor<1x2x2x2x!quant.uniform<i8:f32, 0.5>>
func.func @convolution_along_the_kernel(%x: !image, %w: tensor<2x2x2x1x!quant.uniform<i8:f32:2, {0.5, 0.25}>>) {
  // expected-error @+1 {{'nn.conv2d' op takes no weight quantized along dimension 2}}
  %0 = nn.conv2d %x, %w : (!image, tensor<2x2x2x1x!quant.uniform<i8:f32:2, {0.5, 0.25}>>) -> tensor<1x2x1x2x!quant.uniform<i8:f32, 0.5>>
  return
}

// -----

!channels = tensor<1x2x2x2x!quant.uniform<i8:f32:1, {0.5, 0.25}>>
!out = tensor<1x2x2x2x!quant.uniform<i8:f32, 0.5>>
func.func @input_channels(%x: !channels, %w: tensor<2x2x1x1x!quant.uniform<i8:f32, 0.5>>) {
  // expected-error @+1 {{'nn.conv2d' op takes no input quantized along dimension 1}}
  %0 = nn.conv2d %x, %w : (!channels, tensor<2x2x1x1x!quant.uniform<i8:f32, 0.5>>) -> !out
  return
}

// -----

// Blocks along the sum need a partial sum each.
!x = tensor<2x4x!quant.uniform<i8:f32, 0.5:3>>
!blocks = tensor<2x4x!quant.uniform<i8:f32:{1:2}, {{0.5, 0.25}}>>
func.func @blocks(%x: !x, %w: !blocks) {
  // expected-error @+1 {{'nn.fully_connected' op takes no weight quantized along dimension 1}}
  %0 = nn.fully_connected %x, %w : (!x, !blocks) -> tensor<2x2x!quant.uniform<i8:f32, 0.5:3>>
  return
}

// -----

!x = tensor<2x2x!quant.uniform<i8:f32, 0.5:3>>
!w = tensor<2x2x!quant.uniform<i8:f32, 0.25>>
func.func @bias_storage(%x: !x, %w: !w, %b: tensor<2x!quant.uniform<i16:f32, 0.125>>) {
  // expected-error @+1 {{'nn.fully_connected' op bias must be stored as i32, not i16}}
  %0 = nn.fully_connected %x, %w, %b : (!x, !w, tensor<2x!quant.uniform<i16:f32, 0.125>>) -> !x
  return
}

// -----

!x = tensor<2x2x!quant.uniform<i8:f32, 0.5:3>>
!w = tensor<2x2x!quant.uniform<i8:f32, 0.25>>
func.func @bias_sign(%x: !x, %w: !w, %b: tensor<2x!quant.uniform<u32:f32, 0.125>>) {
  // expected-error @+1 {{'nn.fully_connected' op bias must be stored as i32, not u32}}
  %0 = nn.fully_connected %x, %w, %b : (!x, !w, tensor<2x!quant.uniform<u32:f32, 0.125>>) -> !x
  return
}

// -----

!x = tensor<2x2x!quant.uniform<i8:f32, 0.5:3>>
!w = tensor<2x2x!quant.uniform<i8:f32, 0.25>>
func.func @bias_zero_point(%x: !x, %w: !w, %b: tensor<2x!quant.uniform<i32:f32:0, {0.125, 0.125:7}>>) {
  // expected-error @+1 {{'nn.fully_connected' op bias must have zero point 0, not 7}}
  %0 = nn.fully_connected %x, %w, %b : (!x, !w, tensor<2x!quant.uniform<i32:f32:0, {0.125, 0.125:7}>>) -> !x
  return
}

// -----

!x = tensor<2x2x!quant.uniform<i8:f32, 0.5:3>>
!w = tensor<2x2x!quant.uniform<i8:f32, 0.25>>
func.func @bias_scale(%x: !x, %w: !w, %b: tensor<2x!quant.uniform<i32:f32, 0.25>>) {
  // expected-error @+1 {{bias must have the scale input scale * weight scale = 0.125, not 0.25}}
  %0 = nn.fully_connected %x, %w, %b : (!x, !w, tensor<2x!quant.uniform<i32:f32, 0.25>>) -> !x
  return
}

// -----

!image = tensor<1x2x2x2x!quant.uniform<i8:f32, 0.5>>
!kernel = tensor<2x2x1x1x!quant.uniform<i8:f32:0, {0.5, 0.125}>>
func.func @bias_of_a_channel(%x: !image, %w: !kernel, %b: tensor<2x!quant.uniform<i32:f32:0, {0.25, 0.25}>>) {
  // expected-error @+1 {{bias must have the scale input scale * weight scale = 0.0625 in channel 1, not 0.25}}
  %0 = nn.conv2d %x, %w, %b : (!image, !kernel, tensor<2x!quant.uniform<i32:f32:0, {0.25, 0.25}>>) -> !image
  return
}

// -----

func.func @bias_of_floats(%x: tensor<2x2xf32>, %w: tensor<2x2xf32>, %b: tensor<2x!quant.uniform<i32:f32, 0.25>>) {
  // expected-error @+1 {{'nn.fully_connected' op has a quantized bias on float operands}}
  %0 = nn.fully_connected %x, %w, %b : (tensor<2x2xf32>, tensor<2x2xf32>, tensor<2x!quant.uniform<i32:f32, 0.25>>) -> tensor<2x2xf32>
  return
}

// -----

!x = tensor<2x2x!quant.uniform<i8:f32, 0.5:3>>
!w = tensor<2x2x!quant.uniform<i8:f16, 0.25>>
func.func @expressed(%x: !x, %w: !w) {
  // expected-error @+1 {{'nn.fully_connected' op mixes expressed types f16, f32}}
  %0 = nn.fully_connected %x, %w : (!x, !w) -> !x
  return
}

// -----

// What is right: outputs, zero points of the weight, a bias rounded to the product.
!x = tensor<2x2x!quant.uniform<i8:f32, 0.1:3>>
!w = tensor<2x2x!quant.uniform<i8:f32:0, {0.1:4, 0.25}>>
func.func @right(%x: !x, %w: !w, %b: tensor<2x!quant.uniform<i32:f32:0, {0.01, 0.025}>>) {
  %0 = nn.fully_connected %x, %w, %b : (!x, !w, tensor<2x!quant.uniform<i32:f32:0, {0.01, 0.025}>>) -> tensor<2x2x!quant.uniform<i8:f32:1, {0.5, 0.25}>>
  %1 = nn.matmul %x, %x : (!x, !x) -> !x
  return
}

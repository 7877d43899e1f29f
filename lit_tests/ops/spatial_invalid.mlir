// RUN: qopt-opt %s --split-input-file --verify-diagnostics

func.func @rank(%x: tensor<1x4x9xf32>, %w: tensor<6x4x3x3xf32>) {
  // expected-error @+1 {{'nn.conv1d' op expects a weight of rank 3, but got rank 4}}
  %0 = nn.conv1d %x, %w : (tensor<1x4x9xf32>, tensor<6x4x3x3xf32>) -> tensor<1x6x7xf32>
  return
}

// -----

func.func @too_many_strides(%x: tensor<1x4x9xf32>, %w: tensor<6x4x3xf32>) {
  // expected-error @+1 {{'nn.conv1d' op strides must list 1 integers, but lists 2}}
  %0 = nn.conv1d %x, %w strides [1, 1] : (tensor<1x4x9xf32>, tensor<6x4x3xf32>) -> tensor<1x6x7xf32>
  return
}

// -----

func.func @channels(%x: tensor<1x4x2x2x2xf32>, %w: tensor<6x4x1x1x1xf32>) {
  // expected-error @+1 {{'nn.conv3d' op input has 4 channels, but the weight takes 4 in 2 groups}}
  %0 = nn.conv3d %x, %w groups 2 : (tensor<1x4x2x2x2xf32>, tensor<6x4x1x1x1xf32>) -> tensor<1x6x2x2x2xf32>
  return
}

// -----

func.func @pool(%x: tensor<1x4x9xf32>) {
  // expected-error @+1 {{'nn.max_pool3d' op expects an input of rank 5, but got rank 3}}
  %0 = nn.max_pool3d %x kernel [1, 1, 1] : (tensor<1x4x9xf32>) -> tensor<1x4x9xf32>
  return
}

// -----

func.func @transposed_channels(%x: tensor<1x6x9xf32>, %w: tensor<4x6x3xf32>) {
  // expected-error @+1 {{'nn.conv_transpose1d' op input has 6 channels, but the weight takes 4}}
  %0 = nn.conv_transpose1d %x, %w : (tensor<1x6x9xf32>, tensor<4x6x3xf32>) -> tensor<1x6x11xf32>
  return
}

// -----

func.func @transposed_groups(%x: tensor<1x4x9xf32>, %w: tensor<4x6x3xf32>) {
  // expected-error @+1 {{'nn.conv_transpose1d' op 4 input channels do not divide into 3 groups}}
  %0 = nn.conv_transpose1d %x, %w groups 3 : (tensor<1x4x9xf32>, tensor<4x6x3xf32>) -> tensor<1x18x11xf32>
  return
}

// -----

func.func @nothing_left(%x: tensor<1x4x2xf32>, %w: tensor<4x6x3xf32>) {
  // expected-error @+1 {{'nn.conv_transpose1d' op pads 2 and 2 leave nothing of an extent of 2}}
  %0 = nn.conv_transpose1d %x, %w pads [2, 2] : (tensor<1x4x2xf32>, tensor<4x6x3xf32>) -> tensor<1x6x1xf32>
  return
}

// -----

func.func @negative(%x: tensor<1x4x2xf32>, %w: tensor<4x6x3xf32>) {
  // expected-error @+1 {{'nn.conv_transpose1d' op output_padding must be at least 0, but are [-1]}}
  %0 = nn.conv_transpose1d %x, %w output_padding [-1] : (tensor<1x4x2xf32>, tensor<4x6x3xf32>) -> tensor<1x6x3xf32>
  return
}

// -----

// A scale per input channel varies within a sum.
!x = tensor<1x4x5x!quant.uniform<i8:f32, 0.5>>
!w = tensor<4x2x2x!quant.uniform<i8:f32:0, {0.5, 0.25, 1.0, 2.0}>>
func.func @summed_axis(%x: !x, %w: !w) {
  // expected-error @+1 {{'nn.conv_transpose1d' op takes no weight quantized along dimension 0}}
  %0 = nn.conv_transpose1d %x, %w groups 2 : (!x, !w) -> tensor<1x4x6x!quant.uniform<i8:f32, 0.5>>
  return
}

// -----

// Two groups: the second repeats the scales of the first.
!x = tensor<1x4x5x!quant.uniform<i8:f32, 0.5>>
!w = tensor<4x2x2x!quant.uniform<i8:f32:1, {0.5, 0.25}>>
func.func @bias_of_groups(%x: !x, %w: !w, %b: tensor<4x!quant.uniform<i32:f32:0, {0.25, 0.125, 0.125, 0.25}>>) {
  // expected-error @+1 {{'nn.conv_transpose1d' op bias must have the scale input scale * weight scale = 0.25 in channel 2, not 0.125}}
  %0 = nn.conv_transpose1d %x, %w, %b groups 2 : (!x, !w, tensor<4x!quant.uniform<i32:f32:0, {0.25, 0.125, 0.125, 0.25}>>) -> tensor<1x4x6x!quant.uniform<i8:f32, 0.5>>
  return
}

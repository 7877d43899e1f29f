// RUN: qopt-opt %s -p convert-nn-to-linalg --split-input-file --verify-diagnostics

!x = tensor<2x4x!quant.uniform<i8:f32, 0.5:3>>
!y = tensor<2x4x!quant.uniform<i8:f32, 0.25>>

// An op that rounds itself.
func.func @rounds(%x: !x) -> !y {
  // expected-error @+1 {{'nn.add' cannot become linalg: it rounds its result to other integers}}
  %0 = nn.add %x, %x : (!x, !x) -> !y
  func.return %0 : !y
}

// -----

// A rescale by a real number.
!x = tensor<2x4x!quant.uniform<i8:f32, 0.5:3>>
!y = tensor<2x4x!quant.uniform<i8:f32, 0.25>>
func.func @real(%x: !x) -> !y {
  // expected-error @+1 {{'quant.rescale' cannot become linalg: the rescale is a real number}}
  %0 = quant.rescale %x : !x to !y
  func.return %0 : !y
}

// -----

// expected-error @+1 {{'func.func' cannot become linalg: argument 0 has a dimension that is not known}}
func.func @dynamic(%x: tensor<?x4x!quant.uniform<i8:f32, 0.5>>) -> tensor<?x4x!quant.uniform<i8:f32, 0.5>> {
  %0 = nn.relu %x : (tensor<?x4x!quant.uniform<i8:f32, 0.5>>) -> tensor<?x4x!quant.uniform<i8:f32, 0.5>>
  func.return %0 : tensor<?x4x!quant.uniform<i8:f32, 0.5>>
}

// -----

func.func @unknown(%x: tensor<2x4x!quant.uniform<i8:f32, 0.5>>) -> tensor<2x4x!quant.uniform<i8:f32, 0.5>> {
  // expected-error @+1 {{'nn.softmax' cannot become linalg: it has no form on integers}}
  %0 = nn.softmax %x : (tensor<2x4x!quant.uniform<i8:f32, 0.5>>) -> tensor<2x4x!quant.uniform<i8:f32, 0.5>>
  func.return %0 : tensor<2x4x!quant.uniform<i8:f32, 0.5>>
}

// -----

!x = tensor<1x2x3x3x!quant.uniform<i8:f32, 0.5:3>>
!w = tensor<2x1x2x2x!quant.uniform<i8:f32, 0.5>>
!y = tensor<1x1x4x4x!quant.uniform<i32:f32, 0.25>>
func.func @transposed(%x: !x, %w: !w) -> !y {
  // expected-error @+1 {{'nn.conv_transpose2d' cannot become linalg: its weight is no constant}}
  %0 = nn.conv_transpose2d %x, %w : (!x, !w) -> !y
  func.return %0 : !y
}

// -----

!x = tensor<1x1x7x7x!quant.uniform<i8:f32, 0.5:3>>
!y = tensor<1x1x5x5x!quant.uniform<i32:f32, 0.5>>
func.func @resized(%x: !x) -> !y {
  // expected-error @+1 {{'nn.resize_linear' cannot become linalg: its weights are no ratios of integers}}
  %0 = nn.resize_linear %x scales [1.0, 1.0, 0.8, 0.8] : (!x) -> !y
  func.return %0 : !y
}

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

func.func @float(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
  // expected-error @+1 {{'nn.relu' cannot become linalg: it computes floats}}
  %0 = nn.relu %x : (tensor<2x4xf32>) -> tensor<2x4xf32>
  func.return %0 : tensor<2x4xf32>
}

// -----

// expected-error @+1 {{'func.func' cannot become linalg: argument 0 has a dimension that is not known}}
func.func @dynamic(%x: tensor<?x4x!quant.uniform<i8:f32, 0.5>>) -> tensor<?x4x!quant.uniform<i8:f32, 0.5>> {
  %0 = nn.relu %x : (tensor<?x4x!quant.uniform<i8:f32, 0.5>>) -> tensor<?x4x!quant.uniform<i8:f32, 0.5>>
  func.return %0 : tensor<?x4x!quant.uniform<i8:f32, 0.5>>
}

// -----

func.func @unknown(%x: tensor<2x4x!quant.uniform<i8:f32, 0.5>>) -> tensor<2x4x!quant.uniform<i8:f32, 0.5>> {
  // expected-error @+1 {{'nn.softmax' cannot become linalg: linalg has nothing for 'nn.softmax'}}
  %0 = nn.softmax %x : (tensor<2x4x!quant.uniform<i8:f32, 0.5>>) -> tensor<2x4x!quant.uniform<i8:f32, 0.5>>
  func.return %0 : tensor<2x4x!quant.uniform<i8:f32, 0.5>>
}

// RUN: qopt-opt %s -p 'convert-nn-to-tosa' --split-input-file --verify-diagnostics

!x = tensor<1x2x4x4x!quant.uniform<i8:f32, 0.5:3>>
!y = tensor<1x2x4x4x!quant.uniform<i8:f32, 0.25>>
func.func @rounds(%x: !x) -> !y {
  // expected-error@+1 {{'nn.add' cannot become TOSA: it rounds its result to other integers}}
  %0 = nn.add %x, %x : (!x, !x) -> !y
  func.return %0 : !y
}

// -----

!x = tensor<?x2x4x4x!quant.uniform<i8:f32, 0.5:3>>
// expected-error@+1 {{'func.func' cannot become TOSA: argument 0 has a dimension that is not known}}
func.func @dynamic(%x: !x) -> !x {
  func.return %x : !x
}

// -----

!f = tensor<1x2x4x4xf32>
func.func @kept(%x: !f) -> !f {
  // expected-error@+1 {{'onnx.node' cannot become TOSA: it has no form of the ONNX node Hardmax}}
  %0 = onnx.node "Hardmax" (%x) : (!f) -> !f
  func.return %0 : !f
}

// -----

!x = tensor<1x8x!quant.uniform<i8:f32, 0.5:3>>
!k = tensor<1x2x!quant.uniform<i8:f32, 0.5:3>>
func.func @sorts(%x: !x) -> !k {
  // expected-error@+1 {{'nn.top_k' cannot become TOSA: TOSA sorts nothing}}
  %0, %1 = nn.top_k %x k 2 : (!x) -> (!k, tensor<1x2xi64>)
  func.return %0 : !k
}

// -----

!x = tensor<1x2x4x4x!quant.uniform<i8:f32, 0.5:3>>
!y = tensor<1x2x2x2x!quant.uniform<i8:f32, 0.5:3>>
func.func @dilated(%x: !x) -> !y {
  // expected-error@+1 {{'nn.max_pool2d' cannot become TOSA: TOSA has no dilated pools}}
  %0 = nn.max_pool2d %x kernel [2, 2] dilations [2, 2] : (!x) -> !y
  func.return %0 : !y
}

// -----

!x = tensor<1x2x4x4x!quant.uniform<i8:f32, 0.5:3>>
!y = tensor<1x2x6x6x!quant.uniform<i32:f32, 0.5>>
func.func @thirds(%x: !x) -> !y {
  // expected-error@+1 {{'nn.resize_linear' cannot become TOSA: its weights are no ratios of integers}}
  %0 = nn.resize_linear %x sizes [1, 2, 6, 6] : (!x) -> !y
  func.return %0 : !y
}

// -----

!x = tensor<1x2x4x4x4x!quant.uniform<i8:f32, 0.5:3>>
!w = tensor<2x2x1x1x1x!quant.uniform<i8:f32, 0.5>>
!y = tensor<1x2x4x4x4x!quant.uniform<i32:f32, 0.25>>
func.func @deep(%x: !x, %w: !w) -> !y {
  // expected-error@+1 {{'nn.conv_transpose3d' cannot become TOSA: TOSA has no transposed convolution over three dimensions}}
  %0 = nn.conv_transpose3d %x, %w : (!x, !w) -> !y
  func.return %0 : !y
}

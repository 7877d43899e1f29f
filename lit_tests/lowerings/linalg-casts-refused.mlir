// RUN: qopt-opt %s -p 'convert-nn-to-linalg{casts=iree}' --split-input-file --verify-diagnostics

func.func @rounding(%x: tensor<4xf32>) -> tensor<4x!quant.uniform<i8:f32, 0.5>> {
  // expected-error @+1 {{'quant.qcast' cannot become linalg: quantize_affine does not round half_away}}
  %0 = quant.qcast %x {quant.rounding = "half_away"} : tensor<4xf32> to tensor<4x!quant.uniform<i8:f32, 0.5>>
  func.return %0 : tensor<4x!quant.uniform<i8:f32, 0.5>>
}

// -----

func.func @wide(%x: tensor<4x!quant.uniform<i32:f32, 0.5>>) -> tensor<4xf32> {
  // expected-error @+1 {{'quant.dcast' cannot become linalg: floats do not hold all codes of i32}}
  %0 = quant.dcast %x : tensor<4x!quant.uniform<i32:f32, 0.5>> to tensor<4xf32>
  func.return %0 : tensor<4xf32>
}

// -----

func.func @half(%x: tensor<4x!quant.uniform<i8:f16, 0.5>>) -> tensor<4xf16> {
  // expected-error @+1 {{'quant.dcast' cannot become linalg: IREE's op is f32 and not f16}}
  %0 = quant.dcast %x : tensor<4x!quant.uniform<i8:f16, 0.5>> to tensor<4xf16>
  func.return %0 : tensor<4xf16>
}

// -----

func.func @blocks(%x: tensor<4x!quant.uniform<i8:f32:{0:2}, {0.5, 0.25}>>) -> tensor<4xf32> {
  // expected-error @+1 {{'quant.dcast' cannot become linalg: parameters of blocks}}
  %0 = quant.dcast %x : tensor<4x!quant.uniform<i8:f32:{0:2}, {0.5, 0.25}>> to tensor<4xf32>
  func.return %0 : tensor<4xf32>
}

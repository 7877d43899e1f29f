// RUN: qopt-opt %s -p 'convert-nn-to-tosa,cse,dce' | filecheck %s

// Exact integer ops as TOSA operations on the same integers.

!x = tensor<1x2x4x4x!quant.uniform<i8:f32, 0.5:3>>
!u = tensor<1x2x4x4x!quant.uniform<u8:f32, 0.5:3>>
!y = tensor<1x2x8x8x!quant.uniform<i8:f32, 0.5:3>>
!w = tensor<4x2x1x1x!quant.uniform<i8:f32:0, {0.5, 0.25, 0.5, 0.25}>>
!acc = tensor<1x4x4x4x!quant.uniform<i32:f32:1, {0.25, 0.125, 0.25, 0.125}>>
!codes = tensor<1x4x4x4x!quant.uniform<i8:f32, 1.0:-7>>

// Scales per channel are said, and rescaled by, where the channels are held: last.
// CHECK-LABEL: func.func @convolution(
// CHECK: tosa.transpose{{.*}}perms = array<i32: 0, 2, 3, 1>
// CHECK-NEXT: tosa.conv2d{{.*}}axis = 3 : i64, {{.*}}key = "c", {{.*}}scale = array<f64: 2.500000e-01, 1.250000e-01, 2.500000e-01, 1.250000e-01>, {{.*}}zero_point = array<i64: 0, 0, 0, 0>}
// CHECK: tosa.rescale{{.*}}per_channel = true
// CHECK-NEXT: tosa.transpose{{.*}}perms = array<i32: 0, 3, 1, 2>
func.func @convolution(%x: !x) -> !codes {
  %w = nn.constant dense<[[[[1]], [[2]]], [[[3]], [[4]]], [[[5]], [[6]]], [[[7]], [[8]]]]> : tensor<4x2x1x1xi8> : !w
  %0 = nn.conv2d %x, %w {nn.key = "c"} : (!x, !w) -> !acc
  %1 = quant.rescale %0 rounding half_up multiplier [1073741824, 1073741824, 1073741824, 1073741824] shift [32, 33, 32, 33] : !acc to !codes
  func.return %1 : !codes
}

// Transposes between what holds channels last are never written.
// CHECK-LABEL: func.func @twice(
// CHECK-COUNT-1: tosa.transpose
// CHECK: tosa.max_pool2d
// CHECK-NEXT: tosa.max_pool2d
// CHECK-NEXT: tosa.transpose
func.func @twice(%x: !x) -> !x {
  %0 = nn.max_pool2d %x kernel [1, 1] : (!x) -> !x
  %1 = nn.max_pool2d %0 kernel [1, 1] : (!x) -> !x
  func.return %1 : !x
}

// Unsigned codes are compared as signed ones.
// CHECK-LABEL: func.func @unsigned(
// CHECK: tosa.rescale{{.*}}input_unsigned = true{{.*}}output_unsigned = false
// CHECK: tosa.max_pool2d
// CHECK: tosa.rescale{{.*}}input_unsigned = false{{.*}}output_unsigned = true
func.func @unsigned(%x: !u) -> !u {
  %0 = nn.max_pool2d %x kernel [1, 1] : (!u) -> !u
  func.return %0 : !u
}

// Anything that moves elements: dimension by dimension, or by rows of the flat operand.
// CHECK-LABEL: func.func @moved(
// CHECK: tosa.gather
// CHECK: tosa.gather
// CHECK: tosa.reverse
// CHECK-NOT: tosa.gather
// CHECK: return
func.func @moved(%x: !x) -> !y {
  %0 = nn.resize_nearest %x scales [1.0, 1.0, 2.0, 2.0] coordinates asymmetric nearest floor : (!x) -> !y
  %1 = nn.flip %0 axes [3] : (!y) -> !y
  func.return %1 : !y
}

// CHECK-LABEL: func.func @transposed(
// CHECK: tosa.transpose_conv2d{{.*}}out_pad = array<i64: -1, 0, 0, -1>
func.func @transposed(%x: !x) -> tensor<1x1x4x4x!quant.uniform<i32:f32, 0.25>> {
  %w = nn.constant dense<1> : tensor<2x1x2x2xi8> : tensor<2x1x2x2x!quant.uniform<i8:f32, 0.5>>
  %0 = nn.conv_transpose2d %x, %w pads [1, 0, 0, 1] : (!x, tensor<2x1x2x2x!quant.uniform<i8:f32, 0.5>>) -> tensor<1x1x4x4x!quant.uniform<i32:f32, 0.25>>
  func.return %0 : tensor<1x1x4x4x!quant.uniform<i32:f32, 0.25>>
}

// The factor of a resize is in the step of its exact result; it knows no zero point.
// CHECK-LABEL: func.func @resized(
// CHECK: tosa.resize{{.*}}BILINEAR
// CHECK: tosa.sub
func.func @resized(%x: !x) -> tensor<1x2x8x8x!quant.uniform<i32:f32, 0.03125>> {
  %0 = nn.resize_linear %x scales [1.0, 1.0, 2.0, 2.0] : (!x) -> tensor<1x2x8x8x!quant.uniform<i32:f32, 0.03125>>
  func.return %0 : tensor<1x2x8x8x!quant.uniform<i32:f32, 0.03125>>
}

// Indices of 64 bits are held in 32, which is what TOSA has.
// CHECK-LABEL: func.func @place(
// CHECK-SAME: -> tensor<1x1x4x4xi32>
// CHECK: tosa.argmax
func.func @place(%x: !x) -> tensor<1x1x4x4xi64> {
  %0 = nn.arg_max %x axis 1 : (!x) -> tensor<1x1x4x4xi64>
  func.return %0 : tensor<1x1x4x4xi64>
}

// A strided slice of floats: what is padded is a zero of their type.
// CHECK-LABEL: func.func @every_second
// CHECK: tosa.const"() <{values = dense<[0.000000e+00]> : tensor<1xf32>}>
func.func @every_second(%x: tensor<1x3x8x8xf32>) -> tensor<1x3x4x8xf32> {
  %0 = nn.slice %x starts [0, 0, 0, 0] stops [1, 3, 8, 8] steps [1, 1, 2, 1] : (tensor<1x3x8x8xf32>) -> tensor<1x3x4x8xf32>
  return %0 : tensor<1x3x4x8xf32>
}

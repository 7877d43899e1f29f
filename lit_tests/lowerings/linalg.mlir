// RUN: qopt-opt %s -p convert-nn-to-linalg | filecheck %s

!x = tensor<1x2x4x4x!quant.uniform<i8:f32, 0.5:3>>
!w = tensor<2x2x3x3x!quant.uniform<i8:f32:0, {0.5, 0.25}>>
!sum = tensor<1x2x4x4x!quant.uniform<i32:f32:1, {0.25, 0.125}>>
!bias = tensor<2x!quant.uniform<i32:f32:0, {0.25, 0.125}>>

// Pads hold the zero point; what it adds to each sum, -3 * 9 * 2 * 5, is in the bias.
// CHECK-LABEL: func.func @convolution(%arg0: tensor<1x2x4x4xi8> {{.*}}) -> (tensor<1x2x4x4xi32> {{.*}})
// CHECK-DAG: [[ZERO:%[a-z0-9_]+]] = arith.constant 3 : i8
// CHECK-DAG: arith.constant dense<[-170, -70]> : tensor<2xi32>
// CHECK: tensor.pad %arg0 low[0, 0, 1, 1] high[0, 0, 1, 1]
// CHECK: tensor.yield [[ZERO]]
// CHECK: linalg.generic
// CHECK: linalg.conv_2d_nchw_fchw {{.*}} -> tensor<1x2x4x4xi32>
func.func @convolution(%x: !x) -> !sum {
  %w = nn.constant dense<5> : tensor<2x2x3x3xi8> : !w
  %b = nn.constant dense<[100, 200]> : tensor<2xi32> : !bias
  %0 = nn.conv2d %x, %w, %b pads [1, 1, 1, 1] {nn.key = "c"} : (!x, !w, !bias) -> !sum
  func.return %0 : !sum
}

// Each channel has a multiplier of its own, read from a constant; unsigned codes are
// signless here, and the bounds are those of u8.
// CHECK-LABEL: func.func @rescale(
// CHECK-DAG: arith.constant dense<[1073741824, 1610612736]> : tensor<2xi64>
// CHECK: linalg.generic {{.*}} attrs =  {key = "r", scale = array<f64: {{.*}}>, storage = "u8", zero_point = array<i64: 128>}
// CHECK: arith.extsi {{.*}} : i32 to i64
// CHECK: arith.muli
// CHECK: arith.shrsi
// CHECK: arith.constant 255 : i64
// CHECK: arith.trunci {{.*}} : i64 to i8
func.func @rescale(%x: !sum) -> tensor<1x2x4x4x!quant.uniform<u8:f32, 0.5:128>> {
  %0 = quant.rescale %x rounding half_even multiplier [1073741824, 1610612736] shift [31, 33] {nn.key = "r"} : !sum to tensor<1x2x4x4x!quant.uniform<u8:f32, 0.5:128>>
  func.return %0 : tensor<1x2x4x4x!quant.uniform<u8:f32, 0.5:128>>
}

// Codes of 4 bits are held in 8, sign-extended.
// CHECK-LABEL: func.func @unpacked(%arg0: tensor<2x2xi8> {{.*}}) -> (tensor<4xi8> {{.*}})
// CHECK-NEXT: tensor.collapse_shape %arg0
// CHECK-NEXT: return
func.func @unpacked(%x: tensor<2x2x!quant.uniform<i4:f32, 0.5>>) -> tensor<4x!quant.uniform<i4:f32, 0.5>> {
  %0 = nn.reshape %x shape [4] : (tensor<2x2x!quant.uniform<i4:f32, 0.5>>) -> tensor<4x!quant.uniform<i4:f32, 0.5>>
  func.return %0 : tensor<4x!quant.uniform<i4:f32, 0.5>>
}

// Casts become arithmetic in floats, and what is linalg already stays.
// CHECK-LABEL: func.func @casts(%arg0: tensor<4xf32>) -> tensor<4xf32>
// CHECK: math.roundeven
// CHECK: arith.fptosi
// CHECK: arith.sitofp
// CHECK: arith.negf
func.func @casts(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = quant.qcast %x : tensor<4xf32> to tensor<4x!quant.uniform<i8:f32, 0.5:3>>
  %1 = quant.dcast %0 : tensor<4x!quant.uniform<i8:f32, 0.5:3>> to tensor<4xf32>
  %2 = arith.negf %1 : tensor<4xf32>
  func.return %2 : tensor<4xf32>
}

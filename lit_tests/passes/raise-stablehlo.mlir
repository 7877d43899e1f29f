// RUN: qopt-opt %s -p raise-stablehlo,dce --remarks=%t | filecheck %s
// RUN: filecheck %s --check-prefix=WHY --input-file=%t
// RUN: qopt-opt %s -p 'raise-stablehlo{numerics=ties},dce' | filecheck %s --check-prefix=TIES

!x = tensor<4x!quant.uniform<i8:f32, 0.05:-30>>
!z = tensor<4x!quant.uniform<i8:f32, 0.5:-20>>

// CHECK-LABEL: @sum
// CHECK: nn.add %arg0, %arg1 : (tensor<4x!quant.uniform<i8:f32, 5.000000e-02:-30>>, tensor<4x!quant.uniform<i8:f32, 5.000000e-02:-30>>) -> tensor<4x!quant.uniform<i8:f32, 5.000000e-01:-20>>
// CHECK-NEXT: return
func.func @sum(%x: !x, %y: !x) -> !z {
  %0 = stablehlo.add %x, %y : (!x, !x) -> !z
  return %0 : !z
}

// The dimension of the channels stays where it was: only the input is turned.
// CHECK-LABEL: @channels_last
// CHECK: nn.transpose %arg0 perm [0, 3, 1, 2]
// CHECK: nn.conv2d {{.*}} pads [1, 1, 1, 1] : (tensor<1x2x4x4xf32>, tensor<3x2x3x3xf32>) -> tensor<1x3x4x4xf32>
// CHECK-NEXT: nn.relu
// CHECK-NEXT: nn.transpose {{.*}} perm [0, 2, 3, 1]
// CHECK-NEXT: return
func.func @channels_last(%x: tensor<1x4x4x2xf32>) -> tensor<1x4x4x3xf32> {
  %w = stablehlo.constant dense<1.0> : tensor<3x3x2x3xf32>
  %0 = stablehlo.convolution(%x, %w) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {pad = [[1, 1], [1, 1]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<1x4x4x2xf32>, tensor<3x3x2x3xf32>) -> tensor<1x4x4x3xf32>
  %1 = call @relu(%0) : (tensor<1x4x4x3xf32>) -> tensor<1x4x4x3xf32>
  return %1 : tensor<1x4x4x3xf32>
}

// Raised where it is called.
// CHECK-NOT: @relu
func.func private @relu(%x: tensor<1x4x4x3xf32>) -> tensor<1x4x4x3xf32> {
  %0 = stablehlo.constant dense<0.0> : tensor<f32>
  %1 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f32>) -> tensor<1x4x4x3xf32>
  %2 = stablehlo.maximum %x, %1 : tensor<1x4x4x3xf32>
  return %2 : tensor<1x4x4x3xf32>
}

// Written out in integers: the multiplier is the quotient of the scales.
// CHECK-LABEL: @written_out
// CHECK: [[SUMS:%[0-9]+]] = quant.scast %arg0 : tensor<4xi32> to tensor<4x!quant.uniform<i32:f32, 2.500000e-01>>
// CHECK-NEXT: [[CODES:%[0-9]+]] = quant.rescale [[SUMS]] : {{.*}} to tensor<4x!quant.uniform<i8:f32, 1.000000e+00:4>>
// CHECK-NEXT: quant.scast [[CODES]] : tensor<4x!quant.uniform<i8:f32, 1.000000e+00:4>> to tensor<4xi8>
// CHECK-NEXT: return
func.func @written_out(%x: tensor<4xi32>) -> tensor<4xi8> {
  %m = stablehlo.constant dense<0.25> : tensor<4xf32>
  %z = stablehlo.constant dense<4.0> : tensor<4xf32>
  %low = stablehlo.constant dense<-128.0> : tensor<f32>
  %high = stablehlo.constant dense<127.0> : tensor<f32>
  %0 = stablehlo.convert %x : (tensor<4xi32>) -> tensor<4xf32>
  %1 = stablehlo.multiply %0, %m : tensor<4xf32>
  %2 = stablehlo.add %1, %z : tensor<4xf32>
  %3 = stablehlo.clamp %low, %2, %high : (tensor<f32>, tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %4 = stablehlo.round_nearest_even %3 : tensor<4xf32>
  %5 = stablehlo.convert %4 : (tensor<4xf32>) -> tensor<4xi8>
  return %5 : tensor<4xi8>
}

// StableHLO rounds after the zero point was added: with an odd one, ties go the other way.
// CHECK-LABEL: @odd
// CHECK: stablehlo.uniform_quantize
// WHY: "code": "ties"
// TIES-LABEL: @odd
// TIES: quant.qcast
func.func @odd(%x: tensor<4xf32>) -> tensor<4x!quant.uniform<i8:f32, 0.5:3>> {
  %0 = stablehlo.uniform_quantize %x : (tensor<4xf32>) -> tensor<4x!quant.uniform<i8:f32, 0.5:3>>
  return %0 : tensor<4x!quant.uniform<i8:f32, 0.5:3>>
}

// What has no counterpart stays.
// CHECK-LABEL: @stays
// CHECK: stablehlo.cholesky
// WHY: "code": "no-counterpart"
func.func @stays(%x: tensor<2x2xf32>) -> tensor<2x2xf32> {
  %0 = stablehlo.cholesky %x, lower = true : tensor<2x2xf32>
  return %0 : tensor<2x2xf32>
}

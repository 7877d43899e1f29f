// RUN: qopt-opt %s -p "lower-transposed{numerics=ties}" --remarks --verify-diagnostics | filecheck %s
// RUN: qopt-opt %s -p "lower-transposed{numerics=ties}" --verify-numerics=6 > %t
// RUN: qopt-opt %s -p "lower-transposed{numerics=ties}" > %t && qopt-opt %t -p "lower-transposed{numerics=ties}" > %t.2 && diff %t %t.2

// Transposed convolutions as convolutions to all phases of the result.

!x = tensor<1x1x3x3x!quant.uniform<i8:f32, 0.5:3>>
!w = tensor<1x1x2x2x!quant.uniform<i8:f32, 0.1>>
!wide = tensor<1x1x3x3x!quant.uniform<i8:f32, 0.1:2>>
!rows = tensor<1x2x2x2x!quant.uniform<i8:f32:1, {0.1,0.2:1}>>
!phases = tensor<4x1x1x1x!quant.uniform<i8:f32, 0.1>>
!channels = tensor<1x4x3x3x!quant.uniform<i8:f32, 1.0:-10>>
!y = tensor<1x1x6x6x!quant.uniform<i8:f32, 1.0:-10>>
!same = tensor<1x1x5x5x!quant.uniform<i8:f32, 1.0:-10>>
!two = tensor<1x2x6x6x!quant.uniform<i8:f32, 1.0:-10>>
!columns = tensor<1x2x6x6x!quant.uniform<i8:f32:1, {1.0,2.0}>>
!any = tensor<?x1x?x3x!quant.uniform<i8:f32, 0.5:3>>
!any_y = tensor<?x1x?x4x!quant.uniform<i8:f32, 1.0:-10>>
!dilated = tensor<1x1x7x7x!quant.uniform<i8:f32, 1.0:-10>>

// CHECK-LABEL: func.func @phases(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[W:%[a-z0-9_]+]] = nn.constant dense<{{\[\[\[\[}}1]]], {{\[\[\[}}2]]], {{\[\[\[}}3]]], {{\[\[\[}}4]]]]>
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.conv2d [[X]], [[W]] :
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = nn.depth_to_space [[V0]] block 2
// CHECK-NEXT: return [[V1]]
func.func @phases(%x: !x) -> !y {
  // DOC-BEFORE
  %w = nn.constant dense<[[[[1, 2], [3, 4]]]]> : tensor<1x1x2x2xi8> : !w
  // expected-remark@+1 {{transposed-to-phases fired, exact}}
  %0 = nn.conv_transpose2d %x, %w strides [2, 2] : (!x, !w) -> !y
  // DOC-AFTER
  //   %1 = nn.constant dense<[[[[1]]], [[[2]]], [[[3]]], [[[4]]]]> : tensor<4x1x1x1xi8> : !phases
  //   %2 = nn.conv2d %x, %1 : (!x, !phases) -> !channels
  //   %0 = nn.depth_to_space %2 block 2 : (!channels) -> !y
  // DOC-END
  return %0 : !y
}

// A tap beyond the kernel is the zero point; a row that pads cut off is not computed, or
// sliced off.  The value is used twice.
// CHECK-LABEL: func.func @multi_use(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[W:%[a-z0-9_]+]] = nn.constant dense<{{\[\[\[\[}}9, 3], [7, 1]]], {{\[\[\[}}2, 8], [2, 5]]], {{\[\[\[}}2, 2], [2, 4]]], {{\[\[\[}}2, 2], [2, 2]]]]>
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.conv2d [[X]], [[W]] pads [1, 1, 0, 0]
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = nn.depth_to_space [[V0]] block 2
// CHECK-NEXT: [[V2:%[a-z0-9_]+]] = nn.slice [[V1]] starts [0, 0, 1, 1] stops [1, 1, 6, 6]
// CHECK-NEXT: return [[V2]], [[V2]]
func.func @multi_use(%x: !x) -> (!same, !same) {
  %w = nn.constant dense<[[[[1, 5, 7], [4, 2, 2], [3, 8, 9]]]]> : tensor<1x1x3x3xi8> : !wide
  // expected-remark@+1 {{transposed-to-phases fired}}
  %0 = nn.conv_transpose2d %x, %w strides [2, 2] pads [1, 1, 1, 1] : (!x, !wide) -> !same
  return %0, %0 : !same, !same
}

// CHECK-LABEL: func.func @per_axis(
// CHECK: nn.constant dense<{{.*}}> : tensor<8x1x1x1xi8> : tensor<8x1x1x1x!quant.uniform<i8:f32:0, {1.000000e-01,2.000000e-01:1,1.000000e-01,2.000000e-01:1,1.000000e-01,2.000000e-01:1,1.000000e-01,2.000000e-01:1}>>
// CHECK: nn.constant dense<[1.500000e+00, 2.500000e+00, 1.500000e+00, 2.500000e+00, 1.500000e+00
// CHECK: nn.depth_to_space
func.func @per_axis(%x: !x) -> !two {
  %w = nn.constant dense<[[[[1, 2], [3, 4]], [[5, 6], [7, 8]]]]> : tensor<1x2x2x2xi8> : !rows
  %b = nn.constant dense<[1.5, 2.5]> : tensor<2xf32> : tensor<2xf32>
  // expected-remark@+1 {{transposed-to-phases fired}}
  %0 = nn.conv_transpose2d %x, %w, %b strides [2, 2] : (!x, !rows, tensor<2xf32>) -> !two
  return %0 : !two
}

// CHECK-LABEL: func.func @dynamic(
// CHECK: nn.conv2d {{.*}} -> tensor<?x4x?x3x
// CHECK: nn.slice {{.*}} starts [0, 0, 0, 1] stops [9223372036854775807, 1, -1, 5]
func.func @dynamic(%x: !any) -> !any_y {
  %w = nn.constant dense<[[[[1, 2], [3, 4]]]]> : tensor<1x1x2x2xi8> : !w
  // expected-remark@+1 {{transposed-to-phases fired}}
  %0 = nn.conv_transpose2d %x, %w strides [2, 2] pads [0, 1, 1, 1] : (!any, !w) -> !any_y
  return %0 : !any_y
}

// CHECK-LABEL: func.func @dilated(
// CHECK: nn.conv_transpose2d
func.func @dilated(%x: !x) -> !dilated {
  %w = nn.constant dense<[[[[1, 2], [3, 4]]]]> : tensor<1x1x2x2xi8> : !w
  // expected-remark@+1 {{transposed-to-phases refused [window]: strides differ, or there are dilations}}
  %0 = nn.conv_transpose2d %x, %w strides [2, 2] dilations [2, 2] : (!x, !w) -> !dilated
  return %0 : !dilated
}

// CHECK-LABEL: func.func @weight_at_run_time(
// CHECK: nn.conv_transpose2d
func.func @weight_at_run_time(%x: !x, %w: !w) -> !y {
  // expected-remark@+1 {{transposed-to-phases refused [constant]: the weight or the bias is not constant}}
  %0 = nn.conv_transpose2d %x, %w strides [2, 2] : (!x, !w) -> !y
  return %0 : !y
}

// CHECK-LABEL: func.func @result_per_axis(
// CHECK: nn.conv_transpose2d
func.func @result_per_axis(%x: !x) -> !columns {
  %w = nn.constant dense<[[[[1, 2], [3, 4]], [[5, 6], [7, 8]]]]> : tensor<1x2x2x2xi8> : !rows
  // expected-remark@+1 {{transposed-to-phases refused [grid]: the result has parameters along a dimension}}
  %0 = nn.conv_transpose2d %x, %w strides [2, 2] : (!x, !rows) -> !columns
  return %0 : !columns
}

// Dilated along one dimension; a bias at run time.
// CHECK-LABEL: func.func @in_part(
// CHECK: nn.conv_transpose2d
// CHECK: nn.conv_transpose2d
func.func @in_part(%x: !x, %b: tensor<1xf32>) -> (tensor<1x1x6x7x!quant.uniform<i8:f32, 1.0:-10>>, !y) {
  %w = nn.constant dense<[[[[1, 2], [3, 4]]]]> : tensor<1x1x2x2xi8> : !w
  // expected-remark@+1 {{transposed-to-phases refused [window]: strides differ, or there are dilations}}
  %0 = nn.conv_transpose2d %x, %w strides [2, 2] dilations [1, 2] : (!x, !w) -> tensor<1x1x6x7x!quant.uniform<i8:f32, 1.0:-10>>
  // expected-remark@+1 {{transposed-to-phases refused [constant]: the weight or the bias is not constant}}
  %1 = nn.conv_transpose2d %x, %w, %b strides [2, 2] : (!x, !w, tensor<1xf32>) -> !y
  return %0, %1 : tensor<1x1x6x7x!quant.uniform<i8:f32, 1.0:-10>>, !y
}

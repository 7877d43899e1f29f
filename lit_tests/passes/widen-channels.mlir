// RUN: qopt-opt %s -p "widen-channels{multiple=2}" --remarks --verify-diagnostics | filecheck %s
// RUN: qopt-opt %s -p "widen-channels{multiple=2}" --verify-numerics=6 > %t
// RUN: qopt-opt %s -p "widen-channels{multiple=2}" > %t && qopt-opt %t -p "widen-channels{multiple=2}" > %t.2 && diff %t %t.2

// Convolutions of even numbers of channels.

!x = tensor<1x1x4x4x!quant.uniform<u8:f32, 0.5:3>>
!y = tensor<1x2x4x4x!quant.uniform<u8:f32, 1.0:100>>
!w = tensor<2x1x1x1x!quant.uniform<i8:f32, 0.1>>
!two = tensor<1x2x4x4x!quant.uniform<u8:f32, 0.5:3>>
!wide = tensor<2x2x1x1x!quant.uniform<i8:f32, 0.1>>
!three = tensor<1x3x4x4x!quant.uniform<u8:f32, 1.0:100>>
!rows = tensor<3x1x1x1x!quant.uniform<i8:f32:0, {0.1,0.2:1,0.3:2}>>
!columns = tensor<2x1x1x1x!quant.uniform<i8:f32:1, {0.1}>>
!bias = tensor<3x!quant.uniform<i32:f32:0, {0.05,0.1,0.15}>>
!again = tensor<2x3x1x1x!quant.uniform<i8:f32, 0.1>>
!any = tensor<?x1x?x4x!quant.uniform<u8:f32, 0.5:3>>
!any_y = tensor<?x3x?x4x!quant.uniform<u8:f32, 1.0:100>>
!apart = tensor<3x1x1x1x!quant.uniform<i8:f32, 0.1>>

// CHECK-LABEL: func.func @input(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.pad [[X]] low [0, 0, 0, 0] high [0, 1, 0, 0]
// CHECK-NEXT: [[W:%[a-z0-9_]+]] = nn.constant dense<{{\[\[\[\[}}2]], {{\[\[}}0]]], {{\[\[\[}}3]], {{\[\[}}0]]]]>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = nn.conv2d [[V0]], [[W]]
// CHECK-NEXT: return [[V1]]
func.func @input(%x: !x) -> !y {
  // DOC-BEFORE
  %w = nn.constant dense<[[[[2]]], [[[3]]]]> : tensor<2x1x1x1xi8> : !w
  // expected-remark@+1 {{widen-convolution fired, exact}}
  %0 = nn.conv2d %x, %w : (!x, !w) -> !y
  // DOC-AFTER
  //   %1 = nn.pad %x low [0, 0, 0, 0] high [0, 1, 0, 0] : (!x) -> !two
  //   %2 = nn.constant dense<[[[[2]], [[0]]], [[[3]], [[0]]]]> : tensor<2x2x1x1xi8> : !wide
  //   %0 = nn.conv2d %1, %2 : (!two, !wide) -> !y
  // DOC-END
  return %0 : !y
}

// Zero points are codes that mean 0; the second one reads what the first one has before it is
// sliced; the value in between is used twice.
// CHECK-LABEL: func.func @result(
// CHECK: [[W:%[a-z0-9_]+]] = nn.constant dense<{{.*}}2]], {{\[\[}}0]]], {{\[\[\[}}3]], {{\[\[}}1]]], {{\[\[\[}}4]], {{\[\[}}2]]], {{\[\[\[}}2]], {{\[\[}}2]]]]> : tensor<4x2x1x1xi8>
// CHECK: [[B:%[a-z0-9_]+]] = nn.constant dense<[5, 6, 7, 0]>
// CHECK: [[V0:%[a-z0-9_]+]] = nn.conv2d {{.*}} -> tensor<1x4x4x4x
// CHECK: [[V1:%[a-z0-9_]+]] = nn.slice [[V0]] starts [0, 0, 0, 0] stops [1, 3, 4, 4]
// CHECK: [[V2:%[a-z0-9_]+]] = nn.conv2d [[V0]]
// CHECK: return [[V1]], [[V2]]
func.func @result(%x: !x) -> (!three, !y) {
  %w = nn.constant dense<[[[[2]]], [[[3]]], [[[4]]]]> : tensor<3x1x1x1xi8> : !rows
  %b = nn.constant dense<[5, 6, 7]> : tensor<3xi32> : !bias
  // expected-remark@+1 {{widen-convolution fired, exact}}
  %0 = nn.conv2d %x, %w, %b : (!x, !rows, !bias) -> !three
  %v = nn.constant dense<2> : tensor<2x3x1x1xi8> : !again
  // expected-remark@+1 {{widen-convolution fired, exact}}
  %1 = nn.conv2d %0, %v : (!three, !again) -> !y
  return %0, %1 : !three, !y
}

// CHECK-LABEL: func.func @dynamic(
// CHECK: nn.slice {{.*}} starts [0, 0, 0, 0] stops [9223372036854775807, 3, 9223372036854775807, 4]
func.func @dynamic(%x: !any) -> !any_y {
  %w = nn.constant dense<2> : tensor<3x1x1x1xi8> : !apart
  // expected-remark@+1 {{widen-convolution fired, exact}}
  %0 = nn.conv2d %x, %w : (!any, !apart) -> !any_y
  return %0 : !any_y
}

// CHECK-LABEL: func.func @refused(
// CHECK-NOT: nn.pad
func.func @refused(%x: !x, %three: !three, %w: !w) -> (!y, !y, !three) {
  // expected-remark@+1 {{widen-convolution refused [constant]: the weight or the bias is not constant}}
  %0 = nn.conv2d %x, %w : (!x, !w) -> !y
  %c = nn.constant dense<2> : tensor<2x1x1x1xi8> : !columns
  // expected-remark@+1 {{widen-convolution refused [grid]: parameters of the weight differ along its inputs}}
  %1 = nn.conv2d %x, %c : (!x, !columns) -> !y
  %d = nn.constant dense<2> : tensor<3x1x1x1xi8> : !apart
  // expected-remark@+1 {{widen-convolution refused [groups]: it has groups}}
  %2 = nn.conv2d %three, %d groups 3 : (!three, !apart) -> !three
  return %0, %1, %2 : !y, !y, !three
}

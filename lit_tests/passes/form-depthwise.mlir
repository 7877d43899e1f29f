// RUN: qopt-opt %s -p form-depthwise,dce --remarks --verify-diagnostics | filecheck %s

// Affine functions per channel become convolutions of one tap per channel.

!m = tensor<2x1xf32>
!v = tensor<2xf32>
!x = tensor<1x2x?x!quant.uniform<u8:f32, 0.5:100>>
!wide = tensor<1x2x?x!quant.uniform<u8:f32, 0.25:100>>
!y = tensor<1x2x?x!quant.uniform<u8:f32, 0.25:90>>
!a = tensor<1x2x?x!quant.uniform<u4:f32, 0.5:8>>
!b = tensor<1x2x?x!quant.uniform<u8:f32, 0.25:128>>
!w = tensor<2x1x1x!quant.uniform<i8:f32:0, {0.0078125,0.0078125}>>
!bias = tensor<2x!quant.uniform<i32:f32:0, {0.00390625,0.00390625}>>
!rows = tensor<1x2x?x!quant.uniform<u8:f32:1, {0.5:100,0.25:90}>>
!any = tensor<1x?x4x!quant.uniform<u8:f32, 0.5:100>>
!flat = tensor<4x2x!quant.uniform<u8:f32, 0.5:100>>

// CHECK-LABEL: func.func @batch_norm(
// CHECK-NEXT: [[W:%[a-z0-9_]+]] = nn.constant dense<{{\[\[\[64\]\], \[\[-64\]\]\]}}>
// CHECK-NEXT: [[B:%[a-z0-9_]+]] = nn.constant dense<[192, 0]>
// CHECK-NEXT: [[Y:%[a-z0-9_]+]] = nn.conv1d %{{.*}}, [[W]], [[B]] groups 2 {nn.key = "norm"}
// CHECK-NEXT: return [[Y]]
func.func @batch_norm(%x: !x) -> !y {
  %scale = nn.constant dense<[1.0, -1.5]> : !v : !v
  %bias = nn.constant dense<[1.25, 0.0]> : !v : !v
  %mean = nn.constant dense<[1.0, 0.0]> : !v : !v
  %variance = nn.constant dense<[4.0, 1.0]> : !v : !v
  // expected-remark@+1 {{affine-to-depthwise fired, exact}}
  %y = nn.batch_norm %x, %scale, %bias, %mean, %variance epsilon 0.0 {nn.key = "norm"} : (!x, !v, !v, !v, !v) -> !y
  func.return %y : !y
}

// What floats may decide otherwise is not exact: 0.05 is no float.
// CHECK-LABEL: func.func @ties(
// CHECK: nn.mul
func.func @ties(%x: !x) -> !y {
  %m = nn.constant dense<[[0.05], [-1.5]]> : !m : !m
  // expected-remark@+1 {{affine-to-depthwise refused [numerics]: would be ties, but only exact is allowed}}
  %0 = nn.mul %x, %m : (!x, !m) -> !y
  func.return %0 : !y
}

// The middle is used twice: the second of the ops only.
// CHECK-LABEL: func.func @multi_use(
// CHECK: [[A:%[a-z0-9_]+]] = nn.conv1d
// CHECK: [[B:%[a-z0-9_]+]] = nn.conv1d [[A]]
// CHECK: return [[A]], [[B]]
func.func @multi_use(%x: !x) -> (!wide, !wide) {
  %m = nn.constant dense<[[0.5], [-1.5]]> : !m : !m
  %c = nn.constant dense<[[1.5], [0.0]]> : !m : !m
  // expected-remark@+1 {{affine-to-depthwise fired, exact}}
  %0 = nn.mul %x, %m : (!x, !m) -> !wide
  // expected-remark@+1 {{affine-to-depthwise fired, exact}}
  %1 = nn.add %0, %c : (!wide, !m) -> !wide
  func.return %0, %1 : !wide, !wide
}

// CHECK-LABEL: func.func @per_axis(
// CHECK: nn.mul
func.func @per_axis(%x: !rows) -> !y {
  %m = nn.constant dense<[[0.5], [-1.5]]> : !m : !m
  // expected-remark@+1 {{affine-to-depthwise refused [grid]: the operand or the result has parameters per channel}}
  %0 = nn.mul %x, %m : (!rows, !m) -> !y
  func.return %0 : !y
}

// One number for all is no matter of channels.
// CHECK-LABEL: func.func @one_number(
// CHECK: nn.mul
func.func @one_number(%x: !x) -> !y {
  %m = nn.constant dense<0.5> : tensor<f32> : tensor<f32>
  %0 = nn.mul %x, %m : (!x, tensor<f32>) -> !y
  func.return %0 : !y
}

// CHECK-LABEL: func.func @unknown_channels(
// CHECK: nn.mul
func.func @unknown_channels(%x: !any) -> !any {
  %m = nn.constant dense<[[0.5], [-1.5]]> : !m : !m
  // expected-remark@+1 {{affine-to-depthwise refused [shape]: the number of channels is not known}}
  %0 = nn.mul %x, %m : (!any, !m) -> !any
  func.return %0 : !any
}

// CHECK-LABEL: func.func @no_window(
// CHECK: nn.mul
func.func @no_window(%x: !flat) -> !flat {
  %m = nn.constant dense<[0.5, -1.5]> : !v : !v
  // expected-remark@+1 {{affine-to-depthwise refused [shape]: no convolution has 2 dimensions}}
  %0 = nn.mul %x, %m : (!flat, !v) -> !flat
  func.return %0 : !flat
}

// Two roundings are not one.
// CHECK-LABEL: func.func @two_roundings(
// CHECK: nn.conv1d
// CHECK: nn.conv1d
func.func @two_roundings(%x: !x) -> !y {
  %m = nn.constant dense<[[0.125], [-0.375]]> : !m : !m
  %c = nn.constant dense<[[1.625], [0.0]]> : !m : !m
  // expected-remark@+1 {{affine-to-depthwise fired, exact}}
  %0 = nn.mul %x, %m : (!x, !m) -> !wide
  // expected-remark@+1 {{affine-to-depthwise fired, exact}}
  %1 = nn.add %0, %c : (!wide, !m) -> !y
  func.return %1 : !y
}

// CHECK-LABEL: func.func @chain(
// CHECK-COUNT-1: nn.conv1d
// CHECK-NEXT: return
func.func @chain(%x: !a) -> !y {
  // DOC-BEFORE
  %m = nn.constant dense<[[0.5], [-0.5]]> : !m : !m
  %c = nn.constant dense<[[1.5], [0.0]]> : !m : !m
  %0 = nn.mul %x, %m : (!a, !m) -> !b
  // expected-remark@+1 {{affine-to-depthwise fired, exact}}
  %1 = nn.add %0, %c : (!b, !m) -> !y
  // DOC-AFTER
  //   %2 = nn.constant dense<[[[64]], [[-64]]]> : tensor<2x1x1xi8> : !w
  //   %3 = nn.constant dense<[384, 0]> : tensor<2xi32> : !bias
  //   %1 = nn.conv1d %x, %2, %3 groups 2 : (!a, !w, !bias) -> !y
  // DOC-END
  func.return %1 : !y
}

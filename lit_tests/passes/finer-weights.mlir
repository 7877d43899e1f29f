// RUN: qopt-opt %s -p finer-weights --remarks --verify-diagnostics | filecheck %s
// RUN: qopt-opt %s -p finer-weights --verify-numerics=6 > %t
// RUN: qopt-opt %s -p finer-weights > %t && qopt-opt %t -p finer-weights > %t.2 && diff %t %t.2

// Weights of few bits whose bias a runtime rounds.

!x = tensor<3x2x!quant.uniform<u8<0:3>:f32, 0.25>>
!y = tensor<3x1x!quant.uniform<u8:f32, 0.5>>
!w = tensor<1x2x!quant.uniform<i8<-1:1>:f32, 0.5>>
!finer = tensor<1x2x!quant.uniform<i8<-64:64>:f32, 0.0078125>>
!b = tensor<1xf32>
!wide = tensor<3x2x!quant.uniform<u8:f32, 0.25:7>>
!full = tensor<1x2x!quant.uniform<i8:f32, 0.5>>
!pixels = tensor<1x2x3x3x!quant.uniform<u8<0:15>:f32, 0.25>>
!rows = tensor<2x2x1x1x!quant.uniform<i8<-7:7>:f32:0, {0.5,0.25}>>
!result = tensor<1x2x3x3x!quant.uniform<u8:f32, 0.5>>
!moved = tensor<1x2x!quant.uniform<i8<-1:1>:f32, 0.5:1>>
!small = tensor<1x2x!quant.uniform<i8<-1:1>:f32, 1.0e-37>>

// CHECK-LABEL: func.func @product(
// CHECK: [[W:%[a-z0-9_]+]] = nn.constant dense<{{\[\[}}64, -64]]> : tensor<1x2xi8> : tensor<1x2x!quant.uniform<i8<-64:64>:f32, 7.812500e-03>>
// CHECK: nn.fully_connected {{%[a-z0-9_]+}}, [[W]]
func.func @product(%x: !x) -> !y {
  // DOC-BEFORE
  %b = nn.constant dense<[0.25]> : tensor<1xf32> : !b
  %w = nn.constant dense<[[1, -1]]> : tensor<1x2xi8> : !w
  // expected-remark@+1 {{finer-weights fired, exact}}
  %0 = nn.fully_connected %x, %w, %b : (!x, !w, !b) -> !y
  // DOC-AFTER
  //   %b = nn.constant dense<[0.25]> : tensor<1xf32> : !b
  //   %1 = nn.constant dense<[[64, -64]]> : tensor<1x2xi8> : !finer
  //   %0 = nn.fully_connected %x, %1, %b : (!x, !finer, !b) -> !y
  // DOC-END
  return %0 : !y
}

// Inputs of 8 bits: two products of 255 and 64 are less than 2^15. The codes decide, not the bounds.
// CHECK-LABEL: func.func @inputs(
// CHECK: dense<{{\[\[}}48, -32]]> {{.*}}<i8:f32, 3.125000e-02>>
func.func @inputs(%x: !wide) -> !y {
  %b = nn.constant dense<[0.3]> : tensor<1xf32> : !b
  %w = nn.constant dense<[[3, -2]]> : tensor<1x2xi8> : !full
  // expected-remark@+1 {{finer-weights fired, exact}}
  %0 = nn.fully_connected %x, %w, %b : (!wide, !full, !b) -> !y
  return %0 : !y
}

// CHECK-LABEL: func.func @rows(
// CHECK: dense<{{.*}}112]], {{\[\[}}-48]]]{{.*}} {3.125000e-02,1.562500e-02}>>
func.func @rows(%x: !pixels) -> !result {
  %b = nn.constant dense<[0.3, -0.7]> : tensor<2xf32> : tensor<2xf32>
  %w = nn.constant dense<[[[[7]], [[-3]]], [[[1]], [[0]]]]> : tensor<2x2x1x1xi8> : !rows
  // expected-remark@+1 {{finer-weights fired, exact}}
  %0 = nn.conv2d %x, %w, %b : (!pixels, !rows, tensor<2xf32>) -> !result
  return %0 : !result
}

// Full codes, and a bias that is codes, stay.
// CHECK-LABEL: func.func @stays(
// CHECK: dense<{{\[\[}}127, -2]]>
func.func @stays(%x: !x) -> !y {
  %b = nn.constant dense<[0.3]> : tensor<1xf32> : !b
  %w = nn.constant dense<[[127, -2]]> : tensor<1x2xi8> : !full
  %0 = nn.fully_connected %x, %w, %b : (!x, !full, !b) -> !y
  return %0 : !y
}

// CHECK-LABEL: func.func @refused(
// CHECK-NOT: 64
func.func @refused(%x: !x) -> (!y, !y, !y, !y) {
  %b = nn.constant dense<[0.3]> : tensor<1xf32> : !b
  %w = nn.constant dense<[[1, -1]]> : tensor<1x2xi8> : !w
  // expected-remark@+1 {{finer-weights refused [shared]: others read the weights}}
  %0 = nn.fully_connected %x, %w, %b : (!x, !w, !b) -> !y
  // expected-remark@+1 {{finer-weights refused [shared]: others read the weights}}
  %1 = nn.fully_connected %x, %w, %b : (!x, !w, !b) -> !y
  %v = nn.constant dense<[[1, -1]]> : tensor<1x2xi8> : !moved
  // expected-remark@+1 {{finer-weights refused [zero-point]: the weights have a zero point}}
  %2 = nn.fully_connected %x, %v, %b : (!x, !moved, !b) -> !y
  %u = nn.constant dense<[[1, -1]]> : tensor<1x2xi8> : !small
  // expected-remark@+1 {{finer-weights refused [scale]: the scale of the weights would lose bits}}
  %3 = nn.fully_connected %x, %u, %b : (!x, !small, !b) -> !y
  return %0, %1, %2, %3 : !y, !y, !y, !y
}

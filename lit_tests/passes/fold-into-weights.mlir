// RUN: qopt-opt %s -p 'fold-into-weights{numerics=ties}' --remarks --verify-diagnostics | filecheck %s
// RUN: qopt-opt %s -p 'fold-into-weights{numerics=ties},fold-into-weights{numerics=ties}' > %t.again
// RUN: filecheck %s < %t.again
// RUN: qopt-opt %s -p fold-into-weights | filecheck %s --check-prefix=EXACT

!x = tensor<3x2xf32>
!w = tensor<2x2xf32>
!b = tensor<2xf32>
!y = tensor<3x2xf32>
!one = tensor<f32>
!image = tensor<1x2x4x4xf32>
!k = tensor<2x2x1x1xf32>

// EXACT-LABEL: func.func @rounded(
// EXACT: nn.fully_connected
// EXACT-NEXT: nn.mul

// CHECK-LABEL: func.func @per_channel(
// CHECK: [[W:%[0-9a-z]+]] = nn.constant dense<{{\[\[}}5.000000e-01, 1.000000e+00], [6.000000e+00, 8.000000e+00]]>
// CHECK-NEXT: [[B:%[0-9a-z]+]] = nn.constant dense<[5.000000e-01, -2.000000e+00]>
// CHECK-NEXT: nn.fully_connected %{{.*}}, [[W]], [[B]] {nn.key = "scaled"}
// CHECK-NEXT: return
func.func @per_channel(%x: !x) -> !y {
  // DOC-BEFORE
  %w = nn.constant dense<[[1.0, 2.0], [3.0, 4.0]]> : !w : !w
  %b = nn.constant dense<[1.0, -1.0]> : !b : !b
  %m = nn.constant dense<[0.5, 2.0]> : !b : !b
  %0 = nn.fully_connected %x, %w, %b {nn.key = "fc"} : (!x, !w, !b) -> !y
  // expected-remark@+1 {{fold-into-weights fired, exact}}
  %1 = nn.mul %0, %m {nn.key = "scaled"} : (!y, !b) -> !y
  // DOC-AFTER
  //   %3 = nn.constant dense<[[0.5, 1.0], [6.0, 8.0]]> : !w : !w
  //   %4 = nn.constant dense<[0.5, -2.0]> : !b : !b
  //   %1 = nn.fully_connected %x, %3, %4 {nn.key = "scaled"} : (!x, !w, !b) -> !y
  // DOC-END
  func.return %1 : !y
}

// CHECK-LABEL: func.func @rounded(
// CHECK: nn.fully_connected
// CHECK-NEXT: return
func.func @rounded(%x: !x) -> !y {
  %w = nn.constant dense<0.1> : !w : !w
  %m = nn.constant dense<0.1> : !one : !one
  %0 = nn.fully_connected %x, %w : (!x, !w) -> !y
  // expected-remark@+1 {{fold-into-weights fired, ties}}
  %1 = nn.mul %0, %m : (!y, !one) -> !y
  func.return %1 : !y
}

// A batch norm makes the bias there was none of.
// CHECK-LABEL: func.func @batch_norm(
// CHECK: nn.constant dense<[4.000000e+00, 3.000000e+00]>
// CHECK-NEXT: nn.conv2d %{{.*}}, %{{.*}}, %{{.*}} {nn.key = "norm"} : (tensor<?x2x4x4xf32>, tensor<2x2x1x1xf32>, tensor<2xf32>) -> tensor<?x2x4x4xf32>
// CHECK-NEXT: return
func.func @batch_norm(%x: tensor<?x2x4x4xf32>) -> tensor<?x2x4x4xf32> {
  %k = nn.constant dense<1.0> : !k : !k
  %s = nn.constant dense<[2.0, 1.0]> : !b : !b
  %m = nn.constant dense<[-1.0, -1.0]> : !b : !b
  %v = nn.constant dense<[1.0, 0.25]> : !b : !b
  %o = nn.constant dense<[2.0, 1.0]> : !b : !b
  %0 = nn.conv2d %x, %k {nn.key = "conv"} : (tensor<?x2x4x4xf32>, !k) -> tensor<?x2x4x4xf32>
  // expected-remark@+1 {{fold-into-weights fired, exact}}
  %1 = nn.batch_norm %0, %s, %o, %m, %v epsilon 0.0 {nn.key = "norm"} : (tensor<?x2x4x4xf32>, !b, !b, !b, !b) -> tensor<?x2x4x4xf32>
  func.return %1 : tensor<?x2x4x4xf32>
}

// Links go one after another.
// CHECK-LABEL: func.func @chain(
// CHECK: nn.constant dense<5.000000e+00>
// CHECK-NEXT: nn.conv2d {{.*}} {nn.key = "last"}
// CHECK-NEXT: return
func.func @chain(%x: !image) -> !image {
  %k = nn.constant dense<1.0> : !k : !k
  %two = nn.constant dense<2.0> : !one : !one
  %five = nn.constant dense<5.0> : !one : !one
  %0 = nn.conv2d %x, %k : (!image, !k) -> !image
  // expected-remark@+1 {{fold-into-weights fired, exact}}
  %1 = nn.mul %0, %two : (!image, !one) -> !image
  // expected-remark@+1 {{fold-into-weights fired, exact}}
  %2 = nn.sub %five, %1 {nn.key = "last"} : (!one, !image) -> !image
  func.return %2 : !image
}

// CHECK-LABEL: func.func @matmul(
// CHECK: nn.matmul
// CHECK-NEXT: nn.add
// CHECK-NEXT: return
func.func @matmul(%x: !x) -> !y {
  %w = nn.constant dense<1.0> : !w : !w
  %two = nn.constant dense<2.0> : !one : !one
  %0 = nn.matmul %x, %w : (!x, !w) -> !y
  // expected-remark@+1 {{fold-into-weights fired, exact}}
  %1 = nn.mul %0, %two : (!y, !one) -> !y
  // expected-remark@+1 {{[bias]: 'nn.matmul' has no bias to add to}}
  %2 = nn.add %1, %two : (!y, !one) -> !y
  func.return %2 : !y
}

// CHECK-LABEL: func.func @refused(
// CHECK: nn.mul
// CHECK: nn.mul
// CHECK: nn.mul
// CHECK: nn.hard_sigmoid
// CHECK: nn.mul
func.func @refused(%x: !x, %v: !w, %c: !b) -> (!y, !y, !y, !y, !y, !y) {
  %w = nn.constant dense<1.0> : !w : !w
  %two = nn.constant dense<2.0> : !one : !one
  %rows = nn.constant dense<[[1.0], [2.0], [3.0]]> : tensor<3x1xf32> : tensor<3x1xf32>
  %0 = nn.fully_connected %x, %w : (!x, !w) -> !y
  // expected-remark@+1 {{[multi-use]: the product is also used as it is}}
  %1 = nn.mul %0, %two : (!y, !one) -> !y
  %2 = nn.fully_connected %x, %v : (!x, !w) -> !y
  // expected-remark@+1 {{[weight]: the weights are no constant}}
  %3 = nn.mul %2, %two : (!y, !one) -> !y
  %4 = nn.fully_connected %x, %w : (!x, !w) -> !y
  // expected-remark@+1 {{[axis]: the numbers differ along another dimension than channels}}
  %5 = nn.mul %4, %rows : (!y, tensor<3x1xf32>) -> !y
  %6 = nn.fully_connected %x, %w : (!x, !w) -> !y
  // expected-remark@+1 {{[clamp]: it also limits its result}}
  %7 = nn.hard_sigmoid %6 : (!y) -> !y
  %8 = nn.fully_connected %x, %w, %c : (!x, !w, !b) -> !y
  // expected-remark@+1 {{[bias]: the bias is no constant}}
  %9 = nn.mul %8, %two : (!y, !one) -> !y
  func.return %0, %1, %3, %5, %7, %9 : !y, !y, !y, !y, !y, !y
}

// CHECK-LABEL: func.func @shapes(
// CHECK: nn.mul
// CHECK: nn.mul
// CHECK: nn.mul
func.func @shapes(%x: tensor<1x2xf32>, %y: tensor<1x2x2x2xf32>) -> (!y, tensor<1x4x2x2xf32>, tensor<1x2xf32>) {
  %w = nn.constant dense<1.0e30> : !w : !w
  %rows = nn.constant dense<2.0> : !y : !y
  %0 = nn.fully_connected %x, %w : (tensor<1x2xf32>, !w) -> tensor<1x2xf32>
  // expected-remark@+1 {{[shape]: the result has another type than the product}}
  %1 = nn.mul %0, %rows : (tensor<1x2xf32>, !y) -> !y
  %k = nn.constant dense<1.0> : tensor<2x2x1x1xf32> : tensor<2x2x1x1xf32>
  %four = nn.constant dense<[[[1.0]], [[2.0]], [[3.0]], [[4.0]]]> : tensor<4x1x1xf32> : tensor<4x1x1xf32>
  %2 = nn.conv_transpose2d %y, %k groups 2 : (tensor<1x2x2x2xf32>, tensor<2x2x1x1xf32>) -> tensor<1x4x2x2xf32>
  // expected-remark@+1 {{[groups]: groups share the channels of the weights}}
  %3 = nn.mul %2, %four : (tensor<1x4x2x2xf32>, tensor<4x1x1xf32>) -> tensor<1x4x2x2xf32>
  %4 = nn.fully_connected %x, %w : (tensor<1x2xf32>, !w) -> tensor<1x2xf32>
  %huge = nn.constant dense<1.0e30> : !one : !one
  // expected-remark@+1 {{[overflow]: a weight or bias would not be finite}}
  %5 = nn.mul %4, %huge : (tensor<1x2xf32>, !one) -> tensor<1x2xf32>
  func.return %1, %3, %5 : !y, tensor<1x4x2x2xf32>, tensor<1x2xf32>
}

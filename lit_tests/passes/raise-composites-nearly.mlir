// RUN: qopt-opt %s -p 'raise-composites{numerics=ties}' --remarks --verify-diagnostics | filecheck %s

// What is nearly a composite stays in pieces. A remark tells the condition that failed.

!x = tensor<2x8xf32>
!c = tensor<2x1xf32>
!n = tensor<f32>
!i = tensor<1x4x6x6xf32>
!y = tensor<3x1x1x2xf32>

// CHECK-LABEL: func.func @softmax(
// CHECK-NOT: nn.softmax
func.func @softmax(%x: !x) -> !x {
  %0 = nn.reduce_max %x axes [1] : (!x) -> !c
  %1 = nn.sub %x, %0 : (!x, !c) -> !x
  %2 = nn.exp %1 : (!x) -> !x
  %3 = nn.reduce_sum %2 axes [0] : (!x) -> tensor<1x8xf32>
  // expected-remark@+1 {{raise-function refused [nearly]: nearly 'nn.softmax', but 'nn.reduce_sum' has axes (0,), not (1,)}}
  %4 = nn.div %2, %3 : (!x, tensor<1x8xf32>) -> !x
  func.return %4 : !x
}

// CHECK-LABEL: func.func @reduce_mean(
// CHECK-NOT: nn.reduce_mean
func.func @reduce_mean(%x: !x) -> !c {
  %n = nn.constant dense<7.0> : !n : !n
  %0 = nn.reduce_sum %x axes [1] : (!x) -> !c
  // expected-remark@+1 {{raise-function refused [nearly]: nearly 'nn.reduce_mean', but a number is 7, not 8}}
  %1 = nn.div %0, %n : (!c, !n) -> !c
  func.return %1 : !c
}

// CHECK-LABEL: func.func @swish(
// CHECK-NOT: nn.swish
func.func @swish(%x: !x, %z: !x) -> !x {
  %a = nn.constant dense<1.5> : !n : !n
  %0 = nn.mul %z, %a : (!x, !n) -> !x
  %1 = nn.sigmoid %0 : (!x) -> !x
  // expected-remark@+1 {{raise-function refused [nearly]: nearly 'nn.swish', but an argument is not the value that the op has there}}
  %2 = nn.mul %1, %x : (!x, !x) -> !x
  func.return %2 : !x
}

// CHECK-LABEL: func.func @hard_swish(
// CHECK-NOT: nn.hard_swish
func.func @hard_swish(%x: !x) -> !x {
  %three = nn.constant dense<3.0> : !n : !n
  %five = nn.constant dense<5.0> : !n : !n
  %0 = nn.add %x, %three : (!x, !n) -> !x
  %1 = nn.clip %0 min 0.0 max 6.0 : (!x) -> !x
  %2 = nn.mul %x, %1 : (!x, !x) -> !x
  // expected-remark@+1 {{raise-function refused [nearly]: nearly 'nn.hard_swish', but a factor is 0.2, not 0.166667}}
  %3 = nn.div %2, %five : (!x, !n) -> !x
  func.return %3 : !x
}

// CHECK-LABEL: func.func @hard_sigmoid(
// CHECK-NOT: nn.hard_sigmoid
func.func @hard_sigmoid(%x: !x) -> !x {
  %a = nn.constant dense<[[0.5], [0.25]]> : !c : !c
  %b = nn.constant dense<0.5> : !n : !n
  %0 = nn.mul %x, %a : (!x, !c) -> !x
  %1 = nn.add %0, %b : (!x, !n) -> !x
  // expected-remark@+1 {{raise-function refused [nearly]: nearly 'nn.hard_sigmoid', but 'nn.constant' is not a constant number}}
  %2 = nn.clip %1 min 0.0 max 1.0 : (!x) -> !x
  func.return %2 : !x
}

// CHECK-LABEL: func.func @gelu_tanh(
// CHECK-NOT: nn.gelu
func.func @gelu_tanh(%x: !x) -> !x {
  %a = nn.constant dense<0.044715> : !n : !n
  %b = nn.constant dense<0.79788456> : !n : !n
  %one = nn.constant dense<1.0> : !n : !n
  %half = nn.constant dense<0.5> : !n : !n
  %0 = nn.mul %x, %x : (!x, !x) -> !x
  %1 = nn.mul %0, %a : (!x, !n) -> !x
  %2 = nn.add %x, %1 : (!x, !x) -> !x
  %3 = nn.mul %2, %b : (!x, !n) -> !x
  %4 = nn.tanh %3 : (!x) -> !x
  %5 = nn.add %4, %one : (!x, !n) -> !x
  %6 = nn.mul %x, %half : (!x, !n) -> !x
  // expected-remark@+1 {{raise-function refused [nearly]: nearly 'nn.gelu', but 'nn.mul' has other operands}}
  %7 = nn.mul %6, %5 : (!x, !x) -> !x
  func.return %7 : !x
}

// CHECK-LABEL: func.func @lrn(
// CHECK-NOT: nn.lrn
func.func @lrn(%x: !i) -> !i {
  %a = nn.constant dense<0.5> : !n : !n
  %b = nn.constant dense<2.0> : !n : !n
  %0 = nn.mul %x, %x : (!i, !i) -> !i
  %1 = nn.unsqueeze %0 axes [1] : (!i) -> tensor<1x1x4x6x6xf32>
  %2 = nn.avg_pool3d %1 kernel [3, 1, 1] strides [1, 1, 1] pads [1, 0, 0, 1, 0, 0] : (tensor<1x1x4x6x6xf32>) -> tensor<1x1x4x6x6xf32>
  %3 = nn.squeeze %2 axes [1] : (tensor<1x1x4x6x6xf32>) -> !i
  %4 = nn.mul %3, %a : (!i, !n) -> !i
  %5 = nn.add %4, %b : (!i, !n) -> !i
  %6 = nn.pow %5 exponent -0.75 : (!i) -> !i
  // expected-remark@+1 {{raise-function refused [nearly]: nearly 'nn.lrn', but 'nn.avg_pool3d' has count_include_pad False, not True}}
  %7 = nn.mul %x, %6 : (!i, !i) -> !i
  func.return %7 : !i
}

// CHECK-LABEL: func.func @conv2d(
// CHECK: nn.conv2d %{{.*}}, %{{.*}} : (
func.func @conv2d(%x: !i, %w: tensor<4x4x1x1xf32>, %b: tensor<1x1x1x6xf32>) -> !i {
  %0 = nn.conv2d %x, %w : (!i, tensor<4x4x1x1xf32>) -> !i
  // expected-remark@+1 {{raise-function refused [nearly]: nearly 'nn.conv2d', but an argument gives tensor<1x1x1x6xf32>, not one number for each channel}}
  %1 = nn.add %0, %b : (!i, tensor<1x1x1x6xf32>) -> !i
  func.return %1 : !i
}

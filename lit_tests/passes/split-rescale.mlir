// RUN: qopt-opt %s -p 'split-rescale{numerics=bounded}' --remarks --verify-diagnostics | filecheck %s

// What rounds is a rescale behind the op, which is exact on 32-bit integers.

!a = tensor<4x4x!quant.uniform<i8:f32, 0.5:3>>
!b = tensor<4x4x!quant.uniform<i8:f32, 0.25>>
!c = tensor<4x4x!quant.uniform<i8:f32, 2.0:-7>>
!products = tensor<4x4x!quant.uniform<i32:f32, 0.125>>

// CHECK-LABEL: func.func @product(
// CHECK-NEXT: nn.mul {{.*}} {nn.key = "m"} : {{.*}} -> tensor<4x4x!quant.uniform<i32:f32, 1.250000e-01>>
// CHECK-NEXT: quant.rescale {{.*}} rounding half_up {nn.key = "m"} : {{.*}} to tensor<4x4x!quant.uniform<i8:f32, 2.000000e+00:-7>>
// CHECK-NEXT: return
func.func @product(%x: !a, %y: !b) -> !c {
  // expected-remark@+1 {{split-exact fired, exact}}
  %0 = nn.mul %x, %y rounding half_up {nn.key = "m"} : (!a, !b) -> !c
  func.return %0 : !c
}


// The example of the pass.
// CHECK-LABEL: func.func @example(
// CHECK-NEXT: nn.mul
// CHECK-NEXT: quant.rescale
func.func @example(%x: !a, %y: !b) -> !c {
  // DOC-BEFORE
  // expected-remark@+1 {{split-exact fired, exact}}
  %1 = nn.mul %x, %y : (!a, !b) -> !c
  // DOC-AFTER
  //   %0 = nn.mul %x, %y : (!a, !b) -> !products
  //   %1 = quant.rescale %0 : !products to !c
  // DOC-END
  func.return %1 : !c
}

// Scales per channel go to the sum; used twice, the result is still one value.
// CHECK-LABEL: func.func @convolution(
// CHECK-NEXT: %[[S:.*]] = nn.conv2d {{.*}} -> tensor<1x2x4x4x!quant.uniform<i32:f32:1, {2.500000e-01,5.000000e-01}>>
// CHECK-NEXT: %[[R:.*]] = quant.rescale %[[S]]
// CHECK-NEXT: return %[[R]], %[[R]]
func.func @convolution(%x: tensor<1x3x4x4x!quant.uniform<u8:f32, 0.5:128>>, %w: tensor<2x3x1x1x!quant.uniform<i8:f32:0, {0.5, 1.0}>>) -> (tensor<1x2x4x4x!quant.uniform<u8:f32, 3.0>>, tensor<1x2x4x4x!quant.uniform<u8:f32, 3.0>>) {
  // expected-remark@+1 {{split-contraction fired, exact}}
  %0 = nn.conv2d %x, %w : (tensor<1x3x4x4x!quant.uniform<u8:f32, 0.5:128>>, tensor<2x3x1x1x!quant.uniform<i8:f32:0, {0.5, 1.0}>>) -> tensor<1x2x4x4x!quant.uniform<u8:f32, 3.0>>
  func.return %0, %0 : tensor<1x2x4x4x!quant.uniform<u8:f32, 3.0>>, tensor<1x2x4x4x!quant.uniform<u8:f32, 3.0>>
}

// Terms of different scales come on one: the factors are whole numbers, so nothing else rounds.
// CHECK-LABEL: func.func @sum(
// CHECK-NEXT: quant.rescale %{{.*}} rounding half_up multiplier [{{[0-9]+}}] shift [9] : {{.*}}!quant.uniform<i32:f32
// CHECK-NEXT: quant.rescale %{{.*}} rounding half_up multiplier [{{[0-9]+}}] shift [9] : {{.*}}!quant.uniform<i32:f32
// CHECK-NEXT: nn.add
// CHECK-NEXT: quant.rescale
func.func @sum(%x: tensor<?x!quant.uniform<i8:f32, 0.3:3>>, %y: tensor<?x!quant.uniform<i8:f32, 0.1>>) -> tensor<?x!quant.uniform<i8:f32, 0.35>> {
  // expected-remark@+1 {{split-aligned fired, exact}}
  %0 = nn.add %x, %y : (tensor<?x!quant.uniform<i8:f32, 0.3:3>>, tensor<?x!quant.uniform<i8:f32, 0.1>>) -> tensor<?x!quant.uniform<i8:f32, 0.35>>
  func.return %0 : tensor<?x!quant.uniform<i8:f32, 0.35>>
}

// CHECK-LABEL: func.func @refused(
// CHECK-NEXT: nn.fully_connected
// CHECK-NEXT: nn.matmul
// CHECK-NEXT: return
func.func @refused(%x: tensor<2x70000x!quant.uniform<i8:f32, 0.5>>, %w: tensor<3x70000x!quant.uniform<i16:f32, 0.5>>, %l: tensor<4x?x!quant.uniform<i8:f32, 0.5>>, %r: tensor<?x4x!quant.uniform<i8:f32, 0.5>>) -> (tensor<2x3x!quant.uniform<i8:f32, 0.5>>, tensor<4x4x!quant.uniform<i8:f32, 0.5>>) {
  // expected-remark@+1 {{split-contraction refused [overflow]: a sum of products may leave 32 bits}}
  %0 = nn.fully_connected %x, %w : (tensor<2x70000x!quant.uniform<i8:f32, 0.5>>, tensor<3x70000x!quant.uniform<i16:f32, 0.5>>) -> tensor<2x3x!quant.uniform<i8:f32, 0.5>>
  // expected-remark@+1 {{split-contraction refused [overflow]: a sum of products may leave 32 bits}}
  %1 = nn.matmul %l, %r : (tensor<4x?x!quant.uniform<i8:f32, 0.5>>, tensor<?x4x!quant.uniform<i8:f32, 0.5>>) -> tensor<4x4x!quant.uniform<i8:f32, 0.5>>
  func.return %0, %1 : tensor<2x3x!quant.uniform<i8:f32, 0.5>>, tensor<4x4x!quant.uniform<i8:f32, 0.5>>
}

// Products whose scale no f32 holds, and a step that is too fine for one.
// CHECK-LABEL: func.func @scales(
// CHECK-NEXT: nn.mul
// CHECK-NEXT: nn.matmul
// CHECK-NEXT: nn.global_avg_pool2d
// CHECK-NEXT: nn.add
// CHECK-NEXT: return
!huge = tensor<4x4x!quant.uniform<i8:f32, 1.0e30>>
!tiny = tensor<1x2x3x3x!quant.uniform<i8:f32, 1.5e-45>>
!mean = tensor<1x2x1x1x!quant.uniform<i8:f32, 1.5e-45>>
!row = tensor<4x4x!quant.uniform<i8:f32, 1.5e-45>>
!double = tensor<4x4x!quant.uniform<i8:f32, 3.0e-45>>
func.func @scales(%x: !huge, %y: !tiny, %z: !row, %w: !double) -> (!huge, !huge, !mean, !row) {
  // expected-remark@+1 {{split-exact refused [scale]}}
  %0 = nn.mul %x, %x : (!huge, !huge) -> !huge
  // expected-remark@+1 {{split-contraction refused [scale]: a scale would leave the range of f32}}
  %1 = nn.matmul %x, %x : (!huge, !huge) -> !huge
  // expected-remark@+1 {{split-exact refused [scale]}}
  %2 = nn.global_avg_pool2d %y : (!tiny) -> !mean
  // expected-remark@+1 {{split-aligned refused [scale]}}
  %3 = nn.add %z, %w : (!row, !double) -> !row
  func.return %0, %1, %2, %3 : !huge, !huge, !mean, !row
}

// What has no integers, or a scale per channel, is not summed in 32 bits; a bias of products
// that no f32 counts is not looked at.
// CHECK-LABEL: func.func @operands(
// CHECK-NEXT: nn.matmul
// CHECK-NEXT: nn.add
// CHECK-NEXT: nn.add
// CHECK-NEXT: nn.reduce_sum
// CHECK-NEXT: nn.constant
// CHECK-NEXT: nn.fully_connected
// CHECK-NEXT: return
!q = tensor<4x4x!quant.uniform<i8:f32, 0.5>>
!rows = tensor<4x4x!quant.uniform<i8:f32:0, {0.5, 0.25, 1.0, 2.0}>>
!sums = tensor<4x1x!quant.uniform<i8:f32, 0.5>>
!f8 = tensor<4x4x!quant.uniform<f8E4M3FN:f32, 0.5>>
func.func @operands(%x: !rows, %y: !q, %z: !f8, %t: !row) -> (!q, !q, !q, !sums, !row) {
  // expected-remark@+1 {{split-contraction refused [float]: not all operands are integers}}
  %0 = nn.matmul %y, %z : (!q, !f8) -> !q
  // expected-remark@+1 {{split-exact refused [float]: not all operands are integers}}
  %1 = nn.add %y, %z : (!q, !f8) -> !q
  // expected-remark@+1 {{split-exact refused [axis]: an operand is not quantized per tensor}}
  %2 = nn.add %y, %x : (!q, !rows) -> !q
  // expected-remark@+1 {{split-exact refused [axis]: an operand is not quantized per tensor}}
  %3 = nn.reduce_sum %x axes [1] : (!rows) -> !sums
  %b = nn.constant dense<1.0> : tensor<4xf32> : tensor<4xf32>
  // expected-remark@+1 {{split-contraction refused [scale]: a scale would leave the range of f32}}
  %4 = nn.fully_connected %t, %t, %b : (!row, !row, tensor<4xf32>) -> !row
  func.return %0, %1, %2, %3, %4 : !q, !q, !q, !sums, !row
}

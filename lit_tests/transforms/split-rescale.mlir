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
